/* Laws of the memory plan: what lives at the same time does not overlap, what is called dead is never read (dead
 * memory is poisoned), results do not depend on the plan, and sizes are what can be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train_support_tape.h"

static const size_t LINE = PLAN_ALIGN; /* bytes of 16 floats, and of anything shorter */

static void must_plan(tape *t, tape_value *loss, tape_mode mode)
{
    scion_error err = {0};
    if (tape_plan(t, loss, mode, 1, &err))
        fail_msg("tape_plan: %s", err.message);
}

/* ---- Random networks ----------------------------------------------------------------------------------- */

static int64_t list_arrays(const plan *p, const plan_array **list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->values; i++) {
        if (p->value[i].data.bytes)
            list[n++] = &p->value[i].data;
        if (p->value[i].grad.bytes)
            list[n++] = &p->value[i].grad;
    }
    for (int64_t i = 0; i < p->nodes; i++) {
        if (p->node[i].saved.bytes)
            list[n++] = &p->node[i].saved;
    }
    return n;
}

static bool lives_at(const plan_array *a, int64_t event)
{
    for (int s = 0; s < a->spans; s++) {
        if (a->span[s].first <= event && event <= a->span[s].last)
            return true;
    }
    return false;
}

/* Event by event, byte by byte: nobody else has the byte. */
static void check_no_overlap(const plan *p)
{
    const plan_array *list[512];
    int64_t n = list_arrays(p, list);
    int64_t *owner = calloc(p->bytes, sizeof *owner);
    assert_non_null(owner);
    for (int64_t e = 0; e <= p->events; e++) {
        memset(owner, 0, p->bytes * sizeof *owner);
        for (int64_t i = 0; i < n; i++) {
            assert_true(list[i]->offset % PLAN_ALIGN == 0 && list[i]->offset + list[i]->bytes <= p->scratch);
            for (size_t b = 0; b < list[i]->bytes && lives_at(list[i], e); b++) {
                assert_int_equal(owner[list[i]->offset + b], 0);
                owner[list[i]->offset + b] = i + 1;
            }
        }
    }
    free(owner);
}

typedef struct arrays {
    float *weights, *planned, *naive;
    int64_t count;
} arrays;

static arrays make_arrays(const tape *t, uint64_t *state)
{
    arrays a = {.count = tape_param_elements(t)};
    a.weights = calloc((size_t)a.count, sizeof(float));
    a.planned = calloc((size_t)a.count, sizeof(float));
    a.naive = calloc((size_t)a.count, sizeof(float));
    assert_true(a.weights && a.planned && a.naive);
    toy_fill(state, a.count, a.weights);
    return a;
}

static void free_arrays(arrays *a)
{
    free(a->weights);
    free(a->planned);
    free(a->naive);
}

static void fill_inputs(tape *t, uint64_t *state)
{
    for (int64_t i = 0; i < t->values.count; i++) {
        tape_value *v = tape_value_of(t, i);
        if (v->kind == TAPE_FLOATS)
            toy_fill(state, v->count, v->data);
    }
}

/* The same sums in the same order, so every bit agrees; == only lets -0 pass for 0, which naive sums start from. */
static void check_same(const arrays *a, float loss, float naive_loss, int64_t trial)
{
    if (loss != naive_loss)
        fail_msg("network %d: loss %.9g, want %.9g", (int)trial, (double)loss, (double)naive_loss);
    for (int64_t i = 0; i < a->count; i++) {
        if (!(a->planned[i] == a->naive[i]))
            fail_msg("network %d: gradient %d is %.9g, want %.9g", (int)trial, (int)i, (double)a->planned[i],
                     (double)a->naive[i]);
    }
}

static void try_network(uint64_t *state, int64_t trial, bool recompute)
{
    tape *t = tape_create();
    tape_value *loss = toy_network(t, state, 3 + (int)toy_random(state, 40), recompute);
    assert_null(tape_failed(t));
    tape_run run = {.threads = 1, .training = true, .loss_scale = 0.5f};
    must_plan(t, loss, TAPE_TRAIN);
    check_no_overlap(&t->plan);
    arrays a = make_arrays(t, state);
    tape_bind(t, a.weights, a.planned);
    fill_inputs(t, state);
    float want = naive_run(t, loss, run.loss_scale, a.weights, a.naive);
    check_same(&a, poisoned_run(t, &run), want, trial);
    memset(a.planned, 0, (size_t)a.count * sizeof(float));
    float got = tape_forward(t, &run);
    tape_backward(t, &run);
    check_same(&a, got, want, trial);

    uint64_t again = *state;
    fill_inputs(t, &again);
    want = naive_run(t, loss, run.loss_scale, a.weights, a.naive);
    must_plan(t, loss, TAPE_INFER);
    check_no_overlap(&t->plan);
    again = *state;
    fill_inputs(t, &again);
    assert_true(poisoned_run(t, &run) == want);
    assert_true(tape_forward(t, &run) == want);
    free_arrays(&a);
    tape_free(t);
}

