/* plan.c - decides when operations run, when arrays are in use, and where they can live.
 *
 * 1. Needed nodes. Only nodes that the target depends on are planned. A view has no node, but its root's arrays.
 *
 * 2. Gradients. A value requires a gradient if the target depends on it and it depends on a parameter; exactly the
 *    nodes that compute such values run backwards.
 *
 *    With compute = SCION_BF16 the results that are operands of products get a copy as bfloat16, and those that are
 *    nothing else only that.
 *
 * 3. Events. A pass is a list of events: first the forward pass of every node, in order, then (in training) the
 *    backward pass of the nodes in reverse. Where the reverse walk reaches the end of a segment of recomputation, the
 *    segment's nodes run forward again before the first of them runs backward, as far as their result or `saved` will
 *    still be read. Two layers of two nodes, the first layer a segment:
 *
 *        event  0   1   2   3  |  4   5   6   7   8
 *        node   A   B   C   D  |  D'  C'  A   B'  A'       (X' is the backward pass of X)
 *
 *    A target with forward_backward runs it as the last event of the forward pass, and has no backward event. A
 *    result that its operator does not write as bfloat16 itself is rounded in an event of its own, right behind.
 *
 * 4. Liveness. The list of events is walked once. A write to an array opens a span of time, each read extends
 *    it. Above, A's result lives in the spans [0,1], for B, and [6,7], for B' (if B' reads it at all): in between its
 *    memory belongs to others. Recomputation needs no other rule.
 *        data    written by forward, read by forward of its users, and by backward where backward_reads says so
 *        stored  (bfloat16) written by forward or by rounding, read where the value is an operand of products
 *        saved   written by forward, read by backward of the same node
 *        grad    written by backward of its users (the first overwrites, the others accumulate), read by backward of
 *                its maker; the target's is written before the first backward event
 *    The caller reads the data of the target at the end of each pass.
 *
 * 5. Storage (bf16). Data for the backward pass is stored as bfloat16 after its last use in the forward pass and
 *    loaded before its first use in the backward pass. These are events too, a read of one array and a write of
 *    another, and the list is walked again: the float32 array then has two spans, as if it were recomputed. A value
 *    that products read is there already and is only loaded.
 *
 * 6. In place. A result moves into the array of its node's first input if the operator allows it and their spans
 *    touch only where the node runs, so that the input is not read afterwards.
 *
 * 7. Offsets. Arrays get offsets in one block, such that no two of them overlap in both time and space. Scratch
 *    memory is behind them: up to there nothing is kept from one run to the next, and plans may share it. Inputs of
 *    the tape and packed weights live as long as the plan, behind that. */
#include "tensor/plan_struct.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/number.h"
#include "base/arith.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/bf16.h"

/* Bytes of an array of n floats. */
static size_t array_bytes(size_t n)
{
    return (size_t)scn_round_up((int64_t)(n * sizeof(float)), PLAN_ALIGN);
}

/* Bytes of an array of n bfloat16. */
static size_t half_bytes(int64_t n)
{
    return (size_t)scn_round_up((int64_t)scn_stored_bytes(SCION_BF16, n), PLAN_ALIGN);
}

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory while planning");
}

/* The entry that has the arrays of a value: its root's. */
static plan_entry *entry_of(const tape_plan *p, const tape_value *v)
{
    return &p->value[p->value[v->index].root];
}

/* True if input k of a node is the same value as an earlier input. */
static bool is_repeated(const tape_plan *p, const tape_node *n, int k)
{
    for (int j = 0; j < k; j++)
        if (n->in[j] && n->in[k] && entry_of(p, n->in[j]) == entry_of(p, n->in[k]))
            return true;
    return false;
}

/* ---- 1. Needed nodes ----------------------------------------------------------------------------------- */

static void find_needed(tape_plan *p, const tape_value *target)
{
    for (int64_t i = 0; i < p->values; i++) {
        p->value[i] = (plan_entry){.own = *tape_value_at(p->tape, i), .root = i, .home = i, .maker = -1};
        p->value[i].own.data = p->value[i].own.grad = NULL;
    }
    p->value[target->index].needed = true;
    for (int64_t i = tape_node_count(p->tape) - 1; i >= 0; i--) {
        const tape_node *n = tape_node_at(p->tape, i);
        for (int k = 0; k < n->inputs && p->value[n->out->index].needed; k++)
            if (n->in[k])
                p->value[n->in[k]->index].needed = true;
    }
}

