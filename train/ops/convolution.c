/* 2-D convolution of images whose channels lie together, x (B, H, W, C_in), with w (C_out, C_in, kh, kw):
 *
 *     y[b, i, j, o] = bias[o] + sum over u, v, c of w[o, c, u, v] x[b, i s + u - p, j s + v - p, c]
 *
 * with stride s and p zeros around the image. For one pixel (i, j) of the result this is a product of matrices with
 * the images of the batch as rows: a line of its patch is kw C_in elements of x that follow each other, and rows are
 * an image apart. So nothing is copied, and pixels outside of the image are left out, a sixth of all products for
 * 3 x 3 kernels on 7 x 7 pixels. The gradient of x is the same with the kernel rotated by 180 degrees, and, where
 * s > 1, only every s-th pixel of dy; the gradient of w sums over the images, pixel by pixel:
 *
 *     dw[o, c, u, v] = sum over i, j of (sum over b of dy[b, i, j, o] x[b, i s + u - p, j s + v - p, c])
 *
 * dy and x are packed for a chunk of images at a time, pixel after pixel, so that adjacent pixels make one longer
 * sum. docs/numerics.md has the measurements.
 *
 * Computed in bfloat16, images are rounded once: x by the plan, or here (a batch's own pixels, and an odd number of
 * channels), dy here, for both gradients. A kernel that multiplies pairs takes them along the depth, so that pixels
 * there have an even number of channels, the last perhaps zero, and the images of a chunk are counted up to one. */
#include "ops/ops.h"

#include "base/arith.h"
#include "ops/parallel.h"

enum {
    max_depth = 256,      /* depth of a product: its part of the weights stays in the second-level cache */
    strips_per_block = 8, /* strips of weights, likewise */
    images_at_once = 64,  /* rows of a product */
    max_packed = 1 << 21, /* floats of dy and x together */
    max_slices = 32,      /* slices of the images, each with its own gradient of w, */
    max_sliced = 1 << 24, /* and their floats together */
};

/* ---- Source pixels ------------------------------------------------------------------------------------------- */

/* Pixel (i, j) of a result of rows x cols pixels reads, through tap (u, v) of a kernel, the pixel
 * ((i multiply + u - pad_y) / divide, (j multiply + v - pad_x) / divide) of an image of h x w pixels with c channels,
 * if it exists. */
typedef struct view {
    int64_t images, h, w, c;
    int64_t pixel;         /* elements from one pixel to the next: c, or one more (pixel_of) */
    int64_t rows, cols, n; /* of the result, and its channels */
    int64_t kh, kw, multiply, divide, pad_y, pad_x;
} view;

/* Source pixel in a line of `size` pixels; -1: none. */
static int64_t source(int64_t at, int64_t divide, int64_t size)
{
    return at >= 0 && at % divide == 0 && at / divide < size ? at / divide : -1;
}

static int64_t source_row(const view *s, int64_t i, int64_t u)
{
    return source(i * s->multiply + u - s->pad_y, s->divide, s->h);
}

/* The next of the places base + k step, k from *k on and below `limit`, that exist in a line of pixels; *col: its
 * pixel. Returns how many places see pixels side by side, if any do; 0: no more. */
static int64_t next_run(const view *s, int64_t base, int64_t step, int64_t limit, bool side_by_side, int64_t *k,
                        int64_t *col)
{
    for (; *k < limit; ++*k)
        if ((*col = source(base + *k * step - s->pad_x, s->divide, s->w)) >= 0)
            return side_by_side ? scn_min(limit - *k, s->w - *col) : 1;
    return 0;
}

/* The next taps, from *v on, through which column j sees pixels side by side. */
static int64_t next_taps(const view *s, int64_t j, int64_t *v, int64_t *col)
{
    return next_run(s, j * s->multiply, 1, s->kw, s->divide == 1, v, col);
}

/* The next columns, from *j on, that see pixels side by side through tap v. */
static int64_t next_columns(const view *s, int64_t v, int64_t *j, int64_t *col)
{
    return next_run(s, v, s->multiply, s->cols, s->multiply == 1, j, col);
}

/* Elements of a pixel of c channels where products read it. */
static int64_t pixel_of(const tape_node *n, int64_t c)
{
    return scn_round_up(c, scn_kernel_for(n->compute)->kr);
}

