/* plan.c - which operations run when, which arrays hold something when, and so where they can live.
 *
 * 1. Gradients. A value requires a gradient if the loss depends on it and it depends on a parameter; exactly the
 *    nodes that compute such values run backwards.
 *
 * 2. Events. A pass is a list of events: first the forward pass of every node, in order, then (in training) the
 *    backward pass of the nodes in reverse. Where the reverse walk comes to the end of a segment of recomputation,
 *    the segment's nodes run forward again before the first of them runs backwards; only those do whose result or
 *    `saved` is still going to be read. Two layers of two nodes, the first layer a segment:
 *
 *        event  0   1   2   3  |  4   5   6   7   8
 *        node   A   B   C   D  |  D'  C'  A   B'  A'       (X' is the backward pass of X)
 *
 * 3. Liveness. The list of events is walked once. A write of an array opens a span of time, each read extends the
 *    span that was opened last. Above, A's result lives in the spans [0,1], for B, and [6,7], for B' (if B' reads
 *    it at all): in between its memory belongs to others. That rule is all that recomputation needs.
 *        data    written by forward, read by forward of its users, by backward of those that say so
 *        saved   written by forward, read by backward of the same node
 *        grad    written by backward of its users (the first overwrites, the others accumulate), read
 *                by backward of its maker; that of the loss is written before the first backward event
 *    The data of the loss is read at the end of each pass, by the caller.
 *
 * 4. In place. A result moves into the array of its node's first input if the operator allows that and the spans of
 *    both touch only where the node runs: then nobody reads the input afterwards.
 *
 * 5. Places. Arrays get offsets in one block, such that no two of them overlap in time and in space.
 *    Inputs of the tape and scratch memory live for ever, behind the others. */
#include "tensor/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static size_t round_up(size_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* ---- 1. Gradients -------------------------------------------------------------------------------------- */

/* Whether an activation or parameter depends on a parameter goes forward, whether the loss depends on it back. */
static void find_requires_grad(plan *p, const tape *t, const tape_value *loss, bool *reached)
{
    for (int64_t i = 0; i < p->values; i++)
        p->value[i].requires_grad = tape_value_of(t, i)->kind == TAPE_PARAM;
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = tape_node_of(t, i);
        for (int k = 0; k < n->inputs; k++) {
            if (n->in[k] && p->value[n->in[k]->index].requires_grad)
                p->value[n->out->index].requires_grad = true;
        }
    }
    reached[loss->index] = true;
    for (int64_t i = p->nodes - 1; i >= 0; i--) {
        const tape_node *n = tape_node_of(t, i);
        for (int k = 0; k < n->inputs && reached[n->out->index]; k++) {
            if (n->in[k])
                reached[n->in[k]->index] = true;
        }
    }
    for (int64_t i = 0; i < p->values; i++)
        p->value[i].requires_grad = p->value[i].requires_grad && reached[i];
}

static scion_status find_gradients(plan *p, const tape *t, const tape_value *loss, scion_error *err)
{
    bool *reached = calloc((size_t)p->values, sizeof *reached);
    if (!reached)
        return train_fail(err, SCION_ENOMEM, "out of memory while planning");
    find_requires_grad(p, t, loss, reached);
    free(reached);
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = tape_node_of(t, i);
        plan_node *pn = &p->node[i];
        pn->backward = p->value[n->out->index].requires_grad;
        if (pn->backward && !n->op->backward)
            return train_fail(err, SCION_EINVAL,
                              "operator %s (%s) has no backward pass, so it cannot be trained through", n->op->name,
                              n->out->name);
        for (int k = 0; k < n->inputs; k++)
            pn->needs_grad[k] = pn->backward && n->in[k] && p->value[n->in[k]->index].requires_grad;
    }
    return SCION_OK;
}

/* ---- 2. Events ----------------------------------------------------------------------------------------- */

static bool ends_segment(const tape *t, int64_t i)
{
    int segment = tape_node_of(t, i)->segment;
    return segment && (i + 1 == t->nodes.count || tape_node_of(t, i + 1)->segment != segment);
}

/* A node of a segment runs again if backward needs what it saved, or if its result is read when the segment runs
 * again or backwards. The last result of a segment outlives it and need not be computed again for its own sake. */
