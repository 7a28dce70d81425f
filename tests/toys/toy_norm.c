/* A norm in one file and one row of toy_library_rows.c: "sum", the 1-norm of all entries.
 *     size = sum |a_ij|,   dual size = max |a_ij|,   direction: the sign of the largest entry there, 0 elsewhere. */
#include <math.h>

#include "base/random.h"
#include "linalg/vector.h"
#include "norm/norm.h"

static double factor(int role, scn_dims d)
{
    (void)role;
    return d.d_out;
}

static double size(const scn_block *b, scn_mat x, const scn_work *w)
{
    (void)b;
    return scn_sum_abs_mat(x, w->threads);
}

static double dual_size(const scn_block *b, scn_mat s, const scn_work *w)
{
    (void)b;
    return scn_max_abs_mat(s, w->threads);
}

static void lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    int64_t row = 0, col = 0;
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t j = 0; j < s.cols; j++)
            if (fabsf(scn_row(s, i)[j]) > fabsf(scn_row(s, row)[col]))
                row = i, col = j;
    const float largest = scn_row(s, row)[col];
    scn_scale_mat(z, beta, w->threads);
    scn_row(z, row)[col] -= (float)(step * b->c) * (float)((largest > 0) - (largest < 0));
}

static void init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w)
{
    const uint64_t entry = scn_philox(start.seed, (uint64_t)start.param, (uint64_t)start.block).w[0];
    scn_scale_mat(z, 0, w->threads);
    scn_row(z, (int64_t)entry % z.rows)[0] = (float)(b->c * radius);
}

const scn_norm toy_norm_sum = {
    .about = {.size = sizeof(scion_norm_properties), .name = "sum", .help = "1-norm of all entries"},
    .factor = factor,
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
    .init = init,
};
