/* See vector.h. Sums have `lanes` partial sums so that the compiler can vectorise without being allowed to
 * reorder floating-point arithmetic. */
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "linalg/stream.h"

enum { lanes = 32, pieces = 64 };

SCN_CLONES static void axpby_loop(int64_t n, double a, const float *x, double beta, float *z)
{
    const float af = (float)a, bf = (float)beta;
    if (fabs(a) > 1e30 || (a != 0 && fabs(a) < 1e-30)) { /* a power of two, which rounds nothing, times a rest */
        int exponent;
        const float rest = (float)frexp(a, &exponent), power = ldexpf(1, exponent < 127 ? exponent : 127);
        const float more = ldexpf(1, exponent < 127 ? 0 : exponent - 127);
        for (int64_t i = 0; i < n; i++)
            z[i] = (bf != 0 ? bf * z[i] : 0) + x[i] * power * more * rest;
    } else if (bf == 0)
        for (int64_t i = 0; i < n; i++)
            z[i] = af * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            z[i] = bf * z[i] + af * x[i];
}

void scn_axpby(int64_t n, double a, const float *x, double beta, float *z)
{
    axpby_loop(n, a, x, beta, z);
}

SCN_CLONES static void sign_axpby_loop(int64_t n, double a, const float *restrict x, double beta, float *restrict z)
{
    const float af = (float)a, bf = (float)beta;
    if (bf == 0)
        for (int64_t i = 0; i < n; i++)
            z[i] = (x[i] > 0 ? af : 0) - (x[i] < 0 ? af : 0);
    else
        for (int64_t i = 0; i < n; i++)
            z[i] = bf * z[i] + ((x[i] > 0 ? af : 0) - (x[i] < 0 ? af : 0));
}

void scn_sign_axpby(int64_t n, double a, const float *x, double beta, float *z)
{
    sign_axpby_loop(n, a, x, beta, z);
}

SCN_CLONES static void scale_loop(int64_t n, double a, float *z)
{
    const float af = (float)a;
    if (af == 0)
        memset(z, 0, (size_t)n * sizeof *z);
    else
        for (int64_t i = 0; i < n; i++)
            z[i] *= af;
}

void scn_scale(int64_t n, double a, float *z)
{
    scale_loop(n, a, z);
}

SCN_CLONES static void add_squares_loop(int64_t n, const float *restrict x, double *restrict sums)
{
    for (int64_t j = 0; j < n; j++)
        sums[j] += (double)x[j] * (double)x[j];
}

void scn_add_squares(int64_t n, const float *x, double *sums)
{
    add_squares_loop(n, x, sums);
}

static double total(const double *part)
{
    double sum = 0;
    for (int l = 0; l < lanes; l++)
        sum += part[l];
    return sum;
}

SCN_CLONES static double sum_squares_loop(int64_t n, const float *x)
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

double scn_sum_squares(int64_t n, const float *x)
{
    return sum_squares_loop(n, x);
}

SCN_CLONES static double sum_abs_loop(int64_t n, const float *x)
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

SCN_CLONES static double max_abs_loop(int64_t n, const float *x)
{
    float part[lanes] = {0};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int l = 0; l < lanes; l++)
            part[l] = fabsf(x[i + l]) > part[l] ? fabsf(x[i + l]) : part[l];
    float max = 0;
    for (; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    for (int l = 0; l < lanes; l++)
        max = part[l] > max ? part[l] : max;
    return (double)max;
}

SCN_CLONES static double dot_loop(int64_t n, const float *x, const float *y)
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

double scn_dot(int64_t n, const float *x, const float *y)
{
    return dot_loop(n, x, y);
}

SCN_CLONES static double dot_double_loop(int64_t n, const float *x, const double *y)
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

double scn_dot_double(int64_t n, const float *x, const double *y)
{
    return dot_double_loop(n, x, y);
}

SCN_CLONES static void add_double_loop(int64_t n, double a, const float *restrict x, double *restrict z)
{
    for (int64_t i = 0; i < n; i++)
        z[i] += a * (double)x[i];
}

void scn_add_double(int64_t n, double a, const float *x, double *z)
{
    add_double_loop(n, a, x, z);
}

