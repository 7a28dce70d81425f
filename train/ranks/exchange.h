/* Messages of ranks in a step: gradients by the bucket to their owners, along a tree, and weights back along
 * the same tree (shard.h, comm.h). A bucket goes as soon as all its gradients are complete here; several are on their
 * way at the same time. Buckets go in one order on all ranks, that in which the backward pass completes them, and
 * each rank expects those of a window that begins with its oldest: the oldest of all is in every window, so that some
 * bucket always gets on.
 *
 *     exchange_begin(x, grads, by);
 *     exchange_complete(x, param);    for every parameter, as the backward pass goes
 *     exchange_finish(x, false);      the sums are in the part of grads that this rank owns
 *     ... the step ...
 *     exchange_spread(x, weights); */
#ifndef TRAIN_RANKS_EXCHANGE_H
#define TRAIN_RANKS_EXCHANGE_H

#include "comm/comm.h"
#include "ranks/shard.h"
#include "ranks/step_share.h"
#include "tensor/plan.h"

typedef struct exchange exchange;

/* comm and shards are used as long as it lives; the order is that of `train`'s backward pass. wire: how gradients in
 * float32 travel; those in bfloat16 go as they are. Nothing large is allocated. */
scion_status exchange_create(exchange **out, comm *c, const shard_plan *shards, const tape_plan *train,
                             scion_dtype wire, int threads, scion_error *err);
void exchange_free(exchange *x);
/* Memory for messages; 0 if there is one rank. */
size_t exchange_bytes(const exchange *x);
scion_status exchange_allocate(exchange *x, scion_error *err);

/* How parts of a step's gradient in bfloat16 are added: at random by what begins where, so that threads, buckets and
 * the number of ranks do not matter. */
typedef struct exchange_rounding {
    uint64_t seed;
    int64_t step;
    bool nearest;
    const step_share *share;
} exchange_rounding;

/* Rounding for adding two partial gradients, the later starting at sequence `first`; 0: for adding the sum to light's
 * average. */
scn_rounding exchange_rounding_at(const exchange_rounding *by, int64_t first);

/* sums: a flat array of gradients, which the others' are added to. `by` is used until exchange_finish. */
void exchange_begin(exchange *x, void *sums, const exchange_rounding *by);
/* Nothing more will be added to a parameter here. */
void exchange_complete(exchange *x, const tape_value *param);
/* Does what can be done now. */
void exchange_progress(exchange *x);
/* Waits for all; give_up: parameters that are not complete go as they are. */
void exchange_finish(exchange *x, bool give_up);

/* Owners' parts of `weights`, a flat array, become everybody's. */
void exchange_spread(exchange *x, void *weights);

/* to += from in parallel: n entries of a flat array of gradients, of which the first is number `first`. */
void exchange_add(int threads, scion_dtype type, scn_rounding how, int64_t first, int64_t n, const void *from,
                  void *to);

#endif
