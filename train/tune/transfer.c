/* See transfer.h. */
#include "tune/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/json.h"
#include "sweep/grid.h"

/* The axes of a transfer; everything else makes a group. */
static const char *const axes[] = {"lr", "width", "seed", NULL};

/* Each finds its element or adds it; NULL: out of memory. */
static transfer_group *group_of(transfer *t, const config *c)
{
    for (int64_t i = 0; i < t->count; i++)
        if (grid_same(&t->groups[i].c, c, axes))
            return &t->groups[i];
    transfer_group *g = array_append(&t->groups, &t->count, sizeof *g);
    if (g)
        *g = (transfer_group){.c = *c};
    return g;
}

static transfer_width *width_of(transfer_group *g, int64_t width)
{
    for (int64_t i = 0; i < g->count; i++)
        if (g->widths[i].width == width)
            return &g->widths[i];
    transfer_width *w = array_append(&g->widths, &g->count, sizeof *w);
    if (w)
        *w = (transfer_width){.width = width};
    return w;
}

static transfer_point *point_of(transfer_width *w, double lr)
{
    for (int64_t i = 0; i < w->count; i++)
        if (w->points[i].lr == lr)
            return &w->points[i];
    transfer_point *p = array_append(&w->points, &w->count, sizeof *p);
    if (p)
        *p = (transfer_point){.lr = lr, .accuracy = NAN, .low = INFINITY, .high = -INFINITY};
    return p;
}

/* Adds a run to its point, whose loss and accuracy are sums until the end. */
static void add_run(transfer_point *p, const ledger_run *run)
{
    const run_result *r = &run->result;
    const double loss = isnan(r->val_loss) ? r->loss : r->val_loss; /* data may have no validation part */
    p->diverged += run->state == LEDGER_DIVERGED;
    p->failed += run->state == LEDGER_FAILED;
    if (run->state != LEDGER_DONE || isnan(loss))
        return;
    p->loss += loss;
    if (!isnan(r->accuracy))
        p->accuracy = (isnan(p->accuracy) ? 0 : p->accuracy) + r->accuracy;
    p->low = fmin(p->low, loss);
    p->high = fmax(p->high, loss);
    p->seeds++;
}

static int by_lr(const void *a, const void *b)
{
    const transfer_point *x = a, *y = b;
    return (x->lr > y->lr) - (x->lr < y->lr);
}

static int by_width(const void *a, const void *b)
{
    const transfer_width *x = a, *y = b;
    return (x->width > y->width) - (x->width < y->width);
}

static void finish_width(transfer_width *w)
{
    qsort(w->points, (size_t)w->count, sizeof *w->points, by_lr);
    w->best = -1;
    for (int64_t i = 0; i < w->count; i++) {
        transfer_point *p = &w->points[i];
        /* If one seed diverges, the value counts as diverged. */
        p->loss = p->seeds > 0 && p->diverged == 0 ? p->loss / p->seeds : INFINITY;
        p->accuracy = p->seeds > 0 ? p->accuracy / p->seeds : NAN;
        if (isfinite(p->loss) && (w->best < 0 || p->loss < w->points[w->best].loss))
            w->best = i;
    }
}

/* log2 of the smallest factor between neighbours of the grid; 0: one value only. */
static double grid_step(const transfer_group *g)
{
    double step = INFINITY;
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = 1; k < g->widths[i].count; k++)
            step = fmin(step, log2(g->widths[i].points[k].lr / g->widths[i].points[k - 1].lr));
    return isfinite(step) ? step : 0;
}

static double loss_at(const transfer_width *w, double lr)
{
    for (int64_t i = 0; i < w->count; i++)
        if (w->points[i].lr == lr && w->points[i].seeds + w->points[i].diverged > 0)
            return w->points[i].loss;
    return NAN;
}

static void finish_group(transfer_group *g)
{
    qsort(g->widths, (size_t)g->count, sizeof *g->widths, by_width);
    g->moved = g->cost = NAN;
    const transfer_width *small = NULL, *large = NULL;
    for (int64_t i = 0; i < g->count; i++) {
        transfer_width *w = &g->widths[i];
        finish_width(w);
        if (w->best < 0)
            continue;
        g->at_edge = g->at_edge || w->best == 0 || w->best == w->count - 1;
        small = small ? small : w;
        large = w;
    }
    if (!small || small == large)
        return;
    const double from = small->points[small->best].lr, to = large->points[large->best].lr, step = grid_step(g);
    g->moved = from == to ? 0 : log2(to / from) / step;
    g->cost = loss_at(large, from) - large->points[large->best].loss;
}

