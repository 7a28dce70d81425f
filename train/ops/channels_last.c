/* y[b, i, j, c] = x[b, c, i, j]: images as data sets have them to images as operators want them. */
#include "ops/ops.h"

#include "ops/parallel.h"

/* `rows` rows of `cols` elements to columns. */
SCN_INLINE void turn_loop(bool accumulate, int64_t rows, int64_t cols, const float *x, float *y)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            op_put(accumulate, y + j * rows + i, x[i * cols + j]);
}

SCN_CLONES static void turn_image(int64_t rows, int64_t cols, const float *x, bool accumulate, float *y)
{
    OP_WITH_FLAG(accumulate, turn_loop, rows, cols, x, y);
}

/* Image by image. */
static void turn(int threads, int64_t images, int64_t rows, int64_t cols, const float *x, bool accumulate, float *y)
{
    const op_pieces p = op_split(threads, images, rows * cols);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t b = i * p.step; b < i * p.step + op_piece_rows(&p, i); b++)
            turn_image(rows, cols, x + b * rows * cols, accumulate, y + b * rows * cols);
}

static void forward(const tape_node *n, const tape_run *run)
{
    const int64_t *x = n->in[0]->shape;
    turn(run->threads, x[0], x[1], x[2] * x[3], n->in[0]->data, false, n->out->data);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const int64_t *x = n->in[0]->shape;
    if (n->needs_grad[0])
        turn(run->threads, x[0], x[2] * x[3], x[1], n->out->grad, n->accumulate[0], n->in[0]->grad);
}

const tape_op op_channels_last_row = {.name = "channels_last", .forward = forward, .backward = backward};

tape_value *op_channels_last(tape *t, tape_value *x)
{
    if (!x)
        return NULL;
    if (x->ndim != 4) {
        tape_fail(t, "channels_last: %s has %d dimensions, expected images: batch, channels, height, width", x->name,
                  x->ndim);
        return NULL;
    }
    tape_value *const in[] = {x};
    const int64_t shape[] = {x->shape[0], x->shape[2], x->shape[3], x->shape[1]};
    return op_result(tape_record(t, &op_channels_last_row, 4, shape, in, 1));
}
