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

/* Words of a column of so many elements. (kr is 1 or 2: this is asked for every tile, and a division takes its
 * time.) */
static inline int64_t words(const scn_kernel *k, int64_t rows)
{
    return k->kr == 1 ? rows : (rows + 1) / 2;
}

static size_t scratch_floats(const scn_kernel *k)
{
    return (size_t)(scn_round_up(block_rows, k->panel_nr) * scn_round_up(block_cols, k->panel_nr));
}

scn_engine scn_engine_take(scn_arena *arena, const scn_kernel *kernel, int threads)
{
    scn_engine e = {kernel, threads, NULL};
    e.scratch = scn_take(arena, (size_t)threads * scratch_floats(kernel) * sizeof(float));
    return e;
}

scn_panels scn_panels_take(scn_arena *arena, const scn_kernel *kernel, int64_t rows, int64_t cols)
{
    size_t floats = (size_t)words(kernel, rows) * (size_t)scn_round_up(cols, kernel->panel_nr);
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

/* The strip of column `col`, from row `row` on, a multiple of kr. */
static inline float *strip(const scn_kernel *k, scn_panels p, int64_t row, int64_t col)
{
    return p.at + col / k->panel_nr * words(k, p.rows) * k->panel_nr + words(k, row) * k->panel_nr;
}

int64_t scn_panels_strips(const scn_engine *e, scn_panels p)
{
    return scn_pieces(p.cols, e->kernel->panel_nr);
}

scn_mat scn_panels_strip(const scn_engine *e, scn_panels p, int64_t i)
{
    const int64_t nr = e->kernel->panel_nr;
    return (scn_mat){strip(e->kernel, p, 0, i * nr), p.rows, scn_min(p.cols - i * nr, nr), nr};
}

scn_panels scn_panels_part(const scn_engine *e, scn_panels p, int64_t row, int64_t col, int64_t cols)
{
    return (scn_panels){strip(e->kernel, p, row, col), p.rows, cols};
}

/* Rounds to bfloat16, in place. */
SCN_INLINE void round_all(int64_t n, float *t)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = scn_bf16_nearest(t[i]);
        memcpy(t + i, &bits, sizeof bits);
    }
}

/* The word of two rounded floats. */
SCN_INLINE uint32_t pair(float even, float odd)
{
    uint32_t low, high;
    memcpy(&low, &even, sizeof low);
    memcpy(&high, &odd, sizeof high);
    return low >> 16 | high;
}

/* Stores rows of nr floats as the words of a strip; they are rounded first, in place, if the kernel wants that. */
SCN_INLINE void put_rows(const scn_kernel *k, int64_t rows, float *t, float *to)
{
    const int64_t nr = k->panel_nr;
    if (k->in == SCION_BF16)
        round_all(rows * nr, t);
    if (k->kr == 1) {
        if (to != t)
            memcpy(to, t, (size_t)(rows * nr) * sizeof *t);
        return;
    }
    for (int64_t i = 0; i < rows; i += 2, to += nr)
        for (int64_t j = 0; j < nr; j++) {
            const uint32_t word = pair(t[i * nr + j], i + 1 < rows ? t[(i + 1) * nr + j] : 0);
            memcpy(to + j, &word, sizeof word);
        }
}

/* The opposite, to an even number of rows. */
SCN_INLINE void get_rows(const scn_kernel *k, int64_t rows, const float *from, float *t)
{
    const int64_t nr = k->panel_nr;
    for (int64_t i = 0; i < rows; i += 2, from += nr, t += 2 * nr)
        for (int64_t j = 0; j < nr; j++) {
            uint32_t word, even, odd;
            memcpy(&word, from + j, sizeof word);
            even = word << 16;
            odd = word & 0xffff0000u;
            memcpy(t + j, &even, sizeof even);
            memcpy(t + nr + j, &odd, sizeof odd);
        }
}

enum { pack_rows = 32 }; /* at a time, which stay in the cache while they are scaled */

/* Strip number s of a packed matrix. */
SCN_CLONES static void pack_strip(const scn_kernel *k, float *out, scn_mat from, int64_t col, scn_factor f)
{
    const int64_t nr = k->panel_nr, width = scn_min(nr, from.cols - col);
    float rows[pack_rows * SCN_KERNEL_MAX_NR];
    for (int64_t i = 0; i < from.rows; i += pack_rows, out += pack_rows / k->kr * nr) {
        const int64_t n = scn_min(pack_rows, from.rows - i);
        float *t = k->in == SCION_F32 ? out : rows;
        for (int64_t r = 0; r < n; r++) {
            const float *in = scn_row(from, i + r) + col;
            for (int64_t j = 0; j < width; j++)
                t[r * nr + j] = in[j] * f.power * f.rest;
            for (int64_t j = width; j < nr; j++)
                t[r * nr + j] = 0;
        }
        put_rows(k, n, t, out);
    }
}

/* The same of the transposed matrix: columns of the strip are rows of `from`. A few columns of `from` at a time
 * are transposed, then scaled while they are in the cache. */
