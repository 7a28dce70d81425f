/* y_n = table[tokens_n]: rows of a table (V, C), one for each token.
 *
 *     dtable_v += sum of dy_n over the n with tokens_n = v
 *
 * In backward each iteration owns a range of columns and goes through all tokens in order, so that nobody
 * else adds to the same element and sums do not depend on the number of threads. A token outside 0..V-1 gives a
 * row of NaN: the loss shows it. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *tokens = n->in[0], *table = n->in[1];
    const int64_t width = op_width(table), vocab = table->shape[0];
    const op_pieces p = op_split(run->threads, tokens->count, width);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t r = i * p.step; r < i * p.step + op_piece_rows(&p, i); r++) {
            const int64_t token = tokens->ints[r];
            float *y = n->out->data + r * width;
            if (token >= 0 && token < vocab)
                memcpy(y, table->data + token * width, (size_t)width * sizeof *y);
            else
                for (int64_t j = 0; j < width; j++)
                    y[j] = NAN;
        }
}

SCN_CLONES static void add_row(int64_t n, const float *x, float *z)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        z[i] += x[i];
}

/* Columns of an iteration: as many as give each thread one, in whole cache lines. */
static int64_t columns_at_once(int64_t width, int threads)
{
    const int64_t line = 16, lines = (width + line - 1) / line;
    return (lines + threads - 1) / threads * line;
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *tokens = n->in[0], *table = n->in[1];
    const int64_t width = op_width(table), vocab = table->shape[0];
    const int threads = op_split(run->threads, tokens->count, width).threads;
    const int64_t step = columns_at_once(width, threads), blocks = (width + step - 1) / step;
    if (!n->needs_grad[1])
        return;
    if (n->accumulate[1] == 0)
        memset(table->grad, 0, (size_t)table->count * sizeof(float));
    SCN_PARALLEL_FOR_STATIC(threads)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = i * step, cols = width - first < step ? width - first : step;
        for (int64_t r = 0; r < tokens->count; r++) {
            const int64_t token = tokens->ints[r];
            if (token >= 0 && token < vocab)
                add_row(cols, n->out->grad + r * width + first, table->grad + token * width + first);
        }
    }
}

const tape_op op_embedding_row = {.name = "embedding", .forward = forward, .backward = backward, .matrix = 1};

tape_value *op_embedding(tape *t, tape_value *tokens, tape_value *table)
{
    if (!tokens || !table)
        return NULL;
    if (tokens->kind != TAPE_INTS || tokens->ndim >= TAPE_DIMS || table->ndim != 2) {
        tape_fail(t, "embedding: %s must hold whole numbers and %s be a matrix", tokens->name, table->name);
        return NULL;
    }
    tape_value *const in[] = {tokens, table};
    int64_t shape[TAPE_DIMS];
    memcpy(shape, tokens->shape, sizeof shape);
    shape[tokens->ndim] = op_width(table);
    return op_result(tape_record(t, &op_embedding_row, tokens->ndim + 1, shape, in, 2));
}
