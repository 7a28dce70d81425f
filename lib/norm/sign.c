/* Sign: operator norm 1 -> inf, and the max norm of vectors, which is the same without dimensions.
 *     size = max |a_ij|,   dual size = sum |a_ij|,   direction = sign(a_ij), sign(0) = 0,
 *     c = 1/d_in; one-hot input 1; the max norm always 1. */
#include "base/random.h"
#include "linalg/stream.h"
#include "linalg/vector.h"
#include "norm/norm.h"

static double factor(int role, scn_dims d)
{
    return role == SCION_ROLE_ONEHOT || role == SCION_ROLE_PLAIN ? 1 : 1 / (d.d_in * d.positions);
}

static double size(const scn_block *b, scn_mat x, const scn_work *w)
{
    (void)b;
    return scn_max_abs_mat(x, w->threads);
}

static double dual_size(const scn_block *b, scn_mat s, const scn_work *w)
{
    (void)b;
    return scn_sum_abs_mat(s, w->threads);
}

static void lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    for (int64_t i = 0; i < s.rows; i++)
        if (w->stream)
            scn_sign_stream(s.cols, -step * b->c, scn_row(s, i), scn_row(z, i));
        else
            scn_sign_axpby(s.cols, -step * b->c, scn_row(s, i), beta, scn_row(z, i));
}

static void init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w)
{
    (void)w;
    const float scale = (float)(b->c * radius);
    const uint64_t stream = scn_stream_boundary(start.param, start.block, 0, false);
    for (int64_t i = 0; i < z.rows; i++)
        for (int64_t j = 0; j < z.cols; j++) {
            uint64_t bit = (uint64_t)(i * z.cols + j);
            uint32_t word = scn_philox(start.seed, stream, bit / 128).w[bit / 32 % 4];
            scn_row(z, i)[j] = word >> (bit % 32) & 1 ? scale : -scale;
        }
}

const scn_norm scn_norm_sign = {
    .about = {sizeof(scion_norm_properties), "sign", "1 -> inf: largest entry", 0, 1},
    .factor = factor,
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
    .init = init,
};

const scn_norm scn_norm_max = {
    .about = {sizeof(scion_norm_properties), "max", "largest absolute entry", 1, 1},
    .size = size,
    .dual_size = dual_size,
    .lmo = lmo,
};
