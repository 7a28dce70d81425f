/* y = softmax(q k' / sqrt(D)) v for each head of each sequence; causal: position t sees positions 0..t only.
 *
 *     P_ij = e^(S_ij - L_i),  S = q k' / sqrt(D),  L_i = log of the sum of e^(S_ij) over the j that i sees
 *     dv = P' dy,   dS = P * (dy v' - rowsum(dy * y)),   dq = dS k / sqrt(D),   dk = dS' q / sqrt(D)
 *
 * Saved: L alone; P is recomputed in backward (as in FlashAttention, Dao et al., 2022). Each thread takes whole
 * heads and in them blocks of queries against all the keys that these see, so that it holds one or two blocks of
 * rows of P, which stay in its cache. Heads are read and written where they are, as strided views of (B, T, C);
 * only k' and v' are laid out once per head, for the products with them. Blocks are taken from the last to the
 * first in backward: the first product then reaches all keys, and the keys' gradients need no clearing.
 *
 * Computed in bfloat16, the operands of the products are rounded (q, k, v, P, dy, dS) and packed as the kernel likes
 * them; those that meet all blocks once per head. Softmax, and rowsum(dy * y) as rowsum(P * dP), which does not need
 * y, stay float32. */
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
    a.kernel = scn_kernel_for(n->compute);
    return a;
}

/* ---- In float32 ----------------------------------------------------------------------------------------------- */

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

