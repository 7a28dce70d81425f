/* C = beta C + alpha op(A) op(B) in row-major float32: the one file of the program that includes cblas.h
 * is gemm.c. Outside a parallel region the BLAS uses its threads, inside one it is single-threaded (the
 * OpenMP flavour of OpenBLAS sees to that by itself). */
#ifndef TRAIN_TENSOR_GEMM_H
#define TRAIN_TENSOR_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* op(A) is m x k, op(B) is k x n, C is m x n, all sizes below 2^31. lda, ldb, ldc: distance of rows as stored.
 * beta 0: C is not read. C overlaps neither A nor B. */
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* If OpenBLAS chose kernels older than this CPU (it does not know models newer than itself, and then falls
 * back to SSE kernels at a quarter of the speed), sets OPENBLAS_CORETYPE and executes the program again, once.
 * A value set by the user is respected. The environment is as before afterwards, so that programs started by
 * this one choose for themselves. Call first thing in main. */
void gemm_best_core(char **argv);

/* Threads of products outside parallel regions from now on. */
void gemm_threads(int threads);

/* "OpenBLAS 0.3.21 SkylakeX", and in brackets who chose the kernels if OpenBLAS did not. Static memory, filled at
 * the first call. */
const char *gemm_library(void);

#endif
