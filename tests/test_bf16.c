/* bfloat16 storage: gradients are read exactly; weights are rounded stochastically, to one of the two neighbours of
 * the float32 result and without bias, and so is the gradient that `light` leaves; unless the options say nearest.
 * */
#include "support.h"

#include <math.h>
#include <string.h>

#include "base/bf16.h"

static scion_error err;

enum { ROWS = 6, COLS = 5, N = ROWS * COLS };

static scion_param param_with(scion_norm norm, void *weight, scion_dtype weight_type, void *grad,
                              scion_dtype grad_type)
{
    scion_param p = matrix_of(ROWS, COLS, norm, SCION_ROLE_HIDDEN);
    p.weight = weight;
    p.weight_type = weight_type;
    p.grad = grad;
    p.grad_type = grad_type;
    return p;
}

static float *rounded(const float *x)
{
    float *y = floats(N);
    for (int i = 0; i < N; i++)
        y[i] = bf16_value(bf16_nearest(x[i]));
    return y;
}

/* A bfloat16 gradient is the float32 gradient of the same values, bit for bit, under every rule. */
static void test_gradients(void **state)
{
    (void)state;
    static const scion_norm norms[] = {SCION_NORM_SPECTRAL, SCION_NORM_COL, SCION_NORM_ROW, SCION_NORM_SIGN,
                                       SCION_NORM_RMS};
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++)
        for (int64_t t = 0; t < COUNT_OF(norms); t++) {
            rng r = rng_of(1);
            float *w = gaussian(&r, N), *w16 = copy_floats(N, w), *g = floats(N);
            uint16_t *g16 = room(N * sizeof *g16), *prev16 = room(N * sizeof *prev16);
            scion_param a = param_with(norms[t], w, SCION_F32, g, SCION_F32);
            scion_param b = param_with(norms[t], w16, SCION_F32, g16, SCION_BF16);
            scion_optimizer *oa, *ob;
            scion_options o;
            scion_options_init(&o, (scion_rule)rule);
            if (rule == SCION_RULE_ADAMW || rule == SCION_RULE_SGD)
                o.clip_norm = 0.5;
            a.grad_prev = floats(N);
            b.grad_prev = prev16;
            at("rule %s, norm %d", scion_enum_name(SCION_ENUM_RULE, rule), (int)norms[t]);
            check_ok(scion_optimizer_create(&oa, &o, &a, 1, &err), &err);
            check_ok(scion_optimizer_create(&ob, &o, &b, 1, &err), &err);
            for (int k = 0; k < 3; k++) {
                float *values = rounded(gaussian(&r, N));
                memcpy(g, values, N * sizeof *g);
                memcpy(g16, bf16_copy(N, values), N * sizeof *g16);
                memcpy(a.grad_prev, values, N * sizeof *g);
                memcpy(prev16, g16, N * sizeof *g16);
                check_ok(scion_optimizer_step(oa, 0.1, &err), &err);
                check_ok(scion_optimizer_step(ob, 0.1, &err), &err);
                check_bits(N * sizeof *w, w, w16);
            }
            scion_optimizer_free(oa);
            scion_optimizer_free(ob);
            release(NULL);
        }
}

/* One step from the same bfloat16 weights under many seeds: each entry lands on one of the two neighbours of the
 * float32 result, and the mean over the seeds is that result within five standard deviations. */
