/* Dropout of elements and of samples in training: y = mask x,  dx = mask dy. In evaluation the mask is 1. The
 * backward pass computes the same mask again.
 *
 * dropout (Srivastava et al., 2014): an element of the mask is 0 with probability `rate`, else 1/(1 - rate). Random
 * numbers are 16 bits each, eight in one block of the generator: element e of sample s (counted over the whole run)
 * is dropped if bits 16 (e mod 8) of block s ceil(E/8) + e/8 of the result's stream, E elements in a sample, are
 * below 2^16 rate.
 *
 * drop_samples, stochastic depth (Huang et al., 2016), for the branch of a residual network: one such number for each
 * sample, decided by number s of the stream. */
#include "ops/ops.h"

#include <math.h>

#include "base/random.h"
#include "ops/parallel.h"

enum { lanes = 8, levels = 1 << 16, chunk = 1024 }; /* chunk: elements at a time, of one sample */

typedef struct mask {
    uint64_t seed, stream;
    uint32_t limit; /* elements with smaller numbers are dropped */
    float factor;   /* of the others */
} mask;

static mask mask_of(const tape_node *n, const tape_run *run)
{
    const int64_t limit = llround(n->reals[0] * levels);
    return (mask){run->seed, scn_stream_dropped(n->out->index), (uint32_t)limit,
                  (float)levels / (float)(levels - limit)};
}

/* Mask of `count` elements from the first of a block on. */
static void draw(const mask *m, uint64_t block, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i += lanes, block++) {
        const scn_words random = scn_philox(m->seed, m->stream, block);
        for (int64_t k = 0; k < lanes; k++)
            to[i + k] = (random.w[k / 2] >> 16 * (k % 2) & (levels - 1)) < m->limit ? 0 : m->factor;
    }
}

SCN_INLINE void multiply_loop(bool accumulate, int64_t n, const float *a, const float *x, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        op_put(accumulate, y + i, a[i] * x[i]);
}

SCN_CLONES static void multiply_by(int64_t n, const float *a, const float *x, bool accumulate, float *y)
{
    OP_WITH_FLAG(accumulate, multiply_loop, n, a, x, y);
}

/* ---- Entries, and samples: y = mask x, or y + that ---- */

static void drop_entries(const tape_node *n, const tape_run *run, const float *x, bool accumulate, float *y)
{
    const mask m = mask_of(n, run);
    const int64_t batch = n->out->shape[0], own = n->out->count / batch;
    const int64_t chunks = (own + chunk - 1) / chunk, blocks = (own + lanes - 1) / lanes;
    const op_pieces p = op_split(run->threads, batch * chunks, chunk);
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        for (int64_t k = i * p.step; k < i * p.step + op_piece_rows(&p, i); k++) {
            const int64_t b = k / chunks, first = k % chunks * chunk, at = b * own + first;
            const int64_t count = own - first < chunk ? own - first : chunk;
            float own_mask[chunk];
            draw(&m, (uint64_t)((run->sample + b) * blocks + first / lanes), count, own_mask);
            multiply_by(count, own_mask, x + at, accumulate, y + at);
        }
}

static void drop_whole(const tape_node *n, const tape_run *run, const float *x, bool accumulate, float *y)
{
    const uint64_t stream = scn_stream_dropped(n->out->index);
    const int64_t batch = n->out->shape[0], own = n->out->count / batch;
    const op_pieces p = op_split(run->threads, batch, own);
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++) {
            const bool kept = scn_uniform(run->seed, stream, (uint64_t)(run->sample + b)) >= n->reals[0];
            if (kept)
                op_scale(1, own, (float)(1 / (1 - n->reals[0])), x + b * own, accumulate, y + b * own);
            else if (!accumulate)
                memset(y + b * own, 0, (size_t)own * sizeof *y);
        }
}

/* ---- Operators ---- */

/* ints[0]: samples as a whole. */
static void drop(const tape_node *n, const tape_run *run, const float *x, bool accumulate, float *y)
{
    (n->ints[0] ? drop_whole : drop_entries)(n, run, x, accumulate, y);
}

static void forward(const tape_node *n, const tape_run *run)
{
    if (run->training)
        drop(n, run, n->in[0]->data, false, n->out->data);
    else if (n->out->data != n->in[0]->data)
        op_scale(run->threads, n->out->count, 1, n->in[0]->data, false, n->out->data);
}

static void backward(const tape_node *n, const tape_run *run)
{
    if (n->needs_grad[0])
        drop(n, run, n->out->grad, n->accumulate[0], n->in[0]->grad);
}

const tape_op op_dropout_row = {.name = "dropout", .forward = forward, .backward = backward, .in_place = true};
const tape_op op_drop_samples_row = {
    .name = "drop_samples", .forward = forward, .backward = backward, .in_place = true};

static tape_value *record(tape *t, const tape_op *op, tape_value *x, double rate, bool whole)
{
    if (!x)
        return NULL;
    if (x->ndim < 1 || !(rate >= 0 && llround(rate * levels) < levels))
        return tape_fail(t, "%s: rate is %g, expected 0 to less than 1", op->name, rate);
    return op_record(t, &(tape_node){.op = op, .in = {x}, .reals = {rate}, .ints = {whole}});
}

tape_value *op_dropout(tape *t, tape_value *x, double rate)
{
    return record(t, &op_dropout_row, x, rate, false);
}

tape_value *op_drop_samples(tape *t, tape_value *x, double rate)
{
    return record(t, &op_drop_samples_row, x, rate, true);
}
