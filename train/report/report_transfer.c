/* Learning rates across widths: loss against learning rate, the best learning rate against width, the verdicts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"
#include "util/utf8.h"

enum { max_groups = 16 }; /* figures of this kind; the table has all */

/* All groups have the same limit, so that their figures can be compared. */
static double common_limit(const ledger_view *v)
{
    int64_t capacity = 0, n = 0;
    for (int64_t g = 0; g < v->t.count; g++)
        for (int64_t w = 0; w < v->t.groups[g].count; w++)
            capacity += v->t.groups[g].widths[w].count;
    double *losses = malloc((size_t)(capacity + 1) * sizeof *losses);
    if (!losses)
        return NAN;
    for (int64_t g = 0; g < v->t.count; g++)
        for (int64_t w = 0; w < v->t.groups[g].count; w++)
            for (int64_t i = 0; i < v->t.groups[g].widths[w].count; i++)
                losses[n++] = v->t.groups[g].widths[w].points[i].loss;
    const double limit = report_limit(losses, n);
    free(losses);
    return limit;
}

/* INFINITY in a point: a run diverged, or none finished, which is NAN here. */
static double height(const transfer_point *p)
{
    return isinf(p->loss) && p->diverged == 0 ? NAN : p->loss;
}

static void draw_width(figure *f, const transfer_width *w)
{
    char name[48];
    snprintf(name, sizeof name, "width %lld", (long long)w->width);
    const int s = figure_series(f, name, FIGURE_LINE);
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        const bool spread = p->done.count > 1 && isfinite(p->loss);
        figure_range(f, s, p->lr, height(p), spread ? p->done.low : NAN, spread ? p->done.high : NAN);
        if (i == w->best && w->count > 1)
            figure_mark(f, s);
    }
}

static figure lr_figure(const ledger_view *v, const transfer_group *g, int64_t number, double limit)
{
    bool seeds = false;
    for (int64_t w = 0; w < g->count; w++)
        for (int64_t i = 0; i < g->widths[w].count; i++)
            seeds = seeds || g->widths[w].points[i].done.count > 1;
    figure f = section_figure(v, "lr", v->t.count > 1 ? number : 0, "Loss against learning rate", g->label,
                              seeds ? "Mean over the seeds, with whiskers from the lowest to the highest; the best "
                                      "learning rate of each width is ringed."
                                    : "The best learning rate of each width is ringed.");
    figure_axes(&f, "learning rate", AXIS_LOG2, section_loss_name(v), AXIS_LINEAR);
    figure_mark_label(&f, "best of its width");
    f.ordered = true;
    f.limit = limit;
    const int64_t drawn = g->count < FIGURE_MAX_SERIES ? g->count : FIGURE_MAX_SERIES;
    for (int64_t i = 0; i < drawn; i++) /* of too many widths: evenly from the smallest to the largest */
        draw_width(&f, &g->widths[drawn > 1 ? i * (g->count - 1) / (drawn - 1) : 0]);
    if (g->at_edge)
        figure_note(&f,
                    " A ring at the end of its line is the best of the grid alone: a better value may lie beyond.");
    return f;
}

static bool has_grid(const transfer_group *g)
{
    for (int64_t i = 0; i < g->count; i++)
        if (g->widths[i].count > 1)
            return true;
    return false;
}

static bool has_widths(const transfer_group *g)
{
    int64_t known = 0;
    for (int64_t i = 0; i < g->count; i++)
        known += g->widths[i].best >= 0;
    return known > 1;
}

void section_best_lr(figure *f, int s, double x, const transfer_group *g, const transfer_width *w)
{
    const stat_estimate e = transfer_best(g, w);
    const int open = transfer_open(w);
    if (isnan(e.value)) {
        figure_point(f, s, x, w->points[w->best].lr);
        return;
    }
    figure_range(f, s, x, exp2(e.value), open & FIGURE_OPEN_BELOW ? 0 : exp2(e.value - e.error),
                 open & FIGURE_OPEN_ABOVE ? INFINITY : exp2(e.value + e.error));
    figure_open(f, s, open);
}

