/* The polar factor by polynomial iterations: against the same iteration in double precision, for every kernel
 * that this CPU runs, every kind of spectrum, and sizes that fit no tile; and the bounds of each coefficient set
 * for the singular values. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "linalg/polar.h"

static scion_error err;

/* ---- Spectra, and what float32 can do on them ---------------------------------------------------------- */

typedef enum spectrum { GAUSSIAN, ORTHOGONAL, HARMONIC, DECAY, LOW_RANK_NOISE, LOW_RANK, RANK_ONE } spectrum;

static const char *const spectrum_name[] = {"Gaussian",           "orthogonal", "1/i",   "10^(-4i/m)",
                                            "low rank and noise", "low rank",   "rank 1"};

/* Bound of e = ||X - X_double||_F / ||X_double||_F after `steps` steps; u = 6e-8, sums of n terms round at
 * u sqrt(n), m <= n. A direction that starts at x grows by at most a = 3.4445 a step until it is about 1, so by
 * g = min(a^steps, 1.2/x_min), and so does its rounding error.
 *  - X is rounded in each step, and the first rounding grows by g:     u sqrt(n) (4 steps + g / ||X||).
 *  - Between restarts the Gram form rounds three products of two rounded factors a step. What that mixes of one
 *    direction of R into another grows by a in each of the s - 2 updates of R that remain, enters P times b, and is
 *    multiplied by Q, which has grown to a^(s-1): 6 u sqrt(m) |b| a^(2s-3), again with g for a^s. Here s is the
 *    number of the last steps without a restart; after one, X is no longer of norm 1.
 * On the cases below the errors reach a half of it. */
static double quintic_tol(int64_t rows, int64_t cols, int steps, const float *in, const double *want)
{
    const double u = 6e-8, a = 3.4445, b = 4.7750;
    int64_t m = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
    double *sigma = singular_values(rows, cols, widen(rows * cols, in)), squares = 0, size = 0;
    for (int64_t i = 0; i < m; i++)
        squares += sigma[i] * sigma[i];
    for (int64_t i = 0; i < rows * cols; i++)
        size += want[i] * want[i];
    int interval =
        scn_polar_plan_make(scn_polar_set_at(SCION_POLAR_QUINTIC), steps, SCION_F32, rows, cols).restart_interval;
    double limit = 1.2 * sqrt(squares) / sigma[m - 1], last = ceil(steps / ceil((double)steps / interval));
    double g = fmin(pow(a, steps), limit), g_last = fmin(pow(a, last), limit);
    double product = u * sqrt((double)n) * (4 * steps + g / sqrt(size));
    double gram = 6 * u * sqrt((double)m) * b * g_last * g_last / (a * a * a) / (steps <= interval ? sqrt(size) : 1);
    return product + (interval > 1 ? gram : 0);
}

static float *matrix(rng *r, spectrum kind, int64_t rows, int64_t cols)
{
    int64_t m = rows < cols ? rows : cols;
    double *sigma = doubles(m);
    for (int64_t i = 0; i < m; i++) {
        double low = i < (m + 7) / 8 ? 1 : 0;
        sigma[i] = kind == ORTHOGONAL       ? 1
                   : kind == HARMONIC       ? 1 / (double)(i + 1)
                   : kind == DECAY          ? pow(10, -4 * (double)i / (double)m)
                   : kind == LOW_RANK_NOISE ? fmax(low, 1e-3)
                   : kind == LOW_RANK       ? low
                                            : i == 0;
    }
    return kind == GAUSSIAN ? gaussian(r, rows * cols) : with_spectrum(r, rows, cols, sigma);
}

/* ---- Running it ---------------------------------------------------------------------------------------- */

static float *polar(scion_polar_set set, int steps, int threads, int64_t rows, int64_t cols, const float *in)
{
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.polar = set;
    o.polar_steps = steps;
    o.threads = threads;
    float *out = floats(rows * cols);
    check_ok(scion_polar(rows, cols, in, out, &o, &err), &err);
    return out;
}

