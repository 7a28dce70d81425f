/* The laws of a norm, its dual and its lmo, for every norm in every role on every shape:
 *     <s, lmo(s)> = -rho dual(s),  norm(lmo(s)) <= rho,  lmo(a s) = lmo(s),  lmo(0) = 0,
 *     <s, sharp(s)> = norm(sharp(s))^2 = dual(s)^2,  gap(g, x) = <g, x> + rho dual(g) >= 0,
 *     norm(a x) = |a| norm(x),  norm(x + y) <= norm(x) + norm(y),  <s, x> <= dual(s) norm(x),
 * and the values themselves against the double-precision oracle. */
#include "support.h"

#include <math.h>
#include <string.h>

/* Column, row, sign and flat norms: a few float32 roundings (6e-8 each) of the scaled entry, sums in double. */
static const double flat_tol = 1e-6;
/* The converged polar factor and the Lanczos value: float32 products of up to 50 terms, a dozen steps that each
 * round once more, and a condition number below 5 (see `conditioned`): 12 * 5 * 6e-8 = 4e-6, doubled. */
static const double spectral_tol = 1e-5;
/* Five quintic steps: test_polar.c derives 6 u sqrt(m) 4.775 g^2 / 41 for the Gram form, where g, the growth of the
 * smallest direction, is below 2.4 sqrt(m) for a condition number of 2: 1e-4 at m = 50, the largest here. */
static const double quintic_tol = 1e-4;

static scion_error err;

static double tolerance(const scion_param *p)
{
    return p->norm == SCION_NORM_SPECTRAL ? spectral_tol : flat_tol;
}

static scion_options converged(void)
{
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.polar = SCION_POLAR_CONVERGED;
    return o;
}

static float *lmo(const scion_param *p, const float *s)
{
    scion_options o = converged();
    float *out = floats(elements(p));
    check_ok(scion_lmo(p, &o, s, out, &err), &err);
    return out;
}

static double norm_value(const scion_param *p, const float *x)
{
    double value = -1;
    check_ok(scion_norm_value(p, NULL, x, &value, &err), &err);
    return value;
}

static double dual_norm(const scion_param *p, const float *s)
{
    double value = -1;
    check_ok(scion_dual_norm(p, NULL, s, &value, &err), &err);
    return value;
}

static double *exact_lmo(const scion_param *p, const float *s)
{
    double *out = doubles(elements(p));
    oracle_lmo(p, EXACT, widen(elements(p), s), out);
    return out;
}

/* A random s. For the spectral norm as much of its own polar factor is added as brings every block's condition
 * number below 2: float32 cannot know a polar factor better than its input's condition number times 6e-8. */
static float *conditioned(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = gaussian(r, n);
    if (p->norm != SCION_NORM_SPECTRAL)
        return s;
    double *wide = widen(n, s), *z = exact_lmo(p, s), shift = oracle_norm(p, wide) / p->radius;
    for (int64_t i = 0; i < n; i++)
        s[i] = (float)(wide[i] - shift * z[i]);
    return s;
}

/* ---- The laws ------------------------------------------------------------------------------------------ */

static void values_match(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *x = gaussian(r, n);
    double *wide = widen(n, x);
    check_rel(norm_value(p, x), oracle_norm(p, wide), tolerance(p));
    check_rel(dual_norm(p, x), oracle_dual(p, wide), tolerance(p));
}

static void lmo_matches(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = conditioned(p, r), *z = lmo(p, s);
    check_array(n, z, exact_lmo(p, s), tolerance(p));
    /* by default the spectral one takes five quintic steps */
    float *q = floats(n);
    double *want = doubles(n);
    oracle_lmo(p, 5, widen(n, s), want);
    check_ok(scion_lmo(p, NULL, s, q, &err), &err);
    check_array(n, q, want, p->norm == SCION_NORM_SPECTRAL ? quintic_tol : flat_tol);
}

static void lmo_attains_the_dual(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = conditioned(p, r), *z = lmo(p, s);
    check_rel(dot(n, s, z), -p->radius * dual_norm(p, s), tolerance(p));
    check_rel(norm_value(p, z), p->radius, tolerance(p));
    check_rel(oracle_norm(p, widen(n, z)), p->radius, tolerance(p));
}

static void lmo_ignores_scale(const scion_param *p, rng *r)
{
    static const float exact[] = {0x1p-99f, 0x1p-40f, 0x1p-1f, 0x1p1f, 0x1p40f, 0x1p99f};
    static const float other[] = {1e-30f, 3e-11f, 0.7f, 1e10f, 1e30f};
    int64_t n = elements(p);
    float *s = conditioned(p, r), *z = lmo(p, s), *as = floats(n);
    double *want = widen(n, z);
    for (int64_t k = 0; k < COUNT_OF(exact) + COUNT_OF(other); k++) {
        int power = k < COUNT_OF(exact);
        float a = power ? exact[k] : other[k - COUNT_OF(exact)];
        for (int64_t i = 0; i < n; i++)
            as[i] = a * s[i];
        float *az = lmo(p, as);
        if (power && p->norm != SCION_NORM_SPECTRAL)
            check_bits((size_t)n * sizeof *z, az, z);
        check_array(n, az, want, tolerance(p));
    }
}

