/* See exchange.h. */
#include "run/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/fail.h"
#include "ops/parallel.h"

enum {
    window = 8,      /* buckets on their way at the same time */
    levels_max = 32, /* of trees */
    add_entries = 1 << 16,
    block_entries = 1024
};

typedef enum slot_state { RECEIVING, READY, SENDING, FINISHED } slot_state;

/* A bucket on its way to its owner. */
typedef struct slot {
    slot_state state;
    int level;   /* of the tree, that comes next */
    int request; /* -1: none */
    int whom;    /* rank of the request */
    void *in, *out;
} slot;

/* A bucket on its way from its owner. */
typedef struct spread {
    int receive, sends[levels_max], count;
    bool sent;
} spread;

struct exchange {
    comm *c;
    const shard_plan *shards;
    bool bf16; /* gradients travel as bfloat16 */
    int threads;
    int64_t *order;     /* buckets by the time at which they are complete */
    int32_t *params_of; /* of each bucket: parameters in it */
    int32_t *pending;   /* ... which are not complete */
    int64_t head;       /* the first of the order that has not arrived */
    float *sums;
    slot slots[window];
    char *staging;
    size_t staging_bytes; /* of one slot, one way */
};

void exchange_add(int threads, int64_t n, const float *from, float *to)
{
    const int64_t blocks = (n + add_entries - 1) / add_entries;
    const int used = blocks < threads ? (int)blocks : threads;
    SCN_PARALLEL_FOR_STATIC(used)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t left = n - i * add_entries;
        op_add_to(left < add_entries ? left : add_entries, from + i * add_entries, to + i * add_entries);
    }
}

/* ---- Gradients on their way to their owners ------------------------------------------------------------------- */

static size_t wire_bytes(const exchange *x, int64_t count)
{
    return (size_t)count * (x->bf16 ? sizeof(uint16_t) : sizeof(float));
}

static const shard_bucket *bucket_at(const exchange *x, int64_t place)
{
    return &x->shards->buckets[x->order[place]];
}

static int tag_at(const exchange *x, int64_t place)
{
    return (int)(x->order[place] % COMM_TAGS);
}

/* Expects the next child's part of the bucket; without one it is ready to go to the parent. */
static void expect_child(exchange *x, int64_t place)
{
    slot *s = &x->slots[place % window];
    const shard_bucket *b = bucket_at(x, place);
    bool more = true;
    for (; more; s->level++) {
        s->whom = comm_tree_child(x->c, b->owner, s->level, &more);
        if (s->whom < 0)
            continue;
        s->request = comm_receive(x->c, s->whom, COMM_GRADIENTS, tag_at(x, place), s->in, wire_bytes(x, b->count));
        s->state = RECEIVING;
        s->level++;
        return;
    }
    s->state = READY;
}

static void enter(exchange *x, int64_t place)
{
    slot *s = &x->slots[place % window];
    s->level = 0;
    expect_child(x, place);
}

static void add_received(exchange *x, const slot *s, const shard_bucket *b)
{
    float *to = x->sums + b->first, block[block_entries];
    if (!x->bf16) {
        exchange_add(x->threads, b->count, s->in, to);
        return;
    }
    const uint16_t *from = s->in;
    for (int64_t i = 0; i < b->count; i += block_entries) {
        const int64_t n = b->count - i < block_entries ? b->count - i : block_entries;
        scn_from_bf16(n, from + i, block);
        op_add_to(n, block, to + i);
    }
}

static void send_up(exchange *x, int64_t place)
{
    slot *s = &x->slots[place % window];
    const shard_bucket *b = bucket_at(x, place);
    const float *from = x->sums + b->first;
    s->whom = comm_tree_parent(x->c, b->owner);
    if (s->whom < 0) {
        s->state = FINISHED;
        return;
    }
    if (x->bf16)
        scn_to_bf16(b->count, from, s->out);
    s->request = comm_send(x->c, s->whom, COMM_GRADIENTS, tag_at(x, place), x->bf16 ? s->out : (const void *)from,
                           wire_bytes(x, b->count));
    s->state = SENDING;
}

