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

/* The tape that it was made of. */
const tape *plan_tape(const tape_plan *p);

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

/* Operations of one forward pass. Training counts three times that, and what it recomputes: plan_training_flops. */
double plan_flops(const tape_plan *p);
double plan_training_flops(const tape_plan *p);
/* Orders parameters by the time at which run->complete is called: the smaller number is complete first, equal ones
 * together. -1: the target does not depend on the parameter. PLAN_TRAINING only. */
int64_t plan_completion(const tape_plan *p, const tape_value *param);

/* Runs. forward returns element 0 of the target, whose data can be read until the next run (other results: only
 * inside a run). backward needs PLAN_TRAINING and a forward pass before it, once each: it overwrites what that pass
 * left. */
float plan_forward(tape_plan *p, const tape_run *run);
void plan_backward(tape_plan *p, const tape_run *run);

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

#endif
