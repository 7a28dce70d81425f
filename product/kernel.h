/* The innermost products, for one instruction set each.
 *
 * kernel_isa.c has the source of all of them; kernel.c chooses by CPU. To add an instruction set: a line in
 * cmake/library.cmake (its compiler flags), its tile sizes in kernel_isa.c, and a row in kernel.c. */
#ifndef SCN_KERNEL_H
#define SCN_KERNEL_H

#include <stdint.h>

enum {
    SCN_KERNEL_MAX_TILE = 256, /* mr * nr of every kernel is at most this */
    SCN_VECTOR = 16,           /* a multiple of vl of every kernel */
    SCN_TILE_GAP = 2,          /* see block */
};

typedef struct scn_kernel {
    const char *name;
    int64_t mr, nr; /* rows and columns of a tile; panels (product.h) are nr wide, and mr divides nr */
    /* Operands in panels: c[i*nr + j] (+)= sum over p < k of a[p*nr + i] * b[p*nr + j] for i < mr, j < nr;
     * + if accumulate. */
    void (*tile)(int64_t k, const float *a, const float *b, float *c, int accumulate);
    /* Operands where they are: C (+)= alpha A B with A m x k, B k x n, C m x n. Element (i, p) of A is
     * a[i*a_row + p*a_col], so that A may be stored transposed; rows of B and C are contiguous. For blocks of tens of
     * rows by a few hundred columns, as attention has: packing them first would cost more than it saves. Fast where
     * n is a multiple of SCN_VECTOR. */
    void (*small)(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                  const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc);
    /* The same with B in strips of block_nr columns, `b_strip` floats apart, the last of them as wide as whole
     * vectors of vl floats need; in a strip row follows row. Rows of A lie lda apart; lda < 0: A is packed in tiles
     * of block_mr rows, in which column follows column; tiles begin -lda columns apart, SCN_TILE_GAP more than they
     * have (else all tiles would begin in the same set of the cache). */
    int64_t vl, block_mr, block_nr;
    void (*block)(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                  int64_t b_strip, int accumulate, float *c, int64_t ldc);
    /* Packs `depth` rows of `cols` columns, rows ld apart, into strips of block_nr columns that begin `stride` floats
     * apart, as above; or (tiles) into tiles of block_mr columns, as above, of which the last is filled with
     * zeros. */
    void (*pack_rows)(int tiles, float *out, int64_t stride, const float *from, int64_t ld, int64_t depth,
                      int64_t cols);
    /* Packs one strip of `width` columns from a transposed matrix: column j of it is from[j*ld ..], `depth` elements,
     * for j < cols; the others are zero. */
    void (*pack_columns)(float *out, int64_t width, const float *from, int64_t ld, int64_t depth, int64_t cols);
    /* Multiply-adds on registers alone, `rounds` times: the limit of the arithmetic, to measure others by. Returns
     * the number of operations, a multiply-add counted as two. */
    double (*registers)(int64_t rounds);
} scn_kernel;

/* The i-th kernel that this CPU can run, fastest first; NULL past the last. */
const scn_kernel *scn_kernel_at(int i);

/* The kernel of that name, if this CPU can run it; else (or with NULL) the fastest. */
const scn_kernel *scn_kernel_named(const char *name);

/* The one to use: the fastest, or what the environment variable SCION_ISA names (avx512, avx2, portable). CPU and
 * environment are asked once in a process: the answer does not change. */
const scn_kernel *scn_kernel_best(void);

#endif