/* The same on a chosen kernel, below the public interface. */
static float *polar_on(const scn_kernel *kernel, scion_polar_set set, int steps, int threads, int64_t rows,
                       int64_t cols, float *in)
{
    static const scion_allocator heap;
    scn_polar_plan plan = scn_polar_plan_make(scn_polar_set_at((int)set), steps, kernel->in, rows, cols);
    scn_arena count = {0}, arena;
    scn_polar_work_take(&count, &plan, kernel, threads);
    arena = (scn_arena){.base = scn_alloc(&heap, count.used), .size = count.used};
    check(arena.base != NULL);
    scn_polar_work work = scn_polar_work_take(&arena, &plan, kernel, threads);
    float *out = floats(rows * cols);
    scn_polar_run(&plan, &work, (scn_mat){out, rows, cols, cols}, 0, 1, (scn_mat){in, rows, cols, cols}, 0);
    scn_free(&heap, arena.base);
    return out;
}

static double *quintic(int64_t rows, int64_t cols, int steps, const float *in)
{
    double *out = doubles(rows * cols);
    oracle_quintic(rows, cols, widen(rows * cols, in), steps, out);
    return out;
}

static void extremes(int64_t rows, int64_t cols, const float *x, double *low, double *high)
{
    double *sigma = singular_values(rows, cols, widen(rows * cols, x));
    *high = sigma[0];
    *low = sigma[(rows < cols ? rows : cols) - 1];
}

/* ---- The laws ------------------------------------------------------------------------------------------ */

static const int64_t shapes[][2] = {{16, 16}, {24, 48}, {48, 24}, {7, 100}, {100, 7}, {65, 65}, {49, 97}, {40, 33}};

static void check_quintic(spectrum kind, int64_t rows, int64_t cols, const int *steps, int count, rng *r)
{
    float *in = matrix(r, kind, rows, cols);
    for (int t = 0; t < count; t++) {
        double *want = quintic(rows, cols, steps[t], in), tol = quintic_tol(rows, cols, steps[t], in, want);
        const scn_kernel *kernel;
        for (int k = 0; (kernel = scn_kernel_at(SCION_F32, k)) != NULL; k++) {
            at("%s %lldx%lld, %d steps, kernel %s", spectrum_name[kind], (long long)rows, (long long)cols, steps[t],
               kernel->name);
            float *got = polar_on(kernel, SCION_POLAR_QUINTIC, steps[t], 2, rows, cols, in);
            check_finite(rows * cols, got);
            check_le(frobenius_error(rows * cols, got, want), tol);
        }
    }
    release(NULL);
}

static void test_every_spectrum(void **state)
{
    (void)state;
    static const int steps[] = {1, 2, 3, 4, 5, 6, 7, 9};
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int64_t kind = 0; kind < COUNT_OF(spectrum_name); kind++) {
            rng r = rng_of((uint64_t)(100 * s + kind));
            check_quintic((spectrum)kind, shapes[s][0], shapes[s][1], steps, (int)COUNT_OF(steps), &r);
        }
}

/* Large enough for products in several blocks, and for five steps without a restart. */
static void test_several_blocks(void **state)
{
    (void)state;
    static const spectrum kinds[] = {GAUSSIAN, DECAY, RANK_ONE};
    for (int64_t t = 0; t < COUNT_OF(kinds); t++) {
        rng r = rng_of((uint64_t)(5000 + t));
        check_quintic(kinds[t], t == 1 ? 330 : 260, t == 1 ? 260 : 330, (const int[]){5}, 1, &r);
    }
}

