/* Estimates how long runs will take on this machine, by a few steps of each size. */
#ifndef TRAIN_SWEEP_ESTIMATE_H
#define TRAIN_SWEEP_ESTIMATE_H

#include "config/config.h"

/* Seconds for all configurations with `jobs` processes that share `threads` (0: all). Configurations of one size
 * (model, batch, block) are measured once. ESTOPPED: a signal came. Forks: no OpenMP region may have been opened
 * before. */
scion_status sweep_estimate(const config *points, int64_t count, int jobs, int threads, double *seconds,
                            scion_error *err);

#endif
