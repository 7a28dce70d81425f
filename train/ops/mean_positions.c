/* y_b = mean of the T rows of sample b;   dx_bt = dy_b / T. */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t T = x->shape[1], width = op_width(x);
    OP_ROWS(run->threads, x->shape[0], T * width, b,
            op_sum_rows(1, T, width, 1 / (float)T, x->data + b * T * width, false, n->out->data + b * width));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t T = x->shape[1], width = op_width(x);
    if (n->needs_grad[0])
        OP_ROWS(
            run->threads, op_rows(x), width, r,
            op_scale(1, width, 1 / (float)T, n->out->grad + r / T * width, n->accumulate[0], x->grad + r * width));
}

const tape_op op_mean_positions_row = {.name = "mean_positions", .forward = forward, .backward = backward};

tape_value *op_mean_positions(tape *t, tape_value *x)
{
    if (!x)
        return NULL;
    if (x->ndim != 3)
        return tape_fail(t, "mean_positions: %s has %d dimensions, expected (B, T, C)", x->name, x->ndim);
    return tape_record(t, &(tape_node){.op = &op_mean_positions_row, .in = {x}}, 2,
                       (const int64_t[]){x->shape[0], x->shape[2]});
}
