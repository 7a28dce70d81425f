/* Squares of pixels as lines, x (B, H, W, C):
 *
 *     y[b, (i, j), (c, u, v)] = x[b, i size + u, j size + v, c]
 *
 * in the order of a convolution's weights (C_out, C, size, size): a linear layer on y is the convolution whose kernel
 * is as large as its stride. Every pixel is in one square, so dx is dy in the other order. */
#include "ops/ops.h"

#include "ops/parallel.h"

typedef struct sizes {
    int64_t w, c, size, across; /* pixels and squares in a row */
    int64_t line, strip;        /* elements of a square; of a row of squares, which are `size` whole rows of pixels */
} sizes;

static sizes sizes_of(const tape_node *n)
{
    const int64_t *x = n->in[0]->shape, size = n->ints[0];
    return (sizes){x[2], x[3], size, x[2] / size, x[3] * size * size, x[2] * x[3] * size};
}

/* Offset of element (u, v) of channel c of square j of a row of squares, from the row's first pixel. */
SCN_INLINE int64_t place(const sizes *s, int64_t j, int64_t c, int64_t u, int64_t v)
{
    return (u * s->w + j * s->size + v) * s->c + c;
}

static void cut_strip(const sizes *s, const float *x, float *y)
{
    for (int64_t j = 0; j < s->across; j++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t u = 0; u < s->size; u++)
                for (int64_t v = 0; v < s->size; v++)
                    *y++ = x[place(s, j, c, u, v)];
}

static void forward(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    OP_ROWS(run->threads, n->out->count / s.strip, s.strip, k,
            cut_strip(&s, n->in[0]->data + k * s.strip, n->out->data + k * s.strip));
}

static void join_strip(const sizes *s, const float *dy, bool accumulate, float *dx)
{
    for (int64_t j = 0; j < s->across; j++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t u = 0; u < s->size; u++)
                for (int64_t v = 0; v < s->size; v++)
                    op_put(accumulate, dx + place(s, j, c, u, v), *dy++);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const sizes s = sizes_of(n);
    if (n->needs_grad[0])
        OP_ROWS(run->threads, n->out->count / s.strip, s.strip, k,
                join_strip(&s, n->out->grad + k * s.strip, n->accumulate[0], n->in[0]->grad + k * s.strip));
}

const tape_op op_patches_row = {.name = "patches", .forward = forward, .backward = backward};

tape_value *op_patches(tape *t, tape_value *x, int64_t size)
{
    if (!x)
        return NULL;
    if (x->ndim != 4 || size < 1 || x->shape[1] % size != 0 || x->shape[2] % size != 0)
        return tape_fail(t, "patches of %lld x %lld pixels do not divide images of %lld x %lld", (long long)size,
                         (long long)size, (long long)x->shape[1], (long long)x->shape[2]);
    const int64_t count = x->shape[1] / size * (x->shape[2] / size);
    const int64_t shape[] = {x->shape[0], count, x->shape[3] * size * size};
    return tape_record(t, &(tape_node){.op = &op_patches_row, .in = {x}, .ints = {size}}, 3, shape);
}
