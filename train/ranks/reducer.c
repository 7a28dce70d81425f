/* See reducer.h.
 *
 * Ranks exchange buckets of gradients and weights (shard.h): gradients go to their owners along a tree, weights back
 * along the same tree (comm.h). A bucket goes as soon as all its gradients are complete here; several are on their
 * way at the same time. Buckets go in one order on all ranks, that in which the backward pass completes them, and
 * each rank expects those of a window that begins with its oldest: the oldest of all is in every window, so that some
 * bucket always gets on. */
#include "ranks/reducer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/bf16.h"
#include "base/random.h"
#include "ops/parallel.h"
#include "util/fail.h"

enum {
    arrays_max = 32, /* sums of one rank */
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
    int peer;    /* rank of the request */
    void *in, *out;
} slot;

/* A bucket on its way from its owner. */
typedef struct spread {
    int receive, sends[levels_max], count;
    bool sent, done;
} spread;

struct reducer {
    comm *c;
    const shard_plan *shards;
    const step_share *share;
    const tape *tape;
    const training_options *o;
    bool light; /* the gradients hold the average */
    int threads;
    int64_t step; /* for the rounding */

    /* Sums of this rank */
    int64_t pieces, group;      /* of this rank; that are added one after another */
    int depth;                  /* arrays above the first */
    void *sums[arrays_max];     /* sums[0]: apart from the gradients, else NULL */
    int64_t begins[arrays_max]; /* the first sequence that is summed in each */
    int filled;                 /* arrays in use */
    void *bottom;               /* sums[0], or the gradients */

    /* Buckets of other ranks, which are added to the bottom */
    int64_t *order;     /* buckets by the time at which they are complete */
    int32_t *params_of; /* of each bucket: parameters in it */
    int32_t *pending;   /* ... which are not complete */
    int64_t head;       /* the first of the order that has not arrived */
    slot slots[SHARD_WINDOW];
    char *staging;
    size_t staging_bytes; /* of one slot, one way */
};

/* ---- Adding --------------------------------------------------------------------------------------------------- */

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

/* to += from in parallel: n entries of a flat array of gradients, of which the first is number `entry`. Sums in
 * bfloat16 are rounded by the sequence that the later of the two parts begins with (0: the sum that light's average
 * takes in), so that threads, buckets and the number of ranks do not matter. */
static void add(const reducer *r, scion_dtype type, int64_t sequence, int64_t entry, int64_t n, const void *from,
                void *to)
{
    scn_rounding how = {.random = false};
    if (r->o->rounding != SCION_ROUNDING_NEAREST)
        how = scn_rounding_by(r->o->seed, scn_stream_meeting(r->step, sequence));
    const int64_t blocks = scn_pieces(n, add_entries);
    const int used = (int)scn_min(blocks, r->threads);
    SCN_PARALLEL_FOR_STATIC(used, i, blocks) {
        const int64_t at = i * add_entries, now = scn_min(n - at, add_entries);
        if (type == SCION_BF16)
            add_halves(&how, entry + at, now, (const uint16_t *)from + at, (uint16_t *)to + at);
        else
            op_add_to(now, (const float *)from + at, (float *)to + at);
    }
}

/* ---- Gradients on their way to their owners ------------------------------------------------------------------- */

static size_t wire_bytes(const reducer *r, const shard_bucket *b)
{
    return scn_stored_bytes(shard_wire(b, (scion_dtype)r->o->wire), b->count);
}

/* True if a bucket is sent in another type than it is stored in. */
static bool is_converted(const reducer *r, const shard_bucket *b)
{
    return shard_wire(b, (scion_dtype)r->o->wire) != b->grad_type;
}

static const shard_bucket *bucket_at(const reducer *r, int64_t place)
{
    return &r->shards->buckets[r->order[place]];
}

static int tag_at(const reducer *r, int64_t place)
{
    return (int)(r->order[place] % COMM_TAGS);
}

/* Expects the part of the bucket from the next child, at `level` or above; without one it is ready to go to the
 * parent. */
static void expect_child(reducer *r, int64_t place, int level)
{
    slot *s = &r->slots[place % SHARD_WINDOW];
    const shard_bucket *b = bucket_at(r, place);
    bool more = true;
    s->state = READY;
    for (s->level = level; more && s->state == READY; s->level++) {
        s->peer = comm_tree_child(r->c, b->owner, s->level, &more);
        if (s->peer < 0)
            continue;
        s->request = comm_receive(r->c, s->peer, COMM_GRADIENTS, tag_at(r, place), s->in, wire_bytes(r, b));
        s->state = RECEIVING;
    }
}

