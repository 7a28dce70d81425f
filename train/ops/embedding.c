/* y_n = table[tokens_n]: rows of a table (V, C), one for each token.
 *
 *     dtable_v += sum of dy_n over the n with tokens_n = v
 *
 * In backward each iteration owns a range of columns and goes through all tokens in order, so that no other thread
 * adds to the same element and sums do not depend on the number of threads. A bfloat16 gradient is added to once per
 * pass: the rows of a token are summed in float32 first, in order. A token outside 0..V-1 gives a row of NaN, which
 * the loss shows. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

static void read_row(const tape_value *table, int64_t token, float *y)
{
    const int64_t width = op_width(table);
    if (token < 0 || token >= table->shape[0])
        for (int64_t j = 0; j < width; j++)
            y[j] = NAN;
    else if (table->half)
        scn_from_bf16(width, table->half + token * width, y);
    else
        memcpy(y, table->data + token * width, (size_t)width * sizeof *y);
}

static void forward(const tape_node *n, const tape_run *run)
{
    const tape_value *tokens = n->in[0], *table = n->in[1];
    const int64_t width = op_width(table);
    OP_ROWS(run->threads, tokens->count, width, r, read_row(table, tokens->ints[r], n->out->data + r * width));
}

/* Columns per iteration: one iteration per thread, in whole cache lines. */
static int64_t columns_at_once(int64_t width, int threads)
{
    const int64_t line = 16, lines = (width + line - 1) / line;
    return (lines + threads - 1) / threads * line;
}

/* Scratch memory of a bfloat16 gradient: the first row of each token, the next row of the same token for each row
 * (-1: none), and a row of sums. */
static size_t scratch(const tape_node *n, int threads)
{
    const tape_value *table = n->in[1];
    (void)threads;
    if (!n->needs_grad[1] || table->grad_type == SCION_F32)
        return 0;
    return (size_t)(table->shape[0] + n->in[0]->count + op_width(table));
}

static void link_rows(const tape_value *tokens, int64_t vocab, int32_t *first, int32_t *next)
{
    for (int64_t v = 0; v < vocab; v++)
        first[v] = -1;
    for (int64_t r = tokens->count - 1; r >= 0; r--) {
        const int64_t token = tokens->ints[r];
        next[r] = -1;
        if (token >= 0 && token < vocab) {
            next[r] = first[token];
            first[token] = (int32_t)r;
        }
    }
}

/* Adds the rows of a token from r on, `cols` columns from column `at` on, to the table's gradient. */
static void add_half(const tape_node *n, const scn_rounding *how, int64_t r, int64_t at, int64_t cols,
                     const int32_t *next, float *sums)
{
    const int64_t width = op_width(n->in[1]), first = n->in[0]->ints[r] * width + at;
    uint16_t *grad = n->in[1]->half_grad + first;
    memset(sums, 0, (size_t)cols * sizeof *sums);
    for (; r >= 0; r = next[r])
        op_add_to(cols, n->out->grad + r * width + at, sums);
    scn_add_bf16(cols, grad, sums);
    scn_to_bf16_by(how, cols, sums, grad, first);
}

static void backward(const tape_node *n, const tape_run *run)
{
    const tape_value *tokens = n->in[0], *table = n->in[1];
    const int64_t width = op_width(table), vocab = table->shape[0];
    const int threads = op_split(run->threads, tokens->count, width).threads;
    const int64_t step = columns_at_once(width, threads), blocks = scn_pieces(width, step);
    const scn_rounding how = op_rounding(n, run, 0);
    int32_t *first = (int32_t *)(void *)run->scratch, *next = first + vocab;
    if (!n->needs_grad[1])
        return;
    if (table->half_grad)
        link_rows(tokens, vocab, first, next);
    else if (!n->accumulate[1])
        memset(table->grad, 0, (size_t)table->count * sizeof(float));
    SCN_PARALLEL_FOR_STATIC(threads, i, blocks) {
        const int64_t at = i * step, cols = scn_min(width - at, step);
        for (int64_t r = 0; r < tokens->count; r++) {
            const int64_t token = tokens->ints[r];
            if (token < 0 || token >= vocab)
                continue;
            if (!table->half_grad)
                op_add_to(cols, n->out->grad + r * width + at, table->grad + token * width + at);
            else if (first[token] == r)
                add_half(n, &how, r, at, cols, next, run->scratch + vocab + tokens->count + at);
        }
    }
}

const tape_op op_embedding_row = {.name = "embedding",
                                  .forward = forward,
                                  .backward = backward,
                                  .scratch = scratch,
                                  .half_params = 1 << 1,
                                  .matrix = 1};

tape_value *op_embedding(tape *t, tape_value *tokens, tape_value *table)
{
    if (!tokens || !table)
        return NULL;
    if (tokens->kind != TAPE_INTS || tokens->ndim >= TAPE_DIMS || table->ndim != 2)
        return tape_fail(t, "embedding: %s must hold integers and %s must be a matrix", tokens->name, table->name);
    int64_t shape[TAPE_DIMS];
    memcpy(shape, tokens->shape, sizeof shape);
    shape[tokens->ndim] = op_width(table);
    return tape_record(t, &(tape_node){.op = &op_embedding_row, .in = {tokens, table}}, tokens->ndim + 1, shape);
}
