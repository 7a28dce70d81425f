/* The report on a ledger: a summary, the options that were swept, the sections, and the table of all runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "util/fail.h"
#include "util/number.h"
#include "util/utf8.h"
#include "report/section.h"

/* ---- What the sections share ---------------------------------------------------------------------------------- */

double section_loss(const ledger_run *r)
{
    if (r->result.state == RUN_DIVERGED)
        return INFINITY;
    if (r->result.state != RUN_DONE)
        return NAN;
    return isnan(r->result.val_loss) ? r->result.loss : r->result.val_loss;
}

double section_score(const ledger_view *v, const ledger_run *r)
{
    const double loss = section_loss(r);
    return v->bits && isfinite(loss) ? r->result.val_bits_per_byte : loss;
}

const char *section_loss_name(const ledger_view *v)
{
    return v->validated ? "validation loss" : "training loss";
}

void section_label(const ledger_view *v, const config *c, const char *const *except, char text[SECTION_LABEL])
{
    const config_option *options[SECTION_NAMING];
    int count = 0;
    for (int i = 0; i < v->naming_count; i++)
        if (!grid_is_axis(v->naming[i], except))
            options[count++] = v->naming[i];
    grid_label(c, options, count, text, SECTION_LABEL);
}

void section_id(const ledger_view *v, const char *name, int64_t n, char id[REPORT_ID])
{
    char number[24] = "";
    if (n > 0)
        snprintf(number, sizeof number, "-%lld", (long long)n);
    snprintf(id, REPORT_ID, "%s%s%s", v->prefix, name, number);
}

void section_begin(const ledger_view *v, const char *title)
{
    char text[SECTION_LABEL];
    snprintf(text, sizeof text, "%.100s%s%.80s", v->name, v->name[0] ? ": " : "", title);
    page_section(v->p, text);
}

void section_title(const char *title, const char *label, char text[SECTION_LABEL])
{
    snprintf(text, SECTION_LABEL, "%.60s%s%.130s", title, label[0] ? ", " : "", label);
}

figure section_figure(const ledger_view *v, const char *name, int64_t n, const char *title, const char *label,
                      const char *caption)
{
    char id[REPORT_ID], full[SECTION_LABEL];
    section_id(v, name, n, id);
    section_title(title, label, full);
    return figure_make(id, full, caption);
}

const ledger_run *section_best(const ledger_view *v, const transfer_group *g)
{
    const ledger_run *best = NULL;
    for (int64_t i = 0; i < v->count; i++) {
        const ledger_run *r = &v->runs[i];
        if (r->kind == LEDGER_TRAINING && r->result.state == RUN_DONE && isfinite(section_loss(r)) &&
            (!best || section_score(v, r) < section_score(v, best)) &&
            (!g || grid_same(&r->c, &g->c, SECTION_KEYS("lr", "width", "seed"))))
            best = r;
    }
    return best;
}

/* ---- Summary ------------------------------------------------------------------------------------ */

static void cards(const ledger_view *v)
{
    const ledger_run *best = section_best(v, NULL);
    int64_t states[RUN_STATES] = {0};
    double seconds = 0;
    char text[MARKUP_NUMBER], label[SECTION_LABEL];
    for (int64_t i = 0; i < v->count; i++) {
        states[v->runs[i].result.state]++;
        if (isfinite(v->runs[i].result.seconds))
            seconds += v->runs[i].result.seconds;
    }
    if (best) {
        section_label(v, &best->c, SECTION_KEYS("seed"), label);
        if (v->bits)
            page_card(v->p, "fewest bits per byte", markup_loss(section_score(v, best), text), label);
        page_card(v->p,
                  v->bits        ? "its validation loss"
                  : v->validated ? "lowest validation loss"
                                 : "lowest training loss",
                  markup_loss(section_loss(best), text), v->bits ? NULL : label);
    }
    page_card(v->p, "runs", markup_count(v->count, text), NULL);
    static const run_state order[] = {RUN_DONE, RUN_DIVERGED, RUN_FAILED, RUN_RUNNING, RUN_WAITING};
    for (int i = 0; i < RUN_STATES; i++)
        if (states[order[i]] > 0 && states[order[i]] < v->count)
            page_card(v->p, run_state_name(order[i]), markup_count(states[order[i]], text), NULL);
    if (seconds > 0)
        page_card(v->p, "time of all runs", markup_duration(seconds, text), NULL);
}