static view view_of_x(const tape_node *n)
{
    const int64_t *x = n->in[0]->shape, *w = n->in[1]->shape, *y = n->out->shape, pad = n->ints[1];
    return (view){x[0], x[1], x[2], x[3], pixel_of(n, x[3]), y[1], y[2], y[3], w[2], w[3], n->ints[0], 1, pad, pad};
}

static view view_of_dy(const tape_node *n)
{
    const int64_t *x = n->in[0]->shape, *w = n->in[1]->shape, *y = n->out->shape, pad = n->ints[1];
    return (view){y[0], y[1], y[2], y[3], pixel_of(n, y[3]), x[1],           x[2],
                  x[3], w[2], w[3], 1,    n->ints[0],        w[2] - 1 - pad, w[3] - 1 - pad};
}

/* ---- Images as products read them ------------------------------------------------------------------------------ */

/* Images: pixel after pixel, s->pixel elements each. */
typedef struct source_images {
    const void *at;
    scion_dtype type;
} source_images;

static const void *element(source_images from, int64_t i)
{
    return (const char *)from.at + scn_stored_bytes(from.type, i);
}

/* True if x is rounded here: it is there in float32 alone, or its pixels are no whole pairs. */
static bool rounds_x(const tape_node *n)
{
    const tape_value *x = n->in[0];
    return n->compute == SCION_BF16 && !(x->has_half && pixel_of(n, x->shape[3]) == x->shape[3]);
}

/* Floats of memory for a copy of the images of a view. */
static int64_t copy_floats(const view *s)
{
    return scn_round_up(scn_pieces(s->images * s->h * s->w * s->pixel, 2), 16);
}

/* The float32 images of a view, or their half, rounded into `copy`. */
static void round_pixels(const view *s, int64_t first, int64_t count, const float *from, const uint16_t *half,
                         uint16_t *copy)
{
    if (s->pixel == s->c && from) {
        scn_to_bf16(count * s->c, from + first * s->c, copy + first * s->c);
        return;
    }
    for (int64_t i = first; i < first + count; i++) {
        uint16_t *to = copy + i * s->pixel;
        if (half)
            memcpy(to, half + i * s->c, (size_t)s->c * sizeof *to);
        else
            scn_to_bf16(s->c, from + i * s->c, to);
        memset(to + s->c, 0, (size_t)(s->pixel - s->c) * sizeof *to);
    }
}

static source_images round_images(const view *s, const float *from, const uint16_t *half, float *memory, int threads)
{
    uint16_t *copy = (uint16_t *)(void *)memory;
    OP_PIECES(threads, s->images * s->h * s->w, s->c, first, count, round_pixels(s, first, count, from, half, copy));
    return (source_images){copy, SCION_BF16};
}

static source_images images_of_x(const tape_node *n, const view *s, float *memory, int threads)
{
    const tape_value *x = n->in[0];
    if (rounds_x(n))
        return round_images(s, x->half_only ? NULL : x->data, x->half_only ? x->half : NULL, memory, threads);
    return (source_images){op_operand(x, 0), op_operand_type(x)};
}

static source_images images_of_dy(const tape_node *n, const view *s, float *memory, int threads)
{
    if (n->compute == SCION_BF16)
        return round_images(s, n->out->grad, NULL, memory, threads);
    return (source_images){n->out->grad, SCION_F32};
}

/* ---- Products ------------------------------------------------------------------------------------------------- */

/* C (m x n) += A B, over `depth`; C is overwritten if not accumulate. Column blocks by columns, the depth by
 * passes. */
static void multiply(const scn_kernel *k, int64_t m, int64_t n, int64_t depth, scn_packed a, scn_packed b,
                     bool accumulate, float *c, int64_t ldc)
{
    const int64_t block = k->nr * strips_per_block,
                  pass = scn_round_up(scn_pieces(depth, scn_pieces(depth, max_depth * k->kr)), k->kr);
    for (int64_t j = 0; j < n; j += block)
        for (int64_t p = 0; p < depth; p += pass) {
            const scn_packed left = scn_packed_part(a, p, 0), right = scn_packed_part(b, p, j);
            k->multiply(m, scn_min(block, n - j), scn_min(pass, depth - p), 1, &left, &right, accumulate || p > 0,
                        c + j, ldc);
        }
}

