/* The tape as a caller sees it: gradients of small networks known by hand, accumulation, names, errors. Memory:
 * test_tape_plan.c; allocation: test_tape_alloc.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train_support_tape.h"

/* ---- Gradients ----------------------------------------------------------------------------------------- */

static const tape_run training = {.threads = 1, .loss_scale = 1, .update_buffers = true};
static const plan_options train = {.mode = PLAN_TRAINING, .threads = 1};

/* Plans, runs and frees; returns the loss. grads are added to. */
static float run_once(tape *t, tape_value *loss, float *weights, float *grads)
{
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING);
    tape_bind(t, weights, grads, NULL);
    float result = plan_forward(p, &training);
    plan_backward(p, &training);
    plan_free(p);
    tape_free(t);
    return result;
}

/* loss = (6w)^2 / 2 */
static void test_chain(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    float w[2] = {1, -2}, g[2] = {0, 10};
    tape_value *x = toy(t, &toy_scale, toy_param(t, "w", 2), NULL, 2, 0);
    assert_true(run_once(t, toy_energy(t, toy(t, &toy_scale, x, NULL, 3, 0)), w, g) == 18 * 5);
    assert_true(g[0] == 36 && g[1] == 10 - 72); /* added to what was there */
}

/* Two ways from x to the loss: x = 2w, y = 3x, z = x y + x - 4 y = 12 w^2 - 22 w, loss = z^2/2. */
static void test_diamond(void **unused)
{
    (void)unused;
    const tape_op *scale[] = {&toy_scale, &toy_scale_here}, *mix[] = {&toy_mix, &toy_mix_here};
    for (int here = 0; here < 2; here++) {
        tape *t = tape_create();
        float w = 3, g = 0;
        tape_value *x = toy(t, scale[here], toy_param(t, "w", 1), NULL, 2, 0);
        tape_value *y = toy(t, scale[here], x, NULL, 3, 0);
        tape_value *z = toy(t, mix[here], toy(t, &toy_mul, x, y, 0, 0), x, 1, 1);
        z = toy(t, mix[here], z, y, 1, -4);
        assert_true(run_once(t, toy_energy(t, z), &w, &g) == 42 * 42 / 2);
        assert_true(g == 42 * (24 * 3 - 22));
    }
}

/* One value as both inputs of a node: w w, and x - 3 x = -2 x of an activation, and of a parameter. */
static void test_used_twice(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    float w = 3, g = 0;
    tape_value *p = toy_param(t, "w", 1);
    tape_value *x = toy(t, &toy_mul, p, p, 0, 0);
    tape_value *y = toy(t, &toy_mul, x, x, 0, 0);
    tape_value *z = toy(t, &toy_mix_here, y, y, 1, -3); /* -2 w^4 */
    assert_true(run_once(t, toy_energy(t, z), &w, &g) == 2 * 6561);
    assert_true(g == (-2 * 81.0f) * (-8 * 27)); /* dz/dw = -8 w^3 */
}

/* Values that depend on inputs alone have no gradient, nor have values that the loss does not depend on. */
static void test_needs_grad(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *in = toy_input(t, "x", 1);
    tape_value *a = toy(t, &toy_scale, in, NULL, 2, 0);
    tape_value *b = toy(t, &toy_mul, a, toy_param(t, "w", 1), 0, 0);
    tape_value *unread = toy(t, &toy_blind, b, NULL, 5, 0); /* could not go backwards, and need not */
    tape_value *loss = toy_energy(t, b);
    float w = 3, g = 0;
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING), *q = toy_plan(t, loss, PLAN_INFERENCE);
    tape_bind(t, &w, &g, NULL);
    assert_true(plan_value(p, in)->data[0] == 0); /* fresh inputs are zero */
    plan_value(p, in)->data[0] = 1;
    assert_true(plan_forward(p, &training) == 18);
    plan_backward(p, &training);
    assert_true(g == 12);
    assert_true(!plan_value(p, in)->grad && !plan_value(p, a)->grad && plan_value(p, b)->grad);
    assert_true(!plan_value(p, unread)->grad && plan_value(p, loss)->grad);
    const tape_node *mul = plan_node_at(p, 1);
    assert_true(!mul->needs_grad[0] && mul->needs_grad[1] && mul->accumulate[1]);
    plan_value(q, in)->data[0] = 2; /* inputs are a plan's own */
    assert_true(plan_forward(q, &training) == 72 && plan_forward(p, &training) == 18);
    assert_true(!plan_value(q, b)->grad && !plan_value(q, loss)->grad && !plan_node_at(q, 1)->needs_grad[1]);
    assert_true(g == 12);
    plan_free(p);
    plan_free(q);
    tape_free(t);
}