/* True if option o of run a is a larger number than that of run b; other options stay in the order of the runs. */
static bool comes_after(const ledger_view *v, const config_option *o, int64_t a, int64_t b)
{
    char x[CONFIG_TEXT], y[CONFIG_TEXT];
    double p, q;
    config_get(&v->runs[a].c, o, x, sizeof x);
    config_get(&v->runs[b].c, o, y, sizeof y);
    return number_real(x, &p) && number_real(y, &q) && p > q;
}

/* The values of an option over the runs that the page is about, as a list that may end in an ellipsis. */
static void list_values(const ledger_view *v, const config_option *o, char *text, size_t bytes)
{
    enum { max_values = 32 };
    int64_t known[max_values + 1], count = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < v->shown && count <= max_values; i++) {
        int64_t k = 0;
        while (k < count && !config_same(&v->runs[known[k]].c, &v->runs[i].c, o))
            k++;
        if (k < count)
            continue;
        for (k = count++; k > 0 && comes_after(v, o, known[k - 1], i); k--)
            known[k] = known[k - 1];
        known[k] = i;
    }
    for (int64_t k = 0; k < count; k++) {
        char value[CONFIG_TEXT];
        grid_pretty(&v->runs[known[k]].c, o, value);
        const bool fits = k < max_values && strlen(text) + strlen(value) + 8 < bytes;
        utf8_append(text, bytes, "%s%s", k > 0 ? ", " : "", fits ? value : "\u2026");
        if (!fits)
            break;
    }
}

static void swept(const ledger_view *v)
{
    const config_option *o;
    page_table(v->p, NULL, "swept option|values", "lw");
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char text[400];
        if (!grid_computes(o) || !grid_varies(&v->runs[0].c, sizeof *v->runs, v->shown, o))
            continue;
        list_values(v, o, text, sizeof text);
        page_cell(v->p, "%s", o->key);
        page_cell(v->p, "%s", text);
    }
    page_table_end(v->p);
}

/* ---- All runs ---------------------------------------------------------------------------------------------- */

/* A run and its score. */
typedef struct outcome {
    const ledger_run *run;
    double score;
} outcome;

/* Orders by score, then finished runs without one, then those that diverged, failed, run and wait. */
static int by_outcome(const void *a, const void *b)
{
    static const int rank[RUN_STATES] = {4, 3, 0, 1, 2};
    const ledger_run *x = ((const outcome *)a)->run, *y = ((const outcome *)b)->run;
    const double p = ((const outcome *)a)->score, q = ((const outcome *)b)->score;
    if (rank[x->result.state] != rank[y->result.state])
        return rank[x->result.state] - rank[y->result.state];
    if (isnan(p) != isnan(q))
        return isnan(p) - isnan(q);
    return p < q || p > q ? (p > q) - (p < q) : (x->id > y->id) - (x->id < y->id);
}

enum { max_rows = 2000, max_open_rows = 24 };

static void run_row(const ledger_view *v, const ledger_run *r)
{
    char text[MARKUP_NUMBER], label[SECTION_LABEL];
    section_label(v, &r->c, SECTION_KEYS(NULL), label);
    page_cell(v->p, "%lld", (long long)r->id);
    page_cell(v->p, "%s%s", run_state_name(r->result.state), r->kind == LEDGER_COORD ? " (coordinates)" : "");
    page_cell(v->p, "%s", label);
    if (v->bits)
        page_cell(v->p, "%s", markup_loss(r->result.val_bits_per_byte, text));
    page_cell(v->p, "%s", markup_loss(r->result.val_loss, text));
    page_cell(v->p, "%s", markup_loss(r->result.loss, text));
    page_cell(v->p, "%s", isnan(r->result.accuracy) ? "" : markup_fixed(100 * r->result.accuracy, 2, text));
    page_cell(v->p, "%s", markup_count(r->result.step, text));
    page_cell(v->p, "%s", r->result.parameters > 0 ? markup_count(r->result.parameters, text) : "");
    page_cell(v->p, "%s", r->result.seconds > 0 ? markup_duration(r->result.seconds, text) : "");
    page_cell(v->p, "%s", r->result.message);
}

