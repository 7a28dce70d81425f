/* C = beta C + alpha op(A) op(B) in row-major float32: the one file of the program that includes cblas.h
 * is gemm.c. Outside a parallel region the BLAS uses its threads (threads_set), inside one it is single-threaded (the
 * OpenMP flavour of OpenBLAS sees to that by itself). */
#ifndef TRAIN_TENSOR_GEMM_H
#define TRAIN_TENSOR_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the BLAS takes these sizes, which count in 32 bits. Builders of operators refuse what does not fit. */
bool gemm_fits(int64_t m, int64_t n, int64_t k);

/* op(A) is m x k, op(B) is k x n, C is m x n, within gemm_fits. lda, ldb, ldc: distance of rows as stored. beta 0:
 * C is not read. C overlaps neither A nor B. */
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#endif