/* The bits of |x| grow with it, Inf and NaN last: an integer maximum, which no floating point option can remove. */
SCN_CLONES static float largest_loop(int64_t n, const float *x)
{
    enum { infinity = 0x7f800000 };
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float value;
    most = most < infinity ? most : infinity;
    memcpy(&value, &most, sizeof value);
    return value;
}

float scn_largest(int64_t n, const float *x)
{
    return largest_loop(n, x);
}

/* ---- Matrices: pieces of rows, or of entries where the matrix has no gaps ---- */

static bool gapless(scn_mat a)
{
    return a.ld == a.cols || a.rows == 1;
}

/* Piece p of a: entries if it is flat (gapless), else whole rows. */
static scn_mat piece_of(scn_mat a, int p, bool flat)
{
    const int64_t n = flat ? a.rows * a.cols : a.rows;
    const int64_t first = n / pieces * p + n % pieces * p / pieces;
    const int64_t end = n / pieces * (p + 1) + n % pieces * (p + 1) / pieces;
    return flat ? (scn_mat){a.at + first, 1, end - first, end - first} : scn_sub(a, first, 0, end - first, a.cols);
}

/* Threads are worth waking for 2^15 elements. */
static int worth(scn_mat a, int threads)
{
    return a.rows * a.cols < 32768 ? 1 : threads;
}

typedef double reduction(int64_t n, const float *x);

static double reduce_piece(scn_mat m, reduction *of, bool largest)
{
    double part = 0;
    for (int64_t i = 0; i < m.rows && m.cols > 0; i++) {
        double v = of(m.cols, scn_row(m, i));
        part = largest ? fmax(part, v) : part + v;
    }
    return part;
}

static double reduce(scn_mat a, reduction *of, bool largest, int threads)
{
    double part[pieces];
    threads = worth(a, threads);
    SCN_PARALLEL(threads, p, pieces, part[p] = reduce_piece(piece_of(a, (int)p, gapless(a)), of, largest));
    double all = 0;
    for (int p = 0; p < pieces; p++)
        all = largest ? fmax(all, part[p]) : all + part[p];
    return all;
}

double scn_sum_squares_mat(scn_mat a, int threads)
{
    return reduce(a, sum_squares_loop, false, threads);
}

double scn_sum_abs_mat(scn_mat a, int threads)
{
    return reduce(a, sum_abs_loop, false, threads);
}

double scn_max_abs_mat(scn_mat a, int threads)
{
    return reduce(a, max_abs_loop, true, threads);
}

static double dot_rows(scn_mat a, scn_mat b)
{
    double part = 0;
    for (int64_t i = 0; i < a.rows; i++)
        part += scn_dot(a.cols, scn_row(a, i), scn_row(b, i));
    return part;
}

double scn_dot_mat(scn_mat a, scn_mat b, int threads)
{
    double part[pieces], all = 0;
    threads = worth(a, threads);
    SCN_PARALLEL(threads, p, pieces, part[p] = dot_rows(piece_of(a, (int)p, false), piece_of(b, (int)p, false)));
    for (int p = 0; p < pieces; p++)
        all += part[p];
    return all;
}

static void scale_rows_of(scn_mat m, double factor)
{
    for (int64_t i = 0; i < m.rows; i++)
        scn_scale(m.cols, factor, scn_row(m, i));
}

void scn_scale_mat(scn_mat a, double factor, int threads)
{
    threads = worth(a, threads);
    SCN_PARALLEL(threads, p, pieces, scale_rows_of(piece_of(a, (int)p, gapless(a)), factor));
}

static void axpby_run(int64_t n, double a, const float *x, double beta, float *z, bool stream)
{
    if (stream && beta == 0)
        scn_stream(n, a, x, z);
    else
        scn_axpby(n, a, x, beta, z);
}

static void axpby_rows(double a, scn_mat x, double beta, scn_mat z, bool stream)
{
    for (int64_t i = 0; i < x.rows; i++)
        axpby_run(x.cols, a, scn_row(x, i), beta, scn_row(z, i), stream);
    if (stream)
        scn_stream_end();
}

void scn_axpby_mat(double a, scn_mat x, double beta, scn_mat z, bool stream, int threads)
{
    const bool flat = gapless(x) && gapless(z); /* both are cut alike */
    threads = worth(x, threads);
    SCN_PARALLEL(threads, p, pieces,
                 axpby_rows(a, piece_of(x, (int)p, flat), beta, piece_of(z, (int)p, flat), stream));
}
