/* Coordinate checks of a ledger: the size of each layer's result against the width, and its slope. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/utf8.h"
#include "report/section.h"
#include "tune/coordcheck.h"

enum { max_figures = 4, max_groups = 6 };

static bool same_kind(const coordcheck_group *g, int64_t a, int64_t b, bool fold)
{
    char x[64], y[64];
    report_fold_name(g->names[a], fold, x);
    report_fold_name(g->names[b], fold, y);
    return strcmp(x, y) == 0;
}

/* Geometric mean over the layers of one kind, which keeps slopes. */
static double mean_rms(const coordcheck_group *g, int64_t layer, int64_t step, int64_t width, bool fold)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = layer; i < g->layer_count; i++) {
        const double rms = coordcheck_value(g, COORDCHECK_RMS, i, step, width);
        if (!same_kind(g, layer, i, fold))
            continue;
        if (!(rms > 0) || isinf(rms))
            return rms;
        sum += log(rms);
        count++;
    }
    return exp(sum / (double)count);
}

static double mean_slope(const coordcheck_group *g, int64_t layer, int64_t step, bool fold)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = layer; i < g->layer_count; i++)
        if (same_kind(g, layer, i, fold)) {
            sum += coordcheck_slope(g, COORDCHECK_RMS, i, step);
            count++;
        }
    return sum / (double)count;
}

static void draw_layer(figure *f, const coordcheck_group *g, int64_t layer, int64_t step, bool fold)
{
    char kind[64], name[96];
    const double exact = mean_slope(g, layer, step, fold);
    const double slope = fabs(exact) < 0.005 ? 0 : exact; /* not -0.00 */
    report_fold_name(g->names[layer], fold, kind);
    if (isfinite(slope))
        snprintf(name, sizeof name, "%s %+.2f", kind, slope);
    else
        snprintf(name, sizeof name, "%s", kind);
    const int s = figure_series(f, name, FIGURE_LINE);
    for (int64_t w = 0; w < g->width_count; w++)
        figure_point(f, s, (double)g->widths[w], mean_rms(g, layer, step, w, fold));
}

static figure step_figure(const ledger_view *v, const coordcheck_group *g, int64_t number, int64_t step)
{
    char name[48], when[48] = "Layers at initialisation";
    const bool fold = g->layer_count > FIGURE_MAX_SERIES;
    int drawn = 0;
    if (step > 0)
        snprintf(when, sizeof when, "Layers after %lld step%s", (long long)step, step > 1 ? "s" : "");
    snprintf(name, sizeof name, "coords-step%lld", (long long)step);
    figure f = section_figure(
        v, name, number, when, g->label,
        fold ? "RMS of the result of each layer, with its slope on these axes; N: the geometric "
               "mean over the layers of this kind."
             : "RMS of the result of each layer; the number after its name is the slope on these axes.");
    figure_axes(&f, "width", AXIS_LOG2, "RMS of the layer", AXIS_LOG10);
    for (int64_t i = 0; i < g->layer_count && drawn < FIGURE_MAX_SERIES; i++) {
        bool known = false;
        for (int64_t k = 0; k < i && !known; k++)
            known = same_kind(g, k, i, fold);
        if (!known) {
            draw_layer(&f, g, i, step, fold);
            drawn++;
        }
    }
    return f;
}

/* Steps that have a figure: the first two, the last, and one between. */
static int shown_steps(int64_t steps, int64_t shown[max_figures])
{
    const int64_t wanted[max_figures] = {0, 1, steps / 2, steps};
    int count = 0;
    for (int i = 0; i < max_figures; i++)
        if (wanted[i] <= steps && (count == 0 || wanted[i] > shown[count - 1]))
            shown[count++] = wanted[i];
    return count;
}

static void slope_cell(page *p, double slope)
{
    if (isfinite(slope))
        page_cell(p, "%+.3f", slope);
    else
        page_cell(p, "%s", isnan(slope) ? "\u2013" : "diverged");
}

