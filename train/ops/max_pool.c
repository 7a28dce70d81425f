/* The largest of each size x size square of pixels, x (B, H, W, C):
 *
 *     y[b, i, j, c] = max over u, v < size of x[b, i size + u, j size + v, c]
 *
 * H and W are cut down to a multiple of size: pixels beyond are not read, and their gradient is zero. dy goes to the
 * first of the largest. A NaN counts as larger than all others, so that it is not lost.
 *
 * Saved: the number of the largest pixel, one byte each; the backward pass needs neither x nor y. */
#include "ops/ops.h"

#include "ops/parallel.h"

enum { max_size = 15 }; /* its square is below 256 */

typedef struct sizes {
    int64_t h, w, c, size, out_h, out_w;
} sizes;

static sizes sizes_of(const tape_node *n)
{
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    return (sizes){x[1], x[2], x[3], n->ints[0], y[1], y[2]};
}

/* Channels per chunk: the largest so far and its number stay in the cache. Numbers are floats, for lanes of one
 * width. */
enum { channels_at_once = 64 };

SCN_INLINE void take_larger(int64_t n, float number, const float *x, float *top, float *numbers)
{
    SCN_SIMD
    for (int64_t c = 0; c < n; c++) {
        const int larger = (x[c] > top[c]) | (x[c] != x[c]);
        numbers[c] = larger ? number : numbers[c];
        top[c] = larger ? x[c] : top[c];
    }
}

/* Up to channels_at_once channels of one pixel of y; x is that of the square's first pixel. which: NULL, or which one
 * it was. */
SCN_INLINE void pool_channels(const sizes *s, int64_t channels, const float *x, float *y, uint8_t *which)
{
    float numbers[channels_at_once] = {0};
    memcpy(y, x, (size_t)channels * sizeof *y);
    for (int64_t u = 0; u < s->size; u++)
        for (int64_t v = u > 0 ? 0 : 1; v < s->size; v++)
            take_larger(channels, (float)(u * s->size + v), x + (u * s->w + v) * s->c, y, numbers);
    for (int64_t c = 0; which && c < channels; c++)
        which[c] = (uint8_t)(int)numbers[c];
}

/* One line of y, from `size` lines of x. */
SCN_CLONES static void pool_line(const sizes *s, const float *x, float *y, uint8_t *which)
{
    for (int64_t j = 0; j < s->out_w; j++, x += s->size * s->c)
        for (int64_t c = 0; c < s->c; c += channels_at_once) {
            const int64_t at = j * s->c + c, left = s->c - c;
            if (left >= channels_at_once)
                pool_channels(s, channels_at_once, x + c, y + at, which ? which + at : NULL);
            else
                pool_channels(s, left, x + c, y + at, which ? which + at : NULL);
        }
}

static void forward(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    const int64_t line = s.out_w * s.c;
    const float *x = n->in[0]->data;
    uint8_t *which = (uint8_t *)n->saved;
    OP_ROWS(run->threads, n->out->count / line, line * s.size * s.size, r,
            pool_line(&s, x + (r / s.out_h * s.h + r % s.out_h * s.size) * s.w * s.c, n->out->data + r * line,
                      which ? which + r * line : NULL));
}

/* dx of one line of x, line k of its squares. */
SCN_INLINE void spread_loop(bool accumulate, const sizes *s, int64_t k, const float *dy, const uint8_t *which,
                            float *dx)
{
    const int64_t C = s->c, left = (s->w - s->out_w * s->size) * C;
    for (int64_t j = 0; j < s->out_w; j++, dy += C, which += C)
        for (int64_t v = 0; v < s->size; v++, dx += C) {
            const uint8_t own = (uint8_t)(k * s->size + v);
            SCN_SIMD
            for (int64_t c = 0; c < C; c++)
                op_put(accumulate, dx + c, which[c] == own ? dy[c] : 0);
        }
    if (!accumulate)
        memset(dx, 0, (size_t)left * sizeof *dx);
}

SCN_CLONES static void spread_line(const sizes *s, int64_t k, const float *dy, const uint8_t *which, bool accumulate,
                                   float *dx)
{
    OP_WITH_FLAG(accumulate, spread_loop, s, k, dy, which, dx);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    const int64_t line = s.w * s.c, out_line = s.out_w * s.c;
    const op_pieces p = op_split(run->threads, n->in[0]->count / line, line);
    if (!n->needs_grad[0])
        return;
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        for (int64_t r = i * p.step; r < i * p.step + op_piece_rows(&p, i); r++) {
            const int64_t y = r % s.h, at = (r / s.h * s.out_h + y / s.size) * out_line;
            float *dx = n->in[0]->grad + r * line;
            if (y < s.out_h * s.size)
                spread_line(&s, y % s.size, n->out->grad + at, (const uint8_t *)n->saved + at, n->accumulate[0], dx);
            else if (!n->accumulate[0])
                memset(dx, 0, (size_t)line * sizeof *dx);
        }
}

static size_t saved(const tape_node *n)
{
    return ((size_t)n->out->count + sizeof(float) - 1) / sizeof(float);
}

const tape_op op_max_pool_row = {.name = "max_pool", .forward = forward, .backward = backward, .saved = saved};

tape_value *op_max_pool(tape *t, tape_value *x, int64_t size)
{
    if (!x)
        return NULL;
    if (x->ndim != 4 || size < 1 || size > max_size || x->shape[1] < size || x->shape[2] < size)
        return tape_fail(t, "max_pool: squares of %lld pixels, expected images of at least that size and 1 to %d",
                         (long long)size, max_size);
    const int64_t shape[] = {x->shape[0], x->shape[1] / size, x->shape[2] / size, x->shape[3]};
    return tape_record(t, &(tape_node){.op = &op_max_pool_row, .in = {x}, .ints = {size}}, 4, shape);
}