/* Every size from 1 to 70, square and not, so that each kernel meets every remainder of its tile. */
static void test_every_size(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 70; m++)
        for (int form = 0; form < 3; form++) {
            int64_t rows = form == 2 ? 71 : m, cols = form == 0 ? m : form == 1 ? 73 : m;
            rng r = rng_of((uint64_t)(10000 + 3 * m + form));
            float *in = gaussian(&r, rows * cols);
            double *want = quintic(rows, cols, 5, in), tol = quintic_tol(rows, cols, 5, in, want);
            const scn_kernel *kernel;
            for (int k = 0; (kernel = scn_kernel_at(SCION_F32, k)) != NULL; k++) {
                at("%lldx%lld on kernel %s", (long long)rows, (long long)cols, kernel->name);
                float *got = polar_on(kernel, SCION_POLAR_QUINTIC, 5, 2, rows, cols, in);
                check_le(frobenius_error(rows * cols, got, want), tol);
            }
            release(NULL);
        }
}

/* The public function is the first kernel, and threads change no bit of it. */
static void test_threads_do_not_matter(void **state)
{
    (void)state;
    static const scion_polar_set sets[] = {SCION_POLAR_QUINTIC, SCION_POLAR_EXPRESS, SCION_POLAR_CONVERGED,
                                           SCION_POLAR_CUBIC};
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int64_t t = 0; t < COUNT_OF(sets); t++) {
            int64_t rows = 3 * shapes[s][0], cols = 3 * shapes[s][1];
            size_t bytes = (size_t)(rows * cols) * sizeof(float);
            rng r = rng_of((uint64_t)(20000 + s));
            float *in = gaussian(&r, rows * cols);
            at("set %d, %lldx%lld", (int)sets[t], (long long)rows, (long long)cols);
            float *one = polar(sets[t], 0, 1, rows, cols, in), *two = polar(sets[t], 0, 2, rows, cols, in);
            check_bits(bytes, one, two);
            check_bits(bytes, one, polar(sets[t], 0, 0, rows, cols, in));
            check_bits(bytes, one, polar_on(scn_kernel_at(SCION_F32, 0), sets[t], 0, 2, rows, cols, in));
            release(NULL);
        }
}

/* polar(A') = polar(A)': tall and wide are the same iteration. */
static void test_transposition(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        rng r = rng_of((uint64_t)(30000 + s));
        float *in = gaussian(&r, rows * cols), *turned = floats(rows * cols);
        for (int64_t i = 0; i < rows * cols; i++)
            turned[(i % cols) * rows + i / cols] = in[i];
        float *a = polar(SCION_POLAR_QUINTIC, 5, 0, rows, cols, in);
        float *b = polar(SCION_POLAR_QUINTIC, 5, 0, cols, rows, turned);
        double *want = doubles(rows * cols);
        for (int64_t i = 0; i < rows * cols; i++)
            want[i] = (double)b[(i % cols) * rows + i / cols];
        at("%lldx%lld", (long long)rows, (long long)cols);
        /* both are off from the true iterate; a square one meets A'A in place of AA' */
        check_le(frobenius_error(rows * cols, a, want), 2 * quintic_tol(rows, cols, 5, in, want));
        release(NULL);
    }
}

/* The quintic maps [0.02, 1] into [0.68, 1.21] in three to five steps (a bound of the scalar polynomial, which
 * the iteration applies to each singular value over ||G||_F). */
static void test_quintic_promise(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int steps = 3; steps <= 5; steps++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], m = rows < cols ? rows : cols;
            rng r = rng_of((uint64_t)(40000 + s));
            double *sigma = doubles(m), low, high;
            for (int64_t i = 0; i < m; i++)
                sigma[i] = 0.17 + 0.83 * rng_uniform(&r); /* over the Frobenius norm, sqrt(65) at most: 0.02 */
            float *x = polar(SCION_POLAR_QUINTIC, steps, 0, rows, cols, with_spectrum(&r, rows, cols, sigma));
            extremes(rows, cols, x, &low, &high);
            at("%lldx%lld, %d steps", (long long)rows, (long long)cols, steps);
            check_le(0.68, low);
            check_le(high, 1.203);
            release(NULL);
        }
}

