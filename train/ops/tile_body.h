/* Body of the small products: included once by tile_avx512.c and tile_avx2.c, which choose the instruction set for
 * the whole file and define
 *     TILE_VL    floats in a vector register
 *     TILE_NV    vectors in a row of a tile, a power of two
 *     TILE_NAME  the product's name
 * A tile of up to 6 x NV vectors of C lives in registers; for each p, NV loads of B and 6 broadcasts of A feed 6 NV
 * fused multiply-adds. All loops but the one over p unroll. */
#include "ops/tile.h"

enum { tile_rows = 6 };

typedef float vec __attribute__((vector_size(TILE_VL * 4), aligned(4), may_alias));

static inline __attribute__((always_inline)) void tile(const int rows, const int vecs, int64_t k, float alpha,
                                                       const float *a, int64_t a_row, int64_t a_col, const float *b,
                                                       int64_t ldb, float beta, float *c, int64_t ldc)
{
    vec sum[tile_rows][TILE_NV] = {{{0}}};
#pragma GCC unroll 2
    for (int64_t p = 0; p < k; p++) {
        vec row[TILE_NV];
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            row[j] = *(const vec *)(b + p * ldb + j * TILE_VL);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int j = 0; j < vecs; j++)
                sum[i][j] += a[i * a_row + p * a_col] * row[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++) {
            vec *to = (vec *)(c + i * ldc + j * TILE_VL);
            *to = beta == 0 ? alpha * sum[i][j] : *to + alpha * sum[i][j];
        }
}

/* All rows of one column of tiles. */
static inline __attribute__((always_inline)) void tile_column(const int vecs, int64_t m, int64_t k, float alpha,
                                                              const float *a, int64_t a_row, int64_t a_col,
                                                              const float *b, int64_t ldb, float beta, float *c,
                                                              int64_t ldc)
{
    int64_t i = 0;
    for (; i + 6 <= m; i += 6)
        tile(6, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, beta, c + i * ldc, ldc);
    for (; i + 4 <= m; i += 4)
        tile(4, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, beta, c + i * ldc, ldc);
    for (; i < m; i++)
        tile(1, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, beta, c + i * ldc, ldc);
}

void TILE_NAME(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
               const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + TILE_NV * TILE_VL <= n; j += TILE_NV * TILE_VL)
        tile_column(TILE_NV, m, k, alpha, a, a_row, a_col, b + j, ldb, beta, c + j, ldc);
    for (; j + TILE_VL <= n; j += TILE_VL)
        tile_column(1, m, k, alpha, a, a_row, a_col, b + j, ldb, beta, c + j, ldc);
}
