/* Norms of the parameter as one flat vector: RMS (biases, positional embeddings) and Euclidean
 * (normalisation layers, classical methods).
 *     size = dual size = ||b||_2,   direction = b / ||b||_2,
 *     c = sqrt(count) for RMS, since ||b||_RMS = ||b||_2 / sqrt(count); c = 1 for the Euclidean norm. */
#include <math.h>

#include "linalg/vector.h"
#include "norm/norm.h"

static double rms_factor(scion_role role, scn_dims d)
{
    (void)role;
    return sqrt(d.count);
}

static double euclid_factor(scion_role role, scn_dims d)
{
    (void)role;
    (void)d;
    return 1;
}

static scn_grain grain(const scn_ball *b)
{
    (void)b;
    return SCN_WHOLE;
}

static double size(const scn_ball *b, scn_mat x, const scn_work *w)
{
    (void)b;
    return sqrt(scn_sum_squares_mat(x, w->threads));
}

static void lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    double norm = size(b, s, w);
    double f = norm > 0 ? -step / (norm / b->c + w->eps) : 0;
    scn_axpby_mat(f, s, keep, z, w->stream, w->threads);
}

static void init(const scn_ball *b, scn_mat z, double radius, uint64_t seed, uint64_t stream, const scn_work *w)
{
    (void)b, (void)radius, (void)seed, (void)stream;
    scn_scale_mat(z, 0, w->threads);
}

const scn_norm scn_norm_rms = {
    .name = "rms",
    .factor = rms_factor,
    .grain = grain,
    .size = size,
    .dual_size = size,
    .lmo = lmo,
    .init = init,
};

const scn_norm scn_norm_euclid = {
    .name = "euclid",
    .factor = euclid_factor,
    .grain = grain,
    .size = size,
    .dual_size = size,
    .lmo = lmo,
    .init = init,
};