/* Micro-batches with loss_scale 1/n give the mean of their gradients; the loss itself is not scaled. */
static void test_micro_batches(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *in = toy_input(t, "x", 2), *factor = toy_param(t, "w", 2), *q = toy_param(t, "q", 2);
    tape_value *loss = toy_loss(t, toy(t, &toy_mul, in, factor, 0, 0), q); /* sum of q (x w)^2 */
    float w[4] = {1, 2, 3, 4}, g[4] = {0};
    tape_run run = {.threads = 1, .loss_scale = 0.5f};
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING);
    tape_bind(t, w, g, NULL);
    for (int batch = 1; batch <= 2; batch++) {
        plan_value(p, in)->data[0] = (float)batch;
        plan_value(p, in)->data[1] = -(float)batch;
        assert_true(plan_forward(p, &run) == (float)(batch * batch) * (3 * 1 + 4 * 4));
        plan_backward(p, &run);
    }
    plan_free(p);
    float mean_square = (1 + 4) / 2.0f;
    assert_true(g[0] == mean_square * 2 * 3 * 1 && g[1] == mean_square * 2 * 4 * 2);
    assert_true(g[2] == mean_square * 1 && g[3] == mean_square * 4);
    tape_free(t);
}

/* An operator that computes its gradient with its value does so once, though its segment is recomputed. */
static void test_fused_loss_in_segment(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    float w[2] = {2, 5}, g[2] = {0};
    tape_value *p = toy_param(t, "w", 1), *q = toy_param(t, "q", 1);
    tape_recompute_begin(t);
    tape_value *loss = toy_loss(t, toy(t, &toy_scale, p, NULL, 3, 0), q);
    tape_recompute_end(t);
    assert_true(run_once(t, loss, w, g) == 5 * 36);
    assert_true(g[0] == 5 * 2 * 9 * 2 && g[1] == 36);
}

/* ---- Several plans, views, buffers, random numbers ------------------------------------------------------- */

/* A plan computes what its target needs and no more: no unread node, no input that only others read. */
static void test_targets(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *in = toy_input(t, "x", 2), *labels = toy_input(t, "labels", 2), *w = toy_param(t, "w", 2);
    tape_value *logits = toy(t, &toy_mul, in, w, 0, 0);
    tape_value *loss = toy_energy(t, toy(t, &toy_mix, logits, labels, 1, -1));
    tape_plan *train_loss = toy_plan(t, loss, PLAN_TRAINING), *score = toy_plan(t, logits, PLAN_INFERENCE);
    float weights[] = {2, 3}, grads[] = {0, 0};
    tape_bind(t, weights, grads, NULL);
    assert_true(plan_node_at(score, 0) && !plan_node_at(score, 1));
    assert_true(plan_value(score, in)->data && !plan_value(score, labels)->data);
    plan_value(score, in)->data[1] = 5;
    assert_true(plan_forward(score, &training) == 0);
    assert_true(plan_value(score, logits)->data[1] == 15);
    plan_value(train_loss, in)->data[0] = 1;
    plan_value(train_loss, labels)->data[0] = 1;
    assert_true(plan_forward(train_loss, &training) == 0.5f);
    plan_backward(train_loss, &training);
    assert_true(grads[0] == 1 && grads[1] == 0);
    double hits, rows;
    plan_score(train_loss, &hits, &rows); /* toy_energy has no score */
    assert_true(hits == 0 && rows == 1);
    plan_free(train_loss);
    plan_free(score);
    tape_free(t);
}

