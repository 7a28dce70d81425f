/* The search space of a tuning: learning rate and radii, on a grid of powers of two around the preset's values. */
#ifndef TRAIN_TUNE_TUNE_SPACE_H
#define TRAIN_TUNE_TUNE_SPACE_H

#include "config/config.h"

typedef enum tune_axis { TUNE_LR, TUNE_FIRST, TUNE_HIDDEN, TUNE_LAST, TUNE_AXES } tune_axis;

enum { TUNE_MAX_CANDIDATES = 2000 };

/* A point of the grid: each value is the preset's times 2^power. */
typedef struct tune_point {
    int power[TUNE_AXES];
} tune_point;

/* The powers from low to high of each axis. An axis that is not searched has 0 and 0, and `fixed` says why. */
typedef struct tune_space {
    int low[TUNE_AXES], high[TUNE_AXES];
    int max_lr;                   /* largest power of lr that the rule accepts, >= high */
    const char *fixed[TUNE_AXES]; /* NULL: searched */
} tune_space;

/* The option of an axis: lr, radius_first, radius_hidden, radius_last. */
const config_option *tune_option(tune_axis axis);

/* The space of a configuration that config_check has passed. EINVAL: lr is 0, or too large for its rule. */
scion_status tune_space_make(tune_space *s, const config *c, scion_error *err);
/* Number of points in it. */
int64_t tune_space_size(const tune_space *s);

/* Distinct points of the space, the preset's own first: `count`, or as many as there are; returns their number.
 * With the same seed a shorter list is the beginning of a longer one. */
int64_t tune_candidates(const tune_space *s, uint64_t seed, tune_point *points, int64_t count);

/* The run of a point for 1/share of the steps: radii and lr multiplied (lr_start and lr_end as lr, so that the
 * schedule keeps its shape), steps or epochs, warmup and decay divided. */
config tune_config(const config *base, const tune_point *p, int64_t share);

/* True if the rule's best values are expected to hold at other widths. */
bool tune_carries(const config *c);

#endif
