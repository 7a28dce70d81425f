/* Sums the gradients of a step: over the micro-batches (pieces) of this rank, then over ranks, each part to its owner
 * (shard.h). One rank adds its pieces to the gradients as they come, and that is all.
 *
 * deterministic: the gradient is summed along a tree that the settings fix, whatever the number of ranks. With G the
 * largest power of two that divides accum, the micro-batches are G groups in a row; within a group they are added one
 * after another, groups in pairs, pairs in pairs, and so on. 1, 2, 4, ... up to G ranks have the same bits: a rank
 * has one branch of the tree, and branches meet as ranks do (comm.h). It takes log2(G/ranks) more arrays of
 * gradients, with `light` one more than that, since there the gradients hold the average.
 *
 *     reducer_begin(r, grads, step);
 *     for each piece k:  backward pass adds to reducer_array(r, k), as reducer_watch says;  reducer_end_piece(r, k)
 *     reducer_finish(r, failed);       the sums are in the owned parts of grads
 *     ... the optimizer's step ...
 *     reducer_spread(r, weights);      owners' parts become everybody's */
#ifndef TRAIN_RANKS_REDUCER_H
#define TRAIN_RANKS_REDUCER_H

#include "comm/comm.h"
#include "config/config.h"
#include "ranks/shard.h"
#include "ranks/step_share.h"
#include "tensor/plan.h"

typedef struct reducer reducer;

/* settings, c, shards, share and the plan's tape outlive it; `train` gives the order of the backward pass. Nothing
 * large is allocated. */
scion_status reducer_create(reducer **out, const config *settings, int threads, comm *c, const shard_plan *shards,
                            const step_share *share, const tape_plan *train, scion_error *err);
void reducer_free(reducer *r);
/* Memory for sums and messages. */
size_t reducer_bytes(const reducer *r);
scion_status reducer_allocate(reducer *r, scion_error *err);

/* True if the sums of a step have arrays of their own until reducer_add_to_average: a failed step leaves these
 * alone. */
bool reducer_is_apart(const reducer *r);

void reducer_begin(reducer *r, void *grads, int64_t step);
void *reducer_array(reducer *r, int64_t k);
void reducer_end_piece(reducer *r, int64_t k);
/* Lets the backward pass of the last piece tell when gradients are complete, if that matters. */
void reducer_watch(reducer *r, int64_t k, tape_run *run);
/* Waits for the other ranks; failed: sends what is here, because all ranks must finish the exchange. */
void reducer_finish(reducer *r, bool failed);
/* Sums that are apart: adds the owned parts to the average in `grads`. */
void reducer_add_to_average(reducer *r, void *grads);
void reducer_spread(reducer *r, void *weights);

#endif
