/* The part of a report on run folders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"
#include "sweep/grid.h"

/* ---- One run ----------------------------------------------------------------------------------------------- */

static figure *loss_figure(const char *id, const run_data *run)
{
    figure *f = figure_create(id, "Loss", "Training loss of single steps, and the mean over the validation part.");
    if (!f)
        return NULL;
    figure_axes(f, "step", AXIS_LINEAR, "loss", AXIS_LINEAR);
    int s = figure_series(f, "training", FIGURE_LINE);
    for (int64_t i = 0; i < run->step_count; i++)
        figure_point(f, s, (double)run->steps[i].step, run->steps[i].loss);
    if (run->val_count > 0) {
        const double best = run_best(run);
        bool marked = false;
        s = figure_series(f, "validation", FIGURE_LINE);
        figure_mark_label(f, "lowest validation loss");
        for (int64_t i = 0; i < run->val_count; i++) {
            figure_point(f, s, (double)run->vals[i].step, run->vals[i].loss);
            if (!marked && run->vals[i].loss == best) {
                figure_mark(f, s);
                marked = true;
            }
        }
    }
    if (isfinite(run->baseline) && run->step_count > 0) {
        s = figure_series(f, "AdamW baseline, validation", FIGURE_BOUND);
        figure_point(f, s, (double)run->steps[0].step, run->baseline);
        figure_point(f, s, (double)run->steps[run->step_count - 1].step, run->baseline);
    }
    figure_auto_log(f);
    return f;
}

/* One number of every logged step. */
static figure *step_figure(const char *id, const char *title, const char *caption, const char *label,
                           const run_data *run, size_t offset, double factor)
{
    figure *f = figure_create(id, title, caption);
    if (!f)
        return NULL;
    figure_axes(f, "step", AXIS_LINEAR, label, AXIS_LINEAR);
    figure_include(f, 0);
    const int s = figure_series(f, label, FIGURE_LINE);
    for (int64_t i = 0; i < run->step_count; i++) {
        double value;
        memcpy(&value, (const char *)&run->steps[i] + offset, sizeof value);
        figure_point(f, s, (double)run->steps[i].step, factor * value);
    }
    return f;
}

static const char *samples(const run_data *run)
{
    return !run->configured ? "samples" : strcmp(run->c.model, "mlp") == 0 ? "images" : "tokens";
}

static bool shows_accuracy(const run_data *run)
{
    for (int64_t i = 0; i < run->val_count; i++)
        if (isfinite(run->vals[i].accuracy))
            return true;
    return false;
}

static figure *accuracy_figure(const char *id, const run_data *run)
{
    figure *f = figure_create(id, "Accuracy", "Share of the validation part whose likeliest prediction is right.");
    if (!f)
        return NULL;
    figure_axes(f, "step", AXIS_LINEAR, "accuracy, percent", AXIS_LINEAR);
    const int s = figure_series(f, "validation", FIGURE_LINE);
    for (int64_t i = 0; i < run->val_count; i++)
        figure_point(f, s, (double)run->vals[i].step, 100 * run->vals[i].accuracy);
    return f;
}

static void draw_run(page *p, const char *prefix, const run_data *run)
{
    char id[REPORT_ID], label[64];
    snprintf(id, sizeof id, "%sloss", prefix);
    page_figure(p, loss_figure(id, run));
    snprintf(id, sizeof id, "%saccuracy", prefix);
    if (shows_accuracy(run))
        page_figure(p, accuracy_figure(id, run));
    snprintf(id, sizeof id, "%slr", prefix);
    page_figure(p, step_figure(id, "Learning rate", "The step size, as the schedule gives it.", "learning rate", run,
                               offsetof(run_step, lr), 1));
    snprintf(id, sizeof id, "%snorms", prefix);
    report_norms(p, id, "Norms of the weights", run->norms, run->norm_count);
    snprintf(id, sizeof id, "%sspeed", prefix);
    snprintf(label, sizeof label, "%s per second", samples(run));
    page_figure(p, step_figure(id, "Speed", "Of the logged steps, without validation and saving.", label, run,
                               offsetof(run_step, rate), 1));
    snprintf(id, sizeof id, "%soptimizer", prefix);
    page_figure(p, step_figure(id, "Time in the optimizer",
                               "Share of a step; the rest is the forward and backward pass.", "percent of a step",
                               run, offsetof(run_step, share), 100));
}

static double mean_share(const run_data *run)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < run->step_count; i++)
        if (isfinite(run->steps[i].share)) {
            sum += run->steps[i].share;
            count++;
        }
    return count > 0 ? sum / (double)count : NAN;
}

static int64_t last_step(const run_data *run)
{
    const int64_t a = run->step_count > 0 ? run->steps[run->step_count - 1].step : 0;
    const int64_t b = run->val_count > 0 ? run->vals[run->val_count - 1].step : 0;
    return a > b ? a : b;
}

static void number_card(page *p, const char *label, double value, double factor, const char *unit, int digits)
{
    char number[MARKUP_NUMBER], text[2 * MARKUP_NUMBER];
    if (isnan(value))
        return;
    snprintf(text, sizeof text, "%s%s", markup_number(factor * value, digits, number), unit);
    page_card(p, label, text, NULL);
}

