/* The tape: a network as a list of operations, recorded once for one shape of batch.
 *
 *     tape *t = tape_create();
 *     ... tape_ints, tape_param, then the builders of ops/ops.h ...
 *
 * A recording has shapes and operators; plan.h allocates its arrays and runs it: for training, for evaluation, or
 * only as far as one result needs. A recording may have several plans; they share its parameters and buffers and have
 * their own inputs and activations.
 *
 * The caller owns three flat arrays: weights, gradients and buffers, each in the order of declaration; parameters and
 * buffers are views into them (tape_bind). Weights and gradients are float32, or bfloat16 where every operator that
 * uses them supports it (tape_store). */
#ifndef TRAIN_TENSOR_TAPE_H
#define TRAIN_TENSOR_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bf16.h"
#include "scion.h"

enum { TAPE_DIMS = 4, TAPE_INPUTS = 8 };

typedef enum tape_kind {
    TAPE_ACTIVATION, /* the result of an operation */
    TAPE_PARAM,      /* a weight, with a gradient */
    TAPE_BUFFER,     /* state without a gradient: running statistics */
    TAPE_FLOATS,     /* an input of the batch */
    TAPE_INTS
} tape_kind;

typedef struct tape_value {
    char name[64]; /* a result is named after its operator and the last parameter used so far */
    int64_t index; /* among all values, in the order of recording */
    tape_kind kind;
    int ndim;
    int64_t shape[TAPE_DIMS];
    int64_t count;   /* product of the shape */
    bool used;       /* by a node */
    bool float_only; /* a node that uses it does not support bfloat16 parameters there */
    /* Memory. Parameters and buffers: set by tape_bind. Other values: set only in the plan's copy (plan_value). */
    float *data;
    float *grad;   /* NULL: not computed */
    int32_t *ints; /* TAPE_INTS: filled by the caller */
    /* Weights and gradient of a parameter stored as bfloat16; data or grad is NULL then, so that code without support
     * for it does not read something else. half of a result: data rounded to nearest, for products. */
    uint16_t *half, *half_grad;
    bool has_half, half_only; /* the plan's copy of a result has half; has it in place of data */
    /* Parameters and buffers */
    scion_role role;
    scion_role layer; /* a bias: role of its layer, HIDDEN unless set */
    bool transposed;  /* stored d_in x d_out: an embedding table */
    bool zero_start;  /* initialised to zero instead of on the boundary */
    float initial;    /* of every element of a buffer */
    bool running; /* a buffer: each micro-batch of training sets it to decay * itself + a statistic of the batch */
    double decay;
    int64_t offset;                     /* elements before it in the flat array */
    scion_dtype weight_type, grad_type; /* of storage */
    size_t weight_at, grad_at;          /* bytes before it in the flat arrays */
} tape_value;

typedef struct tape_node tape_node;
typedef struct tape tape;

/* Settings of one pass. An operator's result is a function of its inputs and of these. */
typedef struct tape_run {
    int threads;         /* at most as many as planned */
    float loss_scale;    /* 1 / number of micro-batches: multiplies the gradient of the loss, not the loss */
    uint64_t seed;       /* random numbers depend only on seed, step, sample and the node's out->index */
    int64_t step;        /* of the run */
    int64_t sample;      /* index of the batch's first sample in the whole run */
    bool same_weights;   /* parameters have not changed since the plan's last pass: packed weights are still valid */
    bool round_nearest;  /* of additions to bfloat16 gradients; else at random, by seed, step, sample and node */
    bool update_buffers; /* operators see it only in the first forward pass of training */
    /* Called by plan_backward with each parameter as soon as nothing more will be added to its gradient; parameters
     * that only the target uses come first. NULL: not called. */
    void (*complete)(void *context, const tape_value *param);
    void *complete_context;
    /* Set by the plan */
    bool training;  /* the plan's mode */
    float *scratch; /* tape_op.scratch floats */
} tape_run;

/* One row per operator. forward reads in[]->data and writes out->data (and saved, which is NULL if no backward
 * follows); backward reads out->grad, which it may overwrite, and writes in[i]->grad where needs_grad[i], or adds to
 * it where accumulate[i] (else it does not read it). A value may be several inputs of a node, so gradients are
 * written in the order of the inputs, one after another. saved and scratch are called once per plan and may read
 * needs_grad, compute, has_half and half_only.
 *
 * With compute = SCION_BF16 products round their operands to bfloat16. Results that are such operands exist rounded
 * (half) as soon as they are computed: the operator writes them so (half_out), or the plan rounds its float32. Where
 * nobody else reads a result, and its operator has half_out, it has no float32. */
typedef struct tape_op {
    const char *name;
    /* Writes an input of kind TAPE_BUFFER only if run->update_buffers. With run->training the result must not depend
     * on a buffer, because it may be computed twice. */
    void (*forward)(const tape_node *n, const tape_run *run);
    void (*backward)(const tape_node *n, const tape_run *run);
    /* Computes a loss and its gradient together; the gradient of out's first element is run->loss_scale. Used where
     * the node is the target of a training plan. An operator with this and without backward can only be a target. */
    void (*forward_backward)(const tape_node *n, const tape_run *run);
    /* forward of a loss that contains a layer, from the layer's result, which another plan computed; overwrites it.
     * NULL: not possible. */
    void (*forward_logits)(const tape_node *n, const tape_run *run, float *logits);
    size_t (*saved)(const tape_node *n);                /* floats kept from forward to backward; NULL: 0 */
    size_t (*scratch)(const tape_node *n, int threads); /* floats during forward or backward; NULL: 0 */
    size_t (*packed)(const tape_node *n, int threads);  /* floats for packed weights, kept from run to run; NULL: 0 */
    double (*flops)(const tape_node *n); /* operations of the forward pass, 2 per multiply-add; NULL: 0 */
    /* Loss, after forward: rows that counted, and how many of them were predicted right. NULL: one row, not right. */
    void (*score)(const tape_node *n, double *hits, double *rows);
    unsigned backward_reads; /* bit i: in[i]->data; TAPE_READS_OUT: out->data */
    unsigned float_reads;    /* those of them that it does not read with compute = SCION_BF16 */
    unsigned operands;       /* bit i: in[i] is read by products alone: with SCION_BF16 its half, if has_half */
    bool half_out;           /* forward writes out->half too if has_half, and out->data unless half_only */
    unsigned half_params;    /* bit i: in[i] may be a parameter with bfloat16 weights or gradient */
    int matrix;              /* the input that is the layer's matrix, 0: none */
    bool fused_layer;        /* out is the loss, not the layer's result in[0] in[matrix]' + in[matrix + 1] */
    bool in_place; /* forward works with out->data == in[0]->data; used where in[0] is not read afterwards */
    bool view;     /* out is in[0] in another shape: nothing is computed, data and gradient are shared */
} tape_op;

