/* Spectral: operator norm RMS -> RMS.
 *     size = sigma_max,   dual size = sum of sigma,   direction = UV',
 *     c = sqrt(d_out/d_in); one-hot input sqrt(d_out); dense input max(1, sqrt(d_out/d_in)).
 * A convolution is the matrix out x (in * positions), with c = sqrt(out/in) / positions.
 *
 * UV' comes from the iteration of polar.c, in the coefficient set that the caller chose; size and dual size
 * are exact. A convolution is initialised position by position, each out x in slice with all its singular
 * values at c, as the paper's code does although the lmo looks at the flattened kernel: the flattened
 * matrix then has singular values of up to sqrt(positions) c (docs/pitfalls.md). */
#include "norm/norm.h"

#include <math.h>

#include "base/random.h"
#include "linalg/lanczos.h"
#include "linalg/orthogonal.h"
#include "linalg/vector.h"

static double factor(int role, scn_dims d)
{
    if (role == SCION_ROLE_PLAIN)
        return 1;
    double c = role == SCION_ROLE_ONEHOT ? sqrt(d.d_out) : sqrt(d.d_out / d.d_in);
    if (role == SCION_ROLE_INPUT)
        c = fmax(1, c);
    return c / d.positions;
}

static double size(const scn_block *b, scn_mat x, const scn_work *w)
{
    (void)b;
    return scn_largest_singular_value(x, w->arena, w->threads);
}

static scn_polar_plan converged(const scn_block *b)
{
    return scn_polar_plan_make(scn_polar_set_at(SCION_POLAR_CONVERGED), 0, SCION_F32, b->rows, b->cols);
}

/* <S, UV'> is the sum of the singular values. */
static double dual_size(const scn_block *b, scn_mat s, const scn_work *w)
{
    scn_arena arena = w->arena;
    scn_polar_plan plan = converged(b);
    scn_mat z = {scn_take(&arena, sizeof(float) * (size_t)(b->rows * b->cols)), b->rows, b->cols, b->cols};
    scn_polar_work work = scn_polar_work_take(&arena, &plan, w->kernel, w->threads);
    scn_polar_run(&plan, &work, z, 0, 1, s, 0);
    return scn_dot_mat(s, z, w->threads);
}

static void lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    scn_arena arena = w->arena;
    scn_polar_plan plan = scn_polar_plan_make(w->set, w->steps, w->polar_compute, b->rows, b->cols);
    scn_polar_work work = scn_polar_work_take(&arena, &plan, w->polar_kernel, w->threads);
    scn_polar_run(&plan, &work, z, beta, -step * b->c, s, w->polar_eps);
}

static void init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w)
{
    const int64_t rows = b->rows, cols = b->cols / b->positions, apart = b->positions;
    const float scale = (float)(b->c * radius);
    for (int64_t position = 0; position < apart; position++) {
        scn_arena arena = w->arena;
        scn_orthogonal_work work = scn_orthogonal_work_take(&arena, rows, cols, w->kernel, w->threads);
        scn_orthogonal(&work, start.seed, scn_stream_boundary(start.param, start.block, position, true));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                float v = rows <= cols ? work.rows[i * cols + j] : work.rows[j * rows + i];
                scn_row(z, i)[j * apart + position] = scale * v;
            }
    }
}

static double cost(const scn_block *b, const scn_work *w)
{
    scn_polar_plan plan = scn_polar_plan_make(w->set, w->steps, w->polar_compute, b->rows, b->cols);
    return scn_polar_flops(&plan);
}

static double overshoot(const scn_work *w)
{
    return scn_polar_overshoot(w->set, w->steps);
}

/* Slices of norm 1 make a matrix of norm sqrt(positions) at most. */
static double start_norm(int64_t positions)
{
    return sqrt((double)positions);
}

static size_t memory(const scn_block *b, scn_use use, const scn_work *w)
{
    scn_arena count = {0};
    scn_polar_plan plan;
    switch (use) {
    case SCN_USE_LMO:
        plan = scn_polar_plan_make(w->set, w->steps, w->polar_compute, b->rows, b->cols);
        scn_polar_work_take(&count, &plan, w->polar_kernel, w->threads);
        break;
    case SCN_USE_DUAL:
        plan = converged(b);
        scn_take(&count, sizeof(float) * (size_t)(b->rows * b->cols));
        scn_polar_work_take(&count, &plan, w->kernel, w->threads);
        break;
    case SCN_USE_SIZE: return scn_lanczos_bytes(b->rows, b->cols);
    case SCN_USE_INIT:
        scn_orthogonal_work_take(&count, b->rows, b->cols / b->positions, w->kernel, w->threads);
        break;
    }
    return count.used;
}

const scn_norm scn_norm_spectral = {
    .about = {sizeof(scion_norm_properties), "spectral", "RMS -> RMS: largest singular value", 0, 0},
    .factor = factor,
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
    .init = init,
    .memory = memory,
    .cost = cost,
    .overshoot = overshoot,
    .start_norm = start_norm,
};
