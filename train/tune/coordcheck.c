/* See coordcheck.h. Results of layers are read during a forward pass (plan_watch), because their memory is
 * reused after it; sums are in double. The logits never exist at once, since the output layer and the loss are
 * one operator: they are computed here, in double, for a sample of the batch's rows.
 *
 * A slope other than 0 is not always a fault. The weights of the last layer start independent of its input, so
 * that the sums over many terms which make up the logits cancel to width^(-1/2), with Sign and with Spectral
 * alike; only what is learned adds up, to width^0. Over the first steps the logits therefore shrink with width,
 * less and less. The paper's lemma on transfer is about changes that do not depend on the width, not about the
 * start: the verdict on a network ignores shrinking logits. */
#include "tune/coordcheck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/json.h"
#include "util/statistics.h"
#include "config/config.h"
#include "run/run.h"
#include "sweep/grid.h"

/* Wrong scalings come as powers of at least 1/2; a right one, measured with one seed on three widths of a small GPT,
 * scatters by up to 0.1. In between: widths that are 8 times apart may differ by a factor of 1.3. */
const double coordcheck_flat = 0.125;

/* ---- Measuring one run ---------------------------------------------------------------------------------------- */

/* Products of the sample of logits, about a tenth of a second's work; rows are as many as fit, but at least 16. */
enum { logit_products = 1 << 27, min_sampled_rows = 16 };

/* Values of a layer that are kept for its change in the next step. */
enum { kept_values = 1 << 20 };

/* Some rows of a layer's result, spread evenly, as they were after the step before. */
typedef struct kept_rows {
    float *values;
    int64_t count;
} kept_rows;

typedef struct meter {
    ledger_coord *coords;
    int64_t count;
    int64_t step, place;
    kept_rows *kept; /* by place */
    int64_t kept_count;
    bool failed; /* out of memory */
} meter;

static bool add_coord(meter *m, const char *name, double rms, double change)
{
    ledger_coord *c = array_append(&m->coords, &m->count, sizeof *c);
    m->failed = !c;
    if (!c)
        return false;
    *c = (ledger_coord){.step = m->step,
                        .place = m->place++,
                        .rms = isfinite(rms) ? rms : INFINITY,
                        .change = isinf(change) || (isnan(change) && !isfinite(rms)) ? INFINITY : change};
    snprintf(c->name, sizeof c->name, "%s", name);
    return true;
}

/* Rows kept of the layer at this place; NULL: out of memory. */
static kept_rows *kept_of(meter *m, int64_t count)
{
    if (m->place < m->kept_count)
        return &m->kept[m->place];
    kept_rows *k = array_append(&m->kept, &m->kept_count, sizeof *k);
    if (k)
        *k = (kept_rows){calloc((size_t)count, sizeof *k->values), count};
    return k && k->values ? k : NULL;
}

/* Keeps a value in place of the one before, and returns the square of their difference. */
static double replace(float *kept, float now)
{
    const double difference = (double)now - (double)*kept;
    *kept = now;
    return difference * difference;
}

static int64_t sampled_rows(int64_t rows, int64_t wanted)
{
    return scn_min(rows, scn_max(wanted, min_sampled_rows));
}

static bool add_result(meter *m, const char *name, const tape_value *v)
{
    const int64_t C = v->shape[v->ndim - 1], rows = v->count / C, sample = sampled_rows(rows, kept_values / C);
    kept_rows *k = kept_of(m, sample * C);
    float *buffer = malloc((size_t)C * sizeof *buffer);
    double sum = 0, changed = 0;
    m->failed = !k || !buffer;
    for (int64_t r = 0; !m->failed && r < rows; r++) {
        const float *x = tape_floats_of(v, r * C, C, buffer);
        for (int64_t i = 0; i < C; i++)
            sum += (double)x[i] * (double)x[i];
    }
    for (int64_t r = 0; !m->failed && r < sample; r++) {
        const float *x = tape_floats_of(v, r * rows / sample * C, C, buffer);
        for (int64_t i = 0; i < C; i++)
            changed += replace(&k->values[r * C + i], x[i]);
    }
    free(buffer);
    if (m->failed)
        return false;
    return add_coord(m, name, sqrt(sum / (double)v->count), m->step > 0 ? sqrt(changed / (double)(sample * C)) : NAN);
}

