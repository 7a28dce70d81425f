/* See parallel.h. */
#include "ops/parallel.h"

void op_fill_rows(int threads, int64_t rows, int64_t cols, const float *line, float *y)
{
    const op_pieces p = op_split(threads, rows, cols);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t r = 0; r < op_piece_rows(&p, i); r++)
            memcpy(y + (i * p.step + r) * cols, line, (size_t)cols * sizeof *y);
}

/* Columns that one iteration sums: wide enough to read whole cache lines, and the sums stay in registers. */
enum { columns_at_once = 64 };

/* Eight rows are summed before they are added to the sum so far: shorter chains, smaller errors. */
SCN_CLONES static void add_columns(int64_t rows, int64_t cols, int64_t stride, float factor, const float *x,
                                   bool accumulate, float *sums)
{
    float total[columns_at_once] = {0};
    for (int64_t r = 0; r < rows; r += 8) {
        const int64_t end = r + 8 < rows ? r + 8 : rows;
        float part[columns_at_once] = {0};
        for (int64_t i = r; i < end; i++) {
            SCN_SIMD
            for (int64_t j = 0; j < cols; j++)
                part[j] += x[i * stride + j];
        }
        SCN_SIMD
        for (int64_t j = 0; j < cols; j++)
            total[j] += part[j];
    }
    for (int64_t j = 0; j < cols; j++)
        sums[j] = (accumulate ? sums[j] : 0) + factor * total[j];
}

void op_sum_rows(int threads, int64_t rows, int64_t cols, float factor, const float *x, bool accumulate, float *sums)
{
    const int64_t blocks = (cols + columns_at_once - 1) / columns_at_once;
    if (op_split(threads, rows, cols).threads == 1)
        threads = 1;
    SCN_PARALLEL_FOR_STATIC(threads)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = i * columns_at_once;
        const int64_t width = cols - first < columns_at_once ? cols - first : columns_at_once;
        add_columns(rows, width, cols, factor, x + first, accumulate, sums + first);
    }
}

SCN_INLINE void scale_loop(bool accumulate, int64_t n, float factor, const float *x, float *z)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        op_put(accumulate, z + i, factor * x[i]);
}

SCN_CLONES static void scale(int64_t n, float factor, const float *x, bool accumulate, float *z)
{
    OP_WITH_FLAG(accumulate, scale_loop, n, factor, x, z);
}

void op_scale(int threads, int64_t n, float factor, const float *x, bool accumulate, float *z)
{
    const op_pieces p = op_split(threads, n, 1);
    SCN_PARALLEL_FOR_STATIC(p.threads)
    for (int64_t i = 0; i < p.count; i++)
        scale(op_piece_rows(&p, i), factor, x + i * p.step, accumulate, z + i * p.step);
}