/* A view has its root's arrays, of results, inputs, parameters, and of other views; gradients meet in one array. */
static void test_views(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    const int64_t flat = 6, matrix[] = {2, 3};
    tape_value *w = toy_param(t, "w", flat), *in = toy_input(t, "x", flat);
    tape_value *x = toy(t, &toy_scale, w, NULL, 2, 0);
    tape_value *y = toy_view(t, toy_view(t, x, 2, matrix), 1, &flat);
    tape_value *z = toy(t, &toy_mul, toy_view(t, in, 2, matrix), toy_view(t, w, 2, matrix), 0, 0);
    tape_value *sum = toy(t, &toy_mix_here, toy(t, &toy_mix, x, y, 1, 2), toy_view(t, z, 1, &flat), 1, 1);
    tape_plan *p = toy_plan(t, toy_energy(t, sum), PLAN_TRAINING); /* of w (6 + x) */
    float weights[2][6] = {{1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2}}, grads[6] = {0};
    plan_value(p, in)->data[0] = 4;
    for (int i = 0; i < 2; i++) { /* views follow the bound arrays */
        memset(grads, 0, sizeof grads);
        tape_bind(t, weights[i], grads, NULL);
        assert_true(plan_forward(p, &training) == (float)(100 + 5 * 36) / 2 * (float)((i + 1) * (i + 1)));
        plan_backward(p, &training);
        assert_true(grads[0] == (float)(100 * (i + 1)) && grads[5] == (float)(36 * (i + 1)));
    }
    assert_ptr_equal(plan_value(p, y)->data, plan_value(p, x)->data);
    assert_ptr_equal(plan_value(p, y)->grad, plan_value(p, x)->grad);
    assert_int_equal(plan_value(p, z)->ndim, 2);
    assert_null(plan_node_at(p, 5)); /* scale, mul, mix, mix, energy */
    plan_free(p);
    tape_free(t);
}

/* A buffer is shared by the plans, starts as declared, and changes in the first forward pass of training alone. */
static void test_buffers(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *w = toy_param(t, "w", 2), *mean = tape_buffer(t, "mean", 3, 0, NULL);
    tape_buffer(t, "other", -1, 1, (int64_t[]){4});
    tape_recompute_begin(t);
    tape_value *x = toy(t, &toy_cube, toy_running_mean(t, toy(t, &toy_scale, w, NULL, 1, 0), mean), NULL, 0, 0);
    tape_recompute_end(t);
    tape_value *loss = toy_energy(t, x);
    tape_plan *p = toy_plan(t, loss, PLAN_TRAINING), *eval = toy_plan(t, loss, PLAN_INFERENCE);
    float weights[] = {4, 6}, grads[] = {0, 0}, buffers[5] = {0};
    tape_run second = training;
    second.update_buffers = false;
    assert_true(tape_buffer_count(t) == 2 && tape_buffer_elements(t) == 5 && tape_buffer_at(t, 0) == mean);
    tape_bind(t, weights, grads, buffers);
    tape_init_buffers(t);
    assert_true(buffers[0] == 3 && buffers[1] == -1 && buffers[4] == -1);
    assert_true(plan_forward(p, &training) == 1 && buffers[0] == 4); /* half of the way to 5 */
    int64_t recomputed = 0;
    for (int64_t e = p->forward; e < p->events; e++)
        recomputed += p->event[e].kind == PLAN_RECOMPUTE;
    assert_true(recomputed > 0);
    plan_backward(p, &training);
    assert_true(grads[0] == -3 && grads[1] == 3);
    assert_null(plan_first_nonfinite(p, &training));
    assert_true(plan_forward(p, &second) == 1);
    assert_true(plan_forward(eval, &training) == 32); /* 4 - 4, 6 - 4 */
    assert_true(buffers[0] == 4);
    plan_free(p);
    plan_free(eval);
    tape_free(t);
}

/* Random numbers are a function of the run and the node: recomputation and backward see the same as forward, and
 * other plans have no influence. */
