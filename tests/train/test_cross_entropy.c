/* Laws of the cross-entropy beyond the comparison of test_ops.c: known values, targets that do not count or do not
 * exist, chunks of rows, the scale of the gradient, and a table that is embedding and output layer at once. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "op_law_cases.h"
#include "tensor/plan.h"

/* ---- Cross-entropy ----------------------------------------------------------------------------------------- */

/* All logits equal: ln V for any smoothing; the first of equals counts as the largest. */
static void cross_entropy_of_uniform_logits(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"cross_entropy", "cross_entropy_smooth"};
    for (int k = 0; k < 2; k++)
        for (int64_t V = 1; V < 3000; V = 3 * V + 1) {
            op_fixture *f = fixture(NAMES[k], (op_sizes){2, 9, 4, 0, V});
            double hits, rows;
            int64_t first = 0, counting = 0;
            memset(f->value[1].data, 0, (size_t)f->value[1].count * sizeof(float));
            for (int64_t i = 0; k == 1 && i < V; i++)
                f->value[2].data[i] = 0.5f;
            for (int64_t i = 0; i < 18; i++) {
                first += f->value[3].ints[i] == 0;
                counting += f->value[3].ints[i] >= 0;
            }
            forward(f);
            check_le(fabs((double)f->out.data[0] - log((double)V)), 1e-6 * (1 + log((double)V)));
            f->node.op->score(&f->node, &hits, &rows);
            check(hits == (double)first && rows == (double)counting);
            op_fixture_free(f);
        }
}

/* Two classes, logits 0 and z, target 1, smoothing s: log(1 + e^z) - (1 - s/2) z, by hand. */
static void label_smoothing_by_hand(void **state)
{
    (void)state;
    op_fixture *f = fixture("cross_entropy_smooth", (op_sizes){1, 1, 1, 0, 2});
    const double s = 0.1, z = 1.25;
    f->value[0].data[0] = 1;
    f->value[1].data[0] = 0;
    f->value[1].data[1] = 1;
    f->value[2].data[0] = 0;
    f->value[2].data[1] = 0.25f;
    f->value[3].ints[0] = 1;
    memset(f->value[2].grad, 0, 2 * sizeof(float));
    train(f);
    check_rel((double)f->out.data[0], log(1 + exp(z)) - (1 - s / 2) * z, 1e-6);
    const double slope = 1 / (1 + exp(-z)) - (1 - s / 2);
    check_array(2, f->value[2].grad, ((double[]){-slope, slope}), 1e-6);
    op_fixture_free(f);
}

static void ignored_targets_do_not_count(void **state)
{
    (void)state;
    op_fixture *f = fixture("cross_entropy", (op_sizes){1, 6, 5, 0, 7});
    float *before = copy_floats(f->value[1].count, f->value[1].grad);
    double hits, rows;
    for (int64_t i = 0; i < 6; i++)
        f->value[3].ints[i] = -100;
    f->node.accumulate[0] = 0;
    train(f);
    f->node.op->score(&f->node, &hits, &rows);
    check(f->out.data[0] == 0 && hits == 0 && rows == 0);
    check_array(f->value[0].count, f->value[0].grad, doubles(f->value[0].count), 0);
    check_bits((size_t)f->value[1].count * sizeof(float), f->value[1].grad, before);
    op_fixture_free(f);
}

/* A target or token that is not in the vocabulary shows as NaN instead of reading foreign memory. */
static void foreign_tokens_show(void **state)
{
    (void)state;
    op_fixture *f = fixture("cross_entropy", (op_sizes){1, 6, 5, 0, 7});
    f->value[3].ints[2] = 7;
    train(f);
    check(isnan(f->out.data[0]));
    check_finite(f->value[1].count, f->value[1].grad);
    op_fixture_free(f);
    f = fixture("embedding", (op_sizes){1, 3, 5, 0, 7});
    f->value[0].ints[1] = 7;
    f->value[0].ints[2] = -1;
    train(f);
    check_finite(5, f->out.data);
    check(isnan(f->out.data[5]) && isnan(f->out.data[14]));
    op_fixture_free(f);
}

/* loss_scale: of the gradients, exactly since it is a power of two; the loss stays. Chunks: rows 16 at a time, to
 * rounding, for 16 rows at a time are summed in another order than 60. */
static void cross_entropy_scale_and_chunks(void **state)
{
    (void)state;
    const op_sizes s = {3, 20, 9, 0, 50};
    op_fixture *f[3];
    for (int k = 0; k < 3; k++) {
        f[k] = fixture("cross_entropy_smooth", s);
        for (int i = 0; i < 3; i++)
            memset(f[k]->value[i].grad, 0, (size_t)f[k]->value[i].count * sizeof(float));
        if (k == 1)
            f[k]->out.grad[0] = f[k]->run.loss_scale = 0.25f;
        if (k == 2)
            f[k]->node.ints[0] = 1;
        train(f[k]);
    }
    check(f[0]->out.data[0] == f[1]->out.data[0]);
    check_rel((double)f[2]->out.data[0], (double)f[0]->out.data[0], 1e-6);
    check(f[2]->out.data[1] == f[0]->out.data[1] && f[2]->out.data[2] == f[0]->out.data[2]);
    for (int i = 0; i < 3; i++) {
        const int64_t n = f[0]->value[i].count;
        check_array(n, f[2]->value[i].grad, widen(n, f[0]->value[i].grad), 2e-6);
        for (int64_t j = 0; j < n; j++)
            f[1]->value[i].grad[j] *= 4;
        check_bits((size_t)n * sizeof(float), f[1]->value[i].grad, f[0]->value[i].grad);
    }
    for (int k = 0; k < 3; k++)
        op_fixture_free(f[k]);
}

