/* The output layer and the loss in one: logits z = x w' + bias, and the mean over rows of
 *
 *     log(sum_j e^(z_j)) - (1-s) z_target - s mean_j(z_j)
 *
 * which is the cross-entropy of softmax(z) against (1-s) one-hot + s/V. Rows with a negative target do not count.
 * A target of V or more makes the loss NaN.
 *
 *     dz = (softmax(z) - (1-s) one-hot - s/V) / rows,    dx = dz w,   dw = dz' x,   dbias = sum of the rows of dz
 *
 * Soft targets put weights u_j in the place of the one-hot vector. With U their sum, usually 1, a row's loss is
 *
 *     ((1-s) U + s) log(sum_j e^(z_j)) - (1-s) sum_j u_j z_j - s mean_j(z_j)
 *
 * z of all rows would be the largest array of the program. It exists for a chunk of rows at a time, and
 * forward_backward computes the gradients while it is there: backward would have to compute z again.
 *
 * Computed in bfloat16, x and w are rounded, and dz once, row by row in its own place, before dx and dw; loss and
 * dbias take the z and dz of float32.
 *
 * The result has three elements: the loss, the number of rows whose largest logit (the first of equals) is the
 * target's, and the number of rows that count. Row losses are summed in double, in order. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

/* Logits per chunk: 50 MB, 256 rows of GPT-2's. dw is read and written once per chunk, 300 MB for GPT-2, which would
 * cost time with smaller chunks. The node's ints[0] holds the number, so that tests can make it smaller. */
enum { chunk_elements = 256 * 50304, chunk_rows_min = 16 };

static int64_t chunk_rows(const tape_node *n)
{
    const int64_t rows = op_rows(n->in[0]), fit = n->ints[0] / n->in[1]->shape[0];
    const int64_t chunk = fit < chunk_rows_min ? chunk_rows_min : fit;
    return chunk < rows ? chunk : rows;
}

/* Logits, losses and hits of a chunk. */
static size_t chunk_floats(const tape_node *n)
{
    return ((size_t)(chunk_rows(n) * (n->in[1]->shape[0] + 2)) + 15) / 16 * 16;
}

/* Settings of a row's loss. */
typedef struct row_task {
    int64_t vocab;
    double smoothing;
    float weight; /* 1/rows, or 0: no gradient */
    bool round;   /* dz to bfloat16 */
} row_task;

/* True if the target's logit is the largest, and the first of equals. */
SCN_INLINE bool is_hit(const float *z, int64_t target, float top)
{
    if (z[target] != top)
        return false;
    for (int64_t i = 0; i < target; i++)
        if (z[i] == top)
            return false;
    return true;
}

/* True for a target that is not a class; *loss is then 0 (negative: the row does not count) or NaN. */
SCN_INLINE bool has_no_class(const row_task *k, float *z, int64_t target, float *loss)
{
    if (target >= 0 && target < k->vocab)
        return false;
    if (k->weight != 0)
        memset(z, 0, (size_t)k->vocab * sizeof *z);
    *loss = target < 0 ? 0 : NAN;
    return true;
}

/* Loss of one row; overwrites z, with dz if the gradient is wanted. */
SCN_CLONES static float row_loss(const row_task *k, float *z, int64_t target, float *hit)
{
    const int64_t V = k->vocab;
    float loss = *hit = 0;
    if (has_no_class(k, z, target, &loss))
        return loss;
    const float top = op_row_max(V, z), own = z[target];
    double mean = 0;
    *hit = is_hit(z, target, top) ? 1 : 0;
    if (k->smoothing > 0) {
        SCN_SIMD_SUM(mean)
        for (int64_t i = 0; i < V; i++)
            mean += (double)z[i];
        mean /= (double)V;
    }
    const double sum = op_row_exp(V, top, z);
    if (k->weight != 0) {
        const float scale = (float)((double)k->weight / sum);
        const float less = (float)((double)k->weight * k->smoothing / (double)V);
        SCN_SIMD
        for (int64_t i = 0; i < V; i++)
            z[i] = scale * z[i] - less;
        z[target] -= (float)((double)k->weight * (1 - k->smoothing));
    }
    return (float)((double)top + log(sum) - (1 - k->smoothing) * (double)own - k->smoothing * mean);
}

