/* The tape as a caller sees it: gradients of small networks known by hand, accumulation, names, errors. What
 * memory a plan uses is test_tape_plan.c, who allocates it is test_tape_alloc.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train_support_tape.h"

/* ---- Gradients ----------------------------------------------------------------------------------------- */

static tape_run training = {.threads = 1, .training = true, .loss_scale = 1};

static void must_plan(tape *t, tape_value *loss, tape_mode mode)
{
    scion_error err = {0};
    if (tape_plan(t, loss, mode, 1, &err))
        fail_msg("tape_plan: %s", err.message);
}

/* Plans, runs and frees; returns the loss. grads are added to. */
static float run_once(tape *t, tape_value *loss, float *weights, float *grads)
{
    must_plan(t, loss, TAPE_TRAIN);
    tape_bind(t, weights, grads);
    float result = tape_forward(t, &training);
    tape_backward(t, &training);
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

/* Inputs, and what depends on inputs alone, have no gradient; neither has what the loss does not depend on. */
static void test_wants(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *in = toy_input(t, "x", 1), *p = toy_param(t, "w", 1);
    tape_value *a = toy(t, &toy_scale, in, NULL, 2, 0);
    tape_value *b = toy(t, &toy_mul, a, p, 0, 0);
    tape_value *unread = toy(t, &toy_blind, b, NULL, 5, 0); /* could not go backwards, and need not */
    tape_value *loss = toy_energy(t, b);
    float w = 3, g = 0;
    must_plan(t, loss, TAPE_TRAIN);
    tape_bind(t, &w, &g);
    assert_true(in->data[0] == 0); /* fresh inputs are zero */
    in->data[0] = 1;
    assert_true(tape_forward(t, &training) == 18);
    tape_backward(t, &training);
    assert_true(g == 12);
    assert_true(!in->grad && !a->grad && b->grad && !unread->grad && loss->grad);
    const tape_node *mul = tape_node_at(t, 1);
    assert_true(!mul->needs_grad[0] && mul->needs_grad[1] && mul->accumulate[1] == 1);
    must_plan(t, loss, TAPE_INFER);
    in->data[0] = 1;
    assert_true(tape_forward(t, &training) == 18); /* `training` is ignored */
    assert_true(!b->grad && !loss->grad && !mul->needs_grad[1] && g == 12);
    tape_free(t);
}

/* Micro-batches with loss_scale 1/n give the mean of their gradients; the loss itself is not scaled. */
static void test_micro_batches(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    tape_value *in = toy_input(t, "x", 2), *p = toy_param(t, "w", 2), *q = toy_param(t, "q", 2);
    tape_value *loss = toy_loss(t, toy(t, &toy_mul, in, p, 0, 0), q); /* sum of q (x w)^2 */
    float w[4] = {1, 2, 3, 4}, g[4] = {0};
    tape_run run = {.threads = 1, .training = true, .loss_scale = 0.5f};
    must_plan(t, loss, TAPE_TRAIN);
    tape_bind(t, w, g);
    for (int batch = 1; batch <= 2; batch++) {
        in->data[0] = (float)batch;
        in->data[1] = -(float)batch;
        assert_true(tape_forward(t, &run) == (float)(batch * batch) * (3 * 1 + 4 * 4));
        tape_backward(t, &run);
    }
    float mean_square = (1 + 4) / 2.0f;
    assert_true(g[0] == mean_square * 2 * 3 * 1 && g[1] == mean_square * 2 * 4 * 2);
    assert_true(g[2] == mean_square * 1 && g[3] == mean_square * 4);
    tape_free(t);
}

/* An operator that adds a gradient in its forward pass does so once, though it is computed twice. */
static void test_eager_loss_recomputed(void **unused)
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

/* ---- Parameters, names, operations --------------------------------------------------------------------- */

static void test_parameters(void **unused)
{
    (void)unused;
    tape *t = tape_create();
    const int64_t shape[] = {2, 3, 4};
    tape_value *a = tape_param(t, "a", SCION_ROLE_HIDDEN, 3, shape), *b = toy_param(t, "b", 5);
    float weights[29], grads[29];
    tape_bind(t, weights, grads);
    assert_true(a->count == 24 && a->ndim == 3 && a->shape[2] == 4 && a->role == SCION_ROLE_HIDDEN);
    assert_true(a->offset == 0 && a->data == weights && a->grad == grads);
    assert_true(b->offset == 24 && b->data == weights + 24 && b->grad == grads + 24);
    assert_true(tape_param_count(t) == 2 && tape_param_elements(t) == 29);
    assert_true(tape_param_at(t, 1) == b && !tape_param_at(t, 2) && !tape_param_at(t, -1));
    tape_bind(t, weights, NULL);
    assert_true(!a->grad && !b->grad);
    tape_value *x = toy(t, &toy_scale, a, NULL, 1, 0);
    x = toy(t, &toy_scale, x, NULL, 1, 0);
    assert_true(tape_flops(t) == 48);
    assert_true(tape_node_at(t, 1)->out == x && !tape_node_at(t, 2) && !tape_node_at(t, -1));
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
    for (int mode = TAPE_INFER; mode <= TAPE_TRAIN; mode++) {
        must_plan(t, loss, (tape_mode)mode);
        tape_bind(t, w, g);
        w[5] = 1;
        assert_null(tape_first_nonfinite(t, &training));
        w[5] = 1e20f; /* the product is finite, 1e30 times that is not, its tanh is again */
        assert_string_equal(tape_first_nonfinite(t, &training), "scale after blocks.1.b");
        w[5] = NAN;
        assert_string_equal(tape_first_nonfinite(t, &training), "mul blocks.1.b");
    }
    for (int i = 0; i < 12; i++)
        assert_true(g[i] == 0);
    tape_free(t);
}

/* What a look saw: the nodes in order, a copy of each result, and the node at which it ends the run (-1: none). */
typedef struct sight {
    const tape *t;
    int64_t count, end;
    float first[8]; /* element 0 of each result */
} sight;

static bool look(void *context, const tape_node *n)
{
    sight *s = context;
    assert_ptr_equal(n, tape_node_at(s->t, s->count));
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
    for (int mode = TAPE_INFER; mode <= TAPE_TRAIN; mode++) {
        must_plan(t, loss, (tape_mode)mode);
        tape_bind(t, w, g);
        for (int64_t end = -1; end < 5; end++) {
            sight s = {.t = t, .end = end};
            const tape_node *n = tape_watch(t, &training, look, &s);
            assert_ptr_equal(n, tape_node_at(t, end));
            assert_int_equal(s.count, end < 0 ? 5 : end + 1);
            for (int64_t i = 0; i < s.count; i++)
                assert_true(s.first[i] == expected[i]);
        }
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

static tape_value *five_inputs(tape *t)
{
    tape_value *x = toy_input(t, "x", 1);
    tape_node *n = tape_record(t, &toy_scale, 1, x->shape, (tape_value *[]){x, x, x, x, x}, 5);
    return n ? n->out : NULL;
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
    tape_fail(t, "linear: %d is not %d", 3, 4);
    return NULL;
}

static void test_recording_errors(void **unused)
{
    (void)unused;
    static const struct {
        wrong_recording *record;
        const char *word;
    } cases[] = {
        {two_names, "twin"},      {long_name, "63"},
        {empty_shape, "nothing"}, {huge_shape, "huge"},
        {five_dims, "deep"},      {five_inputs, "5"},
        {foreign_input, "tape"},  {nested, "nest"},
        {end_alone, "not begun"}, {from_a_builder, "3 is not 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tape *t = tape_create();
        scion_error err = {0};
        tape_value *loss = toy_energy(t, toy_param(t, "w", 1));
        assert_null(tape_failed(t));
        assert_null(cases[i].record(t));
        assert_non_null(tape_failed(t));
        if (!strstr(tape_failed(t), cases[i].word))
            fail_msg("\"%s\" does not speak of %s", tape_failed(t), cases[i].word);
        /* the first error stays, nothing is recorded any more, and planning reports it */
        assert_null(toy_param(t, "later", 0));
        assert_null(toy_energy(t, loss));
        assert_true(tape_plan_bytes(t, loss, TAPE_TRAIN, 1) == SIZE_MAX);
        assert_int_equal(tape_plan(t, loss, TAPE_TRAIN, 1, &err), SCION_EINVAL);
        assert_int_equal(err.status, SCION_EINVAL);
        assert_string_equal(err.message, tape_failed(t));
        tape_free(t);
    }
}

static void test_planning_errors(void **unused)
{
    (void)unused;
    scion_error err = {0};
    tape *t = tape_create();
    tape_value *p = toy_param(t, "w", 1), *loss = toy_energy(t, toy(t, &toy_blind, p, NULL, 1, 0));
    assert_int_equal(tape_plan(t, NULL, TAPE_TRAIN, 1, &err), SCION_EINVAL);
    assert_int_equal(tape_plan(t, p, TAPE_TRAIN, 1, &err), SCION_EINVAL);
    assert_int_equal(tape_plan(t, loss, TAPE_INFER, 0, &err), SCION_EINVAL);
    assert_int_equal(tape_plan(t, loss, TAPE_TRAIN, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "blind"));
    assert_int_equal(tape_plan(t, loss, TAPE_INFER, 1, &err), SCION_OK);
    tape_recompute_begin(t);
    assert_int_equal(tape_plan(t, loss, TAPE_INFER, 1, NULL), SCION_EINVAL);
    float w = 4;
    tape_bind(t, &w, NULL);
    assert_true(tape_forward(t, &training) == 8); /* the earlier plan is still there */
    tape_free(t);
    /* no tape at all is a tape that failed */
    assert_non_null(tape_failed(NULL));
    assert_null(toy_param(NULL, "w", 1));
    assert_int_equal(tape_plan(NULL, NULL, TAPE_TRAIN, 1, &err), SCION_ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),           cmocka_unit_test(test_diamond),
        cmocka_unit_test(test_used_twice),      cmocka_unit_test(test_wants),
        cmocka_unit_test(test_micro_batches),   cmocka_unit_test(test_eager_loss_recomputed),
        cmocka_unit_test(test_parameters),      cmocka_unit_test(test_first_nonfinite),
        cmocka_unit_test(test_watch),           cmocka_unit_test(test_recording_errors),
        cmocka_unit_test(test_planning_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
