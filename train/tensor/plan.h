/* A plan computes one value of a recorded tape, its target: a loss, to train or to evaluate, or the logits. It runs
 * only what the target needs, and gives every array its place in one block of memory, reusing what is no longer
 * needed; after that a step allocates nothing:
 *
 *     tape_plan *p;
 *     plan_make(&p, t, loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 4}, &err);
 *     ... plan_bytes(p) ...
 *     plan_commit(p, &err);
 *     tape_bind(t, weights, grads, NULL);
 *     for (;;) { fill plan_value(p, tokens)->ints ...;  plan_forward(p, &run);  plan_backward(p, &run);  step }
 *
 * Gradients of parameters are ADDED to, by forward already if the target's operator has forward_backward: clear them
 * before forward.
 *
 * The tape outlives its plans, and nothing is recorded on it after the first. Plans of one tape run one after
 * another. */
#ifndef TRAIN_TENSOR_PLAN_H
#define TRAIN_TENSOR_PLAN_H

#include "tensor/tape.h"

typedef enum plan_mode { PLAN_INFERENCE, PLAN_TRAINING } plan_mode;

typedef struct plan_options {
    plan_mode mode; /* inference: no gradients, activations live as briefly as possible */
    int threads;
    bool pack; /* memory for packed weights, which then serve until they change (tape_run.same_weights) */
    bool bf16; /* training: activations that wait for the backward pass wait as bfloat16, in half the memory */
} plan_options;

typedef struct tape_plan tape_plan;

/* Decides what is computed when and what lives where; allocates only its own description. The target is any result.
 * SCION_EINVAL: what recording found wrong, or an operator without a backward pass on the way to a parameter. */
scion_status plan_make(tape_plan **out, const tape *t, const tape_value *target, const plan_options *o,
                       scion_error *err);
void plan_free(tape_plan *p);

/* Bytes of the block in which everything but parameters and buffers lives. */
size_t plan_bytes(const tape_plan *p);
/* Bytes of these that packed weights take. */
size_t plan_packed_bytes(const tape_plan *p);
/* Allocates it. Inputs are zero afterwards. Call it once. */
scion_status plan_commit(tape_plan *p, scion_error *err);

/* This plan's copy of a recorded value, with its memory (parameters and buffers: the recorded value itself). An input
 * that the target does not need has none: data and ints are NULL. Data of results: see plan_forward, plan_watch. */
tape_value *plan_value(const tape_plan *p, const tape_value *recorded);
/* This plan's nodes in the order of the forward pass; NULL past the last. */
const tape_node *plan_node_at(const tape_plan *p, int64_t i);
/* The node that computes the target. */
const tape_node *plan_target(const tape_plan *p);

/* Operations of one forward pass; a training step counts three times that. */
double plan_flops(const tape_plan *p);

/* Runs. forward returns element 0 of the target, whose data can be read until the next run (other results: only
 * inside a run). backward needs PLAN_TRAINING and a forward pass before it, once each: it overwrites what that pass
 * left. */
float plan_forward(tape_plan *p, const tape_run *run);
void plan_backward(tape_plan *p, const tape_run *run);

/* The same, and tells of each parameter as soon as nothing more will be added to its gradient; those that the target
 * alone uses come first. */
typedef void plan_complete(void *context, const tape_value *param);
void plan_backward_told(tape_plan *p, const tape_run *run, plan_complete *complete, void *context);

/* plan_forward of a loss whose logits another plan of the tape has computed of the same inputs and weights: the same
 * bits, and the work of the loss alone. Spoils them. An operator that needs more than logits runs the whole plan. */
float plan_forward_logits(tape_plan *p, const tape_run *run, float *logits);

/* After plan_forward of a loss: rows that counted, and of these the ones predicted right. */
void plan_score(const tape_plan *p, double *hits, double *rows);

/* Runs the forward pass again with the present inputs and weights, without gradients and without changing buffers,
 * and shows each node to `look` before the memory of its result is used again (its inputs are there too, unless the
 * operator works in place). Ends at the node for which `look` returns false, and returns it; NULL: none did. */
typedef bool plan_look(void *context, const tape_node *n);
const tape_node *plan_watch(tape_plan *p, const tape_run *run, plan_look *look, void *context);
/* Name of the result of the first node, in forward order, that is not finite, or NULL: "linear blocks.3.attn.q", or
 * "add after blocks.3.attn.o" for a node without parameters. A run of plan_watch. */
const char *plan_first_nonfinite(tape_plan *p, const tape_run *run);

/* ---- The inside of a plan, for plan.c and its tests ----------------------------------------------------- */

enum {
    PLAN_ALIGN = 64, /* bytes: a cache line, and the widest vector */
    PLAN_SPANS = 4   /* computed, computed again or loaded, each perhaps with another value's in place */
};

typedef enum plan_what {
    PLAN_FORWARD,
    PLAN_FUSED,     /* forward_backward of the target */
    PLAN_RECOMPUTE, /* forward once more, in the backward pass */
    PLAN_BACKWARD,
    PLAN_STORE, /* a value's data to bfloat16 */
    PLAN_LOAD   /* and back */
} plan_what;

typedef struct plan_event {
    plan_what what;
    int64_t index; /* of the node, or of the value to store or load */
} plan_event;

/* From event `first` to event `last`, both included; events are numbered from 0. */
typedef struct plan_span {
    int64_t first, last;
} plan_span;

/* An array and when it holds something that will be read. */
typedef struct plan_array {
    size_t bytes;  /* a multiple of PLAN_ALIGN; 0: there is no such array */
    size_t offset; /* in the block */
    int spans;
    plan_span span[PLAN_SPANS];
    int64_t number; /* in the list of arrays to place */
} plan_array;

/* A value. Of a view only `own`, `root` and `needed` mean something: its arrays are those of its root. */
typedef struct plan_entry {
    tape_value own; /* the copy with this plan's pointers */
    plan_array data, grad;
    plan_array stored;  /* data as bfloat16 */
    int64_t root;       /* the value that it is a view of; itself: no view */
    int64_t home;       /* the value in whose data array this one lives: itself, or another's in place */
    int64_t maker;      /* the node that computes it; -1: an input, a parameter or a buffer */
    bool needed;        /* by the target */
    bool requires_grad; /* the target depends on it, and it on a parameter: it has a gradient */
    int64_t last_forward, first_backward; /* events that use the data that was computed first; -1: none */
    int64_t last_gradient;                /* a parameter's: the last event that adds to it */
} plan_entry;

typedef struct plan_node {
    tape_node own;
    plan_array saved;
    plan_array packed; /* lives for ever */
    bool backward;     /* runs backwards */
    bool fused;        /* the target, by forward_backward */
    bool recompute;    /* its forward pass runs a second time, in the backward pass */
} plan_node;

struct tape_plan {
    const tape *tape;
    plan_options options;
    plan_entry *value; /* as the tape's values */
    plan_node *node;   /* those that the target needs, without views */
    plan_event *event;
    int64_t values, nodes, events;
    int64_t forward; /* the first `forward` events are the forward pass */
    int64_t target;  /* value */
    size_t scratch;  /* offset of the scratch memory */
    size_t packed;   /* bytes of packed weights */
    size_t bytes;    /* of the block: planned arrays, then inputs, then packed weights, then scratch */
    char *block;     /* NULL: not committed */
};

/* Event e; run as plan_settle gives it. */
void plan_run_event(tape_plan *p, int64_t e, const tape_run *run);
/* What operators see: run, with the scratch memory, the mode, and within what was planned. */
tape_run plan_settle(tape_plan *p, const tape_run *run);

#endif