static void test_random_networks(void **unused)
{
    (void)unused;
    uint64_t state = toy_seed();
    for (int64_t trial = 0; trial < 400; trial++)
        try_network(&state, trial, trial % 2);
}

/* ---- Sizes known by hand ------------------------------------------------------------------------------- */

enum { WIDE = 1024 };
static const size_t WIDE_BYTES = WIDE * sizeof(float);

/* A chain from an input, with a parameter at its start so that everything requires_grad. */
static tape_value *chain(tape *t, const tape_op *op, int depth)
{
    tape_value *x = toy(t, &toy_mix, toy_input(t, "x", WIDE), toy_param(t, "w", WIDE), 0.5, 0.5);
    for (int i = 0; i < depth; i++)
        x = toy(t, op, x, NULL, 0.9, 0);
    return toy_energy(t, x);
}

static size_t chain_bytes(const tape_op *op, int depth, tape_mode mode)
{
    tape *t = tape_create();
    tape_value *loss = chain(t, op, depth);
    size_t bytes = tape_plan_bytes(t, loss, mode, 1);
    must_plan(t, loss, mode);
    assert_true(bytes == t->plan.bytes);
    tape_free(t);
    return bytes;
}

static void test_chains(void **unused)
{
    (void)unused;
    for (int depth = 2; depth < 40; depth += 9) {
        size_t d = (size_t)depth, input = WIDE_BYTES;
        /* Without gradients: a result and its input, by turns; the loss is put where the older one was. */
        assert_true(chain_bytes(&toy_scale, depth, TAPE_INFER) == input + 2 * WIDE_BYTES);
        /* In place: one array, and the loss beside it. */
        assert_true(chain_bytes(&toy_scale_here, depth, TAPE_INFER) == input + WIDE_BYTES + LINE);
        /* scale keeps nothing: two gradients by turns, where the results were; the loss and its gradient meet
         * two of them. */
        assert_true(chain_bytes(&toy_scale, depth, TAPE_TRAIN) == input + 2 * WIDE_BYTES + 2 * LINE);
        /* tanh keeps each of its results but not the chain's first value, in whose place the gradients begin. */
        assert_true(chain_bytes(&toy_tanh, depth, TAPE_TRAIN) <= input + (d + 2) * WIDE_BYTES + 2 * LINE);
        assert_true(chain_bytes(&toy_tanh, depth, TAPE_TRAIN) >= input + d * WIDE_BYTES);
        /* cube keeps what it saved, and in place no result but one. */
        assert_true(chain_bytes(&toy_cube_here, depth, TAPE_TRAIN) <= input + (d + 2) * WIDE_BYTES + 2 * LINE);
    }
}

static void test_scratch(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *w = toy_param(t, "w", WIDE), *small = toy_param(t, "small", 3);
    tape_value *loss = toy_energy(t, toy(t, &toy_mul, w, w, 0, 0));
    toy(t, &toy_mul, small, small, 0, 0);
    size_t one = tape_plan_bytes(t, loss, TAPE_INFER, 1), three = tape_plan_bytes(t, loss, TAPE_INFER, 3);
    assert_true(three == one + 2 * WIDE_BYTES); /* the largest, not the sum */
    tape_free(t);
}

/* ---- Recomputation ------------------------------------------------------------------------------------- */

/* x = mix(x, cube(tanh(mul(x, w)))), `depth` times, with or without recomputation. */
static tape_value *blocks(tape *t, int depth, bool recompute)
{
    tape_value *x = toy_input(t, "x", WIDE);
    char name[32];
    for (int i = 0; i < depth; i++) {
        snprintf(name, sizeof name, "blocks.%d.w", i);
        tape_value *w = toy_param(t, name, WIDE);
        if (recompute)
            tape_recompute_begin(t);
        tape_value *y =
            toy(t, &toy_cube_here, toy(t, &toy_tanh_here, toy(t, &toy_mul, x, w, 0, 0), NULL, 0, 0), NULL, 0, 0);
        x = toy(t, &toy_mix, x, y, 0.5, 0.5);
        if (recompute)
            tape_recompute_end(t);
    }
    return toy_energy(t, x);
}

