/* See exchange.h. */
#include "ranks/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/bf16.h"
#include "base/random.h"
#include "ops/parallel.h"
#include "util/fail.h"

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
    scion_dtype wire; /* of gradients in float32 */
    int threads;
    int64_t *order;     /* buckets by the time at which they are complete */
    int32_t *params_of; /* of each bucket: parameters in it */
    int32_t *pending;   /* ... which are not complete */
    int64_t head;       /* the first of the order that has not arrived */
    char *sums;
    const exchange_rounding *by;
    slot slots[window];
    char *staging;
    size_t staging_bytes; /* of one slot, one way */
};

scn_rounding exchange_rounding_at(const exchange_rounding *by, int64_t first)
{
    const scn_rounding nearest = {.random = false};
    return by->nearest ? nearest : scn_rounding_by(by->seed, scn_stream_meeting(by->step, first));
}

static void add_halves(const scn_rounding *how, int64_t first, int64_t n, const uint16_t *from, uint16_t *to)
{
    float block[block_entries];
    for (int64_t i = 0; i < n; i += block_entries) {
        const int64_t now = scn_min(n - i, block_entries);
        scn_from_bf16(now, to + i, block);
        scn_add_bf16(now, from + i, block);
        scn_to_bf16_by(how, now, block, to + i, first + i);
    }
}

void exchange_add(int threads, scion_dtype type, scn_rounding how, int64_t first, int64_t n, const void *from,
                  void *to)
{
    const int64_t blocks = scn_pieces(n, add_entries);
    const int used = (int)scn_min(blocks, threads);
    SCN_PARALLEL_FOR_STATIC(used)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t at = i * add_entries, now = scn_min(n - at, add_entries);
        if (type == SCION_BF16)
            add_halves(&how, first + at, now, (const uint16_t *)from + at, (uint16_t *)to + at);
        else
            op_add_to(now, (const float *)from + at, (float *)to + at);
    }
}

/* ---- Gradients on their way to their owners ------------------------------------------------------------------- */

static size_t wire_bytes(const exchange *x, const shard_bucket *b)
{
    return scn_stored_bytes(shard_wire(b, x->wire), b->count);
}

/* True if a bucket is sent in another type than it is stored in. */
static bool is_converted(const exchange *x, const shard_bucket *b)
{
    return shard_wire(b, x->wire) != b->grad_type;
}

static const shard_bucket *bucket_at(const exchange *x, int64_t place)
{
    return &x->shards->buckets[x->order[place]];
}

static int tag_at(const exchange *x, int64_t place)
{
    return (int)(x->order[place] % COMM_TAGS);
}

/* Expects the part of the bucket from the next child, at `level` or above; without one it is ready to go to the
 * parent. */
static void expect_child(exchange *x, int64_t place, int level)
{
    slot *s = &x->slots[place % window];
    const shard_bucket *b = bucket_at(x, place);
    bool more = true;
    s->state = READY;
    for (s->level = level; more && s->state == READY; s->level++) {
        s->whom = comm_tree_child(x->c, b->owner, s->level, &more);
        if (s->whom < 0)
            continue;
        s->request = comm_receive(x->c, s->whom, COMM_GRADIENTS, tag_at(x, place), s->in, wire_bytes(x, b));
        s->state = RECEIVING;
    }
}

static void add_received(exchange *x, const slot *s, const shard_bucket *b)
{
    void *to = x->sums + b->grad_at;
    if (is_converted(x, b)) {
        scn_add_bf16(b->count, s->in, to);
        return;
    }
    const int64_t meeting = share_first(x->by->share, comm_tree_meeting(x->c, b->owner, s->whom));
    exchange_add(x->threads, b->grad_type, exchange_rounding_at(x->by, meeting), b->first, b->count, s->in, to);
}

static void send_up(exchange *x, int64_t place)
{
    slot *s = &x->slots[place % window];
    const shard_bucket *b = bucket_at(x, place);
    const void *from = x->sums + b->grad_at;
    s->whom = comm_tree_parent(x->c, b->owner);
    if (s->whom < 0) {
        s->state = FINISHED;
        return;
    }
    if (is_converted(x, b)) {
        scn_to_bf16(b->count, from, s->out);
        from = s->out;
    }
    s->request = comm_send(x->c, s->whom, COMM_GRADIENTS, tag_at(x, place), from, wire_bytes(x, b));
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
        expect_child(x, place, s->level);
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
            expect_child(x, x->head + window, 0);
}

