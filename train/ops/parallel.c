/* See parallel.h. */
#include "ops/parallel.h"

#include "base/random.h"

scn_rounding op_rounding(const tape_node *n, const tape_run *run, int64_t part)
{
    const uint64_t stream = scn_stream_addition(run->step, run->sample, n->out->index, part);
    return run->round_nearest ? (scn_rounding){false, 0} : scn_rounding_by(run->seed, stream);
}

static scn_gemm plan_product(const op_product *p, int threads)
{
    const scn_gemm_shape shape = {.m = p->m,
                                  .n = p->n,
                                  .k = p->k,
                                  .transpose_a = p->transpose_a,
                                  .transpose_b = p->transpose_b,
                                  .a = p->a_type,
                                  .b = p->b_type,
                                  .c = p->c_type,
                                  .compute = p->compute};
    scn_gemm g = scn_gemm_plan(&shape, threads);
    g.rounding = p->rounding;
    return g;
}

size_t op_product_floats(const op_product *p, int threads)
{
    const scn_gemm g = plan_product(p, threads);
    return scn_gemm_floats(&g);
}

size_t op_packed_floats(const op_product *p, int threads)
{
    const scn_gemm g = plan_product(p, threads);
    return (scn_gemm_packed_floats(&g) + 15) / 16 * 16;
}

static void finish(const scn_gemm_epilogue *e, int64_t row, int64_t col, int64_t cols, float *c)
{
    const op_product *p = e->context;
    if (p->bias)
        op_add_to(cols, p->bias + col, c);
    if (p->half)
        scn_to_bf16(cols, c, p->half + row * p->n + col);
}

void op_multiply(const op_product *p, int threads, float *workspace)
{
    const scn_gemm_epilogue epilogue = {finish, p};
    const scn_gemm g = plan_product(p, threads);
    const int64_t lda = p->lda > 0 ? p->lda : p->transpose_a ? p->m : p->k, ldb = p->transpose_b ? p->k : p->n;
    const bool packed = p->packed && scn_gemm_packed_floats(&g) > 0;
    if (packed && !p->packed_before)
        scn_gemm_pack(&g, p->b, ldb, p->packed);
    scn_gemm_run(&g, p->a, lda, packed ? p->packed : p->b, packed ? 0 : ldb, p->alpha != 0 ? p->alpha : 1,
                 p->accumulate, p->c, p->n, p->bias || p->half ? &epilogue : NULL, workspace);
}

op_layer op_layer_products(const tape_node *n, int64_t first, int64_t rows, float *y, const float *dy)
{
    const tape_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    const int64_t c_in = w->shape[1], c_out = w->shape[0], at = first * c_in;
    const bool rounded = n->compute == SCION_BF16;
    return (op_layer){
        .y = {.m = rows,
              .n = c_out,
              .k = c_in,
              .transpose_b = true,
              .a = op_operand(x, at),
              .a_type = op_operand_type(x),
              .b = op_operand(w, 0),
              .b_type = op_operand_type(w),
              .compute = n->compute,
              .c = y,
              .bias = bias ? bias->data : NULL},
        .dx = {.m = rows,
               .n = c_in,
               .k = c_out,
               .a = dy,
               .a_type = n->compute,
               .lda = rounded ? 2 * c_out : c_out,
               .b = op_operand(w, 0),
               .b_type = op_operand_type(w),
               .compute = n->compute,
               .c = x->grad ? x->grad + at : NULL,
               .accumulate = n->accumulate[0]},
        .dw = {.m = c_out,
               .n = c_in,
               .k = rows,
               .transpose_a = true,
               .a = dy,
               .a_type = n->compute,
               .lda = rounded ? 2 * c_out : c_out,
               .b = op_operand(x, at),
               .b_type = op_operand_type(x),
               .compute = n->compute,
               .c = tape_grads(w),
               .c_type = w->grad_type,
               .accumulate = n->accumulate[1]},
    };
}

void op_round_row(int64_t n, float *x)
{
    enum { at_once = 1024 };
    uint16_t rounded[at_once];
    for (int64_t i = 0; i < n; i += at_once) {
        const int64_t count = scn_min(at_once, n - i);
        scn_to_bf16(count, x + i, rounded);
        memcpy((uint16_t *)(void *)x + i, rounded, (size_t)count * sizeof *rounded);
    }
}

void op_round_rows(int threads, int64_t rows, int64_t cols, float *x)
{
    OP_ROWS(threads, rows, cols, r, op_round_row(cols, x + r * cols));
}

SCN_CLONES static void sum(int64_t n, const float *a, const float *b, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void op_sum(int64_t n, const float *a, const float *b, float *y)
{
    sum(n, a, b, y);
}

/* Columns per iteration: wide enough to read whole cache lines, and the sums stay in registers. */
enum { columns_at_once = 64 };

/* Sums eight rows before adding them to the total: shorter chains, smaller errors. */
SCN_CLONES static void add_columns(int64_t rows, int64_t cols, int64_t stride, float factor, const float *x,
                                   bool accumulate, float *sums)
{
    float total[columns_at_once] = {0};
    for (int64_t r = 0; r < rows; r += 8) {
        const int64_t end = r + 8 < rows ? r + 8 : rows;
        float part[columns_at_once] = {0};
        for (int64_t i = r; i < end; i++) {
            SCN_SIMD
            for (int64_t j = 0; j < cols; j++)
                part[j] += x[i * stride + j];
        }
        SCN_SIMD
        for (int64_t j = 0; j < cols; j++)
            total[j] += part[j];
    }
    for (int64_t j = 0; j < cols; j++)
        sums[j] = (accumulate ? sums[j] : 0) + factor * total[j];
}

void op_sum_rows(int threads, int64_t rows, int64_t cols, float factor, const float *x, bool accumulate, float *sums)
{
    const int64_t blocks = (cols + columns_at_once - 1) / columns_at_once;
    if (op_split(threads, rows, cols).threads == 1)
        threads = 1;
    SCN_PARALLEL_FOR_STATIC(threads, i, blocks) {
        const int64_t first = i * columns_at_once;
        const int64_t width = cols - first < columns_at_once ? cols - first : columns_at_once;
        add_columns(rows, width, cols, factor, x + first, accumulate, sums + first);
    }
}

SCN_INLINE void scale_loop(bool accumulate, int64_t n, float factor, const float *x, float *z)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        op_put(accumulate, z + i, factor * x[i]);
}

SCN_CLONES static void scale(int64_t n, float factor, const float *x, bool accumulate, float *z)
{
    OP_WITH_FLAG(accumulate, scale_loop, n, factor, x, z);
}

void op_scale(int threads, int64_t n, float factor, const float *x, bool accumulate, float *z)
{
    OP_PIECES(threads, n, 1, at, count, scale(count, factor, x + at, accumulate, z + at));
}