static scion_status find_recomputed(plan *p, const tape *t, scion_error *err)
{
    bool *read = calloc((size_t)p->values, sizeof *read); /* inside its segment, after the forward pass */
    if (!read)
        return train_fail(err, SCION_ENOMEM, "out of memory while planning");
    for (int64_t i = p->nodes - 1; i >= 0; i--) {
        const tape_node *n = tape_node_of(t, i);
        plan_node *pn = &p->node[i];
        if (!n->segment)
            continue;
        unsigned reads = pn->backward ? n->op->backward_reads : 0;
        pn->recompute = read[n->out->index] || (pn->backward && pn->saved.bytes) ||
                        ((reads & TAPE_READS_OUT) && !ends_segment(t, i));
        for (int k = 0; k < n->inputs; k++) {
            int64_t maker = n->in[k] ? p->value[n->in[k]->index].maker : -1;
            if (maker >= 0 && tape_node_of(t, maker)->segment == n->segment && (pn->recompute || (reads >> k & 1)))
                read[n->in[k]->index] = true;
        }
    }
    free(read);
    return SCION_OK;
}

static void add_event(plan *p, plan_what what, int64_t node)
{
    p->event[p->events++] = (plan_event){what, node};
}

static void list_events(plan *p, const tape *t, tape_mode mode)
{
    for (int64_t i = 0; i < p->nodes; i++)
        add_event(p, PLAN_FORWARD, i);
    p->forward = p->events;
    for (int64_t i = p->nodes - 1; i >= 0 && mode == TAPE_TRAIN; i--) {
        if (ends_segment(t, i)) {
            int64_t first = i;
            while (first > 0 && tape_node_of(t, first - 1)->segment == tape_node_of(t, i)->segment)
                first--;
            for (int64_t j = first; j <= i; j++) {
                if (p->node[j].recompute)
                    add_event(p, PLAN_RECOMPUTE, j);
            }
        }
        if (p->node[i].backward)
            add_event(p, PLAN_BACKWARD, i);
    }
}

/* ---- 3. Liveness --------------------------------------------------------------------------------------- */

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

static void live_forward(plan *p, const tape_node *n, plan_node *pn, int64_t event)
{
    for (int k = 0; k < n->inputs; k++) {
        if (n->in[k])
            read_at(&p->value[n->in[k]->index].data, event);
    }
    write_at(&p->value[n->out->index].data, event);
    if (pn->saved.bytes)
        write_at(&pn->saved, event);
}

static void live_backward(plan *p, const tape_node *n, plan_node *pn, int64_t event)
{
    plan_value *out = &p->value[n->out->index];
    read_at(&out->grad, event);
    read_at(&pn->saved, event);
    if (n->op->backward_reads & TAPE_READS_OUT)
        read_at(&out->data, event);
    for (int k = 0; k < n->inputs; k++) {
        if (!n->in[k])
            continue;
        plan_value *in = &p->value[n->in[k]->index];
        if (n->op->backward_reads >> k & 1)
            read_at(&in->data, event);
        pn->accumulate[k] = n->in[k]->kind == TAPE_PARAM || in->grad.spans;
        if (!pn->needs_grad[k] || n->in[k]->kind == TAPE_PARAM)
            continue;
        if (in->grad.spans)
            read_at(&in->grad, event);
        else
            write_at(&in->grad, event);
    }
}

static void find_spans(plan *p, const tape *t, const tape_value *loss, tape_mode mode)
{
    plan_value *end = &p->value[loss->index];
    for (int64_t e = 0; e <= p->events; e++) {
        if (e == p->forward) {
            read_at(&end->data, e);
            read_at(&p->node[end->maker].saved, e);
            if (mode == TAPE_TRAIN && end->requires_grad)
                write_at(&end->grad, e);
        }
        if (e == p->events)
            break;
        int64_t i = p->event[e].node;
        if (p->event[e].what == PLAN_BACKWARD)
            live_backward(p, tape_node_of(t, i), &p->node[i], e);
        else
            live_forward(p, tape_node_of(t, i), &p->node[i], e);
    }
    read_at(&end->data, p->events);
}