static void add_received(reducer *r, const slot *s, const shard_bucket *b)
{
    void *to = (char *)r->bottom + b->grad_at;
    if (is_converted(r, b)) {
        scn_add_bf16(b->count, s->in, to);
        return;
    }
    const int64_t meeting = share_first(r->share, comm_tree_merge(r->c, b->owner, s->peer));
    add(r, b->grad_type, meeting, b->first, b->count, s->in, to);
}

static void send_up(reducer *r, int64_t place)
{
    slot *s = &r->slots[place % SHARD_WINDOW];
    const shard_bucket *b = bucket_at(r, place);
    const void *from = (char *)r->bottom + b->grad_at;
    s->peer = comm_tree_parent(r->c, b->owner);
    if (s->peer < 0) {
        s->state = FINISHED;
        return;
    }
    if (is_converted(r, b)) {
        scn_to_bf16(b->count, from, s->out);
        from = s->out;
    }
    s->request = comm_send(r->c, s->peer, COMM_GRADIENTS, tag_at(r, place), from, wire_bytes(r, b));
    s->state = SENDING;
}

/* One thing that can be done now for a bucket; false: there is none. */
static bool advance(reducer *r, int64_t place)
{
    slot *s = &r->slots[place % SHARD_WINDOW];
    if (s->state == FINISHED || r->pending[r->order[place]] > 0)
        return false;
    if (s->state == READY) {
        send_up(r, place);
        return true;
    }
    if (!comm_done(r->c, s->request))
        return false;
    if (s->state == RECEIVING) {
        add_received(r, s, bucket_at(r, place));
        expect_child(r, place, s->level);
    } else {
        s->state = FINISHED;
    }
    return true;
}

static void progress(reducer *r)
{
    if (r->c->size == 1)
        return;
    for (int64_t i = r->head; i < r->head + SHARD_WINDOW && i < r->shards->count; i++)
        while (advance(r, i)) {
        }
    for (; r->head < r->shards->count && r->slots[r->head % SHARD_WINDOW].state == FINISHED; r->head++)
        if (r->head + SHARD_WINDOW < r->shards->count)
            expect_child(r, r->head + SHARD_WINDOW, 0);
}

