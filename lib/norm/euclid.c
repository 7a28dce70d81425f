/* Norms of the parameter as one flat vector: RMS (biases, positional embeddings) and Euclidean
 * (normalisation layers, classical methods).
 *     size = dual size = ||b||_2,   direction = b / ||b||_2,
 *     c = sqrt(count) for RMS, since ||b||_RMS = ||b||_2 / sqrt(count); c = 1 for the Euclidean norm. */
#include <math.h>

#include "linalg/vector.h"
#include "norm/norm.h"

static double rms_factor(int role, scn_dims d)
{
    (void)role;
    return sqrt(d.count);
}

static double size(const scn_block *b, scn_mat x, const scn_work *w)
{
    (void)b;
    return sqrt(scn_sum_squares_mat(x, w->threads));
}

static void lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    double norm = size(b, s, w);
    double f = norm > 0 ? -step / (norm / b->c + w->eps) : 0;
    scn_axpby_mat(f, s, beta, z, w->stream, w->threads);
}

const scn_norm scn_norm_rms = {
    .about = {sizeof(scion_norm_properties), "rms", "root mean square of all entries", 1, 0},
    .factor = rms_factor,
    .size = size,
    .dual_size = size,
    .lmo = lmo,
};

const scn_norm scn_norm_euclid = {
    .about = {sizeof(scion_norm_properties), "euclid", "2-norm of all entries", 1, 0},
    .size = size,
    .dual_size = size,
    .lmo = lmo,
};
