/* QR by block Gram-Schmidt, done twice ("twice is enough"), on rows.
 *
 * Gram-Schmidt gives R a positive diagonal, which is the sign fix that makes Q uniform. Blocks make nearly
 * all of the work matrix products: subtracting the part that lies in the span of the rows before,
 *     W <- W - (W Q')Q,
 * and only the orthogonalisation inside a block goes row by row. */
#include "linalg/orthogonal.h"

#include <math.h>

#include "base/random.h"
#include "linalg/vector.h"

static int64_t block_of(const scn_kernel *k)
{
    return k->panel_nr * (48 / k->panel_nr > 0 ? 48 / k->panel_nr : 1);
}

scn_orthogonal_work scn_orthogonal_work_take(scn_arena *arena, int64_t rows, int64_t cols, const scn_kernel *kernel,
                                             int threads)
{
    int64_t m = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
    scn_orthogonal_work w = {.engine = scn_engine_take(arena, kernel, threads)};
    w.rows = scn_take(arena, sizeof(float) * (size_t)(m * n));
    w.wide = scn_panels_take(arena, kernel, m, n);
    w.tall = scn_panels_take(arena, kernel, n, m);
    w.block = scn_panels_take(arena, kernel, n, block_of(kernel));
    w.overlap = scn_panels_take(arena, kernel, m, block_of(kernel));
    return w;
}

/* Orthonormalises the rows of w among themselves. */
static void inside(scn_mat w)
{
    for (int64_t i = 0; i < w.rows; i++) {
        float *x = scn_row(w, i);
        for (int64_t j = 0; j < i; j++)
            scn_axpby(w.cols, -scn_dot(w.cols, x, scn_row(w, j)), scn_row(w, j), 1, x);
        scn_scale(w.cols, 1 / sqrt(scn_sum_squares(w.cols, x)), x);
    }
}

void scn_orthogonal(const scn_orthogonal_work *work, uint64_t seed, uint64_t stream)
{
    const scn_engine *e = &work->engine;
    const scn_factor one = scn_factor_of(1);
    const int64_t m = work->wide.rows, n = work->wide.cols, size = block_of(e->kernel);
    scn_normals(seed, stream, 0, m * n, work->rows);
    for (int64_t first = 0; first < m; first += size) {
        scn_mat w = {work->rows + first * n, m - first < size ? m - first : size, n, n};
        for (int pass = 0; pass < 2; pass++) {
            if (first > 0) {
                scn_panels before = {work->tall.at, n, first};
                scn_panels block = {work->block.at, n, w.rows}, overlap = {work->overlap.at, first, w.rows};
                scn_pack(e, block, w, true, one);
                scn_product_both(e, overlap, (scn_panels){NULL, 0, 0}, before, block);
                scn_product_into(e, w, 1, -1, overlap, work->wide, false);
            }
            inside(w);
        }
        scn_pack(e, scn_panels_part(e, work->tall, 0, first, w.rows), w, true, one);
        scn_pack(e, scn_panels_part(e, work->wide, first, 0, n), w, false, one);
    }
}