void exchange_begin(exchange *x, void *sums, const exchange_rounding *by)
{
    x->head = 0;
    x->sums = sums;
    x->by = by;
    memcpy(x->pending, x->params_of, (size_t)x->shards->count * sizeof *x->pending);
    for (int64_t i = 0; x->c->size > 1 && i < window && i < x->shards->count; i++)
        expect_child(x, i, 0);
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

/* True if bucket i has entries of a parameter. */
static bool has_entries(const shard_plan *s, int64_t i, const tape_value *v)
{
    return i < s->count && s->buckets[i].first < v->offset + v->count;
}

void exchange_complete(exchange *x, const tape_value *param)
{
    for (int64_t i = bucket_from(x->shards, param->offset); has_entries(x->shards, i, param); i++)
        x->pending[i]--;
    exchange_progress(x);
}

/* ---- Weights on their way from their owners ------------------------------------------------------------------- */

static void spread_begin(exchange *x, spread *s, char *weights, int64_t i)
{
    const shard_bucket *b = &x->shards->buckets[i];
    const int from = comm_tree_parent(x->c, b->owner);
    *s = (spread){.receive = -1};
    if (from >= 0)
        s->receive = comm_receive(x->c, from, COMM_WEIGHTS, (int)(i % COMM_TAGS), weights + b->weight_at,
                                  scn_stored_bytes(b->weight_type, b->count));
}

/* The children that wait longest for their own first. */
static void spread_send(exchange *x, spread *s, const char *weights, int64_t i)
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
        s->sends[s->count++] = comm_send(x->c, children[n], COMM_WEIGHTS, (int)(i % COMM_TAGS),
                                         weights + b->weight_at, scn_stored_bytes(b->weight_type, b->count));
    s->sent = true;
}

/* True: the bucket has been here, and gone on. */
static bool spread_done(exchange *x, spread *s, const char *weights, int64_t i)
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

void exchange_spread(exchange *x, void *weights)
{
    spread spreads[window];
    bool done[window];
    const int64_t n = x->shards->count;
    comm_waiting w = comm_wait_begin();
    if (x->c->size == 1)
        return;
    for (int64_t i = 0; i < window && i < n; i++) {
        spread_begin(x, &spreads[i], weights, i);
        done[i] = false;
    }
    for (int64_t head = 0; head < n;) {
        for (int64_t i = head; i < head + window && i < n; i++)
            done[i % window] = done[i % window] || spread_done(x, &spreads[i % window], weights, i);
        if (!done[head % window]) {
            comm_wait_more(x->c, &w, x->shards->buckets[head].owner);
            continue;
        }
        for (; head < n && done[head % window]; head++) {
            done[head % window] = false;
            if (head + window < n)
                spread_begin(x, &spreads[head % window], weights, head + window);
        }
        w = comm_wait_begin();
    }
}

/* ---- Making --------------------------------------------------------------------------------------------------- */

/* Orders buckets by the time at which the backward pass, which goes from the last layer to the first, completes their
 * last parameter. */
static void order_buckets(exchange *x, const tape_plan *train, int64_t *when)
{
    const shard_plan *s = x->shards;
    for (int64_t i = 0; i < s->count; i++)
        x->order[i] = i;
    for (int64_t p = 0; p < s->params; p++) {
        const tape_value *v = tape_param_at(plan_tape(train), p);
        const int64_t completion = plan_completion(train, v);
        if (completion < 0)
            continue;
        for (int64_t i = bucket_from(s, v->offset); has_entries(s, i, v); i++) {
            x->params_of[i]++;
            when[i] = scn_max(when[i], completion);
        }
    }
    for (int64_t i = 1; i < s->count; i++) { /* some thousands at most */
        const int64_t b = x->order[i];
        int64_t k = i;
        for (; k > 0 && when[x->order[k - 1]] > when[b]; k--)
            x->order[k] = x->order[k - 1];
        x->order[k] = b;
    }
}

/* Bytes of the largest message of gradients. */
static size_t largest_message(const exchange *x)
{
    int64_t max = 0;
    for (int64_t i = 0; i < x->shards->count; i++)
        max = scn_max(max, (int64_t)wire_bytes(x, &x->shards->buckets[i]));
    return (size_t)max;
}

scion_status exchange_create(exchange **out, comm *c, const shard_plan *shards, const tape_plan *train,
                             scion_dtype wire, int threads, scion_error *err)
{
    const size_t n = (size_t)shards->count;
    exchange *x = *out = calloc(1, sizeof *x);
    int64_t *when = calloc(n + 1, sizeof *when);
    if (x) {
        *x = (exchange){.c = c, .shards = shards, .wire = wire, .threads = threads};
        x->order = calloc(n + 1, sizeof *x->order);
        x->params_of = calloc(n + 1, sizeof *x->params_of);
        x->pending = calloc(n + 1, sizeof *x->pending);
        x->staging_bytes = (largest_message(x) + 63) / 64 * 64;
    }
    const bool ok = x && when && x->order && x->params_of && x->pending;
    if (ok)
        order_buckets(x, train, when);
    free(when);
    return ok ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for what ranks send each other");
}

/* Messages of other numbers than those of the gradients are made in a second half. */
size_t exchange_bytes(const exchange *x)
{
    return x->c->size > 1 ? (size_t)(x->wire == SCION_BF16 ? 2 : 1) * window * x->staging_bytes : 0;
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
        x->slots[i].out = x->wire == SCION_BF16 ? x->staging + (window + i) * x->staging_bytes : NULL;
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