/* Copies the nodes that are needed, with pointers to this plan's values. */
static void copy_nodes(tape_plan *p)
{
    for (int64_t i = 0; i < tape_node_count(p->tape); i++) {
        const tape_node *from = tape_node_at(p->tape, i);
        plan_entry *out = &p->value[from->out->index];
        if (!out->needed)
            continue;
        if (from->op->view) {
            out->root = p->value[from->in[0]->index].root;
            continue;
        }
        tape_node *n = &p->node[p->nodes].own;
        *n = *from;
        n->compute = p->options.compute;
        n->out = &out->own;
        for (int k = 0; k < n->inputs; k++)
            n->in[k] = n->in[k] ? plan_value(p, n->in[k]) : NULL;
        out->maker = p->nodes++;
    }
}

/* ---- 2. Gradients -------------------------------------------------------------------------------------- */

/* Every planned value leads to the target: mark those that depend on a parameter. */
static scion_status find_gradients(tape_plan *p, scion_error *err)
{
    for (int64_t i = 0; i < p->values; i++)
        p->value[i].requires_grad = p->value[i].needed && p->value[i].own.kind == TAPE_PARAM;
    for (int64_t i = 0; i < p->nodes; i++) {
        plan_node *pn = &p->node[i];
        tape_node *n = &pn->own;
        plan_entry *out = entry_of(p, n->out);
        for (int k = 0; k < n->inputs; k++) {
            n->needs_grad[k] = n->in[k] && entry_of(p, n->in[k])->requires_grad;
            out->requires_grad = out->requires_grad || n->needs_grad[k];
        }
        pn->fused = out->requires_grad && n->op->forward_backward && out == entry_of(p, &p->value[p->target].own);
        pn->backward = out->requires_grad && !pn->fused;
        if (pn->backward && !n->op->backward)
            return train_fail(
                err, SCION_EINVAL, "operator %s (%s) %s, so it cannot be trained through", n->op->name, n->out->name,
                n->op->forward_backward ? "computes its gradient only as the loss itself" : "has no backward pass");
    }
    return SCION_OK;
}

/* Inputs that backward reads, and perhaps the result. */
static unsigned backward_reads(const tape_plan *p, const tape_node *n)
{
    return n->op->backward_reads & ~(p->options.compute == SCION_BF16 ? n->op->float_reads : 0);
}

/* True if a node reads its input k as bfloat16. */
static bool reads_half(const tape_node *n, int k)
{
    return n->in[k] && n->in[k]->has_half && (n->op->operands >> k & 1);
}

/* True if a result is rounded by an event of its own. */
static bool rounds_after(const tape_node *n)
{
    return n->out->has_half && !n->op->half_out;
}

/* Finds the results that exist as bfloat16. Flags are kept with the root, then copied to its views. */
static void find_halves(tape_plan *p)
{
    entry_of(p, &p->value[p->target].own)->floats = true;
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = &p->node[i].own;
        for (int k = 0; k < n->inputs; k++) {
            plan_entry *in = n->in[k] ? entry_of(p, n->in[k]) : NULL;
            if (in && (n->op->operands >> k & 1))
                in->own.has_half = in->maker >= 0;
            else if (in)
                in->floats = true;
        }
        if (p->node[i].backward && (backward_reads(p, n) & TAPE_READS_OUT))
            entry_of(p, n->out)->floats = true;
    }
    for (int64_t i = 0; i < p->values; i++) {
        plan_entry *v = &p->value[i];
        const plan_entry *root = &p->value[v->root];
        if (v == root)
            v->own.half_only = v->own.has_half && !v->floats && p->node[v->maker].own.op->half_out;
        v->own.has_half = root->own.has_half;
        v->own.half_only = root->own.half_only;
    }
}

/* ---- 3. Events ----------------------------------------------------------------------------------------- */

static bool ends_segment(const tape_plan *p, int64_t i)
{
    const int segment = p->node[i].own.segment;
    return segment && (i + 1 == p->nodes || p->node[i + 1].own.segment != segment);
}

/* A node of a segment is recomputed if backward reads its saved array, or if its result is read when the segment runs
 * again or backward. The last result of a segment outlives it and is not recomputed for its own sake. */
static scion_status find_recomputed(tape_plan *p, scion_error *err)
{
    bool *read = calloc((size_t)p->values, sizeof *read); /* inside its segment, after the forward pass */
    if (!read)
        return no_memory(err);
    for (int64_t i = p->nodes - 1; i >= 0; i--) {
        plan_node *pn = &p->node[i];
        const tape_node *n = &pn->own;
        if (!n->segment)
            continue;
        unsigned reads = pn->backward ? backward_reads(p, n) : 0;
        pn->recompute = !pn->fused && (read[n->out->index] || (pn->backward && pn->saved.bytes) ||
                                       ((reads & TAPE_READS_OUT) && !ends_segment(p, i)));
        for (int k = 0; k < n->inputs; k++) {
            const plan_entry *in = n->in[k] ? entry_of(p, n->in[k]) : NULL;
            if (in && in->maker >= 0 && p->node[in->maker].own.segment == n->segment &&
                (pn->recompute || (reads >> k & 1)))
                read[in->own.index] = true;
        }
    }
    free(read);
    return SCION_OK;
}

