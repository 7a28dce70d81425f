/* See transfer.h. */
#include "tune/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw/figure.h"
#include "draw/markup.h"
#include "util/array.h"
#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/json.h"
#include "util/number.h"
#include "util/path.h"
#include "util/utf8.h"
#include "sweep/grid.h"

/* In log2: the loss is so flat around its minimum that half or twice the best lr is nearly as good. */
static const double same_rate = 1;

/* Standard deviations of a loss over the seeds that a learning rate from another width may cost. */
static const double same_loss = 2;

/* The axes of a transfer; everything else makes a group. */
static const char *const axes[] = {"lr", "width", "seed", NULL};

/* These find an element or add it; NULL: out of memory. */
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
        *p = (transfer_point){.lr = lr, .accuracy = NAN};
    return p;
}

/* Adds a run to its point, whose accuracy is a sum until the end. False: out of memory. */
static bool add_run(transfer_point *p, const ledger_run *run)
{
    const run_result *r = &run->result;
    double loss = isnan(r->val_loss) ? r->loss : r->val_loss; /* data may have no validation part */
    transfer_seed *s = array_append(&p->seeds, &p->seed_count, sizeof *s);
    if (!s)
        return false;
    if (r->state != RUN_DONE)
        loss = r->state == RUN_DIVERGED ? INFINITY : NAN;
    *s = (transfer_seed){run->c.training.seed, loss};
    p->diverged += r->state == RUN_DIVERGED;
    p->failed += r->state == RUN_FAILED;
    if (r->state != RUN_DONE || isnan(loss))
        return true;
    stat_add(&p->done, loss);
    if (!isnan(r->accuracy))
        p->accuracy = (isnan(p->accuracy) ? 0 : p->accuracy) + r->accuracy;
    return true;
}

/* The loss of a seed; NAN: it is not there. */
static double seed_loss(const transfer_point *p, uint64_t seed)
{
    for (int64_t i = 0; i < p->seed_count; i++)
        if (p->seeds[i].seed == seed)
            return p->seeds[i].loss;
    return NAN;
}

/* Fits the best lr of each seed of the best point. x and y: space for as many numbers as points. */
static void fit_seeds(transfer_width *w, double *x, double *y)
{
    const transfer_point *best = &w->points[w->best];
    for (int64_t s = 0; s < best->seed_count; s++) {
        for (int64_t i = 0; i < w->count; i++) {
            x[i] = log2(w->points[i].lr);
            y[i] = seed_loss(&w->points[i], best->seeds[s].seed);
        }
        const stat_minimum m = stat_lowest(x, y, w->count);
        if (m.at < 0)
            continue;
        stat_add(&w->log2_best, m.x);
        w->edge_below = w->edge_below || (m.at_edge && (m.at == 0 || isnan(y[m.at - 1])));
        w->edge_above = w->edge_above || (m.at_edge && (m.at == w->count - 1 || isnan(y[m.at + 1])));
    }
}

static bool finish_width(transfer_width *w)
{
    double *x = malloc(2 * (size_t)w->count * sizeof *x);
    qsort(w->points, (size_t)w->count, sizeof *w->points, array_ascending); /* they begin with lr */
    w->best = -1;
    w->cost = (stat_estimate){NAN, NAN};
    for (int64_t i = 0; i < w->count; i++) {
        transfer_point *p = &w->points[i];
        /* If one seed diverges, the value counts as diverged. */
        p->loss = p->done.count > 0 && p->diverged == 0 ? p->done.mean : INFINITY;
        p->accuracy = p->done.count > 0 ? p->accuracy / (double)p->done.count : NAN;
        if (isfinite(p->loss) && (w->best < 0 || p->loss < w->points[w->best].loss))
            w->best = i;
    }
    if (x && w->best >= 0)
        fit_seeds(w, x, x + w->count);
    free(x);
    return x != NULL;
}

