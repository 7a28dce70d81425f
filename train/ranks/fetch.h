/* Arrays of which every rank holds the part that it owns, read by rank 0 piece by piece for a checkpoint. Rank 0
 * asks, the others answer until it ends. One rank reads its own memory. */
#ifndef TRAIN_RANKS_FETCH_H
#define TRAIN_RANKS_FETCH_H

#include "comm/comm.h"
#include "ranks/shard.h"
#include "scion_advanced.h"

/* Finds array k of a parameter as far as this rank has it; false: it has no such array, or no part of it. */
typedef bool fetch_find(const void *ctx, int64_t param, int k, scion_array *a);

typedef struct fetcher {
    comm *c;
    const shard_plan *shards;
    fetch_find *find;
    const void *ctx;
} fetcher;

/* Rank 0: copies entries [first, first + count) of array k of a parameter into `to`. The array has `all` entries of a
 * type: as many as the parameter, or fewer, which then have one owner. */
void fetch_entries(const fetcher *f, int64_t param, int k, int32_t type, int64_t all, int64_t first, int64_t count,
                   void *to);
/* Rank 0: ends it. Other ranks: answer until then. All return the status of rank 0. */
scion_status fetch_end(const fetcher *f, scion_status status, scion_error *err);

#endif
