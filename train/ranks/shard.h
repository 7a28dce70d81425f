/* Ownership: the parameters of a model divided among ranks, each of which steps its own and has their state.
 *
 * Elementwise parameters are cut into equal ranges, so that every rank has as many of their entries as any other. The
 * rest have one owner each, balanced by the cost of the oracle: the costliest first, always to the rank that has
 * least. A parameter that costs next to nothing (a bias) goes with the one before it.
 *
 * Ranks exchange buckets: runs of at most SHARD_BUCKET entries of the flat arrays, stored alike, with one
 * owner. The gradients of a bucket are summed along the tree of its owner (comm.h), its weights go back along the
 * same tree: size - 1 messages each way. */
#ifndef TRAIN_RANKS_SHARD_H
#define TRAIN_RANKS_SHARD_H

#include "tensor/tape.h"

enum {
    SHARD_BUCKET = 1 << 19, /* entries; 2 MB in float32 */
    SHARD_WINDOW = 8,       /* buckets on their way at the same time */
    SHARD_ENTRY_COST = 100  /* reading and writing an entry takes the time of so many operations of a product */
};

typedef struct shard_bucket {
    int64_t first, count; /* entries of the flat arrays */
    int owner;
    scion_dtype weight_type, grad_type; /* of all its entries */
    size_t weight_at, grad_at;          /* bytes from the beginning of the flat arrays */
} shard_bucket;

typedef struct shard_plan {
    int ranks;
    shard_bucket *buckets; /* in the order of the flat arrays, which they cover */
    int64_t count;
    int64_t params;
    int64_t *first, *own; /* (ranks, params): entries of a parameter that a rank owns, and where they begin */
    double *flops;        /* of each rank: operations of the oracles of its parameters */
    int64_t *entries;     /* of each rank: number that it owns */
} shard_plan;

/* Shares out the tape's parameters, of which `params` and `o` say how they are stepped. `whole`: nothing is cut, so
 * that sums over all parameters have the same bits with any number of ranks. Reads no weights or gradients. */
scion_status shard_make(shard_plan *out, const tape *t, const scion_param *params, const scion_options *o, int ranks,
                        bool whole, scion_error *err);
void shard_free(shard_plan *s);

static inline int64_t shard_first(const shard_plan *s, int rank, int64_t param)
{
    return s->first[rank * s->params + param];
}

static inline int64_t shard_own(const shard_plan *s, int rank, int64_t param)
{
    return s->own[rank * s->params + param];
}

/* Type in which the gradients of a bucket are sent: bfloat16 as it is, float32 as `wire`. */
static inline scion_dtype shard_wire(const shard_bucket *b, scion_dtype wire)
{
    return b->grad_type == SCION_BF16 ? SCION_BF16 : wire;
}

/* Bytes that a rank sends and receives in a step: of gradients, and of weights. */
typedef struct shard_traffic {
    int64_t gradients_sent, gradients_received, weights_sent, weights_received;
} shard_traffic;

/* Times that gradients and weights travel in a step. A rule that needs the gradient at the weights before has two
 * gradients, and those weights travel there and back. */
static inline int shard_gradient_passes(bool needs_prev)
{
    return needs_prev ? 2 : 1;
}
static inline int shard_weight_passes(bool needs_prev)
{
    return needs_prev ? 3 : 1;
}

shard_traffic shard_traffic_of(const shard_plan *s, int rank, scion_dtype wire);

#endif
