/* Attention of new positions over a cache of the keys and values of all positions so far:
 *
 *     y = softmax(q K' / sqrt(D)) V,   K and V those of positions 0 .. position
 *
 * Each sequence and head has its keys in one run of memory and its values in another, position by position: writing a
 * token reads both once, from beginning to end, and takes as long as the memory takes. Many new positions of one
 * sequence (a prompt) go in blocks, as in op_attention: K' is laid out once for a head. */
#include <math.h>

#include "base/thread.h"
#include "generate/step.h"
#include "ops/vectorise.h"
#include "product/kernel.h"
#include "product/transpose.h"
#include "util/fail.h"

enum { max_queries = 48 }; /* of a block */

static int64_t head_size(const tape_node *n)
{
    return n->ints[0];
}

static int64_t heads_of(const tape_node *n)
{
    return n->out->shape[n->out->ndim - 1] / n->ints[0];
}

static scion_status check(const tape_node *n, scion_error *err)
{
    return n->ints[1] ? SCION_OK : train_fail(err, SCION_EINVAL, "attention that sees what follows");
}

static size_t cache(const tape_node *n, int64_t context)
{
    return 2 * (size_t)(context * n->out->shape[n->out->ndim - 1]);
}

/* Keys of a head of a sequence; its values follow `context` keys later. Both steps of a node have the same cache. */
static float *keys_of(const generator_step *s, const step_memory *m, int64_t sequence, int64_t head)
{
    return m->cache + (size_t)sequence * m->cache_floats + s->at + (size_t)(head * 2 * m->context * s->unit);
}

static void run_store(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts)
{
    const int64_t D = s->unit, heads = s->width / D, cells = r->count * heads;
    const float *k = step_data(m, r, s->node[0]->in[1]), *v = step_data(m, r, s->node[0]->in[2]);
    for (int64_t i = step_share(cells, 1, part, parts); i < step_share(cells, 1, part + 1, parts); i++) {
        const int64_t row = r->first + i / heads;
        float *to = keys_of(s, m, r->sequence[row], i % heads) + r->position[row] * D;
        memcpy(to, k + i * D, (size_t)D * sizeof *to);
        memcpy(to + m->context * D, v + i * D, (size_t)D * sizeof *to);
    }
}

const step_form step_attention_store = {
    .division = STEP_CELLS, .check = check, .unit = head_size, .cache = cache, .run = run_store};

/* ---- Few queries ---------------------------------------------------------------------------------------------- */

/* scores = scale q . each of n keys, four at a time. */
SCN_CLONES static void score_keys(int64_t n, int64_t D, float scale, const float *q, const float *keys, float *scores)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4, keys += 4 * D) {
        float a = 0, b = 0, c = 0, d = 0;
        SCN_SIMD_SUM(a, b, c, d)
        for (int64_t i = 0; i < D; i++) {
            a += q[i] * keys[i];
            b += q[i] * keys[D + i];
            c += q[i] * keys[2 * D + i];
            d += q[i] * keys[3 * D + i];
        }
        scores[j] = scale * a;
        scores[j + 1] = scale * b;
        scores[j + 2] = scale * c;
        scores[j + 3] = scale * d;
    }
    for (; j < n; j++, keys += D) {
        float a = 0;
        SCN_SIMD_SUM(a)
        for (int64_t i = 0; i < D; i++)
            a += q[i] * keys[i];
        scores[j] = scale * a;
    }
}

SCN_CLONES static double exp_scores(int64_t n, float *scores)
{
    return op_row_exp(n, op_row_max(n, scores), scores);
}

/* y = factor times the sum of n values by their weights, four at a time. */
SCN_CLONES static void mix_values(int64_t n, int64_t D, float factor, const float *weights, const float *values,
                                  float *y)
{
    int64_t j = 0;
    memset(y, 0, (size_t)D * sizeof *y);
    for (; j + 4 <= n; j += 4, values += 4 * D) {
        const float a = weights[j], b = weights[j + 1], c = weights[j + 2], d = weights[j + 3];
        SCN_SIMD
        for (int64_t i = 0; i < D; i++)
            y[i] += (a * values[i] + b * values[D + i]) + (c * values[2 * D + i] + d * values[3 * D + i]);
    }
    for (; j < n; j++, values += D) {
        SCN_SIMD
        for (int64_t i = 0; i < D; i++)
            y[i] += weights[j] * values[i];
    }
    SCN_SIMD
    for (int64_t i = 0; i < D; i++)
        y[i] *= factor;
}

