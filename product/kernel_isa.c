/* The innermost products, written once with vectors of the compiler and compiled once for each instruction set:
 * CMake gives this file the flags of the set and SCN_ISA = avx512, avx2 or portable. (A target attribute in place of
 * flags would not do: GCC lowers vector types before it inlines.)
 *
 * A tile of C lives in rows x vecs accumulators; for each p, vecs loads of B and `rows` broadcasts of A feed
 * rows * vecs fused multiply-adds. `rows` and `vecs` are constants where `tile` is inlined, and all loops but the one
 * over p unroll. Every element of C is one sum in the order of p, then scaled: its bits do not depend on its place in
 * the tile. */
#include "product/kernel.h"

/* VL: floats in a register. Tiles of operands in panels have MR x NV vectors, those of small products at most
 * SMALL_MR x SMALL_NV. */
#if defined(__AVX512F__)
/* 16 accumulators of 32 registers: a square tile wastes least on the diagonal of a triangle. Small products: 24. */
enum { VL = 16, MR = 16, NV = 1, SMALL_MR = 6, SMALL_NV = 4 };
#elif defined(__AVX2__)
/* 12 accumulators, the loads and a broadcast fill the 16 registers. */
enum { VL = 8, MR = 4, NV = 3, SMALL_MR = 6, SMALL_NV = 2 };
#elif defined(__aarch64__)
/* NEON: 16 accumulators of 32 registers. */
enum { VL = 4, MR = 8, NV = 2, SMALL_MR = 6, SMALL_NV = 4 };
#else
/* SSE2 and other machines with vectors of four floats: 8 and 12 accumulators of 16 registers. */
enum { VL = 4, MR = 4, NV = 2, SMALL_MR = 6, SMALL_NV = 2 };
#endif
enum { NR = NV * VL, MAX_ROWS = MR > SMALL_MR ? MR : SMALL_MR, MAX_VECS = NV > SMALL_NV ? NV : SMALL_NV };

_Static_assert(NR % MR == 0, "tiles of panels lie inside one strip of A");
_Static_assert(NR *MR <= SCN_KERNEL_MAX_TILE, "callers hold a tile in an array of SCN_KERNEL_MAX_TILE floats");
_Static_assert(SCN_SMALL_COLUMNS % VL == 0, "small products have whole vectors of columns");

typedef float vec __attribute__((vector_size(VL * 4)));

/* Memory is aligned to floats alone. Accumulators of such a type would be spilled, hence a type of its own. */
typedef float memory_vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

/* C (rows x vecs*VL) = alpha A B, or C + alpha A B if accumulate; element (i, p) of A is a[i*a_row + p*a_col]. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vecs, int64_t k, float alpha,
                                                       const float *a, int64_t a_row, int64_t a_col, const float *b,
                                                       int64_t ldb, int accumulate, float *c, int64_t ldc)
{
    vec sum[MAX_ROWS][MAX_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            sum[i][j] = (vec){0};
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; p++) {
        vec row[MAX_VECS];
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            row[j] = *(const memory_vec *)(b + p * ldb + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int j = 0; j < vecs; j++)
                sum[i][j] += a[i * a_row + p * a_col] * row[j];
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++) {
            memory_vec *to = (memory_vec *)(c + i * ldc + j * VL);
            if (accumulate)
                *to += alpha * sum[i][j];
            else
                *to = alpha * sum[i][j];
        }
}

static void panel_tile(int64_t k, const float *a, const float *b, float *c, int accumulate)
{
    tile(MR, NV, k, 1, a, 1, NR, b, NR, accumulate, c, NR);
}

/* All rows of one column of tiles. */
static inline __attribute__((always_inline)) void tile_column(const int vecs, int64_t m, int64_t k, float alpha,
                                                              const float *a, int64_t a_row, int64_t a_col,
                                                              const float *b, int64_t ldb, int accumulate, float *c,
                                                              int64_t ldc)
{
    int64_t i = 0;
    for (; i + 6 <= m; i += 6)
        tile(6, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
    for (; i + 4 <= m; i += 4)
        tile(4, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
    for (; i < m; i++)
        tile(1, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
}

static void small_product(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                          const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + SMALL_NV * VL <= n; j += SMALL_NV * VL)
        tile_column(SMALL_NV, m, k, alpha, a, a_row, a_col, b + j, ldb, accumulate, c + j, ldc);
    for (; j + VL <= n; j += VL)
        tile_column(1, m, k, alpha, a, a_row, a_col, b + j, ldb, accumulate, c + j, ldc);
}

#define PASTE(a, b) a##b
#define KERNEL(isa) PASTE(scn_kernel_, isa)
#define QUOTE(text) #text
#define TEXT(text) QUOTE(text)

const scn_kernel KERNEL(SCN_ISA) = {TEXT(SCN_ISA), MR, NR, panel_tile, small_product};