static workspace workspace_at(const heads *a, float *own)
{
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

static void forward_head(const tape_node *n, const heads *a, int64_t index, float *own)
{
    workspace m = workspace_at(a, own);
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

static void backward_head(const tape_node *n, const heads *a, int64_t index, float *own)
{
    const workspace m = workspace_at(a, own);
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

/* ---- In bfloat16 ---------------------------------------------------------------------------------------------- */

/* Operands that meet all blocks, packed; those that belong to a block are `left`. */
typedef struct rounded_workspace {
    scn_packed k_t, v_t;                  /* k' and v': D deep, T columns */
    scn_packed k, v, q, dy;               /* T deep, D columns; v in forward alone */
    float *p, *ds;                        /* blocks of P and of dP or dS, rows of a->stride floats */
    uint16_t *p_half, *ds_half, *dy_half; /* the same rounded, in rows of a->stride; dy of the head in rows of D */
    float *left;
    float *y; /* a block of the result where it has no float32 */
    float inverse[max_queries];
    size_t floats; /* all of them */
} rounded_workspace;

static size_t lines(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

static size_t left_floats(const heads *a)
{
    const scn_kernel *k = a->kernel;
    const size_t queries = k->a_floats(a->block, scn_max(a->size, a->time + 1)),
                 keys = k->a_floats(a->time, a->block);
    return lines(scn_max_size(queries, keys));
}

/* The next `floats` of a thread's memory; NULL, which is only counted, stays NULL. */
static void *take(float *own, size_t *taken, size_t floats)
{
    float *at = own ? own + *taken : NULL;
    *taken += lines(floats);
    return at;
}

static rounded_workspace rounded_workspace_at(const tape_node *n, const heads *a, float *own)
{
    const scn_kernel *k = a->kernel;
    const size_t across = k->b_floats(a->time, a->size), down = k->b_floats(a->size, a->time),
                 block = (size_t)(a->block * a->stride);
    rounded_workspace m = {.floats = 0};
    m.k_t = scn_packed_of(take(own, &m.floats, across), a->size, a->time);
    m.v_t = scn_packed_of(take(own, &m.floats, across), a->size, a->time);
    m.k = scn_packed_of(take(own, &m.floats, down), a->time, a->size);
    m.v = m.q = scn_packed_of(take(own, &m.floats, down), a->time, a->size); /* not both are wanted */
    m.dy = scn_packed_of(take(own, &m.floats, down), a->time, a->size);
    m.p = take(own, &m.floats, block);
    m.ds = take(own, &m.floats, block);
    m.p_half = take(own, &m.floats, block / 2);
    m.ds_half = take(own, &m.floats, block / 2);
    m.dy_half = take(own, &m.floats, (size_t)(a->time * a->size + 1) / 2);
    m.left = take(own, &m.floats, left_floats(a));
    if (n->out->half_only)
        m.y = take(own, &m.floats, (size_t)(a->block * a->size));
    return m;
}

/* Rows of op(A) where they are if the kernel reads them there, else packed. */
static scn_packed left_of(const heads *a, const rounded_workspace *m, scn_operand x)
{
    if (a->kernel->reads(&x))
        return scn_packed_in_place(&x);
    const scn_packed to = scn_packed_of(m->left, x.cols, x.rows);
    a->kernel->pack_a(&to, &x);
    return to;
}

/* C = alpha A B, or C + that: n columns of b over a depth of k. */
static void multiply(const heads *a, const rounded_workspace *m, scn_operand left, int64_t n, int64_t k, float alpha,
                     scn_packed right, bool accumulate, float *c, int64_t ldc)
{
    const scn_packed packed = left_of(a, m, left);
    a->kernel->multiply(left.rows, n, k, alpha, &packed, &right, accumulate, c, ldc);
}

/* A head of (B, T, C), and rows of it. */
static scn_operand head_of(const heads *a, const tape_value *v, int64_t at)
{
    return (scn_operand){op_operand(v, at), op_operand_type(v), a->time, a->size, false, a->width, 1};
}

static scn_operand rows_of(scn_operand head, int64_t first, int64_t rows)
{
    return scn_operand_part(head, first, 0, rows, head.cols);
}

static scn_operand transposed(scn_operand x)
{
    const int64_t rows = x.rows;
    x.rows = x.cols;
    x.cols = rows;
    x.transposed = !x.transposed;
    return x;
}

static void pack(const heads *a, const scn_packed *to, scn_operand x)
{
    a->kernel->pack_b(to, &x);
}

/* Columns of a product with k' or v' that reaches `keys`: whole strips, or the last. */
static int64_t strips(const heads *a, int64_t keys)
{
    return scn_min(a->time, scn_round_up(keys, a->kernel->nr));
}

/* Pairs along the keys: a block of P or dS is a multiple of two wide, its last column zero if `keys` is odd. */
static int64_t even(int64_t keys)
{
    return (keys + 1) / 2 * 2;
}

/* A block of P or dS, rounded. */
static scn_operand round_block(const heads *a, int64_t rows, int64_t keys, const float *x, uint16_t *half)
{
    for (int64_t i = 0; i < rows; i++)
        scn_to_bf16(even(keys), x + i * a->stride, half + i * a->stride);
    return (scn_operand){half, SCION_BF16, rows, even(keys), false, a->stride, 1};
}

static void round_result(const tape_node *n, int64_t rows, int64_t at, const float *y, int64_t stride, int64_t size)
{
    for (int64_t i = 0; i < rows; i++)
        scn_to_bf16(size, y + i * stride, n->out->half + at + i * n->out->shape[2]);
}

static void forward_head_rounded(const tape_node *n, const heads *a, int64_t index, float *own)
{
    const int64_t T = a->time, C = a->width, D = a->size, at = head_offset(a, index), ld = a->stride;
    rounded_workspace m = rounded_workspace_at(n, a, own);
    const scn_operand q = head_of(a, n->in[0], at);
    pack(a, &m.k_t, transposed(head_of(a, n->in[1], at)));
    pack(a, &m.v, head_of(a, n->in[2], at));
    for (int64_t i = 0; i < T; i += a->block) {
        const int64_t rows = scn_min(T - i, a->block), keys = a->causal ? i + rows : T, ldy = m.y ? D : C;
        float *y = m.y ? m.y : n->out->data + at + i * C;
        multiply(a, &m, rows_of(q, i, rows), strips(a, keys), D, a->scale, m.k_t, false, m.p, ld);
        exp_rows(a, i, rows, even(keys), m.p, m.inverse, n->saved ? n->saved + index * T + i : NULL);
        multiply(a, &m, round_block(a, rows, keys, m.p, m.p_half), D, keys, 1, m.v, false, y, ldy);
        scale_rows(rows, D, ldy, m.inverse, y);
        if (n->out->has_half)
            round_result(n, rows, at + i * C, y, ldy, D);
    }
}

/* dp becomes dS / sqrt(D), zero behind the last key up to a whole pair. */
SCN_CLONES static void score_grads_rounded(const heads *a, int64_t rows, int64_t keys, const float *p, float *dp)
{
    for (int64_t i = 0; i < rows; i++, p += a->stride, dp += a->stride) {
        float sum = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t j = 0; j < keys; j++)
            sum += p[j] * dp[j];
        SCN_SIMD
        for (int64_t j = 0; j < keys; j++)
            dp[j] = a->scale * p[j] * (dp[j] - sum);
        if (keys % 2)
            dp[keys] = 0;
    }
}

static void backward_head_rounded(const tape_node *n, const heads *a, int64_t index, float *own)
{
    const int64_t T = a->time, C = a->width, D = a->size, at = head_offset(a, index), ld = a->stride;
    const rounded_workspace m = rounded_workspace_at(n, a, own);
    const scn_operand q = head_of(a, n->in[0], at), k = head_of(a, n->in[1], at),
                      dy = {m.dy_half, SCION_BF16, T, D, false, D, 1};
    for (int64_t t = 0; t < T; t++)
        scn_to_bf16(D, n->out->grad + at + t * C, m.dy_half + t * D);
    pack(a, &m.k_t, transposed(k));
    pack(a, &m.v_t, transposed(head_of(a, n->in[2], at)));
    pack(a, &m.k, k);
    pack(a, &m.q, q);
    pack(a, &m.dy, dy);
    for (int64_t i = (T - 1) / a->block * a->block, last = 1; i >= 0; i -= a->block, last = 0) {
        const int64_t rows = scn_min(T - i, a->block), keys = a->causal ? i + rows : T;
        const bool add_k = !last || n->accumulate[1], add_v = !last || n->accumulate[2];
        multiply(a, &m, rows_of(q, i, rows), strips(a, keys), D, a->scale, m.k_t, false, m.p, ld);
        recompute_weights(a, i, rows, even(keys), n->saved + index * T + i, m.p);
        const scn_operand p = scn_operand_part(round_block(a, rows, keys, m.p, m.p_half), 0, 0, rows, keys);
        if (n->needs_grad[2])
            multiply(a, &m, transposed(p), D, rows, 1, scn_packed_part(m.dy, i, 0), add_v, n->in[2]->grad + at, C);
        multiply(a, &m, rows_of(dy, i, rows), strips(a, keys), D, 1, m.v_t, false, m.ds, ld);
        score_grads_rounded(a, rows, keys, m.p, m.ds);
        const scn_operand ds = round_block(a, rows, keys, m.ds, m.ds_half);
        if (n->needs_grad[0])
            multiply(a, &m, ds, D, keys, 1, m.k, n->accumulate[0], n->in[0]->grad + at + i * C, C);
        if (n->needs_grad[1])
            multiply(a, &m, transposed(scn_operand_part(ds, 0, 0, rows, keys)), D, rows, 1,
                     scn_packed_part(m.q, i, 0), add_k, n->in[1]->grad + at, C);
    }
}

/* ---- The operator --------------------------------------------------------------------------------------------- */

static size_t scratch_of_thread(const tape_node *n, const heads *a)
{
    return n->compute == SCION_BF16 ? rounded_workspace_at(n, a, NULL).floats : scratch_each(a);
}

typedef void head_pass(const tape_node *n, const heads *a, int64_t index, float *own);

static void each_head(const tape_node *n, const tape_run *run, head_pass *head)
{
    const heads a = heads_of(n);
    const int64_t count = a.batch * (a.width / a.size);
    const size_t floats = scratch_of_thread(n, &a);
    const int threads = op_split(run->threads, count * a.time, a.time + a.size).threads;
    SCN_PARALLEL_FOR_STATIC(threads, i, count)
        head(n, &a, i, run->scratch + (size_t)scn_thread_index() * floats);
}

static void forward(const tape_node *n, const tape_run *run)
{
    each_head(n, run, n->compute == SCION_BF16 ? forward_head_rounded : forward_head);
}

static void backward(const tape_node *n, const tape_run *run)
{
    each_head(n, run, n->compute == SCION_BF16 ? backward_head_rounded : backward_head);
}

static size_t saved(const tape_node *n)
{
    return (size_t)(n->out->count / n->ints[0]);
}

static size_t scratch(const tape_node *n, int threads)
{
    const heads a = heads_of(n);
    return (size_t)(threads > 1 ? threads : 1) * scratch_of_thread(n, &a);
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
    .float_reads = TAPE_READS_OUT,
    .operands = 1 << 0 | 1 << 1 | 1 << 2,
    .half_out = true,
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
