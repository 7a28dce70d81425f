/* The innermost products: a row for each instruction set and type of operands.
 *
 * A product C = alpha op(A) op(B) goes in three steps. An operand is described as it is stored (scn_operand); the
 * kernel packs it into memory of the caller (scn_packed), in an order that only the kernel knows; then it multiplies
 * what is packed. So a row with other tiles, another type or other instructions changes nobody else.
 *
 * A packed operand consists of words of 32 bits: one float32, or two bfloat16 that follow each other along the depth
 * k of the sum (kr = 2). Sums are float32. kernel_isa.c has the source of all rows; kernel.c chooses by CPU. To add
 * an instruction set: a line in cmake/library.cmake (its compiler flags), its tile sizes in kernel_isa.c, and a row
 * in kernel.c. */
#ifndef SCN_KERNEL_H
#define SCN_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bf16.h"

enum {
    SCN_KERNEL_MAX_TILE = 256, /* panel_mr * panel_nr of every kernel is at most this */
    SCN_KERNEL_MAX_NR = 24,    /* and panel_nr this */
    SCN_VECTOR = 16,           /* a multiple of vl of every kernel */
};

/* A matrix of rows x cols that somebody else owns. */
typedef struct scn_operand {
    const void *at;
    scion_dtype type;
    int64_t rows, cols;
    bool transposed; /* what follow each other in memory are its columns, not its rows */
    int64_t ld;      /* distance of these, in elements */
    int64_t step;    /* distance of the elements of one of them; 0: 1 */
} scn_operand;

/* A part of it. */
static inline scn_operand scn_operand_part(scn_operand o, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const int64_t step = o.step > 0 ? o.step : 1,
                  skip = o.transposed ? col * o.ld + row * step : row * o.ld + col * step;
    o.at = (const char *)o.at + scn_stored_bytes(o.type, skip);
    o.rows = rows;
    o.cols = cols;
    return o;
}

/* op(A) or op(B) as a kernel reads it, or a part of that. Made by scn_packed_of or scn_packed_in_place. */
typedef struct scn_packed {
    void *at;
    int64_t depth, width; /* of the whole: the depth, and the rows of op(A) or the columns of op(B) */
    int64_t first, from;  /* where this part begins: in the depth, and in the rows or columns */
    int64_t ld;           /* > 0: op(A) is read where it is stored, with rows so far apart; 0: it is packed */
} scn_packed;

typedef struct scn_kernel {
    const char *name;
    scion_dtype in; /* operands are rounded to this type */
    int64_t kr;     /* elements of the depth in a word */
    int64_t mr, nr; /* a thread's block should have a multiple of mr rows, and of nr columns unless it is the last */
    int64_t vl;     /* floats in a vector */

    /* Floats of memory for op(A) of m rows, for op(B) of n columns. */
    size_t (*a_floats)(int64_t m, int64_t k);
    size_t (*b_floats)(int64_t n, int64_t k);
    /* True if op(A) can be read where it is. */
    bool (*reads)(const scn_operand *a);
    /* Pack `from`, which becomes the part of the whole that begins where `to` does: at a multiple of kr in the depth,
     * at a multiple of mr in the rows or of nr in the columns. A part whose depth is no multiple of kr ends with
     * zeros up to one: what follows it begins there. */
    void (*pack_a)(const scn_packed *to, const scn_operand *from);
    void (*pack_b)(const scn_packed *to, const scn_operand *from);
    /* C (+)= alpha times the product of m rows of a and n columns of b, over k of the depth. The parts begin as
     * above, and n is a multiple of nr or reaches the last column. */
    void (*multiply)(int64_t m, int64_t n, int64_t k, float alpha, const scn_packed *a, const scn_packed *b,
                     int accumulate, float *c, int64_t ldc);

    /* Operands in panels (product.h), which are panel_nr wide; panel_mr divides that. k counts words:
     * c[i*panel_nr + j] (+)= sum over p < k of a[p*panel_nr + i] * b[p*panel_nr + j], i < panel_mr, j < panel_nr. */
    int64_t panel_mr, panel_nr;
    void (*tile)(int64_t k, const float *a, const float *b, float *c, int accumulate);

    /* float32 operands where they are: C (+)= alpha A B with A m x k, B k x n, C m x n. Element (i, p) of A is
     * a[i*a_row + p*a_col], so that A may be stored transposed; rows of B and C are contiguous. For blocks of tens of
     * rows by a few hundred columns, as attention has: packing them first would cost more than it saves. Fast where
     * n is a multiple of SCN_VECTOR. NULL if kr is not 1. */
    void (*small)(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                  const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc);

    /* Multiply-adds on registers alone, `rounds` times: the limit of the arithmetic, to measure others by. Returns
     * the number of operations, a multiply-add counted as two. */
    double (*limit)(int64_t rounds);
} scn_kernel;

/* Memory at `at` for an operand with that depth, and that many rows of op(A) or columns of op(B). */
static inline scn_packed scn_packed_of(void *at, int64_t depth, int64_t width)
{
    return (scn_packed){.at = at, .depth = depth, .width = width};
}

/* op(A) itself, if kernel->reads it. */
static inline scn_packed scn_packed_in_place(const scn_operand *a)
{
    return (scn_packed){.at = (void *)(uintptr_t)a->at, .depth = a->cols, .width = a->rows, .ld = a->ld};
}

/* The part that begins `first` further in the depth and `from` further in the rows or columns. */
static inline scn_packed scn_packed_part(scn_packed p, int64_t first, int64_t from)
{
    p.first += first;
    p.from += from;
    return p;
}

/* An instruction set. */
typedef struct scn_isa {
    const char *name;
    const scn_kernel *f32,
        *bf16; /* the kernels for operands of float32, and for those that are rounded to bfloat16 */
    enum {
        SCN_ISA_ALWAYS,   /* the fastest of these that the CPU has is used */
        SCN_ISA_BY_TABLE, /* used if the CPU has it and is known to be faster with it (cpu.h) */
        SCN_ISA_BY_NAME,  /* emulates the pairs of another one, for tests: used if SCION_ISA names it */
    } chosen;
} scn_isa;

/* The i-th that this CPU can run; NULL past the last. */
const scn_isa *scn_isa_at(int i);

/* The i-th kernel among them for operands of that type; NULL past the last. */
const scn_kernel *scn_kernel_at(scion_dtype in, int i);

/* The one of that name, if this CPU can run it; else (or with NULL) the fastest for a CPU whose pairs are fast or
 * not. */
const scn_isa *scn_isa_choose(const char *name, bool fast_pairs);

/* The one in use: the fastest, or what the environment variable SCION_ISA names. CPU and environment are asked once
 * in a process: the answer does not change. */
const scn_isa *scn_isa_used(void);

/* Its kernel for a product that computes in float32 or in bfloat16. */
const scn_kernel *scn_kernel_for(scion_dtype compute);

#endif
