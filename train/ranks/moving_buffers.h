/* Buffers that move with every micro-batch (running statistics of batch normalisation), on several ranks or with
 * deterministic sums. A micro-batch begins with them at 0 and leaves the part that it adds; at the end of a step all
 * parts are applied in the order of the micro-batches, on every rank: buffer = keep buffer + part. */
#ifndef TRAIN_RANKS_MOVING_BUFFERS_H
#define TRAIN_RANKS_MOVING_BUFFERS_H

#include "comm/comm.h"
#include "ranks/step_share.h"
#include "tensor/tape.h"

typedef struct moving_buffers {
    const tape *tape;
    const step_share *share;
    int64_t count; /* elements of a micro-batch's part; 0: nothing to do */
    int64_t max_pieces;
    float *parts; /* (ranks, max_pieces, count) */
} moving_buffers;

scion_status moving_make(moving_buffers *m, const tape *t, const step_share *share, scion_error *err);
void moving_free(moving_buffers *m);
/* Before and after piece k of this rank. */
void moving_clear(const moving_buffers *m);
void moving_keep(const moving_buffers *m, int64_t k);
/* Applies all parts but the first `skip` to `before`, the flat buffers before the step. The result goes where the tape
 * is bound. */
void moving_apply(const moving_buffers *m, comm *c, const float *before, int64_t skip);

#endif
