/* Chooses among the small products of tile.h. */
#include "ops/tile.h"

#include <stddef.h>

#include "tensor/gemm.h"

static op_tile_product *best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return op_tile_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return op_tile_avx2;
#endif
    return NULL;
}

void op_tile_gemm(bool transpose_a, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    op_tile_product *product = n % OP_TILE_COLUMNS == 0 ? best() : NULL;
    if (product)
        product(m, n, k, alpha, a, transpose_a ? 1 : lda, transpose_a ? lda : 1, b, ldb, beta, c, ldc);
    else
        gemm(transpose_a, false, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
