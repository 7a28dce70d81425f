/* Laws of single operators beyond the comparison of test_ops.c: positions that attention may see, invariants of
 * rotation, small products, activations over their whole range, dropout, patches as convolutions, errors. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "op_law_cases.h"

/* ---- Attention --------------------------------------------------------------------------------------------- */

/* Weights sum to one: values that are the same at all positions come out as they are. Rounding: 150 weights. */
static void attention_averages(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"attention_causal", "attention_full"};
    for (int k = 0; k < 2; k++) {
        op_fixture *f = fixture(NAMES[k], (op_sizes){2, 150, 12, 4, 0});
        float *v = f->value[2].data;
        for (int64_t i = 0; i < f->out.count; i++)
            v[i] = v[i / (150 * 12) * (150 * 12) + i % 12];
        forward(f);
        check_array(f->out.count, f->out.data, widen(f->out.count, v), 2e-6);
        op_fixture_free(f);
    }
}

/* Nothing before t changes by a bit when position t and later ones do; in full attention everything does. */
static void causal_attention_does_not_see_the_future(void **state)
{
    (void)state;
    const int64_t T = 150, C = 12;
    for (int64_t t = 1; t < T; t += 21) {
        op_fixture *a = fixture("attention_causal", (op_sizes){1, T, C, 6, 0});
        op_fixture *b = fixture("attention_causal", (op_sizes){1, T, C, 6, 0});
        for (int i = 0; i < 3; i++)
            for (int64_t j = t * C; j < T * C; j++)
                b->value[i].data[j] = -3 * b->value[i].data[j] + 1;
        forward(a);
        forward(b);
        check_bits((size_t)(t * C) * sizeof(float), a->out.data, b->out.data);
        check(memcmp(a->out.data + t * C, b->out.data + t * C, sizeof(float)) != 0);
        op_fixture_free(a);
        op_fixture_free(b);
    }
}

/* Scores in the thousands: the largest wins, nothing overflows. */
static void attention_survives_large_scores(void **state)
{
    (void)state;
    op_fixture *f = fixture("attention_causal", (op_sizes){1, 70, 8, 8, 0});
    for (int64_t i = 0; i < f->out.count; i++)
        f->value[0].data[i] *= 3000;
    train(f);
    check_finite(f->out.count, f->out.data);
    for (int i = 0; i < 3; i++)
        check_finite(f->out.count, f->value[i].grad);
    op_fixture_free(f);
}

/* ---- Rotation ---------------------------------------------------------------------------------------------- */

static double turned_product(const op_fixture *f, int64_t t, int64_t u)
{
    return dot(16, f->out.data + t * 16, f->out.data + u * 16);
}

/* Norms stay, and the product of a query at t with a key at u depends on t - u alone. Float32 rounds the angles'
 * sines and cosines; the products are of size 16. */
static void rotation_keeps_norms_and_knows_differences_only(void **state)
{
    (void)state;
    const double tol = 2e-6;
    const int64_t T = 200;
    op_fixture *f = fixture("rotary", (op_sizes){1, T, 16, 16, 0});
    float *x = f->value[0].data;
    for (int64_t t = 2; t < T; t++) /* the same vector at even positions, another at odd ones */
        memcpy(x + t * 16, x + t % 2 * 16, 16 * sizeof *x);
    forward(f);
    check_bits(16 * sizeof(float), f->out.data, x); /* position 0 is not rotated */
    for (int64_t t = 0; t < T; t++)
        check_rel(dot(16, f->out.data + t * 16, f->out.data + t * 16), dot(16, x + t * 16, x + t * 16), tol);
    for (int64_t t = 0; t + 7 < T; t += 2)
        check_le(fabs(turned_product(f, t, t + 7) - turned_product(f, 0, 7)), 16 * tol);
    op_fixture_free(f);
}

/* ---- Activations ------------------------------------------------------------------------------------------- */

