/* Body of a kernel: included once by each kernel_*.c, which defines
 *     SCN_VL  floats in a vector register
 *     SCN_MR  rows of the tile
 *     SCN_NV  vectors in a row of the tile
 * The tile lives in MR*NV accumulators; for each p, NV loads of b and MR broadcasts of a feed MR*NV fused
 * multiply-adds. All loops but the one over p unroll. Built for an instruction set by compiler flags of
 * the file (GCC lowers vector types before it inlines, so a target attribute would come too late). */
#include "product/kernel.h"

enum { nr = SCN_NV * SCN_VL };

typedef float vec __attribute__((vector_size(SCN_VL * 4), aligned(SCN_VL * 4), may_alias));

static void tile(int64_t k, const float *a, const float *b, float *c, int accumulate)
{
    vec r[SCN_MR][SCN_NV] = {{{0}}};
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; p++) {
        vec row[SCN_NV];
#pragma GCC unroll 8
        for (int j = 0; j < SCN_NV; j++)
            row[j] = *(const vec *)(b + p * nr + j * SCN_VL);
#pragma GCC unroll 16
        for (int i = 0; i < SCN_MR; i++)
#pragma GCC unroll 8
            for (int j = 0; j < SCN_NV; j++)
                r[i][j] += a[p * nr + i] * row[j];
    }
#pragma GCC unroll 16
    for (int i = 0; i < SCN_MR; i++)
#pragma GCC unroll 8
        for (int j = 0; j < SCN_NV; j++) {
            vec *to = (vec *)(c + i * nr + j * SCN_VL);
            if (accumulate)
                r[i][j] += *to;
            *to = r[i][j];
        }
}