static void test_stochastic_weights(void **state)
{
    (void)state;
    enum { SEEDS = 2000 };
    static const scion_norm norms[] = {SCION_NORM_SPECTRAL, SCION_NORM_COL, SCION_NORM_SIGN};
    for (int64_t t = 0; t < COUNT_OF(norms); t++) {
        rng r = rng_of(2);
        float *start = rounded(gaussian(&r, N)), *g = gaussian(&r, N), *exact = copy_floats(N, start);
        uint16_t *w = room(N * sizeof *w);
        double *mean = doubles(N);
        scion_options o;
        scion_optimizer *opt;
        scion_options_init(&o, SCION_RULE_SCION);
        o.threads = 1;
        scion_param p = param_with(norms[t], exact, SCION_F32, g, SCION_F32);
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.013, &err), &err);
        scion_optimizer_free(opt);
        p = param_with(norms[t], w, SCION_BF16, g, SCION_F32);
        for (int s = 0; s < SEEDS; s++) {
            memcpy(w, bf16_copy(N, start), N * sizeof *w);
            o.seed = (uint64_t)s;
            check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
            check_ok(scion_optimizer_step(opt, 0.013, &err), &err);
            scion_optimizer_free(opt);
            for (int i = 0; i < N; i++)
                mean[i] += (double)bf16_value(w[i]) / SEEDS;
            for (int i = 0; i < N; i++) { /* a spacing is 2^-7 of the power of two below: the neighbours */
                double x = (double)exact[i], spacing = ldexp(1, (int)floor(log2(fabs(x))) - 7);
                at("norm %d, seed %d, entry %d", (int)norms[t], s, i);
                check_le(fabs((double)bf16_value(w[i]) - x), spacing * (1 + 1e-4));
            }
        }
        for (int i = 0; i < N; i++) {
            double x = (double)exact[i], spacing = ldexp(1, (int)floor(log2(fabs(x))) - 7);
            at("norm %d, entry %d: mean over %d seeds", (int)norms[t], i, SEEDS);
            check_le(fabs(mean[i] - x), 5 * 0.5 * spacing / sqrt(SEEDS));
        }
    }
}

/* Steps far below the spacing of bfloat16 still move the weights, on average by as much as they should: 400
 * steps of 1/64 spacing. Round to nearest would stand still. */
static void test_small_steps_add_up(void **state)
{
    (void)state;
    enum { STEPS = 400, SIDE = 32, COUNT = SIDE * SIDE };
    uint16_t *w = room(COUNT * sizeof *w);
    float *g = floats(COUNT);
    for (int i = 0; i < COUNT; i++) {
        w[i] = bf16_nearest(1);
        g[i] = -1;
    }
    scion_param p = matrix_of(SIDE, SIDE, SCION_NORM_SIGN, SCION_ROLE_PLAIN);
    scion_options o;
    scion_optimizer *opt;
    p.weight = w;
    p.weight_type = SCION_BF16;
    p.grad = g;
    scion_options_init(&o, SCION_RULE_SIGNUM);
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    const double step = 0x1p-13; /* the spacing just above 1 is 2^-7 */
    for (int k = 0; k < STEPS; k++)
        check_ok(scion_optimizer_step(opt, step, &err), &err);
    scion_optimizer_free(opt);
    double mean = 0;
    for (int i = 0; i < COUNT; i++)
        mean += (double)bf16_value(w[i]) / COUNT;
    /* each step has variance below step * spacing; five standard deviations of the mean of 1024 walks */
    check_le(fabs(mean - 1 - STEPS * step), 5 * sqrt(STEPS * step * 0x1p-7 / COUNT));
}

/* Same seed, same bits; another seed, others; the number of threads does not matter. */
static void test_seed_decides(void **state)
{
    (void)state;
    rng r = rng_of(4);
    float *start = gaussian(&r, N), *g = gaussian(&r, N);
    uint16_t *w[4];
    static const struct {
        uint64_t seed;
        int32_t threads;
    } runs[4] = {{1, 1}, {1, 1}, {1, 2}, {2, 1}};
    for (int k = 0; k < 4; k++) {
        scion_options o;
        scion_optimizer *opt;
        scion_options_init(&o, SCION_RULE_USCION);
        o.seed = runs[k].seed;
        o.threads = runs[k].threads;
        w[k] = bf16_copy(N, start);
        scion_param p = param_with(SCION_NORM_COL, w[k], SCION_BF16, g, SCION_F32);
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        for (int step = 0; step < 5; step++)
            check_ok(scion_optimizer_step(opt, 0.01, &err), &err);
        scion_optimizer_free(opt);
    }
    check_bits(N * sizeof *w[0], w[0], w[1]);
    check_bits(N * sizeof *w[0], w[0], w[2]);
    check(memcmp(w[0], w[3], N * sizeof *w[0]) != 0);
}

