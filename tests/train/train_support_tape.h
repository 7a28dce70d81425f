/* Shared by the tests of the tape: toy operators, a naive interpreter with separate arrays, and a run of a plan that
 * poisons dead memory. */
#ifndef TESTS_TRAIN_SUPPORT_TAPE_H
#define TESTS_TRAIN_SUPPORT_TAPE_H

#include "tensor/plan_struct.h"
#include "tensor/tape.h"

/* Elementwise, the result has the shape of a. The rows that end in _here may work in place. */
extern const tape_op toy_scale, toy_scale_here; /* c a */
extern const tape_op toy_mix, toy_mix_here;     /* c a + d b */
extern const tape_op toy_mul;                   /* a b: backward reads both inputs; uses scratch memory */
extern const tape_op toy_tanh, toy_tanh_here;   /* tanh(a): backward reads its own result */
extern const tape_op toy_cube, toy_cube_here;   /* a^3: saves 3 a^2 */
extern const tape_op toy_blind;                 /* a, without a backward pass */

tape_value *toy(tape *t, const tape_op *op, tape_value *a, tape_value *b, double c, double d);

/* Another number of elements: copies of a, or means of its elements. */
tape_value *toy_resize(tape *t, tape_value *a, int64_t count);
/* sum of a_i^2 / 2 */
tape_value *toy_energy(tape *t, tape_value *a);
/* sum of w_i a_i^2, w a parameter. Like the program's cross-entropy it computes its gradients with its value
 * (forward_backward) and has no backward. */
tape_value *toy_loss(tape *t, tape_value *a, tape_value *w);
/* a minus its mean in training, a minus the buffer `mean` (one element) otherwise. An update moves the buffer half of
 * the way to the mean. */
tape_value *toy_running_mean(tape *t, tape_value *a, tape_value *mean);
/* a, with half of the elements zero and the others doubled, in training: a function of the run and the node alone. */
tape_value *toy_dropout(tape *t, tape_value *a);
/* a in another shape: a view. */
tape_value *toy_view(tape *t, tape_value *a, int ndim, const int64_t *shape);

/* Short forms of recording. */
tape_value *toy_param(tape *t, const char *name, int64_t count);
tape_value *toy_input(tape *t, const char *name, int64_t count);

/* A committed plan; fails the test if there is none. */
tape_plan *toy_plan(const tape *t, const tape_value *target, plan_mode mode);

/* The loss, and the gradients of the parameters added to grads, with memory of its own for every value; inputs as the
 * plan has them. */
float naive_run(const tape *t, const tape_plan *p, const tape_value *loss, float scale, float *weights, float *grads);

/* The same through the plan, every byte of planned memory set to NaN as soon as the plan says that it is dead.
 * A plan for inference runs forwards only. */
float poisoned_run(tape_plan *p, const tape_run *run);

/* Random numbers: SCION_TEST_SEED replaces the seed, which is printed. */
uint64_t toy_seed(void);
int64_t toy_random(uint64_t *state, int64_t n);      /* 0 .. n-1 */
void toy_fill(uint64_t *state, int64_t n, float *x); /* in [-1, 1] */

/* A random network of about `nodes` toys, views among them, in which values stay within [-1, 1], and its loss. */
tape_value *toy_network(tape *t, uint64_t *state, int nodes, bool recompute);

#endif