static void add_event(tape_plan *p, plan_event_kind kind, int64_t index)
{
    p->event[p->events++] = (plan_event){kind, index};
}

static void list_events(tape_plan *p)
{
    for (int64_t i = 0; i < p->nodes; i++) {
        add_event(p, p->node[i].fused ? PLAN_FUSED : PLAN_FORWARD, i);
        if (rounds_after(&p->node[i].own))
            add_event(p, PLAN_STORE, p->node[i].own.out->index);
    }
    p->forward = p->events;
    for (int64_t i = p->nodes - 1; i >= 0 && p->options.mode == PLAN_TRAINING; i--) {
        if (ends_segment(p, i)) {
            int64_t first = i;
            while (first > 0 && p->node[first - 1].own.segment == p->node[i].own.segment)
                first--;
            for (int64_t j = first; j <= i; j++) {
                if (!p->node[j].recompute)
                    continue;
                add_event(p, PLAN_RECOMPUTE, j);
                if (rounds_after(&p->node[j].own))
                    add_event(p, PLAN_STORE, p->node[j].own.out->index);
            }
        }
        if (p->node[i].backward)
            add_event(p, PLAN_BACKWARD, i);
    }
}

/* ---- 4. Liveness --------------------------------------------------------------------------------------- */

static void write_at(plan_array *a, int64_t event)
{
    a->span[a->spans++] = (plan_span){event, event};
}

/* Inputs and parameters are not planned: they have no spans. */
static void read_at(plan_array *a, int64_t event)
{
    if (a->spans)
        a->span[a->spans - 1].last = event;
}

/* Reads data; if the forward pass computed it, notes the event for storage. */
static void read_data(tape_plan *p, plan_entry *v, int64_t event)
{
    read_at(&v->data, event);
    if (v->data.spans != 1)
        return;
    if (event < p->forward)
        v->last_forward = event;
    else if (v->first_backward < 0)
        v->first_backward = event;
}

/* Reads input k, in the type that the operator wants. */
static void read_input(tape_plan *p, const tape_node *n, int k, int64_t event)
{
    if (reads_half(n, k))
        read_at(&entry_of(p, n->in[k])->stored, event);
    else if (n->in[k])
        read_data(p, entry_of(p, n->in[k]), event);
}

static void live_forward(tape_plan *p, plan_node *pn, int64_t event)
{
    const tape_node *n = &pn->own;
    for (int k = 0; k < n->inputs; k++)
        read_input(p, n, k, event);
    plan_entry *out = entry_of(p, n->out);
    write_at(&out->data, event);
    read_data(p, out, event);
    if (n->out->has_half && n->op->half_out)
        write_at(&out->stored, event);
    if (pn->saved.bytes)
        write_at(&pn->saved, event);
}

/* Gradients that backward or forward_backward writes. */
static void live_gradients(tape_plan *p, plan_node *pn, int64_t event)
{
    tape_node *n = &pn->own;
    for (int k = 0; k < n->inputs; k++) {
        plan_entry *in = n->in[k] ? entry_of(p, n->in[k]) : NULL;
        if (!in)
            continue;
        n->accumulate[k] = in->own.kind == TAPE_PARAM || in->grad.spans;
        if (!n->needs_grad[k])
            continue;
        if (in->own.kind == TAPE_PARAM)
            in->last_gradient = event;
        else if (in->grad.spans)
            read_at(&in->grad, event);
        else
            write_at(&in->grad, event);
    }
}

static void live_backward(tape_plan *p, plan_node *pn, int64_t event)
{
    const tape_node *n = &pn->own;
    plan_entry *out = entry_of(p, n->out);
    read_at(&out->grad, event);
    read_at(&pn->saved, event);
    if (backward_reads(p, n) & TAPE_READS_OUT)
        read_data(p, out, event);
    for (int k = 0; k < n->inputs; k++)
        if (backward_reads(p, n) >> k & 1)
            read_input(p, n, k, event);
    live_gradients(p, pn, event);
}