static void zero_stays_zero(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *zero = floats(n), *z = lmo(p, zero), *q = gaussian(r, n);
    check_array(n, z, doubles(n), 0);
    check_ok(scion_lmo(p, NULL, zero, q, &err), &err);
    check_array(n, q, doubles(n), 0);
    check_ok(scion_sharp(p, NULL, zero, q, &err), &err);
    check_array(n, q, doubles(n), 0);
    check(norm_value(p, zero) == 0);
    check(dual_norm(p, zero) == 0);
}

static void zero_lines_stay_zero(const scion_param *p, rng *r)
{
    int64_t n = elements(p), rows = p->shape[0], cols = n / rows;
    float *s = gaussian(r, n);
    for (int64_t j = 0; j < cols; j++)
        s[(rows / 2) * cols + j] = 0;
    for (int64_t i = 0; i < rows; i++)
        s[i * cols + cols / 2] = 0;
    float *z = lmo(p, s);
    check_finite(n, z);
    for (int64_t j = 0; j < cols; j++)
        check(z[(rows / 2) * cols + j] == 0);
    for (int64_t i = 0; i < rows; i++)
        check(z[i * cols + cols / 2] == 0);
    double dual = oracle_dual(p, widen(n, s));
    check_rel(dual_norm(p, s), dual, tolerance(p));
    if (dual > 0)
        check_rel(dot(n, s, z), -p->radius * dual, tolerance(p));
    check_le(norm_value(p, z), p->radius * (1 + tolerance(p)));
}

/* Rank one, in small integers so that the rank is exact in float32. */
static void deficient_rank(const scion_param *p, rng *r)
{
    int64_t n = elements(p), cols = n / p->shape[0];
    float *s = floats(n);
    for (int64_t i = 0; i < n; i++)
        s[i] = (float)((i / cols % 5 - 2) * (i % cols % 7 - 3));
    float *z = lmo(p, s), *q = floats(n);
    double dual = oracle_dual(p, widen(n, s));
    check_finite(n, z);
    check_rel(dual_norm(p, s), dual, tolerance(p));
    if (dual > 0)
        check_rel(dot(n, s, z), -p->radius * dual, tolerance(p));
    check_le(norm_value(p, z), p->radius * (1 + tolerance(p)));
    check_ok(scion_lmo(p, NULL, s, q, &err), &err);
    check_finite(n, q);
    check_le(norm_value(p, q), p->radius * (p->norm == SCION_NORM_SPECTRAL ? 1.21 : 1 + flat_tol));
    (void)r;
}

static void tiny_and_huge_entries(const scion_param *p, rng *r)
{
    int64_t n = elements(p), cols = n / p->shape[0];
    float *s = conditioned(p, r), *t = floats(n);
    for (int pass = 0; pass < 3; pass++) {
        for (int64_t i = 0; i < n; i++) /* all tiny, all huge, and by rows tiny, plain and huge */
            t[i] = s[i] * (pass == 0 ? 1e-30f : pass == 1 ? 1e30f : powf(1e30f, (float)(i / cols % 3 - 1)));
        double *wide = widen(n, t);
        float *z = lmo(p, t), *sharp = floats(n);
        check_finite(n, z);
        check_rel(norm_value(p, t), oracle_norm(p, wide), tolerance(p));
        check_rel(dual_norm(p, t), oracle_dual(p, wide), tolerance(p));
        if (pass < 2 || p->norm != SCION_NORM_SPECTRAL) {
            double *want = exact_lmo(p, t), dual = oracle_dual(p, wide);
            check_array(n, z, want, tolerance(p));
            check_ok(scion_sharp(p, NULL, t, sharp, &err), &err);
            for (int64_t i = 0; i < n; i++)
                want[i] *= -dual / p->radius;
            check_array(n, sharp, want, tolerance(p));
        }
    }
}

/* To the ends of float32: the same integers as multiples of the smallest denormal and of 2^118. */
static void ends_of_the_range(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = conditioned(p, r), *t = floats(n);
    for (int64_t i = 0; i < n; i++)
        s[i] = rintf(40 * s[i] + (s[i] < 0 ? -1.0f : 1.0f)); /* none is 0 */
    float *z = lmo(p, s);
    double *want = widen(n, z), norm = norm_value(p, s), dual = dual_norm(p, s);
    for (int pass = 0; pass < 2; pass++) {
        double a = pass ? 0x1p118 : 0x1p-149;
        for (int64_t i = 0; i < n; i++)
            t[i] = (float)(a * (double)s[i]);
        check_finite(n, t);
        check_array(n, lmo(p, t), want, tolerance(p));
        check_rel(norm_value(p, t), a * norm, tolerance(p));
        check_rel(dual_norm(p, t), a * dual, tolerance(p));
    }
}

