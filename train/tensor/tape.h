/* The tape: a network as a list of operations, recorded once, run many times, forwards and backwards.
 *
 * A model records its operations for one shape of batch (tape_ints, tape_param, then the builders of
 * ops/ops.h); tape_plan gives every array its place in one block of memory, reusing what is no longer
 * needed; after that a step allocates nothing:
 *
 *     tape *t = tape_create();
 *     ... record ...
 *     tape_plan(t, loss, TAPE_TRAIN, threads, &err);
 *     tape_bind(t, weights, grads);
 *     tape_run run = {.threads = threads, .training = true, .loss_scale = 1};
 *     for (;;) { fill the inputs;  tape_forward(t, &run);  tape_backward(t, &run);  step }
 *
 * Weights are one flat array of the caller's and gradients another, in the order in which the parameters
 * were declared; parameters are views into them. Backward ADDS to the parameters' gradients. */
#ifndef TRAIN_TENSOR_TAPE_H
#define TRAIN_TENSOR_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

enum { TAPE_DIMS = 4, TAPE_INPUTS = 4 };

typedef enum tape_kind { TAPE_ACTIVATION, TAPE_PARAM, TAPE_FLOATS, TAPE_INTS } tape_kind;

typedef struct tape_value {
    char name[64]; /* a result is called after its operator and the last parameter used so far */
    int64_t index; /* among all values, in the order of recording */
    tape_kind kind;
    int ndim;
    int64_t shape[TAPE_DIMS];
    int64_t count; /* product of the shape */
    float *data;   /* set by tape_plan (parameters: by tape_bind) */
    float *grad;   /* the same; NULL where no gradient is wanted */
    int32_t *ints; /* TAPE_INTS: filled by the caller */
    /* Parameters */
    scion_role role;
    bool transposed; /* stored d_in x d_out: an embedding table */
    bool zero_start; /* initialised to zero instead of on the boundary */
    int64_t offset;  /* of its first element in the flat arrays */
} tape_value;

typedef struct tape_node tape_node;
typedef struct tape tape;

/* How one pass runs. */
typedef struct tape_run {
    int threads;      /* as many as were planned, or fewer (more are cut to that) */
    bool training;    /* the loss operators compute gradients in the forward pass only if set; an operator that
                         will be recomputed sees it unset the first time */
    float loss_scale; /* 1 / number of micro-batches: multiplies the gradient of the loss, not the loss */
    float *scratch;   /* set by tape_forward and tape_backward: tape_op.scratch floats */
} tape_run;

/* One row per operator. forward reads in[]->data and writes out->data (and saved); backward reads out->grad
 * and writes in[i]->grad where needs_grad[i], or adds to it where accumulate[i] (else it is not read). The same
 * value may be several inputs of a node, so gradients are written in the order of the inputs, one after another.
 * saved and scratch are asked once, by tape_plan, and may look at needs_grad (all false in TAPE_INFER). */
typedef struct tape_op {
    const char *name;
    void (*forward)(const tape_node *n, const tape_run *run);
    void (*backward)(const tape_node *n, const tape_run *run);
    size_t (*saved)(const tape_node *n);                /* floats kept from forward to backward; NULL: 0 */
    size_t (*scratch)(const tape_node *n, int threads); /* floats during forward or backward; NULL: 0 */
    double (*flops)(const tape_node *n);                /* of the forward pass, multiply-adds count 2; NULL: 0 */
    unsigned backward_reads;                            /* bit i: in[i]->data; TAPE_READS_OUT: out->data */
    bool in_place; /* forward works with out->data == in[0]->data: done where nobody reads in[0] afterwards */
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
    int segment;       /* of recomputation, from 1; 0: kept */
    /* Set by tape_plan */
    float *saved;                 /* NULL: none */
    bool needs_grad[TAPE_INPUTS]; /* backward writes the gradient of in[i] */
    bool accumulate[TAPE_INPUTS]; /* ... and adds to it; false at an activation's first use in backward order */
};

