/* Norms of weights against their bounds, for runs and for ledgers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"

typedef struct name_list {
    char names[FIGURE_MAX_SERIES + 1][64];
    int count; /* above FIGURE_MAX_SERIES: too many */
} name_list;

static void list_names(name_list *l, const run_norm *norms, int64_t count, bool fold)
{
    l->count = 0;
    for (int64_t i = 0; i < count && l->count <= FIGURE_MAX_SERIES; i++) {
        char name[64];
        int known = 0;
        report_fold_name(norms[i].name, fold, name);
        while (known < l->count && strcmp(l->names[known], name) != 0)
            known++;
        if (known == l->count)
            memcpy(l->names[l->count++], name, sizeof name);
    }
}

/* One series: at each step the largest value over the parameters of this name. */
static void draw_name(figure *f, const char *name, const run_norm *norms, int64_t count, bool fold, bool ratios)
{
    const int s = figure_series(f, name, FIGURE_LINE);
    double largest = NAN;
    for (int64_t i = 0; i < count; i++) {
        char folded[64];
        report_fold_name(norms[i].name, fold, folded);
        if (strcmp(folded, name) == 0) {
            const double bound = isfinite(norms[i].bound) && norms[i].bound > 0 ? norms[i].bound : NAN;
            largest = fmax(largest, ratios ? norms[i].norm / bound : norms[i].norm);
        }
        if (i + 1 == count || norms[i + 1].step != norms[i].step) {
            figure_point(f, s, (double)norms[i].step, largest);
            largest = NAN;
        }
    }
}

void report_norms(page *p, const char *id, const char *title, const run_norm *norms, int64_t count, int64_t last)
{
    name_list l;
    bool ratios = false, fold = false;
    for (int64_t i = 0; i < count; i++)
        ratios = ratios || (isfinite(norms[i].bound) && norms[i].bound > 0);
    list_names(&l, norms, count, false);
    if (l.count > FIGURE_MAX_SERIES) {
        fold = true;
        list_names(&l, norms, count, true);
    }
    if (count == 0)
        return;
    char caption[400];
    snprintf(caption, sizeof caption, "%s%s",
             ratios ? "Norm of each weight over the bound that its rule promises, the dashed line at 1. Five "
                      "Newton-Schulz steps leave singular values between about 0.68 and 1.20 instead of 1, so a "
                      "spectral bound holds up to that factor."
                    : "Norm of each weight; the rule promises no bound.",
             fold ? " A name with N is the maximum over all layers." : "");
    figure f = figure_make(id, title, caption);
    figure_axes(&f, "step", AXIS_LINEAR, ratios ? "norm / bound" : "norm", AXIS_LINEAR);
    for (int i = 0; i < l.count && i < FIGURE_MAX_SERIES; i++)
        draw_name(&f, l.names[i], norms, count, fold, ratios);
    if (ratios) {
        const int s = figure_series(&f, "bound", FIGURE_BOUND);
        figure_point(&f, s, 0, 1);
        figure_point(&f, s, (double)last, 1);
        f.include = 0;
    }
    f.first = 0;
    f.last = (double)last;
    page_figure(p, f);
}
