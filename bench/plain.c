/* plain.c - the spectral lmo as a textbook writes it, and as well as that can be done.
 *
 *     X = G / ||G||_F;   5 times:   A = XX',   B = bA + cA^2,   X = aX + BX
 *
 * with (a, b, c) = (3.4445, -4.7750, 2.0315): three full matrix products a step on CBLAS, which is what a
 * user without this library would run. Nothing is held back: buffers exist beforehand, the side loops are
 * threaded, `a` is added to the diagonal of B so that X needs no copy, and a tall matrix (rows > cols) is
 * read as its transpose by calling BLAS in column-major order, so that m <= n costs no transposition. */
#include "bench.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS = 5 };
static const float QUINTIC_A = 3.4445f, QUINTIC_B = -4.7750f, QUINTIC_C = 2.0315f;

struct plain_work {
    float *x, *y; /* m x n, the iterate and the next one */
    float *a, *b; /* m x m */
};

plain_work *plain_create(int64_t elements, int64_t side)
{
    plain_work *k = malloc(sizeof *k);
    if (!k)
        bench_die("out of memory");
    *k = (plain_work){bench_floats(elements), bench_floats(elements), bench_floats(side * side),
                      bench_floats(side * side)};
    return k;
}

void plain_free(plain_work *k)
{
    if (!k)
        return;
    free(k->x);
    free(k->y);
    free(k->a);
    free(k->b);
    free(k);
}

/* y = factor x */
static void scaled_copy(float *y, const float *x, float factor, int64_t count, int threads)
{
    (void)threads; /* a build without OpenMP */
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++)
        y[i] = factor * x[i];
}

static double frobenius(const float *x, int64_t count, int threads)
{
    double sum = 0;
    (void)threads;
#pragma omp parallel for simd schedule(static) num_threads(threads) reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* C (m x n) = alpha A (m x k) op(B) + beta C. Leading dimensions are those of the given order. */
static void gemm(int row_major, int transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    cblas_sgemm(row_major ? CblasRowMajor : CblasColMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

void plain_polar(plain_work *k, int64_t rows, int64_t cols, const float *in, float *out, int threads)
{
    int row_major = rows <= cols;
    int64_t m = row_major ? rows : cols, n = row_major ? cols : rows;
    int64_t ld = cols; /* of X in either order */
    float *x = k->x, *y = k->y;
    double norm = frobenius(in, m * n, threads);
    scaled_copy(x, in, norm > 0 ? (float)(1 / norm) : 0, m * n, threads);
    for (int step = 0; step < STEPS; step++) {
        gemm(row_major, 1, m, m, n, 1, x, ld, x, ld, 0, k->a, m);
        scaled_copy(k->b, k->a, 1, m * m, threads);
        gemm(row_major, 0, m, m, m, QUINTIC_C, k->a, m, k->a, m, QUINTIC_B, k->b, m);
        for (int64_t i = 0; i < m; i++)
            k->b[i * m + i] += QUINTIC_A;
        float *next = step == STEPS - 1 ? out : y;
        gemm(row_major, 0, m, n, m, 1, k->b, m, x, ld, 0, next, ld);
        y = x;
        x = next;
    }
}