static void live_event(tape_plan *p, int64_t e)
{
    const int64_t i = p->event[e].index;
    switch (p->event[e].kind) {
    case PLAN_FORWARD:
    case PLAN_RECOMPUTE: live_forward(p, &p->node[i], e); break;
    case PLAN_FUSED:
        live_forward(p, &p->node[i], e);
        live_gradients(p, &p->node[i], e);
        break;
    case PLAN_BACKWARD: live_backward(p, &p->node[i], e); break;
    case PLAN_STORE:
        read_at(&p->value[i].data, e);
        write_at(&p->value[i].stored, e);
        break;
    case PLAN_LOAD:
        read_at(&p->value[i].stored, e);
        write_at(&p->value[i].data, e);
        break;
    }
}

static void find_spans(tape_plan *p)
{
    for (int64_t i = 0; i < p->values; i++) {
        plan_entry *v = &p->value[i];
        v->data.spans = v->grad.spans = v->stored.spans = 0;
        v->last_forward = v->first_backward = -1;
    }
    for (int64_t i = 0; i < p->nodes; i++)
        p->node[i].saved.spans = 0;
    plan_entry *target = entry_of(p, &p->value[p->target].own);
    for (int64_t e = 0; e <= p->events; e++) {
        if (e == p->forward) {
            read_at(&target->data, e);
            if (target->grad.bytes)
                write_at(&target->grad, e);
        }
        if (e < p->events)
            live_event(p, e);
    }
    read_at(&target->data, p->events);
}

/* ---- 5. Storage ---------------------------------------------------------------------------------------- */

/* Chooses data that the backward pass uses as the forward pass computed it, with other events in between. */
static void choose_stored(tape_plan *p)
{
    for (int64_t i = 0; i < p->values; i++) {
        plan_entry *v = &p->value[i];
        v->loaded = v->data.bytes && v->first_backward > v->last_forward + 1 && i != p->value[p->target].root;
        if (v->loaded)
            v->stored.bytes = half_bytes(v->own.count);
    }
}

static void add_storage(tape_plan *p, const tape_value *v, int64_t event, bool before)
{
    const plan_entry *in = v ? entry_of(p, v) : NULL;
    if (in && in->loaded && (before || !in->own.has_half) &&
        (before ? in->first_backward : in->last_forward) == event)
        add_event(p, before ? PLAN_LOAD : PLAN_STORE, in->own.index);
}

/* Adds the loads before, or the stores after, event e of the old list. */
static void add_storage_of(tape_plan *p, plan_event old, int64_t e, bool before)
{
    const tape_node *n = old.kind == PLAN_STORE ? NULL : &p->node[old.index].own;
    if (!n)
        return; /* rounds a result; it is not read otherwise there */
    for (int k = 0; k < n->inputs; k++)
        if (!is_repeated(p, n, k))
            add_storage(p, n->in[k], e, before);
    add_storage(p, n->out, e, before);
}

static scion_status insert_storage(tape_plan *p, scion_error *err)
{
    const int64_t count = p->events, forward = p->forward;
    plan_event *old = p->event;
    plan_event *longer = calloc((size_t)(count + 2 * p->values), sizeof *p->event);
    if (!longer)
        return no_memory(err);
    choose_stored(p);
    p->event = longer;
    p->events = 0;
    for (int64_t e = 0; e < count; e++) {
        if (e >= forward)
            add_storage_of(p, old[e], e, true);
        p->event[p->events++] = old[e];
        if (e < forward)
            add_storage_of(p, old[e], e, false);
        if (e + 1 == forward)
            p->forward = p->events;
    }
    free(old);
    find_spans(p);
    return SCION_OK;
}

/* ---- 6. In place --------------------------------------------------------------------------------------- */

static bool meet(plan_span a, plan_span b)
{
    return a.first <= b.last && b.first <= a.last;
}

/* True if `later` can live in the array of `home`: where their spans meet, later begins when home ends. */
static bool fits(const plan_array *home, const plan_array *later)
{
    for (int i = 0; i < home->spans; i++)
        for (int j = 0; j < later->spans; j++)
            if (meet(home->span[i], later->span[j]) && home->span[i].last != later->span[j].first)
                return false;
    return home->spans + later->spans <= PLAN_SPANS;
}

/* A span of `later` begins where one of home ends and extends it, or is a load of stored data. */
static void move_into(plan_array *home, plan_array *later)
{
    const int spans = home->spans;
    for (int j = 0; j < later->spans; j++) {
        bool extends = false;
        for (int i = 0; i < spans && !extends; i++) {
            extends = home->span[i].last == later->span[j].first;
            if (extends)
                home->span[i].last = later->span[j].last;
        }
        if (!extends)
            home->span[home->spans++] = later->span[j];
    }
    later->bytes = 0;
}