static void test_recompute(void **unused)
{
    (void)unused;
    enum { DEPTH = 12 };
    float *grads[2], losses[2];
    size_t bytes[2];
    float *weights = calloc(DEPTH * WIDE, sizeof(float));
    uint64_t state = toy_seed(), start;
    toy_fill(&state, DEPTH * WIDE, weights);
    start = state;
    for (int recompute = 0; recompute < 2; recompute++) {
        tape *t = tape_create();
        tape_value *loss = blocks(t, DEPTH, recompute);
        must_plan(t, loss, TAPE_TRAIN);
        bytes[recompute] = t->plan.bytes;
        grads[recompute] = calloc(DEPTH * WIDE, sizeof(float));
        tape_bind(t, weights, grads[recompute]);
        state = start;
        fill_inputs(t, &state);
        tape_run run = {.threads = 1, .training = true, .loss_scale = 1};
        losses[recompute] = tape_forward(t, &run);
        tape_backward(t, &run);
        /* mul, tanh, cube are needed again; mix is not: backward reads neither its result nor its inputs */
        assert_int_equal(t->plan.events, recompute ? 11 * DEPTH + 2 : 8 * DEPTH + 2);
        tape_free(t);
    }
    assert_memory_equal(&losses[0], &losses[1], sizeof(float));
    assert_memory_equal(grads[0], grads[1], DEPTH * WIDE * sizeof(float));
    /* The most is needed when the last block's mix runs backwards: the input of the tape and scratch memory, the
     * loss, x of every block but the first (which is that input), two gradients of x, one of y, and of tanh's
     * result and cube's `saved` those of all blocks, or of this block only. */
    assert_true(bytes[0] == (2 + (DEPTH - 1) + 3 + 2 * DEPTH) * WIDE_BYTES + LINE);
    assert_true(bytes[1] == (2 + (DEPTH - 1) + 3 + 2) * WIDE_BYTES + LINE);
    free(grads[0]);
    free(grads[1]);
    free(weights);
}

/* The last result of a segment is kept, so it is not computed again for its own sake, nor what it is made of. */
static void test_last_of_segment(void **unused)
{
    (void)unused;
    for (int tail = 0; tail < 2; tail++) {
        tape *t = tape_create();
        tape_value *w = toy_param(t, "w", 8);
        tape_recompute_begin(t);
        tape_value *x = toy(t, &toy_tanh, toy(t, &toy_scale, w, NULL, 2, 0), NULL, 0, 0);
        if (tail)
            x = toy(t, &toy_scale, x, NULL, 2, 0); /* then tanh is not the last, and its backward reads its result */
        tape_recompute_end(t);
        must_plan(t, toy_energy(t, x), TAPE_TRAIN);
        assert_int_equal(t->plan.events, 2 * t->nodes.count + 2 * tail);
        tape_free(t);
    }
}

/* ---- In place ------------------------------------------------------------------------------------------ */

static void test_in_place(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *w = toy_param(t, "w", 8);
    tape_value *a = toy(t, &toy_scale_here, w, NULL, 1, 0); /* not over a parameter */
    tape_value *b = toy(t, &toy_scale_here, a, NULL, 1, 0); /* not over a: d needs it */
    tape_value *c = toy(t, &toy_tanh_here, b, NULL, 1, 0);  /* over b */
    tape_value *d = toy(t, &toy_mix_here, a, c, 1, 1);      /* over a: the last to read it */
    tape_value *e = toy(t, &toy_mix_here, d, d, 1, 1);      /* not over d, which is its second input too */
    tape_value *f = toy(t, &toy_mul, e, e, 1, 1);           /* not an operator that can */
    tape_value *g = toy(t, &toy_scale_here, f, NULL, 1, 0);
    tape_value *loss = toy_energy(t, g);
    must_plan(t, loss, TAPE_TRAIN);
    assert_ptr_not_equal(a->data, w->data);
    assert_ptr_not_equal(b->data, a->data);
    assert_ptr_equal(c->data, b->data);
    assert_ptr_equal(d->data, a->data);
    assert_ptr_not_equal(e->data, d->data);
    assert_ptr_not_equal(f->data, e->data);
    assert_ptr_equal(g->data, f->data);
    /* gradients are never shared */
    assert_ptr_not_equal(c->grad, b->grad);
    tape_free(t);
}

/* The loss survives an operator that would like its memory, and so does what its own operator saved. */
static void test_loss_survives(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *loss = toy(t, &toy_cube, toy_param(t, "w", 1), NULL, 0, 0);
    toy(t, &toy_scale_here, loss, NULL, 100, 0);
    float w = 2, g = 0;
    tape_run run = {.threads = 1, .training = true, .loss_scale = 1};
    for (int mode = TAPE_INFER; mode <= TAPE_TRAIN; mode++) {
        must_plan(t, loss, (tape_mode)mode);
        tape_bind(t, &w, &g);
        assert_true(tape_forward(t, &run) == 8);
        assert_true(loss->data[0] == 8 && tape_node_at(t, 0)->saved[0] == 12);
    }
    tape_backward(t, &run);
    assert_true(g == 12 && loss->data[0] == 8);
    tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_networks), cmocka_unit_test(test_chains),
        cmocka_unit_test(test_scratch),         cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_last_of_segment), cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_loss_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
