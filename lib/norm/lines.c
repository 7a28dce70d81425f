/* See lines.h. Columns are taken in strips, so that rows are read in runs of cache lines and the sums of a
 * strip live on the stack. */
#include "norm/lines.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/thread.h"
#include "linalg/vector.h"

enum { strip = 512 };

static int64_t strip_width(scn_mat x, int64_t first)
{
    return x.cols - first < strip ? x.cols - first : strip;
}

/* norms[j] = 2-norm of column first + j, j < n. */
static void column_norms(scn_mat x, int64_t first, int64_t n, double *norms)
{
    memset(norms, 0, (size_t)n * sizeof *norms);
    for (int64_t i = 0; i < x.rows; i++)
        scn_add_squares(n, scn_row(x, i) + first, norms);
    for (int64_t j = 0; j < n; j++)
        norms[j] = sqrt(norms[j]);
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
        double norms[strip];
        int64_t n = strip_width(x, first);
        column_norms(x, first, n, norms);
        for (int64_t j = 0; j < n; j++) {
            *largest = fmax(*largest, norms[j]);
            *sum += norms[j];
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
    return along_rows(b) ? SCN_BY_ROW : SCN_BY_COL;
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

SCN_CLONES static void add_columns(int64_t n, const double *f, const float *x, double keep,
                                   float *z)
{
    if (keep == 0)
        for (int64_t j = 0; j < n; j++)
            z[j] = (float)(f[j] * (double)x[j]);
    else
        for (int64_t j = 0; j < n; j++)
            z[j] = (float)(keep * (double)z[j] + f[j] * (double)x[j]);
}

void scn_lines_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    if (along_rows(b)) {
        for (int64_t i = 0; i < s.rows; i++) {
            double norm = sqrt(scn_sum_squares(s.cols, scn_row(s, i)));
            scn_axpby(s.cols, multiplier(norm, step, b->c, w->eps), scn_row(s, i), keep, scn_row(z, i));
        }
        return;
    }
    for (int64_t first = 0; first < s.cols; first += strip) {
        double f[strip];
        int64_t n = strip_width(s, first);
        column_norms(s, first, n, f);
        for (int64_t j = 0; j < n; j++)
            f[j] = multiplier(f[j], step, b->c, w->eps);
        for (int64_t i = 0; i < s.rows; i++)
            add_columns(n, f, scn_row(s, i) + first, keep, scn_row(z, i) + first);
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