static void cards(page *p, const run_data *run)
{
    char text[MARKUP_NUMBER], note[96] = "", number[MARKUP_NUMBER];
    if (run->val_count > 0) {
        if (isfinite(run->baseline))
            snprintf(note, sizeof note, "AdamW: %s", markup_number(run->baseline, 5, number));
        page_card(p, "best validation loss", markup_number(run_best(run), 5, text), note);
    }
    number_card(p, "last training loss", run_last_loss(run), 1, "", 5);
    if (run->val_count > 0 && shows_accuracy(run))
        number_card(p, "accuracy", run->vals[run->val_count - 1].accuracy, 100, " %", 4);
    page_card(p, "steps", markup_count(last_step(run), text), run->ended ? NULL : "the run has not ended");
    if (run->parameters > 0)
        page_card(p, "parameters", markup_count(run->parameters, text), NULL);
    if (isfinite(run->seconds))
        page_card(p, "time", markup_duration(run->seconds, text), NULL);
    if (isfinite(run->rate)) {
        snprintf(note, sizeof note, "%s per second", samples(run));
        page_card(p, "speed", markup_count((long long)llround(run->rate), text), note);
    }
    number_card(p, "time in the optimizer", mean_share(run), 100, " %", 2);
    if (isfinite(run->peak_bytes))
        page_card(p, "memory at its peak", markup_bytes(run->peak_bytes, text), NULL);
}

static void one_run(page *p, const char *prefix, const run_data *run)
{
    cards(p, run);
    draw_run(p, prefix, run);
    if (run->configured)
        report_settings(p, &run->c);
}

/* ---- Several ----------------------------------------------------------------------------------------------- */

/* Options in which the runs differ, as "lr=2^-5 width=64". */
static void differences(const run_data *runs, int count, int which, char *text, size_t bytes)
{
    const config_option *o;
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        if (!runs[i].configured)
            return;
    for (int i = 0; (o = config_option_at(i)) != NULL && at < bytes; i++) {
        char value[CONFIG_TEXT];
        if (!grid_computes(o) || !grid_varies(&runs[0].c, sizeof *runs, count, o))
            continue;
        grid_pretty(&runs[which].c, o, value);
        snprintf(text + at, bytes - at, "%s%s=%.80s", at > 0 ? " " : "", o->key, value);
        at += strlen(text + at);
    }
}

static void run_table(page *p, const run_data *runs, int count)
{
    static const char *const names[] = {"run",  "best validation loss", "last training loss", "steps", "parameters",
                                        "time", "per second",           "differs in"};
    char a[MARKUP_NUMBER], text[512];
    page_table(p, NULL, 8, names, "lrrrrrrw");
    for (int i = 0; i < count; i++) {
        const run_data *r = &runs[i];
        page_cell(p, "%s%s", r->name, r->ended ? "" : " (not ended)");
        page_cell(p, "%s", markup_number(r->val_count > 0 ? run_best(r) : NAN, 5, a));
        page_cell(p, "%s", markup_number(run_last_loss(r), 5, a));
        page_cell(p, "%s", markup_count(last_step(r), a));
        page_cell(p, "%s", r->parameters > 0 ? markup_count(r->parameters, a) : "\u2013");
        page_cell(p, "%s", markup_duration(r->seconds, a));
        page_cell(p, "%s", isfinite(r->rate) ? markup_count((long long)llround(r->rate), a) : "\u2013");
        differences(runs, count, i, text, sizeof text);
        page_cell(p, "%s", text);
    }
    page_table_end(p);
}

static figure *compare(const run_data *runs, int count, bool validation)
{
    figure *f = figure_create(validation ? "compare-validation" : "compare-training",
                              validation ? "Validation losses" : "Training losses",
                              count > FIGURE_MAX_SERIES ? "The best twelve of the runs, best first."
                                                        : "One line for each run, best first.");
    if (!f)
        return NULL;
    figure_axes(f, "step", AXIS_LINEAR, validation ? "validation loss" : "training loss", AXIS_LINEAR);
    for (int i = 0; i < count && i < FIGURE_MAX_SERIES; i++) {
        const run_data *r = &runs[i];
        const int s = figure_series(f, r->name, FIGURE_LINE);
        for (int64_t k = 0; k < (validation ? r->val_count : r->step_count); k++)
            figure_point(f, s, (double)(validation ? r->vals[k].step : r->steps[k].step),
                         validation ? r->vals[k].loss : r->steps[k].loss);
    }
    figure_auto_log(f);
    return f;
}

void report_runs(page *p, const run_data *runs, int count)
{
    if (count == 1) {
        one_run(p, "", &runs[0]);
        return;
    }
    page_section(p, "Runs compared");
    run_table(p, runs, count);
    page_figure(p, compare(runs, count, true));
    page_figure(p, compare(runs, count, false));
    for (int i = 0; i < count; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "run%d-", i + 1);
        page_section(p, runs[i].name);
        one_run(p, prefix, &runs[i]);
    }
}