/* ---- 4. In place --------------------------------------------------------------------------------------- */

/* Whether `later` can live in the array of `home`: wherever they meet, later begins when home ends. */
static bool fits(const plan_array *home, const plan_array *later)
{
    for (int i = 0; i < home->spans; i++) {
        for (int j = 0; j < later->spans; j++) {
            plan_span a = home->span[i], b = later->span[j];
            if (a.first <= b.last && b.first <= a.last && a.last != b.first)
                return false;
        }
    }
    return true;
}

/* Every span of `later` begins where its node runs and so, as it fits, where a span of home ends. */
static void move_into(plan_array *home, plan_array *later)
{
    for (int i = 0; i < home->spans; i++) {
        for (int j = 0; j < later->spans; j++) {
            if (home->span[i].last == later->span[j].first) {
                home->span[i].last = later->span[j].last;
                break;
            }
        }
    }
    later->bytes = 0;
}

static void share_in_place(plan *p, const tape *t)
{
    for (int64_t i = 0; i < p->nodes; i++) {
        const tape_node *n = tape_node_of(t, i);
        const tape_value *in = n->inputs ? n->in[0] : NULL;
        bool may = n->op->in_place && in && in->kind == TAPE_ACTIVATION && in->count == n->out->count;
        for (int k = 1; k < n->inputs; k++)
            may = may && n->in[k] != in; /* it would be overwritten while it is read */
        if (!may)
            continue;
        plan_value *out = &p->value[n->out->index];
        plan_array *home = &p->value[p->value[in->index].home].data;
        if (fits(home, &out->data)) {
            move_into(home, &out->data);
            out->home = p->value[in->index].home;
        }
    }
}

/* ---- 5. Places ----------------------------------------------------------------------------------------- */

static bool live_together(const plan_array *a, const plan_array *b)
{
    for (int i = 0; i < a->spans; i++) {
        for (int j = 0; j < b->spans; j++) {
            if (a->span[i].first <= b->span[j].last && b->span[j].first <= a->span[i].last)
                return true;
        }
    }
    return false;
}