/* One thing that can be done now for a bucket; false: there is none. */
static bool advance(exchange *x, int64_t place)
{
    slot *s = &x->slots[place % window];
    if (s->state == FINISHED || x->pending[x->order[place]] > 0)
        return false;
    if (s->state == READY) {
        send_up(x, place);
        return true;
    }
    if (!comm_done(x->c, s->request))
        return false;
    if (s->state == RECEIVING) {
        add_received(x, s, bucket_at(x, place));
        expect_child(x, place);
    } else {
        s->state = FINISHED;
    }
    return true;
}

void exchange_progress(exchange *x)
{
    if (x->c->size == 1)
        return;
    for (int64_t i = x->head; i < x->head + window && i < x->shards->count; i++)
        while (advance(x, i)) {
        }
    for (; x->head < x->shards->count && x->slots[x->head % window].state == FINISHED; x->head++)
        if (x->head + window < x->shards->count)
            enter(x, x->head + window);
}

void exchange_begin(exchange *x, float *sums)
{
    x->head = 0;
    x->sums = sums;
    memcpy(x->pending, x->params_of, (size_t)x->shards->count * sizeof *x->pending);
    for (int64_t i = 0; x->c->size > 1 && i < window && i < x->shards->count; i++)
        enter(x, i);
}

void exchange_finish(exchange *x, bool give_up)
{
    comm_waiting w = comm_wait_begin();
    if (x->c->size == 1)
        return;
    if (give_up)
        memset(x->pending, 0, (size_t)x->shards->count * sizeof *x->pending);
    exchange_progress(x);
    for (int64_t head = x->head; x->head < x->shards->count; exchange_progress(x)) {
        if (x->head > head) {
            head = x->head;
            w = comm_wait_begin();
        }
        comm_wait_more(x->c, &w, x->slots[x->head % window].whom);
    }
}