/* rounding = nearest: ties to even, of the weights and of what light leaves. */
static void test_nearest_if_asked(void **state)
{
    (void)state;
    rng r = rng_of(5);
    float *start = rounded(gaussian(&r, N)), *exact = copy_floats(N, start), *values = rounded(gaussian(&r, N));
    uint16_t *g = bf16_copy(N, values), *w = bf16_copy(N, start), *want = room(N * sizeof *want);
    scion_options o;
    scion_optimizer *opt;
    scion_options_init(&o, SCION_RULE_SCION);
    o.light = 1;
    o.momentum = 0.25; /* 1 - alpha is exact, so that the product is rounded once */
    o.rounding = SCION_ROUNDING_NEAREST;
    for (int i = 0; i < N; i++)
        want[i] = bf16_nearest(0.75f * bf16_value(g[i]));
    scion_param p = param_with(SCION_NORM_SPECTRAL, exact, SCION_F32, copy_floats(N, values), SCION_F32);
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
    scion_optimizer_free(opt);
    p = param_with(SCION_NORM_SPECTRAL, w, SCION_BF16, g, SCION_BF16);
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
    scion_optimizer_free(opt);
    check_bits(N * sizeof *want, g, want);
    check_bits(N * sizeof *want, w, bf16_copy(N, exact));
}

/* A new momentum rescales what light keeps: (1 - a)/a is 1 for 0.5 and 3 for 0.25. Before the first step it keeps
 * nothing: the gradient is the caller's. */
static void test_light_follows_momentum(void **state)
{
    (void)state;
    rng r = rng_of(7);
    uint16_t *g = bf16_copy(N, rounded(gaussian(&r, N))), *w = bf16_copy(N, rounded(gaussian(&r, N)));
    uint16_t *want = room(N * sizeof *want);
    scion_options o;
    scion_optimizer *opt;
    scion_options_init(&o, SCION_RULE_SCION);
    o.light = 1;
    o.momentum = 0.125;
    o.rounding = SCION_ROUNDING_NEAREST;
    scion_param p = param_with(SCION_NORM_SPECTRAL, w, SCION_BF16, g, SCION_BF16);
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    memcpy(want, g, N * sizeof *want);
    check_ok(scion_optimizer_set(opt, SCION_ALL, SCION_SET_MOMENTUM, 0.5, &err), &err);
    check_bits(N * sizeof *want, g, want);
    check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
    for (int i = 0; i < N; i++)
        want[i] = bf16_nearest(3 * bf16_value(g[i]));
    check_ok(scion_optimizer_set(opt, SCION_ALL, SCION_SET_MOMENTUM, 0.25, &err), &err);
    scion_optimizer_free(opt);
    check_bits(N * sizeof *want, g, want);
}

/* The rest that light leaves fades by (1 - alpha) a step on average, however small alpha is: 300 steps of alpha =
 * 2^-10, where a spacing is 2^-8 of an entry just below 1. Rounded to nearest it stands still. */
static void test_light_fades(void **state)
{
    (void)state;
    enum { STEPS = 300, SIDE = 64, COUNT = SIDE * SIDE };
    const double alpha = 0x1p-10, left = pow(1 - alpha, STEPS);
    for (int nearest = 0; nearest < 2; nearest++) {
        float *w = floats(COUNT);
        uint16_t *g = room(COUNT * sizeof *g);
        scion_options o;
        scion_optimizer *opt;
        double mean = 0;
        for (int i = 0; i < COUNT; i++)
            g[i] = bf16_nearest(1);
        scion_param p = matrix_of(SIDE, SIDE, SCION_NORM_SIGN, SCION_ROLE_PLAIN);
        p.weight = w;
        p.grad = g;
        p.grad_type = SCION_BF16;
        scion_options_init(&o, SCION_RULE_USCION);
        o.light = 1;
        o.momentum = alpha;
        o.rounding = nearest ? SCION_ROUNDING_NEAREST : SCION_ROUNDING_STOCHASTIC;
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        for (int k = 0; k < STEPS; k++)
            check_ok(scion_optimizer_step(opt, 1e-3, &err), &err);
        scion_optimizer_free(opt);
        for (int i = 0; i < COUNT; i++)
            mean += (double)bf16_value(g[i]) / COUNT;
        at("rounding %d", nearest);
        if (nearest)
            check(mean == 1);
        else /* each step has variance below alpha * spacing; five standard deviations of the mean of 4096 walks */
            check_le(fabs(mean - left), 5 * sqrt(STEPS * alpha * 0x1p-8 / COUNT));
    }
}

