/* Laws of the operators on images beyond the comparison of test_ops.c: what convolution does to a shifted or a single
 * pixel, which statistics batch normalisation uses and keeps, where the gradient of a maximum goes, refusals. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "op_law_cases.h"

/* ---- Convolution ------------------------------------------------------------------------------------------- */

/* A kernel of one at its middle and zeros around it gives the image back, to the bit. */
static void an_identity_kernel_gives_the_image_back(void **state)
{
    (void)state;
    op_fixture *f = fixture("conv_3x3_15_64_64", (op_sizes){2, 9, 20, 3, 20});
    float *w = f->value[1].data;
    memset(w, 0, (size_t)f->value[1].count * sizeof *w);
    for (int64_t i = 0; i < 20; i++)
        w[i * 20 * 9 + i * 9 + 4] = 1;
    forward(f);
    check_bits((size_t)f->out.count * sizeof(float), f->out.data, f->value[0].data);
    op_fixture_free(f);
}

/* An image that moves by a pixel moves the result by a pixel, to the bit, where both see no border. */
static void convolution_moves_with_its_image(void **state)
{
    (void)state;
    const int64_t side = 12, C = 5, V = 7;
    op_fixture *a = fixture("conv_3x3_15_64_64", (op_sizes){1, side, C, 3, V});
    op_fixture *b = fixture("conv_3x3_15_64_64", (op_sizes){1, side, C, 3, V});
    for (int64_t y = 0; y + 1 < side; y++)
        memcpy(b->value[0].data + (y + 1) * side * C, a->value[0].data + y * side * C,
               (size_t)(side * C) * sizeof(float));
    forward(a);
    forward(b);
    for (int64_t y = 1; y + 2 < side; y++)
        check_bits((size_t)(side * V) * sizeof(float), b->out.data + (y + 1) * side * V, a->out.data + y * side * V);
    op_fixture_free(a);
    op_fixture_free(b);
}

/* <dy, conv(x)> = <dx, x> = <dw, w>: both backward passes are transposes of the forward pass. Sums of 10^4 products
 * of size 1, in double, of results that are rounded to 6e-8 of some ten. */
static void backward_is_the_transpose(void **state)
{
    (void)state;
    static const char *const names[] = {"conv_3x3_7_256_256", "conv_stride", "conv_patch"};
    for (int i = 0; i < 3; i++) {
        op_fixture *f = fixture(names[i], (op_sizes){4, 14, 9, 4, 11});
        for (int k = 0; k < 2; k++)
            memset(f->value[k].grad, 0, (size_t)f->value[k].count * sizeof(float));
        if (f->node.in[2])
            memset(f->value[2].data, 0, (size_t)f->value[2].count * sizeof(float));
        train(f);
        const double out = dot(f->out.count, f->out.grad, f->out.data);
        for (int k = 0; k < 2; k++)
            check_le(fabs(dot(f->value[k].count, f->value[k].grad, f->value[k].data) - out), 1e-3);
        op_fixture_free(f);
    }
}

/* ---- Batch normalisation ----------------------------------------------------------------------------------- */

/* Mean 0 and variance 1 of every channel, whatever the scale and place of x: a channel far from zero, where
 * E x^2 - (E x)^2 would lose all digits, another of size 1e-3. */
static void batches_become_standard(void **state)
{
    (void)state;
    const int64_t B = 6, T = 31, C = 24, rows = B * T * T;
    op_fixture *f = fixture("batchnorm_plain", (op_sizes){B, T, C, 0, 0});
    float *x = f->value[0].data;
    for (int64_t r = 0; r < rows; r++) {
        x[r * C] += 1000;
        x[r * C + 1] *= 1e-3f;
    }
    forward(f);
    for (int64_t c = 0; c < C; c++) {
        double mean = 0, square = 0;
        for (int64_t r = 0; r < rows; r++) {
            mean += (double)f->out.data[r * C + c] / (double)rows;
            square += pow((double)f->out.data[r * C + c], 2) / (double)rows;
        }
        at("channel %d", (int)c);
        check_le(fabs(mean), c == 0 ? 1e-4 : 1e-6); /* 1000 is rounded to 6e-5 */
        check_le(fabs(square - 1), c == 0 ? 1e-4 : 1e-5);
    }
    op_fixture_free(f);
}

/* Running statistics keep 0.6 of what they were, only if asked to, and take the variance with rows - 1; evaluation
 * uses them and nothing of the batch. */