/* ---- y, and the gradient of x --------------------------------------------------------------------------------- */

/* w as rows (u, v, c) of C_out elements; or, rotated by 180 degrees, as rows (u, v, o) of C_in: a strip of one tap at
 * a time, whose elements in memory are as far apart as there are taps. */
static void pack_tap(const scn_kernel *k, scn_packed to, const tape_value *w, bool rotated, int64_t pixel,
                     int64_t task)
{
    const int64_t taps = w->shape[2] * w->shape[3], n = w->shape[rotated ? 1 : 0], c = w->shape[rotated ? 0 : 1];
    const int64_t t = task % taps, j = task / taps * k->nr;
    const scn_operand tap = {
        w->data + (rotated ? taps - 1 - t : t), SCION_F32, c, n, !rotated, w->shape[1] * taps, taps};
    const scn_operand strip = scn_operand_part(tap, 0, j, c, scn_min(k->nr, n - j));
    const scn_packed at = scn_packed_part(to, t * pixel, j);
    k->pack_b(&at, &strip);
}

typedef struct job {
    const scn_kernel *kernel;
    view s;
    scn_packed weights; /* kh kw pixel x n */
    source_images from;
    const float *bias;
    float *to;
    bool accumulate, many; /* threads */
    int64_t step;          /* images at a time */
    float *left;           /* of each thread: lines of patches that the kernel does not read where they are */
    int64_t left_floats;
} job;

/* Floats of such lines of `step` images; 0: the kernel reads images where they are. */
static int64_t line_floats(const scn_kernel *k, const view *s, scion_dtype type, int64_t step)
{
    const scn_operand any = {NULL, type, step, s->kw * s->pixel, false, s->pixel, 1};
    return k->reads(&any) ? 0 : scn_round_up((int64_t)k->a_floats(step, s->kw * s->pixel), 16);
}

static scn_packed lines_of(const job *t, scn_operand x)
{
    if (t->left_floats == 0)
        return scn_packed_in_place(&x);
    const scn_packed to =
        scn_packed_of(t->left + (t->many ? scn_thread_index() : 0) * t->left_floats, x.cols, x.rows);
    t->kernel->pack_a(&to, &x);
    return to;
}

/* Pixel (i, j) of `count` images from `first` on. */
static void convolve_pixel(const job *t, int64_t first, int64_t count, int64_t i, int64_t j)
{
    const view *s = &t->s;
    const int64_t image = s->h * s->w * s->pixel, ldc = s->rows * s->cols * s->n;
    float *to = t->to + ((first * s->rows + i) * s->cols + j) * s->n;
    bool begun = t->accumulate;
    for (int64_t u = 0; u < s->kh; u++) {
        const int64_t row = source_row(s, i, u);
        int64_t col, taps;
        for (int64_t v = 0; row >= 0 && (taps = next_taps(s, j, &v, &col)) > 0; v += taps) {
            const scn_operand x = {element(t->from, ((first * s->h + row) * s->w + col) * s->pixel),
                                   t->from.type,
                                   count,
                                   taps * s->pixel,
                                   false,
                                   image,
                                   1};
            multiply(t->kernel, count, s->n, taps * s->pixel, lines_of(t, x),
                     scn_packed_part(t->weights, (u * s->kw + v) * s->pixel, 0), begun, to, ldc);
            begun = true;
        }
    }
    for (int64_t b = 0; b < count && (!begun || t->bias); b++) {
        if (!begun)
            memset(to + b * ldc, 0, (size_t)s->n * sizeof *to);
        if (t->bias)
            op_add_to(s->n, t->bias, to + b * ldc);
    }
}

/* One line of the result, for a chunk of images. */
static void convolve_line(const job *t, int64_t task)
{
    const int64_t first = task / t->s.rows * t->step, i = task % t->s.rows;
    for (int64_t j = 0; j < t->s.cols; j++)
        convolve_pixel(t, first, scn_min(t->step, t->s.images - first), i, j);
}

static int64_t weight_floats(const scn_kernel *k, const view *s)
{
    return scn_round_up((int64_t)k->b_floats(s->n, s->kh * s->kw * s->pixel), 16);
}