static void share_in_place(tape_plan *p)
{
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = &p->node[i].own;
        plan_entry *in = n->inputs && n->in[0] ? entry_of(p, n->in[0]) : NULL, *out = entry_of(p, n->out);
        bool may = n->op->in_place && in && in->maker >= 0 && in->own.count == n->out->count && !n->out->half_only;
        for (int k = 1; k < n->inputs && may; k++)
            may = !n->in[k] || entry_of(p, n->in[k]) != in; /* it would be overwritten while it is read */
        if (!may)
            continue;
        plan_array *home = &p->value[in->home].data;
        if (fits(home, &out->data)) {
            move_into(home, &out->data);
            out->home = in->home;
        }
    }
}

/* ---- 7. Offsets ---------------------------------------------------------------------------------------- */

/* An array that has its place. Copied, so that a search for a gap reads memory in order: it looks at all of them. */
typedef struct placed_array {
    size_t begin, end;      /* bytes in the block */
    plan_span all;          /* from its first span to its last */
    const plan_array *gaps; /* the array, where it has several spans; else NULL */
} placed_array;

static placed_array placed_of(const plan_array *a)
{
    placed_array p = {
        .begin = a->offset, .end = a->offset + a->bytes, .all = a->span[0], .gaps = a->spans > 1 ? a : NULL};
    for (int i = 1; i < a->spans; i++) {
        p.all.first = scn_min(p.all.first, a->span[i].first);
        p.all.last = scn_max(p.all.last, a->span[i].last);
    }
    return p;
}

/* True if a span of a meets one of b. */
static bool live_together(const placed_array *a, const plan_array *b)
{
    const int spans = a->gaps ? a->gaps->spans : 1;
    for (int i = 0; i < spans; i++)
        for (int j = 0; j < b->spans; j++)
            if (meet(a->gaps ? a->gaps->span[i] : a->all, b->span[j]))
                return true;
    return false;
}

/* The lowest offset at which an array overlaps none of the n placed ones, which are sorted by offset. */
static size_t lowest_gap(const placed_array *placed, int64_t n, const plan_array *a)
{
    const placed_array own = placed_of(a);
    size_t low = 0;
    for (int64_t i = 0; i < n && placed[i].begin < low + a->bytes; i++) {
        const placed_array *p = &placed[i];
        if (p->end > low && meet(p->all, own.all) && ((!p->gaps && !own.gaps) || live_together(p, a)))
            low = p->end;
    }
    return low;
}

