/* y = gain * z + shift with z = r (x - mean), r = 1/sqrt(var + eps), over rows.
 *
 *     dx = r (dz - mean(dz) - z mean(dz z)),  dz = gain * dy;    dgain = sum over rows of dy * z,  dshift: of dy
 *
 * Saved: mean and r of each row. The sums over rows are taken in a fixed number of parts, each by one thread, which
 * are then added in order: they do not depend on the number of threads. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

enum { parts = 32 };

/* half: y rounded to bfloat16, or NULL; y may be NULL then. */
SCN_CLONES static void forward_rows(int64_t rows, int64_t width, double eps, const float *x, const float *gain,
                                    const float *shift, float *y, uint16_t *half, float *saved)
{
    for (int64_t k = 0; k < rows; k++, x += width) {
        float sum = 0, squares = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t i = 0; i < width; i++)
            sum += x[i];
        const float mean = sum / (float)width;
        SCN_SIMD_SUM(squares)
        for (int64_t i = 0; i < width; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        const float r = (float)(1 / sqrt((double)squares / (double)width + eps));
        if (half) {
            SCN_SIMD
            for (int64_t i = 0; i < width; i++)
                half[k * width + i] =
                    (uint16_t)(scn_bf16_nearest(gain[i] * (r * (x[i] - mean)) + (shift ? shift[i] : 0)) >> 16);
        }
        if (y) {
            SCN_SIMD
            for (int64_t i = 0; i < width; i++)
                y[k * width + i] = gain[i] * (r * (x[i] - mean)) + (shift ? shift[i] : 0);
        }
        if (saved) {
            saved[2 * k] = mean;
            saved[2 * k + 1] = r;
        }
    }
}

static void forward(const tape_node *n, const tape_run *run)
{
    const int64_t width = op_width(n->out);
    const float *shift = n->in[2] ? n->in[2]->data : NULL;
    float *y = n->out->data;
    uint16_t *half = n->out->half;
    OP_PIECES(run->threads, op_rows(n->out), width, first, rows,
              forward_rows(rows, width, n->reals[0], n->in[0]->data + first * width, n->in[1]->data, shift,
                           y ? y + first * width : NULL, half ? half + first * width : NULL,
                           n->saved ? n->saved + 2 * first : NULL));
}

/* dgain and dshift are this part's sums; dx may be NULL. */
SCN_INLINE void backward_loop(bool accumulate, int64_t rows, int64_t width, const float *x, const float *gain,
                              const float *dy, const float *saved, float *dx, float *dgain, float *dshift)
{
    for (int64_t k = 0; k < rows; k++, x += width, dy += width) {
        const float mean = saved[2 * k], r = saved[2 * k + 1];
        float sum = 0, along = 0;
        SCN_SIMD_SUM(sum, along)
        for (int64_t i = 0; i < width; i++) {
            const float z = r * (x[i] - mean), dz = gain[i] * dy[i];
            sum += dz;
            along += dz * z;
            dgain[i] += dy[i] * z;
            dshift[i] += dy[i];
        }
        const float a = sum / (float)width, b = along / (float)width;
        float *to = dx ? dx + k * width : NULL;
        if (!to)
            continue;
        SCN_SIMD
        for (int64_t i = 0; i < width; i++)
            op_put(accumulate, to + i, r * (gain[i] * dy[i] - a - b * (r * (x[i] - mean))));
    }
}

SCN_CLONES static void backward_rows(int64_t rows, int64_t width, const float *x, const float *gain, const float *dy,
                                     const float *saved, bool accumulate, float *dx, float *dgain, float *dshift)
{
    OP_WITH_FLAG(accumulate, backward_loop, rows, width, x, gain, dy, saved, dx, dgain, dshift);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const int64_t rows = op_rows(n->out), width = op_width(n->out), step = (rows + parts - 1) / parts;
    const int threads = op_split(run->threads, rows, width).threads;
    float *dx = n->needs_grad[0] ? n->in[0]->grad : NULL, *sums = run->scratch;
    memset(sums, 0, (size_t)(parts * 2 * width) * sizeof *sums);
    SCN_PARALLEL_FOR_STATIC(threads, i, parts) {
        const int64_t first = i * step, count = rows - first < step ? rows - first : step;
        if (count > 0)
            backward_rows(count, width, n->in[0]->data + first * width, n->in[1]->data, n->out->grad + first * width,
                          n->saved + 2 * first, n->accumulate[0], dx ? dx + first * width : NULL,
                          sums + i * 2 * width, sums + i * 2 * width + width);
    }
    /* a part is a row of 2 width: add them all into the first */
    op_sum_rows(1, parts, 2 * width, 1, sums, 0, sums);
    if (n->needs_grad[1])
        op_scale(1, width, 1, sums, n->accumulate[1], n->in[1]->grad);
    if (n->in[2] && n->needs_grad[2])
        op_scale(1, width, 1, sums + width, n->accumulate[2], n->in[2]->grad);
}

static size_t saved(const tape_node *n)
{
    return (size_t)(2 * op_rows(n->out));
}

static size_t scratch(const tape_node *n, int threads)
{
    (void)threads;
    return (size_t)(parts * 2 * op_width(n->out));
}

const tape_op op_layernorm_row = {
    .name = "layernorm",
    .forward = forward,
    .backward = backward,
    .saved = saved,
    .scratch = scratch,
    .backward_reads = 1 << 0 | 1 << 1,
    .half_out = true,
    .in_place = true,
};

tape_value *op_layernorm(tape *t, tape_value *x, tape_value *gain, tape_value *shift, double eps)
{
    if (!x || !gain)
        return NULL;
    if (gain->count != op_width(x) || (shift && shift->count != op_width(x)))
        return tape_fail(t, "layernorm: %s and its shift must have as many elements as the rows they scale, %lld",
                         gain->name, (long long)op_width(x));
    return op_record(t, &(tape_node){.op = &op_layernorm_row, .in = {x, gain, shift}, .reals = {eps}});
}