static double dot(int64_t n, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* x w' + bias, for rows of x that are spread evenly. */
static bool add_logits(meter *m, const tape_value *x, const tape_value *w, const tape_value *bias)
{
    const int64_t V = w->shape[0], C = w->shape[1], rows = x->count / C;
    const int64_t sample = sampled_rows(rows, logit_products / (V * C));
    kept_rows *k = kept_of(m, sample * V);
    float *buffer = malloc((size_t)(2 * C) * sizeof *buffer);
    double sum = 0, changed = 0;
    m->failed = !k || !buffer;
    for (int64_t i = 0; !m->failed && i < sample; i++) {
        const float *row = tape_floats_of(x, i * rows / sample * C, C, buffer + C);
        for (int64_t v = 0; v < V; v++) {
            const double z = dot(C, row, tape_floats_of(w, v * C, C, buffer)) + (bias ? (double)bias->data[v] : 0);
            sum += z * z;
            changed += replace(&k->values[i * V + v], (float)z);
        }
    }
    free(buffer);
    if (m->failed)
        return false;
    return add_coord(m, COORDCHECK_LOGITS, sqrt(sum / (double)(sample * V)),
                     m->step > 0 ? sqrt(changed / (double)(sample * V)) : NAN);
}

/* Operators that apply a matrix, their parameter, and how their result is measured. */
static bool look(void *context, const tape_node *n)
{
    const int matrix = n->op->matrix;
    if (!matrix)
        return true;
    if (n->op->fused_layer)
        return add_logits(context, n->in[0], n->in[matrix], n->in[matrix + 1]);
    return add_result(context, n->in[matrix]->name, n->out);
}

/* All layers, with the present weights. */
static scion_status measure(meter *m, trainer *t, scion_error *err)
{
    tape_run run = {.threads = trainer_about(t).threads, .loss_scale = 1};
    m->step = trainer_about(t).step;
    m->place = 0;
    plan_watch(trainer_about(t).evaluation, &run, look, m);
    return m->failed ? train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check") : SCION_OK;
}

/* After the loss was not finite: the layers of step 0 again, as diverged. */
static scion_status measure_diverged(meter *m, int64_t step, scion_error *err)
{
    const int64_t layers = m->place;
    m->step = step;
    m->place = 0;
    while (m->place < layers) {
        char name[sizeof m->coords->name];
        memcpy(name, m->coords[m->place].name, sizeof name); /* add_coord may move what it is copied from */
        if (!add_coord(m, name, INFINITY, INFINITY))
            return train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check");
    }
    return SCION_OK;
}

/* State of a run of the check. */
typedef struct check {
    trainer *t;
    meter m;
    int64_t steps;
    bool (*progress)(void *context, int64_t step);
    void *context;
    bool stopped;
    scion_error failed; /* its status is OK if nothing did */
} check;

static void after_step(check *k, int64_t step, scion_status status)
{
    if (status != SCION_OK)
        k->failed.status = status;
    else if (k->progress && !k->progress(k->context, step))
        k->stopped = true;
}

static scion_status check_step(void *ctx, const run_event *e, scion_error *err)
{
    check *k = ctx;
    (void)err;
    after_step(k, e->point->step, measure(&k->m, k->t, &k->failed));
    return SCION_OK;
}

static bool check_stops(void *ctx)
{
    const check *k = ctx;
    return k->stopped || k->failed.status != SCION_OK;
}

/* Takes the steps; those that a diverged network does not take are filled in. */
static scion_status check_run(check *k, scion_error *err)
{
    const run_sink sink = {.on = {[RUN_STEPPED] = check_step}, .ctx = k}, *const sinks[] = {&sink};
    const run_policy policy = {.steps = k->steps, .stop = check_stops, .stop_ctx = k};
    run_result r;
    /* One batch stays in the inputs of the evaluation, since the run has none. */
    scion_status status = trainer_fill_evaluation(k->t, DATA_TRAIN, 0, err);
    if (status != SCION_OK)
        return status;
    after_step(k, 0, measure(&k->m, k->t, &k->failed));
    if (k->steps > 0 && !check_stops(k))
        status = run_train(k->t, &policy, sinks, 1, &r, NULL, err);
    if (status != SCION_OK && status != SCION_ENONFINITE)
        return status;
    for (int64_t step = trainer_about(k->t).step + 1;
         status == SCION_ENONFINITE && step <= k->steps && !check_stops(k); step++)
        after_step(k, step, measure_diverged(&k->m, step, &k->failed));
    if (k->failed.status != SCION_OK) {
        *err = k->failed;
        return err->status;
    }
    return k->stopped ? train_fail(err, SCION_ESTOPPED, "stopped before the check was complete") : SCION_OK;
}

scion_status coordcheck_measure(coordcheck_run *run, const config *c, int64_t steps,
                                bool (*progress)(void *context, int64_t step), void *context, scion_error *err)
{
    check k = {.steps = steps, .progress = progress, .context = context};
    scion_status status;
    TRY(trainer_create(&k.t, c, NULL, NULL, err));
    if (steps > trainer_about(k.t).steps)
        TRY(train_fail(err, SCION_EINVAL, "the check is to take %lld steps, but the run has only %lld: set steps=",
                       (long long)steps, (long long)trainer_about(k.t).steps));
    status = check_run(&k, err);
done:
    trainer_free(k.t);
    for (int64_t i = 0; i < k.m.kept_count; i++)
        free(k.m.kept[i].values);
    free(k.m.kept);
    *run = (coordcheck_run){.c = *c, .coords = k.m.coords, .count = k.m.count};
    if (status != SCION_OK) {
        free(k.m.coords);
        run->coords = NULL;
        run->count = 0;
    }
    return status;
}

/* ---- Groups ---------------------------------------------------------------------------------------------- */

/* The axes of a check; everything else makes a group. */
static const char *const axes[] = {"width", "seed", NULL};

static int64_t width_index(const coordcheck_group *g, int64_t width)
{
    int64_t i = 0;
    while (i < g->width_count && g->widths[i] < width)
        i++;
    return i;
}

/* The widths of a group, ascending, and the number of its runs. */
static int64_t find_widths(coordcheck_group *g, const coordcheck_run *runs, int64_t count)
{
    int64_t members = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!grid_same(&g->c, &runs[i].c, axes))
            continue;
        const int64_t at = width_index(g, config_int(&runs[i].c, "width"));
        members++;
        if (at < g->width_count && g->widths[at] == config_int(&runs[i].c, "width"))
            continue;
        memmove(g->widths + at + 1, g->widths + at, (size_t)(g->width_count - at) * sizeof *g->widths);
        g->widths[at] = config_int(&runs[i].c, "width");
        g->width_count++;
    }
    return members;
}

