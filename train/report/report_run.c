/* The part of a report on run folders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "report/section.h"
#include "sweep/grid.h"
#include "util/number.h"

/* ---- One run ----------------------------------------------------------------------------------------------- */

double report_at(const run_point *p, report_clock clock)
{
    return clock == REPORT_STEPS ? (double)p->step : clock == REPORT_TIME ? p->elapsed / 60 : p->samples;
}

double report_end(const run_curves *c, report_clock clock)
{
    double end = clock == REPORT_STEPS ? (double)report_last_step(c) : 0;
    for (int64_t i = 0; i < c->point_count; i++)
        end = fmax(end, report_at(&c->points[i], clock));
    return end;
}

/* A field of a point (offsetof(run_point, ...)). */
static double field_of(const run_point *p, size_t field)
{
    double value;
    memcpy(&value, (const char *)p + field, sizeof value);
    return value;
}

/* Adds the points of a curve to a series. */
static void add_points(figure *f, int s, const run_curves *c, report_clock clock, size_t field, double factor,
                       double mark)
{
    bool marked = false;
    for (int64_t i = 0; i < c->point_count; i++) {
        const double value = field_of(&c->points[i], field);
        if (isnan(value) || isnan(report_at(&c->points[i], clock)))
            continue;
        figure_point(f, s, report_at(&c->points[i], clock), factor * value);
        if (!marked && value == mark)
            figure_mark(f, s);
        marked = marked || value == mark;
    }
}

int report_curve(figure *f, const char *name, const run_curves *c, report_clock clock, size_t field, double factor,
                 double mark)
{
    const int s = figure_series(f, name, FIGURE_LINE);
    add_points(f, s, c, clock, field, factor, mark);
    return s;
}

/* A curve of so many points or more is smoothed, over this part of its points on either side. */
enum { smooth_from = 40, smooth_part = 50 };

/* The mean of the finite values within `half` points of the one at `at`. */
static double mean_around(const figure_value *values, int64_t count, int64_t at, int64_t half)
{
    const int64_t reach = scn_min(half, scn_min(at, count - 1 - at));
    double sum = 0;
    int64_t known = 0;
    for (int64_t i = at - reach; i <= at + reach; i++)
        if (isfinite(values[i].y)) {
            sum += values[i].y;
            known++;
        }
    return isfinite(values[at].y) ? sum / (double)known : values[at].y;
}

void report_training(figure *f, const char *name, const run_curves *c, report_clock clock, size_t field)
{
    char single[SECTION_LABEL + 16];
    const int mean = report_curve(f, name, c, clock, field, 1, NAN);
    if (f->failed || f->lines[mean].count < smooth_from)
        return;
    snprintf(single, sizeof single, "%s, single steps", name);
    const int raw = figure_series(f, single, FIGURE_FAINT);
    add_points(f, raw, c, clock, field, 1, NAN);
    const int64_t count = f->lines[mean].count;
    for (int64_t i = 0; !f->failed && i < count; i++)
        f->lines[mean].values[i].y = mean_around(f->lines[raw].values, count, i, count / smooth_part + 1);
}

/* Lets the first steps of the curves leave the figure at its upper edge if they would flatten the rest. */
static void limit_curves(figure *f)
{
    static const double early = 0.1, flattened = 1.6, margin = 0.1;
    double end = 0, low = INFINITY, high = -INFINITY, all = -INFINITY;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            end = fmax(end, f->lines[i].values[k].x);
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_value *p = &f->lines[i].values[k];
            if (!isfinite(p->y))
                continue;
            all = fmax(all, p->y);
            low = fmin(low, p->y);
            high = p->x > early * end ? fmax(high, p->y) : high;
        }
    f->cropped = f->y_scale == AXIS_LINEAR && high > low && all > low + flattened * (high - low);
    if (f->cropped)
        f->limit = high + margin * (high - low);
}

int64_t report_last_step(const run_curves *c)
{
    int64_t last = 0;
    for (int64_t i = 0; i < c->point_count; i++)
        last = c->points[i].step > last ? c->points[i].step : last;
    for (int64_t i = 0; i < c->norm_count; i++)
        last = c->norms[i].step > last ? c->norms[i].step : last;
    return last;
}

static const char *samples(const run_record *run)
{
    return run->configured ? config_unit(&run->c) : "samples";
}

