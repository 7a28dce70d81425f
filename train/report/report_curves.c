/* The best run of each group: its loss curve, and the norms of its weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "report/section.h"

enum { norms_most = 4 }; /* figures of norms */

static double height(const ledger_point *p, bool validation)
{
    return validation ? p->val_loss : p->loss;
}

/* One of the two curves of a run; one point is no curve. */
static void draw_curve(figure *f, const char *name, const ledger_point *points, int64_t count, bool validation)
{
    int64_t known = 0;
    for (int64_t i = 0; i < count; i++)
        known += !isnan(height(&points[i], validation));
    if (known < 2)
        return;
    const int s = figure_series(f, name, FIGURE_LINE);
    for (int64_t i = 0; i < count; i++)
        if (!isnan(height(&points[i], validation)))
            figure_point(f, s, (double)points[i].step, height(&points[i], validation));
}

static scion_status draw_group(const ledger_view *v, const transfer_group *g, figure *f[2], scion_error *err)
{
    const ledger_run *best = section_best(v, g);
    ledger_point *points = NULL;
    int64_t count = 0;
    char label[SECTION_LABEL];
    if (!best)
        return SCION_OK;
    const scion_status status = ledger_points(v->l, best->id, &points, &count, err);
    if (status != SCION_OK)
        return status;
    section_label(v, &best->c, SECTION_KEYS("seed"), label);
    for (int i = 0; i < 2; i++)
        draw_curve(f[i], label[0] ? label : "best run", points, count, i > 0);
    free(points);
    return SCION_OK;
}

/* The norms of a run as those of a run folder. */
static scion_status read_norms(const ledger_view *v, int64_t run, run_norm **out, int64_t *count, scion_error *err)
{
    ledger_norm *norms = NULL;
    const scion_status status = ledger_norms(v->l, run, &norms, count, err);
    *out = NULL;
    if (status != SCION_OK)
        return status;
    *out = calloc((size_t)*count + 1, sizeof **out);
    for (int64_t i = 0; *out && i < *count; i++) {
        run_norm *n = &(*out)[i];
        *n = (run_norm){.step = norms[i].step, .norm = norms[i].norm, .bound = norms[i].bound};
        memcpy(n->name, norms[i].name, sizeof n->name);
    }
    free(norms);
    return *out ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the norms of a run");
}

static scion_status draw_norms(const ledger_view *v, scion_error *err)
{
    int64_t drawn = 0;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < v->t.count && drawn < norms_most; i++) {
        const ledger_run *best = section_best(v, &v->t.groups[i]);
        run_norm *norms = NULL;
        int64_t count = 0;
        char id[REPORT_ID], title[SECTION_LABEL], label[SECTION_LABEL];
        status = best ? read_norms(v, best->id, &norms, &count, err) : SCION_OK;
        if (status == SCION_OK && count > 0) {
            if (drawn == 0)
                section_begin(v, "Norms of the weights");
            section_label(v, &best->c, SECTION_KEYS("seed"), label);
            section_id(v, "norms", v->t.count > 1 ? i + 1 : 0, id);
            section_title("Norms of the best run", label, title);
            report_norms(v->p, id, title, norms, count);
            drawn++;
        }
        free(norms);
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
    for (int i = 0; status == SCION_OK && i < 2; i++)
        figure_auto_log(f[i]);
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
