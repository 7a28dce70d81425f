/* See reducer.h. */
#include "ranks/reducer.h"

#include <stdlib.h>
#include <string.h>

#include "ranks/exchange.h"
#include "util/fail.h"

enum { arrays_max = 32 };

struct reducer {
    comm *c;
    const shard_plan *shards;
    const step_share *share;
    const tape *tape;
    reducer_options o;
    exchange *exchange;
    exchange_rounding rounding;
    int64_t pieces, group;      /* of this rank; that are added one after another */
    int depth;                  /* arrays above the first */
    void *sums[arrays_max];     /* sums[0]: apart from the gradients, else NULL */
    int64_t begins[arrays_max]; /* the first sequence that is summed in each */
    int filled;                 /* arrays in use */
    void *bottom;               /* sums[0], or the gradients */
};

/* A rank has one branch of the tree if the groups divide evenly; else it adds its pieces one after another. */
static void plan_tree(reducer *r)
{
    const step_share *s = r->share;
    const int64_t groups = s->accum & -s->accum; /* the largest power of two in it */
    r->group = r->pieces;
    if (!r->o.deterministic || !s->whole || groups % s->ranks != 0)
        return;
    r->group = s->accum / groups;
    for (int64_t n = groups / s->ranks; n > 1; n /= 2)
        r->depth++;
}

scion_status reducer_create(reducer **out, comm *c, const shard_plan *shards, const step_share *share,
                            const tape_plan *train, const reducer_options *o, scion_error *err)
{
    reducer *r = *out = calloc(1, sizeof *r);
    if (!r)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    r->c = c;
    r->shards = shards;
    r->share = share;
    r->tape = plan_tape(train);
    r->o = *o;
    r->pieces = share_pieces(share, share->rank);
    r->rounding = (exchange_rounding){.seed = o->seed, .nearest = o->round_nearest, .share = share};
    plan_tree(r);
    return exchange_create(&r->exchange, c, shards, train, o->wire, o->threads, err);
}

void reducer_free(reducer *r)
{
    for (int i = 0; r && i < arrays_max; i++)
        free(r->sums[i]);
    if (r)
        exchange_free(r->exchange);
    free(r);
}

bool reducer_is_apart(const reducer *r)
{
    return r->o.deterministic && r->o.light;
}

size_t reducer_bytes(const reducer *r)
{
    const size_t arrays = (size_t)r->depth + (reducer_is_apart(r) ? 1 : 0);
    return arrays * tape_grad_bytes(r->tape) + exchange_bytes(r->exchange);
}

scion_status reducer_allocate(reducer *r, scion_error *err)
{
    const size_t bytes = (tape_grad_bytes(r->tape) + 63) / 64 * 64;
    for (int i = reducer_is_apart(r) ? 0 : 1; i <= r->depth; i++)
        if (!(r->sums[i] = aligned_alloc(64, bytes)))
            return train_fail(err, SCION_ENOMEM, "out of memory for sums of %zu bytes", bytes);
    return exchange_allocate(r->exchange, err);
}

/* ---- The pieces of this rank ---------------------------------------------------------------------------------- */

void reducer_begin(reducer *r, void *grads, int64_t step)
{
    r->bottom = r->sums[0] ? r->sums[0] : grads;
    r->filled = 0;
    r->rounding.step = step;
    exchange_begin(r->exchange, r->bottom, &r->rounding);
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
        exchange_add(r->o.threads, v->grad_type, exchange_rounding_at(&r->rounding, r->begins[i]), v->offset,
                     v->count, sum_at(r, i) + v->grad_at, sum_at(r, i - 1) + v->grad_at);
}

/* After a piece that is not the last: groups are added in pairs, and pairs in pairs. */
void reducer_end_piece(reducer *r, int64_t k)
{
    exchange_progress(r->exchange);
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
    exchange_complete(r->exchange, param);
}

void reducer_watch(reducer *r, int64_t k, tape_run *run)
{
    if (k + 1 < r->pieces || (r->c->size == 1 && r->depth == 0))
        return;
    run->complete = complete;
    run->complete_context = r;
}

/* ---- Ranks ---------------------------------------------------------------------------------------------------- */

void reducer_finish(reducer *r, bool failed)
{
    exchange_finish(r->exchange, failed);
}

void reducer_take_in(reducer *r, void *grads)
{
    const scn_rounding how = exchange_rounding_at(&r->rounding, 0);
    for (int64_t i = 0; r->sums[0] && i < r->shards->count; i++) {
        const shard_bucket *b = &r->shards->buckets[i];
        if (b->owner == r->c->rank)
            exchange_add(r->o.threads, b->grad_type, how, b->first, b->count, sum_at(r, 0) + b->grad_at,
                         (char *)grads + b->grad_at);
    }
}

void reducer_spread(reducer *r, void *weights)
{
    exchange_spread(r->exchange, weights);
}
