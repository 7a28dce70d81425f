/* A rule whose states are not of the weight's shape, in one file and one row of toy_library_rows.c: "normuon", after
 * Li et al. (2025). Each row of the lmo O is divided by a running root mean square of its own, and the whole brought
 * to the running Frobenius norm of O:
 *     v_i = b2 v_i + (1-b2) mean_j O_ij^2,   n = b2 n + (1-b2) ||O||_F^2,   both corrected by 1/(1-b2^k),
 *     Z_ij = O_ij / (sqrt(v_i) + eps),       w = (1 - lr mu)w + lr rho sqrt(n) Z / ||Z||_F. */
#include <math.h>

#include "optim/optimizer.h"

enum { AVERAGE, ROWS, NORM };

static void scale_rows(const scn_lmo *l)
{
    float *v = l->state[ROWS], *n = l->state[NORM];
    const double b2 = l->o->beta2, fix = 1 / (1 - pow(b2, l->k)), cols = (double)l->z.cols;
    double before = 0, after = 0;
    for (int64_t i = 0; i < l->z.rows; i++) {
        float *z = scn_row(l->z, i);
        double sum = 0;
        for (int64_t j = 0; j < l->z.cols; j++)
            sum += (double)z[j] * (double)z[j];
        v[i] = (float)(b2 * (double)v[i] + (1 - b2) * sum / cols);
        const double scale = 1 / (sqrt(fix * (double)v[i]) + l->o->adam_eps);
        for (int64_t j = 0; j < l->z.cols; j++)
            z[j] = (float)(scale * (double)z[j]);
        before += sum;
        after += scale * scale * sum;
    }
    *n = (float)(b2 * (double)*n + (1 - b2) * before);
    const double whole = after > 0 ? sqrt(fix * (double)*n / after) : 0;
    for (int64_t i = 0; i < l->z.rows; i++)
        for (int64_t j = 0; j < l->z.cols; j++)
            scn_row(l->z, i)[j] = (float)(whole * (double)scn_row(l->z, i)[j]);
}

const scn_rule toy_rule_normuon = {
    .about = {.size = sizeof(scion_rule_properties),
              .name = "normuon",
              .help = "uscion with the rows of the lmo scaled",
              .momentum = 0.1,
              .states = 3,
              .lmo = 1,
              .averages = 1,
              .others = SCION_RULE_SGD + 2},
    .average = SCN_AVERAGE_EMA,
    .layerwise = true,
    .states = {[AVERAGE] = {"average"}, [ROWS] = {"rows", SCN_ROWS}, [NORM] = {"norm", SCN_ONE}},
    .after_lmo = scale_rows,
};
