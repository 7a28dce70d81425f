/* See fetch.h. */
#include "ranks/fetch.h"

#include <string.h>

#include "base/arith.h"
#include "base/bf16.h"

enum { TAG_REQUEST = 1, TAG_ANSWER = 2 };

/* Entries [first, first + count) of array k of a parameter; count 0 ends the requests. */
typedef struct request {
    int32_t k, type;
    int64_t param, first, count;
} request;

static void ask(const fetcher *f, int rank, request r, void *to)
{
    comm_wait(f->c, comm_send(f->c, rank, COMM_CONTROL, TAG_REQUEST, &r, sizeof r), rank);
    if (r.count > 0)
        comm_wait(f->c, comm_receive(f->c, rank, COMM_CONTROL, TAG_ANSWER, to, scn_stored_bytes(r.type, r.count)),
                  rank);
}

/* The requested entries in this rank's memory. */
static const void *find_here(const fetcher *f, const request *r)
{
    scion_array a;
    scion_array_init(&a);
    return f->find(f->ctx, r->param, r->k, &a) ? (char *)a.data + scn_stored_bytes(r->type, r->first - a.first)
                                               : NULL;
}

/* Finds the range [*begin, *end) of an array that a rank owns. Arrays smaller than their parameter are never cut. */
static void part_of(const fetcher *f, int rank, int64_t param, int64_t all, int64_t *begin, int64_t *end)
{
    const int64_t own = shard_own(f->shards, rank, param);
    int64_t entries = 0;
    for (int r = 0; r < f->c->size; r++)
        entries += shard_own(f->shards, r, param);
    *begin = entries == all ? shard_first(f->shards, rank, param) : 0;
    *end = *begin + (entries == all ? own : own > 0 ? all : 0);
}

void fetch_entries(const fetcher *f, int64_t param, int k, int32_t type, int64_t all, int64_t first, int64_t count,
                   void *to)
{
    for (int rank = 0; rank < f->c->size; rank++) {
        int64_t begin, end;
        part_of(f, rank, param, all, &begin, &end);
        begin = scn_max(begin, first);
        end = scn_min(end, first + count);
        if (end <= begin)
            continue;
        const request r = {k, type, param, begin, end - begin};
        void *into = (char *)to + scn_stored_bytes(type, begin - first);
        if (rank == f->c->rank)
            memcpy(into, find_here(f, &r), scn_stored_bytes(type, r.count));
        else
            ask(f, rank, r, into);
    }
}

scion_status fetch_end(const fetcher *f, scion_status status, scion_error *err)
{
    comm *c = f->c;
    for (int rank = 1; c->rank == 0 && rank < c->size; rank++)
        ask(f, rank, (request){.count = 0}, NULL);
    for (request r = {.count = 1}; c->rank != 0;) {
        comm_wait(c, comm_receive(c, 0, COMM_CONTROL, TAG_REQUEST, &r, sizeof r), 0);
        if (r.count == 0)
            break;
        comm_wait(c, comm_send(c, 0, COMM_CONTROL, TAG_ANSWER, find_here(f, &r), scn_stored_bytes(r.type, r.count)),
                  0);
    }
    return comm_agree(c, status, err, NULL);
}
