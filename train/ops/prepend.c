/* y_b = (token, x_b): a learned row before those of each sample, as the class token of a vision transformer.
 *
 *     dx_b = dy_b without its first row,   dtoken = sum of the first rows
 *
 * which is taken in the order of the samples, by one thread: it is one row of each. */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *token = n->in[1];
    const int64_t own = x->count / x->shape[0], width = token->count;
    for (int64_t b = 0; b < x->shape[0]; b++)
        memcpy(n->out->data + b * (own + width), token->data, (size_t)width * sizeof(float));
    OP_ROWS(run->threads, x->shape[0], own, b,
            memcpy(n->out->data + b * (own + width) + width, x->data + b * own, (size_t)own * sizeof(float)));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *token = n->in[1];
    const int64_t batch = x->shape[0], own = x->count / batch, width = token->count;
    if (n->needs_grad[0])
        OP_ROWS(run->threads, batch, own, b,
                op_scale(1, own, 1, n->out->grad + b * (own + width) + width, n->accumulate[0], x->grad + b * own));
    if (!n->needs_grad[1])
        return;
    if (!n->accumulate[1])
        memset(token->grad, 0, (size_t)width * sizeof(float));
    for (int64_t b = 0; b < batch; b++)
        op_add_to(width, n->out->grad + b * (own + width), token->grad);
}

const tape_op op_prepend_row = {.name = "prepend", .forward = forward, .backward = backward};

tape_value *op_prepend(tape *t, tape_value *x, tape_value *token)
{
    if (!x || !token)
        return NULL;
    if (x->ndim != 3 || token->count != op_width(x))
        return tape_fail(
            t, "prepend: %s has %lld elements, expected as many as the rows of %s, %lld, of shape (B, T, C)",
            token->name, (long long)token->count, x->name, (long long)op_width(x));
    return tape_record(t, &(tape_node){.op = &op_prepend_row, .in = {x, token}}, 3,
                       (const int64_t[]){x->shape[0], x->shape[1] + 1, x->shape[2]});
}
