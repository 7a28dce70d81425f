/* scion coordcheck: the size of every layer against the width. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"
#include "config/config_parts.h"
#include "base/fail.h"
#include "base/number.h"
#include "tune/coordcheck.h"
#include "sweep/grid.h"
#include "base/clock.h"

enum { steps_default = 4, steps_most = 1000 };
enum { FLAG_STEPS, FLAG_JSON, FLAG_LEDGER, FLAGS };

/* Steps of a run that names none: the schedule shall not end inside the check. */
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
        cli_progress_show(&k->progress, keep, "run %lld/%lld  width %lld  seed %llu  step %lld/%lld",
                          (long long)k->done + 1, (long long)k->g.count, (long long)config_int(c, "width"),
                          (unsigned long long)c->training.seed, (long long)step, (long long)k->steps);
    if (keep)
        k->shown = clock_now();
    return !cli_interrupted();
}

static scion_status store(check *k, const coordcheck_run *r, scion_error *err)
{
    ledger_run row = {.kind = LEDGER_COORD, .state = LEDGER_DONE, .c = r->c};
    row.result = (ledger_result){.step = k->steps,
                                 .steps = k->steps,
                                 .seconds = NAN,
                                 .loss = NAN,
                                 .val_loss = NAN,
                                 .accuracy = NAN,
                                 .samples_per_s = NAN,
                                 .forward_s = NAN,
                                 .backward_s = NAN,
                                 .optimizer_s = NAN,
                                 .state_bytes = NAN,
                                 .peak_bytes = NAN};
    return k->l ? ledger_put_coords(k->l, &row, r->coords, r->count, err) : SCION_OK;
}

/* One run after the other: the memory of one trainer. */
static scion_status measure(check *k, scion_error *err)
{
    scion_status status = SCION_OK;
    k->progress = cli_progress_start();
    k->shown = clock_now();
    for (; status == SCION_OK && k->done < k->g.count; k->done += status == SCION_OK) {
        coordcheck_run *r = &k->runs[k->done];
        status = coordcheck_measure(r, &k->g.points[k->done], k->steps, beat, k, err);
        if (status == SCION_OK)
            status = store(k, r, err);
    }
    cli_progress_clear(&k->progress);
    return status == SCION_OK ? coordcheck_make(&k->result, k->runs, k->g.count, err) : status;
}

/* ---- Showing --------------------------------------------------------------------------------------------- */

static void print_row(const coordcheck_group *g, int64_t layer, int64_t step)
{
    const double slope = coordcheck_slope(g, layer, step);
    char when[32] = "start";
    if (step > 0)
        snprintf(when, sizeof when, "step %lld", (long long)step);
    printf("%-22s %-9s", step == 0 ? g->names[layer] : "", when);
    for (int64_t w = 0; w < g->width_count; w++)
        printf(" %9.4g", coordcheck_rms(g, layer, step, w));
    if (isnan(slope))
        printf(" %7s  zero\n", "-");
    else
        printf(" %+7.2f  %s\n", fabs(slope) < 0.005 ? 0 : slope, coordcheck_verdict_name(coordcheck_judge(slope)));
}

static void print_group(const coordcheck_group *g)
{
    char sentence[256];
    if (g->label[0])
        printf("%s\n", g->label);
    printf("%-22s %-9s", "RMS of layer", "at width");
    for (int64_t w = 0; w < g->width_count; w++)
        printf(" %9lld", (long long)g->widths[w]);
    printf(" %7s\n", "slope");
    for (int64_t i = 0; i < g->layer_count; i++) {
        print_row(g, i, 0);
        if (g->steps > 0)
            print_row(g, i, g->steps);
    }
    coordcheck_sentence(g, sentence);
    printf("%s\n\n", sentence);
}

static json_t *layer_json(const coordcheck_group *g, int64_t layer)
{
    json_t *rms = json_array(), *slopes = json_array();
    for (int64_t step = 0; step <= g->steps; step++) {
        json_t *row = json_array();
        for (int64_t w = 0; w < g->width_count; w++)
            json_array_append_new(row, json_number(coordcheck_rms(g, layer, step, w)));
        json_array_append_new(rms, row);
        json_array_append_new(slopes, json_number(coordcheck_slope(g, layer, step)));
    }
    const coordcheck_verdict v = coordcheck_judge(coordcheck_slope(g, layer, g->steps));
    return json_pack("{s:s, s:o, s:o, s:s}", "name", g->names[layer], "rms", rms, "slope", slopes, "verdict",
                     coordcheck_verdict_name(v));
}

static json_t *group_json(const coordcheck_group *g)
{
    char sentence[256], *text = config_to_json(&g->c);
    json_t *widths = json_array(), *layers = json_array();
    for (int64_t w = 0; w < g->width_count; w++)
        json_array_append_new(widths, json_integer((json_int_t)g->widths[w]));
    for (int64_t i = 0; i < g->layer_count; i++)
        json_array_append_new(layers, layer_json(g, i));
    coordcheck_sentence(g, sentence);
    const int64_t worst = coordcheck_worst(g, g->steps);
    json_t *out =
        json_pack("{s:s, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:o*}", "label", g->label, "steps", (json_int_t)g->steps,
                  "seeds", (json_int_t)g->seeds, "widths", widths, "layers", layers, "verdict",
                  coordcheck_verdict_name(coordcheck_judge(coordcheck_slope(g, worst, g->steps))), "worst",
                  g->names[worst], "sentence", sentence, "config", text ? json_loads(text, 0, NULL) : NULL);
    free(text);
    return out;
}

