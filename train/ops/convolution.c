/* 2-D convolution of images whose channels lie together, x (B, H, W, C_in), with w (C_out, C_in, kh, kw):
 *
 *     y[b, i, j, o] = bias[o] + sum over u, v, c of w[o, c, u, v] x[b, i s + u - p, j s + v - p, c]
 *
 * with stride s and p zeros around the image. Three matrix products with the patches of an image as rows,
 * P(x)[(b, i, j), (u, v, c)] = x[b, i s + u - p, j s + v - p, c]:
 *
 *     y = P(x) w',      dw = dy' P(x),      dx = P'(dy) w''
 *
 * where w'' is w turned around and P' are the patches that dy makes for x: with stride 1 those of a convolution with
 * kh - 1 - p zeros; with a larger one s - 1 zeros stand between the pixels of dy.
 *
 * P is nine times x for a 3 x 3 kernel and never exists: the product asks for the piece it works on (SCN_FETCHED of
 * product/gemm.h), and a patch is kh runs of kw C_in floats of x, copied. Each is used for C_out multiply-adds, so
 * copying is a few percent. docs/numerics.md has what else was measured. w is put into the order of the patches
 * first, as the optimizer wants (C_out, C_in, kh, kw). */
#include "ops/ops.h"

#include "ops/parallel.h"

/* Sizes of a convolution. */
typedef struct sizes {
    int64_t images, h, w, c_in; /* x */
    int64_t kh, kw, stride, pad;
    int64_t out_h, out_w, c_out; /* y */
} sizes;

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad)
{
    return (in + 2 * pad - kernel) / stride + 1;
}

static sizes sizes_of(const tape_node *n)
{
    const int64_t *x = n->in[0]->shape, *w = n->in[1]->shape, *y = n->out->shape;
    return (sizes){x[0], x[1], x[2], x[3], w[2], w[3], n->ints[0], n->ints[1], y[1], y[2], w[0]};
}

/* ---- Patches -------------------------------------------------------------------------------------------------- */

/* The matrix of patches of images (h, w, c): row (b, i, j) of a grid of rows x cols has at column (u, v, channel) the
 * pixel at ((i multiply + u - pad_y) / divide, (j multiply + v - pad_x) / divide), or zero if there is none. */
typedef struct patches {
    const float *images;
    int64_t h, w, c;
    int64_t rows, cols;
    int64_t kh, kw;
    int64_t multiply, divide, pad_y, pad_x;
} patches;

SCN_INLINE void copy(int64_t n, const float *from, float *to)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

SCN_INLINE void clear(int64_t n, float *to)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        to[i] = 0;
}

