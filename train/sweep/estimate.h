/* How long runs will take on this machine, by doing a few steps of each size. */
#ifndef TRAIN_SWEEP_ESTIMATE_H
#define TRAIN_SWEEP_ESTIMATE_H

#include "config/config.h"

/* Seconds for all configurations with `jobs` processes that share `threads` (0: all). Sizes that differ in nothing
 * but rule, norms and numbers count as one. ESTOPPED: a signal came. Measures in processes of its own: no OpenMP
 * region may have been opened. */
scion_status sweep_estimate(const config *points, int64_t count, int jobs, int threads, double *seconds,
                            scion_error *err);

#endif