/* Names of figures against a clock: the end of their id and of their title, and the axis. */
static const struct {
    const char *id, *title, *axis;
} clocks[] = {
    [REPORT_STEPS] = {"", "", "step"},
    [REPORT_TIME] = {"-time", " against time", "minutes"},
    [REPORT_SAMPLES] = {"-samples", " against ", NULL}, /* the unit */
};

figure report_losses(const char *id, const char *title, const char *caption, const char *label, report_clock clock,
                     const char *unit)
{
    char full[REPORT_ID], heading[128];
    snprintf(full, sizeof full, "%s%s", id, clocks[clock].id);
    snprintf(heading, sizeof heading, "%.60s%s%.30s", title, clocks[clock].title, clocks[clock].axis ? "" : unit);
    figure f = figure_make(full, heading, caption);
    figure_axes(&f, clocks[clock].axis ? clocks[clock].axis : unit, AXIS_LINEAR, label, AXIS_LINEAR);
    return f;
}

/* Lets the x axis go from 0 to `end`, time in a unit of which a reader can count a few. */
static void end_axis(figure *f, report_clock clock, double end)
{
    static const struct {
        double below, factor; /* minutes */
        const char *name;
    } units[] = {{2, 60, "seconds"}, {120, 1, "minutes"}, {INFINITY, 1.0 / 60, "hours"}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && end >= units[i].below)
        i++;
    const double factor = clock == REPORT_TIME ? units[i].factor : 1;
    if (factor != 1)
        figure_x_unit(f, factor, units[i].name);
    f->first = 0;
    f->last = factor * end;
}

void report_losses_end(figure *f, report_clock clock, double end)
{
    figure_auto_log(f);
    limit_curves(f);
    end_axis(f, clock, end);
}

/* A loss in one of its units. */
typedef struct loss_unit {
    const char *id, *title, *caption, *label, *mark;
    size_t training, validation; /* fields of the points */
} loss_unit;

static const loss_unit in_nats = {"loss",
                                  "Loss",
                                  "Training loss, and the mean over the validation part.",
                                  "loss",
                                  "lowest validation loss",
                                  offsetof(run_point, loss),
                                  offsetof(run_point, val_loss)};
static const loss_unit in_bits = {"bits",
                                  "Bits per byte",
                                  "The loss in bits, divided by the bytes of the raw text: comparable with models "
                                  "that have other tokens.",
                                  "bits per byte",
                                  "fewest in validation",
                                  offsetof(run_point, bits_per_byte),
                                  offsetof(run_point, val_bits_per_byte)};

/* The lowest value of a field of the points; NAN: none. */
static double lowest(const run_record *run, size_t field)
{
    double best = NAN;
    for (int64_t i = 0; i < run->curves.point_count; i++)
        best = fmin(best, field_of(&run->curves.points[i], field));
    return best;
}

static figure loss_figure(const char *prefix, const loss_unit *u, const run_record *run, report_clock clock)
{
    const run_curves *c = &run->curves;
    char id[REPORT_ID];
    snprintf(id, sizeof id, "%s%s", prefix, u->id);
    figure f = report_losses(id, u->title, u->caption, u->label, clock, samples(run));
    report_training(&f, "training", c, clock, u->training);
    if (run_record_last(run, true)) {
        figure_mark_label(&f, u->mark);
        report_curve(&f, "validation", c, clock, u->validation, 1, lowest(run, u->validation));
    }
    report_losses_end(&f, clock, report_end(c, clock));
    return f;
}

/* A figure of one metric at every logged step or validation. */
static figure metric_figure(const char *prefix, const run_record *run, const run_metric *m, const char *caption)
{
    const bool of_samples = strncmp(m->label, "samples ", 8) == 0;
    char id[REPORT_ID], label[64];
    snprintf(id, sizeof id, "%s%s", prefix, m->figure);
    snprintf(label, sizeof label, "%s%s", of_samples ? samples(run) : "", m->label + (of_samples ? 7 : 0));
    figure f = figure_make(id, m->title, caption);
    figure_axes(&f, "step", AXIS_LINEAR, label, AXIS_LINEAR);
    report_curve(&f, label, &run->curves, REPORT_STEPS, m->offset, m->factor > 0 ? m->factor : 1, NAN);
    f.first = 0;
    f.last = (double)report_last_step(&run->curves);
    return f;
}

/* True if a field of the points (offsetof(run_point, ...)) is known somewhere. */
static bool shows(const run_record *run, size_t field)
{
    for (int64_t i = 0; i < run->curves.point_count; i++)
        if (isfinite(field_of(&run->curves.points[i], field)))
            return true;
    return false;
}

