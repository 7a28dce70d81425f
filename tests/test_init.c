/* Boundary initialisation: every norm's start lies on the boundary of its ball, in the form the paper gives it
 * (semi-orthogonal, normalised Gaussian columns or rows, random signs; vectors at 0), and depends on the seed
 * alone. */
#include "support.h"

#include <math.h>
#include <string.h>

/* A Householder QR of up to 70 columns in float32, or a normalised line: a few dozen roundings of 6e-8. */
static const double init_tol = 1e-5;

static scion_error err;

static int is_flat(scion_norm norm)
{
    return norm == SCION_NORM_RMS || norm == SCION_NORM_EUCLID || norm == SCION_NORM_MAX;
}

static float *init(const scion_param *p, int32_t threads, uint64_t seed)
{
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.threads = threads;
    o.eps = 0.5; /* for steps alone: starts lie on the boundary all the same */
    float *x = floats(elements(p));
    check_ok(scion_boundary_init(p, &o, seed, x, &err), &err);
    return x;
}

/* A convolution under the spectral norm starts with every kernel position semi-orthogonal; the law of its
 * singular values is below, and the norm of the whole out x (in k) matrix is not what it fixes. */
static int is_spectral_kernel(const scion_param *p)
{
    return p->norm == SCION_NORM_SPECTRAL && p->ndim > 2 && elements(p) > p->shape[0] * p->shape[1];
}

static void on_the_boundary(const scion_param *p, rng *r)
{
    (void)r;
    float *x = init(p, 0, 7);
    double norm = oracle_norm(p, widen(elements(p), x)), value;
    if (is_flat(p->norm)) {
        check(norm == 0);
    } else if (!is_spectral_kernel(p)) {
        check_rel(norm, p->radius, init_tol);
        check_ok(scion_norm_value(p, NULL, x, &value, &err), &err);
        check_rel(value, p->radius, init_tol);
    }
}

/* Every singular value, column, row or entry has the same size rho c: the start is its own lmo's negative. */
static void is_an_extreme_point(const scion_param *p, rng *r)
{
    (void)r;
    if (is_flat(p->norm) || is_spectral_kernel(p))
        return;
    int64_t n = elements(p);
    float *x = init(p, 0, 11);
    double *z = doubles(n);
    oracle_lmo(p, EXACT, widen(n, x), z);
    for (int64_t i = 0; i < n; i++)
        z[i] = -z[i];
    check_array(n, x, z, 2 * init_tol);
}

static void kernel_positions(const scion_param *p, rng *r)
{
    (void)r;
    if (!is_spectral_kernel(p))
        return;
    int64_t out = p->shape[0], in = p->shape[1], positions = elements(p) / (out * in);
    int64_t m = out < in ? out : in;
    float *x = init(p, 0, 13);
    for (int64_t k = 0; k < positions; k++) {
        double *slice = doubles(out * in);
        for (int64_t i = 0; i < out * in; i++)
            slice[i] = (double)x[i * positions + k];
        double *sigma = singular_values(out, in, slice);
        for (int64_t i = 0; i < m; i++)
            check_rel(sigma[i], p->radius * oracle_scale(p), init_tol);
    }
}

static void seed_decides(const scion_param *p, rng *r)
{
    (void)r;
    int64_t n = elements(p);
    float *a = init(p, 1, 42), *b = init(p, 1, 42), *c = init(p, 2, 42);
    check_bits((size_t)n * sizeof *a, a, b);
    check_bits((size_t)n * sizeof *a, a, c);
    if (!is_flat(p->norm) && n > 1) { /* of a few seeds the signs of a small matrix cannot all agree */
        int differ = 0;
        for (uint64_t seed = 43; seed < 53; seed++)
            differ |= memcmp(a, init(p, 1, seed), (size_t)n * sizeof *a) != 0;
        check(differ);
    }
}

/* Random signs are fair and Gaussian columns have no preferred direction: the mean over a large start is 0
 * within five standard deviations. */
static void test_no_bias(void **state)
{
    (void)state;
    static const scion_norm norms[] = {SCION_NORM_SPECTRAL, SCION_NORM_COL, SCION_NORM_ROW, SCION_NORM_SIGN};
    for (int64_t k = 0; k < COUNT_OF(norms); k++) {
        scion_param p = matrix_of(64, 96, norms[k], SCION_ROLE_HIDDEN);
        at("%s", describe(&p));
        int64_t n = elements(&p);
        float *x = init(&p, 0, 3);
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        check_le(fabs(sum), 5 * sqrt(squares));
        check(squares > 0);
    }
}

/* The sign fix makes the semi-orthogonal start Haar: the first entry of a 1 x 1 is +1 and -1 alike, and the
 * diagonal of a square start is not one-sided. */
