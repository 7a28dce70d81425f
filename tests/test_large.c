/* Sizes at which the work is cut into pieces: more entries than one thread takes at a time, more columns than a
 * strip, more columns than rows by far and the reverse. Values and lmos against the oracle, steps against the oracle,
 * and no bit depends on the number of threads. And sigma_max where it is hard to find. */
#include "support.h"

#include <math.h>
#include <string.h>

/* A few roundings of 6e-8; sums in double. */
static const double flat_tol = 1e-6;

static scion_error err;

static const int64_t shapes[][2] = {{300, 700}, {40, 1300}, {3, 20000}, {20000, 3}, {1, 50000}, {1111, 64}};
static const scion_norm norms[] = {SCION_NORM_COL, SCION_NORM_ROW,    SCION_NORM_SIGN,
                                   SCION_NORM_RMS, SCION_NORM_EUCLID, SCION_NORM_MAX};

static void for_each_large(void (*law)(const scion_param *p, rng *r))
{
    uint64_t number = 0;
    int64_t sizes[2] = {1};
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int64_t t = 0; t < COUNT_OF(norms); t++)
            for (int32_t form = 0; form < 3; form++) {
                scion_param p = matrix_of(shapes[s][0], shapes[s][1], norms[t], SCION_ROLE_HIDDEN);
                rng r = rng_of(number++);
                p.transposed = form == 1;
                if (form == 2) { /* blocks with gaps between their rows */
                    p.split_axis = shapes[s][1] > 1;
                    p.split_count = 2;
                    sizes[1] = shapes[s][p.split_axis] - 1;
                    p.split_sizes = sizes;
                }
                at("%s", describe(&p));
                law(&p, &r);
                release(NULL);
            }
}

static void values_and_lmo(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = gaussian(r, n), *z[2];
    double *wide = widen(n, s), *want = doubles(n), norm[2], dual[2];
    oracle_lmo(p, EXACT, wide, want);
    for (int t = 0; t < 2; t++) {
        scion_options o;
        scion_options_init(&o, SCION_RULE_SCION);
        o.threads = t + 1;
        z[t] = floats(n);
        check_ok(scion_lmo(p, &o, s, z[t], &err), &err);
        check_ok(scion_norm_value(p, &o, s, &norm[t], &err), &err);
        check_ok(scion_dual_norm(p, &o, s, &dual[t], &err), &err);
    }
    check_array(n, z[0], want, flat_tol);
    check_rel(norm[0], oracle_norm(p, wide), flat_tol);
    check_rel(dual[0], oracle_dual(p, wide), flat_tol);
    check_bits((size_t)n * sizeof(float), z[0], z[1]);
    check(norm[0] == norm[1] && dual[0] == dual[1]);
}

static void steps(const scion_param *q, rng *r)
{
    int64_t n = elements(q);
    scion_param p = *q;
    scion_optimizer *opt[2];
    scion_options o;
    float *w[2], *g = floats(n);
    w[0] = gaussian(r, n);
    w[1] = copy_floats(n, w[0]);
    scion_options_init(&o, SCION_RULE_SCION);
    o.momentum = 0.5;
    p.weight = w[0];
    p.grad = g;
    oracle_run *run = oracle_start(&o, &p, 1);
    for (int t = 0; t < 2; t++) {
        o.threads = t + 1;
        p.weight = w[t];
        check_ok(scion_optimizer_create(&opt[t], &o, &p, 1, &err), &err);
    }
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n; i++) /* few bits: the averages are exact, and so are their signs */
            g[i] = (float)(round(256 * rng_normal(r)) / 256);
        for (int t = 0; t < 2; t++)
            check_ok(scion_optimizer_step(opt[t], 0.1, &err), &err);
        oracle_step(run, 0.1, (const float *const[]){g}, NULL);
    }
    check_array(n, w[0], run->params[0].w, 5 * flat_tol);
    check_bits((size_t)n * sizeof(float), w[0], w[1]);
    for (int t = 0; t < 2; t++)
        scion_optimizer_free(opt[t]);
}

static void test_values_and_lmo(void **state)
{
    (void)state;
    for_each_large(values_and_lmo);
}

static void test_steps(void **state)
{
    (void)state;
    for_each_large(steps);
}