static int64_t layers_of(const coordcheck_run *run)
{
    int64_t count = 0;
    while (count < run->count && run->coords[count].step == 0)
        count++;
    return count;
}

/* The layers of the first run, the steps that all runs of the group have, and arrays for as many widths as runs. */
static scion_status allocate(coordcheck_group *g, const coordcheck_run *first, const coordcheck_run *runs,
                             int64_t count, scion_error *err)
{
    g->layer_count = layers_of(first);
    g->steps = INT64_MAX;
    if (g->layer_count == 0)
        return train_fail(err, SCION_EINVAL, "the check of width %lld does not begin with step 0",
                          (long long)config_int(&g->c, "width"));
    for (int64_t i = 0; i < count; i++) {
        if (!grid_same(&g->c, &runs[i].c, axes))
            continue;
        if (runs[i].count == 0 || layers_of(&runs[i]) != g->layer_count)
            return train_fail(err, SCION_EINVAL, "the check of width %lld has other layers than that of width %lld",
                              (long long)config_int(&runs[i].c, "width"), (long long)config_int(&g->c, "width"));
        g->steps = scn_min(g->steps, runs[i].count / g->layer_count - 1);
    }
    const size_t cells = (size_t)(g->layer_count * (g->steps + 1));
    g->widths = calloc((size_t)count, sizeof *g->widths);
    g->names = calloc((size_t)g->layer_count, sizeof *g->names);
    bool made = g->widths && g->names;
    for (int k = 0; k < COORDCHECK_VALUES; k++) {
        g->of[k].value = calloc(cells * (size_t)count, sizeof *g->of[k].value);
        g->of[k].slope = calloc(cells, sizeof *g->of[k].slope);
        made = made && g->of[k].value && g->of[k].slope;
    }
    if (!made)
        return train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check");
    for (int64_t i = 0; i < g->layer_count; i++)
        memcpy(g->names[i], first->coords[i].name, sizeof g->names[i]);
    return SCION_OK;
}

