/* See norms.h. The bound is what the rule promises (scion_info.bound); the spectral iteration may exceed it by its
 * overshoot, which is no fault. */
#include "run/norms.h"

#include <math.h>

/* Weights and norms are float32, whose sums of many terms are good to about 1e-4: this is more than rounding. */
static const double slack = 1e-3;

scion_status norms_measure(const trainer *t, metrics *m, norms_worst *worst, scion_error *err)
{
    *worst = (norms_worst){NULL, 0, 0, -1};
    for (int64_t i = 0; i < tape_param_count(t->train.tape); i++) {
        scion_info info = {.size = sizeof info};
        scion_status status = scion_optimizer_inspect(t->optimizer, i, SCION_INSPECT_NORM, &info, err);
        if (status != SCION_OK)
            return status;
        const double ratio = isinf(info.bound) ? NAN : info.weight_norm / info.bound;
        metrics_norm(m, t->step, info.name, info.weight_norm, info.bound, ratio);
        if (ratio / info.overshoot > worst->share)
            *worst = (norms_worst){info.name, info.weight_norm, info.bound, ratio / info.overshoot};
    }
    return SCION_OK;
}

bool norms_exceeded(const norms_worst *worst)
{
    return worst->share > 1 + slack;
}