void reducer_finish(reducer *r, bool failed)
{
    comm_waiting w = comm_wait_begin();
    if (r->c->size == 1)
        return;
    if (failed)
        memset(r->pending, 0, (size_t)r->shards->count * sizeof *r->pending);
    progress(r);
    for (int64_t head = r->head; r->head < r->shards->count; progress(r)) {
        if (r->head > head) {
            head = r->head;
            w = comm_wait_begin();
        }
        comm_wait_more(r->c, &w, r->slots[r->head % SHARD_WINDOW].peer);
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

/* ---- Weights on their way from their owners ------------------------------------------------------------------- */

static void spread_begin(reducer *r, spread *s, char *weights, int64_t i)
{
    const shard_bucket *b = &r->shards->buckets[i];
    const int from = comm_tree_parent(r->c, b->owner);
    *s = (spread){.receive = -1};
    if (from >= 0)
        s->receive = comm_receive(r->c, from, COMM_WEIGHTS, (int)(i % COMM_TAGS), weights + b->weight_at,
                                  scn_stored_bytes(b->weight_type, b->count));
}

/* Largest subtrees first: they have the longest way to go. */
static void spread_send(reducer *r, spread *s, const char *weights, int64_t i)
{
    const shard_bucket *b = &r->shards->buckets[i];
    int children[levels_max], n = 0;
    bool more = true;
    for (int level = 0; more; level++) {
        const int child = comm_tree_child(r->c, b->owner, level, &more);
        if (child >= 0)
            children[n++] = child;
    }
    while (n-- > 0)
        s->sends[s->count++] = comm_send(r->c, children[n], COMM_WEIGHTS, (int)(i % COMM_TAGS),
                                         weights + b->weight_at, scn_stored_bytes(b->weight_type, b->count));
    s->sent = true;
}

/* Does what can be done now; done: the bucket has been here, and gone on. */
static void spread_advance(reducer *r, spread *s, const char *weights, int64_t i)
{
    if (s->receive >= 0 && comm_done(r->c, s->receive))
        s->receive = -1;
    if (s->receive >= 0)
        return;
    if (!s->sent)
        spread_send(r, s, weights, i);
    while (s->count > 0 && comm_done(r->c, s->sends[s->count - 1]))
        s->count--;
    s->done = s->count == 0;
}

void reducer_spread(reducer *r, void *weights)
{
    spread spreads[SHARD_WINDOW];
    const int64_t n = r->shards->count;
    comm_waiting w = comm_wait_begin();
    if (r->c->size == 1)
        return;
    for (int64_t i = 0; i < SHARD_WINDOW && i < n; i++)
        spread_begin(r, &spreads[i], weights, i);
    for (int64_t head = 0; head < n;) {
        for (int64_t i = head; i < head + SHARD_WINDOW && i < n; i++)
            if (!spreads[i % SHARD_WINDOW].done)
                spread_advance(r, &spreads[i % SHARD_WINDOW], weights, i);
        if (!spreads[head % SHARD_WINDOW].done) {
            comm_wait_more(r->c, &w, r->shards->buckets[head].owner);
            continue;
        }
        for (; head < n && spreads[head % SHARD_WINDOW].done; head++)
            if (head + SHARD_WINDOW < n)
                spread_begin(r, &spreads[head % SHARD_WINDOW], weights, head + SHARD_WINDOW);
        w = comm_wait_begin();
    }
}

/* ---- The pieces of this rank ---------------------------------------------------------------------------------- */

void reducer_begin(reducer *r, void *grads, int64_t step)
{
    r->bottom = r->sums[0] ? r->sums[0] : grads;
    r->filled = 0;
    r->step = step;
    r->head = 0;
    memcpy(r->pending, r->params_of, (size_t)r->shards->count * sizeof *r->pending);
    for (int64_t i = 0; r->c->size > 1 && i < SHARD_WINDOW && i < r->shards->count; i++)
        expect_child(r, i, 0);
}

static char *sum_at(const reducer *r, int i)
{
    return i == 0 ? r->bottom : r->sums[i];
}

/* The first piece of a group has an array of its own. */
void *reducer_array(reducer *r, int64_t k)
{
    if (k % r->group != 0 && r->filled > 0)
        return sum_at(r, r->filled - 1);
    void *array = sum_at(r, r->filled);
    if (r->filled > 0 || r->sums[0]) /* the trainer's gradients are as the optimizer wants them */
        memset(array, 0, tape_grad_bytes(r->tape));
    r->begins[r->filled++] = share_piece(r->share, r->share->rank, k).first;
    return array;
}

/* Adds the topmost arrays in pairs until `down_to` are left, of one parameter. */
static void fold(const reducer *r, int down_to, const tape_value *v)
{
    for (int i = r->filled - 1; i >= down_to; i--)
        add(r, v->grad_type, r->begins[i], v->offset, v->count, sum_at(r, i) + v->grad_at,
            sum_at(r, i - 1) + v->grad_at);
}

/* After a piece that is not the last: groups are added in pairs, and pairs in pairs. */
void reducer_end_piece(reducer *r, int64_t k)
{
    progress(r);
    if (k + 1 == r->pieces || (k + 1) % r->group != 0)
        return;
    for (int64_t groups = (k + 1) / r->group; groups % 2 == 0; groups /= 2) {
        for (int64_t i = 0; i < tape_param_count(r->tape); i++)
            fold(r, r->filled - 1, tape_param_at(r->tape, i));
        r->filled--;
    }
}

static void complete(void *context, const tape_value *param)
{
    reducer *r = context;
    fold(r, 1, param);
    for (int64_t i = bucket_from(r->shards, param->offset); has_entries(r->shards, i, param); i++)
        r->pending[i]--;
    progress(r);
}

void reducer_watch(reducer *r, int64_t k, tape_run *run)
{
    if (k + 1 < r->pieces || (r->c->size == 1 && r->depth == 0))
        return;
    run->complete = complete;
    run->complete_context = r;
}

void reducer_add_to_average(reducer *r, void *grads)
{
    for (int64_t i = 0; r->sums[0] && i < r->shards->count; i++) {
        const shard_bucket *b = &r->shards->buckets[i];
        if (b->owner == r->c->rank)
            add(r, b->grad_type, 0, b->first, b->count, sum_at(r, 0) + b->grad_at, (char *)grads + b->grad_at);
    }
}

/* ---- Making --------------------------------------------------------------------------------------------------- */

/* Orders buckets by the time at which the backward pass, which goes from the last layer to the first, completes their
 * last parameter. */
static void order_buckets(reducer *r, const tape_plan *train, int64_t *when)
{
    const shard_plan *s = r->shards;
    for (int64_t i = 0; i < s->count; i++)
        r->order[i] = i;
    for (int64_t p = 0; p < s->params; p++) {
        const tape_value *v = tape_param_at(plan_tape(train), p);
        const int64_t completion = plan_completion(train, v);
        if (completion < 0)
            continue;
        for (int64_t i = bucket_from(s, v->offset); has_entries(s, i, v); i++) {
            r->params_of[i]++;
            when[i] = scn_max(when[i], completion);
        }
    }
    for (int64_t i = 1; i < s->count; i++) { /* some thousands at most */
        const int64_t b = r->order[i];
        int64_t k = i;
        for (; k > 0 && when[r->order[k - 1]] > when[b]; k--)
            r->order[k] = r->order[k - 1];
        r->order[k] = b;
    }
}

/* Bytes of the largest message of gradients. */
static size_t largest_message(const reducer *r)
{
    int64_t max = 0;
    for (int64_t i = 0; i < r->shards->count; i++)
        max = scn_max(max, (int64_t)wire_bytes(r, &r->shards->buckets[i]));
    return (size_t)max;
}

/* A rank has one branch of the tree if the groups divide evenly; else it adds its pieces one after another. */
static void plan_tree(reducer *r)
{
    const step_share *s = r->share;
    const int64_t groups = s->accum & -s->accum; /* the largest power of two in it */
    r->group = r->pieces;
    if (!r->o->deterministic || !s->whole || groups % s->ranks != 0)
        return;
    r->group = s->accum / groups;
    for (int64_t n = groups / s->ranks; n > 1; n /= 2)
        r->depth++;
}

scion_status reducer_create(reducer **out, const config *settings, int threads, comm *c, const shard_plan *shards,
                            const step_share *share, const tape_plan *train, scion_error *err)
{
    const size_t n = (size_t)shards->count;
    reducer *r = *out = calloc(1, sizeof *r);
    int64_t *when = calloc(n + 1, sizeof *when);
    if (r) {
        *r = (reducer){.c = c, .shards = shards, .share = share, .tape = plan_tape(train), .threads = threads};
        r->o = &settings->training;
        r->light = settings->optimizer.light;
        r->pieces = share_pieces(share, share->rank);
        r->order = calloc(n + 1, sizeof *r->order);
        r->params_of = calloc(n + 1, sizeof *r->params_of);
        r->pending = calloc(n + 1, sizeof *r->pending);
        r->staging_bytes = (largest_message(r) + 63) / 64 * 64;
        plan_tree(r);
    }
    const bool ok = r && when && r->order && r->params_of && r->pending;
    if (ok)
        order_buckets(r, train, when);
    free(when);
    return ok ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the sums of gradients");
}

void reducer_free(reducer *r)
{
    if (!r)
        return;
    for (int i = 0; i < arrays_max; i++)
        free(r->sums[i]);
    free(r->order);
    free(r->params_of);
    free(r->pending);
    free(r->staging);
    free(r);
}

bool reducer_is_apart(const reducer *r)
{
    return r->o->deterministic && r->light;
}

/* Messages of another type than the gradients are made in a second half. */
static size_t message_bytes(const reducer *r)
{
    return r->c->size > 1 ? (size_t)(r->o->wire == SCION_BF16 ? 2 : 1) * SHARD_WINDOW * r->staging_bytes : 0;
}

size_t reducer_bytes(const reducer *r)
{
    const size_t arrays = (size_t)r->depth + (reducer_is_apart(r) ? 1 : 0);
    return arrays * tape_grad_bytes(r->tape) + message_bytes(r);
}

scion_status reducer_allocate(reducer *r, scion_error *err)
{
    const size_t bytes = (tape_grad_bytes(r->tape) + 63) / 64 * 64;
    for (int i = reducer_is_apart(r) ? 0 : 1; i <= r->depth; i++)
        if (!(r->sums[i] = aligned_alloc(64, bytes)))
            return train_fail(err, SCION_ENOMEM, "out of memory for sums of %zu bytes", bytes);
    if (r->c->size == 1)
        return SCION_OK;
    if (!(r->staging = aligned_alloc(64, message_bytes(r))))
        return train_fail(err, SCION_ENOMEM, "out of memory for %zu bytes of messages", message_bytes(r));
    for (size_t i = 0; i < SHARD_WINDOW; i++) {
        r->slots[i].in = r->staging + i * r->staging_bytes;
        r->slots[i].out = r->o->wire == SCION_BF16 ? r->staging + (SHARD_WINDOW + i) * r->staging_bytes : NULL;
    }
    return SCION_OK;
}