static void test_sign_fix(void **state)
{
    (void)state;
    scion_param one = matrix_of(1, 1, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
    scion_param square = matrix_of(6, 6, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
    int plus = 0, diagonal = 0, trials = 200;
    for (int s = 0; s < trials; s++) {
        plus += *init(&one, 1, (uint64_t)s) > 0;
        diagonal += init(&square, 1, (uint64_t)s)[7] > 0;
    }
    at("of %d starts %d and %d are positive", trials, plus, diagonal);
    /* five standard deviations of a fair coin: 5 sqrt(200)/2 = 35 */
    check(plus > 65 && plus < 135);
    check(diagonal > 65 && diagonal < 135);
}

/* The optimizer's start is the free-standing one's law for each parameter; frozen weights are left alone. */
static void test_optimizer_start(void **state)
{
    (void)state;
    scion_param p[4] = {
        matrix_of(12, 20, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
        matrix_of(10, 12, SCION_NORM_AUTO, SCION_ROLE_OUTPUT),
        param_of(1, (int64_t[]){12}, SCION_NORM_AUTO, SCION_ROLE_VECTOR),
        matrix_of(12, 20, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
    };
    rng r = rng_of(1);
    scion_optimizer *opt;
    for (int i = 0; i < 4; i++) {
        p[i].weight = gaussian(&r, elements(&p[i]));
        p[i].grad = floats(elements(&p[i]));
        p[i].radius = 3;
    }
    p[3].frozen = 1;
    float *kept = copy_floats(elements(&p[3]), p[3].weight), *again[4];
    check_ok(scion_optimizer_create(&opt, NULL, p, 4, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 5, &err), &err);
    for (int i = 0; i < 4; i++)
        again[i] = copy_floats(elements(&p[i]), p[i].weight);
    scion_param routed[2] = {matrix_of(12, 20, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN),
                             matrix_of(10, 12, SCION_NORM_SIGN, SCION_ROLE_OUTPUT)};
    for (int i = 0; i < 2; i++)
        check_rel(oracle_norm(&routed[i], widen(elements(&p[i]), again[i])), 3, init_tol);
    check_array(12, again[2], doubles(12), 0);
    check_bits(240 * sizeof *kept, again[3], kept);
    check_ok(scion_optimizer_init_weights(opt, 5, &err), &err);
    for (int i = 0; i < 4; i++)
        check_bits((size_t)elements(&p[i]) * sizeof(float), p[i].weight, again[i]);
    check_ok(scion_optimizer_init_weights(opt, 6, &err), &err);
    check(memcmp(p[0].weight, again[0], 240 * sizeof(float)) != 0);
    scion_optimizer_free(opt);
}

/* Rows have numbers of their own, also where their length is odd: 60 signs agree with probability 2^-59. */
static void test_rows_differ(void **state)
{
    (void)state;
    scion_param p = matrix_of(60, 1, SCION_NORM_ROW, SCION_ROLE_HIDDEN);
    const float *x = init(&p, 1, 11);
    int positive = 0;
    for (int i = 0; i < 60; i++)
        positive += x[i] > 0;
    check(positive > 0 && positive < 60);
}

/* Rows that are computed in several blocks are orthogonal to those of other blocks, too: a spectral start is
 * semi-orthogonal at any size. */
static void test_large_starts_are_orthogonal(void **state)
{
    (void)state;
    enum { ROWS = 120, COLS = 130 };
    const scion_param p = matrix_of(ROWS, COLS, SCION_NORM_SPECTRAL, SCION_ROLE_PLAIN);
    const float *x = init(&p, 2, 5);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k < COLS; k++)
                sum += (double)x[i * COLS + k] * (double)x[j * COLS + k];
            at("rows %d and %d", i, j);
            check_le(fabs(sum - (i == j)), init_tol);
        }
}

/* A seed starts alike in every version: signs of 256 entries, 64 to a number. */
static void test_signs_of_a_seed(void **state)
{
    (void)state;
    static const uint64_t known[4] = {0x44c090469a8b6b73, 0x15668c92fc0ea9b9, 0x6f96c47258a614ef, 0x76c3f054e5dc8aa2};
    const scion_param p = matrix_of(16, 16, SCION_NORM_SIGN, SCION_ROLE_HIDDEN);
    const float *x = init(&p, 1, 2024);
    for (int k = 0; k < 4; k++) {
        uint64_t signs = 0;
        for (int i = 0; i < 64; i++)
            signs |= (uint64_t)(x[64 * k + i] > 0) << i;
        at("signs %d: 0x%016llx", k, (unsigned long long)signs);
        check(signs == known[k]);
    }
}

/* Two parameters of the same shape do not start alike. */
static void test_parameters_differ(void **state)
{
    (void)state;
    scion_param p[2] = {matrix_of(8, 8, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
                        matrix_of(8, 8, SCION_NORM_AUTO, SCION_ROLE_HIDDEN)};
    scion_optimizer *opt;
    for (int i = 0; i < 2; i++) {
        p[i].weight = floats(64);
        p[i].grad = floats(64);
    }
    check_ok(scion_optimizer_create(&opt, NULL, p, 2, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 5, &err), &err);
    check(memcmp(p[0].weight, p[1].weight, 64 * sizeof(float)) != 0);
    scion_optimizer_free(opt);
}

static void test_on_the_boundary(void **state)
{
    (void)state;
    for_each_case(on_the_boundary);
}

static void test_is_an_extreme_point(void **state)
{
    (void)state;
    for_each_case(is_an_extreme_point);
}

static void test_kernel_positions(void **state)
{
    (void)state;
    for_each_case(kernel_positions);
}

static void test_seed_decides(void **state)
{
    (void)state;
    for_each_case(seed_decides);
}

/* ---- Other starts ------------------------------------------------------------------------------------- */

enum { STARTS = 6 };

/* Each parameter begins as its `start` says, whatever the others do, and bounds are counted from there. */
static void test_starts(void **state)
{
    (void)state;
    scion_param p[STARTS];
    scion_options o;
    scion_optimizer *opt;
    float *w[STARTS];
    scion_options_init(&o, SCION_RULE_USCION);
    p[0] = matrix_of(40, 30, SCION_NORM_COL, SCION_ROLE_ONEHOT);
    p[1] = matrix_of(20, 50, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
    p[2] = matrix_of(20, 50, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
    p[3] = matrix_of(20, 50, SCION_NORM_SIGN, SCION_ROLE_OUTPUT);
    p[4] = param_of(1, (int64_t[]){20}, SCION_NORM_RMS, SCION_ROLE_VECTOR);
    p[5] = matrix_of(20, 50, SCION_NORM_MAX, SCION_ROLE_HIDDEN);
    p[0].transposed = 1;
    p[0].start = p[1].start = p[4].start = SCION_START_UNIFORM;
    p[3].start = SCION_START_ZERO;
    for (int i = 0; i < STARTS; i++) {
        rng r = rng_of(4);
        w[i] = p[i].weight = gaussian(&r, elements(&p[i]));
        p[i].grad = floats(elements(&p[i]));
        p[i].radius = 3;
    }
    check_ok(scion_optimizer_create(&opt, &o, p, STARTS, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 42, &err), &err);
    at("an embedding table: normal, deviation 0.02");
    double sum = 0, squares = 0;
    for (int i = 0; i < 1200; i++)
        sum += (double)w[0][i], squares += (double)w[0][i] * (double)w[0][i];
    check_le(fabs(sum / 1200), 4 * 0.02 / sqrt(1200.0));
    check_le(fabs(sqrt(squares / 1200) / 0.02 - 1), 4 / sqrt(2 * 1200.0));
    at("a matrix: uniform within 1/sqrt(50)");
    double largest = 0;
    sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += (double)w[1][i], largest = fmax(largest, fabs((double)w[1][i]));
    check_le(largest, 1 / sqrt(50.0) * (1 + 1e-6));
    check_le(0.99 / sqrt(50.0), largest);
    check_le(fabs(sum / 1000), 4 / sqrt(3 * 50 * 1000.0));
    at("the boundary, zeros, a vector, a norm that starts at zero");
    check_rel(oracle_norm(&p[2], widen(1000, w[2])), 3, init_tol);
    for (int i = 0; i < 1000; i++)
        check(w[3][i] == 0 && w[5][i] == 0 && (i >= 20 || w[4][i] == 0));
    for (int i = 0; i < STARTS; i++) {
        scion_info info;
        scion_info_init(&info);
        check_ok(scion_optimizer_inspect(opt, i, SCION_INSPECT_NORM, &info, &err), &err);
        at("bound of parameter %d", i);
        check_le(fabs(info.bound - info.weight_norm), 1e-4 * (1 + info.weight_norm));
    }
    scion_optimizer_free(opt);
    at("no such start");
    p[0].start = 3;
    check_status(scion_optimizer_create(&opt, &o, p, STARTS, &err), SCION_EINVAL, &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_on_the_boundary),
        LAW(test_is_an_extreme_point),
        LAW(test_kernel_positions),
        LAW(test_seed_decides),
        LAW(test_no_bias),
        LAW(test_sign_fix),
        LAW(test_optimizer_start),
        LAW(test_parameters_differ),
        LAW(test_rows_differ),
        LAW(test_signs_of_a_seed),
        LAW(test_large_starts_are_orthogonal),
        LAW(test_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