/* Cost of a learning rate in place of the best one, by the differences of each seed. */
static stat_estimate cost_of(const transfer_width *w, double lr)
{
    const transfer_point *best = &w->points[w->best];
    stat_sample differences = {0};
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        if (p->lr != lr)
            continue;
        if (p->diverged > 0)
            return (stat_estimate){INFINITY, 0};
        for (int64_t s = 0; s < p->seed_count; s++) {
            const double difference = p->seeds[s].loss - seed_loss(best, p->seeds[s].seed);
            if (!isnan(difference))
                stat_add(&differences, difference);
        }
    }
    return stat_mean(&differences);
}

static bool finish_group(transfer_group *g)
{
    const transfer_width *small = NULL;
    qsort(g->widths, (size_t)g->count, sizeof *g->widths, array_ascending_int); /* they begin with the width */
    g->moved = (stat_estimate){NAN, NAN};
    for (int64_t i = 0; i < g->count; i++) {
        transfer_width *w = &g->widths[i];
        if (!finish_width(w))
            return false;
        if (w->best < 0)
            continue;
        small = small ? small : w;
        w->cost = cost_of(w, small->points[small->best].lr);
        g->at_edge = g->at_edge || w->edge_below || w->edge_above;
        stat_pool_add(&g->spread, &w->log2_best);
        stat_pool_add(&g->loss_spread, &w->points[w->best].done);
    }
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = i + 1; k < g->count; k++) {
            const stat_estimate e = stat_difference(&g->widths[i].log2_best, &g->widths[k].log2_best, &g->spread);
            if (isnan(e.value) || fabs(e.value) < fabs(g->moved.value))
                continue;
            if (isnan(g->moved.value) || fabs(e.value) > fabs(g->moved.value) || i == g->from) {
                g->moved = e; /* of equal ones, the widest apart from the smallest */
                g->from = i;
                g->to = k;
            }
        }
    return true;
}

scion_status transfer_make(transfer *t, const ledger_run *runs, int64_t count, scion_error *err)
{
    *t = (transfer){NULL, 0};
    for (int64_t i = 0; i < count; i++) {
        if (runs[i].kind != LEDGER_TRAINING || runs[i].result.state < RUN_DONE)
            continue;
        transfer_group *g = group_of(t, &runs[i].c);
        transfer_width *w = g ? width_of(g, config_int(&runs[i].c, "width")) : NULL;
        transfer_point *p = w ? point_of(w, runs[i].c.training.lr) : NULL;
        if (!p || !add_run(p, &runs[i]))
            return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)count);
    }
    for (int64_t i = 0; i < t->count; i++)
        if (!finish_group(&t->groups[i]))
            return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)count);
    if (t->count > 0)
        grid_name_groups(&t->groups[0].c, sizeof *t->groups, t->count, axes, t->groups[0].label,
                         sizeof t->groups[0].label);
    return SCION_OK;
}

void transfer_free(transfer *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        for (int64_t k = 0; k < t->groups[i].count; k++) {
            transfer_width *w = &t->groups[i].widths[k];
            for (int64_t n = 0; n < w->count; n++)
                free(w->points[n].seeds);
            free(w->points);
        }
        free(t->groups[i].widths);
    }
    free(t->groups);
    *t = (transfer){NULL, 0};
}

stat_estimate transfer_best(const transfer_group *g, const transfer_width *w)
{
    if (w->log2_best.count == 0)
        return (stat_estimate){NAN, NAN};
    return (stat_estimate){w->log2_best.mean, stat_error(&g->spread, 1 / (double)w->log2_best.count)};
}

/* ---- Judgement ------------------------------------------------------------------------------------------------ */

int transfer_open(const transfer_width *w)
{
    return (w->edge_below ? FIGURE_OPEN_BELOW : 0) | (w->edge_above ? FIGURE_OPEN_ABOVE : 0);
}

const char *transfer_open_name(const transfer_width *w)
{
    static const char *const names[] = {"", "below", "above", "both"};
    return names[transfer_open(w)];
}

