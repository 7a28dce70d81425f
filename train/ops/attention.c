/* y = softmax(q k' / sqrt(D)) v for each head of each sequence; causal: position t sees positions 0..t only.
 *
 *     P_ij = e^(S_ij - L_i),  S = q k' / sqrt(D),  L_i = log of the sum of e^(S_ij) over the j that i sees
 *     dv = P' dy,   dS = P * (dy v' - rowsum(dy * y)),   dq = dS k / sqrt(D),   dk = dS' q / sqrt(D)
 *
 * Saved: L alone; P is recomputed in backward (as in FlashAttention, Dao et al., 2022). Each thread takes whole
 * heads and in them blocks of queries against all the keys that these see, so that it holds one or two blocks of
 * rows of P, which stay in its cache. Heads are read and written where they are, as strided views of (B, T, C);
 * only k' and v' are laid out once per head, for the products with them. Blocks are taken from the last to the
 * first in backward: the first product then reaches all keys, and the keys' gradients need no clearing. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"
#include "product/kernel.h"
#include "product/transpose.h"

/* Queries per block: few waste little work above the diagonal, many make better products. */
enum { max_queries = 48 };

/* Keys rounded up to whole vectors and tiles; the columns beyond are computed and not used. */
SCN_INLINE int64_t columns(int64_t keys)
{
    return (keys + SCN_VECTOR - 1) / SCN_VECTOR * SCN_VECTOR;
}

/* C = alpha op(A) B, or C + that, without packing (kernel.h), on one thread. */
static void small_gemm(const scn_kernel *kernel, bool transpose_a, int64_t m, int64_t n, int64_t k, float alpha,
                       const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c,
                       int64_t ldc)
{
    kernel->small(m, n, k, alpha, a, transpose_a ? 1 : lda, transpose_a ? lda : 1, b, ldb, accumulate, c, ldc);
}

/* Sizes of one node. */
typedef struct heads {
    int64_t batch, time, width, size; /* B T C D */
    int64_t block, stride;            /* queries per block; distance of the rows of a block of P */
    bool causal;
    float scale; /* 1/sqrt(D) */
    const scn_kernel *kernel;
} heads;

static heads heads_of(const tape_node *n)
{
    heads a = {.batch = n->out->shape[0], .time = n->out->shape[1], .width = n->out->shape[2], .size = n->ints[0]};
    a.block = a.time < max_queries ? a.time : max_queries;
    a.stride = columns(a.time) + SCN_VECTOR; /* rows a power of two apart would share few sets of the cache */
    a.causal = n->ints[1] != 0;
    a.scale = (float)(1 / sqrt((double)a.size));
    a.kernel = scn_kernel_for(SCION_F32);
    return a;
}

/* One thread's memory: rows of a->stride floats. */
typedef struct workspace {
    float *k, *v;  /* k' and v', D rows each */
    float *p, *ds; /* blocks of P and of dP or dS */
    float inverse[max_queries];
} workspace;

static size_t scratch_each(const heads *a)
{
    return (size_t)(2 * (a->size + a->block) * a->stride);
}

static workspace workspace_of(const heads *a, float *scratch)
{
    float *own = scratch + (size_t)scn_thread_index() * scratch_each(a);
    workspace m = {.k = own, .v = own + a->size * a->stride};
    m.p = m.v + a->size * a->stride;
    m.ds = m.p + a->block * a->stride;
    return m;
}

/* to = x', x a head; columns behind the last position are zero. A chunk of positions fills whole cache lines. */
static void transpose_head(const heads *a, const float *x, float *to)
{
    enum { chunk = 16 };
    const int64_t T = a->time, C = a->width, ld = a->stride;
    for (int64_t t = 0; t < T; t += chunk)
        scn_transpose(to + t, ld, x + t * C, C, T - t < chunk ? T - t : chunk, a->size);
    for (int64_t i = 0; i < a->size; i++)
        memset(to + i * ld + T, 0, (size_t)(columns(T) - T) * sizeof *to);
}

/* Makes a row of scores that ends at `limit` end at a whole vector; e^(-inf) = 0. Returns the new end. */
SCN_INLINE int64_t round_up(float *s, int64_t limit)
{
    const int64_t end = columns(limit);
    for (int64_t j = limit; j < end; j++)
        s[j] = -INFINITY;
    return end;
}