/* The entrywise rules go in chunks of their own. */
static void test_entrywise_rules(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_ADAMW, SCION_RULE_SGD, SCION_RULE_NSGD, SCION_RULE_MNSGD};
    for (int64_t t = 0; t < COUNT_OF(rules); t++) {
        scion_param p = matrix_of(50, 1001, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
        int64_t n = elements(&p);
        rng r = rng_of(500 + (uint64_t)t);
        scion_options o;
        scion_optimizer *opt;
        float *g = floats(n);
        p.weight = gaussian(&r, n);
        p.grad = g;
        scion_options_init(&o, rules[t]);
        o.clip_norm = rules[t] == SCION_RULE_ADAMW || rules[t] == SCION_RULE_SGD ? 5 : 0;
        at("rule %s", scion_enum_name(SCION_ENUM_RULE, (int)rules[t]));
        oracle_run *run = oracle_start(&o, &p, 1);
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        for (int k = 0; k < 3; k++) {
            rng_gaussian(&r, n, g);
            check_ok(scion_optimizer_step(opt, 0.01, &err), &err);
            oracle_step(run, 0.01, (const float *const[]){g}, NULL);
        }
        check_array(n, p.weight, run->params[0].w, 5 * flat_tol);
        scion_optimizer_free(opt);
    }
}

/* sigma_max of matrices with more directions than the Krylov space has vectors, and with the largest singular values
 * close together, as the weights of a network trained in the spectral norm have them. */
static void test_largest_singular_value(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{150, 150}, {300, 120}, {130, 400}};
    for (int64_t s = 0; s < COUNT_OF(sizes); s++)
        for (int kind = 0; kind < 4; kind++) {
            int64_t rows = sizes[s][0], cols = sizes[s][1], m = rows < cols ? rows : cols;
            rng r = rng_of((uint64_t)(900 + 10 * s + kind));
            double *sigma = doubles(m), value;
            for (int64_t i = 0; i < m; i++)
                sigma[i] = kind == 1   ? 1
                           : kind == 2 ? 0.68 + 0.52 * (double)(m - i) / (double)m
                                       : 1 / (double)(i + 1);
            float *x = kind == 0 ? gaussian(&r, rows * cols) : with_spectrum(&r, rows, cols, sigma);
            scion_param p = matrix_of(rows, cols, SCION_NORM_SPECTRAL, SCION_ROLE_PLAIN);
            double *wide = widen(rows * cols, x);
            at("%lldx%lld, spectrum %d", (long long)rows, (long long)cols, kind);
            check_ok(scion_norm_value(&p, NULL, x, &value, &err), &err);
            check_rel(value, oracle_norm(&p, wide), 1e-5);
            check_ok(scion_dual_norm(&p, NULL, x, &value, &err), &err);
            check_rel(value, oracle_dual(&p, wide), 1e-4);
            release(NULL);
        }
}

/* And of matrices whose columns are taken in several strips. */
static void test_largest_singular_value_of_strips(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{20, 1100}, {1100, 20}, {3, 513}};
    for (int64_t s = 0; s < COUNT_OF(sizes); s++) {
        rng r = rng_of((uint64_t)(950 + s));
        const scion_param p = matrix_of(sizes[s][0], sizes[s][1], SCION_NORM_SPECTRAL, SCION_ROLE_PLAIN);
        const float *x = gaussian(&r, elements(&p));
        double value;
        at("%lldx%lld", (long long)sizes[s][0], (long long)sizes[s][1]);
        check_ok(scion_norm_value(&p, NULL, x, &value, &err), &err);
        check_rel(value, oracle_norm(&p, widen(elements(&p), x)), 1e-5);
        release(NULL);
    }
}

/* Spectral jobs of several sizes, by one thread each and by all of them: no bit differs. */
static void test_spectral_jobs(void **state)
{
    (void)state;
    enum { PARAMS = 5 };
    static const int64_t sides[PARAMS][2] = {{200, 150}, {64, 64}, {90, 200}, {33, 70}, {120, 120}};
    float *w[2][PARAMS];
    for (int t = 0; t < 2; t++) {
        scion_param p[PARAMS];
        scion_options o;
        scion_optimizer *opt;
        rng r = rng_of(700);
        for (int i = 0; i < PARAMS; i++) {
            p[i] = matrix_of(sides[i][0], sides[i][1], SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
            w[t][i] = gaussian(&r, elements(&p[i]));
            p[i].weight = w[t][i];
            p[i].grad = gaussian(&r, elements(&p[i]));
        }
        scion_options_init(&o, SCION_RULE_SCION);
        o.threads = t + 1;
        check_ok(scion_optimizer_create(&opt, &o, p, PARAMS, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        scion_optimizer_free(opt);
    }
    for (int i = 0; i < PARAMS; i++)
        check_bits((size_t)(sides[i][0] * sides[i][1]) * sizeof(float), w[0][i], w[1][i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_values_and_lmo),
        LAW(test_steps),
        LAW(test_entrywise_rules),
        LAW(test_largest_singular_value),
        LAW(test_largest_singular_value_of_strips),
        LAW(test_spectral_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
