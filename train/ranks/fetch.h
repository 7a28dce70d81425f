/* Arrays of which every rank holds the part that it owns, read by rank 0 piece by piece for a checkpoint. Rank 0 asks,
 * the others answer until it ends. One rank reads its own memory. */
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

typedef struct fetch_array {
    char name[32];
    int32_t type;
    int32_t exists;
    int32_t ndim;
    int64_t shape[4];
    int64_t count;    /* entries of the whole array: those of the parameter, or fewer, which have one owner */
    const void *data; /* all of it, if it is here; else NULL */
} fetch_array;

/* Rank 0: describes array k of a parameter; copies `count` entries from `first` on into `to`. */
fetch_array fetch_about(const fetcher *f, int64_t param, int k);
void fetch_entries(const fetcher *f, int64_t param, int k, const fetch_array *a, int64_t first, int64_t count,
                   void *to);
/* Rank 0: ends it. Other ranks: answer until then. All return the status of rank 0. */
scion_status fetch_end(const fetcher *f, scion_status status, scion_error *err);

#endif
