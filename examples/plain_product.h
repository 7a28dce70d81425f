/* plain_product.h - C += A B in plain C, fast enough to train a small network.
 *
 * For mlp_fashion.c; static, so that an example stays one translation unit. Both factors are first copied
 * into strips, A's of 8 rows and B's of 32 columns, so that the inner loop reads memory in order and keeps
 * its 8 x 32 sums in registers: 16 of AVX-512's 32. Where the compiler can, it makes a version of that loop
 * for each generation of the processor and the program picks one when it starts. */
#ifndef PLAIN_PRODUCT_H
#define PLAIN_PRODUCT_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")
#define EVERY_CPU __attribute__((CLONES, optimize("O3", "fp-contract=fast")))
#else
#define EVERY_CPU
#endif

#ifdef _OPENMP
#define PARALLEL(text) _Pragma(#text)
#else
#define PARALLEL(text)
#endif

enum { STRIP_M = 8, STRIP_N = 32 };

/* A matrix seen through strides: entry (i, j) is at[i * row + j * col]. Exchanging the two transposes it. */
struct view {
    const float *at;
    int64_t row, col;
};

EVERY_CPU
static void tile(int64_t k, const float *restrict a, const float *restrict b, float *restrict sums)
{
    float s[STRIP_M][STRIP_N] = {{0}};
    for (int64_t p = 0; p < k; p++)
        for (int i = 0; i < STRIP_M; i++)
            for (int j = 0; j < STRIP_N; j++)
                s[i][j] += a[p * STRIP_M + i] * b[p * STRIP_N + j];
    memcpy(sums, s, sizeof s);
}

/* strips[s][p][r] = entry (s * width + r, p) of v, zero beyond the last row. */
static void pack(int64_t rows, int64_t k, struct view v, int64_t width, float *strips)
{
    PARALLEL(omp parallel for schedule(dynamic))
    for (int64_t s = 0; s < (rows + width - 1) / width; s++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t r = 0; r < width; r++) {
                int64_t i = s * width + r;
                strips[(s * k + p) * width + r] = i < rows ? v.at[i * v.row + p * v.col] : 0;
            }
}

/* c (m x n, contiguous) += a (m x k) b (k x n). strips[0] holds (m + STRIP_M) k numbers, strips[1]
 * for (n + STRIP_N) k. */
static void product(int64_t m, int64_t n, int64_t k, struct view a, struct view b, float *c, float *const strips[2])
{
    struct view b_transposed = {b.at, b.col, b.row};
    pack(m, k, a, STRIP_M, strips[0]);
    pack(n, k, b_transposed, STRIP_N, strips[1]);
    PARALLEL(omp parallel for schedule(dynamic, 16) collapse(2))
    for (int64_t j = 0; j < n; j += STRIP_N)
        for (int64_t i = 0; i < m; i += STRIP_M) {
            float sums[STRIP_M * STRIP_N];
            tile(k, strips[0] + i * k, strips[1] + j * k, sums);
            for (int64_t r = 0; r < STRIP_M && i + r < m; r++)
                for (int64_t q = 0; q < STRIP_N && j + q < n; q++)
                    c[(i + r) * n + j + q] += sums[r * STRIP_N + q];
        }
}

#endif