/* True if test-time augmentation changed the accuracy at the end. */
static bool has_tta(const run_record *run)
{
    const run_result *r = &run->result;
    return run->configured && isfinite(r->plain_accuracy) && r->plain_accuracy != r->accuracy;
}

/* Accuracy and, where it is known, that of the five likeliest classes. Only the last point uses tta: the caption says
 * so. */
static figure accuracy_figure(const char *prefix, const run_record *run)
{
    static const run_metric accuracy = {.figure = "accuracy",
                                        .title = "Accuracy",
                                        .label = "accuracy, percent",
                                        .offset = offsetof(run_point, accuracy),
                                        .factor = 100};
    char caption[160];
    snprintf(caption, sizeof caption, "Share of the validation part whose likeliest prediction is right%s%.40s%s.",
             has_tta(run) ? "; at the end with tta=" : "", has_tta(run) ? run->c.run.tta : "",
             has_tta(run) ? ", on the way without" : "");
    figure f = metric_figure(prefix, run, &accuracy, caption);
    if (shows(run, offsetof(run_point, top5)))
        report_curve(&f, "class among the likeliest five", &run->curves, REPORT_STEPS, offsetof(run_point, top5), 100,
                     NAN);
    return f;
}

static void draw_run(page *p, const char *prefix, const run_record *run)
{
    char id[REPORT_ID];
    for (report_clock clock = REPORT_STEPS; clock <= REPORT_SAMPLES; clock++)
        if (report_end(&run->curves, clock) > 0)
            page_figure(p, loss_figure(prefix, &in_nats, run, clock));
    if (shows(run, in_bits.training) || shows(run, in_bits.validation))
        page_figure(p, loss_figure(prefix, &in_bits, run, REPORT_STEPS));
    if (shows(run, offsetof(run_point, accuracy)))
        page_figure(p, accuracy_figure(prefix, run));
    snprintf(id, sizeof id, "%snorms", prefix);
    report_norms(p, id, "Norms of the weights", run->curves.norms, run->curves.norm_count,
                 report_last_step(&run->curves));
    for (const run_metric *m = run_point_metrics; m->key; m++) {
        if (!m->figure)
            continue;
        figure f = metric_figure(prefix, run, m, m->caption);
        f.include = 0;
        page_figure(p, f);
    }
}

static double mean_share(const run_record *run)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < run->curves.point_count; i++)
        if (isfinite(run->curves.points[i].optimizer_share)) {
            sum += run->curves.points[i].optimizer_share;
            count++;
        }
    return count > 0 ? sum / (double)count : NAN;
}

static double last_loss(const run_record *run)
{
    const run_point *last = run_record_last(run, false);
    return last ? last->loss : NAN;
}

static void percent_card(page *p, const char *label, double share, int decimals, const char *note)
{
    char number[MARKUP_NUMBER], text[2 * MARKUP_NUMBER];
    if (isnan(share))
        return;
    snprintf(text, sizeof text, "%s %%", markup_fixed(100 * share, decimals, number));
    page_card(p, label, text, note);
}

static void accuracy_cards(page *p, const run_record *run, const run_point *val)
{
    char note[96] = "", number[MARKUP_NUMBER];
    if (has_tta(run))
        snprintf(note, sizeof note, "%s %% without tta", markup_fixed(100 * run->result.plain_accuracy, 2, number));
    percent_card(p, "accuracy", val->accuracy, 2, note);
    percent_card(p, "top-5 accuracy", val->top5, 2, NULL);
}

/* A card for each metric of the result that has a title. */
static void result_cards(page *p, const run_result *r)
{
    char text[MARKUP_NUMBER];
    for (const run_metric *m = run_result_metrics; m->key; m++) {
        const double value = m->title ? metric_value(m, r) : NAN;
        if (!isfinite(value) || (m->type == METRIC_INT && value == 0))
            continue;
        if (m->unit && strcmp(m->unit, "s") == 0)
            markup_duration(value, text);
        else if (m->unit && strcmp(m->unit, "bytes") == 0)
            markup_bytes(value, text);
        else if (m->type == METRIC_INT)
            markup_count(llround(value), text);
        else
            number_write(value, text);
        page_card(p, m->title, text, NULL);
    }
}

