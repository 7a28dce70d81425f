/* Stochastic depth (Huang et al., 2016), for the branch of a residual network: y_b = m_b x_b,  dx_b = m_b dy_b, where
 * m_b is 0 with probability `rate`, else 1/(1 - rate); in evaluation it is 1. m_b is decided by number s of the
 * result's stream, s the number of sample b counted over the whole run. */
#include "ops/ops.h"

#include "base/random.h"
#include "ops/parallel.h"

/* y = m x, or y + that. */
static void apply(const tape_node *n, const tape_run *run, const float *x, bool accumulate, float *y)
{
    const uint64_t stream = scn_stream_dropped(n->out->index);
    const int64_t batch = n->out->shape[0], own = n->out->count / batch;
    const op_pieces p = op_split(run->threads, batch, own);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++) {
            const bool kept = scn_uniform(run->seed, stream, (uint64_t)(run->sample + b)) >= n->reals[0];
            if (kept)
                op_scale(1, own, (float)(1 / (1 - n->reals[0])), x + b * own, accumulate, y + b * own);
            else if (!accumulate)
                memset(y + b * own, 0, (size_t)own * sizeof *y);
        }
}

static void forward(const tape_node *n, const tape_run *run)
{
    if (run->training)
        apply(n, run, n->in[0]->data, false, n->out->data);
    else if (n->out->data != n->in[0]->data)
        op_scale(run->threads, n->out->count, 1, n->in[0]->data, false, n->out->data);
}

static void backward(const tape_node *n, const tape_run *run)
{
    if (n->needs_grad[0])
        apply(n, run, n->out->grad, n->accumulate[0], n->in[0]->grad);
}

const tape_op op_drop_samples_row = {
    .name = "drop_samples",
    .forward = forward,
    .backward = backward,
    .in_place = true,
};

tape_value *op_drop_samples(tape *t, tape_value *x, double rate)
{
    if (!x)
        return NULL;
    if (x->ndim < 1 || !(rate >= 0 && rate < 1)) {
        tape_fail(t, "drop_samples: rate is %g, expected 0 to less than 1", rate);
        return NULL;
    }
    tape_value *const in[] = {x};
    tape_node *n = tape_record(t, &op_drop_samples_row, x->ndim, x->shape, in, 1);
    if (n)
        n->reals[0] = rate;
    return op_result(n);
}
