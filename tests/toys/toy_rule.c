/* A rule in one file and one row of toy_library_rows.c: "lion" (Chen et al., 2023), entry by entry:
 *     w = (1 - lr mu)w - lr sign(b1 m + (1-b1)g),   m = b2 m + (1-b2)g. */
#include "optim/optimizer.h"

static void lion(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w)
{
    float *average = state[0];
    for (int64_t i = 0; i < n; i++) {
        const double x = e->grad_scale * (double)g[i], m = (double)average[i];
        const double c = e->o->beta1 * m + (1 - e->o->beta1) * x;
        w[i] = (float)(e->beta * (double)w[i] - e->rate * ((c > 0) - (c < 0)));
        average[i] = (float)(e->o->beta2 * m + (1 - e->o->beta2) * x);
    }
}

const scn_rule toy_rule_lion = {
    .about = {.size = sizeof(scion_rule_properties),
              .name = "lion",
              .help = "the sign of an average",
              .momentum = 1,
              .states = 1,
              .others = SCION_RULE_SGD + 1},
    .states = {{"average"}},
    .layerwise = true,
    .entries = lion,
};
