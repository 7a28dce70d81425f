/* Laws of the memory plan: arrays that live at the same time do not overlap, dead memory is never read (it is
 * poisoned), results do not depend on the plan, and sizes are those worked out by hand. */
#include <math.h>
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

/* ---- Random networks ----------------------------------------------------------------------------------- */

static int64_t list_arrays(const tape_plan *p, const plan_array **list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->values; i++) {
        if (p->value[i].data.bytes)
            list[n++] = &p->value[i].data;
        if (p->value[i].grad.bytes)
            list[n++] = &p->value[i].grad;
        if (p->value[i].stored.bytes)
            list[n++] = &p->value[i].stored;
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

/* In every event each byte belongs to at most one array. */
static void check_no_overlap(const tape_plan *p)
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

static bool meet(const plan_array *a, const plan_array *b)
{
    for (int i = 0; i < a->spans; i++)
        for (int j = 0; j < b->spans; j++)
            if (a->span[i].first <= b->span[j].last && b->span[j].first <= a->span[i].last)
                return true;
    return false;
}

/* Largest first, then the one that is needed first, then by their order in the list. */
static bool comes_before(const plan_array *a, const plan_array *b)
{
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    return a->span[0].first != b->span[0].first ? a->span[0].first < b->span[0].first : a->number < b->number;
}

/* True if array i could lie at `offset` beside the arrays placed before it. */
static bool is_free(const plan_array *const *list, int64_t n, int64_t i, size_t offset)
{
    for (int64_t k = 0; k < n; k++)
        if (k != i && comes_before(list[k], list[i]) && meet(list[k], list[i]) &&
            list[k]->offset < offset + list[i]->bytes && offset < list[k]->offset + list[k]->bytes)
            return false;
    return true;
}

/* Each array lies where the greedy rule puts it: no lower offset is free. */
static void check_lowest(const tape_plan *p)
{
    const plan_array *list[512];
    const int64_t n = list_arrays(p, list);
    for (int64_t i = 0; i < n; i++) {
        assert_true(is_free(list, n, i, list[i]->offset));
        for (size_t lower = 0; lower < list[i]->offset; lower += PLAN_ALIGN)
            assert_false(is_free(list, n, i, lower));
    }
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

static void fill_inputs(tape_plan *p, uint64_t state)
{
    for (int64_t i = 0; i < p->values; i++) {
        const tape_value *v = &p->value[i].own;
        if (v->kind == TAPE_FLOATS && v->data && p->value[i].root == i)
            toy_fill(&state, v->count, v->data);
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

static tape_plan *stored_plan(const tape *t, const tape_value *loss)
{
    tape_plan *p = NULL;
    const plan_options how = {.mode = PLAN_TRAINING, .threads = 1, .bf16 = true};
    assert_int_equal(plan_make(&p, t, loss, &how, NULL), SCION_OK);
    assert_int_equal(plan_commit(p, NULL, NULL), SCION_OK);
    return p;
}

/* Stored activations lose bits, but dead memory is not read: the poisoned run has the same result. */
static void try_stored(tape *t, const tape_value *loss, const tape_run *run, uint64_t inputs, arrays *a,
                       int64_t trial)
{
    tape_plan *p = stored_plan(t, loss);
    check_no_overlap(p);
    fill_inputs(p, inputs);
    memset(a->planned, 0, (size_t)a->count * sizeof(float));
    memset(a->naive, 0, (size_t)a->count * sizeof(float));
    tape_bind(t, a->weights, a->naive, NULL);
    const float want = poisoned_run(p, run);
    tape_bind(t, a->weights, a->planned, NULL);
    const float got = plan_forward(p, run);
    plan_backward(p, run);
    check_same(a, got, want, trial);
    plan_free(p);
}

/* Two plans in one memory, run in turn: neither counts on what it left there. */
static void try_shared(tape *t, const tape_value *loss, const tape_run *run, uint64_t inputs, arrays *a, float want,
                       int64_t trial)
{
    tape_plan *p[2];
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        const plan_options how = {.mode = i ? PLAN_INFERENCE : PLAN_TRAINING, .threads = 1};
        assert_int_equal(plan_make(&p[i], t, loss, &how, NULL), SCION_OK);
        bytes = plan_passing_bytes(p[i]) > bytes ? plan_passing_bytes(p[i]) : bytes;
    }
    char *memory = plan_allocate(bytes, NULL);
    assert_non_null(memory);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(plan_commit(p[i], memory, NULL), SCION_OK);
        fill_inputs(p[i], inputs);
    }
    for (int round = 0; round < 2; round++) {
        memset(memory, 0xff, bytes);
        assert_true(plan_forward(p[1], run) == want);
        memset(a->planned, 0, (size_t)a->count * sizeof(float));
        const float got = plan_forward(p[0], run);
        plan_backward(p[0], run);
        check_same(a, got, want, trial);
    }
    plan_free(p[0]);
    plan_free(p[1]);
    free(memory);
}

static void try_network(uint64_t *state, int64_t trial, bool recompute)
{
    tape *t = tape_create();
    tape_value *loss = toy_network(t, state, 3 + (int)toy_random(state, 40), recompute);
    assert_null(tape_failed(t));
    tape_run run = {.threads = 1, .loss_scale = 0.5f};
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING), *eval = toy_plan(t, loss, PLAN_INFERENCE);
    check_no_overlap(p);
    check_no_overlap(eval);
    check_lowest(p);
    check_lowest(eval);
    arrays a = make_arrays(t, state);
    tape_bind(t, a.weights, a.planned, NULL);
    fill_inputs(p, *state);
    fill_inputs(eval, *state);
    float want = naive_run(t, p, loss, run.loss_scale, a.weights, a.naive);
    check_same(&a, poisoned_run(p, &run), want, trial);
    memset(a.planned, 0, (size_t)a.count * sizeof(float));
    float got = plan_forward(p, &run);
    plan_backward(p, &run);
    check_same(&a, got, want, trial);
    assert_true(poisoned_run(eval, &run) == want);
    assert_true(plan_forward(eval, &run) == want);
    try_shared(t, loss, &run, *state, &a, want, trial);
    try_stored(t, loss, &run, *state, &a, trial);
    free_arrays(&a);
    plan_free(p);
    plan_free(eval);
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

static size_t bytes_of(const tape *t, const tape_value *target, plan_options how)
{
    tape_plan *p = NULL;
    assert_int_equal(plan_make(&p, t, target, &how, NULL), SCION_OK);
    const size_t bytes = plan_bytes(p);
    plan_free(p);
    return bytes;
}

static size_t chain_bytes(const tape_op *op, int depth, plan_mode mode)
{
    tape *t = tape_create();
    tape_value *loss = chain(t, op, depth);
    size_t bytes = bytes_of(t, loss, (plan_options){.mode = mode, .threads = 1});
    tape_free(t);
    return bytes;
}

static void test_chains(void **unused)
{
    (void)unused;
    for (int depth = 2; depth < 40; depth += 9) {
        size_t d = (size_t)depth, input = WIDE_BYTES;
        /* Without gradients: a result and its input, by turns; the loss is put where the older one was. */
        assert_true(chain_bytes(&toy_scale, depth, PLAN_INFERENCE) == input + 2 * WIDE_BYTES);
        /* In place: one array, and the loss beside it. */
        assert_true(chain_bytes(&toy_scale_here, depth, PLAN_INFERENCE) == input + WIDE_BYTES + LINE);
        /* scale keeps nothing: two gradients by turns, where the results were; the loss and its gradient meet
         * two of them. */
        assert_true(chain_bytes(&toy_scale, depth, PLAN_TRAINING) == input + 2 * WIDE_BYTES + 2 * LINE);
        /* tanh keeps each of its results but not the chain's first value, in whose place the gradients begin. */
        assert_true(chain_bytes(&toy_tanh, depth, PLAN_TRAINING) <= input + (d + 2) * WIDE_BYTES + 2 * LINE);
        assert_true(chain_bytes(&toy_tanh, depth, PLAN_TRAINING) >= input + d * WIDE_BYTES);
        /* cube keeps what it saved, and in place no result but one. */
        assert_true(chain_bytes(&toy_cube_here, depth, PLAN_TRAINING) <= input + (d + 2) * WIDE_BYTES + 2 * LINE);
    }
}

/* As many results that wait for the backward pass as a GPT of some hundred layers has. */
static void test_deep(void **unused)
{
    (void)unused;
    const size_t depth = 4000, bytes = chain_bytes(&toy_tanh, (int)depth, PLAN_TRAINING);
    assert_true(bytes >= (depth + 1) * WIDE_BYTES && bytes <= (depth + 3) * WIDE_BYTES + 2 * LINE);
}

/* ---- Scratch -------------------------------------------------------------------------------------------- */

static void test_scratch(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *w = toy_param(t, "w", WIDE), *small = toy_param(t, "small", 3);
    tape_value *loss = toy_energy(t, toy(t, &toy_mul, w, w, 0, 0));
    toy(t, &toy_mul, small, small, 0, 0);
    size_t one = bytes_of(t, loss, (plan_options){.mode = PLAN_INFERENCE, .threads = 1});
    size_t three = bytes_of(t, loss, (plan_options){.mode = PLAN_INFERENCE, .threads = 3});
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
    uint64_t state = toy_seed();
    toy_fill(&state, DEPTH * WIDE, weights);
    for (int recompute = 0; recompute < 2; recompute++) {
        tape *t = tape_create();
        tape_value *loss = blocks(t, DEPTH, recompute);
        tape_plan *p = toy_plan(t, loss, PLAN_TRAINING);
        bytes[recompute] = plan_bytes(p);
        grads[recompute] = calloc(DEPTH * WIDE, sizeof(float));
        tape_bind(t, weights, grads[recompute], NULL);
        fill_inputs(p, state);
        tape_run run = {.threads = 1, .loss_scale = 1};
        losses[recompute] = plan_forward(p, &run);
        plan_backward(p, &run);
        /* mul, tanh, cube are needed again; mix is not: backward reads neither its result nor its inputs */
        assert_int_equal(p->events, recompute ? 11 * DEPTH + 2 : 8 * DEPTH + 2);
        plan_free(p);
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

/* The last result of a segment is kept, so neither it nor its inputs are recomputed for its own sake. */
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
        tape_plan *p = toy_plan(t, toy_energy(t, x), PLAN_TRAINING);
        assert_int_equal(p->events, 2 * p->nodes + 2 * tail);
        plan_free(p);
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
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING);
    const float *at[7], *grad[7];
    const tape_value *const values[] = {a, b, c, d, e, f, g};
    for (int i = 0; i < 7; i++) {
        at[i] = plan_value(p, values[i])->data;
        grad[i] = plan_value(p, values[i])->grad;
    }
    assert_ptr_not_equal(at[1], at[0]);
    assert_ptr_equal(at[2], at[1]);
    assert_ptr_equal(at[3], at[0]);
    assert_ptr_not_equal(at[4], at[3]);
    assert_ptr_not_equal(at[5], at[4]);
    assert_ptr_equal(at[6], at[5]);
    /* gradients are never shared */
    assert_ptr_not_equal(grad[2], grad[1]);
    plan_free(p);
    tape_free(t);
}

/* ---- Views --------------------------------------------------------------------------------------------- */

/* Views cost nothing, and an operator in place of a view's data waits for the last reader of the root. */
static void test_view_bytes(void **unused)
{
    (void)unused;
    const int64_t flat = WIDE;
    size_t bytes[2];
    for (int views = 0; views < 2; views++) {
        tape *t = tape_create();
        tape_value *x = toy(t, &toy_mix, toy_input(t, "x", WIDE), toy_param(t, "w", WIDE), 0.5, 0.5);
        for (int i = 0; i < 6; i++) {
            if (views)
                x = toy_view(t, x, i % 2 + 1, i % 2 ? (int64_t[]){2, WIDE / 2} : &flat);
            x = toy(t, i % 2 ? &toy_tanh : &toy_scale_here, x, NULL, 0.9, 0);
        }
        bytes[views] = bytes_of(t, toy_energy(t, x), (plan_options){.mode = PLAN_TRAINING, .threads = 1});
        tape_free(t);
    }
    assert_true(bytes[0] == bytes[1]);
    tape *t = tape_create();
    tape_value *a = toy(t, &toy_scale, toy_param(t, "w", WIDE), NULL, 1, 0);
    tape_value *v = toy_view(t, a, 1, &flat);
    tape_value *b = toy(t, &toy_scale_here, v, NULL, 2, 0); /* not over a, which is read below */
    tape_value *c = toy(t, &toy_mix_here, b, a, 1, 1);
    tape_plan *p = toy_plan(t, toy_energy(t, c), PLAN_INFERENCE);
    assert_ptr_equal(plan_value(p, v)->data, plan_value(p, a)->data);
    assert_ptr_not_equal(plan_value(p, b)->data, plan_value(p, a)->data);
    assert_ptr_equal(plan_value(p, c)->data, plan_value(p, b)->data);
    plan_free(p);
    tape_free(t);
}

/* ---- Storage in bfloat16 --------------------------------------------------------------------------------- */

/* Half of the memory for DEPTH results that wait for their backward pass; the loss is the same, since forward reads
 * float32, and gradients are off by the rounding of tanh's result, 2^-9 of it, in 1 - y^2. */
static void test_storage(void **unused)
{
    (void)unused;
    enum { DEPTH = 16 };
    tape *t = tape_create();
    tape_value *loss = chain(t, &toy_tanh, DEPTH);
    tape_plan *p[2] = {toy_plan(t, loss, PLAN_TRAINING), stored_plan(t, loss)};
    float *weights = calloc(WIDE, sizeof(float)), *grads[2], losses[2];
    uint64_t state = toy_seed();
    toy_fill(&state, WIDE, weights);
    tape_run run = {.threads = 1, .loss_scale = 1};
    for (int i = 0; i < 2; i++) {
        grads[i] = calloc(WIDE, sizeof(float));
        tape_bind(t, weights, grads[i], NULL);
        fill_inputs(p[i], state);
        losses[i] = plan_forward(p[i], &run);
        plan_backward(p[i], &run);
    }
    assert_memory_equal(&losses[0], &losses[1], sizeof(float));
    int64_t differ = 0;
    for (int i = 0; i < WIDE; i++) {
        assert_true(fabs((double)grads[0][i] - (double)grads[1][i]) <= DEPTH * 0x1p-7 * fabs((double)grads[0][i]));
        differ += grads[0][i] != grads[1][i];
    }
    assert_true(differ > WIDE / 2);
    /* the last result does not wait: the loss's backward pass follows at once */
    assert_int_equal(p[1]->events, p[0]->events + 2 * (DEPTH - 1));
    assert_true(plan_bytes(p[0]) - plan_bytes(p[1]) >= (DEPTH - 4) * WIDE_BYTES / 2);
    for (int i = 0; i < 2; i++) {
        plan_free(p[i]);
        free(grads[i]);
    }
    free(weights);
    tape_free(t);
}

/* The target survives until the end of the pass, though its memory would be wanted. */
static void test_target_survives(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *loss = toy(t, &toy_cube, toy_param(t, "w", 1), NULL, 0, 0);
    toy(t, &toy_scale_here, loss, NULL, 100, 0);
    float w = 2, g = 0;
    tape_run run = {.threads = 1, .loss_scale = 1};
    tape_bind(t, &w, &g, NULL);
    for (int mode = PLAN_INFERENCE; mode <= PLAN_TRAINING; mode++) {
        tape_plan *p = toy_plan(t, loss, (plan_mode)mode);
        assert_true(plan_forward(p, &run) == 8);
        if (mode == PLAN_TRAINING)
            plan_backward(p, &run);
        assert_true(g == (mode == PLAN_TRAINING ? 12 : 0) && plan_value(p, loss)->data[0] == 8);
        plan_free(p);
    }
    tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_networks),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_last_of_segment),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_target_survives),
        cmocka_unit_test(test_view_bytes),
        cmocka_unit_test(test_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
