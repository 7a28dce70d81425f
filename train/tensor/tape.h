/* The tape: a network as a list of operations, recorded once for one shape of batch.
 *
 *     tape *t = tape_create();
 *     ... tape_ints, tape_param, then the builders of ops/ops.h ...
 *
 * A recording is shapes and operators; plan.h gives its arrays memory and runs it, for training, for evaluation, or
 * only as far as some result needs. Several plans may be made of one recording; they share its parameters and buffers
 * and have their own inputs and activations.
 *
 * Weights are one flat array of the caller's, gradients another and buffers a third, each in the order of
 * declaration; parameters and buffers are views into them (tape_bind). Weights and gradients are float32, or bfloat16
 * where every operator that uses them can (tape_store). */
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
    TAPE_BUFFER,     /* state that is no gradient: running statistics */
    TAPE_FLOATS,     /* an input of the batch */
    TAPE_INTS
} tape_kind;

typedef struct tape_value {
    char name[64]; /* a result is called after its operator and the last parameter used so far */
    int64_t index; /* among all values, in the order of recording */
    tape_kind kind;
    int ndim;
    int64_t shape[TAPE_DIMS];
    int64_t count; /* product of the shape */
    /* Memory. Parameters and buffers: set by tape_bind. All others have it in the plan's copy of the value only
     * (plan_value). */
    float *data;
    float *grad;   /* NULL: none is computed */
    int32_t *ints; /* TAPE_INTS: filled by the caller */
    /* A parameter that is stored as bfloat16 has its weights here, its gradient there, and data or grad is NULL: who
     * does not know of it finds nothing, rather than something else. */
    uint16_t *half, *half_grad;
    /* Parameters and buffers */
    scion_role role;
    scion_role layer; /* a bias: role of the layer that it belongs to, HIDDEN unless set */
    bool transposed;  /* stored d_in x d_out: an embedding table */
    bool zero_start;  /* initialised to zero instead of on the boundary */
    float initial;    /* of every element of a buffer */
    bool moves;       /* a buffer that each micro-batch of training changes to keep times itself and a part of the */
    double keep;      /* batch; else it stays as it is */
    int64_t offset;   /* elements of those before it */
    scion_dtype weight_type, grad_type; /* how it is stored */
    size_t weight_at, grad_at;          /* bytes of those before it in the flat arrays */
} tape_value;

typedef struct tape_node tape_node;
typedef struct tape tape;

/* How one pass runs. An operator's result is a function of its inputs and of these. */
typedef struct tape_run {
    int threads;        /* as many as were planned, or fewer (more are cut to that) */
    float loss_scale;   /* 1 / number of micro-batches: multiplies the gradient of the loss, not the loss */
    uint64_t seed;      /* random numbers depend on the seed, the step, the sample, and the node's out->index alone */
    int64_t step;       /* of the run */
    int64_t sample;     /* index in the whole run of the batch's first sample */
    bool same_weights;  /* parameters are as in the plan's pass before: what was packed of them still holds */
    bool round_nearest; /* what is added to bfloat16 gradients; else at random, by seed, step, sample and node */
    bool update_buffers; /* the caller's wish; operators see it in the first forward pass of training only */
    /* Called by plan_backward with each parameter as soon as nothing more will be added to its gradient; parameters
     * that only the target uses come first. NULL: not called. */
    void (*complete)(void *context, const tape_value *param);
    void *complete_context;
    /* Set by the plan */
    bool training;  /* the mode: that of the plan */
    float *scratch; /* tape_op.scratch floats */
} tape_run;

/* One row per operator. forward reads in[]->data and writes out->data (and saved, which is NULL if no backward
 * follows); backward reads out->grad and writes in[i]->grad where needs_grad[i], or adds to it where accumulate[i]
 * (else it is not read). The same value may be several inputs of a node, so gradients are written in the order of
 * the inputs, one after another. saved and scratch are asked once per plan, and may look at needs_grad. */
typedef struct tape_op {
    const char *name;
    /* Writes an input of kind TAPE_BUFFER only if run->update_buffers, and with run->training does not let the result
     * depend on it: it may be computed twice. */
    void (*forward)(const tape_node *n, const tape_run *run);
    void (*backward)(const tape_node *n, const tape_run *run);
    /* For a loss whose gradient is best computed with its value: does the work of both, given that the gradient of
     * out's first element is run->loss_scale. Used if the node is the target of a plan for training. An operator that
     * has this and no backward can be a target only. */
    void (*forward_backward)(const tape_node *n, const tape_run *run);
    /* Of a loss with a layer in it: forward from that layer's result, which another plan computed and this spoils.
     * NULL: not possible. */
    void (*of_logits)(const tape_node *n, const tape_run *run, float *logits);
    size_t (*saved)(const tape_node *n);                /* floats kept from forward to backward; NULL: 0 */
    size_t (*scratch)(const tape_node *n, int threads); /* floats during forward or backward; NULL: 0 */
    size_t (*packed)(const tape_node *n, int threads);  /* floats for packed weights, kept from run to run; NULL: 0 */
    double (*flops)(const tape_node *n);                /* of the forward pass, multiply-adds count 2; NULL: 0 */
    /* Of a loss, after forward: rows that counted, and of these the ones predicted right. NULL: one row, none
     * right. */
    void (*score)(const tape_node *n, double *hits, double *rows);
    unsigned backward_reads; /* bit i: in[i]->data; TAPE_READS_OUT: out->data */
    unsigned half_params;    /* bit i: in[i] may be a parameter stored as bfloat16, weights or gradient or both */
    int matrix;              /* the input that is this layer's matrix, 0: it has none */
    bool fused_layer;        /* the layer's result in[0] in[matrix]' + in[matrix + 1] is not out: the loss is */
    bool in_place; /* forward works with out->data == in[0]->data: done where nobody reads in[0] afterwards */
    bool view; /* out is in[0] in another shape and of its kind: nothing is computed, data and gradient are shared */
} tape_op;

