/* Time of a step by its parts, and memory, against the width: means over the runs that agree in all options that
 * affect them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/section.h"

/* Options that change what is computed but hardly how long it takes. */
static const char *const free_options[] = {
    "width",     "lr",       "seed",          "rule",         "norms",         "momentum",    "weight_decay",
    "vanishing", "nesterov", "boundary_init", "radius_first", "radius_hidden", "radius_last", "muon_multiplier",
    "beta1",     "beta2",    "adam_eps",      "clip_norm",    "eps",           "schedule",    "warmup",
    "decay",     "lr_start", "lr_end",        "steps",        "epochs",        "smoothing",   "zero_init",
    "data",      "val_data", "val_fraction",  "preset",       "activation",    NULL};

typedef struct cost {
    const char *name;
    size_t offset; /* in run_result */
    double factor;
    bool per_step, per_rule;
} cost;

static double cost_of(const ledger_run *r, const cost *k)
{
    double value;
    memcpy(&value, (const char *)&r->result + k->offset, sizeof value);
    return k->factor * value / (k->per_step ? (double)r->result.step : 1);
}

static bool counts(const ledger_run *r, const config *like)
{
    return r->kind == LEDGER_TRAINING && r->result.state == RUN_DONE && r->result.step > 0 &&
           grid_same(&r->c, like, free_options);
}

/* Mean at each width, of the runs of one rule or of all (NULL). */
static void draw_cost(const ledger_view *v, figure *f, const cost *k, const config *like, const char *rule)
{
    char name[CONFIG_TEXT + 64];
    int64_t width = 0;
    snprintf(name, sizeof name, rule ? "%s, %s" : "%s", k->name, rule);
    const int s = figure_series(f, name, FIGURE_LINE);
    for (;;) {
        int64_t next = INT64_MAX, count = 0;
        double sum = 0;
        for (int64_t i = 0; i < v->count; i++)
            if (counts(&v->runs[i], like) && config_int(&v->runs[i].c, "width") > width &&
                config_int(&v->runs[i].c, "width") < next)
                next = config_int(&v->runs[i].c, "width");
        if (next == INT64_MAX)
            return;
        width = next;
        for (int64_t i = 0; i < v->count; i++) {
            const ledger_run *r = &v->runs[i];
            if (counts(r, like) && config_int(&r->c, "width") == width &&
                (!rule || strcmp(r->c.optimizer.rule, rule) == 0) && isfinite(cost_of(r, k)) && cost_of(r, k) > 0) {
                sum += cost_of(r, k);
                count++;
            }
        }
        if (count > 0)
            figure_point(f, s, (double)width, sum / (double)count);
    }
}

enum { max_rules = 4 };

/* The rules that occur, in order of appearance. */
static int list_rules(const ledger_view *v, const config *like, const char *rules[max_rules])
{
    int count = 0;
    for (int64_t i = 0; i < v->count && count < max_rules; i++) {
        int known = 0;
        while (known < count && strcmp(rules[known], v->runs[i].c.optimizer.rule) != 0)
            known++;
        if (known == count && counts(&v->runs[i], like))
            rules[count++] = v->runs[i].c.optimizer.rule;
    }
    return count;
}

static figure cost_figure(const ledger_view *v, const char *id, const char *title, const char *label,
                          const cost *kinds, int count, const config *like)
{
    const char *rules[max_rules];
    const int rule_count = list_rules(v, like, rules);
    figure f = section_figure(v, id, 0, title, "", "Mean over the runs of each width.");
    figure_axes(&f, "width", AXIS_LOG2, label, AXIS_LOG10);
    for (int k = 0; k < count; k++) {
        const bool each = kinds[k].per_rule && rule_count > 1;
        for (int r = 0; r < (each ? rule_count : 1); r++)
            draw_cost(v, &f, &kinds[k], like, each ? rules[r] : NULL);
    }
    return f;
}

void section_costs(ledger_view *v)
{
    static const cost times[] = {
        {"forward pass", offsetof(run_result, forward_s), 1e3, true, false},
        {"backward pass", offsetof(run_result, backward_s), 1e3, true, false},
        {"optimizer", offsetof(run_result, optimizer_s), 1e3, true, true},
    };
    static const cost sizes[] = {
        {"weights, gradients, state", offsetof(run_result, state_bytes), 1e-6, false, true},
        {"process at its peak", offsetof(run_result, peak_bytes), 1e-6, false, true},
    };
    const ledger_run *best = section_best(v, NULL);
    if (!best)
        return;
    const figure time = cost_figure(v, "time", "Time of a step", "milliseconds", times, 3, &best->c);
    const figure memory = cost_figure(v, "memory", "Memory", "MB", sizes, 2, &best->c);
    if (!figure_empty(&time) || !figure_empty(&memory))
        section_begin(v, "Time and memory");
    page_figure(v->p, time);
    page_figure(v->p, memory);
}
