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
    const op_pieces p = op_split(run->threads, x->shape[0], own + width);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++) {
            float *y = n->out->data + b * (own + width);
            memcpy(y, token->data, (size_t)width * sizeof *y);
            memcpy(y + width, x->data + b * own, (size_t)own * sizeof *y);
        }
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *token = n->in[1];
    const int64_t batch = x->shape[0], own = x->count / batch, width = token->count;
    const op_pieces p = op_split(run->threads, batch, own + width);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; n->needs_grad[0] && b < i * p.step + op_piece_rows(&p, i); b++)
            op_scale(1, own, 1, n->out->grad + b * (own + width) + width, n->accumulate[0], x->grad + b * own);
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
    if (x->ndim != 3 || token->count != op_width(x)) {
        tape_fail(t, "prepend: %s has %lld elements, expected as many as the rows of %s, %lld, of shape (B, T, C)",
                  token->name, (long long)token->count, x->name, (long long)op_width(x));
        return NULL;
    }
    tape_value *const in[] = {x, token};
    const int64_t shape[] = {x->shape[0], x->shape[1] + 1, x->shape[2]};
    return op_result(tape_record(t, &op_prepend_row, 3, shape, in, 2));
}