/* Largest first; among equals the one that is needed first. The number makes every run sort alike. */
static int compare_size(const void *x, const void *y)
{
    const plan_array *a = *(plan_array *const *)x, *b = *(plan_array *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->span[0].first != b->span[0].first)
        return a->span[0].first < b->span[0].first ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Gives each of n arrays an offset such that two arrays which live at the same time do not overlap; returns the bytes
 * needed in all. To find the smallest block is NP-hard; the greedy way is good: take the largest array first, and put
 * each at the lowest offset at which it overlaps none that was placed before and lives at the same time. Small arrays
 * then fill the gaps that large ones left. For n arrays this takes about n^2 comparisons, and a deep network has a
 * few thousand. Changes the order of the list; placed has space for n pointers. */
static size_t place_arrays(plan_array **array, plan_array **placed, int64_t n)
{
    size_t total = 0;
    for (int64_t i = 0; i < n; i++)
        array[i]->number = i;
    qsort(array, (size_t)n, sizeof *array, compare_size);
    for (int64_t i = 0; i < n; i++) {
        plan_array *a = array[i];
        size_t low = 0;
        /* placed is in the order of offsets: the first gap that is wide enough is the lowest */
        for (int64_t j = 0; j < i; j++) {
            const plan_array *b = placed[j];
            if (!live_together(a, b))
                continue;
            if (b->offset >= low + a->bytes)
                break;
            if (b->offset + b->bytes > low)
                low = b->offset + b->bytes;
        }
        a->offset = low;
        if (low + a->bytes > total)
            total = low + a->bytes;
        int64_t at = i;
        for (; at > 0 && placed[at - 1]->offset > low; at--)
            placed[at] = placed[at - 1];
        placed[at] = a;
    }
    return total;
}

static void add_array(plan_array **list, int64_t *n, plan_array *a)
{
    if (a->bytes)
        list[(*n)++] = a;
}

static scion_status place_all(plan *p, const tape *t, size_t scratch, scion_error *err)
{
    int64_t max = 2 * p->values + p->nodes, n = 0;
    plan_array **list = malloc((size_t)max * 2 * sizeof *list);
    if (!list)
        return train_fail(err, SCION_ENOMEM, "out of memory while planning");
    for (int64_t i = 0; i < p->values; i++) {
        add_array(list, &n, &p->value[i].data);
        add_array(list, &n, &p->value[i].grad);
    }
    for (int64_t i = 0; i < p->nodes; i++)
        add_array(list, &n, &p->node[i].saved);
    p->bytes = place_arrays(list, list + max, n);
    free(list);
    for (int64_t i = 0; i < p->values; i++) {
        const tape_value *v = tape_value_of(t, i);
        if (v->kind == TAPE_FLOATS || v->kind == TAPE_INTS) {
            p->value[i].data.offset = p->bytes;
            p->bytes += round_up((size_t)v->count * sizeof(float));
        }
    }
    p->scratch = p->bytes;
    p->bytes += scratch;
    return SCION_OK;
}

/* ---- All together -------------------------------------------------------------------------------------- */

/* Sizes of everything; an operator that is asked for its own sees what will be wanted of it. */
static size_t find_sizes(plan *p, const tape *t, int threads)
{
    size_t scratch = 0;
    for (int64_t i = 0; i < p->nodes; i++) {
        tape_node n = *tape_node_of(t, i);
        plan_node *pn = &p->node[i];
        plan_value *out = &p->value[n.out->index];
        memcpy(n.needs_grad, pn->needs_grad, sizeof n.needs_grad);
        pn->saved.bytes = n.op->saved ? round_up(n.op->saved(&n) * sizeof(float)) : 0;
        out->data.bytes = round_up((size_t)n.out->count * sizeof(float));
        out->grad.bytes = out->requires_grad ? out->data.bytes : 0;
        size_t own = n.op->scratch ? round_up(n.op->scratch(&n, threads) * sizeof(float)) : 0;
        scratch = own > scratch ? own : scratch;
    }
    return scratch;
}

static scion_status make_steps(plan *p, const tape *t, const tape_value *loss, tape_mode mode, int threads,
                               scion_error *err)
{
    scion_status status = SCION_OK;
    if (mode == TAPE_TRAIN)
        status = find_gradients(p, t, loss, err);
    if (status)
        return status;
    size_t scratch = find_sizes(p, t, threads);
    if (mode == TAPE_TRAIN)
        status = find_recomputed(p, t, err);
    if (status)
        return status;
    list_events(p, t, mode);
    find_spans(p, t, loss, mode);
    share_in_place(p, t);
    return place_all(p, t, scratch, err);
}

scion_status plan_make(plan *p, const tape *t, const tape_value *loss, tape_mode mode, int threads, scion_error *err)
{
    *p = (plan){.values = t->values.count, .nodes = t->nodes.count};
    if (t->recomputing)
        return train_fail(err, SCION_EINVAL, "a segment of recomputation was begun and not ended");
    if (!loss || loss->index >= p->values || tape_value_of(t, loss->index) != loss || loss->kind != TAPE_ACTIVATION)
        return train_fail(err, SCION_EINVAL, "the loss is not a result that was recorded on this tape");
    if (threads < 1)
        return train_fail(err, SCION_EINVAL, "%d threads: at least one is needed", threads);
    p->value = calloc((size_t)p->values, sizeof *p->value);
    p->node = calloc((size_t)p->nodes, sizeof *p->node);
    p->event = calloc((size_t)p->nodes, 3 * sizeof *p->event); /* forward, recompute, backward */
    scion_status status;
    if (p->value && p->node && p->event) {
        for (int64_t i = 0; i < p->values; i++)
            p->value[i].home = i, p->value[i].maker = -1;
        for (int64_t i = 0; i < p->nodes; i++)
            p->value[tape_node_of(t, i)->out->index].maker = i;
        status = make_steps(p, t, loss, mode, threads, err);
    } else {
        status = train_fail(err, SCION_ENOMEM, "out of memory while planning");
    }
    if (status)
        plan_free(p);
    return status;
}

void plan_free(plan *p)
{
    free(p->value);
    free(p->node);
    free(p->event);
    *p = (plan){0};
}
