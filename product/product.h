/* Matrix products in panels.
 *
 * This folder: kernel_isa.c computes tiles and is compiled for each instruction set; kernel.c chooses among them.
 * product.c has the loops around a tile for operands in panels: packing, blocks for the cache, threads, and the
 * treatment of a finished tile; the library's spectral lmo and QR use it. gemm.c has those for row-major operands of
 * float32 or bfloat16; the program's layers use it, its convolution calls the kernel's pack and multiply, its
 * attention kernel->small on operands where they are. transpose.h and matrix.h serve all. Nothing here allocates:
 * memory comes from an arena that was planned by the same calls, or from the caller. Nothing here has state: an
 * engine is a kernel, a number of threads and their scratch.
 *
 * A matrix in panels has its columns cut into strips of panel_nr columns, the width of the kernel's tile; in a strip,
 * row follows row (of words: kr rows); the last strip is padded with zero columns. Both operands of C = A'B can then
 * be read by the kernel as they are: nothing is packed again between the products of an iteration. That suits the
 * spectral lmo, whose products are mostly of symmetric matrices (A' = A): the result of one is an operand of the
 * next, only one triangle of it is computed, and the mirror image is written by the tile that was computed.
 *
 * Why our own kernel: no CBLAS call computes one triangle of a product of two different matrices, and cutting the
 * triangle into panels of sgemm costs 25 to 35 % (docs/numerics.md has the measurements). A tile is always computed
 * in the same order, so results do not depend on the number of threads.
 *
 * Additions:
 *   - work on a finished tile (a bias, an activation, a rounding to another type): a field of `emitter`, its code in
 *     emit_panels or emit_matrix, and a function here that sets it. The tile is in the first-level cache there, and
 *     the sum is complete.
 *   - operands of another type: the kernel's `in` and `kr`. put_rows, get_rows and put_mirrored convert between
 *     float32 and its words; all other code moves words.
 *   - a product whose operand is used many times (weights of a linear layer): keep its scn_panels and pack once.
 *   - the division of a result for threads and caches: cut_of, and the sizes at the top of product.c.
 *   - another instruction set: kernel.h says how. */
#ifndef SCN_PRODUCT_H
#define SCN_PRODUCT_H

#include <stdbool.h>

#include "base/memory.h"
#include "product/kernel.h"
#include "product/matrix.h"

typedef struct scn_panels {
    float *at; /* word (i, j) is at[(j / nr) * words * nr + i * nr + j % nr], i < words, nr = panel_nr */
    int64_t rows, cols;
} scn_panels;

/* The means of a product: kernel, threads, and a block of memory for each thread. */
typedef struct scn_engine {
    const scn_kernel *kernel;
    int threads;
    float *scratch; /* one block of a result for each thread */
} scn_engine;

/* Takes memory for an engine of `threads` from the arena. */
scn_engine scn_engine_take(scn_arena *arena, const scn_kernel *kernel, int threads);

/* Takes memory for a rows x cols matrix in panels from the arena. */
scn_panels scn_panels_take(scn_arena *arena, const scn_kernel *kernel, int64_t rows, int64_t cols);

/* The strips of a matrix, and one of them as a matrix, without its padding, if words are float32. */
int64_t scn_panels_strips(const scn_engine *e, scn_panels p);
scn_mat scn_panels_strip(const scn_engine *e, scn_panels p, int64_t i);

/* Columns from `col` on (a multiple of panel_nr), beginning at row `row` (a multiple of kr): scn_pack may fill
 * them. */
scn_panels scn_panels_part(const scn_engine *e, scn_panels p, int64_t row, int64_t col, int64_t cols);

/* A factor as a power of two times a number near one, so that factors beyond float32's range can be
 * applied, and so that scaling the input by a power of two changes no bit of the result. */
typedef struct scn_factor {
    float power, rest;
} scn_factor;

scn_factor scn_factor_of(double value);

/* to = f * from, or with `transpose` to = f * from'. */
void scn_pack(const scn_engine *e, scn_panels to, scn_mat from, bool transpose, scn_factor f);

/* C = alpha A'B + beta D + gamma I, C symmetric: only one triangle is computed. D may be NULL. C must not
 * overlap A, B or D. */
void scn_product_symmetric(const scn_engine *e, scn_panels c, double alpha, scn_panels a, scn_panels b, double beta,
                           const scn_panels *d, double gamma);

/* C = A'B in panels, and C' in panels too unless transposed.at is NULL. B may have more rows than A: only as
 * many as A has take part. */
void scn_product_both(const scn_engine *e, scn_panels c, scn_panels transposed, scn_panels a, scn_panels b);

/* w = beta w + alpha A'B, or with `transposed` w = beta w + alpha (A'B)'. beta = 0 does not read w. */
void scn_product_into(const scn_engine *e, scn_mat w, double beta, double alpha, scn_panels a, scn_panels b,
                      bool transposed);

#endif
