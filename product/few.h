/* A matrix times few vectors: few_isa.c. */
#ifndef SCN_FEW_H
#define SCN_FEW_H

#include "product/kernel.h"

/* Y (+)= X W' by the calling thread, with X m x k float32, few rows, and W n x k float32 or bfloat16, read once and
 * where it is: the time is that of reading W. The bits of an element of Y depend on k and on its rows of X and W
 * alone, and on the instruction set. Y overlaps neither. */
typedef void scn_few(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const void *w, scion_dtype type,
                     int64_t ldw, int accumulate, float *y, int64_t ldy);

/* For the instruction set of a float32 kernel. */
scn_few *scn_few_of(const scn_kernel *kernel);

#endif
