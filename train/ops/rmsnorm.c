/* y = r x with r = 1/sqrt(mean(x^2) + eps) over runs of `width` elements: a row, or a head of a row (QK-norm).
 *
 *     dx = r (dy - y mean(dy y))
 *
 * which needs y and r but not x, so y may take x's place. Saved: r of each run. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

/* half: y rounded to bfloat16, or NULL; y may be NULL then. */
SCN_CLONES static void forward_runs(int64_t runs, int64_t width, double eps, const float *x, float *y, uint16_t *half,
                                    float *saved)
{
    for (int64_t k = 0; k < runs; k++, x += width) {
        float sum = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t i = 0; i < width; i++)
            sum += x[i] * x[i];
        const float r = (float)(1 / sqrt((double)sum / (double)width + eps));
        if (half) {
            SCN_SIMD
            for (int64_t i = 0; i < width; i++)
                half[k * width + i] = (uint16_t)(scn_bf16_nearest(r * x[i]) >> 16);
        }
        if (y) {
            SCN_SIMD
            for (int64_t i = 0; i < width; i++)
                y[k * width + i] = r * x[i];
        }
        if (saved)
            saved[k] = r;
    }
}

SCN_INLINE void backward_loop(bool accumulate, int64_t runs, int64_t width, const float *y, const float *dy,
                              const float *saved, float *dx)
{
    for (int64_t k = 0; k < runs; k++, y += width, dy += width, dx += width) {
        const float r = saved[k];
        float sum = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t i = 0; i < width; i++)
            sum += dy[i] * y[i];
        const float mean = sum / (float)width;
        SCN_SIMD
        for (int64_t i = 0; i < width; i++)
            op_put(accumulate, dx + i, r * (dy[i] - mean * y[i]));
    }
}

SCN_CLONES static void backward_runs(int64_t runs, int64_t width, const float *y, const float *dy, const float *saved,
                                     bool accumulate, float *dx)
{
    OP_WITH_FLAG(accumulate, backward_loop, runs, width, y, dy, saved, dx);
}

static void forward(const tape_node *n, const tape_run *run)
{
    const int64_t width = n->ints[0];
    const float *x = n->in[0]->data;
    float *y = n->out->data;
    uint16_t *half = n->out->half;
    OP_PIECES(run->threads, n->out->count / width, width, first, runs,
              forward_runs(runs, width, n->reals[0], x + first * width, y ? y + first * width : NULL,
                           half ? half + first * width : NULL, n->saved ? n->saved + first : NULL));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const int64_t width = n->ints[0];
    const float *y = n->out->data, *dy = n->out->grad;
    float *dx = n->in[0]->grad;
    if (n->needs_grad[0])
        OP_PIECES(run->threads, n->out->count / width, width, first, runs,
                  backward_runs(runs, width, y + first * width, dy + first * width, n->saved + first,
                                n->accumulate[0], dx + first * width));
}

static size_t saved(const tape_node *n)
{
    return (size_t)(n->out->count / n->ints[0]);
}

const tape_op op_rmsnorm_row = {
    .name = "rmsnorm",
    .forward = forward,
    .backward = backward,
    .saved = saved,
    .backward_reads = TAPE_READS_OUT,
    .half_out = true,
    .in_place = true,
};

tape_value *op_rmsnorm(tape *t, tape_value *x, int64_t width, double eps)
{
    if (!x)
        return NULL;
    if (width < 1 || op_width(x) % width != 0)
        return tape_fail(t, "rmsnorm: rows of %lld cannot be cut into runs of %lld", (long long)op_width(x),
                         (long long)width);
    return op_record(t, &(tape_node){.op = &op_rmsnorm_row, .in = {x}, .ints = {width}, .reals = {eps}});
}