enum { TAPE_READS_OUT = 1 << TAPE_INPUTS };

struct tape_node {
    const tape_op *op;
    tape_value *in[TAPE_INPUTS]; /* NULL where an optional input is absent */
    int inputs;
    tape_value *out;
    double reals[4];
    int64_t ints[4];
    const void *fixed; /* e.g. the activation's row */
    int segment;       /* of recomputation, from 1; 0: none */
    /* Set in the plan's copy of the node */
    float *saved;                 /* NULL: none */
    float *packed;                /* tape_op.packed floats; NULL: none, weights are packed each time */
    bool needs_grad[TAPE_INPUTS]; /* backward writes the gradient of in[i] */
    bool accumulate[TAPE_INPUTS]; /* ... and adds to it; false at an activation's first use in backward order */
};

tape *tape_create(void); /* NULL: out of memory */
void tape_free(tape *t);

/* Inputs of a batch: the caller fills those of a plan before each forward pass. */
tape_value *tape_ints(tape *t, const char *name, int ndim, const int64_t *shape);
tape_value *tape_floats(tape *t, const char *name, int ndim, const int64_t *shape);

/* A parameter, and a buffer, all of whose elements start as `initial`. Names are unique among both, of the form
 * "blocks.3.attn.q", at most 63 bytes long. */
tape_value *tape_param(tape *t, const char *name, scion_role role, int ndim, const int64_t *shape);
tape_value *tape_buffer(tape *t, const char *name, float initial, int ndim, const int64_t *shape);

/* Records an operation (used by the builders of ops.h): shape of the result, then its inputs (NULL: absent).
 * The node may be completed (reals, ints, fixed) until a plan is made. All builders return NULL, and remember the
 * error, once something failed: check tape_failed, or let plan_make do it. */
tape_node *tape_record(tape *t, const tape_op *op, int ndim, const int64_t *shape, tape_value *const *in, int inputs);
/* Remembers the first error of recording. */
void tape_fail(tape *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tape_failed(const tape *t); /* NULL: no error */
/* The same as a status, also for a segment that was not ended. */
scion_status tape_check(const tape *t, scion_error *err);

/* What is recorded between begin and end is recomputed in the backward pass, as far as backward reads it,
 * instead of kept (for one transformer block, say). The last value recorded is kept, as is any other that is
 * used after `end` (right, but it saves less). Segments do not nest. */
void tape_recompute_begin(tape *t);
void tape_recompute_end(tape *t);

/* Parameters, and buffers, in order of declaration; their number, elements in all. NULL past the last. */
tape_value *tape_param_at(const tape *t, int64_t i);
int64_t tape_param_count(const tape *t);
int64_t tape_param_elements(const tape *t);
tape_value *tape_buffer_at(const tape *t, int64_t i);
int64_t tape_buffer_count(const tape *t);
int64_t tape_buffer_elements(const tape *t);

/* How weights and gradients are stored, of every parameter whose operators all take it so (tape_op.half_params: the
 * matrices of layers; vectors stay float32). Call it after recording and before the first plan, whose products depend
 * on it. */
void tape_store(tape *t, scion_dtype weights, scion_dtype grads);
/* Bytes of the flat arrays. */
size_t tape_weight_bytes(const tape *t);
size_t tape_grad_bytes(const tape *t);

/* Points all parameters and buffers into flat arrays of tape_weight_bytes and tape_grad_bytes bytes and
 * tape_buffer_elements floats, aligned as floats. Call it again whenever the arrays move. grads may be NULL if
 * nothing is trained, buffers if there are none. */
void tape_bind(tape *t, void *weights, void *grads, float *buffers);
/* Where the weights and the gradient of a parameter are, in whichever type. */
static inline void *tape_weights(const tape_value *v)
{
    return v->half ? (void *)v->half : v->data;
}
static inline void *tape_grads(const tape_value *v)
{
    return v->half_grad ? (void *)v->half_grad : v->grad;
}
/* n elements of a value from `first` on as float32: where they are, or in `buffer`. */
const float *tape_floats_of(const tape_value *v, int64_t first, int64_t n, float *buffer);
/* Gives the bound buffers their initial values. */
void tape_init_buffers(tape *t);

/* Values and nodes in the order of recording. NULL past the last. */
int64_t tape_value_count(const tape *t);
tape_value *tape_value_at(const tape *t, int64_t i);
int64_t tape_node_count(const tape *t);
const tape_node *tape_node_at(const tape *t, int64_t i);

#endif
