/* The inside of a plan, for plan.c and its tests; all others use plan.h. */
#ifndef TRAIN_TENSOR_PLAN_STRUCT_H
#define TRAIN_TENSOR_PLAN_STRUCT_H

#include "tensor/plan.h"

enum {
    PLAN_ALIGN = 64, /* bytes: a cache line, and the widest vector */
    PLAN_SPANS = 4   /* computed; recomputed or loaded; each perhaps with another value's span in place */
};

typedef enum plan_event_kind {
    PLAN_FORWARD,
    PLAN_FUSED,     /* forward_backward of the target */
    PLAN_RECOMPUTE, /* forward again, in the backward pass */
    PLAN_BACKWARD,
    PLAN_STORE, /* a value's data to bfloat16: for products, or to wait for the backward pass */
    PLAN_LOAD   /* and back */
} plan_event_kind;

typedef struct plan_event {
    plan_event_kind kind;
    int64_t index; /* of the node, or of the value to store or load */
} plan_event;

/* From event `first` to event `last`, both included; events are numbered from 0. */
typedef struct plan_span {
    int64_t first, last;
} plan_span;

/* An array, and the spans in which its content will still be read. */
typedef struct plan_array {
    size_t bytes;  /* a multiple of PLAN_ALIGN; 0: no array */
    size_t offset; /* in the block */
    int spans;
    plan_span span[PLAN_SPANS];
    int64_t number; /* in the list of arrays to place */
} plan_array;

/* A value. A view uses only `own`, `root` and `needed`: its arrays are its root's. */
typedef struct plan_entry {
    tape_value own; /* the copy with this plan's pointers */
    plan_array data, grad;
    plan_array stored;  /* data as bfloat16 */
    bool loaded;        /* data waits in `stored` for the backward pass */
    bool floats;        /* data is read as float32 */
    int64_t root;       /* the value that it is a view of; itself: no view */
    int64_t home;       /* the value whose data array holds this one: itself, or another (in place) */
    int64_t maker;      /* the node that computes it; -1: an input, a parameter or a buffer */
    bool needed;        /* by the target */
    bool requires_grad; /* the target depends on it, and it on a parameter: it has a gradient */
    int64_t last_forward, first_backward; /* events that use the data of the forward pass; -1: none */
    int64_t last_gradient;                /* a parameter's: the last event that adds to it */
} plan_entry;

typedef struct plan_node {
    tape_node own;
    plan_array saved;
    plan_array packed; /* lives as long as the plan */
    bool backward;     /* has a backward event */
    bool fused;        /* the target, run by forward_backward */
    bool recompute;    /* runs forward again in the backward pass */
} plan_node;

struct tape_plan {
    const tape *tape;
    plan_options options;
    plan_entry *value; /* as the tape's values */
    plan_node *node;   /* nodes that the target needs, without views */
    plan_event *event;
    int64_t values, nodes, events;
    int64_t forward;          /* the first `forward` events are the forward pass */
    int64_t target;           /* value */
    size_t scratch;           /* offset of the scratch memory */
    size_t packed;            /* bytes of packed weights */
    size_t passing;           /* bytes of planned arrays and scratch */
    size_t bytes;             /* in all: with inputs and packed weights */
    char *memory;             /* of what passes, the caller's or own_passing; NULL: not committed */
    char *own_passing, *kept; /* kept: what lives as long as the plan, from offset `passing` on */
};

/* Runs event e; run comes from plan_prepare. */
void plan_run_event(tape_plan *p, int64_t e, const tape_run *run);
/* Fills in scratch and mode, and limits threads to the plan's. */
tape_run plan_prepare(tape_plan *p, const tape_run *run);

#endif
