/* The innermost products, for one instruction set each.
 *
 * kernel_isa.c has the source of all of them; kernel.c chooses by CPU. To add an instruction set: a line in
 * cmake/library.cmake (its compiler flags), its tile sizes in kernel_isa.c, and a row in kernel.c. */
#ifndef SCN_KERNEL_H
#define SCN_KERNEL_H

#include <stdint.h>

enum {
    SCN_KERNEL_MAX_TILE = 256, /* mr * nr of every kernel is at most this */
    SCN_SMALL_COLUMNS = 16,    /* small products have a multiple of this many columns */
};

typedef struct scn_kernel {
    const char *name;
    int64_t mr, nr; /* rows and columns of a tile; panels (product.h) are nr wide, and mr divides nr */
    /* Operands in panels: c[i*nr + j] (+)= sum over p < k of a[p*nr + i] * b[p*nr + j] for i < mr, j < nr;
     * + if accumulate. */
    void (*tile)(int64_t k, const float *a, const float *b, float *c, int accumulate);
    /* Operands where they are: C (+)= alpha A B with A m x k, B k x n, C m x n. Element (i, p) of A is
     * a[i*a_row + p*a_col], so that A may be stored transposed; rows of B and C are contiguous. n is a multiple of
     * SCN_SMALL_COLUMNS. For blocks of tens of rows by a few hundred columns, as attention has: packing them first
     * would cost more than it saves. */
    void (*small)(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                  const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc);
} scn_kernel;

/* The i-th kernel that this CPU can run, fastest first; NULL past the last. */
const scn_kernel *scn_kernel_at(int i);

/* The kernel of that name, if this CPU can run it; else (or with NULL) the fastest. */
const scn_kernel *scn_kernel_named(const char *name);

/* The one to use: the fastest, or what the environment variable SCION_ISA names (avx512, avx2, portable). Ask once
 * per optimizer or operator and keep the answer. */
const scn_kernel *scn_kernel_best(void);

#endif
