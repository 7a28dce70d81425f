/* scion coordcheck: the size of each layer against the width. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "cli.h"
#include "config/config.h"
#include "util/fail.h"
#include "tune/coordcheck.h"
#include "sweep/grid.h"
#include "util/clock.h"

enum { default_steps = 4, max_steps = 1000 };

/* Steps of the run if none are given, so that the schedule does not end within the check. */
enum { run_steps = 1000 };

/* Seconds between lines where there is no terminal. */
static const double quiet_s = 2;

typedef struct check {
    grid g;
    int64_t steps;
    coordcheck_run *runs;
    int64_t done; /* runs */
    coordcheck result;
    ledger *l; /* NULL: none */
    cli_progress progress;
    double shown; /* clock */
} check;

/* ---- Measuring ------------------------------------------------------------------------------------------- */

static bool beat(void *context, int64_t step)
{
    check *k = context;
    const config *c = &k->g.points[k->done];
    const bool keep = !k->progress.live && clock_now() - k->shown >= quiet_s;
    if (k->progress.live || keep)
        cli_progress_show(&k->progress, keep ? CLI_PLAIN : CLI_STATUS,
                          "run %lld/%lld  width %lld  seed %llu  step %lld/%lld", (long long)k->done + 1,
                          (long long)k->g.count, (long long)config_int(c, "width"),
                          (unsigned long long)c->training.seed, (long long)step, (long long)k->steps);
    if (keep)
        k->shown = clock_now();
    return !cli_interrupted();
}

static scion_status store(check *k, const coordcheck_run *r, scion_error *err)
{
    ledger_run row = {.kind = LEDGER_COORD, .c = r->c, .result = run_result_empty()};
    row.result.step = row.result.steps = k->steps;
    return k->l ? ledger_put_coords(k->l, &row, r->coords, r->count, err) : SCION_OK;
}

/* One run after the other: the memory of one trainer. */
static scion_status measure(check *k, scion_error *err)
{
    scion_status status = SCION_OK;
    k->progress = cli_progress_start(stderr);
    k->shown = clock_now();
    for (; k->done < k->g.count; k->done++) {
        coordcheck_run *r = &k->runs[k->done];
        TRY(coordcheck_measure(r, &k->g.points[k->done], k->steps, beat, k, err));
        TRY(store(k, r, err));
    }
    TRY(coordcheck_make(&k->result, k->runs, k->g.count, err));
done:
    cli_progress_clear(&k->progress);
    return status;
}

/* ---- Showing --------------------------------------------------------------------------------------------- */

/* Widths that fit in a line: the first ones, and the last. */
static bool shows(const coordcheck_group *g, int64_t width)
{
    enum { max = 4 };
    return width < max - (g->width_count > max) || width == g->width_count - 1;
}

/* Prints a value in eight columns, the first a space. */
static void print_value(double value)
{
    if (value >= 1000 && value < 9999999)
        printf("%8.0f", value);
    else
        printf(value < 1e-4 || value >= 1000 ? "%8.1e" : "%8.3g", value);
}

/* Prints the values of a layer at all widths, and their slope. */
static void print_row(const coordcheck_group *g, coordcheck_kind kind, int64_t layer, int64_t step)
{
    const double slope = coordcheck_slope(g, kind, layer, step);
    char when[32] = "change";
    if (kind == COORDCHECK_RMS)
        snprintf(when, sizeof when, step > 0 ? "step %lld" : "start", (long long)step);
    printf("%-18s %-8s", step == 0 ? g->names[layer] : "", when);
    for (int64_t w = 0; w < g->width_count; w++)
        if (shows(g, w))
            print_value(coordcheck_value(g, kind, layer, step, w));
    if (isnan(slope))
        printf(" %6s  zero\n", "-");
    else
        printf(" %+6.2f  %s\n", fabs(slope) < 0.005 ? 0 : slope, coordcheck_verdict_name(coordcheck_judge(slope)));
}

static void print_group(const coordcheck_group *g)
{
    char sentence[256];
    if (g->label[0])
        printf("%s\n", g->label);
    printf("%-18s %-8s", "RMS of layer", "at width");
    for (int64_t w = 0; w < g->width_count; w++)
        if (shows(g, w))
            printf(w > 0 && !shows(g, w - 1) ? " ..%5lld" : "%8lld", (long long)g->widths[w]);
    printf(" %6s\n", "slope");
    for (int64_t i = 0; i < g->layer_count; i++) {
        print_row(g, COORDCHECK_RMS, i, 0);
        if (g->steps > 0)
            print_row(g, COORDCHECK_RMS, i, g->steps);
        if (coordcheck_has_changes(g))
            print_row(g, COORDCHECK_CHANGE, i, 1);
    }
    coordcheck_sentence(g, sentence);
    cli_fill(stdout, 0, "%s", sentence);
    coordcheck_change_sentence(g, sentence);
    if (sentence[0])
        cli_fill(stdout, 0, "%s", sentence);
    putchar('\n');
}