/* Adds a run to the sums of its width; members[w] counts them. */
static scion_status add_run(coordcheck_group *g, const coordcheck_run *run, int64_t *members, scion_error *err)
{
    const int64_t w = width_index(g, config_int(&run->c, "width"));
    for (int64_t i = 0; i < g->layer_count * (g->steps + 1); i++) {
        const ledger_coord *c = &run->coords[i];
        const int64_t step = i / g->layer_count, layer = i % g->layer_count;
        if (c->step != step || strcmp(c->name, g->names[layer]) != 0)
            return train_fail(err, SCION_EINVAL,
                              "the check of width %lld has %.63s where that of width %lld has %.63s",
                              (long long)config_int(&run->c, "width"), c->name, (long long)config_int(&g->c, "width"),
                              g->names[layer]);
        const int64_t at = (layer * (g->steps + 1) + step) * g->width_count + w;
        g->of[COORDCHECK_RMS].value[at] += c->rms;
        g->of[COORDCHECK_CHANGE].value[at] += c->change;
    }
    members[w]++;
    return SCION_OK;
}

/* Least squares of log2 rms over log2 width. A result of 0 (projections that start at zero) has no logarithm. x and
 * y: space for as many numbers as widths. */
static double fit(const coordcheck_group *g, const double *rms, double *x, double *y)
{
    int64_t n = 0;
    for (int64_t w = 0; w < g->width_count; w++) {
        if (isinf(rms[w]))
            return INFINITY;
        if (!(rms[w] > 0))
            continue;
        x[n] = log2((double)g->widths[w]);
        y[n++] = log2(rms[w]);
    }
    return stat_slope(x, y, n);
}

static scion_status make_group(coordcheck_group *g, const coordcheck_run *first, const coordcheck_run *runs,
                               int64_t count, scion_error *err)
{
    int64_t *members = calloc((size_t)count, sizeof *members);
    double *x = calloc(2 * (size_t)count, sizeof *x);
    scion_status status;
    g->c = first->c;
    if (!members || !x)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check"));
    TRY(allocate(g, first, runs, count, err));
    const int64_t all = find_widths(g, runs, count);
    g->seeds = all / g->width_count;
    for (int64_t i = 0; i < count; i++)
        if (grid_same(&g->c, &runs[i].c, axes))
            TRY(add_run(g, &runs[i], members, err));
    for (int k = 0; k < COORDCHECK_VALUES; k++)
        for (int64_t i = 0; i < g->layer_count * (g->steps + 1); i++) {
            double *value = g->of[k].value + i * g->width_count;
            for (int64_t w = 0; w < g->width_count; w++)
                value[w] /= (double)members[w];
            g->of[k].slope[i] = fit(g, value, x, x + count);
        }
done:
    free(members);
    free(x);
    return status;
}

