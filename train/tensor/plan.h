/* A plan computes one value of a recorded tape, its target: a loss, to train or to evaluate, or the logits. It runs
 * only the operations that the target needs, and places all arrays in one block of memory, which later arrays reuse;
 * a step then allocates nothing:
 *
 *     tape_plan *p;
 *     plan_make(&p, t, loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 4}, &err);
 *     ... plan_bytes(p) ...
 *     plan_commit(p, NULL, &err);
 *     tape_bind(t, weights, grads, NULL);
 *     for (;;) { fill plan_value(p, tokens)->ints ...;  plan_forward(p, &run);  plan_backward(p, &run);  step }
 *
 * Gradients of parameters are ADDED to, already by plan_forward if the target's operator has forward_backward: clear
 * them before it.
 *
 * The tape must outlive its plans, and nothing is recorded on it after the first plan. Plans of one tape run one
 * after another. */
#ifndef TRAIN_TENSOR_PLAN_H
#define TRAIN_TENSOR_PLAN_H

#include "tensor/tape.h"

typedef enum plan_mode { PLAN_INFERENCE, PLAN_TRAINING } plan_mode;

typedef struct plan_options {
    plan_mode mode; /* inference: no gradients, activations live as briefly as possible */
    int threads;
    bool pack; /* keep packed weights from run to run, valid until the weights change (tape_run.same_weights) */
    bool bf16; /* training: store activations as bfloat16 until the backward pass, in half the memory */
    scion_dtype compute; /* SCION_BF16: products round their operands to bfloat16 (tape_op) */
} plan_options;

typedef struct tape_plan tape_plan;

/* Decides when each operation runs and where each array lives; allocates only its own description. The target is any
 * result. SCION_EINVAL: an error of recording, or an operator without a backward pass between target and parameter.
 * */
scion_status plan_make(tape_plan **out, const tape *t, const tape_value *target, const plan_options *o,
                       scion_error *err);
void plan_free(tape_plan *p);

/* The tape that it was made of. */
const tape *plan_tape(const tape_plan *p);

/* Bytes of all but parameters and buffers; how many of them hold nothing between two runs; and how many packed
 * weights take. */
size_t plan_bytes(const tape_plan *p);
size_t plan_passing_bytes(const tape_plan *p);
size_t plan_packed_bytes(const tape_plan *p);
/* Memory for plans, to be freed; NULL: out of memory, err says so. */
char *plan_allocate(size_t bytes, scion_error *err);
/* Takes the memory. `passing`: plan_passing_bytes of plan_allocate, which outlive p, and in which other plans may run
 * while this one does not; NULL: memory of its own. Inputs are zero afterwards. Call it once. */
scion_status plan_commit(tape_plan *p, char *passing, scion_error *err);

/* This plan's copy of a recorded value, with its memory (parameters and buffers: the recorded value itself). An input
 * that the target does not need has no memory: data and ints are NULL. Results: see plan_forward, plan_watch. */
tape_value *plan_value(const tape_plan *p, const tape_value *recorded);
/* This plan's nodes in the order of the forward pass; NULL past the last. */
const tape_node *plan_node_at(const tape_plan *p, int64_t i);
/* The node that computes the target. */
const tape_node *plan_target(const tape_plan *p);

/* Operations of one forward pass; and of a pass of training: three times that, and recomputation. */
double plan_flops(const tape_plan *p);
double plan_training_flops(const tape_plan *p);
/* Time at which run->complete is called for a parameter, for comparison with that of others: smaller is earlier. -1:
 * the target does not depend on the parameter. PLAN_TRAINING only. */
int64_t plan_completion(const tape_plan *p, const tape_value *param);

/* forward returns element 0 of the target, whose data can be read until the next run (other results: only inside a
 * run). backward needs PLAN_TRAINING and one forward pass before each call: it overwrites that pass's activations. */
float plan_forward(tape_plan *p, const tape_run *run);
void plan_backward(tape_plan *p, const tape_run *run);

/* plan_forward of a loss from logits that another plan of the tape has computed with the same inputs and weights: the
 * same bits, for the work of the loss alone. Overwrites the logits. Runs the whole plan if the operator cannot. */
float plan_forward_logits(tape_plan *p, const tape_run *run, float *logits);

/* After plan_forward of a loss: rows that counted, and how many of them were predicted right. */
void plan_score(const tape_plan *p, double *hits, double *rows);

/* Runs the forward pass again with the present inputs and weights, without gradients and without changing buffers,
 * and calls `watch` for each node before the memory of its result is reused (its inputs are there too, unless the
 * operator works in place). Stops at the node for which `watch` returns false, and returns it; NULL: none did. */
typedef bool plan_watcher(void *context, const tape_node *n);
const tape_node *plan_watch(tape_plan *p, const tape_run *run, plan_watcher *watch, void *context);
/* Name of the first result, in forward order, that is not finite, or NULL: "linear blocks.3.attn.q", or "add after
 * blocks.3.attn.o" for a node without parameters. Runs plan_watch. */
const char *plan_first_nonfinite(tape_plan *p, const tape_run *run);

#endif