/* ---- The command ----------------------------------------------------------------------------------------- */

/* The points to measure. Reports wrong usage before anything is measured. */
static scion_status prepare(check *k, const cli_arguments *a, scion_error *err)
{
    config base;
    scion_status status;
    config_init(&base);
    if (a->words[0])
        TRY(config_preset(&base, a->words[0], err));
    if (cli_option(a, "data_kind") && !cli_option(a, "data"))
        base.data.path[0] = '\0'; /* the preset's data may be of another kind */
    else if (!base.data.path[0] && !cli_option(a, "data"))
        config_set(&base, "data_kind", "synthetic", "coordcheck", NULL);
    if (base.training.steps == 0 && base.training.epochs == 0)
        base.training.steps = run_steps;
    TRY(grid_make(&k->g, &base, a->pairs, a->pair_count, err));
    if (!grid_varies(k->g.points, sizeof *k->g.points, k->g.count, config_find("width")))
        return train_fail(err, SCION_EINVAL, "give two widths or more to compare, such as width=64,128,256");
    k->runs = calloc((size_t)k->g.count, sizeof *k->runs);
    if (!k->runs)
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)k->g.count);
done:
    return status;
}

static void show(const check *k)
{
    const config *c = &k->g.points[0];
    const coordcheck_group *g = &k->result.groups[0];
    cli_fill(stdout, 6,
             "data: %s; batch 0 of the training part, mean over %lld seed%s; slopes up to %g count as flat; "
             "change: RMS change of the layer's output in the first step",
             c->data.path[0] ? c->data.path : "synthetic", (long long)g->seeds, cli_plural(g->seeds),
             coordcheck_flat);
    putchar('\n');
    for (int64_t i = 0; i < k->result.count; i++)
        print_group(&k->result.groups[i]);
}

enum { AFTER, JSON, LEDGER };

static const cli_argument arguments[] = {
    [AFTER] = CLI_SETTING("after", "N", "measure after each of the first N steps (4)"),
    [JSON] = CLI_JSON,
    [LEDGER] = CLI_SETTING("ledger", "FILE", "store the numbers for scion report"),
    {0},
};

static int run_coordcheck(cli_arguments *a)
{
    check k = {.steps = default_steps};
    const char *json = a->values[JSON], *path = a->values[LEDGER];
    scion_error err;
    scion_status status;
    int failed = CLI_USAGE; /* exit status */
    if (!cli_get_int(a, AFTER, 0, max_steps, &k.steps) || !cli_words(a, 1, "one preset at most, then key=value"))
        return CLI_USAGE;
    TRY(prepare(&k, a, &err));
    failed = CLI_FAILED;
    cli_catch_signals();
    cli_outlive_reader();
    if (path)
        TRY(ledger_open(&k.l, path, true, &err));
    if (path && json && file_same(path, json)) {
        failed = CLI_USAGE;
        TRY(train_fail(&err, SCION_EINVAL, "json=%s: this is the ledger itself; give another file", json));
    }
    status = measure(&k, &err);
    if (status == SCION_ESTOPPED && cli_interrupted())
        failed = cli_stopped();
    TRY(status);
    if (!cli_json_only(a, JSON))
        show(&k);
    if (json)
        TRY(coordcheck_save(&k.result, json, &err));
done:
    for (int64_t i = 0; k.runs && i < k.g.count; i++)
        free(k.runs[i].coords);
    free(k.runs);
    grid_free(&k.g);
    coordcheck_free(&k.result);
    ledger_close(k.l);
    return status == SCION_OK ? CLI_OK : cli_error(failed, "%s", err.message);
}

const cli_command cli_coordcheck = {
    .name = "coordcheck",
    .usage = "[PRESET] width=64,128,256 [key=value ...]",
    .summary = "check that layers keep their size as the width grows",
    .help = "Measures the RMS of each layer's output on one batch, at the start and after each of the first N "
            "steps, and of what the first step changes in it, for every width, and fits rms = width^slope. "
            "Slopes near 0 mean that values tuned on a narrow model fit a wide one. Every setting may be a list "
            "or a range: seeds are averaged, each other combination is a check of its own. Uses synthetic data "
            "unless data= is given. Logits are measured on a sample of rows; at the start they shrink as "
            "width^-0.5, which the verdict ignores.\n\n"
            "  scion coordcheck shallow-gpt width=64,128,256 block=64 batch=8\n"
            "  scion coordcheck mlp width=64..512:*2 rule=scion,adamw ledger=check.db\n"
            "  scion coordcheck input-radius width=16..512:*2 after=0\n",
    .run = run_coordcheck,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
};
