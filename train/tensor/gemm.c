/* See gemm.h. */
#include "tensor/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>

bool gemm_fits(int64_t m, int64_t n, int64_t k)
{
    return m <= INT_MAX && n <= INT_MAX && k <= INT_MAX;
}

void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    assert(gemm_fits(m, n, k) && gemm_fits(lda, ldb, ldc));
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