/* Images at a time. */
static int64_t step_of(const scn_kernel *k, const view *s)
{
    return scn_round_up(scn_pieces(s->images, scn_pieces(s->images, images_at_once)), k->mr);
}

static size_t convolve_floats(const scn_kernel *k, const view *s, scion_dtype type, int threads)
{
    return (size_t)(weight_floats(k, s) + (threads > 1 ? threads : 1) * line_floats(k, s, type, step_of(k, s)));
}

/* t says of what; memory: convolve_floats. */
static void convolve(job t, const tape_value *w, bool rotated, float *memory, int threads)
{
    const scn_kernel *k = t.kernel;
    const view *s = &t.s;
    const int64_t taps = s->kh * s->kw;
    t.weights = scn_packed_of(memory, taps * s->pixel, s->n);
    t.step = step_of(k, s);
    t.left = memory + weight_floats(k, s);
    t.left_floats = line_floats(k, s, t.from.type, t.step);
    t.many = threads > 1;
    SCN_PARALLEL(threads, i, taps * scn_pieces(s->n, k->nr), pack_tap(k, t.weights, w, rotated, s->pixel, i));
    SCN_PARALLEL(threads, i, scn_pieces(s->images, t.step) * s->rows, convolve_line(&t, i));
}

/* ---- The gradient of w ---------------------------------------------------------------------------------------- */

/* Division of the images into chunks and slices. */
typedef struct cut {
    int64_t chunk;  /* images that are packed together */
    int64_t slices; /* of so many chunks each: */
    int64_t chunks;
    int64_t dy, x; /* floats of what is packed */
} cut;

static cut cut_of(const scn_kernel *k, const view *s)
{
    const int64_t dw = s->n * s->kh * s->kw * s->c, c = scn_round_up(s->c, k->nr), n = scn_round_up(s->n, k->mr);
    const int64_t image = s->rows * s->cols * n + s->h * s->w * c;
    const int64_t most = scn_min(s->images, 1 + (max_packed - 1) / image);
    const int64_t wanted = scn_pieces(max_depth, s->multiply > 1 ? 4 : s->cols); /* for a sum of about max_depth */
    cut t = {.chunk = scn_min(wanted, most)};
    t.chunk = scn_pieces(s->images, scn_pieces(s->images, t.chunk));
    const int64_t chunks = scn_pieces(s->images, t.chunk),
                  slices = scn_min(scn_min(chunks, max_slices), 1 + max_sliced / dw);
    t.chunks = scn_pieces(chunks, slices);
    t.slices = scn_pieces(chunks, t.chunks);
    const int64_t depth = scn_round_up(t.chunk, k->kr);
    t.dy = scn_round_up((int64_t)k->a_floats(s->n, s->rows * s->cols * depth), 16);
    t.x = scn_round_up((int64_t)k->b_floats(s->c, s->h * s->w * depth), 16);
    return t;
}

static size_t gradient_floats(const scn_kernel *k, const view *s, int threads)
{
    const cut t = cut_of(k, s);
    const int64_t dw = scn_round_up(s->n * s->kh * s->kw * s->c, 16);
    return (size_t)(t.slices * dw + (threads > 1 ? threads : 1) * (t.dy + t.x));
}

/* `count` images from `first` on, pixel after pixel, so that adjacent pixels follow each other in the depth: dy as
 * rows of channels, x as columns. A pixel takes `depth` of it: count, or one more, which packing makes zero. */
static void pack_dy(const scn_kernel *k, const view *s, int64_t first, int64_t count, source_images dy, int64_t pixel,
                    int64_t depth, scn_packed out)
{
    const int64_t pixels = s->rows * s->cols;
    for (int64_t p = 0; p < pixels; p++) {
        const scn_packed to = scn_packed_part(out, p * depth, 0);
        k->pack_a(&to, &(scn_operand){element(dy, (first * pixels + p) * pixel), dy.type, s->n, count, true,
                                      pixels * pixel, 1});
    }
}

static void pack_x(const scn_kernel *k, const view *s, int64_t first, int64_t count, source_images x, int64_t depth,
                   scn_packed out)
{
    const int64_t pixels = s->h * s->w;
    for (int64_t p = 0; p < pixels; p++) {
        const scn_packed to = scn_packed_part(out, p * depth, 0);
        k->pack_b(&to, &(scn_operand){element(x, (first * pixels + p) * s->pixel), x.type, count, s->c, false,
                                      pixels * s->pixel, 1});
    }
}

