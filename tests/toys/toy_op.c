/* An operator in one file: "center", y = x - mean of each column: the mean of the batch in training, otherwise the
 * buffer `mean`, which each update moves half of the way to the batch's. `updates` counts them. */
#include "toys.h"

#include <string.h>

#include "ops/parallel.h"

static void column_means(const tape_value *x, float *mean)
{
    const int64_t rows = op_rows(x), width = op_width(x);
    memset(mean, 0, (size_t)width * sizeof *mean);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            mean[i] += x->data[r * width + i] / (float)rows;
}

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *running = n->in[1], *updates = n->in[2];
    const int64_t width = op_width(x);
    const float *mean = running->data;
    if (run->training) {
        column_means(x, run->scratch);
        mean = run->scratch;
    }
    for (int64_t i = 0; i < x->count; i++)
        n->out->data[i] = x->data[i] - mean[i % width];
    if (!run->update_buffers)
        return;
    for (int64_t i = 0; i < width; i++)
        running->data[i] += (mean[i] - running->data[i]) / 2;
    updates->data[0] += 1;
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value dy = {.ndim = n->out->ndim,
                           .shape = {n->out->shape[0], n->out->shape[1]},
                           .count = n->out->count,
                           .data = n->out->grad};
    const int64_t width = op_width(&dy);
    column_means(&dy, run->scratch);
    for (int64_t i = 0; i < dy.count && n->needs_grad[0]; i++)
        op_put(n->accumulate[0], n->in[0]->grad + i, dy.data[i] - run->scratch[i % width]);
}

static size_t scratch(const tape_node *n, int threads)
{
    (void)threads;
    return (size_t)op_width(n->in[0]);
}

static const tape_op center_row = {.name = "center", .forward = forward, .backward = backward, .scratch = scratch};

tape_value *toy_center(tape *t, tape_value *x, tape_value *mean, tape_value *updates)
{
    if (!x || !mean || !updates)
        return NULL;
    return op_record(t, &(tape_node){.op = &center_row, .in = {x, mean, updates}});
}
