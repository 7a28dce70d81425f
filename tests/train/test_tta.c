/* Test-time augmentation: what the views are, and that accuracies are those of logits averaged by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/tta.h"
#include "trainer_tests.h"

enum { H = 3, W = 4, C = 2, COUNT = 2 };

/* Number (n, y, x, c) of an array, in both layouts. */
static float element(int n, int y, int x, int c)
{
    return (float)(1000 * n + 100 * y + 10 * x + c);
}

static int reflected(int i, int n)
{
    return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

static void must_show(const tta_view *v, bool last)
{
    const data_array a = {
        .channels_last = last, .shape = {last ? H : C, last ? W : H, last ? C : W}, .ndim = 3, .count = H * W * C};
    float from[COUNT * H * W * C], to[COUNT * H * W * C];
    for (int i = 0; i < COUNT * H * W * C; i++) {
        const int n = i / (H * W * C), k = i % (H * W * C);
        from[i] = last ? element(n, k / C / W, k / C % W, k % C) : element(n, k / W % H, k % W, k / (H * W));
    }
    tta_apply(v, &a, COUNT, from, to);
    for (int i = 0; i < COUNT * H * W * C; i++) {
        const int n = i / (H * W * C), k = i % (H * W * C);
        const int y = last ? k / C / W : k / W % H, x = last ? k / C % W : k % W, c = last ? k % C : k / (H * W);
        const int column = v->mirror ? W - 1 - x : x; /* mirrored after it was moved */
        assert_true(to[i] == element(n, reflected(y + v->dy, H), reflected(column + v->dx, W), c));
    }
}

static void views_move_and_mirror(void **state)
{
    (void)state;
    for (int i = 0; tta_name(i); i++) {
        const tta *t = tta_find(tta_name(i));
        float sum = 0;
        for (int k = 0; k < t->count; k++) {
            must_show(&t->views[k], false);
            must_show(&t->views[k], true);
            sum += t->views[k].weight;
        }
        assert_true(sum == 1);
    }
    assert_string_equal(tta_name(0), "none");
    const tta *t = tta_find("translate"); /* half of the weight is on the image in its place */
    assert_true(t->views[0].weight + t->views[1].weight == 0.5f && t->views[0].dy == 0 && t->views[1].dx == 0);
    float one = 7, same = 0;
    const data_array pixel = {.shape = {1, 1, 1}, .ndim = 3, .count = 1};
    tta_apply(&t->views[3], &pixel, 1, &one, &same); /* no neighbours */
    assert_true(same == 7);
}

static trainer *make(const char *pair)
{
    static const char *const pairs[] = {"model=mlp", "data_kind=synthetic", "image_size=6", "width=16", "steps=4",
                                        "batch=32",  "eval_batches=5",      "seed=3",       "lr=0.1"};
    config c;
    trainer *t = NULL;
    scion_error err = {0};
    double loss;
    config_init(&c);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(config_set_pair(&c, pairs[i], &err), SCION_OK);
    assert_int_equal(config_set_pair(&c, pair, &err), SCION_OK);
    if (tiny_create(&t, &c, &err) != SCION_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < 4; i++)
        assert_int_equal(tiny_step(t, &loss, &err), SCION_OK);
    return t;
}

/* The scores of `batches` batches, from logits of the views that this function makes. */
static void by_hand(trainer *t, const char *name, int64_t batches, double *first, double *five)
{
    enum { side = 6, classes = 10, each = 3 * side * side, batch = 32 };
    static float x[batch * each];
    const tta *views = tta_find(name);
    int32_t labels[batch];
    void *const arrays[DATA_ARRAYS] = {x, labels};
    scion_error err = {0};
    float *input = plan_value(t->logits, t->model.inputs[0])->data;
    const tape_value *z = plan_value(t->logits, t->model.logits);
    *first = *five = 0;
    for (int64_t b = 0; b < batches; b++) {
        double sum[batch][classes] = {{0}};
        assert_int_equal(data_fill(t->data, (data_sequence){.part = DATA_VAL}, b * batch, batch, arrays, &err),
                         SCION_OK);
        for (int v = 0; v < views->count; v++) {
            const tta_view *w = &views->views[v];
            for (int i = 0; i < batch * each; i++) {
                const int column = w->mirror ? side - 1 - i % side : i % side;
                input[i] = x[i / (side * side) * side * side + reflected(i / side % side + w->dy, side) * side +
                             reflected(column + w->dx, side)];
            }
            plan_forward(t->logits, &(tape_run){.threads = t->threads, .loss_scale = 1});
            for (int i = 0; i < batch * classes; i++)
                sum[i / classes][i % classes] += (double)w->weight * (double)z->data[i];
        }
        for (int i = 0; i < batch; i++) {
            int larger = 0;
            for (int k = 0; k < classes; k++)
                larger += sum[i][k] > sum[i][labels[i]];
            *first += larger == 0;
            *five += larger < 5;
        }
    }
    *first /= (double)(batches * batch);
    *five /= (double)(batches * batch);
}

static void accuracies_are_those_of_mean_logits(void **state)
{
    static const char *const pairs[] = {"tta=mirror", "tta=translate"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        trainer *t = make(pairs[i]);
        trainer_scores during, last;
        scion_error err = {0};
        double first, five, plain, ignored;
        assert_int_equal(trainer_validate(t, true, NULL, &last, NULL, &err), SCION_OK);
        by_hand(t, pairs[i] + 4, 5, &first, &five);
        assert_true(fabs(last.accuracy - first) < 1e-9 && fabs(last.top5 - five) < 1e-9);
        by_hand(t, "none", 5, &plain, &ignored);
        assert_true(fabs(last.plain_accuracy - plain) < 1e-9);
        assert_true(five > first && first > 0.15); /* it has learned: chance is 0.1 */
        /* as they are, on the way */
        assert_int_equal(trainer_validate(t, false, NULL, &during, NULL, &err), SCION_OK);
        assert_true(during.accuracy == last.plain_accuracy && during.loss == last.loss);
        assert_true(during.top5 >= during.accuracy);
        /* 5 batches, and as many passes over each at the end as there are views */
        assert_int_equal(trainer_validation_passes(t, true), 5 * tta_find(pairs[i] + 4)->count);
        assert_int_equal(trainer_validation_passes(t, false), 5);
        trainer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_move_and_mirror),
        cmocka_unit_test(accuracies_are_those_of_mean_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
