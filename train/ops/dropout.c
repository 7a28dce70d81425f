/* y = mask x,  dx = mask dy;  an element of the mask is 0 with probability `rate`, else 1/(1 - rate) (Srivastava et
 * al., 2014); in evaluation it is 1.
 *
 * Random numbers are 16 bits each, eight in one block of the generator: element e of sample s (counted over the whole
 * run) is dropped if bits 16 (e mod 8) of block s ceil(E/8) + e/8 of the result's stream, E elements in a sample, are
 * below 2^16 rate. So the mask is the same whenever it is asked for, and is not kept for the backward pass. */
#include "ops/ops.h"

#include <math.h>

#include "base/random.h"
#include "ops/parallel.h"

enum { lanes = 8, levels = 1 << 16, chunk = 1024 }; /* elements that are treated at a time, of one sample */

typedef struct mask {
    uint64_t seed, stream;
    uint32_t limit; /* numbers below it drop */
    float factor;   /* of what stays */
} mask;

static mask mask_of(const tape_node *n, const tape_run *run)
{
    const int64_t limit = llround(n->reals[0] * levels);
    return (mask){run->seed, scn_stream_dropped(n->out->index), (uint32_t)limit,
                  (float)levels / (float)(levels - limit)};
}

/* `count` elements from the first of a block on. */
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

/* y = mask x, or y + that. */
static void apply(const tape_node *n, const tape_run *run, const float *x, bool accumulate, float *y)
{
    const mask m = mask_of(n, run);
    const int64_t batch = n->out->shape[0], own = n->out->count / batch;
    const int64_t chunks = (own + chunk - 1) / chunk, blocks = (own + lanes - 1) / lanes;
    const op_pieces p = op_split(run->threads, batch * chunks, chunk);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t k = i * p.step; k < i * p.step + op_piece_rows(&p, i); k++) {
            const int64_t b = k / chunks, first = k % chunks * chunk, at = b * own + first;
            const int64_t count = own - first < chunk ? own - first : chunk;
            float own_mask[chunk];
            draw(&m, (uint64_t)((run->sample + b) * blocks + first / lanes), count, own_mask);
            multiply_by(count, own_mask, x + at, accumulate, y + at);
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

const tape_op op_dropout_row = {.name = "dropout", .forward = forward, .backward = backward, .in_place = true};

tape_value *op_dropout(tape *t, tape_value *x, double rate)
{
    if (!x)
        return NULL;
    if (x->ndim < 1 || !(rate >= 0 && llround(rate * levels) < levels)) {
        tape_fail(t, "dropout: rate is %g, expected 0 to less than 1", rate);
        return NULL;
    }
    tape_value *const in[] = {x};
    tape_node *n = tape_record(t, &op_dropout_row, x->ndim, x->shape, in, 1);
    if (n)
        n->reals[0] = rate;
    return op_result(n);
}
