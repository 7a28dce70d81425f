/* The best run of each group: its loss curve, and the norms of its weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"

enum { max_norms = 4 }; /* figures of norms */

/* The curves of the best runs: of the training loss and of the validation loss, against one clock. */
typedef struct curve_figures {
    figure f[2];
    report_clock clock;
    double end;
} curve_figures;

static const char *const loss_names[] = {"training loss", "validation loss"};

/* Draws one of the two curves of a run; one point is no curve. */
static void draw_curve(curve_figures *k, const char *name, const run_curves *c, bool validation)
{
    int64_t known = 0;
    for (int64_t i = 0; i < c->point_count; i++)
        known += run_is_validation(&c->points[i]) == validation && !isnan(report_at(&c->points[i], k->clock));
    if (known > 1 && validation)
        report_curve(&k->f[1], name, c, k->clock, offsetof(run_point, val_loss), 1, NAN);
    else if (known > 1)
        report_training(&k->f[0], name, c, k->clock, offsetof(run_point, loss));
}

/* The curves of a run (NULL: none). */
static run_curves curves_of(ledger_view *v, const ledger_run *run)
{
    run_curves curves = {.points = NULL};
    if (run && v->status == SCION_OK)
        v->status = ledger_curves(v->l, run->id, &curves, v->err);
    return curves;
}

static void draw_group(ledger_view *v, const transfer_group *g, curve_figures *k)
{
    const ledger_run *best = section_best(v, g);
    run_curves curves = curves_of(v, best);
    char label[SECTION_LABEL];
    section_label(v, &best->c, SECTION_KEYS("seed"), label);
    for (int i = 0; i < 2; i++)
        draw_curve(k, label[0] ? label : "best run", &curves, i > 0);
    k->end = fmax(k->end, report_end(&curves, k->clock));
    run_curves_free(&curves);
}

static void draw_norms(ledger_view *v)
{
    int64_t drawn = 0;
    for (int64_t i = 0; i < v->t.count && drawn < max_norms; i++) {
        const ledger_run *best = section_best(v, &v->t.groups[i]);
        run_curves curves = curves_of(v, best);
        char id[REPORT_ID], title[SECTION_LABEL], label[SECTION_LABEL];
        if (curves.norm_count > 0) {
            if (drawn == 0)
                section_begin(v, "Norms of the weights");
            section_label(v, &best->c, SECTION_KEYS("seed"), label);
            section_id(v, "norms", v->t.count > 1 ? i + 1 : 0, id);
            section_title("Norms of the best run", label, title);
            report_norms(v->p, id, title, curves.norms, curves.norm_count, report_last_step(&curves));
            drawn++;
        }
        run_curves_free(&curves);
    }
}

/* The groups with the lowest losses, best first; returns their number. */
static int best_groups(const ledger_view *v, const transfer_group *best[FIGURE_MAX_SERIES])
{
    int count = 0;
    for (int64_t i = 0; i < v->t.count; i++) {
        const ledger_run *run = section_best(v, &v->t.groups[i]);
        int at = count;
        if (!run)
            continue;
        while (at > 0 && section_score(v, section_best(v, best[at - 1])) > section_score(v, run))
            at--;
        if (at == FIGURE_MAX_SERIES)
            continue;
        const int moved = (count < FIGURE_MAX_SERIES ? count : FIGURE_MAX_SERIES - 1) - at;
        memmove(best + at + 1, best + at, (size_t)moved * sizeof *best);
        best[at] = &v->t.groups[i];
        count += count < FIGURE_MAX_SERIES;
    }
    return count;
}

/* Draws the best groups against a clock. Ledgers of 0.2 have only steps. */
static void draw_curves(ledger_view *v, const transfer_group *const *best, int count, report_clock clock)
{
    static const char *const ids[] = {"curves-training", "curves-validation"};
    static const char *const titles[] = {"Training loss of the best runs", "Validation loss of the best runs"};
    curve_figures k = {.clock = clock};
    for (int i = 0; i < 2; i++) {
        char id[REPORT_ID];
        section_id(v, ids[i], 0, id);
        k.f[i] = report_losses(id, titles[i], "The best run of each group, best first.", loss_names[i], clock, "");
    }
    for (int i = 0; i < count; i++)
        draw_group(v, best[i], &k);
    if (clock == REPORT_STEPS && !(figure_empty(&k.f[0]) && figure_empty(&k.f[1])))
        section_begin(v, "Loss curves");
    for (int i = 1; i >= 0; i--) {
        report_losses_end(&k.f[i], clock, k.end);
        page_figure(v->p, k.f[i]);
    }
}

void section_curves(ledger_view *v)
{
    const transfer_group *best[FIGURE_MAX_SERIES];
    const int count = best_groups(v, best);
    draw_curves(v, best, count, REPORT_STEPS);
    draw_curves(v, best, count, REPORT_TIME);
    draw_norms(v);
}