/* Over the range in which floats are of use, to float32 rounding of values of size max(1, |z|) (relu2: z^2). */
static void activations_are_exact_to_rounding(void **state)
{
    (void)state;
    enum { n = 40001 };
    float *z = floats(n), *y = floats(n), *ones = floats(n), *slope = floats(n);
    for (int i = 0; i < n; i++) {
        z[i] = (float)(i - n / 2) * 1e-3f;
        ones[i] = 1;
    }
    for (int k = 0; activation_row(k); k++) {
        const activation *f = activation_row(k);
        f->forward(f->factor, n, z, y);
        f->backward(f->factor, n, z, ones, false, slope);
        for (int i = 0; i < n; i++) {
            at("%s(%.9g) = %.9g, slope %.9g", f->name, (double)z[i], (double)y[i], (double)slope[i]);
            const double want = oracle_function(f->name, (double)z[i]);
            check_le(fabs((double)y[i] - want), 3e-7 * fmax(fmin(1, fabs((double)z[i])), fabs(want)));
            const double rise = oracle_slope(f->name, (double)z[i]);
            check_le(fabs((double)slope[i] - rise), 4e-7 * fmax(1, fabs(rise)));
        }
        f->forward(f->factor, 1, &(float){NAN}, y);
        check(isnan(y[0]));
        f->forward(f->factor, n, z, z); /* in place */
        for (int i = 0; i < n; i++)
            z[i] = (float)(i - n / 2) * 1e-3f;
    }
    check(activation_find("identity") == NULL && activation_find("gelu") != NULL);
}

/* ---- What is dropped --------------------------------------------------------------------------------------- */

/* True within six deviations of the expected number of n draws with probability p. */
static void check_share(double dropped, double n, double p)
{
    check_le(fabs(dropped / n - p), 6 * sqrt(p * (1 - p) / n));
}

static double count_zeros(int64_t n, const float *x, int64_t apart)
{
    double zeros = 0;
    for (int64_t i = 0; i < n; i += apart)
        zeros += x[i] == 0;
    return zeros;
}

static void as_many_are_dropped_as_said(void **state)
{
    (void)state;
    const op_sizes s = {400, 9, 37, 0, 0};
    op_fixture *elements = fixture("dropout", s), *samples = fixture("drop_samples", s);
    forward(elements);
    forward(samples);
    check_share(count_zeros(elements->out.count, elements->out.data, 1), (double)elements->out.count, 0.3);
    check_share(count_zeros(samples->out.count, samples->out.data, 9 * 37), 400, 0.4);
    op_fixture_free(elements);
    op_fixture_free(samples);
}

/* A sample meets the same fate wherever its batch begins; another seed or another place in the network is another
 * draw, and evaluation changes no bit. */
static void what_is_dropped_belongs_to_the_sample(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"dropout", "drop_samples"};
    const int64_t B = 40, own = 3 * 37;
    for (int k = 0; k < 2; k++) {
        op_fixture *a = fixture(NAMES[k], (op_sizes){B, 3, 37, 0, 0}),
                   *b = fixture(NAMES[k], (op_sizes){B, 3, 37, 0, 0});
        const size_t shared = (size_t)((B - 7) * own) * sizeof(float), all = (size_t)(B * own) * sizeof(float);
        memcpy(b->value[0].data, a->value[0].data + 7 * own, shared);
        a->run.sample = 100;
        b->run.sample = 107;
        b->run.step = 5; /* samples count over the whole run: the step says nothing new */
        forward(a);
        forward(b);
        check_bits(shared, a->out.data + 7 * own, b->out.data);
        memcpy(b->value[0].data, a->value[0].data, all);
        b->run.sample = 100;
        b->run.seed = 1;
        forward(b);
        check(memcmp(a->out.data, b->out.data, all) != 0);
        b->run.seed = 0;
        b->out.index++;
        forward(b);
        check(memcmp(a->out.data, b->out.data, all) != 0);
        a->run.training = false;
        forward(a);
        check_bits(all, a->out.data, a->value[0].data);
        op_fixture_free(a);
        op_fixture_free(b);
    }
}

/* ---- Patches ----------------------------------------------------------------------------------------------- */