/* Interval of log2(best lr of b / best lr of a); NAN: its error is not known. */
static void move_range(const transfer_width *a, const transfer_width *b, stat_estimate move, double *low,
                       double *high)
{
    *low = b->edge_below || a->edge_above ? -INFINITY : move.value - move.error;
    *high = b->edge_above || a->edge_below ? INFINITY : move.value + move.error;
}

static stat_finding judge_move(const transfer_group *g)
{
    bool kept = isfinite(g->moved.value);
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = i + 1; k < g->count; k++) {
            const transfer_width *a = &g->widths[i], *b = &g->widths[k];
            const stat_estimate e = stat_difference(&a->log2_best, &b->log2_best, &g->spread);
            double low, high;
            if (isnan(e.value)) /* a width where nothing trains */
                continue;
            move_range(a, b, e, &low, &high);
            const stat_finding f =
                isnan(e.error) ? STAT_UNDECIDED : stat_range_within(low, high, -same_rate, same_rate);
            if (f == STAT_FAILED)
                return STAT_FAILED;
            kept = kept && f == STAT_KEPT;
        }
    return kept ? STAT_KEPT : STAT_UNDECIDED;
}

/* The smallest width that has a best lr; NULL: none. */
static const transfer_width *smallest(const transfer_group *g)
{
    for (int64_t i = 0; i < g->count; i++)
        if (g->widths[i].best >= 0)
            return &g->widths[i];
    return NULL;
}

/* Beyond an edge the loss of a width may be lower, so that the cost is higher; beyond one of the smallest width lies
 * another lr, whose cost is not known. */
static stat_finding judge_cost(const transfer_group *g, double margin)
{
    const transfer_width *small = smallest(g);
    bool kept = isfinite(g->moved.value);
    for (int64_t i = 0; i < g->count; i++) {
        const transfer_width *w = &g->widths[i];
        if (w->best < 0 || w == small)
            continue;
        const double high = transfer_open(w) ? INFINITY : w->cost.value + w->cost.error;
        const stat_finding f = transfer_open(small)
                                   ? STAT_UNDECIDED
                                   : stat_range_within(w->cost.value - w->cost.error, high, -INFINITY, margin);
        if (f == STAT_FAILED)
            return STAT_FAILED;
        kept = kept && f == STAT_KEPT;
    }
    return kept ? STAT_KEPT : STAT_UNDECIDED;
}

transfer_judgement transfer_judge(const transfer_group *g)
{
    const stat_pool *s = &g->loss_spread;
    const double margin = s->freedom > 0 ? same_loss * sqrt(s->squares / (double)s->freedom) : NAN;
    transfer_judgement j = {.move = judge_move(g), .cost = judge_cost(g, margin), .margin = margin};
    j.transfer = j.move == STAT_FAILED || j.cost == STAT_FAILED ? STAT_FAILED
                 : j.move == STAT_KEPT && j.cost == STAT_KEPT   ? STAT_KEPT
                                                                : STAT_UNDECIDED;
    return j;
}

/* ---- Text, JSON and CSV ---------------------------------------------------------------------------------------- */

const char *transfer_loss_text(const transfer_point *p, char text[32])
{
    if (isfinite(p->loss))
        return stat_text(&p->done, text);
    snprintf(text, 32, "%s", p->diverged ? "diverged" : "failed");
    return text;
}

/* " +- 0.0012"; "" if it is not known. */
static const char *error_text(double error, int digits, char text[32])
{
    text[0] = '\0';
    if (isfinite(error))
        snprintf(text, 32, " +- %.*f", digits, error);
    return text;
}

const char *transfer_move_sign(const transfer_group *g)
{
    const bool down = g->moved.value < 0;
    double low, high;
    move_range(&g->widths[g->from], &g->widths[g->to], g->moved, &low, &high);
    if (!isinf(low) && !isinf(high))
        return "";
    return isinf(down ? high : low) ? NULL : down ? "\u2264 " : "\u2265 ";
}

