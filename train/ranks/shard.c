/* See shard.h. */
#include "ranks/shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "comm/comm.h"
#include "scion_advanced.h"
#include "util/array.h"
#include "util/fail.h"

/* A parameter of fewer operations goes with the one before it. */
static const double small_cost = 1e6;

typedef struct item {
    int64_t param;
    double cost;
} item;

static int costly_first(const void *x, const void *y)
{
    const item *a = x, *b = y;
    if (a->cost != b->cost)
        return a->cost < b->cost ? 1 : -1;
    return (a->param > b->param) - (a->param < b->param);
}

/* Facts about a parameter that its division depends on. */
typedef struct share {
    int64_t count;
    bool cut;     /* it is cut into ranges */
    double flops; /* of its oracle */
} share;

static int64_t units_of(int64_t count)
{
    return scn_pieces(count, SCION_RANGE);
}

static scion_status find_shares(const scion_param *params, int64_t n, const scion_options *o, bool whole, share *out,
                                scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; i < n; i++) {
        scion_param_properties about;
        scion_param_properties_init(&about);
        TRY(scion_param_info(&params[i], o, &about, err));
        out[i] = (share){.count = about.elements,
                         .cut = about.ranges && !whole && units_of(about.elements) > 1,
                         .flops = about.flops};
    }
done:
    return status;
}

/* Rank r has units [r U / ranks, (r + 1) U / ranks) of all parameters that are cut, put in a row. */
static void own_ranges(shard_plan *s, const share *of)
{
    int64_t all = 0, before = 0;
    for (int64_t i = 0; i < s->params; i++)
        all += of[i].cut ? units_of(of[i].count) : 0;
    for (int64_t i = 0; i < s->params; i++) {
        const int64_t units = of[i].cut ? units_of(of[i].count) : 0;
        for (int64_t r = 0; r < s->ranks && units > 0; r++) {
            int64_t begin = all * r / s->ranks - before, end = all * (r + 1) / s->ranks - before;
            begin = scn_max(0, scn_min(begin, units));
            end = scn_max(0, scn_min(end, units));
            const int64_t last = scn_min(end * SCION_RANGE, of[i].count);
            if (end <= begin)
                continue;
            s->first[r * s->params + i] = begin * SCION_RANGE;
            s->own[r * s->params + i] = last - begin * SCION_RANGE;
            s->flops[r] += of[i].flops * (double)(last - begin * SCION_RANGE) / (double)of[i].count;
        }
        before += units;
    }
}

static void give(shard_plan *s, const share *of, int64_t param, int rank)
{
    s->own[rank * s->params + param] = of[param].count;
    s->flops[rank] += of[param].flops;
}

/* Gives the costliest first, to the rank with the smallest load; ranges are equal and not counted. */
static void own_wholes(shard_plan *s, const share *of, item *items, double *load)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->params; i++) {
        const double cost = of[i].flops + SHARD_ENTRY_COST * (double)of[i].count;
        if (!of[i].cut && (cost >= small_cost || i == 0))
            items[n++] = (item){i, cost};
    }
    if (n > 1)
        qsort(items, (size_t)n, sizeof *items, costly_first);
    for (int64_t k = 0; k < n; k++) {
        int least = 0;
        for (int r = 1; r < s->ranks; r++)
            least = load[r] < load[least] ? r : least;
        give(s, of, items[k].param, least);
        load[least] += items[k].cost;
    }
}

/* The rank that owns the last entry of a parameter. */
static int last_owner(const shard_plan *s, int64_t param)
{
    int owner = 0;
    for (int r = 0; r < s->ranks; r++)
        if (shard_own(s, r, param) > 0)
            owner = r;
    return owner;
}

static void own_small(shard_plan *s, const share *of)
{
    for (int64_t i = 1; i < s->params; i++)
        if (!of[i].cut && of[i].flops + SHARD_ENTRY_COST * (double)of[i].count < small_cost)
            give(s, of, i, last_owner(s, i - 1));
}

/* True if b follows a in both arrays and fits into the same bucket. */
static bool joins(const shard_bucket *a, const shard_bucket *b)
{
    return a->owner == b->owner && a->count + b->count <= SHARD_BUCKET && a->weight_type == b->weight_type &&
           a->grad_type == b->grad_type &&
           a->weight_at + scn_stored_bytes(a->weight_type, a->count) == b->weight_at &&
           a->grad_at + scn_stored_bytes(a->grad_type, a->count) == b->grad_at;
}