/* Polar Express after six steps: singular values above 1e-3 of the Frobenius norm end within 1 % of 1. */
static void test_express_promise(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int kind = 0; kind < 3; kind++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], m = rows < cols ? rows : cols;
            rng r = rng_of((uint64_t)(50000 + s));
            double *sigma = doubles(m), low, high;
            for (int64_t i = 0; i < m; i++)
                sigma[i] = kind == 0 ? 1 : kind == 1 ? 1 / (double)(i + 1) : pow(10, -2 * (double)i / (double)m);
            float *x = polar(SCION_POLAR_EXPRESS, 0, 0, rows, cols, with_spectrum(&r, rows, cols, sigma));
            extremes(rows, cols, x, &low, &high);
            at("%lldx%lld, spectrum %d", (long long)rows, (long long)cols, kind);
            check_le(0.99, low);
            check_le(high, 1.01);
            release(NULL);
        }
}

/* Converged: all that is above 1e-4 of the largest singular value becomes 1 as exactly as float32 can: in the
 * last, contracting step X is rounded once in each of the m terms of its products, sqrt(m) * 6e-8 < 1e-6. */
static void test_converged_promise(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int kind = 0; kind < 3; kind++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], m = rows < cols ? rows : cols;
            rng r = rng_of((uint64_t)(60000 + s));
            double *sigma = doubles(m), low, high, *want = doubles(rows * cols);
            double bottom = kind == 0 ? 0.5 : kind == 1 ? 1e-2 : 1e-4;
            for (int64_t i = 0; i < m; i++)
                sigma[i] = pow(bottom, (double)i / (double)(m > 1 ? m - 1 : 1));
            float *in = with_spectrum(&r, rows, cols, sigma);
            float *x = polar(SCION_POLAR_CONVERGED, 0, 0, rows, cols, in);
            extremes(rows, cols, x, &low, &high);
            at("%lldx%lld, smallest singular value %g", (long long)rows, (long long)cols, bottom);
            check_le(1 - 1e-5, low);
            check_le(high, 1 + 1e-5);
            /* the factor itself is known as well as its input's condition number allows, times a few roundings */
            oracle_polar(rows, cols, widen(rows * cols, in), 1e-6, want);
            check_le(frobenius_error(rows * cols, x, want), 3e-6 / bottom);
            release(NULL);
        }
}

/* The cubic set against the authors' form of it. By the estimate of quintic_tol with a = 1.5, b = 0.5 and g = 38.4
 * for nine steps: 6 u sqrt(m) b g^2 / a^3 = 8e-5 sqrt(m) in directions that start small, and twice that for the first
 * step, whose coefficients carry the norm. */
static double cubic_tol(int64_t rows, int64_t cols, int steps)
{
    const double u = 6e-8, a = 1.5, m = (double)(rows < cols ? rows : cols), n = (double)(rows < cols ? cols : rows);
    const double g = pow(a, steps);
    return u * (sqrt(n) * (4 * steps + g) + 6 * sqrt(m) * g * g / (a * a * a));
}

static void test_cubic(void **state)
{
    (void)state;
    static const int steps[] = {1, 2, 5, 9, 12};
    for (int64_t s = 0; s < COUNT_OF(shapes) + 1; s++)
        for (int64_t kind = 0; kind < COUNT_OF(spectrum_name); kind++)
            for (int64_t t = 0; t < COUNT_OF(steps); t++) {
                const bool large = s == COUNT_OF(shapes);
                const int64_t rows = large ? 260 : shapes[s][0], cols = large ? 300 : shapes[s][1];
                if (large && (steps[t] != 9 || kind != DECAY))
                    continue;
                rng r = rng_of((uint64_t)(70000 + 100 * s + kind));
                float *in = matrix(&r, (spectrum)kind, rows, cols);
                double *want = doubles(rows * cols);
                const scn_kernel *kernel;
                oracle_cubic(rows, cols, widen(rows * cols, in), steps[t], want);
                for (int k = 0; (kernel = scn_kernel_at(SCION_F32, k)) != NULL; k++) {
                    at("%s %lldx%lld, %d steps, kernel %s", spectrum_name[kind], (long long)rows, (long long)cols,
                       steps[t], kernel->name);
                    float *got = polar_on(kernel, SCION_POLAR_CUBIC, steps[t], 2, rows, cols, in);
                    check_finite(rows * cols, got);
                    check_le(frobenius_error(rows * cols, got, want), cubic_tol(rows, cols, steps[t]));
                }
                release(NULL);
            }
}

