/* Work on the rows of a value, shared among threads.
 *
 * Rows are cut into pieces whose size does not depend on the number of threads, and sums over rows are taken piece by
 * piece in a fixed order: results do not depend on the number of threads. */
#ifndef TRAIN_OPS_PARALLEL_H
#define TRAIN_OPS_PARALLEL_H

#include "base/arith.h"
#include "base/thread.h"
#include "ops/vectorise.h"
#include "product/gemm.h"
#include "tensor/tape.h"

/* Length and number of a value's rows. */
static inline int64_t op_width(const tape_value *v)
{
    return v->ndim > 0 ? v->shape[v->ndim - 1] : 1;
}

static inline int64_t op_rows(const tape_value *v)
{
    return v->count / op_width(v);
}

/* Piece i has rows i*step .. i*step + op_piece_rows(i) - 1. */
typedef struct op_pieces {
    int64_t rows, step, count;
    int threads;
} op_pieces;

static inline op_pieces op_split(int threads, int64_t rows, int64_t width)
{
    const int64_t piece = 1 << 14; /* elements: about the second-level cache's share of three arrays */
    op_pieces p = {.rows = rows, .step = width < piece ? piece / width : 1};
    p.count = (rows + p.step - 1) / p.step;
    /* waking threads takes longer than two pieces do */
    p.threads = p.count <= 2 || threads < 1 ? 1 : p.count < threads ? (int)p.count : threads;
    return p;
}

static inline int64_t op_piece_rows(const op_pieces *p, int64_t i)
{
    const int64_t left = p->rows - i * p->step;
    return left < p->step ? left : p->step;
}

/* OP_PIECES(max_threads, rows, width, first, n, call(..., first, n, ...)) makes the call once for each piece: n rows
 * from row `first` on. OP_ROWS(max_threads, rows, width, r, call(..., r, ...)) makes it once for each row. */
#define OP_PIECES(max_threads, rows, width, first, n, ...)                                    \
    do {                                                                                      \
        const op_pieces pieces_ = op_split(max_threads, rows, width);                         \
        SCN_PARALLEL_FOR_STATIC(pieces_.threads, piece_, pieces_.count) {                     \
            const int64_t first = piece_ * pieces_.step, n = op_piece_rows(&pieces_, piece_); \
            __VA_ARGS__;                                                                      \
        }                                                                                     \
    } while (0)
#define OP_ROWS(max_threads, rows, width, r, ...) \
    OP_PIECES(max_threads, rows, width, first_, n_, for (int64_t r = first_; r < first_ + n_; r++) __VA_ARGS__)

/* Type and address of an operand of products that is a value: a parameter as it is stored, a result as the plan has
 * it, rounded or not. */
static inline scion_dtype op_operand_type(const tape_value *v)
{
    return v->has_half ? SCION_BF16 : v->kind == TAPE_PARAM ? v->weight_type : SCION_F32;
}

static inline const void *op_operand(const tape_value *v, int64_t first)
{
    const scion_dtype type = op_operand_type(v);
    const char *at = type == SCION_BF16 ? (const char *)v->half : (const char *)v->data;
    return at ? at + scn_stored_bytes(type, first) : NULL;
}

/* C = alpha op(A) op(B) or C + that (product/gemm.h), arrays dense unless lda says otherwise. `workspace` has
 * op_product_floats floats. */
typedef struct op_product {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    const void *a, *b;
    void *c;
    int64_t lda; /* distance of A's rows as stored, in elements; 0: dense */
    scion_dtype a_type, b_type, c_type, compute;
    scn_rounding rounding; /* of a bfloat16 C */
    bool accumulate;
    float alpha;        /* 0 means 1 */
    const float *bias;  /* added to every row of C while it is in the cache; NULL: none */
    uint16_t *half;     /* takes C rounded to bfloat16 too; NULL: not wanted */
    float *packed;      /* op_packed_floats floats for B in packed form, or NULL */
    bool packed_before; /* ... filled by an earlier product */
} op_product;

/* Rounding of what the node adds to a bfloat16 gradient; part: how often it has added to it in this pass. */
scn_rounding op_rounding(const tape_node *n, const tape_run *run, int64_t part);

size_t op_product_floats(const op_product *p, int threads);
/* 0: packing does not help this product. */
size_t op_packed_floats(const op_product *p, int threads);
void op_multiply(const op_product *p, int threads, float *workspace);

/* The products of a layer y = x w' + bias, a node whose first inputs are x, w and bias (or NULL), for `rows` rows
 * from `first` on: y, dx = dy w and dw = dy' x. y and dy begin at that row. If the node computes in bfloat16, dy is
 * rounded in its place (op_round_rows) before dx and dw. */
typedef struct op_layer {
    op_product y, dx, dw;
} op_layer;
op_layer op_layer_products(const tape_node *n, int64_t first, int64_t rows, float *y, const float *dy);

/* Rounds each row of x (rows x cols) to bfloat16 in the first half of its own memory: rows are then 2 cols apart. */
void op_round_rows(int threads, int64_t rows, int64_t cols, float *x);
/* One row, by the calling thread. */
void op_round_row(int64_t n, float *x);

/* y = a + b for n elements, by the calling thread; y may be a or b. */
void op_sum(int64_t n, const float *a, const float *b, float *y);
static inline void op_add_to(int64_t n, const float *x, float *y)
{
    op_sum(n, x, y, y);
}

/* sums = factor * sum of the rows of x (rows x cols), or sums += that. */
void op_sum_rows(int threads, int64_t rows, int64_t cols, float factor, const float *x, bool accumulate, float *sums);

/* z = factor x for n elements, or z += that. */
void op_scale(int threads, int64_t n, float factor, const float *x, bool accumulate, float *z);

#endif
