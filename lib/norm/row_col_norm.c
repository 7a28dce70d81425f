/* ColNorm and RowNorm, the operator norms 1 -> RMS and RMS -> inf, are made of the 2-norms of the columns, or rows:
 *     size = largest,   dual size = sum,   direction = each column (row) over its 2-norm (0 for a zero one),
 *     c = sqrt(d_out)/d_in for columns, one-hot input sqrt(d_out);   c = 1/sqrt(d_in) for rows, one-hot input 1.
 * They share all but c. A transposed parameter exchanges them: an embedding table is stored transposed, so that its
 * columns are rows in memory.
 *
 * Columns are taken in tiles, so that rows are read in runs of cache lines. Where such a tile
 * does not stay in the cache (a tall block), threads share its rows instead of its columns: each slice of rows has
 * its own sums, added in order, so that the result does not depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/random.h"
#include "base/thread.h"
#include "linalg/stream.h"
#include "linalg/vector.h"
#include "norm/norm.h"

enum { tile_cols = 1024, slices = 16, tall_rows = 4096, sums_bytes = slices * tile_cols * (int)sizeof(double) };

static int64_t tile_width(scn_mat x, int64_t first)
{
    return scn_min(x.cols - first, tile_cols);
}

/* sums[j] = sum of the squares of column j. */
static void column_squares(scn_mat x, double *sums)
{
    memset(sums, 0, (size_t)x.cols * sizeof *sums);
    for (int64_t i = 0; i < x.rows; i++) {
        if (i + 1 < x.rows)
            scn_prefetch(x.cols, scn_row(x, i + 1));
        scn_add_squares(x.cols, scn_row(x, i), sums);
    }
}

/* The largest norm of the rows (or columns), and their sum. */
static void norms_of_part(scn_mat x, bool along_rows, double *largest, double *sum)
{
    *largest = *sum = 0;
    if (along_rows) {
        for (int64_t i = 0; i < x.rows; i++) {
            double norm = sqrt(scn_sum_squares(x.cols, scn_row(x, i)));
            *largest = fmax(*largest, norm);
            *sum += norm;
        }
        return;
    }
    for (int64_t first = 0; first < x.cols; first += tile_cols) {
        double squares[tile_cols];
        int64_t n = tile_width(x, first);
        column_squares(scn_sub(x, 0, first, x.rows, n), squares);
        for (int64_t j = 0; j < n; j++) {
            *largest = fmax(*largest, sqrt(squares[j]));
            *sum += sqrt(squares[j]);
        }
    }
}

/* `chunk` rows or columns of x, or the fewer that are left. */
static scn_mat part_of(scn_mat x, bool along_rows, int64_t first, int64_t chunk)
{
    const int64_t count = along_rows ? x.rows : x.cols;
    first = scn_min(first, count);
    const int64_t n = scn_min(count - first, chunk);
    return along_rows ? scn_sub(x, first, 0, n, x.cols) : scn_sub(x, 0, first, x.rows, n);
}

/* The same by threads, in parts whose bounds depend on the shape alone. */
static void norms_of(scn_mat x, bool along_rows, double *largest, double *sum, int threads)
{
    enum { parts = 64 };
    double part_largest[parts], part_sum[parts];
    const int64_t chunk = scn_pieces(along_rows ? x.rows : x.cols, parts);
    if (x.rows * x.cols < 32768)
        threads = 1;
    SCN_PARALLEL(threads, p, parts,
                 norms_of_part(part_of(x, along_rows, p * chunk, chunk), along_rows, &part_largest[p], &part_sum[p]));
    *largest = *sum = 0;
    for (int p = 0; p < parts; p++) {
        *largest = fmax(*largest, part_largest[p]);
        *sum += part_sum[p];
    }
}

static bool along_rows(const scn_block *b)
{
    return b->norm->along_rows != b->transposed;
}

static scn_granularity granularity(const scn_block *b)
{
    if (along_rows(b))
        return SCN_BY_ROW;
    return b->rows < tall_rows ? SCN_BY_COL : SCN_WHOLE;
}

static double size(const scn_block *b, scn_mat x, const scn_work *w)
{
    double largest, sum;
    norms_of(x, along_rows(b), &largest, &sum, w->threads);
    return largest;
}

static double dual_size(const scn_block *b, scn_mat s, const scn_work *w)
{
    double largest, sum;
    norms_of(s, along_rows(b), &largest, &sum, w->threads);
    return sum;
}

/* Factor of a row or column: -step / (norm / c + eps). */
static double multiplier(double norm, double step, double c, double eps)
{
    return norm > 0 ? -step / (norm / c + eps) : 0;
}

/* Factors power * rest of the columns of a tile. If all of them fit float32, power is not used. */
typedef struct factors {
    float power[tile_cols], rest[tile_cols];
    bool extreme;
} factors;

static void set_factor(factors *f, int64_t j, double value)
{
    const scn_factor parts = scn_factor_of(value);
    f->power[j] = parts.power;
    f->rest[j] = parts.rest;
    f->extreme = f->extreme || (value != 0 && !(fabs(value) > 1e-30 && fabs(value) < 1e30));
}

