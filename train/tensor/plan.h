/* The inside of a tape and of its memory plan, shared by tape.c, plan.c and their tests; nobody else includes
 * this. How planning works is told at the top of plan.c. */
#ifndef TRAIN_TENSOR_PLAN_H
#define TRAIN_TENSOR_PLAN_H

#include "tensor/tape.h"

enum { PLAN_ALIGN = 64 }; /* bytes: a cache line, and the widest vector */

typedef enum plan_what { PLAN_FORWARD, PLAN_RECOMPUTE, PLAN_BACKWARD } plan_what;

/* Events are numbered from 0; a span is from event `first` to event `last`, both included. */
typedef struct plan_event {
    plan_what what;
    int64_t node;
} plan_event;

typedef struct plan_span {
    int64_t first, last;
} plan_span;

/* An array and when it holds something that will be read: two spans if it is computed twice. */
typedef struct plan_array {
    size_t bytes;  /* a multiple of PLAN_ALIGN; 0: there is no such array */
    size_t offset; /* in the block */
    int spans;
    plan_span span[2];
    int64_t number; /* in the list of arrays to place */
} plan_array;

typedef struct plan_value {
    plan_array data, grad;
    int64_t home;       /* the value in whose data array this one lives: itself, or another's in place */
    int64_t maker;      /* the node that computes it; -1: an input or a parameter */
    bool requires_grad; /* the loss depends on it, and it on a parameter: it has a gradient */
} plan_value;

typedef struct plan_node {
    plan_array saved;
    bool backward;  /* runs backwards */
    bool recompute; /* its forward pass runs a second time, in the backward pass */
    bool needs_grad[TAPE_INPUTS];
    bool accumulate[TAPE_INPUTS];
} plan_node;

typedef struct plan {
    plan_value *value; /* as the tape's values */
    plan_node *node;   /* as the tape's nodes */
    plan_event *event;
    int64_t values, nodes, events;
    int64_t forward; /* the first `forward` events are the forward pass */
    size_t scratch;  /* offset of the scratch memory */
    size_t bytes;    /* of the block: planned arrays, then inputs, then scratch */
} plan;

/* A growing list of pointers, each of which the tape owns. */
typedef struct tape_list {
    void **item;
    int64_t count, capacity;
} tape_list;

struct tape {
    tape_list values, nodes;
    tape_list params; /* those of the values that are parameters: not owned */
    int segments;     /* of recomputation so far */
    bool recomputing; /* between begin and end */
    const tape_value *last_param;
    int64_t elements; /* of all parameters */
    scion_error failure;
    /* Set by tape_plan */
    plan plan;
    tape_mode mode;
    int threads;
    tape_value *loss;
    char *block;
};

static inline tape_node *tape_node_of(const tape *t, int64_t i)
{
    return t->nodes.item[i];
}

static inline tape_value *tape_value_of(const tape *t, int64_t i)
{
    return t->values.item[i];
}

/* Plans for the recorded tape, which must not have failed. On failure p is empty. */
scion_status plan_make(plan *p, const tape *t, const tape_value *loss, tape_mode mode, int threads, scion_error *err);
void plan_free(plan *p);

#endif
