/* How much a step changes each parameter: the RMS of the change, over the RMS of the weights before it. Measured on
 * at most UPDATE_ENTRIES entries of a parameter, spread over it evenly: a copy of all weights would double their
 * memory, and so many give the ratio to some 2 %. */
#ifndef TRAIN_RUN_UPDATE_SIZE_H
#define TRAIN_RUN_UPDATE_SIZE_H

#include "record/run_metrics.h"
#include "tensor/tape.h"

enum { UPDATE_ENTRIES = 4096 };

typedef struct update_size update_size;

/* For the parameters of a tape, which must outlive it. NULL: out of memory. */
update_size *update_size_create(const tape *t);
void update_size_free(update_size *u);
/* Before the step: keeps the entries. */
void update_size_keep(update_size *u);
/* After it: sets update_size of the norms, which are those of the parameters in their order. NAN if nothing was kept
 * for this step, or the weights were 0. */
void update_size_measure(update_size *u, run_norm *norms, int64_t count);

#endif
