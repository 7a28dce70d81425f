/* See vector.h. Sums keep `lanes` partial sums so that the compiler can vectorise without being allowed to
 * reorder floating-point arithmetic. */
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/random.h"
#include "base/thread.h"

enum { lanes = 32, pieces = 64 };

SCN_CLONES void scn_axpby(int64_t n, double a, const float *x, double keep, float *z)
{
    const float af = (float)a, kf = (float)keep;
    if (fabs(a) > 1e30 || (a != 0 && fabs(a) < 1e-30)) { /* a power of two, which rounds nothing, times a rest */
        int exponent;
        const float rest = (float)frexp(a, &exponent), power = ldexpf(1, exponent < 127 ? exponent : 127);
        const float more = ldexpf(1, exponent < 127 ? 0 : exponent - 127);
        for (int64_t i = 0; i < n; i++)
            z[i] = (kf != 0 ? kf * z[i] : 0) + x[i] * power * more * rest;
    } else if (kf == 0)
        for (int64_t i = 0; i < n; i++)
            z[i] = af * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            z[i] = kf * z[i] + af * x[i];
}

SCN_CLONES void scn_sign_axpby(int64_t n, double a, const float *restrict x, double keep, float *restrict z)
{
    const float af = (float)a, kf = (float)keep;
    if (kf == 0)
        for (int64_t i = 0; i < n; i++)
            z[i] = (x[i] > 0 ? af : 0) - (x[i] < 0 ? af : 0);
    else
        for (int64_t i = 0; i < n; i++)
            z[i] = kf * z[i] + ((x[i] > 0 ? af : 0) - (x[i] < 0 ? af : 0));
}

/* A run of values from the first-level cache to z: whole cache lines where the CPU can, else vectors of four. */
#ifdef __x86_64__
__attribute__((target("avx512f"))) static int64_t store_lines(int64_t n, const float *from, float *z)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_stream_ps(z + i, _mm512_loadu_ps(from + i));
    return i;
}

static void store_past_cache(int64_t n, const float *from, float *z)
{
    int64_t i = 0;
    for (; i < n && (uintptr_t)(z + i) % 64 != 0; i++)
        z[i] = from[i];
    if (__builtin_cpu_supports("avx512f"))
        i += store_lines(n - i, from + i, z + i);
    for (; i + 4 <= n; i += 4)
        _mm_stream_ps(z + i, _mm_loadu_ps(from + i));
    for (; i < n; i++)
        z[i] = from[i];
}

void scn_stream_end(void)
{
    _mm_sfence();
}
#else
static void store_past_cache(int64_t n, const float *from, float *z)
{
    memcpy(z, from, (size_t)n * sizeof *z);
}

void scn_stream_end(void)
{
}
#endif

void scn_prefetch(int64_t n, const float *x)
{
    for (int64_t i = 0; i < n; i += 16)
        __builtin_prefetch((const char *)x + 4 * i);
}

typedef void run_of(int64_t n, double a, const float *x, double keep, float *z);

static void stream_run(int64_t n, double a, const float *x, float *z, run_of *kernel)
{
    enum { some = 1024 };
    float buffer[some];
    for (int64_t i = 0; i < n; i += some) {
        int64_t m = n - i < some ? n - i : some;
        scn_prefetch(m, x + i + m);
        kernel(m, a, x + i, 0, buffer);
        store_past_cache(m, buffer, z + i);
    }
}

void scn_stream(int64_t n, double a, const float *x, float *z)
{
    stream_run(n, a, x, z, scn_axpby);
}

void scn_sign_stream(int64_t n, double a, const float *x, float *z)
{
    stream_run(n, a, x, z, scn_sign_axpby);
}

SCN_CLONES static void multiply(int64_t n, const float *f, const float *x, float *z)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = f[j] * x[j];
}

SCN_CLONES static void multiply_add(int64_t n, const float *restrict f, const float *restrict x, float keep,
                                    float *restrict z)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = keep * z[j] + f[j] * x[j];
}

void scn_multiply(int64_t n, const float *f, const float *x, double keep, float *z, bool stream)
{
    enum { some = 1024 };
    float buffer[some];
    if (keep != 0) {
        multiply_add(n, f, x, (float)keep, z);
        return;
    }
    for (int64_t i = 0; i < n; i += some) {
        int64_t m = n - i < some ? n - i : some;
        if (stream && z != x) {
            multiply(m, f + i, x + i, buffer);
            store_past_cache(m, buffer, z + i);
        } else {
            multiply(m, f + i, x + i, z + i);
        }
    }
}