/* Largest first; among equals the one needed first. The number makes the order unique. */
static int compare_size(const void *x, const void *y)
{
    const plan_array *a = *(plan_array *const *)x, *b = *(plan_array *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->span[0].first != b->span[0].first)
        return a->span[0].first < b->span[0].first ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Gives each of n arrays an offset such that arrays which live at the same time do not overlap, and returns the bytes
 * of the block. The smallest block is NP-hard to find; a greedy choice is good: the largest array first, each at the
 * lowest offset at which it overlaps no array placed before it that lives at the same time. Small arrays then fill
 * the gaps between large ones. Sorts the list by size; `placed` has space for n. */
static size_t place_arrays(plan_array **array, placed_array *placed, int64_t n)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        array[i]->number = i;
    qsort(array, (size_t)n, sizeof *array, compare_size);
    for (int64_t i = 0; i < n; i++) {
        plan_array *a = array[i];
        int64_t k = i;
        a->offset = lowest_gap(placed, i, a);
        bytes = scn_max_size(bytes, a->offset + a->bytes);
        for (; k > 0 && placed[k - 1].begin > a->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = placed_of(a);
    }
    return bytes;
}

static void add_array(plan_array **list, int64_t *n, plan_array *a)
{
    if (a->bytes)
        list[(*n)++] = a;
}

static scion_status place_all(tape_plan *p, size_t scratch, scion_error *err)
{
    int64_t max = 3 * p->values + p->nodes, n = 0;
    plan_array **list = malloc((size_t)max * sizeof *list);
    placed_array *placed = malloc((size_t)max * sizeof *placed);
    if (!list || !placed) {
        free(list);
        free(placed);
        return no_memory(err);
    }
    for (int64_t i = 0; i < p->values; i++) {
        add_array(list, &n, &p->value[i].data);
        add_array(list, &n, &p->value[i].grad);
        add_array(list, &n, &p->value[i].stored);
    }
    for (int64_t i = 0; i < p->nodes; i++)
        add_array(list, &n, &p->node[i].saved);
    p->scratch = place_arrays(list, placed, n);
    p->passing = p->bytes = p->scratch + scratch;
    free(list);
    free(placed);
    for (int64_t i = 0; i < p->values; i++) {
        plan_entry *v = &p->value[i];
        if (v->needed && v->root == i && (v->own.kind == TAPE_FLOATS || v->own.kind == TAPE_INTS)) {
            v->data.offset = p->bytes;
            p->bytes += array_bytes((size_t)v->own.count);
        }
    }
    for (int64_t i = 0; i < p->nodes; i++) {
        plan_array *packed = &p->node[i].packed;
        packed->offset = p->bytes;
        p->bytes += packed->bytes;
        p->packed += packed->bytes;
    }
    return SCION_OK;
}

/* ---- Making a plan ------------------------------------------------------------------------------------- */

/* Sets the sizes of all arrays; returns the bytes of scratch memory. */
static size_t find_sizes(tape_plan *p)
{
    size_t scratch = 0;
    for (int64_t i = 0; i < p->nodes; i++) {
        plan_node *pn = &p->node[i];
        const tape_node *n = &pn->own;
        plan_entry *out = entry_of(p, n->out);
        pn->saved.bytes = pn->backward && n->op->saved ? array_bytes(n->op->saved(n)) : 0;
        const size_t bytes = array_bytes((size_t)n->out->count);
        out->data.bytes = n->out->half_only ? 0 : bytes;
        out->stored.bytes = n->out->has_half ? half_bytes(n->out->count) : 0;
        out->grad.bytes = pn->backward ? bytes : 0;
        const bool packs = p->options.pack && n->op->packed;
        pn->packed.bytes = packs ? array_bytes(n->op->packed(n, p->options.threads)) : 0;
        if (n->op->scratch)
            scratch = scn_max_size(scratch, array_bytes(n->op->scratch(n, p->options.threads)));
    }
    return scratch;
}

static scion_status make_steps(tape_plan *p, const tape_value *target, scion_error *err)
{
    const bool training = p->options.mode == PLAN_TRAINING;
    find_needed(p, target);
    copy_nodes(p);
    if (entry_of(p, target)->maker < 0)
        return train_fail(err, SCION_EINVAL, "%s is not the result of an operation", target->name);
    if (training)
        RETURN_IF_FAILED(find_gradients(p, err));
    if (p->options.compute == SCION_BF16)
        find_halves(p);
    const size_t scratch = find_sizes(p);
    if (training)
        RETURN_IF_FAILED(find_recomputed(p, err));
    list_events(p);
    find_spans(p);
    if (training && p->options.bf16)
        RETURN_IF_FAILED(insert_storage(p, err));
    share_in_place(p);
    return place_all(p, scratch, err);
}

scion_status plan_make(tape_plan **out, const tape *t, const tape_value *target, const plan_options *o,
                       scion_error *err)
{
    *out = NULL;
    RETURN_IF_FAILED(tape_check(t, err));
    if (!target || target->index >= tape_value_count(t) || tape_value_at(t, target->index) != target)
        return train_fail(err, SCION_EINVAL, "the target of a plan is not a value of this tape");
    if (o->threads < 1)
        return train_fail(err, SCION_EINVAL, "%d threads, expected at least 1", o->threads);
    tape_plan *p = calloc(1, sizeof *p);
    if (!p)
        return no_memory(err);
    const size_t nodes = (size_t)tape_node_count(t);
    *p = (tape_plan){.tape = t, .options = *o, .values = tape_value_count(t), .target = target->index};
    p->value = calloc((size_t)p->values, sizeof *p->value);
    p->node = calloc(nodes + 1, sizeof *p->node);
    p->event = calloc(nodes + 1, 5 * sizeof *p->event); /* forward, recompute, backward, and rounding after two */
    const scion_status status = p->value && p->node && p->event ? make_steps(p, target, err) : no_memory(err);
    if (status == SCION_OK)
        *out = p;
    else
        plan_free(p);
    return status;
}

void plan_free(tape_plan *p)
{
    if (!p)
        return;
    free(p->value);
    free(p->node);
    free(p->event);
    free(p->own_passing);
    free(p->kept);
    free(p);
}

const tape *plan_tape(const tape_plan *p)
{
    return p->tape;
}

size_t plan_packed_bytes(const tape_plan *p)
{
    return p->packed;
}

size_t plan_passing_bytes(const tape_plan *p)
{
    return p->passing;
}

size_t plan_bytes(const tape_plan *p)
{
    return p->bytes;
}

static float *address(const tape_plan *p, const plan_array *a)
{
    return (float *)(void *)(a->offset < p->passing ? p->memory + a->offset : p->kept + (a->offset - p->passing));
}

/* Sets the pointers of a value that is no view. */
static void set_pointers(tape_plan *p, plan_entry *v)
{
    const size_t bytes = (size_t)v->own.count * sizeof(float);
    if (v->own.kind == TAPE_INTS)
        v->own.ints = memset(address(p, &v->data), 0, bytes);
    if (v->own.kind == TAPE_FLOATS)
        v->own.data = memset(address(p, &v->data), 0, bytes);
    if (v->own.kind == TAPE_ACTIVATION && !v->own.half_only)
        v->own.data = address(p, &p->value[v->home].data);
    if (v->own.has_half)
        v->own.half = (uint16_t *)(void *)(p->memory + v->stored.offset);
    v->own.grad = v->grad.bytes ? address(p, &v->grad) : NULL;
}

/* Gives views their root's pointers, on every run: parameters and buffers may have moved. */
static void set_views(tape_plan *p)
{
    for (int64_t i = 0; i < p->values; i++) {
        tape_value *v = &p->value[i].own;
        if (!p->value[i].needed || p->value[i].root == i)
            continue;
        const tape_value *root = plan_value(p, tape_value_at(p->tape, p->value[i].root));
        v->data = root->data;
        v->grad = root->grad;
        v->ints = root->ints;
        if (v->has_half)
            v->half = root->half;
    }
}

char *plan_allocate(size_t bytes, scion_error *err)
{
    char text[NUMBER_BYTES_TEXT], *block = aligned_alloc(PLAN_ALIGN, scn_max_size(bytes, PLAN_ALIGN));
    if (block)
        scn_large_pages(block, bytes);
    else
        train_fail(err, SCION_ENOMEM, "out of memory for %s of activations", number_bytes((double)bytes, text));
    return block;
}

scion_status plan_commit(tape_plan *p, char *memory, scion_error *err)
{
    assert(!p->memory && "a plan is committed once");
    if (!memory && !(memory = p->own_passing = plan_allocate(p->passing, err)))
        return SCION_ENOMEM;
    if (!(p->kept = plan_allocate(p->bytes - p->passing, err)))
        return SCION_ENOMEM;
    p->memory = memory;
    for (int64_t i = 0; i < p->values; i++)
        if (p->value[i].needed && p->value[i].root == i)
            set_pointers(p, &p->value[i]);
    for (int64_t i = 0; i < p->nodes; i++) {
        p->node[i].own.saved = p->node[i].saved.bytes ? address(p, &p->node[i].saved) : NULL;
        p->node[i].own.packed = p->node[i].packed.bytes ? address(p, &p->node[i].packed) : NULL;
    }
    set_views(p);
    return SCION_OK;
}

tape_value *plan_value(const tape_plan *p, const tape_value *recorded)
{
    const bool bound = recorded->kind == TAPE_PARAM || recorded->kind == TAPE_BUFFER;
    const bool shared = bound && p->value[recorded->index].root == recorded->index;
    return shared ? tape_value_at(p->tape, recorded->index) : &p->value[recorded->index].own;
}

const tape_node *plan_node_at(const tape_plan *p, int64_t i)
{
    return i >= 0 && i < p->nodes ? &p->node[i].own : NULL;
}

const tape_node *plan_target(const tape_plan *p)
{
    return &p->node[entry_of(p, &p->value[p->target].own)->maker].own;
}

static double sum_flops(const tape_plan *p, bool recomputed_only)
{
    double sum = 0;
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = &p->node[i].own;
        sum += n->op->flops && (p->node[i].recompute || !recomputed_only) ? n->op->flops(n) : 0;
    }
    return sum;
}

