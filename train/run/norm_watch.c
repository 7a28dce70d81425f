/* See norm_watch.h. The bound is what the rule promises (scion_info.bound); the spectral iteration may exceed it by
 * its overshoot, which is no fault. */
#include "run/norm_watch.h"

#include <math.h>

/* Weights and norms are float32, whose sums of many terms are good to about 1e-4: this is more than rounding. */
static const double slack = 1e-3;

scion_status norms_each(const trainer *t, void (*each)(void *context, const scion_info *info), void *context,
                        scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(t->train.tape); i++) {
        scion_info info = {.size = sizeof info};
        status = scion_optimizer_inspect(t->optimizer, i, SCION_INSPECT_NORM, &info, err);
        if (status == SCION_OK)
            each(context, &info);
    }
    return status;
}

typedef struct measuring {
    metrics *m;
    int64_t step;
    norms_worst *worst;
} measuring;

static void measure_one(void *context, const scion_info *info)
{
    measuring *k = context;
    const double ratio = isinf(info->bound) ? NAN : info->weight_norm / info->bound;
    metrics_norm(k->m, k->step, info->name, info->weight_norm, info->bound, ratio);
    if (ratio / info->overshoot > k->worst->share)
        *k->worst = (norms_worst){info->name, info->weight_norm, info->bound, ratio / info->overshoot};
}

scion_status norms_measure(const trainer *t, metrics *m, norms_worst *worst, scion_error *err)
{
    measuring k = {m, t->step, worst};
    *worst = (norms_worst){NULL, 0, 0, -1};
    return norms_each(t, measure_one, &k, err);
}

bool norms_exceeded(const norms_worst *worst)
{
    return worst->share > 1 + slack;
}
