/* See fetch.h. */
#include "ranks/fetch.h"

#include <stdio.h>
#include <string.h>

#include "base/bf16.h"

enum { TAG_REQUEST = 1, TAG_ANSWER = 2 };

typedef enum request_kind { REQUEST_ABOUT, REQUEST_ENTRIES, REQUEST_END } request_kind;

typedef struct request {
    int32_t kind, k, type;
    int64_t param, first, count;
} request;

static fetch_array about_here(const fetcher *f, int64_t param, int k)
{
    scion_array a;
    scion_array_init(&a);
    fetch_array found = {.exists = f->find(f->ctx, param, k, &a)};
    if (found.exists) {
        found.type = a.type;
        found.ndim = a.ndim;
        memcpy(found.shape, a.shape, sizeof found.shape);
        found.count = 1;
        for (int i = 0; i < a.ndim; i++)
            found.count *= a.shape[i];
        found.data = f->c->size == 1 ? a.data : NULL;
        snprintf(found.name, sizeof found.name, "%s", a.name);
    }
    return found;
}

static void ask(const fetcher *f, int rank, request r, void *to, size_t bytes)
{
    comm_wait(f->c, comm_send(f->c, rank, COMM_CONTROL, TAG_REQUEST, &r, sizeof r), rank);
    if (bytes > 0)
        comm_wait(f->c, comm_receive(f->c, rank, COMM_CONTROL, TAG_ANSWER, to, bytes), rank);
}

fetch_array fetch_about(const fetcher *f, int64_t param, int k)
{
    fetch_array found = {.exists = 0};
    int rank = 0;
    while (rank < f->c->size && shard_own(f->shards, rank, param) == 0)
        rank++;
    if (rank == f->c->rank)
        return about_here(f, param, k);
    if (rank < f->c->size)
        ask(f, rank, (request){.kind = REQUEST_ABOUT, .k = k, .param = param}, &found, sizeof found);
    found.data = NULL;
    return found;
}

/* Entries [*begin, *end) of an array are a rank's. Arrays smaller than their parameter are never cut. */
static void part_of(const fetcher *f, int rank, int64_t param, const fetch_array *a, int64_t *begin, int64_t *end)
{
    const int64_t own = shard_own(f->shards, rank, param);
    int64_t all = 0;
    for (int r = 0; r < f->c->size; r++)
        all += shard_own(f->shards, r, param);
    *begin = all == a->count ? shard_first(f->shards, rank, param) : 0;
    *end = *begin + (all == a->count ? own : own > 0 ? a->count : 0);
}

void fetch_entries(const fetcher *f, int64_t param, int k, const fetch_array *a, int64_t first, int64_t count,
                   void *to)
{
    for (int rank = 0; rank < f->c->size; rank++) {
        int64_t begin, end;
        part_of(f, rank, param, a, &begin, &end);
        const int64_t from = begin > first ? begin : first, up_to = end < first + count ? end : first + count;
        const size_t bytes = up_to > from ? scn_stored_bytes(a->type, up_to - from) : 0;
        char *into = (char *)to + (bytes > 0 ? scn_stored_bytes(a->type, from - first) : 0);
        scion_array here;
        scion_array_init(&here);
        if (bytes > 0 && rank != f->c->rank)
            ask(f, rank, (request){REQUEST_ENTRIES, k, a->type, param, from, up_to - from}, into, bytes);
        else if (bytes > 0 && f->find(f->ctx, param, k, &here))
            memcpy(into, (const char *)here.data + scn_stored_bytes(a->type, from - here.first), bytes);
    }
}

static void answer(const fetcher *f, const request *r)
{
    fetch_array found = about_here(f, r->param, r->k);
    const void *from = &found;
    size_t bytes = sizeof found;
    scion_array a;
    scion_array_init(&a);
    if (r->kind == REQUEST_ENTRIES && f->find(f->ctx, r->param, r->k, &a)) {
        from = (const char *)a.data + scn_stored_bytes(r->type, r->first - a.first);
        bytes = scn_stored_bytes(r->type, r->count);
    }
    comm_wait(f->c, comm_send(f->c, 0, COMM_CONTROL, TAG_ANSWER, from, bytes), 0);
}

scion_status fetch_end(const fetcher *f, scion_status status, scion_error *err)
{
    comm *c = f->c;
    scion_error why = {.message = ""};
    for (int rank = 1; c->rank == 0 && rank < c->size; rank++)
        ask(f, rank, (request){.kind = REQUEST_END}, NULL, 0);
    for (request r = {.kind = REQUEST_ABOUT}; c->rank != 0 && r.kind != REQUEST_END;) {
        comm_wait(c, comm_receive(c, 0, COMM_CONTROL, TAG_REQUEST, &r, sizeof r), 0);
        if (r.kind != REQUEST_END)
            answer(f, &r);
    }
    if (status != SCION_OK && err)
        why = *err;
    status = comm_agree(c, status, &why, NULL);
    if (status != SCION_OK && err)
        *err = why;
    return status;
}
