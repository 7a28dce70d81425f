/* The inside of a plan, for plan.c and its tests; all others use plan.h. */
#ifndef TRAIN_TENSOR_PLAN_STRUCT_H
#define TRAIN_TENSOR_PLAN_STRUCT_H

#include "tensor/plan.h"

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
