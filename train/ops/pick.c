/* y_b = row `position` of sample b: the class token, say.
 *
 *     dx_b is dy_b in that row and zero in the others */
#include "ops/ops.h"

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t width = op_width(x), sample = x->shape[1] * width;
    (void)run;
    for (int64_t b = 0; b < x->shape[0]; b++)
        memcpy(n->out->data + b * width, x->data + b * sample + n->ints[0] * width, (size_t)width * sizeof(float));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0];
    const int64_t width = op_width(x), sample = x->shape[1] * width;
    const op_pieces p = op_split(run->threads, x->shape[0], n->accumulate[0] ? width : sample);
    if (!n->needs_grad[0])
        return;
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++) {
            if (!n->accumulate[0])
                memset(x->grad + b * sample, 0, (size_t)sample * sizeof(float));
            op_add_to(width, n->out->grad + b * width, x->grad + b * sample + n->ints[0] * width);
        }
}

const tape_op op_pick_row = {.name = "pick", .forward = forward, .backward = backward};

tape_value *op_pick(tape *t, tape_value *x, int64_t position)
{
    if (!x)
        return NULL;
    if (x->ndim != 3 || position < 0 || position >= x->shape[1]) {
        tape_fail(t, "pick: there is no position %lld in %s, expected a shape (B, T, C) that has it",
                  (long long)position, x->name);
        return NULL;
    }
    tape_value *const in[] = {x};
    const int64_t shape[] = {x->shape[0], x->shape[2]};
    tape_node *n = tape_record(t, &op_pick_row, 2, shape, in, 1);
    if (n)
        n->ints[0] = position;
    return op_result(n);
}