static void sharp_operator(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = conditioned(p, r), *x = floats(n);
    double dual = oracle_dual(p, widen(n, s));
    check_ok(scion_sharp(p, NULL, s, x, &err), &err);
    check_rel(dot(n, s, x), dual * dual, 2 * tolerance(p));
    check_rel(norm_value(p, x), dual, 2 * tolerance(p));
    float *z = lmo(p, s);
    double *want = widen(n, z);
    for (int64_t i = 0; i < n; i++)
        want[i] *= -dual / p->radius;
    check_array(n, x, want, 2 * tolerance(p));
}

static double fw_gap(const scion_param *p, const float *g, const float *x)
{
    double gap = -1;
    check_ok(scion_fw_gap(p, NULL, g, x, &gap, &err), &err);
    return gap;
}

static void frank_wolfe_gap(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *g = conditioned(p, r), *x = lmo(p, conditioned(p, r)), *best = lmo(p, g), *worst = floats(n);
    double full = p->radius * oracle_dual(p, widen(n, g));
    for (int64_t i = 0; i < n; i++) {
        x[i] *= 0.7f;
        worst[i] = -best[i];
    }
    check_le(fabs(fw_gap(p, g, x) - (dot(n, g, x) + full)), full * tolerance(p));
    check_le(0, fw_gap(p, g, x));
    check_le(fabs(fw_gap(p, g, best)), 2 * full * tolerance(p));
    check_rel(fw_gap(p, g, worst), 2 * full, tolerance(p));
}

static void norm_is_a_norm(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *x = gaussian(r, n), *y = gaussian(r, n), *sum = floats(n), *ax = floats(n);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = x[i] + y[i];
        ax[i] = -3 * x[i];
    }
    double nx = norm_value(p, x), ny = norm_value(p, y), dx = dual_norm(p, x), dy = dual_norm(p, y);
    check(nx > 0 && dx > 0);
    check_le(norm_value(p, sum), (nx + ny) * (1 + tolerance(p)));
    check_le(dual_norm(p, sum), (dx + dy) * (1 + tolerance(p)));
    check_rel(norm_value(p, ax), 3 * nx, tolerance(p));
    check_rel(dual_norm(p, ax), 3 * dx, tolerance(p));
}

/* Hoelder: no point of the unit ball beats the dual norm; the lmo reaches it (above). */
static void dual_is_never_exceeded(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    float *s = gaussian(r, n);
    double dual = dual_norm(p, s);
    for (int trial = 0; trial < 10; trial++) {
        float *x = trial % 2 ? gaussian(r, n) : lmo(p, gaussian(r, n));
        check_le(fabs(dot(n, s, x)), dual * norm_value(p, x) * (1 + tolerance(p)));
    }
}

/* A radius multiplies the lmo and nothing else. */
static void radius_scales_the_lmo(const scion_param *p, rng *r)
{
    int64_t n = elements(p);
    scion_param unit = *p;
    unit.radius = 1;
    float *s = conditioned(p, r), *z = lmo(p, s), *z1 = lmo(&unit, s);
    double *want = widen(n, z1);
    for (int64_t i = 0; i < n; i++)
        want[i] *= p->radius;
    check_array(n, z, want, flat_tol);
    check(norm_value(p, s) == norm_value(&unit, s));
    check(dual_norm(p, s) == dual_norm(&unit, s));
}

typedef struct law_row {
    const char *name;
    void (*law)(const scion_param *p, rng *r);
} law_row;

static law_row laws[] = {
    {"values match the oracle", values_match},
    {"lmo matches the oracle", lmo_matches},
    {"<s, lmo(s)> = -rho dual(s) and norm(lmo(s)) = rho", lmo_attains_the_dual},
    {"lmo(a s) = lmo(s)", lmo_ignores_scale},
    {"zero stays zero", zero_stays_zero},
    {"zero rows and columns stay zero", zero_lines_stay_zero},
    {"deficient rank", deficient_rank},
    {"entries of 1e-30 and 1e+30", tiny_and_huge_entries},
    {"the ends of the range", ends_of_the_range},
    {"sharp operator", sharp_operator},
    {"Frank-Wolfe gap", frank_wolfe_gap},
    {"norm is a norm", norm_is_a_norm},
    {"dual is never exceeded", dual_is_never_exceeded},
    {"radius scales the lmo and nothing else", radius_scales_the_lmo},
};

static void run_law(void **state)
{
    for_each_case(((law_row *)*state)->law);
}

int main(void)
{
    struct CMUnitTest tests[sizeof laws / sizeof *laws];
    for (int64_t i = 0; i < COUNT_OF(laws); i++)
        tests[i] = (struct CMUnitTest){laws[i].name, run_law, NULL, release, &laws[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