/* `count` entries of a parameter from `first` on. */
static shard_bucket range_of(const tape_value *v, int64_t first, int64_t count, int owner)
{
    return (shard_bucket){.first = v->offset + first,
                          .count = count,
                          .owner = owner,
                          .weight_type = v->weight_type,
                          .grad_type = v->grad_type,
                          .weight_at = v->weight_at + scn_stored_bytes(v->weight_type, first),
                          .grad_at = v->grad_at + scn_stored_bytes(v->grad_type, first)};
}

/* Adds a range with one owner to the list, in equal pieces; to the last bucket if it fits there. False: out of
 * memory. */
static bool add_range(shard_plan *s, const tape_value *v, int64_t first, int64_t count, int owner)
{
    shard_bucket *last = s->count > 0 ? &s->buckets[s->count - 1] : NULL;
    const shard_bucket all = range_of(v, first, count, owner);
    const int64_t pieces = scn_pieces(count, SHARD_BUCKET);
    if (last && joins(last, &all)) {
        last->count += count;
        return true;
    }
    for (int64_t k = 0; k < pieces; k++) {
        const int64_t begin = count * k / pieces, end = count * (k + 1) / pieces;
        shard_bucket *b = array_append(&s->buckets, &s->count, sizeof *b);
        if (!b)
            return false;
        *b = range_of(v, first + begin, end - begin, owner);
    }
    return true;
}

static scion_status make_buckets(shard_plan *s, const tape *t, scion_error *err)
{
    for (int64_t i = 0; i < s->params; i++)
        for (int r = 0; r < s->ranks; r++) { /* ranges follow each other in the order of the ranks */
            const int64_t own = shard_own(s, r, i);
            if (own > 0 && !add_range(s, tape_param_at(t, i), shard_first(s, r, i), own, r))
                return train_fail(err, SCION_ENOMEM, "out of memory for the ranks' shares");
            s->entries[r] += own;
        }
    return SCION_OK;
}

scion_status shard_make(shard_plan *out, const tape *t, const scion_param *params, const scion_options *o, int ranks,
                        bool whole, scion_error *err)
{
    const size_t n = (size_t)tape_param_count(t), all = n * (size_t)ranks;
    shard_plan s = {.ranks = ranks, .params = (int64_t)n};
    share *of = calloc(n + 1, sizeof *of);
    item *items = calloc(n + 1, sizeof *items);
    double *load = calloc((size_t)ranks, sizeof *load);
    s.first = calloc(all + 1, sizeof *s.first);
    s.own = calloc(all + 1, sizeof *s.own);
    s.flops = calloc((size_t)ranks, sizeof *s.flops);
    s.entries = calloc((size_t)ranks, sizeof *s.entries);
    scion_status status = SCION_OK;
    if (!of || !items || !load || !s.first || !s.own || !s.flops || !s.entries)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the ranks' shares"));
    TRY(find_shares(params, s.params, o, whole, of, err));
    own_ranges(&s, of);
    own_wholes(&s, of, items, load);
    own_small(&s, of);
    TRY(make_buckets(&s, t, err));
done:
    free(of);
    free(items);
    free(load);
    if (status != SCION_OK)
        shard_free(&s);
    *out = s;
    return status;
}

void shard_free(shard_plan *s)
{
    free(s->buckets);
    free(s->first);
    free(s->own);
    free(s->flops);
    free(s->entries);
    *s = (shard_plan){.ranks = 0};
}

shard_traffic shard_traffic_of(const shard_plan *s, int rank, scion_dtype wire)
{
    const comm seen = {.rank = rank, .size = s->ranks};
    shard_traffic sum = {0};
    for (int64_t i = 0; i < s->count; i++) {
        const shard_bucket *b = &s->buckets[i];
        const int64_t gradients = (int64_t)scn_stored_bytes(shard_wire(b, wire), b->count),
                      weights = (int64_t)scn_stored_bytes(b->weight_type, b->count);
        int64_t children = 0;
        bool more = true;
        for (int level = 0; more; level++)
            children += comm_tree_child(&seen, b->owner, level, &more) >= 0;
        sum.gradients_received += children * gradients;
        sum.weights_sent += children * weights;
        if (rank != b->owner) {
            sum.gradients_sent += gradients;
            sum.weights_received += weights;
        }
    }
    return sum;
}
