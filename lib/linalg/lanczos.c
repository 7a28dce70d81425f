/* sigma_max by the Lanczos process on AA' (or A'A, whichever is smaller), in double, with full
 * reorthogonalisation.
 *
 * Power iteration would do, but needs hundreds of products where singular values lie close together, as
 * they do in weights trained by a spectral lmo. The Krylov space of the same products holds a far better
 * approximation; with as many vectors as the short side has, it is exact. */
#include "linalg/lanczos.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/random.h"
#include "base/thread.h"
#include "linalg/vector.h"

enum { max_vectors = 80, strip_cols = 512 };

/* The eigenvalue is taken as settled when two more vectors change it by less than this, relative. */
static const double settled = 1e-10;

static int vectors(int64_t rows, int64_t cols)
{
    return (int)scn_min(scn_min(rows, cols), max_vectors);
}

size_t scn_lanczos_bytes(int64_t rows, int64_t cols)
{
    scn_arena count = {0};
    scn_take(&count, sizeof(double) * (size_t)scn_min(rows, cols) * (size_t)(vectors(rows, cols) + 1));
    scn_take(&count, sizeof(double) * (size_t)(rows + cols));
    return count.used;
}

/* 16 rows of y = A x. */
static void times_rows(scn_mat a, const double *x, double *y, int64_t first)
{
    for (int64_t i = first; i < a.rows && i < first + 16; i++)
        y[i] = scn_dot_double(a.cols, scn_row(a, i), x);
}

static void times(scn_mat a, const double *x, double *y, int threads)
{
    SCN_PARALLEL(threads, block, (a.rows + 15) / 16, times_rows(a, x, y, block * 16));
}

/* A strip of y = A' x. */
static void transposed_times_strip(scn_mat a, const double *x, double *y, int64_t first)
{
    const int64_t n = a.cols - first < strip_cols ? a.cols - first : strip_cols;
    memset(y + first, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < a.rows; i++)
        scn_add_double(n, x[i], scn_row(a, i) + first, y + first);
}

static void transposed_times(scn_mat a, const double *x, double *y, int threads)
{
    SCN_PARALLEL(threads, s, scn_pieces(a.cols, strip_cols), transposed_times_strip(a, x, y, s * strip_cols));
}

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Number of eigenvalues of the tridiagonal matrix below x (Sturm). */
static int below(int n, const double *diag, const double *off, double x)
{
    int count = 0;
    double q = 1;
    for (int i = 0; i < n; i++) {
        double beside = i > 0 ? off[i - 1] * off[i - 1] : 0;
        q = diag[i] - x - (q != 0 ? beside / q : beside / 1e-300);
        count += q < 0;
    }
    return count;
}

static double largest_eigenvalue(int n, const double *diag, const double *off)
{
    double low = 0, high = 0;
    for (int i = 0; i < n; i++)
        high = fmax(high, diag[i] + (i > 0 ? fabs(off[i - 1]) : 0) + (i + 1 < n ? fabs(off[i]) : 0));
    for (int i = 0; i < 100 && high - low > 1e-15 * high; i++) {
        double middle = 0.5 * (low + high);
        if (below(n, diag, off, middle) == n)
            high = middle;
        else
            low = middle;
    }
    return 0.5 * (low + high);
}

double scn_largest_singular_value(scn_mat a, scn_arena arena, int threads)
{
    const int64_t m = scn_min(a.rows, a.cols);
    const int max = vectors(a.rows, a.cols);
    double diag[max_vectors], off[max_vectors], before = 0, now = 0;
    double *v = scn_take(&arena, sizeof(double) * (size_t)m * (size_t)(max + 1));
    double *t = scn_take(&arena, sizeof(double) * (size_t)(a.rows + a.cols));
    double largest = scn_max_abs_mat(a, threads);
    if (largest == 0)
        return 0;
    if (a.rows * a.cols < 32768)
        threads = 1;
    for (int64_t i = 0; i < m; i++)
        v[i] = scn_uniform(1, 0, (uint64_t)i) - 0.5;
    double norm = sqrt(dot(m, v, v));
    for (int64_t i = 0; i < m; i++)
        v[i] /= norm;
    for (int k = 0; k < max; k++) {
        double *x = v + k * m, *y = x + m;
        if (a.rows <= a.cols) {
            transposed_times(a, x, t, threads);
            times(a, t, y, threads);
        } else {
            times(a, x, t, threads);
            transposed_times(a, t, y, threads);
        }
        diag[k] = dot(m, x, y);
        for (int pass = 0; pass < 2; pass++)
            for (int l = 0; l <= k; l++) {
                double c = dot(m, v + l * m, y);
                for (int64_t i = 0; i < m; i++)
                    y[i] -= c * v[l * m + i];
            }
        off[k] = sqrt(dot(m, y, y));
        double earlier = before;
        before = now;
        now = largest_eigenvalue(k + 1, diag, off);
        if (off[k] <= 1e-14 * now || (k > 3 && now - earlier <= settled * now))
            break;
        for (int64_t i = 0; i < m; i++)
            y[i] /= off[k];
    }
    return sqrt(now);
}
