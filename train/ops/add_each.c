/* y_b = x_b + p for each sample b: learned positions, say.
 *
 *     dx = dy,   dp = sum of dy_b over the samples */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *p = n->in[1];
    const int64_t width = op_width(x), rows = p->count / width; /* of a sample */
    OP_ROWS(run->threads, op_rows(x), width, r,
            op_sum(width, x->data + r * width, p->data + r % rows * width, n->out->data + r * width));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *p = n->in[1];
    if (n->needs_grad[0])
        op_scale(run->threads, n->out->count, 1, n->out->grad, n->accumulate[0], n->in[0]->grad);
    if (n->needs_grad[1])
        op_sum_rows(run->threads, n->out->count / p->count, p->count, 1, n->out->grad, n->accumulate[1], p->grad);
}

const tape_op op_add_each_row = {.name = "add_each", .forward = forward, .backward = backward, .in_place = true};

tape_value *op_add_each(tape *t, tape_value *x, tape_value *p)
{
    if (!x || !p)
        return NULL;
    if (x->ndim < 2 || p->count != x->count / x->shape[0] || op_width(p) != op_width(x))
        return tape_fail(
            t, "add_each: %s has %lld elements, a sample of %s %lld, or the lengths of their rows differ", p->name,
            (long long)p->count, x->name, (long long)(x->ndim > 0 ? x->count / x->shape[0] : 1));
    return op_record(t, &(tape_node){.op = &op_add_each_row, .in = {x, p}});
}