static void test_dropout(void **unused)
{
    (void)unused;
    enum { N = 64 };
    float w[N], g[2][N], losses[2];
    tape_run run = {.threads = 1, .loss_scale = 1, .seed = 7, .step = 3, .sample = 40};
    for (int i = 0; i < N; i++)
        w[i] = (float)(i + 1) / N;
    for (int recompute = 0; recompute < 2; recompute++) {
        tape *t = tape_create();
        tape_value *x = toy(t, &toy_scale, toy_param(t, "w", N), NULL, 1, 0);
        if (recompute)
            tape_recompute_begin(t);
        x = toy(t, &toy_cube, toy_dropout(t, toy(t, &toy_tanh, toy_dropout(t, x), NULL, 0, 0)), NULL, 0, 0);
        if (recompute)
            tape_recompute_end(t);
        tape_value *loss = toy_energy(t, x);
        tape_plan *p = toy_plan(t, loss, PLAN_TRAINING), *eval = toy_plan(t, loss, PLAN_INFERENCE);
        memset(g[recompute], 0, sizeof g[recompute]);
        tape_bind(t, w, g[recompute], NULL);
        losses[recompute] = plan_forward(p, &run);
        const float whole = plan_forward(eval, &run);
        plan_backward(p, &run);
        int zeros = 0;
        for (int i = 0; i < N; i++)
            zeros += g[recompute][i] == 0;
        assert_in_range(zeros, N / 2, N - 4); /* three of four are expected */
        assert_true(whole != losses[recompute]);
        run.sample++;
        assert_true(plan_forward(p, &run) != losses[recompute]);
        run.sample--;
        run.step++;
        assert_true(plan_forward(p, &run) != losses[recompute]);
        run.step--;
        plan_free(p);
        plan_free(eval);
        tape_free(t);
    }
    assert_memory_equal(&losses[0], &losses[1], sizeof(float));
    assert_memory_equal(g[0], g[1], sizeof g[0]);
}

/* ---- Parameters, names, operations --------------------------------------------------------------------- */

static void test_parameters(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    const int64_t shape[] = {2, 3, 4};
    tape_value *a = tape_param(t, "a", SCION_ROLE_HIDDEN, 3, shape), *b = toy_param(t, "b", 5);
    float weights[29], grads[29];
    tape_bind(t, weights, grads, NULL);
    assert_true(a->count == 24 && a->ndim == 3 && a->shape[2] == 4 && a->role == SCION_ROLE_HIDDEN);
    assert_true(a->offset == 0 && a->data == weights && a->grad == grads);
    assert_true(b->offset == 24 && b->data == weights + 24 && b->grad == grads + 24);
    assert_true(tape_param_count(t) == 2 && tape_param_elements(t) == 29);
    assert_true(tape_param_at(t, 1) == b && !tape_param_at(t, 2) && !tape_param_at(t, -1));
    tape_bind(t, weights, NULL, NULL);
    assert_true(!a->grad && !b->grad);
    tape_value *x = toy(t, &toy_scale, a, NULL, 1, 0);
    x = toy(t, &toy_scale, x, NULL, 1, 0);
    assert_true(tape_node_at(t, 1)->out == x && !tape_node_at(t, 2) && !tape_node_at(t, -1));
    assert_true(tape_value_at(t, 3) == x && tape_value_count(t) == 4 && !tape_value_at(t, 4));
    tape_plan *p = toy_plan(t, x, PLAN_INFERENCE), *q = toy_plan(t, tape_node_at(t, 0)->out, PLAN_INFERENCE);
    assert_true(plan_flops(p) == 48 && plan_flops(q) == 24);
    assert_true(plan_value(p, b) == b && plan_value(p, x) != x && plan_target(p)->out == plan_value(p, x));
    plan_free(p);
    plan_free(q);
    plan_free(NULL);
    tape_free(t);
    tape_free(NULL);
}

