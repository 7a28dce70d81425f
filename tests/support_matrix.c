/* The oracle's matrices: singular values and polar factor by LAPACK's dgesdd, the quintic Newton-Schulz
 * iteration by three plain products a step, and matrices with a given spectrum. Row-major throughout. */
#include "support.h"

#include <math.h>
#include <string.h>

#include <lapacke.h>

typedef struct svd {
    int64_t m;         /* min(rows, cols) */
    double *u, *s, *v; /* rows x m, m, m x cols (v holds V') */
} svd;

static svd svd_of(int64_t rows, int64_t cols, const double *a)
{
    svd d = {.m = rows < cols ? rows : cols};
    double *copy = doubles(rows * cols);
    memcpy(copy, a, (size_t)(rows * cols) * sizeof *copy);
    d.u = doubles(rows * d.m);
    d.s = doubles(d.m);
    d.v = doubles(d.m * cols);
    lapack_int info = LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', (lapack_int)rows, (lapack_int)cols, copy,
                                     (lapack_int)cols, d.s, d.u, (lapack_int)d.m, d.v, (lapack_int)cols);
    assert_int_equal(info, 0);
    return d;
}

double *singular_values(int64_t rows, int64_t cols, const double *a)
{
    return svd_of(rows, cols, a).s;
}

void oracle_polar(int64_t rows, int64_t cols, const double *a, double cut, double *out)
{
    svd d = svd_of(rows, cols, a);
    memset(out, 0, (size_t)(rows * cols) * sizeof *out);
    for (int64_t k = 0; k < d.m && d.s[k] > cut * d.s[0]; k++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                out[i * cols + j] += d.u[i * d.m + k] * d.v[k * cols + j];
}

/* c = a b, a rows x inner, b inner x cols. */
static void multiply(int64_t rows, int64_t inner, int64_t cols, const double *a, const double *b, double *c)
{
    memset(c, 0, (size_t)(rows * cols) * sizeof *c);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < inner; k++)
            for (int64_t j = 0; j < cols; j++)
                c[i * cols + j] += a[i * inner + k] * b[k * cols + j];
}

static double *transpose(int64_t rows, int64_t cols, const double *a)
{
    double *t = doubles(rows * cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            t[j * rows + i] = a[i * cols + j];
    return t;
}

void oracle_quintic(int64_t rows, int64_t cols, const double *a, int steps, double *out)
{
    if (rows > cols) {
        double *z = doubles(rows * cols);
        oracle_quintic(cols, rows, transpose(rows, cols, a), steps, z);
        memcpy(out, transpose(cols, rows, z), (size_t)(rows * cols) * sizeof *out);
        return;
    }
    int64_t n = rows * cols, mm = rows * rows;
    double *gram = doubles(mm), *gram2 = doubles(mm), *bx = doubles(n), size = 0;
    for (int64_t i = 0; i < n; i++)
        size = hypot(size, a[i]);
    for (int64_t i = 0; i < n; i++)
        out[i] = size > 0 ? a[i] / size : 0;
    for (int step = 0; step < steps; step++) {
        multiply(rows, cols, rows, out, transpose(rows, cols, out), gram);
        multiply(rows, rows, rows, gram, gram, gram2);
        for (int64_t i = 0; i < mm; i++)
            gram[i] = -4.7750 * gram[i] + 2.0315 * gram2[i];
        multiply(rows, rows, cols, gram, out, bx);
        for (int64_t i = 0; i < n; i++)
            out[i] = 3.4445 * out[i] + bx[i];
    }
}

void oracle_cubic(int64_t rows, int64_t cols, const double *a, int steps, double *out)
{
    if (rows > cols) {
        double *z = doubles(rows * cols);
        oracle_cubic(cols, rows, transpose(rows, cols, a), steps, z);
        memcpy(out, transpose(cols, rows, z), (size_t)(rows * cols) * sizeof *out);
        return;
    }
    const int64_t mm = rows * rows;
    double *n = doubles(mm), *u = doubles(mm), *z = doubles(mm), *t = doubles(mm), size = 0;
    multiply(rows, cols, rows, a, transpose(rows, cols, a), n);
    for (int64_t i = 0; i < mm; i++)
        size = hypot(size, n[i]);
    for (int64_t i = 0; i < mm; i++) {
        n[i] = size > 0 ? n[i] / size : 0;
        z[i] = i % (rows + 1) == 0;
    }
    for (int step = 0; step < steps; step++) {
        for (int64_t i = 0; i < mm; i++)
            u[i] = ((i % (rows + 1) == 0 ? 3 : 0) - n[i]) / 2;
        multiply(rows, rows, rows, z, u, t);
        memcpy(z, t, (size_t)mm * sizeof *z);
        multiply(rows, rows, rows, n, u, t);
        multiply(rows, rows, rows, t, u, n);
    }
    multiply(rows, rows, cols, z, a, out);
    for (int64_t i = 0; i < rows * cols && size > 0; i++)
        out[i] /= sqrt(size);
}

float *with_spectrum(rng *r, int64_t rows, int64_t cols, const double *sigma)
{
    svd d = svd_of(rows, cols, widen(rows * cols, gaussian(r, rows * cols)));
    double *sum = doubles(rows * cols);
    for (int64_t k = 0; k < d.m; k++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                sum[i * cols + j] += sigma[k] * d.u[i * d.m + k] * d.v[k * cols + j];
    float *x = floats(rows * cols);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = (float)sum[i];
    return x;
}