/* Soft targets that are one-hot are the targets: the same loss and gradients to rounding. */
static void one_hot_weights_are_targets(void **state)
{
    (void)state;
    const op_sizes s = {2, 9, 6, 0, 13};
    op_fixture *hard = fixture("cross_entropy_smooth", s), *soft = fixture("cross_entropy_soft_smooth", s);
    memset(soft->value[4].data, 0, (size_t)soft->value[4].count * sizeof(float));
    for (int64_t i = 0; i < 18; i++) {
        soft->value[3].ints[i] = hard->value[3].ints[i];
        if (hard->value[3].ints[i] >= 0)
            soft->value[4].data[i * 13 + hard->value[3].ints[i]] = 1;
    }
    for (int i = 0; i < 3; i++) {
        memcpy(soft->value[i].data, hard->value[i].data, (size_t)hard->value[i].count * sizeof(float));
        memcpy(soft->value[i].grad, hard->value[i].grad, (size_t)hard->value[i].count * sizeof(float));
    }
    train(hard);
    train(soft);
    check_array(3, soft->out.data, widen(3, hard->out.data), 1e-6);
    for (int i = 0; i < 3; i++)
        check_array(hard->value[i].count, soft->value[i].grad, widen(hard->value[i].count, hard->value[i].grad),
                    2e-6);
    op_fixture_free(hard);
    op_fixture_free(soft);
}

/* forward gives the loss of forward_backward, bit for bit, and writes no gradient. */
static void forward_writes_no_gradients(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"cross_entropy", "cross_entropy_smooth", "cross_entropy_soft_smooth"};
    for (int k = 0; k < 3; k++) {
        op_fixture *a = fixture(NAMES[k], (op_sizes){2, 9, 6, 0, 13}),
                   *b = fixture(NAMES[k], (op_sizes){2, 9, 6, 0, 13});
        float *before[3];
        for (int i = 0; i < 3; i++)
            before[i] = a->value[i].grad ? copy_floats(a->value[i].count, a->value[i].grad) : NULL;
        forward(a);
        train(b);
        check_bits(3 * sizeof(float), a->out.data, b->out.data);
        for (int i = 0; i < 3; i++)
            if (before[i])
                check_bits((size_t)a->value[i].count * sizeof(float), a->value[i].grad, before[i]);
        op_fixture_free(a);
        op_fixture_free(b);
    }
}

/* ---- A table that is both embedding and output layer --------------------------------------------------------- */

enum { tokens = 8, vocab = 11, width = 6 };

/* Gradients of embedding -> rmsnorm -> cross-entropy; returns the loss. */
static double run_tied(bool tied, const float *table, float *grads)
{
    const int64_t shape[] = {vocab, width}, batch[] = {2, tokens / 2};
    scion_error err;
    tape *t = tape_create();
    tape_value *x = tape_ints(t, "tokens", 2, batch), *y = tape_ints(t, "targets", 2, batch);
    tape_value *e = tape_param(t, "embedding", SCION_ROLE_ONEHOT, 2, shape);
    tape_value *w = tied ? e : tape_param(t, "head", SCION_ROLE_OUTPUT, 2, shape);
    tape_value *loss = op_cross_entropy(t, op_rmsnorm(t, op_embedding(t, x, e), width, 1e-6), w, NULL, y, NULL, 0);
    tape_plan *p;
    check_ok(plan_make(&p, t, loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 2}, &err), &err);
    check_ok(plan_commit(p, NULL, &err), &err);
    float *weights = floats(2 * vocab * width);
    memcpy(weights, table, vocab * width * sizeof(float));
    memcpy(weights + vocab * width, table, vocab * width * sizeof(float));
    tape_bind(t, weights, grads, NULL);
    for (int i = 0; i < tokens; i++) {
        plan_value(p, x)->ints[i] = i * i % vocab;
        plan_value(p, y)->ints[i] = (i + 1) * (i + 1) % vocab;
    }
    tape_run run = {.threads = 2, .loss_scale = 1};
    const double value = (double)plan_forward(p, &run);
    plan_backward(p, &run);
    plan_free(p);
    tape_free(t);
    return value;
}

/* The gradient of a shared table is the sum of those of two tables with the same entries. */
static void tied_tables_add_their_gradients(void **state)
{
    (void)state;
    rng r = rng_of(7);
    const int64_t n = vocab * width;
    float *table = gaussian(&r, n), *apart = floats(2 * n), *together = floats(n);
    const double a = run_tied(false, table, apart), b = run_tied(true, table, together);
    at("tied table");
    check(a == b);
    double *want = doubles(n);
    for (int64_t i = 0; i < n; i++)
        want[i] = (double)apart[i] + (double)apart[n + i];
    check_array(n, together, want, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(cross_entropy_of_uniform_logits), LAW(label_smoothing_by_hand),
        LAW(ignored_targets_do_not_count),    LAW(foreign_tokens_show),
        LAW(cross_entropy_scale_and_chunks),  LAW(tied_tables_add_their_gradients),
        LAW(one_hot_weights_are_targets),     LAW(forward_writes_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