/* Patches times the kernel's matrix is the convolution with that kernel and stride. Both sum 48 terms. */
static void patches_are_a_convolution(void **state)
{
    (void)state;
    const op_sizes s = {3, 12, 3, 4, 10};
    op_fixture *cut = fixture("patches", s), *conv = fixture("conv_patch", s);
    op_fixture *layer = fixture("linear_bias", (op_sizes){3, 9, 48, 0, 10});
    memcpy(conv->value[0].data, cut->value[0].data, (size_t)cut->value[0].count * sizeof(float));
    forward(cut);
    check(cut->out.count == layer->value[0].count && conv->value[1].count == layer->value[1].count);
    memcpy(layer->value[0].data, cut->out.data, (size_t)cut->out.count * sizeof(float));
    for (int i = 1; i < 3; i++)
        memcpy(layer->value[i].data, conv->value[i].data, (size_t)conv->value[i].count * sizeof(float));
    forward(conv);
    forward(layer);
    check_array(layer->out.count, layer->out.data, widen(conv->out.count, conv->out.data), 4e-6);
    op_fixture_free(cut);
    op_fixture_free(conv);
    op_fixture_free(layer);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------- */

/* Wrong shapes are refused in recording, with a sentence; later calls return NULL and change nothing. */
static void builders_refuse_what_does_not_fit(void **state)
{
    (void)state;
    for (int k = 0; k < 23; k++) {
        at("refusal %d", k);
        tape *t = tape_create();
        tape_value *x = tape_floats(t, "x", 3, (const int64_t[]){2, 3, 8});
        tape_value *u = tape_floats(t, "u", 3, (const int64_t[]){2, 3, 8});
        tape_value *flat = tape_floats(t, "flat", 2, (const int64_t[]){5, 8});
        tape_value *w = tape_param(t, "w", SCION_ROLE_HIDDEN, 2, (const int64_t[]){4, 7});
        tape_value *b = tape_param(t, "b", SCION_ROLE_VECTOR, 1, (const int64_t[]){3});
        tape_value *whole = tape_ints(t, "whole", 1, (const int64_t[]){5});
        tape_value *image = tape_floats(t, "image", 4, (const int64_t[]){2, 6, 8, 3});
        tape_value *bad =
            k == 0    ? op_linear(t, x, w, NULL)
            : k == 1  ? op_linear(t, tape_floats(t, "y", 2, (const int64_t[]){2, 7}), w, b)
            : k == 2  ? op_embedding(t, x, w)
            : k == 3  ? op_rmsnorm(t, x, 3, 0)
            : k == 4  ? op_layernorm(t, x, b, NULL, 0)
            : k == 5  ? op_rotary(t, x, 1, 10000)
            : k == 6  ? op_rotary(t, flat, 4, 10000)
            : k == 7  ? op_attention(t, x, u, flat, 4, true)
            : k == 8  ? op_attention(t, x, x, u, 4, true)
            : k == 9  ? op_activation(t, x, activation_find("none"))
            : k == 10 ? op_add(t, x, flat)
            : k == 11 ? op_cross_entropy(t, x, w, NULL, whole, NULL, 0)
            : k == 12 ? op_reshape(t, x, 1, (const int64_t[]){47})
            : k == 13 ? op_patches(t, image, 4)
            : k == 14 ? op_patches(t, x, 1)
            : k == 15 ? op_add_each(t, x, b)
            : k == 16 ? op_prepend(t, x, b)
            : k == 17 ? op_pick(t, x, 3)
            : k == 18 ? op_mean_positions(t, flat)
            : k == 19 ? op_dropout(t, x, 1)
            : k == 20 ? op_dropout(t, x, -0.1)
            : k == 21 ? op_drop_samples(t, x, 1)
                      : op_cross_entropy(t, tape_floats(t, "y", 2, (const int64_t[]){5, 7}), w, NULL, whole, flat, 0);
        check(bad == NULL);
        check(tape_failed(t) != NULL);
        check(op_add(t, bad, x) == NULL);
        tape_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(attention_averages),
        LAW(causal_attention_does_not_see_the_future),
        LAW(attention_survives_large_scores),
        LAW(rotation_keeps_norms_and_knows_differences_only),
        LAW(activations_are_exact_to_rounding),
        LAW(as_many_are_dropped_as_said),
        LAW(what_is_dropped_belongs_to_the_sample),
        LAW(patches_are_a_convolution),
        LAW(builders_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