void section_runs(ledger_view *v)
{
    outcome *order = calloc((size_t)v->count + 1, sizeof *order);
    char fold[64], heads[128];
    if (!order) {
        v->status = train_fail(v->err, SCION_ENOMEM, "out of memory for the table of runs");
        return;
    }
    for (int64_t i = 0; i < v->count; i++)
        order[i] = (outcome){&v->runs[i], section_score(v, &v->runs[i])};
    qsort(order, (size_t)v->count, sizeof *order, by_outcome);
    section_begin(v, "All runs");
    page_paragraph(v->p, "Best first. Options that all runs have in common are in the configuration below.");
    snprintf(fold, sizeof fold, "%lld runs", (long long)v->count);
    snprintf(heads, sizeof heads,
             "run|state|configuration|%svalidation|training|percent|steps|parameters|time|message",
             v->bits ? "bits per byte|" : "");
    page_table(v->p, v->count > max_open_rows ? fold : NULL, heads, v->bits ? "rlwrrrrrrrw" : "rlwrrrrrrw");
    for (int64_t i = 0; i < v->count && i < max_rows; i++)
        run_row(v, order[i].run);
    page_table_end(v->p);
    if (v->count > max_rows)
        page_paragraph(v->p, "%lld more are in the ledger.", (long long)v->count - max_rows);
    report_settings(v->p, &order[0].run->c);
    free(order);
}

/* ---- The whole --------------------------------------------------------------------------------------------- */

/* In the order of the page. */
static section *const sections[] = {
    section_transfer, section_against, section_curves, section_coords, section_costs, section_runs,
};

/* Rank of a run: the page is about runs of rank 0, and about others only where there are none: coordinate checks (1),
 * which have data and sizes of their own, and waiting runs (2), which may have other settings. */
static int rank_of(const ledger_run *r)
{
    return r->result.state == RUN_WAITING ? 2 : r->kind != LEDGER_TRAINING;
}

static int by_rank(const void *a, const void *b)
{
    const ledger_run *x = a, *y = b;
    return rank_of(x) != rank_of(y) ? rank_of(x) - rank_of(y) : (x->id > y->id) - (x->id < y->id);
}

/* Sorts by rank and returns how many have the first rank that occurs. */
static int64_t shown_first(ledger_run *runs, int64_t count)
{
    int64_t shown = 0;
    qsort(runs, (size_t)count, sizeof *runs, by_rank);
    while (shown < count && rank_of(&runs[shown]) == rank_of(&runs[0]))
        shown++;
    return shown;
}

/* Finds out which losses the finished runs have. */
static void find_losses(ledger_view *v)
{
    v->bits = true;
    for (int64_t i = 0; i < v->count; i++) {
        const run_result *r = &v->runs[i].result;
        if (r->state != RUN_DONE || v->runs[i].kind != LEDGER_TRAINING)
            continue;
        v->validated = v->validated || !isnan(r->val_loss);
        v->bits = v->bits && isfinite(r->val_bits_per_byte);
    }
    v->bits = v->bits && v->validated;
}

scion_status report_ledger(page *p, const char *path, const char *prefix, const char *name, scion_error *err)
{
    ledger_view v = {.p = p, .prefix = prefix, .name = name, .err = err};
    scion_status status = SCION_OK;
    TRY(ledger_open(&v.l, path, false, err));
    TRY(ledger_runs(v.l, &v.runs, &v.count, err));
    if (v.count == 0)
        TRY(train_fail(err, SCION_EINVAL, "%s: there is no run in this ledger yet", path));
    v.shown = shown_first(v.runs, v.count);
    TRY(transfer_make(&v.t, v.runs, v.count, err));
    find_losses(&v);
    v.naming_count = grid_naming(&v.runs[0].c, sizeof *v.runs, v.shown, NULL, v.naming, SECTION_NAMING);
    if (name[0])
        page_section(p, name);
    cards(&v);
    swept(&v);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        sections[i](&v);
    status = v.status;
done:
    transfer_free(&v.t);
    free(v.runs);
    ledger_close(v.l);
    return status;
}
