/* C = alpha op(A) op(B), or C + that: products of row-major matrices, float32 or bfloat16, summed in float32.
 *
 *     scn_gemm g = scn_gemm_plan(&(scn_gemm_shape){.m = m, .n = n, .k = k, .transpose_b = true}, threads);
 *     float *workspace = ... scn_gemm_floats(&g) floats, aligned to 64 bytes ...
 *     scn_gemm_run(&g, a, lda, b, ldb, 1, false, c, ldc, NULL, workspace);
 *
 * A plan is a few numbers and has no memory of its own: making one is cheap. The order in which an element is summed
 * depends on m, n, k, `compute` and the instruction set, never on the number of threads: results are the same bits
 * with any. */
#ifndef SCN_GEMM_H
#define SCN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bf16.h"
#include "product/kernel.h"

/* op(A) is m x k, op(B) is k x n, C is m x n. */
typedef struct scn_gemm_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    scion_dtype a, b, c; /* as they are stored */
    scion_dtype
        compute; /* SCION_BF16: elements of A and B are rounded to bfloat16, to nearest, before they are multiplied */
} scn_gemm_shape;

/* Work on a finished piece of a row of C while it is in the cache: columns col .. col + cols - 1. C holds
 * alpha op(A) op(B), plus its old values with accumulate; a bias, an activation, a residual or a second result are
 * computed from it here. Called by several threads, once for each element. */
typedef struct scn_gemm_epilogue {
    void (*row)(const struct scn_gemm_epilogue *e, int64_t row, int64_t col, int64_t cols, float *c);
    const void *context;
} scn_gemm_epilogue;

typedef struct scn_gemm {
    scn_gemm_shape shape;
    const scn_kernel *kernel;
    int threads;
    bool dots;                       /* few rows: B is read where it is */
    bool local;                      /* each block of C packs what it needs of B; else a group is packed for all */
    int64_t depth;                   /* of a pass over a block of C */
    int64_t group_cols, group_depth; /* of B, at a time */
    int64_t slices;                  /* along k in a group, each with a result of its own */
    int64_t block_rows, block_cols;  /* of C, by one thread at a time */
    int64_t max_rows;                /* block_rows with the fewest threads, so that fewer need no more memory */
    scn_rounding rounding;           /* of a bfloat16 C: to nearest, unless the caller sets another */
} scn_gemm;

/* With the kernel of this CPU (kernel.h), for up to `threads` threads. */
scn_gemm scn_gemm_plan(const scn_gemm_shape *shape, int threads);

/* Floats of workspace; fewer threads need no more. */
size_t scn_gemm_floats(const scn_gemm *g);

/* Packs a B that serves many products of one plan. packed_floats: floats that it takes; 0: the plan does not pack B
 * as a whole (few rows, or a B that is packed by blocks). */
size_t scn_gemm_packed_floats(const scn_gemm *g);
void scn_gemm_pack(const scn_gemm *g, const void *b, int64_t ldb, float *packed);

/* lda, ldb, ldc: distance of rows as stored, in elements. ldb = 0: b is what scn_gemm_pack wrote, which changes no
 * bit of C. accumulate: C is added to, else it is not read. C overlaps neither A nor B. epilogue may be NULL. Called
 * inside a parallel region it runs on the calling thread. */
void scn_gemm_run(const scn_gemm *g, const void *a, int64_t lda, const void *b, int64_t ldb, float alpha,
                  bool accumulate, void *c, int64_t ldc, const scn_gemm_epilogue *epilogue, float *workspace);

#endif