double plan_flops(const tape_plan *p)
{
    return sum_flops(p, false);
}

double plan_training_flops(const tape_plan *p)
{
    return 3 * sum_flops(p, false) + sum_flops(p, true);
}

int64_t plan_completion(const tape_plan *p, const tape_value *param)
{
    const plan_entry *v = &p->value[param->index];
    return v->requires_grad ? v->last_gradient : -1;
}

/* ---- Runs ---------------------------------------------------------------------------------------------- */

tape_run plan_prepare(tape_plan *p, const tape_run *run)
{
    assert(p->memory && "plan_commit comes first");
    tape_run now = *run;
    now.threads = run->threads < 1 || run->threads > p->options.threads ? p->options.threads : run->threads;
    now.training = p->options.mode == PLAN_TRAINING;
    now.update_buffers = run->update_buffers && now.training;
    now.scratch = (float *)(void *)(p->memory + p->scratch);
    set_views(p);
    return now;
}

enum { STORE_ELEMENTS = 1 << 16 }; /* per iteration: small enough to share, large enough to be worth a thread */

/* To bfloat16, rounded to nearest even, or back. */
static void convert(const tape_plan *p, const plan_entry *v, bool store, int threads)
{
    float *data = v->own.data;
    uint16_t *stored = (uint16_t *)(void *)(p->memory + v->stored.offset);
    const int64_t count = v->own.count, blocks = scn_pieces(count, STORE_ELEMENTS);
    const int used = blocks < threads ? (int)blocks : threads;
    SCN_PARALLEL_FOR(used, i, blocks) {
        const int64_t first = i * STORE_ELEMENTS, n = scn_min(count - first, STORE_ELEMENTS);
        if (store)
            scn_to_bf16(n, data + first, stored + first);
        else
            scn_from_bf16(n, stored + first, data + first);
    }
}

