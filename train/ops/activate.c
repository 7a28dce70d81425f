/* y = f(x), f a row of activation.h;  dx = dy f'(x). */
#include "ops/ops.h"

#include "ops/rows.h"
#include "ops/table.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const float *x = n->in[0]->data;
    float *y = n->out->data;
    const op_pieces p = op_split(run->threads, n->out->count, 1);
    OP_PARALLEL_FOR(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        activation_forward(n->fixed, op_piece_rows(&p, i), x + i * p.step, y + i * p.step);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const float *x = n->in[0]->data, *dy = n->out->grad;
    float *dx = n->in[0]->grad;
    const op_pieces p = op_split(run->threads, n->out->count, 1);
    if (!n->wants[0])
        return;
    OP_PARALLEL_FOR(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        activation_backward(n->fixed, op_piece_rows(&p, i), x + i * p.step, dy + i * p.step, n->keep[0],
                            dx + i * p.step);
}

const tape_op op_activation_row = {
    .name = "activation",
    .forward = forward,
    .backward = backward,
    .backward_reads = 1 << 0,
    .in_place = true,
};

tape_value *op_activation(tape *t, tape_value *x, const activation *f)
{
    if (!x)
        return NULL;
    if (!f) {
        tape_fail(t, "activation: there is no such function");
        return NULL;
    }
    tape_value *const in[] = {x};
    tape_node *n = op_record(t, &op_activation_row, x, op_width(x), in, 1);
    if (n)
        n->fixed = f;
    return op_result(n);
}
