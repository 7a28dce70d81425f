/* The operators: a row each, and the builder that records it on a tape.
 *
 * Shapes: B batch, T positions, N = B*T rows, C width, H heads, D = C/H head size, V vocabulary or classes.
 * A value of shape (N, C) and one of shape (B, T, C) are the same to every operator that works on rows. One
 * file per operator, forward and backward together; a new one is declared here and in the table of ops.c. */
#ifndef TRAIN_OPS_OPS_H
#define TRAIN_OPS_OPS_H

#include "ops/activation.h"
#include "tensor/tape.h"

/* y = x w' + bias: x (N, C_in), w (C_out, C_in), bias (C_out) or NULL. */
extern const tape_op op_linear_row;
tape_value *op_linear(tape *t, tape_value *x, tape_value *w, tape_value *bias);

/* y_n = table[tokens_n]: tokens TAPE_INTS (B, T), table (V, C). A token outside 0..V-1 gives NaN. */
extern const tape_op op_embedding_row;
tape_value *op_embedding(tape *t, tape_value *tokens, tape_value *table);

/* y = x / sqrt(mean(x^2) + eps) over runs of `width` elements of a row (C, or D for QK-norm); no parameters. */
extern const tape_op op_rmsnorm_row;
tape_value *op_rmsnorm(tape *t, tape_value *x, int64_t width, double eps);

/* y = gain (x - mean)/sqrt(var + eps) + shift over rows; shift may be NULL. */
extern const tape_op op_layernorm_row;
tape_value *op_layernorm(tape *t, tape_value *x, tape_value *gain, tape_value *shift, double eps);

/* Rotary embedding of x (B, T, C) with heads of size D: each pair (x_i, x_{i + D/2}) of a head is rotated by the
 * angle position * base^(-2i/D). */
extern const tape_op op_rotary_row;
tape_value *op_rotary(tape *t, tape_value *x, int64_t head_size, double base);

/* softmax(q k' / sqrt(D)) v for each head; q, k, v (B, T, C), three different values. Causal or full. Never holds
 * more than a block of rows of one head's T x T matrix per thread; backward recomputes them. */
extern const tape_op op_attention_row;
tape_value *op_attention(tape *t, tape_value *q, tape_value *k, tape_value *v, int64_t head_size, bool causal);

/* y = f(x), f a row of activation.h. */
extern const tape_op op_activation_row;
tape_value *op_activation(tape *t, tape_value *x, const activation *f);

/* y = a + b. */
extern const tape_op op_add_row;
tape_value *op_add(tape *t, tape_value *a, tape_value *b);

/* Mean over rows of the cross-entropy of softmax(x w' + bias) against targets (TAPE_INTS, N; a negative target is
 * left out), with label smoothing s: target distribution (1-s) one-hot + s/V. Soft targets: with weights
 * (TAPE_FLOATS, N x V; NULL: none) row n's distribution is (1-s) weights_n + s/V; targets then only decide which rows
 * count, and what is a hit. Output layer and loss are one operator: logits exist for a chunk of rows at a time, and
 * in training the gradients are computed from the same logits (forward_backward), so that nothing is computed
 * twice; so it can be trained as the target of a plan only. w and bias (which may be NULL) are parameters, w
 * perhaps an embedding table too. Shape (3): loss, hits, rows. A target of V or more makes the loss NaN. */
extern const tape_op op_cross_entropy_row;
tape_value *op_cross_entropy(tape *t, tape_value *x, tape_value *w, tape_value *bias, tape_value *targets,
                             tape_value *weights, double smoothing);

/* y = factor x. */
extern const tape_op op_factor_row;
tape_value *op_factor(tape *t, tape_value *x, double factor);

/* y_b = x_b + p for each of the B samples of x: p has the shape of a sample (positions (T, C), say), a parameter or
 * not. */
extern const tape_op op_add_each_row;
tape_value *op_add_each(tape *t, tape_value *x, tape_value *p);

/* y (B, 1 + T, C): before the T positions of each sample of x (B, T, C) comes `token` (C). */
extern const tape_op op_prepend_row;
tape_value *op_prepend(tape *t, tape_value *x, tape_value *token);

/* y (B, C): position `position` of each sample of x (B, T, C). */
extern const tape_op op_pick_row;
tape_value *op_pick(tape *t, tape_value *x, int64_t position);

/* y (B, C): the mean over the positions of each sample of x (B, T, C). */
extern const tape_op op_mean_positions_row;
tape_value *op_mean_positions(tape *t, tape_value *x);

/* In training, each element is zero with probability `rate` < 1 (a multiple of 2^-16), and else x / (1 - rate); y = x
 * in evaluation. B is the first dimension: the mask is a function of seed, sample index, result and element. */
extern const tape_op op_dropout_row;
tape_value *op_dropout(tape *t, tape_value *x, double rate);

/* Stochastic depth: in training, each sample of x is zero as a whole with probability `rate` < 1, and else
 * x / (1 - rate); y = x in evaluation. Samples as in op_dropout. */
extern const tape_op op_drop_samples_row;
tape_value *op_drop_samples(tape *t, tape_value *x, double rate);

/* ---- Images: x (B, H, W, C), channels last ---- */

/* y[b, i, j, o] = bias[o] + sum over u, v, c of w[o, c, u, v] x[b, i stride + u - pad, j stride + v - pad, c], zero
 * outside of the image: w (C_out, C_in, kh, kw), a parameter or a buffer; bias (C_out) or NULL; pad less than kh and
 * kw. */
extern const tape_op op_convolution_row;
tape_value *op_convolution(tape *t, tape_value *x, tape_value *w, tape_value *bias, int64_t stride, int64_t pad);

/* y = f(scale (x - mean)/sqrt(var + eps) + shift) for each channel over all rows, with the batch's mean and var in
 * training, else the buffers `mean` and `var`, of which each step of training keeps the part `momentum`. scale, shift
 * and the activation f may be NULL. */
extern const tape_op op_batchnorm_row;
tape_value *op_batchnorm(tape *t, tape_value *x, tape_value *scale, tape_value *shift, tape_value *mean,
                         tape_value *var, const activation *f, double momentum, double eps);

/* The largest of each size x size square; pixels at the end that fill no square are left out. */
extern const tape_op op_max_pool_row;
tape_value *op_max_pool(tape *t, tape_value *x, int64_t size);

/* y (B, T, C size^2): the T = H/size x W/size squares of each image, row by row, each as a line in the order of a
 * convolution's weights: y[b, (i, j), (c, u, v)] = x[b, i size + u, j size + v, c]. So op_linear of y with a matrix
 * of C_out x (C size^2) is the convolution with that kernel and stride. size divides H and W. */
extern const tape_op op_patches_row;
tape_value *op_patches(tape *t, tape_value *x, int64_t size);

/* x in another shape with as many elements: a view. */
extern const tape_op op_reshape_row;
tape_value *op_reshape(tape *t, tape_value *x, int ndim, const int64_t *shape);

/* Row i of all operators, NULL past the last: for tests. */
const tape_op *op_at(int i);

/* For builders: records a node whose result has the shape of its first input. */
static inline tape_value *op_record(tape *t, const tape_node *n)
{
    return tape_record(t, n, n->in[0]->ndim, n->in[0]->shape);
}

#endif