/* "2^(-0.40 +- 0.12)", "2^-1.00 or further" where an edge leaves it open in its direction. */
static const char *moved_text(const transfer_group *g, bool further, char text[64])
{
    char error[32];
    error_text(further ? NAN : g->moved.error, 2, error);
    snprintf(text, 64, "2^%s%.2f%s%s%s", error[0] ? "(" : "", g->moved.value, error, error[0] ? ")" : "",
             further ? " or further" : "");
    return text;
}

void transfer_move_text(const transfer_group *g, char text[TRANSFER_PART])
{
    static const char *const beyond[] = {"", " or less", " or more", " or beyond"};
    const transfer_width *only = smallest(g);
    char moved[64];
    snprintf(text, TRANSFER_PART, "%s", only ? "best lr, interpolated by a parabola: " : "no run has finished");
    for (int64_t i = 0; i < g->count; i++) {
        const transfer_width *w = &g->widths[i];
        if (w->best >= 0)
            utf8_append(text, TRANSFER_PART, "%s2^%.2f%s at width %lld", w == only ? "" : ", ", w->log2_best.mean,
                        beyond[transfer_open(w)], (long long)w->width);
    }
    if (g->at_edge)
        utf8_append(text, TRANSFER_PART, "; a best value lies on the edge of its grid");
    if (!only)
        return;
    if (isnan(g->moved.value))
        utf8_append(text, TRANSFER_PART, "; one width shows no transfer");
    else if (!transfer_move_sign(g))
        utf8_append(text, TRANSFER_PART, "; how far it moves is not known");
    else
        utf8_append(text, TRANSFER_PART, "; it moves most from width %lld to %lld: by %s",
                    (long long)g->widths[g->from].width, (long long)g->widths[g->to].width,
                    moved_text(g, transfer_move_sign(g)[0] != '\0', moved));
}

void transfer_cost_text(const transfer_group *g, char text[TRANSFER_PART])
{
    const transfer_width *small = smallest(g);
    bool first = true, number = false;
    char rate[CONFIG_TEXT], error[32];
    text[0] = '\0';
    for (int64_t i = 0; i < g->count && !isnan(g->moved.value); i++) {
        const transfer_width *w = &g->widths[i];
        const bool known = isfinite(w->cost.value);
        if (w->best < 0 || w == small)
            continue;
        grid_rate(small->points[small->best].lr, rate);
        if (first)
            snprintf(text, TRANSFER_PART, "using width %lld's lr (%s)", (long long)small->width, rate);
        utf8_append(text, TRANSFER_PART, "%s", first ? " " : ", ");
        if (known)
            utf8_append(text, TRANSFER_PART, "%s%s%.4f%s%s", number ? "" : "costs ",
                        transfer_open(w) ? "at least " : "", w->cost.value, error_text(w->cost.error, 4, error),
                        number ? "" : " in loss");
        else
            utf8_append(text, TRANSFER_PART, "%s", isinf(w->cost.value) ? "diverges" : "has an unknown cost");
        utf8_append(text, TRANSFER_PART, " at width %lld", (long long)w->width);
        first = false;
        number = known;
    }
}

void transfer_sentence(const transfer_group *g, char text[TRANSFER_TEXT])
{
    const transfer_judgement j = transfer_judge(g);
    char part[TRANSFER_PART];
    transfer_move_text(g, part);
    snprintf(text, TRANSFER_TEXT, "%s", part);
    transfer_cost_text(g, part);
    if (!part[0])
        return;
    utf8_append(text, TRANSFER_TEXT, "; %s; transfer: %s ", part, stat_name(j.transfer));
    if (isnan(j.margin))
        utf8_append(text, TRANSFER_TEXT, "(one seed has no spread)");
    else
        utf8_append(text, TRANSFER_TEXT, "(move of at most a factor of two: %s; cost of at most %.4f in loss: %s)",
                    stat_name(j.move), j.margin, stat_name(j.cost));
}