/* One row: z = beta z + power rest x. */
static void add_row(const factors *f, int64_t n, const float *x, double beta, float *z, bool stream)
{
    float scaled[tile_cols];
    if (f->extreme)
        scn_multiply(n, f->power, x, 0, scaled, false);
    scn_multiply(n, f->rest, f->extreme ? scaled : x, beta, z, stream);
}

static void rows_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    for (int64_t i = 0; i < s.rows; i++) {
        if (i + 1 < s.rows && beta != 0)
            scn_prefetch(s.cols, scn_row(z, i + 1));
        const double f = multiplier(sqrt(scn_sum_squares(s.cols, scn_row(s, i))), step, b->c, w->eps);
        if (w->stream)
            scn_stream(s.cols, f, scn_row(s, i), scn_row(z, i));
        else
            scn_axpby(s.cols, f, scn_row(s, i), beta, scn_row(z, i));
    }
}

/* Rows of slice k. */
static scn_mat slice(scn_mat x, int k)
{
    const int64_t first = x.rows * k / slices, end = x.rows * (k + 1) / slices;
    return scn_sub(x, first, 0, end - first, x.cols);
}

/* Rows of one slice. */
static void add_slice(const factors *f, scn_mat from, double beta, scn_mat to, bool stream)
{
    for (int64_t i = 0; i < from.rows; i++) {
        if (i + 1 < from.rows)
            scn_prefetch(from.cols, scn_row(from, i + 1));
        add_row(f, from.cols, scn_row(from, i), beta, scn_row(to, i), stream);
    }
    if (stream)
        scn_stream_end();
}

/* The sums of all slices, added in order. `parts`: tile_cols sums for each slice, which threads fill at the same
 * time; NULL: one slice after the other. */
static void sum_slices(scn_mat s, double *total, double (*parts)[tile_cols], int threads)
{
    memset(total, 0, (size_t)s.cols * sizeof *total);
    if (parts) {
        SCN_PARALLEL(threads, k, slices, column_squares(slice(s, (int)k), parts[k]));
    }
    for (int k = 0; k < slices; k++) {
        double here[tile_cols], *sums = parts ? parts[k] : here;
        if (!parts)
            column_squares(slice(s, k), sums);
        for (int64_t j = 0; j < s.cols; j++)
            total[j] += sums[j];
    }
}

/* One tile of columns, by threads that share its rows. */
static void cols_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    double sums[tile_cols];
    factors f = {.extreme = false};
    const bool tall = s.rows >= tall_rows;
    const int threads = tall ? w->threads : 1;
    scn_arena arena = w->arena;
    sum_slices(s, sums, tall ? scn_take(&arena, sums_bytes) : NULL, threads);
    for (int64_t j = 0; j < s.cols; j++)
        set_factor(&f, j, multiplier(sqrt(sums[j]), step, b->c, w->eps));
    for (int64_t j = 0; j < s.cols && !f.extreme; j++)
        f.rest[j] *= f.power[j];
    SCN_PARALLEL(threads, k, slices, add_slice(&f, slice(s, (int)k), beta, slice(z, (int)k), w->stream));
}

/* Divides each row (column) by its norm / c + eps. Here z may be s itself. */
static void lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    if (along_rows(b)) {
        rows_lmo(b, z, beta, step, s, w);
        return;
    }
    for (int64_t first = 0; first < s.cols; first += tile_cols) {
        int64_t n = tile_width(s, first);
        cols_lmo(b, scn_sub(z, 0, first, z.rows, n), beta, step, scn_sub(s, 0, first, s.rows, n), w);
    }
}

/* For the sums of a tall block. */
static size_t memory(const scn_block *b, scn_use use, const scn_work *w)
{
    (void)w;
    const bool needed = use == SCN_USE_LMO || use == SCN_USE_INIT;
    return needed && !along_rows(b) && b->rows >= tall_rows ? sums_bytes : 0;
}

/* Gaussian rows (columns) of the right length. */
static void init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w)
{
    const uint64_t stream = scn_stream_boundary(start.param, start.block, 0, false);
    const int64_t even = (z.cols + 1) / 2 * 2;
    scn_work exact = *w;
    exact.eps = 0;
    for (int64_t i = 0; i < z.rows; i++)
        scn_normals(start.seed, stream, i * even, z.cols, scn_row(z, i));
    lmo(b, z, 0, -radius, z, &exact);
}

static double col_factor(int role, scn_dims d)
{
    if (role == SCION_ROLE_PLAIN)
        return 1;
    return role == SCION_ROLE_ONEHOT ? sqrt(d.d_out) : sqrt(d.d_out) / (d.d_in * d.positions);
}

static double row_factor(int role, scn_dims d)
{
    return role == SCION_ROLE_ONEHOT || role == SCION_ROLE_PLAIN ? 1 : 1 / sqrt(d.d_in * d.positions);
}

const scn_norm scn_norm_col = {
    .about = {sizeof(scion_norm_properties), "colnorm", "1 -> RMS: largest column", 0, 0},
    .factor = col_factor,
    .granularity = granularity,
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
    .init = init,
    .memory = memory,
};

const scn_norm scn_norm_row = {
    .about = {sizeof(scion_norm_properties), "rownorm", "RMS -> inf: largest row", 0, 0},
    .along_rows = true,
    .factor = row_factor,
    .granularity = granularity,
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
    .init = init,
    .memory = memory,
};
