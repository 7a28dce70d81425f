/* The best loss over all learning rates against one more option: the batch size or the length of a run. Runs
 * that agree in all other options are one series. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"

/* The x axis of a figure. */
typedef struct against {
    const char *id, *heading, *title, *caption, *label;
    const char *const *except; /* options that may differ in a series */
    double (*value)(const config *c);
} against;

static double batch_size(const config *c)
{
    return (double)(c->training.batch * c->training.accum);
}

static double step_count(const config *c)
{
    return (double)c->training.steps;
}

static double epoch_count(const config *c)
{
    return c->training.epochs;
}

/* A point of a series: the best of one group at one width. */
typedef struct entry {
    const transfer_group *g;
    const transfer_width *w;
    double x;
    int series;
} entry;

static int by_place(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    return p->series != q->series ? p->series - q->series : (p->x > q->x) - (p->x < q->x);
}

/* True if two runs have the same number of steps, or of samples. */
static bool same_length(const config *a, const config *b)
{
    return a->training.steps == b->training.steps || a->training.steps * a->training.batch * a->training.accum ==
                                                         b->training.steps * b->training.batch * b->training.accum;
}

static bool same_series(const against *k, const entry *a, const entry *b)
{
    return a->w->width == b->w->width && grid_same(&a->g->c, &b->g->c, k->except) &&
           (k->value != batch_size || same_length(&a->g->c, &b->g->c));
}

/* The entries by series and value; *varies: some series has two values. The caller frees. */
static entry *gather(const ledger_view *v, const against *k, int64_t *count, bool *varies)
{
    int64_t capacity = 0, n = 0;
    int series = 0;
    for (int64_t i = 0; i < v->t.count; i++)
        capacity += v->t.groups[i].count;
    entry *all = calloc((size_t)capacity + 1, sizeof *all);
    *varies = false;
    for (int64_t i = 0; all && i < v->t.count; i++) {
        for (int64_t w = 0; w < v->t.groups[i].count; w++) {
            entry e = {&v->t.groups[i], &v->t.groups[i].widths[w], k->value(&v->t.groups[i].c), -1};
            if (e.w->best < 0 || !(e.x > 0))
                continue;
            for (int64_t o = 0; o < n && e.series < 0; o++)
                if (same_series(k, &all[o], &e)) {
                    e.series = all[o].series;
                    *varies = *varies || all[o].x != e.x;
                }
            if (e.series < 0)
                e.series = series++;
            all[n++] = e;
        }
    }
    if (all)
        qsort(all, (size_t)n, sizeof *all, by_place);
    *count = all ? n : 0;
    return all;
}

static figure draw(const ledger_view *v, const against *k, const entry *all, int64_t count, bool rates)
{
    char name[64], title[SECTION_LABEL];
    int s = -1, drawn = 0;
    bool edge = false;
    snprintf(name, sizeof name, "%s%s", rates ? "best-lr-" : "", k->id);
    snprintf(title, sizeof title, "%s against %s", rates ? "Best learning rate" : "Best loss", k->title);
    figure f = section_figure(v, name, 0, title, "", k->caption);
    figure_axes(&f, k->label, AXIS_LOG2, rates ? "best learning rate" : section_loss_name(v),
                rates ? AXIS_LOG2 : AXIS_LINEAR);
    for (int64_t i = 0; i < count; i++) {
        const transfer_point *best = &all[i].w->points[all[i].w->best];
        if (i == 0 || all[i].series != all[i - 1].series) {
            char label[SECTION_LABEL];
            bool alone = i + 1 == count || all[i + 1].series != all[i].series;
            section_label(v, &all[i].g->c, k->except, label);
            char full[SECTION_LABEL + 32];
            snprintf(full, sizeof full, "%s%swidth %lld", label, label[0] ? " " : "", (long long)all[i].w->width);
            s = alone || drawn == FIGURE_MAX_SERIES ? -1 : figure_series(&f, full, FIGURE_LINE);
            drawn += s >= 0;
        }
        if (s >= 0 && rates)
            section_best_lr(&f, s, all[i].x, all[i].g, all[i].w);
        else if (s >= 0) {
            const bool open = transfer_open(all[i].w) != 0, seeds = best->done.count > 1;
            figure_range(&f, s, all[i].x, best->loss,
                         open    ? -INFINITY
                         : seeds ? best->done.low
                                 : NAN,
                         seeds ? best->done.high : NAN);
            figure_open(&f, s, open ? FIGURE_OPEN_BELOW : 0); /* beyond the edge the loss may be lower */
            edge = edge || open;
        }
    }
    if (rates)
        section_note_edges(&f);
    else if (edge)
        figure_note(&f,
                    " Hollow points with an arrow have their learning rate on the edge of its grid: the best loss "
                    "may be lower.");
    return f;
}

static const char *const except_batch[] = {"lr",    "width",  "seed",  "batch", "accum",
                                           "steps", "warmup", "decay", NULL}; /* the last three follow from it */
static const char *const except_steps[] = {"lr", "width", "seed", "steps", "warmup", "decay", NULL};
static const char *const except_epochs[] = {"lr", "width", "seed", "epochs", "warmup", "decay", NULL};

static const char length_caption[] = "For each length of a run, the learning rate that suits it best.";

static const against kinds[] = {
    {"batch", "Batch size", "batch size",
     "For each batch size, the learning rate that suits it best; all else is the same along a line.",
     "samples in a step", except_batch, batch_size},
    {"steps", "Steps", "steps", length_caption, "steps of the run", except_steps, step_count},
    {"epochs", "Epochs", "epochs", length_caption, "epochs of the run", except_epochs, epoch_count},
};

void section_against(ledger_view *v)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool varies;
        int64_t count;
        entry *all = gather(v, &kinds[i], &count, &varies);
        if (all && varies) {
            section_begin(v, kinds[i].heading);
            page_figure(v->p, draw(v, &kinds[i], all, count, false));
            page_figure(v->p, draw(v, &kinds[i], all, count, true));
        }
        free(all);
    }
}