SCN_CLONES void scn_scale(int64_t n, double a, float *z)
{
    const float af = (float)a;
    if (af == 0)
        memset(z, 0, (size_t)n * sizeof *z);
    else
        for (int64_t i = 0; i < n; i++)
            z[i] *= af;
}

SCN_CLONES void scn_add_squares(int64_t n, const float *restrict x, double *restrict sums)
{
    for (int64_t j = 0; j < n; j++)
        sums[j] += (double)x[j] * (double)x[j];
}

static double total(const double *part)
{
    double sum = 0;
    for (int l = 0; l < lanes; l++)
        sum += part[l];
    return sum;
}

SCN_CLONES double scn_sum_squares(int64_t n, const float *x)
{
    double part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        __builtin_prefetch((const char *)(x + i) + 4096);
        __builtin_prefetch((const char *)(x + i) + 4096 + 64);
        for (int l = 0; l < lanes; l++)
            part[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (int l = 0; i < n; i++, l++)
        part[l] += (double)x[i] * (double)x[i];
    return total(part);
}

SCN_CLONES double scn_sum_abs(int64_t n, const float *x)
{
    double part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int l = 0; l < lanes; l++)
            part[l] += fabs((double)x[i + l]);
    for (int l = 0; i < n; i++, l++)
        part[l] += fabs((double)x[i]);
    return total(part);
}

SCN_CLONES double scn_max_abs(int64_t n, const float *x)
{
    float part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int l = 0; l < lanes; l++)
            part[l] = fabsf(x[i + l]) > part[l] ? fabsf(x[i + l]) : part[l];
    float most = 0;
    for (; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    for (int l = 0; l < lanes; l++)
        most = part[l] > most ? part[l] : most;
    return (double)most;
}

SCN_CLONES double scn_dot(int64_t n, const float *x, const float *y)
{
    double part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int l = 0; l < lanes; l++)
            part[l] += (double)x[i + l] * (double)y[i + l];
    for (int l = 0; i < n; i++, l++)
        part[l] += (double)x[i] * (double)y[i];
    return total(part);
}

SCN_CLONES double scn_dot_double(int64_t n, const float *x, const double *y)
{
    double part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int l = 0; l < lanes; l++)
            part[l] += (double)x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++)
        part[l] += (double)x[i] * y[i];
    return total(part);
}

SCN_CLONES void scn_add_double(int64_t n, double a, const float *restrict x, double *restrict z)
{
    for (int64_t i = 0; i < n; i++)
        z[i] += a * (double)x[i];
}

/* A float is NaN or Inf exactly when its exponent bits are all ones: an integer test, which no floating
 * point option can remove. */
SCN_CLONES bool scn_all_finite(int64_t n, const float *x)
{
    enum { step = 4096 };
    for (int64_t i = 0; i < n; i += step) {
        int64_t end = n - i < step ? n : i + step;
        uint32_t bad = 0;
        for (int64_t j = i; j < end; j++) {
            uint32_t bits;
            memcpy(&bits, x + j, sizeof bits);
            bad |= (bits & 0x7f800000u) == 0x7f800000u;
        }
        if (bad)
            return false;
    }
    return true;
}

SCN_CLONES bool scn_all_finite_bf16(int64_t n, const uint16_t *x)
{
    uint16_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (x[i] & 0x7f80) == 0x7f80;
    return !bad;
}

/* ---- Matrices: pieces of rows, or of entries where the matrix has no gaps ---- */

static int64_t piece_start(int64_t n, int piece)
{
    return n / pieces * piece + n % pieces * piece / pieces;
}

static bool gapless(scn_mat a)
{
    return a.ld == a.cols || a.rows == 1;
}

static scn_mat flattened(scn_mat a)
{
    return (scn_mat){a.at, a.rows * a.cols, 1, 1};
}

/* Piece p of a: whole rows, or entries as a column vector. */
static scn_mat piece_of(scn_mat a, int p)
{
    scn_mat v = gapless(a) ? flattened(a) : a;
    int64_t first = piece_start(v.rows, p), end = piece_start(v.rows, p + 1);
    scn_mat part = scn_sub(v, first, 0, end - first, v.cols);
    return gapless(a) ? (scn_mat){part.at, 1, part.rows, part.rows} : part;
}