tape *tape_create(void); /* NULL: out of memory */
void tape_free(tape *t);

/* Inputs of a batch, filled by the caller before each forward pass; zero after tape_plan. */
tape_value *tape_ints(tape *t, const char *name, int ndim, const int64_t *shape);
tape_value *tape_floats(tape *t, const char *name, int ndim, const int64_t *shape);

/* A parameter. Names are unique, of the form "blocks.3.attn.q", at most 63 bytes long. */
tape_value *tape_param(tape *t, const char *name, scion_role role, int ndim, const int64_t *shape);

/* Records an operation (used by the builders of ops.h): shape of the result, then its inputs (NULL: absent).
 * The node may be completed (reals, ints, fixed) until tape_plan. All builders return NULL, and remember the
 * error, once something failed: check tape_failed before or in tape_plan. */
tape_node *tape_record(tape *t, const tape_op *op, int ndim, const int64_t *shape, tape_value *const *in, int inputs);
/* Remembers the first error of recording. */
void tape_fail(tape *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tape_failed(const tape *t); /* NULL: no error */

/* What is recorded between begin and end is recomputed in the backward pass, as far as backward reads it,
 * instead of kept (for one transformer block, say). The last value recorded is kept, as is any other that is
 * used after `end` (right, but it saves less). Segments do not nest. */
void tape_recompute_begin(tape *t);
void tape_recompute_end(tape *t);

typedef enum tape_mode { TAPE_INFER, TAPE_TRAIN } tape_mode;

/* Plans and allocates one block, in which everything but the parameters lives. TAPE_INFER: no
 * gradients, activations live as briefly as possible. loss is any result; its data, and what its operator saved,
 * can be read after tape_forward (other results: only inside a run). May be called again, after more was recorded
 * or for the other mode; on failure the earlier plan stays. SCION_EINVAL: what recording found wrong. */
scion_status tape_plan(tape *t, tape_value *loss, tape_mode mode, int threads, scion_error *err);
/* Bytes of the block that tape_plan would allocate (SIZE_MAX: tape_plan would fail before it allocates). */
size_t tape_plan_bytes(const tape *t, const tape_value *loss, tape_mode mode, int threads);

/* Parameters in order of declaration; their number, elements in all. */
tape_value *tape_param_at(const tape *t, int64_t i);
int64_t tape_param_count(const tape *t);
int64_t tape_param_elements(const tape *t);
/* Points all parameters into flat arrays of tape_param_elements floats (grads may be NULL for TAPE_INFER). Before
 * or after tape_plan, and again whenever the arrays move. */
void tape_bind(tape *t, float *weights, float *grads);

/* Node i in the order of the forward pass, NULL past the last (to find the first bad layer, to measure). */
const tape_node *tape_node_at(const tape *t, int64_t i);

/* Runs. forward returns the loss (element 0 of the loss value). backward needs TAPE_TRAIN and a forward pass with
 * run->training before it, once each: it overwrites what that pass left. */
float tape_forward(tape *t, tape_run *run);
void tape_backward(tape *t, tape_run *run);

/* Operations of one forward pass; a training step counts three times that. */
double tape_flops(const tape *t);

/* Runs the forward pass again with the present inputs and weights, without gradients, and shows each node to `look`
 * before the memory of its result is used again (its inputs are there too, unless the operator works in place). Ends
 * at the node for which `look` returns false, and returns it; NULL: none did. */
typedef bool tape_look(void *context, const tape_node *n);
const tape_node *tape_watch(tape *t, tape_run *run, tape_look *look, void *context);
/* Name of the result of the first node, in forward order, that is not finite, or NULL: "linear blocks.3.attn.q", or
 * "add after blocks.3.attn.o" for a node without parameters. A run of tape_watch. */
const char *tape_first_nonfinite(tape *t, tape_run *run);

#endif