static json_t *width_json(const transfer_group *g, const transfer_width *w)
{
    json_t *points = json_array();
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        json_array_append_new(points,
                              json_pack("{s:f, s:o, s:o, s:o, s:i, s:i, s:i}", "lr", p->lr, "loss",
                                        json_number(p->loss), "deviation", json_number(stat_deviation(&p->done)),
                                        "accuracy", json_number(p->accuracy), "seeds", (int)p->done.count, "diverged",
                                        p->diverged, "failed", p->failed));
    }
    const stat_estimate fitted = transfer_best(g, w);
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "width", (json_int_t)w->width, "best_lr",
                     w->best >= 0 ? json_real(w->points[w->best].lr) : json_null(), "best_loss",
                     w->best >= 0 ? json_number(w->points[w->best].loss) : json_null(), "log2_best_lr",
                     json_number(fitted.value), "log2_best_lr_error", json_number(fitted.error), "open",
                     transfer_open_name(w), "cost", json_number(w->cost.value), "cost_error",
                     json_number(w->cost.error), "points", points);
}

static json_t *group_json(const transfer_group *g)
{
    json_t *widths = json_array();
    char text[TRANSFER_TEXT];
    const transfer_judgement j = transfer_judge(g);
    for (int64_t k = 0; k < g->count; k++)
        json_array_append_new(widths, width_json(g, &g->widths[k]));
    transfer_sentence(g, text);
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o, s:b, s:s, s:s, s:s, s:o, s:s, s:o}", "label", g->label, "moved",
                     json_number(g->moved.value), "moved_error", json_number(g->moved.error), "moved_from",
                     (json_int_t)g->widths[g->from].width, "moved_to", (json_int_t)g->widths[g->to].width, "cost",
                     json_number(g->widths[g->count - 1].cost.value), "at_edge", g->at_edge, "transfer",
                     stat_name(j.transfer), "move_finding", stat_name(j.move), "cost_finding", stat_name(j.cost),
                     "cost_margin", json_number(j.margin), "verdict", text, "widths", widths);
}

scion_status transfer_save(const transfer *t, const char *path, scion_error *err)
{
    json_t *groups = json_array();
    for (int64_t i = 0; i < t->count; i++)
        json_array_append_new(groups, group_json(&t->groups[i]));
    return json_save(json_pack("{s:o}", "groups", groups), JSON_INDENT(2), path, err);
}

/* A row for each lr and width; `best` and `open` are of the width's best lr. */
static void write_csv(const transfer *t, FILE *to)
{
    fputs("group,width,lr,loss,deviation,accuracy,seeds,diverged,failed,best,open\n", to);
    for (int64_t i = 0; i < t->count; i++)
        for (int64_t k = 0; k < t->groups[i].count; k++)
            for (int64_t n = 0; n < t->groups[i].widths[k].count; n++) {
                const transfer_width *w = &t->groups[i].widths[k];
                const transfer_point *p = &w->points[n];
                const double numbers[] = {p->lr, p->done.count > 0 || p->diverged ? p->loss : NAN,
                                          stat_deviation(&p->done), p->accuracy};
                markup_csv(to, t->groups[i].label);
                fprintf(to, ",%lld", (long long)w->width);
                for (int c = 0; c < 4; c++) {
                    char text[NUMBER_TEXT];
                    number_write(numbers[c], text);
                    fprintf(to, ",%s", isnan(numbers[c]) ? "" : text);
                }
                fprintf(to, ",%lld,%d,%d,%d,%s\n", (long long)p->done.count, p->diverged, p->failed, n == w->best,
                        n == w->best ? transfer_open_name(w) : "");
            }
}

scion_status transfer_save_csv(const transfer *t, const char *path, scion_error *err)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        write_csv(t, to);
    const bool whole = to && fclose(to) == 0;
    const scion_status status =
        whole ? atomic_print(path, text, err) : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    free(text);
    return status;
}