SCN_INLINE int64_t within(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* Elements first .. last - 1 of a patch's kw c elements in one line of the image, whose first pixel is at column
 * `left`: a run, of which the ends may lie outside. */
SCN_INLINE void copy_run(const patches *p, const float *line, int64_t left, int64_t first, int64_t last, float *to)
{
    const int64_t from = within(-left * p->c, first, last), end = within((p->w - left) * p->c, first, last);
    clear(from - first, to);
    copy(end - from, line + left * p->c + from, to + (from - first));
    clear(last - end, to + (end - first));
}

/* The same where pixels of the image lie `divide` apart: one after another. */
SCN_INLINE void copy_apart(const patches *p, const float *line, int64_t left, int64_t first, int64_t last, float *to)
{
    for (int64_t at = first; at < last;) {
        const int64_t v = at / p->c, end = (v + 1) * p->c < last ? (v + 1) * p->c : last, col = left + v;
        if (col >= 0 && col % p->divide == 0 && col / p->divide < p->w)
            copy(end - at, line + col / p->divide * p->c + (at - v * p->c), to + (at - first));
        else
            clear(end - at, to + (at - first));
        at = end;
    }
}

/* Columns col .. col + cols - 1 of the patch of pixel (i, j) of an image. */
SCN_INLINE void copy_patch(const patches *p, const float *image, int64_t i, int64_t j, int64_t col, int64_t cols,
                           float *to)
{
    const int64_t run = p->kw * p->c, left = j * p->multiply - p->pad_x;
    int64_t u = col / run, first = col - u * run;
    for (const float *end = to + cols; to < end; u++, first = 0) {
        const int64_t last = end - to < run - first ? first + (end - to) : run, row = i * p->multiply + u - p->pad_y;
        const float *line = image + row / p->divide * p->w * p->c;
        if (row < 0 || row % p->divide != 0 || row / p->divide >= p->h)
            clear(last - first, to);
        else if (p->divide == 1)
            copy_run(p, line, left, first, last, to);
        else
            copy_apart(p, line, left, first, last, to);
        to += last - first;
    }
}

SCN_CLONES static void copy_patches(const patches *p, int64_t row, int64_t rows, int64_t col, int64_t cols, float *to,
                                    int64_t ld)
{
    int64_t j = row % p->cols, i = row / p->cols % p->rows;
    const float *image = p->images + row / p->cols / p->rows * (p->h * p->w * p->c);
    for (; rows > 0; rows--, to += ld) {
        copy_patch(p, image, i, j, col, cols, to);
        if (++j < p->cols)
            continue;
        j = 0;
        if (++i < p->rows)
            continue;
        i = 0;
        image += p->h * p->w * p->c;
    }
}

static void fetch(const scn_gemm_source *s, int64_t row, int64_t rows, int64_t col, int64_t cols, float *to,
                  int64_t ld)
{
    copy_patches(s->context, row, rows, col, cols, to, ld);
}

static patches patches_of_x(const sizes *s, const float *x)
{
    return (patches){x, s->h, s->w, s->c_in, s->out_h, s->out_w, s->kh, s->kw, s->stride, 1, s->pad, s->pad};
}

static patches patches_of_dy(const sizes *s, const float *dy)
{
    return (patches){dy, s->out_h,  s->out_w,           s->c_out,          s->h, s->w, s->kh, s->kw,
                     1,  s->stride, s->kh - 1 - s->pad, s->kw - 1 - s->pad};
}

/* ---- Weights -------------------------------------------------------------------------------------------------- */

/* w' as rows (u, v, c) of C_out elements. */
static void turn_forward(const sizes *s, int threads, const float *w, float *to)
{
    const int64_t taps = s->kh * s->kw;
    SCN_PARALLEL_FOR_STATIC(threads)
    for (int64_t c = 0; c < s->c_in; c++)
        for (int64_t o = 0; o < s->c_out; o++)
            for (int64_t t = 0; t < taps; t++)
                to[(t * s->c_in + c) * s->c_out + o] = w[(o * s->c_in + c) * taps + t];
}

/* w'' as rows (u, v, o) of C_in elements, the kernel turned around. */
static void turn_backward(const sizes *s, int threads, const float *w, float *to)
{
    const int64_t taps = s->kh * s->kw;
    SCN_PARALLEL_FOR_STATIC(threads)
    for (int64_t o = 0; o < s->c_out; o++)
        for (int64_t c = 0; c < s->c_in; c++)
            for (int64_t t = 0; t < taps; t++)
                to[((taps - 1 - t) * s->c_out + o) * s->c_in + c] = w[(o * s->c_in + c) * taps + t];
}

/* dw from rows o of (u, v, c). */
static void turn_gradient(const sizes *s, int threads, const float *from, bool accumulate, float *dw)
{
    const int64_t taps = s->kh * s->kw;
    SCN_PARALLEL_FOR_STATIC(threads)
    for (int64_t o = 0; o < s->c_out; o++)
        for (int64_t c = 0; c < s->c_in; c++)
            for (int64_t t = 0; t < taps; t++)
                op_put(accumulate, dw + (o * s->c_in + c) * taps + t, from[(o * taps + t) * s->c_in + c]);
}

/* ---- The products --------------------------------------------------------------------------------------------- */

typedef struct products {
    scn_gemm_shape y, dx, dw;
    size_t weights; /* floats of turned weights */
} products;

static products products_of(const tape_node *n)
{
    const sizes s = sizes_of(n);
    const int64_t taps = s.kh * s.kw, out = s.images * s.out_h * s.out_w;
    return (products){
        .y = {.m = out, .n = s.c_out, .k = taps * s.c_in, .a = SCN_FETCHED},
        .dx = {.m = s.images * s.h * s.w, .n = s.c_in, .k = taps * s.c_out, .a = SCN_FETCHED},
        .dw = {.m = s.c_out, .n = taps * s.c_in, .k = out, .transpose_a = true, .b = SCN_FETCHED},
        .weights = (size_t)((n->in[1]->count + 15) / 16 * 16),
    };
}

static void add_bias(const scn_gemm_epilogue *e, int64_t row, int64_t col, int64_t cols, float *y)
{
    const float *bias = e->context;
    (void)row;
    op_add_to(cols, bias + col, y);
}

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *w = n->in[1], *bias = n->in[2];
    const sizes s = sizes_of(n);
    const products p = products_of(n);
    const patches of_x = patches_of_x(&s, x->data);
    const scn_gemm_source source = {fetch, &of_x};
    const scn_gemm_epilogue epilogue = {add_bias, bias ? bias->data : NULL};
    const scn_gemm g = scn_gemm_plan(&p.y, run->threads);
    float *turned = run->scratch;
    turn_forward(&s, run->threads, w->data, turned);
    scn_gemm_run(&g, &source, 0, turned, s.c_out, 1, false, n->out->data, s.c_out, bias ? &epilogue : NULL,
                 turned + p.weights);
}