/* Threads are worth waking for 2^15 elements. */
static int worth(scn_mat a, int threads)
{
    return a.rows * a.cols < 32768 ? 1 : threads;
}

typedef double reduction(int64_t n, const float *x);

static double reduce(scn_mat a, reduction *of, bool largest, int threads)
{
    double part[pieces];
    threads = worth(a, threads);
    SCN_PARALLEL_FOR(threads)
    for (int p = 0; p < pieces; p++) {
        scn_mat m = piece_of(a, p);
        part[p] = 0;
        for (int64_t i = 0; i < m.rows && m.cols > 0; i++) {
            double v = of(m.cols, scn_row(m, i));
            part[p] = largest ? fmax(part[p], v) : part[p] + v;
        }
    }
    double all = 0;
    for (int p = 0; p < pieces; p++)
        all = largest ? fmax(all, part[p]) : all + part[p];
    return all;
}

double scn_sum_squares_mat(scn_mat a, int threads)
{
    return reduce(a, scn_sum_squares, false, threads);
}

double scn_sum_abs_mat(scn_mat a, int threads)
{
    return reduce(a, scn_sum_abs, false, threads);
}

double scn_max_abs_mat(scn_mat a, int threads)
{
    return reduce(a, scn_max_abs, true, threads);
}

double scn_dot_mat(scn_mat a, scn_mat b, int threads)
{
    double part[pieces];
    threads = worth(a, threads);
    SCN_PARALLEL_FOR(threads)
    for (int p = 0; p < pieces; p++) {
        int64_t first = piece_start(a.rows, p), end = piece_start(a.rows, p + 1);
        part[p] = 0;
        for (int64_t i = first; i < end; i++)
            part[p] += scn_dot(a.cols, scn_row(a, i), scn_row(b, i));
    }
    double all = 0;
    for (int p = 0; p < pieces; p++)
        all += part[p];
    return all;
}

void scn_scale_mat(scn_mat a, double factor, int threads)
{
    threads = worth(a, threads);
    SCN_PARALLEL_FOR(threads)
    for (int p = 0; p < pieces; p++) {
        scn_mat m = piece_of(a, p);
        for (int64_t i = 0; i < m.rows; i++)
            scn_scale(m.cols, factor, scn_row(m, i));
    }
}

static void axpby_run(int64_t n, double a, const float *x, double keep, float *z, bool stream)
{
    if (stream && keep == 0)
        scn_stream(n, a, x, z);
    else
        scn_axpby(n, a, x, keep, z);
}

void scn_axpby_mat(double a, scn_mat x, double keep, scn_mat z, bool stream, int threads)
{
    if (gapless(x) && gapless(z)) { /* both must be cut alike */
        x = (scn_mat){x.at, 1, x.rows * x.cols, x.rows * x.cols};
        z = (scn_mat){z.at, 1, x.cols, x.cols};
    }
    threads = worth(x, threads);
    SCN_PARALLEL_FOR(threads)
    for (int p = 0; p < pieces; p++) {
        int64_t n = x.rows == 1 ? x.cols : x.rows;
        int64_t first = piece_start(n, p), end = piece_start(n, p + 1);
        if (x.rows == 1)
            axpby_run(end - first, a, x.at + first, keep, z.at + first, stream);
        else
            for (int64_t i = first; i < end; i++)
                axpby_run(x.cols, a, scn_row(x, i), keep, scn_row(z, i), stream);
        if (stream)
            scn_stream_end();
    }
}

/* ---- bfloat16: the upper half of a float32 ---- */

SCN_CLONES void scn_from_bf16(int64_t n, const uint16_t *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

SCN_CLONES void scn_to_bf16(int64_t n, const float *restrict from, uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        bits += 0x7fffu + (bits >> 16 & 1u);
        to[i] = (uint16_t)(bits >> 16);
    }
}

void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first)
{
    for (int64_t i = 0; i < n; i += 8) {
        scn_words r = scn_philox(seed, stream, (uint64_t)(first + i) / 8);
        int64_t end = n - i < 8 ? n - i : 8;
        for (int64_t j = 0; j < end; j++) {
            uint32_t bits;
            memcpy(&bits, from + i + j, sizeof bits);
            bits += r.w[j / 2] >> (j % 2 * 16) & 0xffffu;
            to[i + j] = (uint16_t)(bits >> 16);
        }
    }
}
