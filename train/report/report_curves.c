/* The best run of each group: its loss curve, and the norms of its weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "report/section.h"

enum { norms_most = 4 }; /* figures of norms */

/* One of the two curves of a run; one point is no curve. */
static void draw_curve(figure *f, const char *name, const run_curves *c, bool validation)
{
    int64_t known = 0;
    for (int64_t i = 0; i < c->point_count; i++)
        known += run_is_validation(&c->points[i]) == validation;
    if (known > 1 && validation)
        report_curve(f, name, c, REPORT_STEPS, offsetof(run_point, val_loss), 1, NAN);
    else if (known > 1)
        report_training(f, name, c, REPORT_STEPS);
}

static scion_status draw_group(const ledger_view *v, const transfer_group *g, figure *f[2], scion_error *err)
{
    const ledger_run *best = section_best(v, g);
    run_curves curves;
    char label[SECTION_LABEL];
    if (!best)
        return SCION_OK;
    const scion_status status = ledger_curves(v->l, best->id, &curves, err);
    section_label(v, &best->c, SECTION_KEYS("seed"), label);
    for (int i = 0; status == SCION_OK && i < 2; i++)
        draw_curve(f[i], label[0] ? label : "best run", &curves, i > 0);
    run_curves_free(&curves);
    return status;
}

static scion_status draw_norms(const ledger_view *v, scion_error *err)
{
    int64_t drawn = 0;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < v->t.count && drawn < norms_most; i++) {
        const ledger_run *best = section_best(v, &v->t.groups[i]);
        run_curves curves = {.points = NULL};
        char id[REPORT_ID], title[SECTION_LABEL], label[SECTION_LABEL];
        status = best ? ledger_curves(v->l, best->id, &curves, err) : SCION_OK;
        if (status == SCION_OK && curves.norm_count > 0) {
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
    return status;
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
        while (at > 0 && section_loss(section_best(v, best[at - 1])) > section_loss(run))
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

scion_status section_curves(const ledger_view *v, scion_error *err)
{
    const transfer_group *best[FIGURE_MAX_SERIES];
    const int count = best_groups(v, best);
    char id[2][REPORT_ID];
    scion_status status = SCION_OK;
    section_id(v, "curves-training", 0, id[0]);
    section_id(v, "curves-validation", 0, id[1]);
    figure *f[2] = {
        figure_create(id[0], "Training loss of the best runs", "The best run of each group, best first."),
        figure_create(id[1], "Validation loss of the best runs", "The best run of each group, best first."),
    };
    if (!f[0] || !f[1])
        status = train_fail(err, SCION_ENOMEM, "out of memory for a figure");
    for (int i = 0; status == SCION_OK && i < 2; i++)
        figure_axes(f[i], "step", AXIS_LINEAR, i > 0 ? "validation loss" : "training loss", AXIS_LINEAR);
    for (int i = 0; status == SCION_OK && i < count; i++)
        status = draw_group(v, best[i], f, err);
    for (int i = 0; status == SCION_OK && i < 2; i++) {
        figure_auto_log(f[i]);
        report_curves_limit(f[i]);
    }
    if (status != SCION_OK || (figure_empty(f[0]) && figure_empty(f[1]))) {
        figure_free(f[0]);
        figure_free(f[1]);
    } else {
        section_begin(v, "Loss curves");
        page_figure(v->p, f[1]);
        page_figure(v->p, f[0]);
    }
    return status == SCION_OK ? draw_norms(v, err) : status;
}
