/* y = x w' + bias.
 *
 *     dx = dy w,   dw = dy' x,   dbias = sum of the rows of dy
 *
 * x (N, C_in), w (C_out, C_in), y (N, C_out): three matrix products. The bias is put into y before the product,
 * which then adds to it: no further pass over y. dw goes straight into the parameter's gradient. */
#include "ops/ops.h"

#include "ops/parallel.h"
#include "tensor/gemm.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    const int64_t rows = op_rows(x), c_in = op_width(x), c_out = w->shape[0];
    if (bias)
        op_fill_rows(run->threads, rows, c_out, bias->data, n->out->data);
    gemm(false, true, rows, c_out, c_in, 1, x->data, c_in, w->data, c_in, bias ? 1 : 0, n->out->data, c_out);
}

static void backward(const tape_node *n, const tape_run *run)
{
    tape_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    const int64_t rows = op_rows(x), c_in = op_width(x), c_out = w->shape[0];
    const float *dy = n->out->grad;
    if (n->needs_grad[0])
        gemm(false, false, rows, c_in, c_out, 1, dy, c_out, w->data, c_in, n->accumulate[0], x->grad, c_in);
    if (n->needs_grad[1])
        gemm(true, false, c_out, c_in, rows, 1, dy, c_out, x->data, c_in, n->accumulate[1], w->grad, c_in);
    if (bias && n->needs_grad[2])
        op_sum_rows(run->threads, rows, c_out, 1, dy, n->accumulate[2], bias->grad);
}

static double flops(const tape_node *n)
{
    return 2.0 * (double)n->in[0]->count * (double)n->in[1]->shape[0];
}

const tape_op op_linear_row = {
    .name = "linear",
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .matrix = 1,
    .backward_reads = 1 << 0 | 1 << 1,
};

tape_value *op_linear(tape *t, tape_value *x, tape_value *w, tape_value *bias)
{
    if (!x || !w)
        return NULL;
    if (w->ndim != 2 || w->shape[1] != op_width(x)) {
        tape_fail(t, "linear: %s has rows of %lld and does not fit to inputs of width %lld", w->name,
                  (long long)op_width(w), (long long)op_width(x));
        return NULL;
    }
    if (!gemm_fits(op_rows(x), w->shape[0], w->shape[1])) {
        tape_fail(t, "linear: %lld rows by %s (%lld x %lld) is too large for the BLAS", (long long)op_rows(x),
                  w->name, (long long)w->shape[0], (long long)w->shape[1]);
        return NULL;
    }
    if (bias && bias->count != w->shape[0]) {
        tape_fail(t, "linear: bias %s has %lld elements, %s has %lld rows", bias->name, (long long)bias->count,
                  w->name, (long long)w->shape[0]);
        return NULL;
    }
    tape_value *const in[] = {x, w, bias};
    return op_result(op_record(t, &op_linear_row, x, w->shape[0], in, 3));
}
