/* y_b = mean of the T rows of sample b;   dx_bt = dy_b / T. */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t T = x->shape[1], width = op_width(x);
    const op_pieces p = op_split(run->threads, x->shape[0], T * width);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++)
            op_sum_rows(1, T, width, 1 / (float)T, x->data + b * T * width, false, n->out->data + b * width);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t T = x->shape[1], width = op_width(x);
    const op_pieces p = op_split(run->threads, op_rows(x), width);
    if (!n->needs_grad[0])
        return;
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t r = i * p.step; r < i * p.step + op_piece_rows(&p, i); r++)
            op_scale(1, width, 1 / (float)T, n->out->grad + r / T * width, n->accumulate[0], x->grad + r * width);
}

const tape_op op_mean_positions_row = {.name = "mean_positions", .forward = forward, .backward = backward};

tape_value *op_mean_positions(tape *t, tape_value *x)
{
    if (!x)
        return NULL;
    if (x->ndim != 3) {
        tape_fail(t, "mean_positions: %s has %d dimensions, expected (B, T, C)", x->name, x->ndim);
        return NULL;
    }
    tape_value *const in[] = {x};
    const int64_t shape[] = {x->shape[0], x->shape[2]};
    return op_result(tape_record(t, &op_mean_positions_row, 2, shape, in, 1));
}