/* Adds the products of packed images, `depth` of each pixel, to dw as rows o of (u, v, c). */
static void add_chunk(const scn_kernel *k, const view *s, int64_t depth, scn_packed dy, scn_packed x, float *dw)
{
    const int64_t row_floats = s->kh * s->kw * s->c;
    for (int64_t u = 0; u < s->kh; u++)
        for (int64_t v = 0; v < s->kw; v++)
            for (int64_t i = 0; i < s->rows; i++) {
                const int64_t row = source_row(s, i, u);
                int64_t col, columns;
                for (int64_t j = 0; row >= 0 && (columns = next_columns(s, v, &j, &col)) > 0; j += columns)
                    multiply(k, s->n, s->c, columns * depth, scn_packed_part(dy, (i * s->cols + j) * depth, 0),
                             scn_packed_part(x, (row * s->w + col) * depth, 0), true, dw + (u * s->kw + v) * s->c,
                             row_floats);
            }
}

typedef struct gradient_job {
    const scn_kernel *kernel;
    view s;
    cut how;
    source_images x, dy;
    int64_t dy_pixel; /* elements from one pixel of dy to the next */
    float *slices, *packed;
    bool many; /* threads */
} gradient_job;

static void add_slice(const gradient_job *t, int64_t slice)
{
    const view *s = &t->s;
    const cut *how = &t->how;
    const int64_t floats = s->n * s->kh * s->kw * s->c;
    float *dw = t->slices + slice * scn_round_up(floats, 16);
    float *packed = t->packed + (t->many ? scn_thread_index() : 0) * (how->dy + how->x);
    memset(dw, 0, (size_t)floats * sizeof *dw);
    for (int64_t i = slice * how->chunks; i < (slice + 1) * how->chunks && i * how->chunk < s->images; i++) {
        const int64_t first = i * how->chunk, count = scn_min(how->chunk, s->images - first);
        const int64_t depth = scn_round_up(count, t->kernel->kr);
        const scn_packed dy = scn_packed_of(packed, s->rows * s->cols * depth, s->n),
                         x = scn_packed_of(packed + how->dy, s->h * s->w * depth, s->c);
        pack_dy(t->kernel, s, first, count, t->dy, t->dy_pixel, depth, dy);
        pack_x(t->kernel, s, first, count, t->x, depth, x);
        add_chunk(t->kernel, s, depth, dy, x, dw);
    }
}

/* dw of filter o: the sum of the slices, from (u, v, c) to (c, u, v). */
static void add_filter(const gradient_job *t, int64_t o, bool accumulate, float *dw)
{
    const int64_t taps = t->s.kh * t->s.kw, c = t->s.c, size = taps * c, stride = scn_round_up(t->s.n * size, 16);
    for (int64_t i = 0; i < taps; i++)
        for (int64_t j = 0; j < c; j++) {
            float sum = 0;
            for (int64_t s = 0; s < t->how.slices; s++)
                sum += t->slices[s * stride + o * size + i * c + j];
            op_put(accumulate, dw + o * size + j * taps + i, sum);
        }
}

static void weight_gradient(const tape_node *n, const tape_run *run, source_images x, source_images dy, float *memory)
{
    const scn_kernel *k = scn_kernel_for(n->compute);
    const view s = view_of_x(n);
    const cut how = cut_of(k, &s);
    const gradient_job t = {.kernel = k,
                            .s = s,
                            .how = how,
                            .x = x,
                            .dy = dy,
                            .dy_pixel = pixel_of(n, s.n),
                            .slices = memory,
                            .packed = memory + how.slices * scn_round_up(n->in[1]->count, 16),
                            .many = run->threads > 1};
    SCN_PARALLEL(run->threads, i, how.slices, add_slice(&t, i));
    SCN_PARALLEL(run->threads, i, s.n, add_filter(&t, i, n->accumulate[1], n->in[1]->grad));
}

/* ---- The operator --------------------------------------------------------------------------------------------- */

/* The memory begins with the rounded copies of x and dy. */
static int64_t x_floats(const tape_node *n)
{
    const view s = view_of_x(n);
    return rounds_x(n) ? copy_floats(&s) : 0;
}

