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
    if (!n->needs_grad[0])
        return;
    if (!n->accumulate[0])
        OP_ROWS(run->threads, x->shape[0], sample, b,
                memset(x->grad + b * sample, 0, (size_t)sample * sizeof(float)));
    OP_ROWS(run->threads, x->shape[0], width, b,
            op_add_to(width, n->out->grad + b * width, x->grad + b * sample + n->ints[0] * width));
}

const tape_op op_pick_row = {.name = "pick", .forward = forward, .backward = backward};

tape_value *op_pick(tape *t, tape_value *x, int64_t position)
{
    if (!x)
        return NULL;
    if (x->ndim != 3 || position < 0 || position >= x->shape[1])
        return tape_fail(t, "pick: there is no position %lld in %s, expected a shape (B, T, C) that has it",
                         (long long)position, x->name);
    return tape_record(t, &(tape_node){.op = &op_pick_row, .in = {x}, .ints = {position}}, 2,
                       (const int64_t[]){x->shape[0], x->shape[2]});
}
