/* Figure "Coordinate check at initialization": the first layer's preactivations under two scales of its norm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "reproduce/reproduce.h"
#include "record/run_dir.h"
#include "tune/coordcheck.h"
#include "sweep/grid.h"

/* Slope of the first layer at the start, of the runs with one seed. */
static scion_status first_slope(const coordcheck_run *runs, int64_t count, uint64_t seed, int scale, double *slope,
                                scion_error *err)
{
    coordcheck_run *some = calloc((size_t)count, sizeof *some);
    coordcheck k = {NULL, 0};
    int64_t found = 0;
    for (int64_t i = 0; some && i < count; i++)
        if (runs[i].c.training.seed == seed && runs[i].c.optimizer.input_scale == scale)
            some[found++] = runs[i];
    scion_status status =
        some ? coordcheck_make(&k, some, found, err) : train_fail(err, SCION_ENOMEM, "out of memory");
    *slope = status == SCION_OK && k.count > 0 ? coordcheck_slope(&k.groups[0], COORDCHECK_RMS, 0, 0) : NAN;
    coordcheck_free(&k);
    free(some);
    return status;
}

static scion_status measure(const grid *g, coordcheck_run *runs, ledger *l, bool (*show)(double share),
                            scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; i < g->count; i++) {
        const ledger_run row = {.kind = LEDGER_COORD, .c = g->points[i], .result = run_result_empty()};
        TRY(coordcheck_measure(&runs[i], &g->points[i], 0, NULL, NULL, err));
        TRY(ledger_put_coords(l, &row, runs[i].coords, runs[i].count, err));
        if (show && !show((double)(i + 1) / (double)g->count))
            TRY(train_fail(err, SCION_ESTOPPED, "stopped"));
    }
done:
    return status;
}

/* One half of the claim. */
static scion_status judge_scale(const coordcheck_run *runs, int64_t count, int64_t seeds, bool plain,
                                reproduce_judgement *j, scion_error *err)
{
    stat_sample slopes = {0};
    for (int64_t s = 0; s < seeds; s++) {
        double slope;
        const uint64_t seed = runs[0].c.training.seed + (uint64_t)s;
        const scion_status status =
            first_slope(runs, count, seed, plain ? INPUT_SCALE_PLAIN : INPUT_SCALE_MAX, &slope, err);
        if (status != SCION_OK)
            return status;
        stat_add(&slopes, slope);
    }
    const stat_estimate e = stat_mean(&slopes);
    const stat_finding flat = stat_within(e, -coordcheck_flat, coordcheck_flat);
    const stat_finding grows = stat_within(e, coordcheck_flat, INFINITY);
    reproduce_part *p = reproduce_add(j, plain ? grows : flat, "under %s preactivations %s",
                                      plain ? "sqrt(d_out/d_in)" : "max(1, sqrt(d_out/d_in))",
                                      plain ? "grow with the width" : "are constant");
    if (isfinite(e.error))
        snprintf(p->evidence, sizeof p->evidence, "the first layer's go as width^(%.3f +- %.3f)", e.value, e.error);
    else
        snprintf(p->evidence, sizeof p->evidence, "the first layer's go as width^%.3f (one seed)", e.value);
    return SCION_OK;
}

scion_status reproduce_input_radius(const reproduce_figure *f, const reproduce_order *o, reproduce_judgement *j,
                                    scion_error *err)
{
    char path[RUN_PATH], html[RUN_PATH], seeds[64];
    const char *pairs[] = {"input_scale=max,plain", o->full ? "width=16..2048:*2" : "width=16..512:*2", seeds,
                           "data_kind=synthetic"};
    coordcheck_run *runs = NULL;
    ledger *l = NULL;
    grid g = {NULL, 0};
    config base;
    snprintf(path, sizeof path, "%s/ledger.db", o->folder);
    snprintf(html, sizeof html, "%s/report.html", o->folder);
    config_init(&base);
    scion_status status;
    *j = (reproduce_judgement){.count = 0};
    snprintf(j->margin, sizeof j->margin,
             "exponents up to %g count as constant; +- is half of a 95%% interval over %lld seeds", coordcheck_flat,
             (long long)o->seeds);
    TRY(config_preset(&base, "input-radius", err));
    snprintf(seeds, sizeof seeds, "seed=%llu..%llu", (unsigned long long)base.training.seed,
             (unsigned long long)base.training.seed + (unsigned long long)o->seeds - 1);
    TRY(grid_make(&g, &base, pairs, 4, err));
    TRY(ledger_open(&l, path, true, err));
    runs = calloc((size_t)g.count, sizeof *runs);
    TRY(runs ? measure(&g, runs, l, o->show, err) : train_fail(err, SCION_ENOMEM, "out of memory"));
    for (int plain = 1; plain >= 0; plain--)
        TRY(judge_scale(runs, g.count, o->seeds, plain, j, err));
    status = reproduce_page(f, o->full, j, path, html, err);
done:
    for (int64_t i = 0; runs && i < g.count; i++)
        free(runs[i].coords);
    free(runs);
    grid_free(&g);
    ledger_close(l);
    return status;
}