/* The same with soft targets u; they sum to about 1. */
SCN_CLONES static float soft_row_loss(const row_task *k, float *z, int64_t target, const float *u, float *hit)
{
    const int64_t V = k->vocab;
    float loss = *hit = 0;
    if (has_no_class(k, z, target, &loss))
        return loss;
    const float top = op_row_max(V, z);
    double mean = 0, total = 0, product = 0;
    *hit = is_hit(z, target, top) ? 1 : 0;
    SCN_SIMD_SUM(mean, total, product)
    for (int64_t i = 0; i < V; i++) {
        mean += (double)z[i];
        total += (double)u[i];
        product += (double)u[i] * (double)z[i];
    }
    mean /= (double)V;
    const double sum = op_row_exp(V, top, z), all = (1 - k->smoothing) * total + k->smoothing;
    if (k->weight != 0) {
        const float scale = (float)((double)k->weight * all / sum);
        const float own = (float)((double)k->weight * (1 - k->smoothing));
        const float less = (float)((double)k->weight * k->smoothing / (double)V);
        SCN_SIMD
        for (int64_t i = 0; i < V; i++)
            z[i] = scale * z[i] - own * u[i] - less;
    }
    return (float)(all * ((double)top + log(sum)) - (1 - k->smoothing) * product - k->smoothing * mean);
}

/* Losses and hits of a chunk of rows; weights may be NULL. */
static void chunk_loss(const row_task *k, int threads, int64_t rows, const int32_t *targets, const float *weights,
                       float *z, float *loss, float *hit)
{
    const int64_t V = k->vocab;
    OP_ROWS(threads, rows, V, r, {
        loss[r] = weights ? soft_row_loss(k, z + r * V, targets[r], weights + r * V, hit + r)
                          : row_loss(k, z + r * V, targets[r], hit + r);
        if (k->round)
            op_round_row(V, z + r * V);
    });
}

/* The products of `rows` rows from `first` on. dx is not yet multiplied by loss_scale where it is not accumulated:
 * forward_backward does that. */
static op_layer products_of(const tape_node *n, float loss_scale, int64_t first, int64_t rows, float *z)
{
    op_layer p = op_layer_products(n, first, rows, z, z);
    p.dx.alpha = n->accumulate[0] ? loss_scale : 1;
    p.dw.alpha = loss_scale;
    p.dw.accumulate = true; /* over the chunks */
    return p;
}

static int64_t counting_rows(const tape_value *targets)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < targets->count; i++)
        rows += targets->ints[i] >= 0;
    return rows;
}

/* logits: of all rows, overwritten; NULL: computed here. */
static void compute(const tape_node *n, const tape_run *run, bool gradients, float *logits)
{
    const tape_value *x = n->in[0], *w = n->in[1], *bias = n->in[2], *targets = n->in[3], *weights = n->in[4];
    const int64_t V = w->shape[0], C = w->shape[1], chunk = chunk_rows(n), count = counting_rows(targets);
    const bool with_bias = bias && n->needs_grad[2];
    row_task k = {V, n->reals[0], gradients && count > 0 ? 1 / (float)count : 0, false};
    k.round = n->compute == SCION_BF16 && k.weight != 0 && !with_bias;
    float *loss = run->scratch + chunk * V, *hit = loss + chunk;
    float *workspace = run->scratch + chunk_floats(n);
    double sum = 0, hits = 0;
    for (int64_t first = 0; first < x->count / C; first += chunk) {
        const int64_t left = x->count / C - first, rows = left < chunk ? left : chunk;
        float *z = logits ? logits + first * V : run->scratch;
        op_layer p = products_of(n, run->loss_scale, first, rows, z);
        if (!logits)
            op_multiply(&p.y, run->threads, workspace);
        chunk_loss(&k, run->threads, rows, targets->ints + first, weights ? weights->data + first * V : NULL, z, loss,
                   hit);
        for (int64_t i = 0; i < rows; i++) {
            sum += (double)loss[i];
            hits += (double)hit[i];
        }
        if (k.weight == 0)
            continue;
        if (with_bias)
            op_sum_rows(run->threads, rows, V, run->loss_scale, z, true, bias->grad);
        if (n->compute == SCION_BF16 && !k.round)
            op_round_rows(run->threads, rows, V, z);
        if (n->needs_grad[0])
            op_multiply(&p.dx, run->threads, workspace);
        p.dw.rounding = op_rounding(n, run, first / chunk);
        if (n->needs_grad[1])
            op_multiply(&p.dw, run->threads, workspace);
    }
    n->out->data[0] = count > 0 ? (float)(sum / (double)count) : 0;
    n->out->data[1] = (float)hits;
    n->out->data[2] = (float)count;
}

