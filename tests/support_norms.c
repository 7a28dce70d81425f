/* The oracle's norms: Tables 2 to 4 of the paper in double precision.
 *
 * A parameter is a set of blocks; each block is a d_out x d_in matrix A (a convolution out x (in k...)) with
 * its own factor c(norm, role, d_out, d_in). With N the bare norm (sigma_max, largest column or row 2-norm,
 * largest entry, 2-norm of all) and N* its dual,
 *     norm(A) = N(A)/c,   dual(A) = c N*(A),   lmo(A) = -c direction(A),
 * and over the blocks the norm is the largest and the dual the sum. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct block {
    int64_t rows, cols; /* d_out x d_in as the paper has it */
    int64_t kernel;     /* positions of a convolution kernel, else 1 */
    int64_t *index;     /* index[i * cols + j]: where entry (i,j) is stored */
} block;

int64_t elements(const scion_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->shape[i];
    return n;
}

scion_param param_of(int32_t ndim, const int64_t *shape, scion_norm norm, scion_role role)
{
    scion_param p;
    scion_param_init(&p);
    p.ndim = ndim;
    for (int i = 0; i < ndim; i++)
        p.shape[i] = shape[i];
    p.norm = norm;
    p.role = role;
    return p;
}

scion_param matrix_of(int64_t rows, int64_t cols, scion_norm norm, scion_role role)
{
    return param_of(2, (int64_t[]){rows, cols}, norm, role);
}

const char *describe(const scion_param *p)
{
    static char text[160];
    int n = snprintf(text, sizeof text, "norm %d role %d shape ", (int)p->norm, (int)p->role);
    for (int i = 0; i < p->ndim; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? "x" : "", (long long)p->shape[i]);
    if (p->transposed)
        n += snprintf(text + n, sizeof text - (size_t)n, " transposed");
    if (p->split_count > 1)
        n += snprintf(text + n, sizeof text - (size_t)n, " split along %d into %d%s", (int)p->split_axis,
                      (int)p->split_count, p->split_sizes ? " unequal" : "");
    return text;
}

static int64_t block_count(const scion_param *p)
{
    return p->split_count > 1 ? p->split_count : 1;
}

static block block_of(const scion_param *p, int64_t b)
{
    int64_t rows = p->shape[0], n = elements(p), cols = n / rows, low = 0, size, axis = p->split_axis;
    int64_t along = axis == 0 ? rows : cols;
    size = along;
    if (block_count(p) > 1) {
        size = p->split_sizes ? p->split_sizes[b] : along / p->split_count;
        for (int64_t i = 0; i < b; i++)
            low += p->split_sizes ? p->split_sizes[i] : size;
    }
    int64_t i0 = axis == 0 ? low : 0, i1 = axis == 0 ? low + size : rows;
    int64_t j0 = axis == 1 ? low : 0, j1 = axis == 1 ? low + size : cols;
    block k = {.rows = i1 - i0, .cols = j1 - j0, .kernel = 1};
    for (int i = 2; i < p->ndim; i++)
        k.kernel *= p->shape[i];
    k.index = room((size_t)(k.rows * k.cols) * sizeof *k.index);
    if (p->transposed) {
        k.rows = j1 - j0;
        k.cols = i1 - i0;
    }
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++)
            k.index[p->transposed ? (j - j0) * k.cols + i - i0 : (i - i0) * k.cols + j - j0] = i * cols + j;
    return k;
}

/* The factor c: the header's table, which is Tables 3 and 4 of the paper and the appendix's Table 6. */
static double factor(const scion_param *p, const block *k)
{
    double out = (double)k->rows, in = (double)k->cols, positions = (double)k->kernel;
    int onehot = p->role == SCION_ROLE_ONEHOT;
    if (p->norm == SCION_NORM_RMS)
        return sqrt(out * in);
    if (p->norm == SCION_NORM_EUCLID || p->norm == SCION_NORM_MAX)
        return 1;
    if (p->role == SCION_ROLE_PLAIN)
        return 1;
    if (p->norm == SCION_NORM_SPECTRAL) {
        double ratio = sqrt(out / (in / positions));
        double c = onehot ? sqrt(out) : p->role == SCION_ROLE_INPUT ? fmax(1, ratio) : ratio;
        return c / positions;
    }
    if (p->norm == SCION_NORM_COL)
        return onehot ? sqrt(out) : sqrt(out) / in;
    if (p->norm == SCION_NORM_ROW)
        return onehot ? 1 : 1 / sqrt(in);
    return onehot ? 1 : 1 / in;
}

double oracle_scale(const scion_param *p)
{
    block k = block_of(p, 0);
    return factor(p, &k);
}

void oracle_block(const scion_param *p, int64_t *d_out, int64_t *d_in)
{
    block k = block_of(p, 0);
    *d_out = k.rows;
    *d_in = k.cols;
}

/* 2-norm of n entries a stride apart; scaled, so that 1e-160 and 1e+160 are as good as 1. */
static double norm2(int64_t n, const double *x, int64_t stride)
{
    double top = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs(x[i * stride]));
    if (top == 0)
        return 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i * stride] / top) * (x[i * stride] / top);
    return top * sqrt(sum);
}