/* Singular values over the Schatten 4-norm: from 0.055 on they end above 0.99, and none above 1. eps is added to that
 * norm: as large as the norm it halves every value, and the first step gives 1.5 x/2 - (x/2)^3/2. */
static void test_cubic_promise(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1], m = rows < cols ? rows : cols;
        rng r = rng_of((uint64_t)(80000 + s));
        double *sigma = doubles(m), fourth = 0, low, high;
        for (int64_t i = 0; i < m; i++) {
            sigma[i] = 0.17 + 0.83 * rng_uniform(&r); /* over m^(1/4), 2.84 at most: 0.059 */
            fourth += pow(sigma[i], 4);
        }
        float *in = with_spectrum(&r, rows, cols, sigma);
        extremes(rows, cols, polar(SCION_POLAR_CUBIC, 0, 0, rows, cols, in), &low, &high);
        at("%lldx%lld", (long long)rows, (long long)cols);
        check_le(0.99, low);
        check_le(high, 1 + 1e-5);
        scion_options o;
        scion_options_init(&o, SCION_RULE_SCION);
        o.polar = SCION_POLAR_CUBIC;
        o.polar_steps = 1;
        o.polar_eps = sqrt(sqrt(fourth));
        float *out = floats(rows * cols);
        check_ok(scion_polar(rows, cols, in, out, &o, &err), &err);
        extremes(rows, cols, out, &low, &high);
        const double top = singular_values(rows, cols, widen(rows * cols, in))[0] / o.polar_eps / 2;
        check_rel(high, 1.5 * top - 0.5 * top * top * top, 1e-5);
        release(NULL);
    }
}

/* A matrix of exact rank k gives a partial isometry. Twelve steps multiply what is rounded in the other
 * directions by 8.4e4 (the product of the linear coefficients, as long as it is small): 8.4e4 * 6e-8 = 5e-3 for
 * each of them, and no more than 1. */
static void test_partial_isometry(void **state)
{
    (void)state;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int64_t rank = 1; rank <= 3; rank++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], m = rows < cols ? rows : cols;
            float *in = floats(rows * cols);
            for (int64_t i = 0; i < rows * cols; i++) /* small integers: the rank is exact */
                for (int64_t k = 0; k < rank; k++)
                    in[i] += (float)(((i / cols * (k + 2)) % 7 - 3) * ((i % cols * (k + 3)) % 11 - 5));
            float *x = polar(SCION_POLAR_CONVERGED, 0, 0, rows, cols, in);
            double *before = singular_values(rows, cols, widen(rows * cols, in)), nuclear = 0;
            double *after = singular_values(rows, cols, widen(rows * cols, x));
            at("%lldx%lld of rank %lld", (long long)rows, (long long)cols, (long long)rank);
            check_finite(rows * cols, x);
            for (int64_t i = 0; i < m; i++) {
                nuclear += before[i];
                if (before[i] > 1e-4 * before[0])
                    check_rel(after[i], 1, 1e-5);
                else
                    check_le(after[i], 2e-2);
            }
            check_rel(dot(rows * cols, in, x), nuclear, 1e-5);
            release(NULL);
        }
}

