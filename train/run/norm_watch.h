/* The norms of the weights against their bounds: the paper's norm control, measured. */
#ifndef TRAIN_RUN_NORM_WATCH_H
#define TRAIN_RUN_NORM_WATCH_H

#include "run/metrics.h"
#include "run/trainer.h"

/* The parameter nearest to its bound, or furthest beyond it. */
typedef struct norms_worst {
    const char *name;   /* valid as long as the trainer; NULL: no parameter has a bound */
    double norm, bound; /* of that parameter */
    double share;       /* norm / (overshoot bound): above 1, the rule's promise is broken */
} norms_worst;

/* Calls back for each parameter with its weight_norm, bound and overshoot. */
scion_status norms_each(const trainer *t, void (*each)(void *context, const scion_info *info), void *context,
                        scion_error *err);

/* Measures every parameter and writes a line each to m (NULL: none). */
scion_status norms_measure(const trainer *t, metrics *m, norms_worst *worst, scion_error *err);

/* Whether a bound is exceeded by more than rounding explains. */
bool norms_exceeded(const norms_worst *worst);

#endif
