/* y = a + b;  da = dy,  db = dy. */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const float *a = n->in[0]->data, *b = n->in[1]->data;
    float *y = n->out->data;
    OP_PIECES(run->threads, n->out->count, 1, at, count, op_sum(count, a + at, b + at, y + at));
}

/* One input after the other, because they may be the same value. */
static void backward(const tape_node *n, const tape_run *run)
{
    for (int i = 0; i < 2; i++)
        if (n->needs_grad[i])
            op_scale(run->threads, n->out->count, 1, n->out->grad, n->accumulate[i], n->in[i]->grad);
}

const tape_op op_add_row = {.name = "add", .forward = forward, .backward = backward, .in_place = true};

tape_value *op_add(tape *t, tape_value *a, tape_value *b)
{
    if (!a || !b)
        return NULL;
    if (a->count != b->count || op_width(a) != op_width(b))
        return tape_fail(t, "add: rows of %lld and %lld elements, or different numbers of rows",
                         (long long)op_width(a), (long long)op_width(b));
    return op_record(t, &(tape_node){.op = &op_add_row, .in = {a, b}});
}
