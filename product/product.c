/* Products in panels: the loops around the kernel. See product.h for the layout.
 *
 * The result is cut into blocks of at most block_rows x block_cols, each computed by one thread into its scratch:
 * for one slice of the depth (<= block_depth) of the sum after another, the strips of B in turn stay in the
 * first-level cache while the block of A streams from the second level. When the sum is complete the block is
 * emitted: scaled, added to, written and mirrored. */
#include "product/product.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "product/transpose.h"

enum {
    block_rows = 256,
    block_cols = 128, /* rounded down to whole strips */
    block_depth = 256,
    tasks_per_thread = 6, /* enough for the dynamic schedule to balance a triangle */
};

static size_t scratch_floats(const scn_kernel *k)
{
    return (size_t)(scn_round_up(block_rows, k->nr) * scn_round_up(block_cols, k->nr));
}

scn_engine scn_engine_take(scn_arena *arena, const scn_kernel *kernel, int threads)
{
    scn_engine e = {kernel, threads, NULL};
    e.scratch = scn_take(arena, (size_t)threads * scratch_floats(kernel) * sizeof(float));
    return e;
}

scn_panels scn_panels_take(scn_arena *arena, const scn_kernel *kernel, int64_t rows, int64_t cols)
{
    size_t floats = (size_t)rows * (size_t)scn_round_up(cols, kernel->nr);
    return (scn_panels){scn_take(arena, floats * sizeof(float)), rows, cols};
}

scn_factor scn_factor_of(double value)
{
    int exponent;
    double rest = frexp(value, &exponent);
    /* Float32 has powers 2^-149 .. 2^127; the factor of an input that float32 can hold is within
     * 2^(+-170), and its rest takes what the power cannot. */
    int inside = exponent > 120 ? 120 : exponent < -120 ? -120 : exponent;
    return (scn_factor){ldexpf(1, inside), (float)ldexp(rest, exponent - inside)};
}

static inline float *strip(scn_panels p, int64_t nr, int64_t col)
{
    return p.at + col / nr * p.rows * nr;
}

/* Strip number s of a packed matrix. */
SCN_CLONES static void pack_strip(float *out, scn_mat from, int64_t col, int64_t nr, scn_factor f)
{
    const int64_t width = scn_min(nr, from.cols - col);
    for (int64_t i = 0; i < from.rows; i++, out += nr) {
        const float *in = scn_row(from, i) + col;
        for (int64_t j = 0; j < width; j++)
            out[j] = in[j] * f.power * f.rest;
        for (int64_t j = width; j < nr; j++)
            out[j] = 0;
    }
}

/* The same of the transposed matrix: columns of the strip are rows of `from`. A few columns of `from` at a time
 * are transposed, then scaled while they are in the cache. */
SCN_CLONES static void pack_transposed_strip(float *out, scn_mat from, int64_t row, int64_t nr, scn_factor f)
{
    enum { columns = 32 };
    const int64_t width = scn_min(nr, from.rows - row);
    for (int64_t i = 0; i < from.cols; i += columns, out += columns * nr) {
        const int64_t n = scn_min(columns, from.cols - i);
        if (width < nr)
            memset(out, 0, (size_t)(n * nr) * sizeof *out);
        scn_transpose(out, nr, scn_row(from, row) + i, from.ld, width, n);
        for (int64_t j = 0; j < n * nr; j++)
            out[j] = out[j] * f.power * f.rest;
    }
}

void scn_pack(const scn_engine *e, scn_panels to, scn_mat from, bool transpose, scn_factor f)
{
    const int64_t nr = e->kernel->nr;
    SCN_PARALLEL(e->threads, s, scn_pieces(to.cols, nr),
                 (transpose ? pack_transposed_strip : pack_strip)(strip(to, nr, s * nr), from, s * nr, nr, f));
}

/* Destination of a finished tile. */
typedef struct emitter {
    double alpha, beta, gamma; /* of A'B, of D or w, of I */
    const scn_panels *add;     /* D */
    scn_panels c, transposed;  /* panels for C and C', or at = NULL */
    scn_mat w;                 /* row-major target, or at = NULL */
    bool symmetric;            /* C is symmetric: transposed is c, beyond the diagonal square */
    bool w_transposed;
} emitter;

static inline void scale_add(int64_t n, float *t, double alpha, double beta, const float *add)
{
    const float al = (float)alpha, be = (float)beta;
    if (add)
        for (int64_t j = 0; j < n; j++)
            t[j] = al * t[j] + be * add[j];
    else
        for (int64_t j = 0; j < n; j++)
            t[j] *= al;
}

SCN_CLONES static void emit_panels(const emitter *em, const scn_kernel *k, float *t, int64_t i0, int64_t j0)
{
    const int64_t nr = k->nr, rows = scn_min(k->mr, em->c.rows - i0);
    const int64_t at = i0 * nr;
    if (em->alpha != 1 || em->add)
        scale_add(rows * nr, t, em->alpha, em->beta, em->add ? strip(*em->add, nr, j0) + at : NULL);
    if (em->gamma != 0)
        for (int64_t i = 0; i < rows; i++)
            if (i0 + i >= j0 && i0 + i < j0 + nr)
                t[i * nr + i0 + i - j0] += (float)em->gamma;
    memcpy(strip(em->c, nr, j0) + at, t, (size_t)(rows * nr) * sizeof *t);
    if (em->transposed.at && !(em->symmetric && i0 < j0 + nr)) {
        float *to = strip(em->transposed, nr, i0) + j0 * nr + i0 % nr;
        scn_transpose(to, nr, t, nr, k->mr, scn_min(nr, em->transposed.rows - j0));
    }
}