scion_status coordcheck_make(coordcheck *k, const coordcheck_run *runs, int64_t count, scion_error *err)
{
    scion_status status = SCION_OK;
    *k = (coordcheck){calloc((size_t)count + 1, sizeof *k->groups), 0};
    if (!k->groups)
        return train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check");
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        bool known = false;
        for (int64_t g = 0; g < k->count && !known; g++)
            known = grid_same(&k->groups[g].c, &runs[i].c, axes);
        if (!known)
            status = make_group(&k->groups[k->count++], &runs[i], runs, count, err);
    }
    if (status == SCION_OK)
        grid_name_groups(&k->groups[0].c, sizeof *k->groups, k->count, axes, k->groups[0].label,
                         sizeof k->groups[0].label);
    return status;
}

void coordcheck_free(coordcheck *k)
{
    for (int64_t i = 0; i < k->count; i++) {
        free(k->groups[i].widths);
        free(k->groups[i].names);
        for (int v = 0; v < COORDCHECK_VALUES; v++) {
            free(k->groups[i].of[v].value);
            free(k->groups[i].of[v].slope);
        }
    }
    free(k->groups);
    *k = (coordcheck){NULL, 0};
}

/* ---- Verdicts -------------------------------------------------------------------------------------------- */

coordcheck_verdict coordcheck_judge(double slope)
{
    if (isnan(slope) || fabs(slope) <= coordcheck_flat) /* NAN: all zero, at every width */
        return COORDCHECK_FLAT;
    return slope > 0 ? COORDCHECK_GROWING : COORDCHECK_SHRINKING;
}

const char *coordcheck_verdict_name(coordcheck_verdict v)
{
    static const char *const names[] = {"flat", "shrinking", "growing"};
    return names[v];
}

/* Distance of a slope from flat. */
static double fault(const coordcheck_group *g, int64_t layer, int64_t step)
{
    const double slope = coordcheck_slope(g, COORDCHECK_RMS, layer, step);
    if (isnan(slope) || (slope < 0 && strcmp(g->names[layer], COORDCHECK_LOGITS) == 0))
        return 0;
    return fabs(slope);
}

int64_t coordcheck_worst(const coordcheck_group *g, int64_t step)
{
    int64_t worst = 0;
    for (int64_t i = 1; i < g->layer_count; i++)
        if (fault(g, i, step) > fault(g, worst, step))
            worst = i;
    return worst;
}

/* For two decimals: no minus before a zero, and layers that are zero do not move. */
static double tidy(double slope)
{
    return isnan(slope) || fabs(slope) < 0.005 ? 0 : slope;
}

void coordcheck_sentence(const coordcheck_group *g, char text[256])
{
    const int64_t worst = coordcheck_worst(g, g->steps), last = g->layer_count - 1;
    const double slope = tidy(coordcheck_slope(g, COORDCHECK_RMS, worst, g->steps)),
                 logits = coordcheck_slope(g, COORDCHECK_RMS, last, g->steps);
    const long long low = g->widths[0], high = g->widths[g->width_count - 1];
    char when[48] = "at initialisation", aside[48] = "";
    if (g->steps > 0)
        snprintf(when, sizeof when, "after %lld step%s", (long long)g->steps, g->steps > 1 ? "s" : "");
    if (last != worst && coordcheck_judge(logits) == COORDCHECK_SHRINKING)
        snprintf(aside, sizeof aside, " (the logits as width^%.2f)", logits);
    if (g->width_count < 2)
        snprintf(text, 256, "only width %lld was measured: there is nothing to compare", low);
    else if (isinf(slope))
        snprintf(text, 256, "diverged: %s the loss is not finite at some width from %lld to %lld", when, low, high);
    else
        snprintf(text, 256, "%s: %s %s%.63s goes as width^%.2f from width %lld to %lld%s",
                 coordcheck_verdict_name(coordcheck_judge(slope)), when,
                 coordcheck_judge(slope) == COORDCHECK_FLAT ? "the steepest layer " : "", g->names[worst], slope, low,
                 high, aside);
}

/* The first step is the one of the lemma, and the only one for which step sizes are the same at the start of a
 * schedule. */
