/* y = x w' + bias.
 *
 *     dx = dy w,   dw = dy' x,   dbias = sum of the rows of dy
 *
 * x (N, C_in), w (C_out, C_in), y (N, C_out): three matrix products. The bias is added to rows of y while they are
 * in the cache. dw goes straight into the parameter's gradient. w and dw may be bfloat16: w is converted as it is
 * packed, a strip at a time, and dw is summed in float32 and rounded once. Where the plan has the memory, w is
 * packed once for all micro-batches of a step, for y and for dx.
 *
 * Computed in bfloat16, w is rounded as it is packed, x before (the plan has it so), and dy once, in its own place,
 * for dx and dw; dbias is the sum of what dy was. */
#include "ops/ops.h"

#include "ops/parallel.h"

/* All rows. y as bfloat16 goes there at once, or is rounded as soon as its rows are complete. */
static op_layer products_of(const tape_node *n)
{
    const tape_value *y = n->out;
    op_layer p = op_layer_products(n, 0, op_rows(n->in[0]), y->data, y->grad);
    if (y->half_only) {
        p.y.c = y->half;
        p.y.c_type = SCION_BF16;
    } else {
        p.y.half = y->half;
    }
    return p;
}

/* With w packed where possible, for y, then for dx. */
static op_layer packed_products(const tape_node *n, const tape_run *run)
{
    op_layer p = products_of(n);
    p.y.packed = n->packed;
    p.dx.packed = n->packed ? n->packed + op_packed_floats(&p.y, run->threads) : NULL;
    p.y.packed_before = p.dx.packed_before = run->same_weights;
    return p;
}

static void forward(const tape_node *n, const tape_run *run)
{
    const op_layer p = packed_products(n, run);
    op_multiply(&p.y, run->threads, run->scratch);
}

static void backward(const tape_node *n, const tape_run *run)
{
    op_layer p = packed_products(n, run);
    const tape_value *bias = n->in[2];
    p.dw.rounding = op_rounding(n, run, 0);
    if (bias && n->needs_grad[2])
        op_sum_rows(run->threads, p.y.m, p.y.n, 1, n->out->grad, n->accumulate[2], bias->grad);
    if (n->compute == SCION_BF16)
        op_round_rows(run->threads, p.y.m, p.y.n, n->out->grad);
    if (n->needs_grad[0])
        op_multiply(&p.dx, run->threads, run->scratch);
    if (n->needs_grad[1])
        op_multiply(&p.dw, run->threads, run->scratch);
}

static size_t scratch(const tape_node *n, int threads)
{
    const op_layer p = products_of(n);
    size_t floats = op_product_floats(&p.y, threads);
    if (n->needs_grad[0])
        floats = scn_max_size(floats, op_product_floats(&p.dx, threads));
    if (n->needs_grad[1])
        floats = scn_max_size(floats, op_product_floats(&p.dw, threads));
    return floats;
}

/* Only a parameter stays the same from run to run. */
static size_t packed(const tape_node *n, int threads)
{
    const op_layer p = products_of(n);
    if (n->in[1]->kind != TAPE_PARAM)
        return 0;
    return op_packed_floats(&p.y, threads) + (n->needs_grad[0] ? op_packed_floats(&p.dx, threads) : 0);
}

static double flops(const tape_node *n)
{
    return 2.0 * (double)n->in[0]->count * (double)n->in[1]->shape[0];
}

const tape_op op_linear_row = {
    .name = "linear",
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .packed = packed,
    .flops = flops,
    .half_params = 1 << 1,
    .matrix = 1,
    .backward_reads = 1 << 0 | 1 << 1,
    .operands = 1 << 0 | 1 << 1,
    .half_out = true,
};

tape_value *op_linear(tape *t, tape_value *x, tape_value *w, tape_value *bias)
{
    if (!x || !w)
        return NULL;
    if (w->ndim != 2 || w->shape[1] != op_width(x))
        return tape_fail(t, "linear: %s has rows of %lld, expected %lld, the width of the inputs", w->name,
                         (long long)op_width(w), (long long)op_width(x));
    if (bias && bias->count != w->shape[0])
        return tape_fail(t, "linear: bias %s has %lld elements, %s has %lld rows", bias->name, (long long)bias->count,
                         w->name, (long long)w->shape[0]);
    int64_t shape[TAPE_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = w->shape[0];
    return tape_record(t, &(tape_node){.op = &op_linear_row, .in = {x, w, bias}}, x->ndim, shape);
}