static void forward(const tape_node *n, const tape_run *run)
{
    compute(n, run, false, NULL);
}

static void forward_logits(const tape_node *n, const tape_run *run, float *logits)
{
    compute(n, run, false, logits);
}

/* dx = loss_scale (dz w): the product is scaled once it is complete, so that its rounding does not depend on the
 * scale. */
static void forward_backward(const tape_node *n, const tape_run *run)
{
    compute(n, run, true, NULL);
    tape_value *x = n->in[0];
    if (!n->needs_grad[0] || n->accumulate[0])
        return;
    if (n->out->data[2] == 0)
        memset(x->grad, 0, (size_t)x->count * sizeof *x->grad);
    else if (run->loss_scale != 1)
        op_scale(run->threads, x->count, run->loss_scale, x->grad, false, x->grad);
}

static void score(const tape_node *n, double *hits, double *rows)
{
    *hits = (double)n->out->data[1];
    *rows = (double)n->out->data[2];
}

/* A chunk may be shorter than the others: its products may need other workspace. */
static size_t product_floats(const tape_node *n, int64_t rows, int threads)
{
    const op_layer p = products_of(n, 1, 0, rows, NULL);
    const size_t dx = op_product_floats(&p.dx, threads), dw = op_product_floats(&p.dw, threads);
    return scn_max_size(op_product_floats(&p.y, threads), scn_max_size(dx, dw));
}

static size_t scratch(const tape_node *n, int threads)
{
    const int64_t chunk = chunk_rows(n), rest = op_rows(n->in[0]) % chunk;
    return chunk_floats(n) + scn_max_size(product_floats(n, chunk, threads), product_floats(n, rest, threads));
}

static double flops(const tape_node *n)
{
    return 2.0 * (double)n->in[0]->count * (double)n->in[1]->shape[0];
}

const tape_op op_cross_entropy_row = {
    .name = "cross_entropy",
    .forward = forward,
    .forward_backward = forward_backward,
    .forward_logits = forward_logits,
    .scratch = scratch,
    .flops = flops,
    .score = score,
    .half_params = 1 << 1,
    .operands = 1 << 0 | 1 << 1,
    .matrix = 1,
    .fused_layer = true,
};

tape_value *op_cross_entropy(tape *t, tape_value *x, tape_value *w, tape_value *bias, tape_value *targets,
                             tape_value *weights, double smoothing)
{
    if (!x || !w || !targets)
        return NULL;
    if (w->kind != TAPE_PARAM || w->ndim != 2 || w->shape[1] != op_width(x) ||
        (bias && (bias->kind != TAPE_PARAM || bias->count != w->shape[0])))
        return tape_fail(t, "cross_entropy: %s and its bias must be parameters that match inputs of width %lld",
                         w->name, (long long)op_width(x));
    if (targets->kind != TAPE_INTS || targets->count != op_rows(x) || !(smoothing >= 0 && smoothing < 1))
        return tape_fail(
            t, "cross_entropy: needs one target for each of %lld rows (there are %lld) and a smoothing in [0,1)",
            (long long)op_rows(x), (long long)targets->count);
    if (weights && (weights->kind != TAPE_FLOATS || weights->count != op_rows(x) * w->shape[0]))
        return tape_fail(t, "cross_entropy: soft targets are an input of %lld rows of %lld classes",
                         (long long)op_rows(x), (long long)w->shape[0]);
    const tape_node n = {.op = &op_cross_entropy_row,
                         .in = {x, w, bias, targets, weights},
                         .reals = {smoothing},
                         .ints = {chunk_elements}};
    return tape_record(t, &n, 1, (const int64_t[]){3});
}