/* The lines whose 2-norms a norm speaks of: columns, rows, single entries, or everything. */
static void lines_of(scion_norm norm, const block *k, int64_t *count, int64_t *length, int64_t *step, int64_t *stride)
{
    int64_t n = k->rows * k->cols;
    *step = *stride = 1;
    if (norm == SCION_NORM_COL) {
        *count = k->cols, *length = k->rows, *stride = k->cols;
    } else if (norm == SCION_NORM_ROW) {
        *count = k->rows, *length = k->cols, *step = k->cols;
    } else if (norm == SCION_NORM_SIGN || norm == SCION_NORM_MAX) {
        *count = n, *length = 1;
    } else {
        *count = 1, *length = n;
    }
}

static double bare_norm(scion_norm norm, const block *k, const double *a, int dual)
{
    double value = 0;
    if (norm == SCION_NORM_SPECTRAL) {
        double *sigma = singular_values(k->rows, k->cols, a);
        int64_t m = k->rows < k->cols ? k->rows : k->cols;
        for (int64_t i = 0; i < m; i++)
            value = dual ? value + sigma[i] : fmax(value, sigma[i]);
        return value;
    }
    int64_t count, length, step, stride;
    lines_of(norm, k, &count, &length, &step, &stride);
    for (int64_t i = 0; i < count; i++) {
        double line = norm2(length, a + i * step, stride);
        value = dual ? value + line : fmax(value, line);
    }
    return value;
}

/* U V', or each line over its 2-norm; a zero line stays zero. */
static void direction(scion_norm norm, const block *k, int steps, const double *a, double *out)
{
    if (norm == SCION_NORM_SPECTRAL) {
        if (steps == EXACT)
            oracle_polar(k->rows, k->cols, a, 1e-6, out);
        else
            oracle_quintic(k->rows, k->cols, a, steps, out);
        return;
    }
    int64_t count, length, step, stride;
    lines_of(norm, k, &count, &length, &step, &stride);
    for (int64_t i = 0; i < count; i++) {
        double line = norm2(length, a + i * step, stride);
        for (int64_t j = 0; j < length; j++) {
            int64_t e = i * step + j * stride;
            out[e] = line > 0 ? a[e] / line : 0;
        }
    }
}

static double *gather(const block *k, const double *x)
{
    double *a = doubles(k->rows * k->cols);
    for (int64_t e = 0; e < k->rows * k->cols; e++)
        a[e] = x[k->index[e]];
    return a;
}

double oracle_norm(const scion_param *p, const double *x)
{
    double value = 0;
    for (int64_t b = 0; b < block_count(p); b++) {
        block k = block_of(p, b);
        value = fmax(value, bare_norm(p->norm, &k, gather(&k, x), 0) / factor(p, &k));
    }
    return value;
}

double oracle_dual(const scion_param *p, const double *s)
{
    double value = 0;
    for (int64_t b = 0; b < block_count(p); b++) {
        block k = block_of(p, b);
        value += bare_norm(p->norm, &k, gather(&k, s), 1) * factor(p, &k);
    }
    return value;
}

void oracle_lmo(const scion_param *p, int steps, const double *s, double *out)
{
    for (int64_t b = 0; b < block_count(p); b++) {
        block k = block_of(p, b);
        double *z = doubles(k.rows * k.cols), c = factor(p, &k);
        direction(p->norm, &k, steps, gather(&k, s), z);
        for (int64_t e = 0; e < k.rows * k.cols; e++)
            out[k.index[e]] = -p->radius * c * z[e];
    }
}

scion_norm oracle_route(scion_routing routing, scion_role role, int32_t ndim)
{
    static const scion_norm table[][3] = {
        /* first layer, hidden, last layer */
        [SCION_ROUTING_IMAGE] = {SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN},
        [SCION_ROUTING_ONEHOT] = {SCION_NORM_COL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN},
        [SCION_ROUTING_SHARED] = {SCION_NORM_SIGN, SCION_NORM_SPECTRAL, SCION_NORM_SIGN},
        [SCION_ROUTING_SIGN] = {SCION_NORM_SIGN, SCION_NORM_SIGN, SCION_NORM_SIGN},
        [SCION_ROUTING_COL] = {SCION_NORM_COL, SCION_NORM_COL, SCION_NORM_COL},
        [SCION_ROUTING_ROW] = {SCION_NORM_ROW, SCION_NORM_ROW, SCION_NORM_ROW},
        [SCION_ROUTING_SPECTRAL] = {SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL},
    };
    if (role == SCION_ROLE_NORMALIZATION)
        return SCION_NORM_EUCLID;
    if (role == SCION_ROLE_VECTOR || ndim == 1)
        return routing == SCION_ROUTING_SIGN ? SCION_NORM_MAX : SCION_NORM_RMS;
    int first = role == SCION_ROLE_ONEHOT || role == SCION_ROLE_INPUT;
    return table[routing][first ? 0 : role == SCION_ROLE_OUTPUT ? 2 : 1];
}