static void backward_x(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    const products p = products_of(n);
    const patches of_dy = patches_of_dy(&s, n->out->grad);
    const scn_gemm_source source = {fetch, &of_dy};
    const scn_gemm g = scn_gemm_plan(&p.dx, run->threads);
    float *turned = run->scratch;
    turn_backward(&s, run->threads, n->in[1]->data, turned);
    scn_gemm_run(&g, &source, 0, turned, s.c_in, 1, n->accumulate[0], n->in[0]->grad, s.c_in, NULL,
                 turned + p.weights);
}

static void backward_w(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    const products p = products_of(n);
    const patches of_x = patches_of_x(&s, n->in[0]->data);
    const scn_gemm_source source = {fetch, &of_x};
    const scn_gemm g = scn_gemm_plan(&p.dw, run->threads);
    float *turned = run->scratch;
    scn_gemm_run(&g, n->out->grad, s.c_out, &source, 0, 1, false, turned, p.dw.n, NULL, turned + p.weights);
    turn_gradient(&s, run->threads, turned, n->accumulate[1], n->in[1]->grad);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *bias = n->in[2];
    if (n->needs_grad[0])
        backward_x(n, run);
    if (n->needs_grad[1])
        backward_w(n, run);
    if (bias && n->needs_grad[2])
        op_sum_rows(run->threads, op_rows(n->out), op_width(n->out), 1, n->out->grad, n->accumulate[2], bias->grad);
}

static size_t floats_of(const scn_gemm_shape *shape, int threads)
{
    const scn_gemm g = scn_gemm_plan(shape, threads);
    return scn_gemm_floats(&g);
}

static size_t scratch(const tape_node *n, int threads)
{
    const products p = products_of(n);
    size_t floats = floats_of(&p.y, threads);
    if (n->needs_grad[0])
        floats = op_larger(floats, floats_of(&p.dx, threads));
    if (n->needs_grad[1])
        floats = op_larger(floats, floats_of(&p.dw, threads));
    return p.weights + floats;
}

/* Of a direct convolution, zeros around the image included. */
static double flops(const tape_node *n)
{
    const products p = products_of(n);
    return 2.0 * (double)p.y.m * (double)p.y.n * (double)p.y.k;
}

const tape_op op_convolution_row = {
    .name = "convolution",
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .flops = flops,
    .matrix = 1,
    .backward_reads = 1 << 0 | 1 << 1,
};

tape_value *op_convolution(tape *t, tape_value *x, tape_value *w, tape_value *bias, int64_t stride, int64_t pad)
{
    if (!x || !w)
        return NULL;
    if (x->ndim != 4 || w->ndim != 4 || w->shape[1] != x->shape[3] || stride < 1 || pad < 0 || pad >= w->shape[2] ||
        pad >= w->shape[3] || x->shape[1] + 2 * pad < w->shape[2] || x->shape[2] + 2 * pad < w->shape[3]) {
        tape_fail(t,
                  "convolution: %s does not fit to images of %lld channels (channels last), or is larger than the "
                  "image with its border, or the border as wide as the kernel",
                  w->name, (long long)op_width(x));
        return NULL;
    }
    if (bias && bias->count != w->shape[0]) {
        tape_fail(t, "convolution: bias %s has %lld elements, %s has %lld filters", bias->name,
                  (long long)bias->count, w->name, (long long)w->shape[0]);
        return NULL;
    }
    tape_value *const in[] = {x, w, bias};
    const int64_t shape[] = {x->shape[0], out_size(x->shape[1], w->shape[2], stride, pad),
                             out_size(x->shape[2], w->shape[3], stride, pad), w->shape[0]};
    tape_node *n = tape_record(t, &op_convolution_row, 4, shape, in, 3);
    if (n) {
        n->ints[0] = stride;
        n->ints[1] = pad;
    }
    return op_result(n);
}
