/* Decoding ahead: threads that fetch samples before they are asked for. */
#ifndef TRAIN_DATA_PREFETCH_H
#define TRAIN_DATA_PREFETCH_H

#include "data/data_kind.h"

/* Memory for `ahead` samples twice, and `workers` threads. NULL: out of memory or threads; d works without. */
data_pool *data_pool_create(const data_set *d, int64_t ahead, int workers);
void data_pool_free(data_pool *p);
size_t data_pool_bytes(const data_pool *p);
/* Begins with samples [first, first + count) of a sequence, as many as there is memory for. */
void data_pool_prefetch(data_pool *p, data_sequence s, int64_t first, int64_t count);
/* Takes a sample that was decoded ahead. False: it was not asked for, or not begun: the caller fetches it. */
bool data_pool_take(data_pool *p, data_sequence s, int64_t number, void *const arrays[], scion_status *status,
                    scion_error *err);

/* Sample `number` of a sequence as fetch gives it, without the pool (data.c). */
scion_status data_fetch_one(const data_set *d, data_sequence s, int64_t number, void *const arrays[],
                            scion_error *err);

#endif