/* A boundary start in bfloat16 is the float32 start, rounded. */
static void test_start(void **state)
{
    (void)state;
    float *w = floats(N), *g = floats(N);
    uint16_t *h = room(N * sizeof *h);
    scion_param a = param_with(SCION_NORM_SPECTRAL, w, SCION_F32, g, SCION_F32);
    scion_param b = param_with(SCION_NORM_SPECTRAL, h, SCION_BF16, g, SCION_F32);
    scion_optimizer *opt;
    check_ok(scion_optimizer_create(&opt, NULL, &a, 1, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 9, &err), &err);
    scion_optimizer_free(opt);
    check_ok(scion_optimizer_create(&opt, NULL, &b, 1, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 9, &err), &err);
    scion_optimizer_free(opt);
    for (int i = 0; i < N; i++)
        check_le(fabs((double)bf16_value(h[i]) - (double)w[i]), fabs((double)w[i]) * 0x1p-7);
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Every NaN stays one, whatever lies in its mantissa, and keeps its sign: adding to the bits of some carries into
 * infinity or zero, and cutting the low half of others leaves infinity. */
static void test_nan_stays_nan(void **state)
{
    (void)state;
    static const uint32_t low[] = {0x00000001, 0x00007fff, 0x00008000, 0x0000ffff, 0x00010000,
                                   0x003fffff, 0x00400000, 0x007f7fff, 0x007f8000, 0x007fffff};
    for (int64_t i = 0; i < COUNT_OF(low); i++)
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x[16];
            uint16_t nearest[16], random[16];
            for (int j = 0; j < 16; j++)
                x[j] = float_of(sign << 31 | 0x7f800000u | low[i]);
            scn_to_bf16(16, x, nearest);
            scn_to_bf16_random(16, x, random, 1, 2, 0);
            for (int j = 0; j < 16; j++) {
                at("NaN %d %08x", (int)sign, (unsigned)low[i]);
                check(isnan(bf16_value(nearest[j])) && nearest[j] >> 15 == sign);
                check(isnan(bf16_value(random[j])) && random[j] >> 15 == sign);
            }
        }
}

/* Infinity and what is not NaN round as ever: to nearest, ties to even. */
static void test_nearest(void **state)
{
    (void)state;
    rng r = rng_of(6);
    for (int k = 0; k < 100000; k++) {
        const uint32_t low = k % 4 ? (uint32_t)(rng_uniform(&r) * 65536) : 0x8000; /* ties among them */
        const float x = float_of((uint32_t)(rng_uniform(&r) * 65536) << 16 | low);
        uint16_t got;
        if (isnan(x))
            continue;
        scn_to_bf16(1, &x, &got);
        at("%a", (double)x);
        check(got == bf16_nearest(x));
    }
    const float infinite[2] = {INFINITY, -INFINITY};
    uint16_t got[2];
    scn_to_bf16_random(2, infinite, got, 1, 2, 0);
    check(got[0] == 0x7f80 && got[1] == 0xff80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_gradients),
        LAW(test_stochastic_weights),
        LAW(test_small_steps_add_up),
        LAW(test_seed_decides),
        LAW(test_nearest_if_asked),
        LAW(test_light_fades),
        LAW(test_light_follows_momentum),
        LAW(test_start),
        LAW(test_nan_stays_nan),
        LAW(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