static int64_t dy_floats(const tape_node *n)
{
    const view s = view_of_dy(n);
    return n->compute == SCION_BF16 ? copy_floats(&s) : 0;
}

static void forward(const tape_node *n, const tape_run *run)
{
    const view s = view_of_x(n);
    const job t = {.kernel = scn_kernel_for(n->compute),
                   .s = s,
                   .from = images_of_x(n, &s, run->scratch, run->threads),
                   .bias = n->in[2] ? n->in[2]->data : NULL,
                   .to = n->out->data};
    convolve(t, n->in[1], false, run->scratch + x_floats(n), run->threads);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *bias = n->in[2];
    const view of_x = view_of_x(n), of_dy = view_of_dy(n);
    float *memory = run->scratch + x_floats(n) + dy_floats(n);
    const bool products = n->needs_grad[0] || n->needs_grad[1];
    source_images x = {NULL, SCION_F32}, dy = {NULL, SCION_F32};
    if (products)
        dy = images_of_dy(n, &of_dy, run->scratch + x_floats(n), run->threads);
    if (n->needs_grad[1])
        x = images_of_x(n, &of_x, run->scratch, run->threads);
    const job t = {.kernel = scn_kernel_for(n->compute),
                   .s = of_dy,
                   .from = dy,
                   .to = n->in[0]->grad,
                   .accumulate = n->accumulate[0]};
    if (n->needs_grad[0])
        convolve(t, n->in[1], true, memory, run->threads);
    if (n->needs_grad[1])
        weight_gradient(n, run, x, dy, memory);
    if (bias && n->needs_grad[2])
        op_sum_rows(run->threads, op_rows(n->out), op_width(n->out), 1, n->out->grad, n->accumulate[2], bias->grad);
}

static size_t scratch(const tape_node *n, int threads)
{
    const scn_kernel *k = scn_kernel_for(n->compute);
    const view of_x = view_of_x(n), of_dy = view_of_dy(n);
    const size_t copies = (size_t)(x_floats(n) + (n->needs_grad[0] || n->needs_grad[1] ? dy_floats(n) : 0));
    size_t floats = convolve_floats(k, &of_x, n->compute, threads);
    if (n->needs_grad[0])
        floats = scn_max_size(floats, convolve_floats(k, &of_dy, n->compute, threads));
    if (n->needs_grad[1])
        floats = scn_max_size(floats, gradient_floats(k, &of_x, threads));
    return copies + floats;
}

/* Operations of a direct convolution, zeros around the image included. */
static double flops(const tape_node *n)
{
    return 2.0 * (double)n->out->count * (double)(n->in[1]->count / n->in[1]->shape[0]);
}

const tape_op op_convolution_row = {
    .name = "convolution",
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .flops = flops,
    .matrix = 1,
    .backward_reads = 1 << 0 | 1 << 1,
    .operands = 1 << 0,
};

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad)
{
    return (in + 2 * pad - kernel) / stride + 1;
}

tape_value *op_convolution(tape *t, tape_value *x, tape_value *w, tape_value *bias, int64_t stride, int64_t pad)
{
    if (!x || !w)
        return NULL;
    if (x->ndim != 4 || w->ndim != 4 || w->shape[1] != x->shape[3] || stride < 1 || pad < 0 || pad >= w->shape[2] ||
        pad >= w->shape[3] || x->shape[1] + 2 * pad < w->shape[2] || x->shape[2] + 2 * pad < w->shape[3])
        return tape_fail(
            t,
            "convolution: %s does not match images of %lld channels (channels last), or is larger than the "
            "image with its border, or the border as wide as the kernel",
            w->name, (long long)op_width(x));
    if (bias && bias->count != w->shape[0])
        return tape_fail(t, "convolution: bias %s has %lld elements, %s has %lld filters", bias->name,
                         (long long)bias->count, w->name, (long long)w->shape[0]);
    const int64_t shape[] = {x->shape[0], out_size(x->shape[1], w->shape[2], stride, pad),
                             out_size(x->shape[2], w->shape[3], stride, pad), w->shape[0]};
    const tape_node n = {.op = &op_convolution_row, .in = {x, w, bias}, .ints = {stride, pad}};
    return tape_record(t, &n, 4, shape);
}