enum { TAPE_READS_OUT = 1 << TAPE_INPUTS };

struct tape_node {
    const tape_op *op;
    tape_value *in[TAPE_INPUTS]; /* NULL where an optional input is absent */
    int inputs;                  /* set by tape_record: up to the last that is present */
    tape_value *out;
    double reals[4];
    int64_t ints[4];
    const void *fixed; /* e.g. the activation's row */
    int segment;       /* of recomputation, from 1; 0: none */
    /* Set in the plan's copy of the node */
    scion_dtype compute;          /* type of the operands of products; sums are float32 */
    float *saved;                 /* NULL: none */
    float *packed;                /* tape_op.packed floats; NULL: none, weights are packed each time */
    bool needs_grad[TAPE_INPUTS]; /* backward writes the gradient of in[i] */
    bool accumulate[TAPE_INPUTS]; /* ... by adding to it; false at an activation's first use in backward order */
};

tape *tape_create(void); /* NULL: out of memory */
void tape_free(tape *t);

/* Inputs of a batch. The caller fills the plan's copies before each forward pass. */
tape_value *tape_ints(tape *t, const char *name, int ndim, const int64_t *shape);
tape_value *tape_floats(tape *t, const char *name, int ndim, const int64_t *shape);

/* A parameter, and a buffer whose elements start as `initial`. Names such as "blocks.3.attn.q" are unique among both
 * and have at most 63 bytes. */
tape_value *tape_param(tape *t, const char *name, scion_role role, int ndim, const int64_t *shape);
tape_value *tape_buffer(tape *t, const char *name, float initial, int ndim, const int64_t *shape);

/* Records an operation (used by the builders of ops.h) and returns its result, of that shape. The node gives op, in
 * (NULL: absent), reals, ints and fixed; it is copied. After an error all builders return NULL and the tape keeps the
 * first message: check tape_failed, or let plan_make do it. */
tape_value *tape_record(tape *t, const tape_node *like, int ndim, const int64_t *shape);
/* Sets the error of recording, unless one is set already. Returns NULL, so that builders can `return tape_fail(...)`.
 */
void *tape_fail(tape *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tape_failed(const tape *t); /* NULL: no error */
/* The same as a status; a segment that was not ended is an error too. */
scion_status tape_check(const tape *t, scion_error *err);

/* Values recorded between begin and end (one transformer block, say) are recomputed in the backward pass where it
 * reads them, instead of kept. The last value recorded is kept, as is any other that is used after `end` (correct,
 * but it saves less). Segments do not nest. */
void tape_recompute_begin(tape *t);
void tape_recompute_end(tape *t);

/* Parameters and buffers in order of declaration (NULL past the last), their number, and the sum of their elements.
 * */
tape_value *tape_param_at(const tape *t, int64_t i);
int64_t tape_param_count(const tape *t);
int64_t tape_param_elements(const tape *t);
tape_value *tape_buffer_at(const tape *t, int64_t i);
int64_t tape_buffer_count(const tape *t);
int64_t tape_buffer_elements(const tape *t);

/* Sets the storage type of weights and gradients, for every parameter whose operators all support it
 * (tape_op.half_params: the matrices of layers; vectors stay float32). Call it after recording and before the first
 * plan. */
void tape_store(tape *t, scion_dtype weights, scion_dtype grads);
/* Bytes of the flat arrays. */
size_t tape_weight_bytes(const tape *t);
size_t tape_grad_bytes(const tape *t);

/* Points all parameters and buffers into flat arrays of tape_weight_bytes and tape_grad_bytes bytes and
 * tape_buffer_elements floats, aligned as floats. Call it again whenever the arrays move. grads may be NULL if
 * nothing is trained, buffers if there are none. */
void tape_bind(tape *t, void *weights, void *grads, float *buffers);
/* Address of a parameter's weights and gradient, in whichever type. */
static inline void *tape_weights(const tape_value *v)
{
    return v->half ? (void *)v->half : v->data;
}
static inline void *tape_grads(const tape_value *v)
{
    return v->half_grad ? (void *)v->half_grad : v->grad;
}
/* n elements of a value from `first` on as float32: in place, or converted into `buffer`. A result's are those of the
 * plan's copy. */
const float *tape_floats_of(const tape_value *v, int64_t first, int64_t n, float *buffer);
/* Gives the bound buffers their initial values. */
void tape_init_buffers(tape *t);

/* Values and nodes in the order of recording. NULL past the last. */
int64_t tape_value_count(const tape *t);
tape_value *tape_value_at(const tape *t, int64_t i);
int64_t tape_node_count(const tape *t);
const tape_node *tape_node_at(const tape *t, int64_t i);

#endif
