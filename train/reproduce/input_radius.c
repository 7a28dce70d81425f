/* Figure "Coordinate check at initialization": the first layer's preactivations under two scales of its norm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "report/report.h"
#include "reproduce/reproduce.h"
#include "run/run_dir.h"
#include "tune/coordcheck.h"
#include "sweep/grid.h"

/* The first layer of a group, at the start. */
static double first_slope(const coordcheck *k, const char *scale)
{
    for (int64_t i = 0; i < k->count; i++)
        if (strcmp(k->groups[i].c.optimizer.input_scale, scale) == 0)
            return coordcheck_slope(&k->groups[i], 0, 0);
    return NAN;
}

static scion_status measure(const grid *g, coordcheck_run *runs, ledger *l, bool (*show)(double share),
                            scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < g->count; i++) {
        ledger_run row = {.kind = LEDGER_COORD, .state = LEDGER_DONE, .c = g->points[i]};
        status = coordcheck_measure(&runs[i], &g->points[i], 0, NULL, NULL, err);
        row.result.loss = row.result.val_loss = row.result.accuracy = NAN;
        if (status == SCION_OK)
            status = ledger_put_coords(l, &row, runs[i].coords, runs[i].count, err);
        if (status == SCION_OK && show && !show((double)(i + 1) / (double)g->count))
            status = train_fail(err, SCION_ESTOPPED, "stopped");
    }
    return status;
}

static void judge(const coordcheck *k, reproduce_judgement *j)
{
    const double plain = first_slope(k, "plain"), max = first_slope(k, "max");
    const bool grows = plain > coordcheck_flat, flat = fabs(max) <= coordcheck_flat;
    j->verdict = isnan(plain) || isnan(max) ? REPRODUCE_OPEN
                 : grows && flat            ? REPRODUCE_YES
                 : grows || flat            ? REPRODUCE_PARTLY
                                            : REPRODUCE_NO;
    snprintf(j->sentence, sizeof j->sentence,
             "the first layer's preactivations go as width^%.2f under sqrt(d_out/d_in), and as width^%.2f under "
             "max(1, sqrt(d_out/d_in))",
             plain, max);
}

scion_status reproduce_input_radius(const char *folder, bool full, const char *data, bool (*show)(double share),
                                    reproduce_judgement *j, scion_error *err)
{
    const char *pairs[] = {"input_scale=max,plain", full ? "width=16..2048:*2" : "width=16..512:*2", "seed=1..3",
                           "data_kind=synthetic"};
    char path[RUN_PATH], page[RUN_PATH], lead[1024];
    const char *source = path;
    coordcheck_run *runs = NULL;
    coordcheck k = {NULL, 0};
    ledger *l = NULL;
    grid g = {NULL, 0};
    config base;
    (void)data;
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    snprintf(page, sizeof page, "%s/report.html", folder);
    config_init(&base);
    scion_status status = config_preset(&base, "input-radius", err);
    if (status == SCION_OK)
        status = grid_make(&g, &base, pairs, 4, err);
    if (status == SCION_OK)
        status = ledger_open(&l, path, true, err);
    if (status == SCION_OK) {
        runs = calloc((size_t)g.count, sizeof *runs);
        status = runs ? measure(&g, runs, l, show, err) : train_fail(err, SCION_ENOMEM, "out of memory");
    }
    if (status == SCION_OK)
        status = coordcheck_make(&k, runs, g.count, err);
    if (status == SCION_OK) {
        const reproduce_figure *f = reproduce_find("input-radius");
        judge(&k, j);
        snprintf(lead, sizeof lead, "Claim: %s. Here: %s (%s).", f->claim, j->sentence,
                 reproduce_verdict_name(j->verdict));
        const report_options o = {.title = f->title, .lead = lead};
        status = report_write(&source, 1, page, &o, err);
    }
    for (int64_t i = 0; runs && i < g.count; i++)
        free(runs[i].coords);
    free(runs);
    coordcheck_free(&k);
    grid_free(&g);
    ledger_close(l);
    return status;
}