bool coordcheck_has_changes(const coordcheck_group *g)
{
    for (int64_t i = 0; g->steps > 0 && i < g->layer_count; i++)
        if (!isnan(coordcheck_slope(g, COORDCHECK_CHANGE, i, 1)))
            return true;
    return false;
}

void coordcheck_change_sentence(const coordcheck_group *g, char text[256])
{
    int64_t worst = -1;
    text[0] = '\0';
    for (int64_t i = 0; coordcheck_has_changes(g) && i < g->layer_count; i++) {
        const double slope = coordcheck_slope(g, COORDCHECK_CHANGE, i, 1);
        if (!isnan(slope) && (worst < 0 || fabs(slope) > fabs(coordcheck_slope(g, COORDCHECK_CHANGE, worst, 1))))
            worst = i;
    }
    if (worst < 0)
        return;
    const double slope = tidy(coordcheck_slope(g, COORDCHECK_CHANGE, worst, 1));
    if (isinf(slope))
        snprintf(text, 256, "diverged: the change in the first step is not finite at some width");
    else
        snprintf(text, 256, "%s: the change in the first step goes as width^%.2f in its steepest layer, %.63s",
                 coordcheck_verdict_name(coordcheck_judge(slope)), slope, g->names[worst]);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *layer_json(const coordcheck_group *g, int64_t layer)
{
    json_t *values[COORDCHECK_VALUES], *slopes[COORDCHECK_VALUES];
    for (int k = 0; k < COORDCHECK_VALUES; k++) {
        values[k] = json_array();
        slopes[k] = json_array();
        for (int64_t step = 0; step <= g->steps; step++) {
            json_t *row = json_array();
            for (int64_t w = 0; w < g->width_count; w++)
                json_array_append_new(row, json_number(coordcheck_value(g, (coordcheck_kind)k, layer, step, w)));
            json_array_append_new(values[k], row);
            json_array_append_new(slopes[k], json_number(coordcheck_slope(g, (coordcheck_kind)k, layer, step)));
        }
    }
    const coordcheck_verdict v = coordcheck_judge(coordcheck_slope(g, COORDCHECK_RMS, layer, g->steps));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "name", g->names[layer], "rms", values[COORDCHECK_RMS],
                     "slope", slopes[COORDCHECK_RMS], "change", values[COORDCHECK_CHANGE], "change_slope",
                     slopes[COORDCHECK_CHANGE], "verdict", coordcheck_verdict_name(v));
}

static json_t *group_json(const coordcheck_group *g)
{
    char sentence[256], change[256], *text = config_to_json(&g->c);
    json_t *widths = json_array(), *layers = json_array();
    for (int64_t w = 0; w < g->width_count; w++)
        json_array_append_new(widths, json_integer((json_int_t)g->widths[w]));
    for (int64_t i = 0; i < g->layer_count; i++)
        json_array_append_new(layers, layer_json(g, i));
    coordcheck_sentence(g, sentence);
    coordcheck_change_sentence(g, change);
    const int64_t worst = coordcheck_worst(g, g->steps);
    json_t *out =
        json_pack("{s:s, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:s, s:o*}", "label", g->label, "steps",
                  (json_int_t)g->steps, "seeds", (json_int_t)g->seeds, "widths", widths, "layers", layers, "verdict",
                  coordcheck_verdict_name(coordcheck_judge(coordcheck_slope(g, COORDCHECK_RMS, worst, g->steps))),
                  "worst", g->names[worst], "sentence", sentence, "change_sentence", change, "config",
                  text ? json_loads(text, 0, NULL) : NULL);
    free(text);
    return out;
}

scion_status coordcheck_save(const coordcheck *k, const char *path, scion_error *err)
{
    json_t *out = json_array();
    for (int64_t i = 0; i < k->count; i++)
        json_array_append_new(out, group_json(&k->groups[i]));
    return json_save(out, JSON_INDENT(1) | JSON_REAL_PRECISION(9), path, err);
}