static void running_statistics_are_kept_and_used(void **state)
{
    (void)state;
    const int64_t rows = 3 * 4, C = 2;
    op_fixture *f = fixture("batchnorm", (op_sizes){3, 2, C, 0, 0});
    float *x = f->value[0].data, *running = f->value[3].data, *var = f->value[4].data;
    const float scale[] = {2, 3}, shift[] = {0.5f, -1};
    memcpy(f->value[1].data, scale, sizeof scale);
    memcpy(f->value[2].data, shift, sizeof shift);
    for (int64_t r = 0; r < rows; r++) {
        x[r * C] = (float)r; /* mean 5.5, variance 143/12, with rows - 1 13 */
        x[r * C + 1] = r % 2 ? 3 : 1;
    }
    running[0] = 1, running[1] = 2, var[0] = 10, var[1] = 20;
    forward(f);
    check(running[0] == 1 && var[1] == 20);
    f->run.update_buffers = true;
    forward(f);
    check_rel((double)running[0], 0.6 * 1 + 0.4 * 5.5, 1e-6);
    check_rel((double)running[1], 2, 1e-6);
    check_rel((double)var[0], 0.6 * 10 + 0.4 * 13, 1e-6);
    check_rel((double)var[1], 0.6 * 20 + 0.4 * 12 / 11, 1e-6);
    f->run.update_buffers = f->run.training = false;
    x[0] = 4;
    forward(f);
    check_rel((double)f->out.data[0], 2 * (4 - 2.8) / sqrt(11.2 + 1e-5) + 0.5, 1e-6);
    check_rel((double)running[0], 2.8, 1e-6);
    op_fixture_free(f);
}

/* ---- Maximum ----------------------------------------------------------------------------------------------- */

/* The first of equals has the gradient; a NaN is seen wherever it stands; pixels that fill no square have none. */
static void maxima_are_single_and_show_nan(void **state)
{
    (void)state;
    op_fixture *f = fixture("max_pool_2", (op_sizes){1, 5, 1, 2, 0});
    float *x = f->value[0].data, *dx = f->value[0].grad;
    for (int i = 0; i < 25; i++)
        x[i] = i == 2 || i == 3 ? 7 : 1;
    memset(dx, 0, 25 * sizeof *dx);
    train(f);
    check(f->out.count == 4 && f->out.data[0] == 1 && f->out.data[1] == 7);
    check(dx[0] == f->out.grad[0] && dx[1] == 0 && dx[5] == 0 && dx[6] == 0);
    check(dx[2] == f->out.grad[1] && dx[3] == 0);
    for (int i = 0; i < 5; i++)
        check(dx[5 * i + 4] == 0 && dx[20 + i] == 0);
    for (int i = 0; i < 4; i++) {
        x[i / 2 * 5 + i % 2] = NAN;
        forward(f);
        check(isnan(f->out.data[0]) && f->out.data[1] == 7);
        x[i / 2 * 5 + i % 2] = 1;
    }
    op_fixture_free(f);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------- */

static void builders_refuse_images_that_do_not_fit(void **state)
{
    (void)state;
    for (int k = 0; k < 10; k++) {
        at("refusal %d", k);
        tape *t = tape_create();
        const int64_t four = 4, eight = 8;
        tape_value *x = tape_floats(t, "x", 4, (const int64_t[]){2, 6, 5, 8});
        tape_value *flat = tape_floats(t, "flat", 2, (const int64_t[]){5, 8});
        tape_value *w = tape_param(t, "w", SCION_ROLE_HIDDEN, 4, (const int64_t[]){4, 8, 3, 3});
        tape_value *other = tape_param(t, "other", SCION_ROLE_HIDDEN, 4, (const int64_t[]){4, 7, 3, 3});
        tape_value *large = tape_param(t, "large", SCION_ROLE_HIDDEN, 4, (const int64_t[]){4, 8, 7, 3});
        tape_value *bias = tape_param(t, "bias", SCION_ROLE_VECTOR, 1, &eight);
        tape_value *mean = tape_buffer(t, "mean", 0, 1, &eight), *var = tape_buffer(t, "var", 1, 1, &four);
        tape_value *bad = k == 0   ? op_convolution(t, x, other, NULL, 1, 1)
                          : k == 1 ? op_convolution(t, x, large, NULL, 1, 0)
                          : k == 2 ? op_convolution(t, x, w, bias, 1, 1)
                          : k == 3 ? op_convolution(t, flat, w, NULL, 1, 1)
                          : k == 4 ? op_convolution(t, x, w, NULL, 0, 1)
                          : k == 5 ? op_convolution(t, x, w, NULL, 1, 3)
                          : k == 6 ? op_batchnorm(t, x, NULL, NULL, mean, var, NULL, 0.5, 0)
                          : k == 7 ? op_batchnorm(t, x, NULL, NULL, mean, bias, NULL, 0.5, 0)
                          : k == 8 ? op_max_pool(t, x, 6)
                                   : op_max_pool(t, flat, 2);
        check(bad == NULL);
        check(tape_failed(t) != NULL);
        tape_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(an_identity_kernel_gives_the_image_back),
        LAW(convolution_moves_with_its_image),
        LAW(backward_is_the_transpose),
        LAW(batches_become_standard),
        LAW(running_statistics_are_kept_and_used),
        LAW(maxima_are_single_and_show_nan),
        LAW(builders_refuse_images_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
