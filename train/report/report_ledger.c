/* The part of a report on a ledger: what was swept, what came out, and the table of all runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_parts.h"
#include "base/fail.h"
#include "base/number.h"
#include "report/ledger_view.h"
#include "sweep/grid.h"

/* ---- What the parts share ---------------------------------------------------------------------------------- */

double view_loss(const ledger_run *r)
{
    if (r->state == LEDGER_DIVERGED)
        return INFINITY;
    if (r->state != LEDGER_DONE)
        return NAN;
    return isnan(r->result.val_loss) ? r->result.loss : r->result.val_loss;
}

const char *view_loss_name(const ledger_view *v)
{
    return v->validated ? "validation loss" : "training loss";
}

void view_label(const ledger_view *v, const config *c, const char *const *but, char text[VIEW_LABEL])
{
    const config_option *options[VIEW_NAMING];
    int count = 0;
    for (int i = 0; i < v->naming_count; i++)
        if (!grid_is_axis(v->naming[i], but))
            options[count++] = v->naming[i];
    grid_label(c, options, count, text, VIEW_LABEL);
}

void view_id(const ledger_view *v, const char *name, int64_t n, char id[REPORT_ID])
{
    char number[24] = "";
    if (n > 0)
        snprintf(number, sizeof number, "-%lld", (long long)n);
    snprintf(id, REPORT_ID, "%s%s%s", v->prefix, name, number);
}

void view_section(const ledger_view *v, const char *title)
{
    char text[VIEW_LABEL];
    snprintf(text, sizeof text, "%.100s%s%.80s", v->name, v->name[0] ? ": " : "", title);
    page_section(v->p, text);
}

void view_title(const char *title, const char *label, char text[VIEW_LABEL])
{
    snprintf(text, VIEW_LABEL, "%.60s%s%.130s", title, label[0] ? ", " : "", label);
}

const ledger_run *view_best(const ledger_view *v, const transfer_group *g)
{
    const ledger_run *best = NULL;
    for (int64_t i = 0; i < v->count; i++) {
        const ledger_run *r = &v->runs[i];
        if (r->kind == LEDGER_TRAINING && r->state == LEDGER_DONE && isfinite(view_loss(r)) &&
            (!best || view_loss(r) < view_loss(best)) &&
            (!g || grid_same(&r->c, &g->c, VIEW_KEYS("lr", "width", "seed"))))
            best = r;
    }
    return best;
}

/* ---- The whole in short ------------------------------------------------------------------------------------ */

static void cards(const ledger_view *v)
{
    const ledger_run *best = view_best(v, NULL);
    int64_t states[LEDGER_STATES] = {0};
    double seconds = 0;
    char text[MARKUP_NUMBER], label[VIEW_LABEL];
    for (int64_t i = 0; i < v->count; i++) {
        states[v->runs[i].state]++;
        if (isfinite(v->runs[i].result.seconds))
            seconds += v->runs[i].result.seconds;
    }
    if (best) {
        view_label(v, &best->c, VIEW_KEYS("seed"), label);
        page_card(v->p, v->validated ? "lowest validation loss" : "lowest training loss",
                  markup_number(view_loss(best), 5, text), label);
    }
    page_card(v->p, "runs", markup_count(v->count, text), NULL);
    static const ledger_state order[] = {LEDGER_DONE, LEDGER_DIVERGED, LEDGER_FAILED, LEDGER_RUNNING, LEDGER_WAITING};
    for (int i = 0; i < LEDGER_STATES; i++)
        if (states[order[i]] > 0 && states[order[i]] < v->count)
            page_card(v->p, ledger_state_name(order[i]), markup_count(states[order[i]], text), NULL);
    if (seconds > 0)
        page_card(v->p, "time of all runs", markup_duration(seconds, text), NULL);
}

/* Whether option o of run a comes after that of run b: by number where it is one, else as they appear. */
static bool comes_after(const ledger_view *v, const config_option *o, int64_t a, int64_t b)
{
    char x[CONFIG_TEXT], y[CONFIG_TEXT];
    double p, q;
    config_get(&v->runs[a].c, o, x, sizeof x);
    config_get(&v->runs[b].c, o, y, sizeof y);
    return number_real(x, &p) && number_real(y, &q) && p > q;
}

/* Values of an option that some run has, as a list that may end in an ellipsis. */
static void list_values(const ledger_view *v, const config_option *o, char *text, size_t bytes)
{
    enum { most = 32 };
    int64_t known[most + 1], count = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < v->count && count <= most; i++) {
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
        const bool room = k < most && at + strlen(value) + 8 < bytes;
        snprintf(text + at, bytes - at, "%s%s", at > 0 ? ", " : "", room ? value : "\u2026");
        at += strlen(text + at);
        if (!room)
            break;
    }
}