/* Zero from `end`, that of round_up, to the last of the keys of this block. */
SCN_INLINE void clear_rest(float *s, int64_t end, int64_t keys)
{
    if (end < keys)
        memset(s + end, 0, (size_t)(keys - end) * sizeof *s);
}

/* Offset of head h of sequence b in (B, T, C), h and b given by one index. */
static int64_t head_offset(const heads *a, int64_t index)
{
    const int64_t count = a->width / a->size;
    return index / count * a->time * a->width + index % count * a->size;
}

/* Number of keys that row i of a block that begins at query `first` sees. */
SCN_INLINE int64_t seen(const heads *a, int64_t first, int64_t i)
{
    return a->causal ? first + i + 1 : a->time;
}

/* s = e^(s - largest of the row), 0 from the last key seen up to `keys`. */
SCN_CLONES static void exp_rows(const heads *a, int64_t first, int64_t rows, int64_t keys, float *s, float *inverse,
                                float *lse)
{
    for (int64_t i = 0; i < rows; i++, s += a->stride) {
        const int64_t end = round_up(s, seen(a, first, i));
        const float top = op_row_max(end, s);
        const double sum = op_row_exp(end, top, s);
        clear_rest(s, end, keys);
        inverse[i] = (float)(1 / sum);
        if (lse)
            lse[i] = (float)((double)top + log(sum));
    }
}

SCN_CLONES static void scale_rows(int64_t rows, int64_t cols, int64_t stride, const float *factor, float *y)
{
    for (int64_t i = 0; i < rows; i++, y += stride) {
        SCN_SIMD
        for (int64_t j = 0; j < cols; j++)
            y[j] *= factor[i];
    }
}

static void forward_head(const tape_node *n, const heads *a, int64_t index, workspace m)
{
    const int64_t T = a->time, C = a->width, D = a->size, at = head_offset(a, index), ld = a->stride;
    const float *q = n->in[0]->data + at, *v = n->in[2]->data + at;
    float *y = n->out->data + at;
    transpose_head(a, n->in[1]->data + at, m.k);
    for (int64_t i = 0; i < T; i += a->block) {
        const int64_t rows = T - i < a->block ? T - i : a->block, keys = a->causal ? i + rows : T;
        small_gemm(a->kernel, false, rows, columns(keys), D, a->scale, q + i * C, C, m.k, ld, 0, m.p, ld);
        exp_rows(a, i, rows, keys, m.p, m.inverse, n->saved ? n->saved + index * T + i : NULL);
        small_gemm(a->kernel, false, rows, D, keys, 1, m.p, ld, v, C, 0, y + i * C, C);
        scale_rows(rows, D, C, m.inverse, y + i * C);
    }
}

/* p = e^(s - lse), 0 from the last key seen up to `keys`. */
SCN_CLONES static void recompute_weights(const heads *a, int64_t first, int64_t rows, int64_t keys, const float *lse,
                                         float *s)
{
    for (int64_t i = 0; i < rows; i++, s += a->stride) {
        const int64_t end = round_up(s, seen(a, first, i));
        SCN_SIMD
        for (int64_t j = 0; j < end; j++)
            s[j] = op_exp_below(s[j] - lse[i]);
        clear_rest(s, end, keys);
    }
}

/* dp becomes dS / sqrt(D); y and dy are this block's rows of the result and of its gradient. */
SCN_CLONES static void score_grads(const heads *a, int64_t rows, int64_t keys, const float *p, const float *y,
                                   const float *dy, float *dp)
{
    for (int64_t i = 0; i < rows; i++, p += a->stride, dp += a->stride, y += a->width, dy += a->width) {
        float sum = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t j = 0; j < a->size; j++)
            sum += y[j] * dy[j];
        SCN_SIMD
        for (int64_t j = 0; j < columns(keys); j++)
            dp[j] = a->scale * p[j] * (dp[j] - sum);
    }
}

