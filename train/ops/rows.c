/* See rows.h. */
#include "ops/rows.h"

void op_fill_rows(int threads, int64_t rows, int64_t cols, const float *line, float *y)
{
    const op_pieces p = op_split(threads, rows, cols);
    OP_PARALLEL_FOR(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t r = 0; r < op_piece_rows(&p, i); r++)
            memcpy(y + (i * p.step + r) * cols, line, (size_t)cols * sizeof *y);
}

/* Columns that one turn sums: wide enough to read whole cache lines, and the sums stay in registers. */
enum { columns_per_turn = 64 };

/* Eight rows are summed before they are added to the sum so far: shorter chains, smaller errors. */
OP_CLONES static void add_columns(int64_t rows, int64_t cols, int64_t stride, float factor, const float *x,
                                  float keep, float *sums)
{
    float total[columns_per_turn] = {0};
    for (int64_t r = 0; r < rows; r += 8) {
        const int64_t end = r + 8 < rows ? r + 8 : rows;
        float part[columns_per_turn] = {0};
        for (int64_t i = r; i < end; i++) {
            OP_SIMD
            for (int64_t j = 0; j < cols; j++)
                part[j] += x[i * stride + j];
        }
        OP_SIMD
        for (int64_t j = 0; j < cols; j++)
            total[j] += part[j];
    }
    for (int64_t j = 0; j < cols; j++)
        sums[j] = (keep == 0 ? 0 : sums[j]) + factor * total[j];
}

void op_add_rows(int threads, int64_t rows, int64_t cols, float factor, const float *x, float keep, float *sums)
{
    const int64_t turns = (cols + columns_per_turn - 1) / columns_per_turn;
    if (op_split(threads, rows, cols).threads == 1)
        threads = 1;
    OP_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < turns; i++) {
        const int64_t first = i * columns_per_turn;
        const int64_t width = cols - first < columns_per_turn ? cols - first : columns_per_turn;
        add_columns(rows, width, cols, factor, x + first, keep, sums + first);
    }
}

OP_CLONES static void add_scaled(int64_t n, float factor, const float *x, float keep, float *z)
{
    if (keep == 0) {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            z[i] = factor * x[i];
    } else {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            z[i] += factor * x[i];
    }
}

void op_add_scaled(int threads, int64_t n, float factor, const float *x, float keep, float *z)
{
    const op_pieces p = op_split(threads, n, 1);
    OP_PARALLEL_FOR(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        add_scaled(op_piece_rows(&p, i), factor, x + i * p.step, keep, z + i * p.step);
}