SCN_CLONES static void pack_transposed_strip(const scn_kernel *k, float *out, scn_mat from, int64_t row, scn_factor f)
{
    const int64_t nr = k->panel_nr, width = scn_min(nr, from.rows - row);
    float columns[pack_rows * SCN_KERNEL_MAX_NR];
    for (int64_t i = 0; i < from.cols; i += pack_rows, out += pack_rows / k->kr * nr) {
        const int64_t n = scn_min(pack_rows, from.cols - i);
        float *t = k->in == SCION_F32 ? out : columns;
        if (width < nr)
            memset(t, 0, (size_t)(n * nr) * sizeof *t);
        scn_transpose(t, nr, scn_row(from, row) + i, from.ld, width, n);
        for (int64_t j = 0; j < n * nr; j++)
            t[j] = t[j] * f.power * f.rest;
        put_rows(k, n, t, out);
    }
}

void scn_pack(const scn_engine *e, scn_panels to, scn_mat from, bool transpose, scn_factor f)
{
    const int64_t nr = e->kernel->panel_nr;
    SCN_PARALLEL(e->threads, s, scn_pieces(to.cols, nr),
                 (transpose ? pack_transposed_strip : pack_strip)(e->kernel, strip(e->kernel, to, 0, s * nr), from,
                                                                  s * nr, f));
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

/* Writes the mirror image of a tile that put_rows has rounded: element (i, j) becomes (j, i). */
SCN_INLINE void put_mirrored(const scn_kernel *k, scn_panels c, float *t, int64_t i0, int64_t j0)
{
    const int64_t nr = k->panel_nr, mr = k->panel_mr, rows = scn_min(nr, c.rows - j0);
    float *to = strip(k, c, j0, i0) + i0 % nr;
    if (k->kr == 1) {
        scn_transpose(to, nr, t, nr, mr, rows);
        return;
    }
    /* in the mirror image neighbours of a row follow each other along the depth: as 16 bits each they are words; an
     * odd one at the end has zero beside it */
    union {
        uint16_t half[SCN_KERNEL_MAX_TILE];
        float word[SCN_KERNEL_MAX_TILE / 2];
    } tile;
    for (int64_t i = 0; i < mr * nr; i++) {
        uint32_t bits;
        memcpy(&bits, t + i, sizeof bits);
        tile.half[i] = (uint16_t)(bits >> 16);
    }
    for (int64_t i = 0; i < mr && rows % 2; i++)
        tile.half[i * nr + rows] = 0;
    scn_transpose(to, nr, tile.word, nr / 2, mr, words(k, rows));
}

SCN_CLONES static void emit_panels(const emitter *em, const scn_kernel *k, float *t, int64_t i0, int64_t j0)
{
    const int64_t nr = k->panel_nr, rows = scn_min(k->panel_mr, em->c.rows - i0);
    float unpacked[SCN_KERNEL_MAX_TILE];
    const float *add = em->add ? strip(k, *em->add, i0, j0) : NULL;
    if (add && k->kr > 1) {
        get_rows(k, rows, add, unpacked);
        add = unpacked;
    }
    if (em->alpha != 1 || add)
        scale_add(rows * nr, t, em->alpha, em->beta, add);
    if (em->gamma != 0)
        for (int64_t i = 0; i < rows; i++)
            if (i0 + i >= j0 && i0 + i < j0 + nr)
                t[i * nr + i0 + i - j0] += (float)em->gamma;
    put_rows(k, rows, t, strip(k, em->c, i0, j0));
    if (em->transposed.at && !(em->symmetric && i0 < j0 + nr))
        put_mirrored(k, em->transposed, t, i0, j0);
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
    const int64_t nr = k->panel_nr, mr = k->panel_mr;
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
    const int64_t nr = k->panel_nr, mr = k->panel_mr, depth = words(k, a.rows);
    const int64_t pieces = scn_pieces(depth, block_depth);
    const int64_t piece = scn_pieces(depth, pieces);
    for (int64_t p0 = 0; p0 < depth; p0 += piece)
        for (int64_t j = 0; j < cols; j += nr) {
            const float *bs = strip(k, b, 0, j0 + j) + p0 * nr;
            int64_t first = em->symmetric && j0 + j > i0 ? j0 + j - i0 : 0;
            for (int64_t i = first; i < rows; i += mr) {
                const float *as = strip(k, a, 0, i0 + i) + p0 * nr + (i0 + i) % nr;
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
    cut c = {.rows = scn_round_up(a.cols, k->panel_mr), .cols = scn_round_up(b.cols, k->panel_nr)};
    int64_t br = scn_round_up(block_rows, k->panel_nr), bc = block_cols / k->panel_nr * k->panel_nr;
    if (e->threads > 1) {
        int64_t half = em->symmetric ? 2 : 1;
        while ((c.rows / br + 1) * (c.cols / bc + 1) < half * tasks_per_thread * e->threads && br > 2 * k->panel_nr) {
            br = scn_round_up(br / 2, k->panel_nr);
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