static void backward_head(const tape_node *n, const heads *a, int64_t index, workspace m)
{
    const int64_t T = a->time, C = a->width, D = a->size, at = head_offset(a, index), ld = a->stride;
    const float *q = n->in[0]->data + at, *k = n->in[1]->data + at, *v = n->in[2]->data + at;
    transpose_head(a, k, m.k);
    transpose_head(a, v, m.v);
    for (int64_t i = (T - 1) / a->block * a->block, last = 1; i >= 0; i -= a->block, last = 0) {
        const int64_t rows = T - i < a->block ? T - i : a->block, keys = a->causal ? i + rows : T;
        const bool add_k = !last || n->accumulate[1], add_v = !last || n->accumulate[2];
        const float *y = n->out->data + at + i * C, *dy = n->out->grad + at + i * C;
        small_gemm(a->kernel, false, rows, columns(keys), D, a->scale, q + i * C, C, m.k, ld, 0, m.p, ld);
        recompute_weights(a, i, rows, keys, n->saved + index * T + i, m.p);
        if (n->needs_grad[2])
            small_gemm(a->kernel, true, keys, D, rows, 1, m.p, ld, dy, C, add_v, n->in[2]->grad + at, C);
        small_gemm(a->kernel, false, rows, columns(keys), D, 1, dy, C, m.v, ld, 0, m.ds, ld);
        score_grads(a, rows, keys, m.p, y, dy, m.ds);
        if (n->needs_grad[0])
            small_gemm(a->kernel, false, rows, D, keys, 1, m.ds, ld, k, C, n->accumulate[0],
                       n->in[0]->grad + at + i * C, C);
        if (n->needs_grad[1])
            small_gemm(a->kernel, true, keys, D, rows, 1, m.ds, ld, q + i * C, C, add_k, n->in[1]->grad + at, C);
    }
}

static void each_head(const tape_node *n, const tape_run *run,
                      void (*head)(const tape_node *n, const heads *a, int64_t index, workspace m))
{
    const heads a = heads_of(n);
    const int64_t count = a.batch * (a.width / a.size);
    const int threads = op_split(run->threads, count * a.time, a.time + a.size).threads;
    SCN_PARALLEL_FOR_STATIC(threads, i, count)
        head(n, &a, i, workspace_of(&a, run->scratch));
}

static void forward(const tape_node *n, const tape_run *run)
{
    each_head(n, run, forward_head);
}

static void backward(const tape_node *n, const tape_run *run)
{
    each_head(n, run, backward_head);
}

static size_t saved(const tape_node *n)
{
    return (size_t)(n->out->count / n->ints[0]);
}

static size_t scratch(const tape_node *n, int threads)
{
    const heads a = heads_of(n);
    return (size_t)(threads > 1 ? threads : 1) * scratch_each(&a);
}

/* Two products of D multiply-adds for each pair of a query and a key that it sees. */
static double flops(const tape_node *n)
{
    const heads a = heads_of(n);
    const double T = (double)a.time, pairs = a.causal ? T * (T + 1) / 2 : T * T;
    return 4.0 * (double)(a.batch * a.width) * pairs;
}

const tape_op op_attention_row = {
    .name = "attention",
    .forward = forward,
    .backward = backward,
    .saved = saved,
    .scratch = scratch,
    .flops = flops,
    .backward_reads = 1 << 0 | 1 << 1 | 1 << 2 | TAPE_READS_OUT,
};

tape_value *op_attention(tape *t, tape_value *q, tape_value *k, tape_value *v, int64_t head_size, bool causal)
{
    if (!q || !k || !v)
        return NULL;
    if (q->ndim != 3 || memcmp(q->shape, k->shape, 3 * sizeof *q->shape) != 0 || k->ndim != 3 ||
        memcmp(q->shape, v->shape, 3 * sizeof *q->shape) != 0 || v->ndim != 3 || q == k || k == v || v == q)
        return tape_fail(
            t, "attention: queries, keys and values must be three arrays of one shape (batch, time, width)");
    if (head_size < 1 || op_width(q) % head_size != 0)
        return tape_fail(t, "attention: the head size %lld does not divide the width %lld", (long long)head_size,
                         (long long)op_width(q));
    return op_record(t, &(tape_node){.op = &op_attention_row, .in = {q, k, v}, .ints = {head_size, causal}});
}