/* The first bucket that has entries of [first, ...). */
static int64_t bucket_from(const shard_plan *s, int64_t first)
{
    int64_t low = 0, high = s->count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (s->buckets[middle].first <= first)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* For each bucket that has entries of a parameter. */
static void count_buckets(const shard_plan *s, const tape_value *v, int32_t *counts, int32_t by)
{
    for (int64_t i = bucket_from(s, v->offset); i < s->count && s->buckets[i].first < v->offset + v->count; i++)
        counts[i] += by;
}

void exchange_complete(exchange *x, const tape_value *param)
{
    count_buckets(x->shards, param, x->pending, -1);
    exchange_progress(x);
}

/* ---- Weights on their way from their owners ------------------------------------------------------------------- */

static void spread_begin(exchange *x, spread *s, float *weights, int64_t i)
{
    const shard_bucket *b = &x->shards->buckets[i];
    const int from = comm_tree_parent(x->c, b->owner);
    *s = (spread){.receive = -1};
    if (from >= 0)
        s->receive = comm_receive(x->c, from, COMM_WEIGHTS, (int)(i % COMM_TAGS), weights + b->first,
                                  (size_t)b->count * sizeof *weights);
}

/* The children that wait longest for their own first. */
static void spread_send(exchange *x, spread *s, const float *weights, int64_t i)
{
    const shard_bucket *b = &x->shards->buckets[i];
    int children[levels_max], n = 0;
    bool more = true;
    for (int level = 0; more; level++) {
        const int child = comm_tree_child(x->c, b->owner, level, &more);
        if (child >= 0)
            children[n++] = child;
    }
    while (n-- > 0)
        s->sends[s->count++] = comm_send(x->c, children[n], COMM_WEIGHTS, (int)(i % COMM_TAGS), weights + b->first,
                                         (size_t)b->count * sizeof *weights);
    s->sent = true;
}

/* True: the bucket has been here, and gone on. */
static bool spread_done(exchange *x, spread *s, float *weights, int64_t i)
{
    if (s->receive >= 0 && comm_done(x->c, s->receive))
        s->receive = -1;
    if (s->receive >= 0)
        return false;
    if (!s->sent)
        spread_send(x, s, weights, i);
    while (s->count > 0 && comm_done(x->c, s->sends[s->count - 1]))
        s->count--;
    return s->count == 0;
}

void exchange_spread(exchange *x, float *weights)
{
    spread ways[window];
    bool done[window];
    const int64_t n = x->shards->count;
    comm_waiting w = comm_wait_begin();
    if (x->c->size == 1)
        return;
    for (int64_t i = 0; i < window && i < n; i++) {
        spread_begin(x, &ways[i], weights, i);
        done[i] = false;
    }
    for (int64_t head = 0; head < n;) {
        for (int64_t i = head; i < head + window && i < n; i++)
            done[i % window] = done[i % window] || spread_done(x, &ways[i % window], weights, i);
        if (!done[head % window]) {
            comm_wait_more(x->c, &w, x->shards->buckets[head].owner);
            continue;
        }
        for (; head < n && done[head % window]; head++) {
            done[head % window] = false;
            if (head + window < n)
                spread_begin(x, &ways[head % window], weights, head + window);
        }
        w = comm_wait_begin();
    }
}

/* ---- Making --------------------------------------------------------------------------------------------------- */

/* The order in which buckets are complete: the backward pass goes from the last layer to the first. It is found by
 * the last event of each parameter. */
static void order_buckets(exchange *x, const tape_plan *train, int64_t *when)
{
    const shard_plan *s = x->shards;
    for (int64_t i = 0; i < s->count; i++)
        x->order[i] = i;
    for (int64_t p = 0; p < s->params; p++) {
        const tape_value *v = tape_param_at(train->tape, p);
        const plan_entry *e = &train->value[v->index];
        if (!e->requires_grad) /* the loss does not depend on it */
            continue;
        count_buckets(s, v, x->params_of, 1);
        for (int64_t i = bucket_from(s, v->offset); i < s->count && s->buckets[i].first < v->offset + v->count; i++)
            when[i] = e->last_gradient > when[i] ? e->last_gradient : when[i];
    }
    for (int64_t i = 1; i < s->count; i++) { /* some thousands at most */
        const int64_t b = x->order[i];
        int64_t k = i;
        for (; k > 0 && when[x->order[k - 1]] > when[b]; k--)
            x->order[k] = x->order[k - 1];
        x->order[k] = b;
    }
}

static int64_t largest_bucket(const shard_plan *s)
{
    int64_t most = 0;
    for (int64_t i = 0; i < s->count; i++)
        most = s->buckets[i].count > most ? s->buckets[i].count : most;
    return most;
}

scion_status exchange_create(exchange **out, comm *c, const shard_plan *shards, const tape_plan *train, bool bf16,
                             int threads, scion_error *err)
{
    const size_t n = (size_t)shards->count;
    exchange *x = *out = calloc(1, sizeof *x);
    int64_t *when = calloc(n + 1, sizeof *when);
    if (x) {
        *x = (exchange){.c = c, .shards = shards, .bf16 = bf16, .threads = threads};
        x->order = calloc(n + 1, sizeof *x->order);
        x->params_of = calloc(n + 1, sizeof *x->params_of);
        x->pending = calloc(n + 1, sizeof *x->pending);
        x->staging_bytes = (wire_bytes(x, largest_bucket(shards)) + 63) / 64 * 64;
    }
    const bool ok = x && when && x->order && x->params_of && x->pending;
    if (ok)
        order_buckets(x, train, when);
    free(when);
    return ok ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for what ranks send each other");
}

/* Messages of bfloat16 are made in a second half. */
size_t exchange_bytes(const exchange *x)
{
    return x->c->size > 1 ? (size_t)(x->bf16 ? 2 : 1) * window * x->staging_bytes : 0;
}

scion_status exchange_allocate(exchange *x, scion_error *err)
{
    if (x->c->size == 1)
        return SCION_OK;
    x->staging = aligned_alloc(64, exchange_bytes(x));
    if (!x->staging)
        return train_fail(err, SCION_ENOMEM, "out of memory for %zu bytes of messages", exchange_bytes(x));
    for (size_t i = 0; i < window; i++) {
        x->slots[i].in = x->staging + i * x->staging_bytes;
        x->slots[i].out = x->bf16 ? x->staging + (window + i) * x->staging_bytes : NULL;
    }
    return SCION_OK;
}

void exchange_free(exchange *x)
{
    if (!x)
        return;
    free(x->order);
    free(x->params_of);
    free(x->pending);
    free(x->staging);
    free(x);
}