static inline void emit_row(float *w, const float *t, int64_t n, float beta, float alpha)
{
    if (beta == 0)
        for (int64_t j = 0; j < n; j++)
            w[j] = alpha * t[j];
    else
        for (int64_t j = 0; j < n; j++)
            w[j] = beta * w[j] + alpha * t[j];
}

SCN_CLONES static void emit_matrix(const emitter *em, const scn_kernel *k, const float *t, int64_t i0, int64_t j0)
{
    const int64_t nr = k->nr, mr = k->mr;
    const float beta = (float)em->beta, alpha = (float)em->alpha;
    if (!em->w_transposed) {
        int64_t rows = scn_min(mr, em->w.rows - i0), cols = scn_min(nr, em->w.cols - j0);
        for (int64_t i = 0; i < rows; i++)
            emit_row(scn_row(em->w, i0 + i) + j0, t + i * nr, cols, beta, alpha);
    } else {
        float transposed[SCN_KERNEL_MAX_TILE];
        int64_t rows = scn_min(nr, em->w.rows - j0), cols = scn_min(mr, em->w.cols - i0);
        scn_transpose(transposed, mr, t, nr, mr, nr);
        for (int64_t j = 0; j < rows; j++)
            emit_row(scn_row(em->w, j0 + j) + i0, transposed + j * mr, cols, beta, alpha);
    }
}

/* Rows i0.. and columns j0.. (rows x cols, padded to tiles) of A'B into the scratch, then out. */
static void compute_block(const scn_kernel *k, scn_panels a, scn_panels b, const emitter *em, float *scratch,
                          int64_t i0, int64_t j0, int64_t rows, int64_t cols)
{
    const int64_t nr = k->nr, mr = k->mr, depth = a.rows;
    const int64_t pieces = scn_pieces(depth, block_depth);
    const int64_t piece = scn_pieces(depth, pieces);
    for (int64_t p0 = 0; p0 < depth; p0 += piece)
        for (int64_t j = 0; j < cols; j += nr) {
            const float *bs = strip(b, nr, j0 + j) + p0 * nr;
            int64_t first = em->symmetric && j0 + j > i0 ? j0 + j - i0 : 0;
            for (int64_t i = first; i < rows; i += mr) {
                const float *as = strip(a, nr, i0 + i) + p0 * nr + (i0 + i) % nr;
                k->tile(scn_min(piece, depth - p0), as, bs, scratch + j * rows + i * nr, p0 > 0);
            }
        }
    for (int64_t j = 0; j < cols; j += nr) {
        int64_t first = em->symmetric && j0 + j > i0 ? j0 + j - i0 : 0;
        for (int64_t i = first; i < rows; i += mr) {
            float *t = scratch + j * rows + i * nr;
            if (em->w.at)
                emit_matrix(em, k, t, i0 + i, j0 + j);
            else
                emit_panels(em, k, t, i0 + i, j0 + j);
        }
    }
}

/* A product, cut into down x across blocks of block_rows x block_cols. */
typedef struct cut {
    int64_t rows, cols; /* of the result, padded to whole tiles */
    int64_t block_rows, block_cols;
    int64_t down, across;
} cut;

static cut cut_of(const scn_engine *e, scn_panels a, scn_panels b, const emitter *em)
{
    const scn_kernel *k = e->kernel;
    cut c = {.rows = scn_round_up(a.cols, k->mr), .cols = scn_round_up(b.cols, k->nr)};
    int64_t br = scn_round_up(block_rows, k->nr), bc = block_cols / k->nr * k->nr;
    if (e->threads > 1) {
        int64_t half = em->symmetric ? 2 : 1;
        while ((c.rows / br + 1) * (c.cols / bc + 1) < half * tasks_per_thread * e->threads && br > 2 * k->nr) {
            br = scn_round_up(br / 2, k->nr);
            bc = bc > br ? br : bc;
        }
    }
    c.block_rows = br;
    c.block_cols = bc;
    c.down = scn_pieces(c.rows, br);
    c.across = scn_pieces(c.cols, bc);
    return c;
}

static void compute_task(const scn_engine *e, const cut *c, scn_panels a, scn_panels b, const emitter *em,
                         int64_t task)
{
    const int64_t i0 = task % c->down * c->block_rows, j0 = task / c->down * c->block_cols;
    const int64_t rows = scn_min(c->block_rows, c->rows - i0), cols = scn_min(c->block_cols, c->cols - j0);
    if (em->symmetric && i0 + rows <= j0)
        return;
    const size_t thread = e->threads > 1 ? (size_t)scn_thread_index() : 0;
    compute_block(e->kernel, a, b, em, e->scratch + thread * scratch_floats(e->kernel), i0, j0, rows, cols);
}

static void product(const scn_engine *e, scn_panels a, scn_panels b, const emitter *em)
{
    const cut c = cut_of(e, a, b, em);
    SCN_PARALLEL(e->threads, task, c.down * c.across, compute_task(e, &c, a, b, em, task));
}

void scn_product_symmetric(const scn_engine *e, scn_panels c, double alpha, scn_panels a, scn_panels b, double beta,
                           const scn_panels *d, double gamma)
{
    emitter em = {.alpha = alpha, .beta = beta, .gamma = gamma, .add = d, .c = c, .transposed = c, .symmetric = true};
    product(e, a, b, &em);
}

void scn_product_both(const scn_engine *e, scn_panels c, scn_panels transposed, scn_panels a, scn_panels b)
{
    emitter em = {.alpha = 1, .c = c, .transposed = transposed};
    product(e, a, b, &em);
}

void scn_product_into(const scn_engine *e, scn_mat w, double beta, double alpha, scn_panels a, scn_panels b,
                      bool transposed)
{
    emitter em = {.alpha = alpha, .beta = beta, .w = w, .w_transposed = transposed};
    product(e, a, b, &em);
}