void section_note_edges(figure *f)
{
    char known[200] = "", rate[32];
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_value *p = &f->lines[i].values[k];
            snprintf(rate, sizeof rate, " 2^%.4g,", log2(p->y));
            if (p->open && !strstr(known, rate))
                utf8_append(known, sizeof known, "%s", rate);
        }
    if (!known[0])
        return;
    known[strlen(known) - 1] = '.'; /* the last comma */
    char text[320];
    snprintf(text, sizeof text,
             " Hollow points with an arrow lie on the edge of their grid: the best lies at or beyond%s", known);
    figure_note(f, text);
}

static figure best_figure(const ledger_view *v)
{
    int drawn = 0;
    figure f = section_figure(v, "best-lr", 0, "Best learning rate against width", "",
                              "Vertex of a parabola through the lowest loss and its neighbours, mean over the seeds "
                              "with its 95 % interval. A flat line is a learning rate that can be tuned on a small "
                              "model and used on a large one.");
    figure_axes(&f, "width", AXIS_LOG2, "best learning rate", AXIS_LOG2);
    for (int64_t i = 0; i < v->t.count && drawn < FIGURE_MAX_SERIES; i++) {
        const transfer_group *g = &v->t.groups[i];
        if (!has_widths(g))
            continue;
        const int s = figure_series(&f, g->label[0] ? g->label : "best learning rate", FIGURE_LINE);
        drawn++;
        for (int64_t w = 0; w < g->count; w++)
            if (g->widths[w].best >= 0)
                section_best_lr(&f, s, (double)g->widths[w].width, g, &g->widths[w]);
    }
    section_note_edges(&f);
    return f;
}

/* The largest move and its direction, where the grid is open. */
static void move_cell(const ledger_view *v, const transfer_group *g)
{
    char text[MARKUP_NUMBER];
    const char *sign = transfer_move_sign(g);
    page_cell(v->p, "%s%s", sign ? sign : "open", sign ? markup_fixed(g->moved.value, 2, text) : "");
}

static void verdicts(const ledger_view *v)
{
    page_table(v->p, NULL, "group|widths|largest move, power of 2|cost at the largest width|transfer|in words",
               "wlrrlw");
    int64_t rows = 0;
    for (int64_t i = 0; i < v->t.count; i++) {
        const transfer_group *g = &v->t.groups[i];
        const transfer_width *largest = &g->widths[g->count - 1];
        char sentence[TRANSFER_TEXT], text[MARKUP_NUMBER];
        if (!has_widths(g) || !has_grid(g))
            continue;
        rows++;
        transfer_sentence(g, sentence);
        page_cell(v->p, "%s", g->label[0] ? g->label : "all runs");
        page_cell(v->p, "%lld to %lld", (long long)g->widths[0].width, (long long)largest->width);
        move_cell(v, g);
        page_cell(v->p, "%s%s", transfer_open(largest) ? "\u2265 " : "", markup_fixed(largest->cost.value, 4, text));
        page_cell(v->p, "%s", stat_name(transfer_judge(g).transfer));
        page_cell(v->p, "%s", sentence);
    }
    page_table_end(v->p);
    if (rows == 0)
        return;
    page_paragraph(v->p,
                   "A learning rate transfers if its best value moves by at most a factor of two between any two "
                   "widths, and that of the smallest width costs at most two standard deviations of a loss over "
                   "the seeds; kept or failed by 95%% intervals, which are open towards the edge of a grid.");
}

void section_transfer(ledger_view *v)
{
    const double limit = common_limit(v);
    int64_t drawn = 0, grids = 0;
    for (int64_t i = 0; i < v->t.count; i++)
        grids += has_grid(&v->t.groups[i]);
    if (grids == 0)
        return;
    section_begin(v, "Learning rate and width");
    page_figure(v->p, best_figure(v));
    for (int64_t i = 0; i < v->t.count && drawn < max_groups; i++) {
        if (!has_grid(&v->t.groups[i]))
            continue;
        page_figure(v->p, lr_figure(v, &v->t.groups[i], i + 1, limit));
        drawn++;
    }
    if (drawn < grids)
        page_paragraph(v->p, "%lld more groups of runs have no figure here.", (long long)(grids - drawn));
    verdicts(v);
}
