/* Running buffers, which every micro-batch updates (statistics of batch normalisation), on several ranks or with
 * deterministic sums. A micro-batch begins with them at 0 and leaves the part that it adds; at the end of a step all
 * parts are applied in the order of the micro-batches, on every rank: buffer = decay buffer + part. */
#ifndef TRAIN_RANKS_RUNNING_BUFFERS_H
#define TRAIN_RANKS_RUNNING_BUFFERS_H

#include "comm/comm.h"
#include "ranks/step_share.h"
#include "tensor/tape.h"

typedef struct running_buffers {
    const tape *tape;
    const step_share *share;
    int64_t count; /* elements of a micro-batch's part; 0: nothing to do */
    int64_t max_pieces;
    float *parts; /* (ranks, max_pieces, count) */
} running_buffers;

scion_status running_make(running_buffers *m, const tape *t, const step_share *share, scion_error *err);
void running_free(running_buffers *m);
/* Before and after piece k of this rank. */
void running_clear(const running_buffers *m);
void running_keep(const running_buffers *m, int64_t k);
/* Applies all parts but the first `skip` to `before`, the flat buffers before the step. The result goes where the
 * tape is bound. */
void running_apply(const running_buffers *m, comm *c, const float *before, int64_t skip);

#endif