static void swept(const ledger_view *v)
{
    static const char *const names[] = {"swept option", "values"};
    const config_option *o;
    bool any = false;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char text[400];
        if (!grid_computes(o) || !grid_varies(&v->runs[0].c, sizeof *v->runs, v->count, o))
            continue;
        if (!any)
            page_table(v->p, NULL, 2, names, "lw");
        any = true;
        list_values(v, o, text, sizeof text);
        page_cell(v->p, "%s", o->key);
        page_cell(v->p, "%s", text);
    }
    if (any)
        page_table_end(v->p);
}

/* ---- All runs ---------------------------------------------------------------------------------------------- */

/* Best first, then those that diverged, failed, run and wait. */
static int by_outcome(const void *a, const void *b)
{
    static const int rank[LEDGER_STATES] = {4, 3, 0, 1, 2};
    const ledger_run *x = *(const ledger_run *const *)a, *y = *(const ledger_run *const *)b;
    const double p = view_loss(x), q = view_loss(y);
    if (rank[x->state] != rank[y->state])
        return rank[x->state] - rank[y->state];
    if (p != q && !isnan(p) && !isnan(q))
        return p < q ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

enum { rows_most = 2000, rows_open = 24 };

static void run_row(const ledger_view *v, const ledger_run *r)
{
    char text[MARKUP_NUMBER], label[VIEW_LABEL];
    view_label(v, &r->c, VIEW_KEYS(NULL), label);
    page_cell(v->p, "%lld", (long long)r->id);
    page_cell(v->p, "%s%s", ledger_state_name(r->state), r->kind == LEDGER_COORD ? " (coordinates)" : "");
    page_cell(v->p, "%s", label);
    page_cell(v->p, "%s", markup_number(r->result.val_loss, 5, text));
    page_cell(v->p, "%s", markup_number(r->result.loss, 5, text));
    page_cell(v->p, "%s", isnan(r->result.accuracy) ? "" : markup_number(100 * r->result.accuracy, 4, text));
    page_cell(v->p, "%s", markup_count(r->result.step, text));
    page_cell(v->p, "%s", r->result.parameters > 0 ? markup_count(r->result.parameters, text) : "");
    page_cell(v->p, "%s", r->result.seconds > 0 ? markup_duration(r->result.seconds, text) : "");
    page_cell(v->p, "%s", r->result.message);
}

void view_runs(const ledger_view *v)
{
    static const char *const names[] = {"run",     "state", "configuration", "validation", "training",
                                        "percent", "steps", "parameters",    "time",       "message"};
    const ledger_run **order = calloc((size_t)v->count + 1, sizeof *order);
    char fold[64];
    if (!order || v->count == 0) {
        free(order);
        return;
    }
    for (int64_t i = 0; i < v->count; i++)
        order[i] = &v->runs[i];
    qsort(order, (size_t)v->count, sizeof *order, by_outcome);
    view_section(v, "All runs");
    page_paragraph(v->p, "Best first. Options that all runs have in common are in the configuration below.");
    snprintf(fold, sizeof fold, "%lld runs", (long long)v->count);
    page_table(v->p, v->count > rows_open ? fold : NULL, 10, names, "rlwrrrrrrw");
    for (int64_t i = 0; i < v->count && i < rows_most; i++)
        run_row(v, order[i]);
    page_table_end(v->p);
    if (v->count > rows_most)
        page_paragraph(v->p, "%lld more are in the ledger.", (long long)v->count - rows_most);
    report_settings(v->p, &order[0]->c);
    free(order);
}

/* ---- The whole --------------------------------------------------------------------------------------------- */

scion_status report_ledger(page *p, const char *path, const char *prefix, const char *name, scion_error *err)
{
    ledger_view v = {.p = p, .prefix = prefix, .name = name};
    scion_status status = ledger_open(&v.l, path, false, err);
    if (status == SCION_OK)
        status = ledger_runs(v.l, &v.runs, &v.count, err);
    if (status == SCION_OK && v.count == 0)
        status = train_fail(err, SCION_EINVAL, "%s: there is no run in this ledger yet", path);
    if (status == SCION_OK)
        status = transfer_make(&v.t, v.runs, v.count, err);
    if (status != SCION_OK)
        goto done;
    for (int64_t i = 0; i < v.count; i++)
        v.validated = v.validated || (v.runs[i].state == LEDGER_DONE && !isnan(v.runs[i].result.val_loss));
    if (v.count > 0)
        v.naming_count = grid_naming(&v.runs[0].c, sizeof *v.runs, v.count, NULL, v.naming, VIEW_NAMING);
    if (name[0])
        page_section(p, name);
    cards(&v);
    swept(&v);
    view_transfer(&v);
    view_batch(&v);
    view_length(&v);
    status = view_curves(&v, err);
    if (status == SCION_OK)
        status = view_coords(&v, err);
    if (status == SCION_OK) {
        view_costs(&v);
        view_runs(&v);
    }
done:
    transfer_free(&v.t);
    free(v.runs);
    ledger_close(v.l);
    return status;
}
