/* Matrix products that are too small for a BLAS: the blocks of attention, tens of rows by a few hundred columns.
 *
 * A BLAS copies its operands into an order of its own first, which pays where each element is used hundreds of
 * times. These read the operands where they are. One thread. */
#ifndef TRAIN_OPS_TILE_H
#define TRAIN_OPS_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum { OP_TILE_COLUMNS = 16 };

/* C = beta C + alpha op(A) B as gemm.h has it: op(A) m x k, B k x n, C m x n; beta 0 (C is not read) or 1. Fast if n
 * is a multiple of OP_TILE_COLUMNS and the CPU has AVX-512 or AVX2; otherwise gemm does it. */
void op_tile_gemm(bool transpose_a, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* The product for one instruction set; element (i, p) of op(A) is a[i * a_row + p * a_col]. */
typedef void op_tile_product(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row,
                             int64_t a_col, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
op_tile_product op_tile_avx512, op_tile_avx2;

#endif
