/* loss = mean of (x - target)^2 over all elements;  dx = 2 (x - target)/count.
 *
 * Sums: float32 over pieces of fixed size, double over the pieces, in order. */
#include "ops/ops.h"

#include "ops/parallel.h"

SCN_CLONES static float squares(int64_t n, const float *x, const float *y)
{
    float sum = 0;
    SCN_SIMD_SUM(sum)
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum;
}

SCN_CLONES static void slope(int64_t n, float factor, const float *x, const float *y, bool accumulate, float *dx)
{
    if (!accumulate) {
        SCN_SIMD
        for (int64_t i = 0; i < n; i++)
            dx[i] = factor * (x[i] - y[i]);
    } else {
        SCN_SIMD
        for (int64_t i = 0; i < n; i++)
            dx[i] += factor * (x[i] - y[i]);
    }
}

static void forward(const tape_node *n, const tape_run *run)
{
    const float *x = n->in[0]->data, *y = n->in[1]->data;
    const op_pieces p = op_split(run->threads, n->in[0]->count, 1);
    double sum = 0;
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        run->scratch[i] = squares(op_piece_rows(&p, i), x + i * p.step, y + i * p.step);
    for (int64_t i = 0; i < p.count; i++)
        sum += (double)run->scratch[i];
    n->out->data[0] = (float)(sum / (double)n->in[0]->count);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const float *x = n->in[0]->data, *y = n->in[1]->data;
    const float factor = 2 * n->out->grad[0] / (float)n->in[0]->count;
    const op_pieces p = op_split(run->threads, n->in[0]->count, 1);
    if (!n->needs_grad[0])
        return;
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        slope(op_piece_rows(&p, i), factor, x + i * p.step, y + i * p.step, n->accumulate[0],
              n->in[0]->grad + i * p.step);
}

static size_t scratch(const tape_node *n, int threads)
{
    return (size_t)op_split(threads, n->in[0]->count, 1).count;
}

const tape_op op_mse_row = {
    .name = "mse",
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .backward_reads = 1 << 0 | 1 << 1,
};

tape_value *op_mse(tape *t, tape_value *x, tape_value *target)
{
    if (!x || !target)
        return NULL;
    if (target->kind != TAPE_FLOATS || x->count != target->count) {
        tape_fail(t, "mse: %lld elements against %lld of the target, which must be an input of floats",
                  (long long)x->count, (long long)target->count);
        return NULL;
    }
    tape_value *const in[] = {x, target};
    return op_result(tape_record(t, &op_mse_row, 1, (const int64_t[]){1}, in, 2));
}