static void run_read(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts)
{
    const int64_t D = s->unit, heads = s->width / D, cells = r->count * heads;
    const float *q = step_data(m, r, s->node[0]->in[0]), scale = (float)(1 / sqrt((double)D));
    float *y = step_data(m, r, s->node[0]->out), *scores = m->scratch + (size_t)part * m->scratch_floats;
    for (int64_t i = step_share(cells, 1, part, parts); i < step_share(cells, 1, part + 1, parts); i++) {
        const int64_t row = r->first + i / heads, n = r->position[row] + 1;
        const float *keys = keys_of(s, m, r->sequence[row], i % heads);
        score_keys(n, D, scale, q + i * D, keys, scores);
        const double sum = exp_scores(n, scores);
        mix_values(n, D, (float)(1 / sum), scores, keys + m->context * D, y + i * D);
    }
}

/* ---- Many queries of one sequence ----------------------------------------------------------------------------- */

static int64_t columns(int64_t keys)
{
    return (keys + SCN_VECTOR - 1) / SCN_VECTOR * SCN_VECTOR;
}

/* Floats between the rows of K' and of a block of scores: not a power of two. */
static int64_t stride_of(int64_t context)
{
    return columns(context) + SCN_VECTOR;
}

/* K' and a block of scores; or the scores of one query. */
static size_t scratch(const tape_node *n, const step_memory *m)
{
    return (size_t)((n->ints[0] + max_queries) * stride_of(m->context));
}

/* Each row sees one key more than the row before it; the first sees `seen`. Rows end at a whole vector, and are zero
 * from there to `keys`. factor: one over the sum of each row. */
SCN_CLONES static void exp_block(int64_t rows, int64_t seen, int64_t keys, int64_t stride, float *s, float *factor)
{
    for (int64_t i = 0; i < rows; i++, s += stride) {
        const int64_t limit = seen + i, end = (limit + SCN_VECTOR - 1) / SCN_VECTOR * SCN_VECTOR;
        for (int64_t j = limit; j < end; j++)
            s[j] = -INFINITY;
        const float top = op_row_max(end, s);
        factor[i] = (float)(1 / op_row_exp(end, top, s));
        for (int64_t j = end; j < keys; j++)
            s[j] = 0;
    }
}

SCN_CLONES static void scale_block(int64_t rows, int64_t D, int64_t stride, const float *factor, float *y)
{
    for (int64_t i = 0; i < rows; i++, y += stride) {
        SCN_SIMD
        for (int64_t j = 0; j < D; j++)
            y[j] *= factor[i];
    }
}

static void read_head(const generator_step *s, const step_memory *m, const step_rows *r, int64_t head)
{
    enum { chunk = 16 };
    const scn_kernel *kernel = scn_kernel_for(SCION_F32);
    const int64_t D = s->unit, C = s->width, ld = stride_of(m->context), past = r->position[r->first];
    const int64_t all = past + r->count;
    const float *keys = keys_of(s, m, r->sequence[r->first], head), *values = keys + m->context * D;
    const float *q = step_data(m, r, s->node[0]->in[0]) + head * D;
    float *y = step_data(m, r, s->node[0]->out) + head * D, factor[max_queries];
    float *k = m->scratch + (size_t)scn_thread_index() * m->scratch_floats, *p = k + D * ld;
    for (int64_t t = 0; t < all; t += chunk)
        scn_transpose(k + t, ld, keys + t * D, D, all - t < chunk ? all - t : chunk, D);
    for (int64_t i = 0; i < D; i++)
        memset(k + i * ld + all, 0, (size_t)(columns(all) - all) * sizeof *k);
    for (int64_t i = 0; i < r->count; i += max_queries) {
        const int64_t rows = r->count - i < max_queries ? r->count - i : max_queries, seen = past + i + rows;
        kernel->small(rows, columns(seen), D, (float)(1 / sqrt((double)D)), q + i * C, C, 1, k, ld, 0, p, ld);
        exp_block(rows, past + i + 1, seen, ld, p, factor);
        kernel->small(rows, D, seen, 1, p, ld, 1, values, D, 0, y + i * C, C);
        scale_block(rows, D, C, factor, y + i * C);
    }
}

static void run_read_many(const generator_step *s, const step_memory *m, const step_rows *r)
{
    SCN_PARALLEL(m->threads, head, heads_of(s->node[0]), read_head(s, m, r, head));
}

const step_form step_attention_read = {.division = STEP_CELLS,
                                       .other_rows = true,
                                       .check = check,
                                       .unit = head_size,
                                       .scratch = scratch,
                                       .run = run_read,
                                       .run_many = run_read_many};