static void name_groups(transfer *t)
{
    enum { max_options = 16 };
    const config_option *options[max_options];
    const int named =
        t->count > 0 ? grid_naming(&t->groups[0].c, sizeof *t->groups, t->count, axes, options, max_options) : 0;
    for (int64_t i = 0; i < t->count; i++)
        grid_label(&t->groups[i].c, options, named, t->groups[i].label, sizeof t->groups[i].label);
}

scion_status transfer_make(transfer *t, const ledger_run *runs, int64_t count, scion_error *err)
{
    *t = (transfer){NULL, 0};
    for (int64_t i = 0; i < count; i++) {
        if (runs[i].kind != LEDGER_TRAINING || runs[i].state == LEDGER_WAITING || runs[i].state == LEDGER_RUNNING)
            continue;
        transfer_group *g = group_of(t, &runs[i].c);
        transfer_width *w = g ? width_of(g, config_int(&runs[i].c, "width")) : NULL;
        transfer_point *p = w ? point_of(w, runs[i].c.training.lr) : NULL;
        if (!p)
            return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)count);
        add_run(p, &runs[i]);
    }
    for (int64_t i = 0; i < t->count; i++)
        finish_group(&t->groups[i]);
    name_groups(t);
    return SCION_OK;
}

void transfer_free(transfer *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        for (int64_t k = 0; k < t->groups[i].count; k++)
            free(t->groups[i].widths[k].points);
        free(t->groups[i].widths);
    }
    free(t->groups);
    *t = (transfer){NULL, 0};
}

void transfer_sentence(const transfer_group *g, char text[256])
{
    const transfer_width *small = NULL, *large = NULL;
    char from[CONFIG_TEXT], to[CONFIG_TEXT], cost[96];
    for (int64_t i = 0; i < g->count; i++)
        if (g->widths[i].best >= 0) {
            small = small ? small : &g->widths[i];
            large = &g->widths[i];
        }
    if (!small) {
        snprintf(text, 256, "no run has finished");
        return;
    }
    grid_rate(small->points[small->best].lr, from);
    grid_rate(large->points[large->best].lr, to);
    if (small == large) {
        snprintf(text, 256, "the best lr is %.40s at width %lld: one width shows no transfer", from,
                 (long long)small->width);
        return;
    }
    if (isnan(g->cost))
        snprintf(cost, sizeof cost, "; width %lld was not trained at %.40s", (long long)large->width, from);
    else if (isinf(g->cost))
        snprintf(cost, sizeof cost, "; at %.40s width %lld diverges", from, (long long)large->width);
    else
        snprintf(cost, sizeof cost, "; the small model's value costs %.4f there", g->cost);
    const double steps = fabs(g->moved);
    snprintf(text, 256, "the best lr %s%.3g step%s (%.24s to %.24s) from width %lld to %lld%s%s",
             g->moved == 0  ? "moves by "
             : g->moved > 0 ? "grows by "
                            : "falls by ",
             steps, steps == 1 ? "" : "s", from, to, (long long)small->width, (long long)large->width, cost,
             g->at_edge ? "; a best value lies on the edge of the grid" : "");
}

static json_t *width_json(const transfer_width *w)
{
    json_t *points = json_array();
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        json_array_append_new(points, json_pack("{s:f, s:o, s:o, s:i, s:i, s:i}", "lr", p->lr, "loss",
                                                json_number(p->loss), "accuracy", json_number(p->accuracy), "seeds",
                                                p->seeds, "diverged", p->diverged, "failed", p->failed));
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "width", (json_int_t)w->width, "best_lr",
                     w->best >= 0 ? json_real(w->points[w->best].lr) : json_null(), "best_loss",
                     w->best >= 0 ? json_number(w->points[w->best].loss) : json_null(), "points", points);
}

scion_status transfer_save(const transfer *t, const char *path, scion_error *err)
{
    json_t *groups = json_array();
    for (int64_t i = 0; i < t->count; i++) {
        const transfer_group *g = &t->groups[i];
        json_t *widths = json_array();
        char text[256];
        for (int64_t k = 0; k < g->count; k++)
            json_array_append_new(widths, width_json(&g->widths[k]));
        transfer_sentence(g, text);
        json_array_append_new(groups, json_pack("{s:s, s:o, s:o, s:b, s:s, s:o}", "label", g->label, "moved",
                                                json_number(g->moved), "cost", json_number(g->cost), "at_edge",
                                                g->at_edge, "verdict", text, "widths", widths));
    }
    return json_save(json_pack("{s:o}", "groups", groups), JSON_INDENT(2), path, err);
}