static void cards(page *p, const run_record *run)
{
    char text[MARKUP_NUMBER], note[96];
    const run_result *r = &run->result;
    const run_point *val = run_record_last(run, true);
    if (val)
        page_card(p, "best validation loss", markup_loss(run_record_best(run), text), NULL);
    if (shows(run, in_bits.validation))
        page_card(p, "bits per byte", markup_loss(lowest(run, in_bits.validation), text), "validation, lowest");
    if (!isnan(last_loss(run)))
        page_card(p, "last training loss", markup_loss(last_loss(run), text), NULL);
    if (val && shows(run, offsetof(run_point, accuracy)))
        accuracy_cards(p, run, val);
    page_card(p, "steps", markup_count(report_last_step(&run->curves), text),
              run->ended ? NULL : "the run has not ended");
    result_cards(p, r);
    if (isfinite(r->overall_samples_per_s)) {
        snprintf(note, sizeof note, "%s per second, validations included", samples(run));
        page_card(p, "speed", markup_count(llround(r->overall_samples_per_s), text), note);
    }
    percent_card(p, "time in the optimizer", mean_share(run), 0, NULL);
}

static void one_run(page *p, const char *prefix, const run_record *run)
{
    cards(p, run);
    draw_run(p, prefix, run);
    report_mistakes(p, prefix, run->wrong);
    if (run->wrong_damaged.message[0])
        page_paragraph(p, "Mistakes cannot be shown: %s.", run->wrong_damaged.message);
    if (run->configured)
        report_settings(p, &run->c);
}

/* ---- Several ----------------------------------------------------------------------------------------------- */

/* The accuracy of the last validation; NAN: none. */
static double last_accuracy(const run_record *run)
{
    const run_point *val = run_record_last(run, true);
    return val ? val->accuracy : NAN;
}

/* Orders two numbers; NAN comes last. */
static int ascending(double x, double y)
{
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static int by_loss(const void *a, const void *b)
{
    return ascending(run_record_best(a), run_record_best(b));
}

static int by_bits(const void *a, const void *b)
{
    return ascending(lowest(a, in_bits.validation), lowest(b, in_bits.validation));
}

static int by_accuracy(const void *a, const void *b)
{
    const int order = ascending(-last_accuracy(a), -last_accuracy(b));
    return order != 0 ? order : by_loss(a, b);
}

/* True if all runs have a field of the points (offsetof(run_point, ...)), or `any` of them. */
static bool all_show(const run_record *runs, int count, size_t field, bool any)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += shows(&runs[i], field);
    return any ? found > 0 : found == count;
}

static bool all_configured(const run_record *runs, int count)
{
    for (int i = 0; i < count; i++)
        if (!runs[i].configured)
            return false;
    return true;
}

/* Puts the runs in order, and says by which number. Losses with different label smoothing are not comparable; nor are
 * those of different tokens, but their bits per byte are. */
static void order_runs(page *p, run_record *runs, int count)
{
    const bool bits = all_show(runs, count, in_bits.validation, false);
    const bool accuracy = all_show(runs, count, offsetof(run_point, accuracy), false);
    const bool validated = all_show(runs, count, offsetof(run_point, val_loss), false);
    const bool smoothed =
        all_configured(runs, count) && grid_varies(&runs[0].c, sizeof *runs, count, config_find("smoothing"));
    qsort(runs, (size_t)count, sizeof *runs, bits ? by_bits : accuracy ? by_accuracy : by_loss);
    page_paragraph(p, "Best first, by %s.%s",
                   bits        ? "the fewest bits per byte in a validation"
                   : accuracy  ? "the accuracy at the end"
                   : validated ? "the lowest validation loss"
                               : "the lowest validation loss; by the last training loss without validation",
                   smoothed ? " The runs differ in label smoothing, which is part of a loss: their losses cannot be "
                              "compared."
                            : "");
}

/* Writes the options in which the runs differ, as "lr=2^-5 width=64": those that the model of this one has. */
static void differences(const run_record *runs, int count, int which, char *text, size_t bytes)
{
    enum { max_options = 32 };
    const config_option *o, *differing[max_options];
    int found = 0;
    text[0] = '\0';
    if (!all_configured(runs, count))
        return;
    for (int i = 0; found < max_options && (o = config_option_at(i)) != NULL; i++)
        if (grid_computes(o) && config_has(&runs[which].c, o) && grid_varies(&runs[0].c, sizeof *runs, count, o))
            differing[found++] = o;
    grid_label(&runs[which].c, differing, found, text, bytes);
}

