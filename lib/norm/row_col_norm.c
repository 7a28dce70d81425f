/* See row_col_norm.h. Columns are taken in strips, so that rows are read in runs of cache lines and the sums of a
 * strip live on the stack. Where a strip does not stay in the cache (a tall block), threads share its rows instead
 * of its columns: each slab of rows has its own sums, added in order, so that the result does not depend on the
 * number of threads. */
#include "norm/row_col_norm.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/thread.h"
#include "linalg/stream.h"
#include "linalg/vector.h"

enum { strip = 1024, slabs = 16, tall_rows = 4096 };

static int64_t strip_width(scn_mat x, int64_t first)
{
    return x.cols - first < strip ? x.cols - first : strip;
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

/* The largest norm of the lines, and their sum. */
static void survey(scn_mat x, bool along_rows, double *largest, double *sum)
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
    for (int64_t first = 0; first < x.cols; first += strip) {
        double squares[strip];
        int64_t n = strip_width(x, first);
        column_squares(scn_sub(x, 0, first, x.rows, n), squares);
        for (int64_t j = 0; j < n; j++) {
            *largest = fmax(*largest, sqrt(squares[j]));
            *sum += sqrt(squares[j]);
        }
    }
}

/* The same by threads: pieces of lines, whose bounds depend on the shape alone. */
static void survey_all(scn_mat x, bool along_rows, double *largest, double *sum, int threads)
{
    enum { pieces = 64 };
    double part_largest[pieces], part_sum[pieces];
    const int64_t lines = along_rows ? x.rows : x.cols, chunk = (lines + pieces - 1) / pieces;
    if (x.rows * x.cols < 32768)
        threads = 1;
    SCN_PARALLEL_FOR(threads)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t first = p * chunk < lines ? p * chunk : lines, n = lines - first < chunk ? lines - first : chunk;
        scn_mat part = along_rows ? scn_sub(x, first, 0, n, x.cols) : scn_sub(x, 0, first, x.rows, n);
        survey(part, along_rows, &part_largest[p], &part_sum[p]);
    }
    *largest = *sum = 0;
    for (int p = 0; p < pieces; p++) {
        *largest = fmax(*largest, part_largest[p]);
        *sum += part_sum[p];
    }
}

static bool along_rows(const scn_ball *b)
{
    return b->norm->rows != b->flip;
}

scn_grain scn_lines_grain(const scn_ball *b)
{
    if (along_rows(b))
        return SCN_BY_ROW;
    return b->rows < tall_rows ? SCN_BY_COL : SCN_WHOLE;
}

double scn_lines_size(const scn_ball *b, scn_mat x, const scn_work *w)
{
    double largest, sum;
    survey_all(x, along_rows(b), &largest, &sum, w->threads);
    return largest;
}

double scn_lines_dual(const scn_ball *b, scn_mat s, const scn_work *w)
{
    double largest, sum;
    survey_all(s, along_rows(b), &largest, &sum, w->threads);
    return sum;
}

/* -step / (norm / c + eps): what a line is multiplied by. */
static double multiplier(double norm, double step, double c, double eps)
{
    return norm > 0 ? -step / (norm / c + eps) : 0;
}

/* What the columns of a strip are multiplied by: power * rest. Where all of it fits float32, power is not used. */
typedef struct factors {
    float power[strip], rest[strip];
    bool extreme;
} factors;

static void set_factor(factors *f, int64_t j, double value)
{
    const scn_factor parts = scn_factor_of(value);
    f->power[j] = parts.power;
    f->rest[j] = parts.rest;
    f->extreme = f->extreme || (value != 0 && !(fabs(value) > 1e-30 && fabs(value) < 1e30));
}

/* One row: z = keep z + power rest x. */
static void add_row(const factors *f, int64_t n, const float *x, double keep, float *z, bool stream)
{
    float scaled[strip];
    if (f->extreme)
        scn_multiply(n, f->power, x, 0, scaled, false);
    scn_multiply(n, f->rest, f->extreme ? scaled : x, keep, z, stream);
}

static void rows_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    for (int64_t i = 0; i < s.rows; i++) {
        if (i + 1 < s.rows && keep != 0)
            scn_prefetch(s.cols, scn_row(z, i + 1));
        const double f = multiplier(sqrt(scn_sum_squares(s.cols, scn_row(s, i))), step, b->c, w->eps);
        if (w->stream)
            scn_stream(s.cols, f, scn_row(s, i), scn_row(z, i));
        else
            scn_axpby(s.cols, f, scn_row(s, i), keep, scn_row(z, i));
    }
}

/* Rows of slab k. */
static scn_mat slab(scn_mat x, int k)
{
    const int64_t first = x.rows * k / slabs, end = x.rows * (k + 1) / slabs;
    return scn_sub(x, first, 0, end - first, x.cols);
}

/* One strip of columns, by threads that share its rows. */
static void strip_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    double sums[slabs][strip];
    factors f = {.extreme = false};
    const int threads = s.rows < tall_rows ? 1 : w->threads;
    SCN_PARALLEL_FOR(threads)
    for (int k = 0; k < slabs; k++)
        column_squares(slab(s, k), sums[k]);
    for (int64_t j = 0; j < s.cols; j++) {
        double sum = 0;
        for (int k = 0; k < slabs; k++)
            sum += sums[k][j];
        set_factor(&f, j, multiplier(sqrt(sum), step, b->c, w->eps));
    }
    for (int64_t j = 0; j < s.cols && !f.extreme; j++)
        f.rest[j] *= f.power[j];
    SCN_PARALLEL_FOR(threads)
    for (int k = 0; k < slabs; k++) {
        scn_mat from = slab(s, k), to = slab(z, k);
        for (int64_t i = 0; i < from.rows; i++) {
            if (i + 1 < from.rows)
                scn_prefetch(from.cols, scn_row(from, i + 1));
            add_row(&f, from.cols, scn_row(from, i), keep, scn_row(to, i), w->stream);
        }
        if (w->stream)
            scn_stream_end();
    }
}

void scn_lines_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    if (along_rows(b)) {
        rows_lmo(b, z, keep, step, s, w);
        return;
    }
    for (int64_t first = 0; first < s.cols; first += strip) {
        int64_t n = strip_width(s, first);
        strip_lmo(b, scn_sub(z, 0, first, z.rows, n), keep, step, scn_sub(s, 0, first, s.rows, n), w);
    }
}

void scn_lines_init(const scn_ball *b, scn_mat z, double radius, uint64_t seed, uint64_t stream, const scn_work *w)
{
    const int64_t even = (z.cols + 1) / 2 * 2;
    scn_work exact = *w;
    exact.eps = 0;
    for (int64_t i = 0; i < z.rows; i++)
        scn_normals(seed, stream, i * even, z.cols, scn_row(z, i));
    scn_lines_lmo(b, z, 0, -radius, z, &exact);
}
