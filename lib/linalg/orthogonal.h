/* Random semi-orthogonal matrices: the boundary initialisation of the spectral norm. */
#ifndef SCN_ORTHOGONAL_H
#define SCN_ORTHOGONAL_H

#include "product/product.h"

typedef struct scn_orthogonal_work {
    scn_engine engine;
    float *rows;                           /* m x n, the short side first */
    scn_panels wide, tall, block, overlap; /* the rows so far both ways; the block transposed; its overlap */
} scn_orthogonal_work;

scn_orthogonal_work scn_orthogonal_work_take(scn_arena *arena, int64_t rows, int64_t cols, const scn_kernel *kernel,
                                             int threads);

/* Q sign(diag R) of the QR decomposition of a Gaussian matrix: work->rows becomes m x n with orthonormal
 * rows, distributed uniformly (Haar). */
void scn_orthogonal(const scn_orthogonal_work *work, uint64_t seed, uint64_t stream);

#endif