static int write_json(const coordcheck *k, const char *path)
{
    json_t *out = json_array();
    for (int64_t i = 0; i < k->count; i++)
        json_array_append_new(out, group_json(&k->groups[i]));
    scion_error err;
    return json_save(out, JSON_INDENT(1) | JSON_REAL_PRECISION(9), path, &err) == SCION_OK
               ? CLI_OK
               : cli_error(CLI_FAILED, "%s", err.message);
}

/* ---- The command ----------------------------------------------------------------------------------------- */

static bool names_key(const cli_arguments *a, const char *key)
{
    const size_t length = strlen(key);
    for (int i = 0; i < a->pair_count; i++)
        if (strncmp(a->pairs[i], key, length) == 0 && a->pairs[i][length] == '=')
            return true;
    return false;
}

/* The points to measure. Wrong usage is told here, before anything is measured. */
static scion_status prepare(check *k, const cli_arguments *a, scion_error *err)
{
    config base;
    config_init(&base);
    scion_status status = a->word_count == 1 ? config_preset(&base, a->words[0], err) : SCION_OK;
    if (status != SCION_OK)
        return status;
    if (names_key(a, "data_kind") && !names_key(a, "data"))
        base.data.path[0] = '\0'; /* a preset's data are of its own kind */
    else if (!base.data.path[0] && !names_key(a, "data"))
        config_set(&base, "data_kind", "synthetic", "coordcheck", NULL);
    if (base.training.steps == 0 && base.training.epochs == 0)
        base.training.steps = run_steps;
    status = grid_make(&k->g, &base, a->pairs, a->pair_count, err);
    if (status != SCION_OK)
        return status;
    if (!grid_varies(k->g.points, sizeof *k->g.points, k->g.count, config_find("width")))
        return train_fail(err, SCION_EINVAL, "give two widths or more to compare, such as width=64,128,256");
    k->runs = calloc((size_t)k->g.count, sizeof *k->runs);
    return k->runs ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)k->g.count);
}

static bool read_steps(const char *text, int64_t *steps)
{
    *steps = steps_default;
    if (!text || (number_int(text, steps) && *steps >= 0 && *steps <= steps_most))
        return true;
    cli_error(CLI_USAGE, "--steps: \"%s\", expected a whole number from 0 to %d", text, steps_most);
    return false;
}

static void show(const check *k)
{
    const config *c = &k->g.points[0];
    const coordcheck_group *g = &k->result.groups[0];
    printf("data: %s; batch 0 of the training part, mean over %lld seed%s; slopes up to %g count as flat\n\n",
           c->data.path[0] ? c->data.path : "synthetic", (long long)g->seeds, g->seeds == 1 ? "" : "s",
           coordcheck_flat);
    for (int64_t i = 0; i < k->result.count; i++)
        print_group(&k->result.groups[i]);
}

static int run_coordcheck(int argc, char **argv)
{
    static const char *const flags[] = {
        [FLAG_STEPS] = "--steps=", [FLAG_JSON] = "--json=", [FLAG_LEDGER] = "--ledger=", [FLAGS] = NULL};
    cli_arguments a;
    check k = {.runs = NULL};
    scion_error err;
    int status = CLI_USAGE;
    if (!cli_parse(&a, argc, argv, flags) || !read_steps(a.values[FLAG_STEPS], &k.steps))
        goto done;
    if (a.word_count > 1) {
        cli_error(CLI_USAGE, "one preset at most, then key=value: %s", a.words[1]);
        goto done;
    }
    if (prepare(&k, &a, &err) != SCION_OK)
        goto wrong;
    status = CLI_FAILED;
    cli_catch_signals();
    if (a.values[FLAG_LEDGER] && ledger_open(&k.l, a.values[FLAG_LEDGER], true, &err) != SCION_OK)
        goto wrong;
    if (measure(&k, &err) != SCION_OK)
        goto wrong;
    show(&k);
    status = a.values[FLAG_JSON] ? write_json(&k.result, a.values[FLAG_JSON]) : CLI_OK;
    goto done;
wrong:
    cli_error(status, "%s", err.message);
done:
    for (int64_t i = 0; k.runs && i < k.g.count; i++)
        free(k.runs[i].coords);
    free(k.runs);
    grid_free(&k.g);
    coordcheck_free(&k.result);
    ledger_close(k.l);
    cli_parse_free(&a);
    return status;
}

const cli_command cli_coordcheck = {
    "coordcheck",
    "[PRESET] width=64,128,256 [key=value ...] [--steps N] [--json FILE] [--ledger FILE]",
    "check that layers keep their size as the width grows",
    "Measures the RMS of every layer's result on one batch, at the start and after each of the first N\n"
    "steps (4), for every width, and fits rms = width^slope. Slopes near 0 mean that what was tuned on a\n"
    "narrow model fits a wide one. Every key may be a list or a range: seeds are averaged, each other\n"
    "combination is a check of its own. Made-up data are taken unless data= is given. Logits are measured\n"
    "on a sample of rows; at the start they shrink as width^-0.5, which the verdict forgives. --ledger\n"
    "keeps the numbers for scion report.\n\n"
    "  scion coordcheck shallow-gpt width=64,128,256 block=64 batch=8\n"
    "  scion coordcheck mlp width=64..512:*2 rule=scion,adamw seed=1..3 --ledger check.db\n"
    "  scion coordcheck input-radius width=16..512:*2 --steps 0\n",
    run_coordcheck,
};
