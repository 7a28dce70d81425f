/* y = factor x;  dx = factor dy. */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    op_scale(run->threads, n->out->count, (float)n->reals[0], n->in[0]->data, false, n->out->data);
}

static void backward(const tape_node *n, const tape_run *run)
{
    if (n->needs_grad[0])
        op_scale(run->threads, n->out->count, (float)n->reals[0], n->out->grad, n->accumulate[0], n->in[0]->grad);
}

const tape_op op_factor_row = {.name = "factor", .forward = forward, .backward = backward, .in_place = true};

tape_value *op_factor(tape *t, tape_value *x, double factor)
{
    return x ? op_record(t, &(tape_node){.op = &op_factor_row, .in = {x}, .reals = {factor}}) : NULL;
}