static void run_table(page *p, const run_record *runs, int count)
{
    const bool accuracy = all_show(runs, count, offsetof(run_point, accuracy), true);
    const bool bits = all_show(runs, count, in_bits.validation, true);
    char a[MARKUP_NUMBER], text[512], heads[160], columns[16];
    snprintf(heads, sizeof heads,
             "run|%s%sbest validation loss|last training loss|steps|parameters|time|per second|differs in",
             bits ? "bits per byte|" : "", accuracy ? "accuracy|" : "");
    snprintf(columns, sizeof columns, "l%s%srrrrrrw", bits ? "r" : "", accuracy ? "r" : "");
    page_table(p, NULL, heads, columns);
    for (int i = 0; i < count; i++) {
        const run_record *r = &runs[i];
        page_cell(p, "%s%s", r->name, r->ended ? "" : " (not ended)");
        if (bits)
            page_cell(p, "%s", markup_loss(lowest(r, in_bits.validation), a));
        if (accuracy)
            page_cell(p, "%s%s", markup_fixed(100 * last_accuracy(r), 2, a), isnan(last_accuracy(r)) ? "" : " %");
        page_cell(p, "%s", markup_loss(run_record_last(r, true) ? run_record_best(r) : NAN, a));
        page_cell(p, "%s", markup_loss(last_loss(r), a));
        page_cell(p, "%s", markup_count(report_last_step(&r->curves), a));
        page_cell(p, "%s", r->result.parameters > 0 ? markup_count(r->result.parameters, a) : "\u2013");
        page_cell(p, "%s", markup_duration(r->result.seconds, a));
        page_cell(p, "%s",
                  isfinite(r->result.overall_samples_per_s)
                      ? markup_count(llround(r->result.overall_samples_per_s), a)
                      : "\u2013");
        differences(runs, count, i, text, sizeof text);
        page_cell(p, "%s", text);
    }
    page_table_end(p);
}

/* Figures that compare runs, one line each. */
static const struct {
    const char *id, *title, *label;
    size_t field;
    double factor;
} compared[] = {
    {"compare-bits", "Bits per byte", "bits per byte, validation", offsetof(run_point, val_bits_per_byte), 1},
    {"compare-accuracy", "Accuracies", "accuracy, percent", offsetof(run_point, accuracy), 100},
    {"compare-validation", "Validation losses", "validation loss", offsetof(run_point, val_loss), 1},
    {"compare-training", "Training losses", "training loss", offsetof(run_point, loss), 1},
};
enum { kinds = sizeof compared / sizeof *compared };

static figure compare(const run_record *runs, int count, int kind, report_clock clock)
{
    const size_t field = compared[kind].field;
    bool tta = false;
    char caption[160];
    double end = 0;
    for (int i = 0; i < count; i++)
        tta = tta || has_tta(&runs[i]);
    snprintf(caption, sizeof caption, "%s, best first.%s",
             count > FIGURE_MAX_SERIES ? "The best twelve of the runs" : "One line for each run",
             tta && field == offsetof(run_point, accuracy) ? " The last point of a run with tta is with it." : "");
    figure f = report_losses(compared[kind].id, compared[kind].title, caption, compared[kind].label, clock,
                             samples(&runs[0]));
    for (int i = 0; i < count && i < FIGURE_MAX_SERIES; i++) {
        if (field == offsetof(run_point, loss))
            report_training(&f, runs[i].name, &runs[i].curves, clock, field);
        else
            report_curve(&f, runs[i].name, &runs[i].curves, clock, field, compared[kind].factor, NAN);
        end = fmax(end, report_end(&runs[i].curves, clock));
    }
    if (field == offsetof(run_point, accuracy))
        end_axis(&f, clock, end);
    else
        report_losses_end(&f, clock, end);
    return f;
}

void report_runs(page *p, run_record *runs, int count)
{
    if (count == 1) {
        one_run(p, "", &runs[0]);
        return;
    }
    page_section(p, "Runs compared");
    order_runs(p, runs, count);
    run_table(p, runs, count);
    for (report_clock clock = REPORT_STEPS; clock <= REPORT_SAMPLES; clock++)
        for (int kind = 0; kind < kinds; kind++)
            page_figure(p, compare(runs, count, kind, clock));
    for (int i = 0; i < count; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "run%d-", i + 1);
        page_section(p, runs[i].name);
        one_run(p, prefix, &runs[i]);
    }
}