static void test_workspace(void **state)
{
    (void)state;
    /* It grows with the matrix and is a small multiple of it. */
    size_t small = scion_polar_workspace_bytes(64, 64, NULL), large = scion_polar_workspace_bytes(256, 1024, NULL);
    check(small > 0 && large > small);
    check_le((double)large, 8.0 * 256 * 1024 * sizeof(float));
    check(scion_polar_workspace_bytes(0, 5, NULL) == 0);
}

/* ---- In bfloat16 ----------------------------------------------------------------------------------------- */

static float half(double x)
{
    const float value = (float)x;
    uint16_t bits;
    float rounded;
    scn_to_bf16(1, &value, &bits);
    scn_from_bf16(1, &bits, &rounded);
    return rounded;
}

/* x (n x depth) = half(a y'), a n x k, y depth x k: products of rounded operands, summed in float32. */
static void half_product(int64_t n, int64_t depth, int64_t k, const float *a, const float *y, float *x)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < depth; j++) {
            float sum[8] = {0};
            for (int64_t p = 0; p < k; p++)
                sum[p % 8] += a[i * k + p] * y[j * k + p];
            x[i * depth + j] =
                half((double)((sum[0] + sum[4]) + (sum[1] + sum[5]) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))));
        }
}

static float *turned(int64_t rows, int64_t cols, const float *x)
{
    float *y = floats(rows * cols);
    for (int64_t i = 0; i < rows * cols; i++)
        y[i % cols * rows + i / cols] = x[i];
    return y;
}

/* The authors' iteration, every operation rounded to bfloat16 as in their code:
 *     X = G' if G is tall;  X = X / (||X||_F + 1e-7);  five times  A = XX', B = bA + cAA, X = aX + BX. */
static float *authors_bf16(int64_t rows, int64_t cols, const float *in)
{
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    const int64_t m = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
    float *x = rows > cols ? turned(rows, cols, in) : copy_floats(rows * cols, in), *gram = floats(m * m),
          *square = floats(m * m), *next = floats(m * n);
    double norm = 0;
    for (int64_t i = 0; i < m * n; i++) {
        x[i] = half((double)x[i]);
        norm += (double)x[i] * (double)x[i];
    }
    norm = (double)half((double)half(sqrt(norm)) + 1e-7);
    for (int64_t i = 0; i < m * n; i++)
        x[i] = half((double)x[i] / norm);
    for (int step = 0; step < 5; step++) {
        half_product(m, m, n, x, x, gram);
        half_product(m, m, m, gram, gram, square);
        for (int64_t i = 0; i < m * m; i++)
            square[i] = half((double)half(b * (double)gram[i]) + (double)half(c * (double)square[i]));
        half_product(m, n, m, square, turned(m, n, x), next);
        for (int64_t i = 0; i < m * n; i++)
            x[i] = half((double)half(a * (double)x[i]) + (double)next[i]);
    }
    return rows > cols ? turned(cols, rows, x) : x;
}

/* On five spectra, four aspect ratios and rank 1: neither the error against double nor the largest singular value
 * exceed those of the authors' iteration by more than 15 %. The errors reach 1.02 times theirs, the values 1.04. */