void plan_run_event(tape_plan *p, int64_t e, const tape_run *run)
{
    const int64_t i = p->event[e].index;
    const bool stored = p->event[e].kind == PLAN_STORE || p->event[e].kind == PLAN_LOAD;
    const tape_node *n = stored ? NULL : &p->node[i].own;
    tape_run second = *run;
    second.update_buffers = false;
    switch (p->event[e].kind) {
    case PLAN_FORWARD: n->op->forward(n, run); break;
    case PLAN_FUSED: n->op->forward_backward(n, run); break;
    case PLAN_RECOMPUTE: n->op->forward(n, &second); break;
    case PLAN_BACKWARD: n->op->backward(n, &second); break;
    case PLAN_STORE: convert(p, &p->value[i], true, run->threads); break;
    case PLAN_LOAD: convert(p, &p->value[i], false, run->threads); break;
    }
}

float plan_forward(tape_plan *p, const tape_run *run)
{
    const tape_run now = plan_prepare(p, run);
    for (int64_t e = 0; e < p->forward; e++)
        plan_run_event(p, e, &now);
    return p->value[p->target].own.data[0];
}

/* Calls run->complete for the parameters whose gradients event e completes. */
static void report_complete(const tape_plan *p, int64_t e, const tape_run *run)
{
    const bool adds = p->event[e].kind == PLAN_BACKWARD || p->event[e].kind == PLAN_FUSED;
    const tape_node *n = adds ? &p->node[p->event[e].index].own : NULL;
    for (int k = 0; n && k < n->inputs; k++) {
        plan_entry *in = n->in[k] ? entry_of(p, n->in[k]) : NULL;
        if (in && n->needs_grad[k] && in->own.kind == TAPE_PARAM && in->last_gradient == e && !is_repeated(p, n, k))
            run->complete(run->complete_context, tape_value_at(p->tape, in->own.index));
    }
}

float plan_forward_logits(tape_plan *p, const tape_run *run, float *logits)
{
    const tape_node *n = plan_target(p);
    if (!n->op->forward_logits)
        return plan_forward(p, run);
    const tape_run now = plan_prepare(p, run);
    n->op->forward_logits(n, &now, logits);
    return p->value[p->target].own.data[0];
}

void plan_backward(tape_plan *p, const tape_run *run)
{
    const tape_run now = plan_prepare(p, run);
    const tape_value *target = &p->value[p->target].own;
    assert(p->options.mode == PLAN_TRAINING && "only a training plan has a backward pass");
    if (target->grad) {
        memset(target->grad, 0, (size_t)target->count * sizeof(float));
        target->grad[0] = run->loss_scale;
    }
    for (int64_t e = 0; run->complete && e < p->forward; e++)
        report_complete(p, e, run);
    for (int64_t e = p->forward; e < p->events; e++) {
        plan_run_event(p, e, &now);
        if (run->complete)
            report_complete(p, e, run);
    }
}

void plan_score(const tape_plan *p, double *hits, double *rows)
{
    const tape_node *n = plan_target(p);
    *hits = 0;
    *rows = 1;
    if (n->op->score)
        n->op->score(n, hits, rows);
}

const tape_node *plan_watch(tape_plan *p, const tape_run *run, plan_watcher *watch, void *context)
{
    tape_run now = plan_prepare(p, run);
    now.update_buffers = false;
    for (int64_t e = 0; e < p->forward; e++) {
        const tape_node *n = p->event[e].kind == PLAN_STORE ? NULL : &p->node[p->event[e].index].own;
        if (!n) {
            plan_run_event(p, e, &now);
            continue;
        }
        n->op->forward(n, &now);
        if (!watch(context, n))
            return n;
    }
    return NULL;
}

static bool is_finite(void *context, const tape_node *n)
{
    (void)context;
    if (n->out->half_only)
        return scn_all_finite_bf16(n->out->count, n->out->half);
    for (int64_t k = 0; k < n->out->count; k++)
        if (!isfinite(n->out->data[k]))
            return false;
    return true;
}

const char *plan_first_nonfinite(tape_plan *p, const tape_run *run)
{
    const tape_node *n = plan_watch(p, run, is_finite, NULL);
    return n ? n->out->name : NULL;
}