/* The first bad node is found though its memory was used again since, and gradients are left alone. */
static void test_first_nonfinite(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *a = toy_param(t, "blocks.0.a", 4), *b = toy_param(t, "blocks.1.b", 4), *q = toy_param(t, "q", 4);
    tape_value *x = toy(t, &toy_scale_here, toy(t, &toy_tanh, a, NULL, 0, 0), NULL, 2, 0);
    x = toy(t, &toy_scale_here, toy(t, &toy_mul, x, b, 0, 0), NULL, 1e30, 0);
    tape_value *loss = toy_loss(t, toy(t, &toy_tanh_here, x, NULL, 0, 0), q);
    float w[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, g[12] = {0};
    tape_bind(t, w, g, NULL);
    for (int mode = PLAN_INFERENCE; mode <= PLAN_TRAINING; mode++) {
        tape_plan *p = toy_plan(t, loss, (plan_mode)mode);
        w[5] = 1;
        assert_null(plan_first_nonfinite(p, &training));
        w[5] = 1e20f; /* the product is finite, 1e30 times that is not, its tanh is again */
        assert_string_equal(plan_first_nonfinite(p, &training), "scale after blocks.1.b");
        w[5] = NAN;
        assert_string_equal(plan_first_nonfinite(p, &training), "mul blocks.1.b");
        plan_free(p);
    }
    for (int i = 0; i < 12; i++)
        assert_true(g[i] == 0);
    tape_free(t);
}

/* Record of a watched run: the nodes in order, a copy of each result, and the node at which it ends (-1: none). */
typedef struct sight {
    const tape_plan *p;
    int64_t count, end;
    float first[8]; /* element 0 of each result */
} sight;

static bool look(void *context, const tape_node *n)
{
    sight *s = context;
    assert_ptr_equal(n, plan_node_at(s->p, s->count));
    s->first[s->count] = n->out->data[0];
    return s->count++ != s->end;
}

/* Every node is seen once, in forward order, with its own result, though in_place overwrites it next; gradients are
 * left alone; a look that says so ends the run at its node. */
static void test_watch(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *a = toy_param(t, "a", 4), *q = toy_param(t, "q", 4);
    tape_value *x = toy(t, &toy_scale_here, toy(t, &toy_scale, a, NULL, 2, 0), NULL, 3, 0);
    tape_recompute_begin(t);
    x = toy(t, &toy_scale_here, toy(t, &toy_cube_here, x, NULL, 0, 0), NULL, 0.5, 0);
    tape_recompute_end(t);
    tape_value *loss = toy_loss(t, x, q);
    float w[8] = {1, 1, 1, 1, 1, 1, 1, 1}, g[8] = {0};
    const float expected[] = {2, 6, 216, 108, 4 * 108 * 108};
    tape_bind(t, w, g, NULL);
    for (int mode = PLAN_INFERENCE; mode <= PLAN_TRAINING; mode++) {
        tape_plan *p = toy_plan(t, loss, (plan_mode)mode);
        for (int64_t end = -1; end < 5; end++) {
            sight s = {.p = p, .end = end};
            const tape_node *n = plan_watch(p, &training, look, &s);
            assert_ptr_equal(n, plan_node_at(p, end));
            assert_int_equal(s.count, end < 0 ? 5 : end + 1);
            for (int64_t i = 0; i < s.count; i++)
                assert_true(s.first[i] == expected[i]);
        }
        plan_free(p);
    }
    for (int i = 0; i < 8; i++)
        assert_true(g[i] == 0);
    tape_free(t);
}

/* ---- Errors -------------------------------------------------------------------------------------------- */

typedef tape_value *wrong_recording(tape *t);

static tape_value *two_names(tape *t)
{
    toy_param(t, "twin", 1);
    return toy_param(t, "twin", 1);
}

static tape_value *name_of_a_buffer(tape *t)
{
    tape_buffer(t, "twin", 0, 0, NULL);
    return toy_param(t, "twin", 1);
}

static tape_value *long_name(tape *t)
{
    return toy_param(t, "a.name.of.sixty.four.bytes.is.one.byte.longer.than.what.is.allowed", 1);
}

static tape_value *empty_shape(tape *t)
{
    return toy_param(t, "nothing", 0);
}

static tape_value *huge_shape(tape *t)
{
    return tape_floats(t, "huge", 3, (int64_t[]){1 << 30, 1 << 30, 1 << 30});
}

static tape_value *five_dims(tape *t)
{
    return tape_ints(t, "deep", 5, (int64_t[]){1, 1, 1, 1, 1});
}

static tape_value *foreign_input(tape *t)
{
    tape *other = tape_create();
    tape_value *x = toy(t, &toy_scale, toy_input(other, "x", 1), NULL, 1, 0);
    tape_free(other);
    return x;
}

static tape_value *nested(tape *t)
{
    tape_recompute_begin(t);
    tape_recompute_begin(t);
    return NULL;
}

static tape_value *end_alone(tape *t)
{
    tape_recompute_end(t);
    return NULL;
}

static tape_value *from_a_builder(tape *t)
{
    return tape_fail(t, "linear: %d is not %d", 3, 4);
}

static void test_recording_errors(void **unused)
{
    (void)unused;
    static const struct {
        wrong_recording *record;
        const char *word;
    } cases[] = {
        {two_names, "twin"},
        {name_of_a_buffer, "twin"},
        {long_name, "63"},
        {empty_shape, "nothing"},
        {huge_shape, "huge"},
        {five_dims, "deep"},
        {foreign_input, "tape"},
        {nested, "nest"},
        {end_alone, "without a beginning"},
        {from_a_builder, "3 is not 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tape *t = tape_create();
        scion_error err = {0};
        tape_value *loss = toy_energy(t, toy_param(t, "w", 1));
        assert_null(tape_failed(t));
        assert_null(cases[i].record(t));
        assert_non_null(tape_failed(t));
        if (!strstr(tape_failed(t), cases[i].word))
            fail_msg("\"%s\" does not mention %s", tape_failed(t), cases[i].word);
        /* the first error stays, nothing is recorded any more, and planning reports it */
        assert_null(toy_param(t, "later", 0));
        assert_null(toy_energy(t, loss));
        tape_plan *p;
        assert_int_equal(plan_make(&p, t, loss, &train, &err), SCION_EINVAL);
        assert_null(p);
        assert_int_equal(err.status, SCION_EINVAL);
        assert_string_equal(err.message, tape_failed(t));
        tape_free(t);
    }
}

static scion_status try_plan(const tape *t, const tape_value *target, plan_mode mode, int threads, scion_error *err)
{
    tape_plan *p;
    scion_status status = plan_make(&p, t, target, &(plan_options){.mode = mode, .threads = threads}, err);
    assert_true(!p == (status != SCION_OK));
    plan_free(p);
    return status;
}

static void test_planning_errors(void **unused)
{
    (void)unused;
    scion_error err = {0};
    tape *t = tape_create();
    tape_value *w = toy_param(t, "w", 1), *loss = toy_energy(t, toy(t, &toy_blind, w, NULL, 1, 0));
    assert_int_equal(try_plan(t, NULL, PLAN_TRAINING, 1, &err), SCION_EINVAL);
    assert_int_equal(try_plan(t, w, PLAN_TRAINING, 1, &err), SCION_EINVAL);
    assert_int_equal(try_plan(t, loss, PLAN_INFERENCE, 0, &err), SCION_EINVAL);
    assert_int_equal(try_plan(t, loss, PLAN_TRAINING, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "blind"));
    assert_int_equal(try_plan(t, loss, PLAN_INFERENCE, 1, &err), SCION_OK);
    /* a loss that has its gradient only with its value must be the target */
    tape_value *fused = toy_loss(t, w, toy_param(t, "q", 1));
    assert_int_equal(try_plan(t, fused, PLAN_TRAINING, 1, &err), SCION_OK);
    assert_int_equal(try_plan(t, toy(t, &toy_scale, fused, NULL, 2, 0), PLAN_TRAINING, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "as the loss itself"));
    tape_recompute_begin(t);
    assert_int_equal(try_plan(t, loss, PLAN_INFERENCE, 1, NULL), SCION_EINVAL);
    tape_free(t);
    /* no tape at all is a tape that failed */
    assert_non_null(tape_failed(NULL));
    assert_null(toy_param(NULL, "w", 1));
    assert_int_equal(try_plan(NULL, NULL, PLAN_TRAINING, 1, &err), SCION_ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),           cmocka_unit_test(test_diamond),
        cmocka_unit_test(test_used_twice),      cmocka_unit_test(test_needs_grad),
        cmocka_unit_test(test_micro_batches),   cmocka_unit_test(test_fused_loss_in_segment),
        cmocka_unit_test(test_parameters),      cmocka_unit_test(test_first_nonfinite),
        cmocka_unit_test(test_watch),           cmocka_unit_test(test_recording_errors),
        cmocka_unit_test(test_planning_errors), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_views),           cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