static void slope_table(const ledger_view *v, const coordcheck_group *g)
{
    char names[256] = "layer", fold[SECTION_LABEL], align[8] = "l";
    int64_t shown[max_figures];
    const int count = shown_steps(g->steps, shown);
    const bool changes = coordcheck_has_changes(g);
    for (int i = 0; i < count; i++)
        utf8_append(names, sizeof names, shown[i] > 0 ? "|after %lld" : "|at start", (long long)shown[i]);
    utf8_append(names, sizeof names, "%s|verdict", changes ? "|change in step 1" : "");
    memset(align + 1, 'r', (size_t)(count + changes));
    align[count + changes + 1] = 'l';
    snprintf(fold, sizeof fold, "Slopes of all layers%s%.130s", g->label[0] ? ", " : "", g->label);
    page_table(v->p, fold, names, align);
    for (int64_t i = 0; i < g->layer_count; i++) {
        page_cell(v->p, "%s", g->names[i]);
        for (int k = 0; k < count; k++)
            slope_cell(v->p, coordcheck_slope(g, COORDCHECK_RMS, i, shown[k]));
        if (changes)
            slope_cell(v->p, coordcheck_slope(g, COORDCHECK_CHANGE, i, 1));
        page_cell(v->p, "%s",
                  coordcheck_verdict_name(coordcheck_judge(coordcheck_slope(g, COORDCHECK_RMS, i, g->steps))));
    }
    page_table_end(v->p);
}

static void show_group(const ledger_view *v, const coordcheck_group *g, int64_t number)
{
    char sentence[256], change[256];
    int64_t shown[max_figures];
    const int count = shown_steps(g->steps, shown);
    coordcheck_sentence(g, sentence);
    coordcheck_change_sentence(g, change);
    page_paragraph(v->p, "%s%s%s%s%s.", g->label, g->label[0] ? ": " : "", sentence, change[0] ? ". " : "", change);
    for (int i = 0; i < count; i++)
        page_figure(v->p, step_figure(v, g, number, shown[i]));
    slope_table(v, g);
}

/* Reads the checks of the ledger; returns their number. */
static int64_t read_checks(ledger_view *v, coordcheck_run *checks)
{
    int64_t count = 0;
    for (int64_t i = 0; v->status == SCION_OK && i < v->count; i++) {
        coordcheck_run *c = &checks[count];
        if (v->runs[i].kind != LEDGER_COORD || v->runs[i].result.state != RUN_DONE)
            continue;
        c->c = v->runs[i].c;
        v->status = ledger_coords(v->l, v->runs[i].id, &c->coords, &c->count, v->err);
        count += c->count > 0;
    }
    return count;
}

void section_coords(ledger_view *v)
{
    coordcheck k = {NULL, 0};
    scion_error why;
    coordcheck_run *checks = calloc((size_t)v->count + 1, sizeof *checks);
    const int64_t count = checks ? read_checks(v, checks) : 0;
    if (!checks)
        v->status = train_fail(v->err, SCION_ENOMEM, "out of memory for the coordinate checks");
    if (count > 0) {
        section_begin(v, "Coordinate check");
        page_paragraph(v->p, "Layers that keep their size as the network gets wider have slope 0: the learning rate "
                             "then means the same at every width. The paper's lemma on transfer is about the "
                             "change of each layer in the first step, whose slope is beside them.");
        if (coordcheck_make(&k, checks, count, &why) != SCION_OK)
            page_paragraph(v->p, "No slopes: %s.", why.message);
        else
            for (int64_t i = 0; i < k.count && i < max_groups; i++)
                show_group(v, &k.groups[i], k.count > 1 ? i + 1 : 0);
    }
    coordcheck_free(&k);
    for (int64_t i = 0; i < count; i++)
        free(checks[i].coords);
    free(checks);
}