static void test_bf16_promise(void **state)
{
    (void)state;
    static const double slack = 1.15;
    static const spectrum kinds[] = {GAUSSIAN, HARMONIC, DECAY, LOW_RANK_NOISE, LOW_RANK, RANK_ONE};
    static const int64_t sizes[][2] = {{96, 96}, {96, 192}, {384, 96}, {96, 1536}};
    for (int64_t s = 0; s < COUNT_OF(sizes); s++)
        for (int64_t t = 0; t < COUNT_OF(kinds); t++) {
            const int64_t rows = sizes[s][0], cols = sizes[s][1];
            rng r = rng_of((uint64_t)(60000 + 10 * s + t));
            float *in = matrix(&r, kinds[t], rows, cols), *theirs = authors_bf16(rows, cols, in);
            double *want = quintic(rows, cols, 5, in), low, high, our_low, our_high;
            const double error = frobenius_error(rows * cols, theirs, want);
            extremes(rows, cols, theirs, &low, &high);
            const scn_kernel *kernel;
            for (int k = 0; (kernel = scn_kernel_at(SCION_BF16, k)) != NULL; k++) {
                at("%s %lldx%lld on kernel %s", spectrum_name[kinds[t]], (long long)rows, (long long)cols,
                   kernel->name);
                float *got = polar_on(kernel, SCION_POLAR_QUINTIC, 0, 2, rows, cols, in);
                check_finite(rows * cols, got);
                check_bits((size_t)(rows * cols) * sizeof *got, got,
                           polar_on(kernel, SCION_POLAR_QUINTIC, 0, 1, rows, cols, in));
                extremes(rows, cols, got, &our_low, &our_high);
                check_le(frobenius_error(rows * cols, got, want), slack * error);
                check_le(our_high, slack * high);
            }
            release(NULL);
        }
}

/* Sizes that fit no tile, odd ones too: words of two elements have an end that is half empty. Ten times the spacing
 * of bfloat16 at 1, which Gaussian matrices keep. And the public function is the kernel of this CPU. */
static void test_bf16_of_every_size(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 40; m++)
        for (int form = 0; form < 3; form++) {
            const int64_t rows = form == 2 ? 53 : m, cols = form == 1 ? 73 : m;
            rng r = rng_of((uint64_t)(70000 + 3 * m + form));
            float *in = gaussian(&r, rows * cols), *out = floats(rows * cols);
            double *want = quintic(rows, cols, 5, in);
            const scn_kernel *kernel;
            for (int k = 0; (kernel = scn_kernel_at(SCION_BF16, k)) != NULL; k++) {
                at("%lldx%lld on kernel %s", (long long)rows, (long long)cols, kernel->name);
                float *got = polar_on(kernel, SCION_POLAR_QUINTIC, 5, 2, rows, cols, in);
                check_le(frobenius_error(rows * cols, got, want), 10 * 0x1p-7);
            }
            scion_options o;
            scion_options_init(&o, SCION_RULE_SCION);
            o.polar_compute = SCION_BF16;
            check_ok(scion_polar(rows, cols, in, out, &o, &err), &err);
            check_bits((size_t)(rows * cols) * sizeof *out, out,
                       polar_on(scn_kernel_for(SCION_BF16), SCION_POLAR_QUINTIC, 0, 1, rows, cols, in));
            release(NULL);
        }
}

/* Entries of 1e-30 and 1e30 give the direction of those of 1, to the bit where the factor is a power of two. */
static void test_bf16_scales(void **state)
{
    (void)state;
    rng r = rng_of(80000);
    const int64_t rows = 33, cols = 70, count = rows * cols;
    float *in = gaussian(&r, count), *scaled = floats(count);
    const scn_kernel *kernel = scn_kernel_for(SCION_BF16);
    float *want = polar_on(kernel, SCION_POLAR_QUINTIC, 0, 1, rows, cols, in);
    for (int e = -100; e <= 100; e += 200) {
        for (int64_t i = 0; i < count; i++)
            scaled[i] = ldexpf(in[i], e);
        at("times 2^%d", e);
        check_bits((size_t)count * sizeof *want, want,
                   polar_on(kernel, SCION_POLAR_QUINTIC, 0, 1, rows, cols, scaled));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_every_spectrum),
        LAW(test_several_blocks),
        LAW(test_every_size),
        LAW(test_threads_do_not_matter),
        LAW(test_transposition),
        LAW(test_quintic_promise),
        LAW(test_express_promise),
        LAW(test_converged_promise),
        LAW(test_partial_isometry),
        LAW(test_workspace),
        LAW(test_cubic),
        LAW(test_cubic_promise),
        LAW(test_bf16_promise),
        LAW(test_bf16_of_every_size),
        LAW(test_bf16_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
