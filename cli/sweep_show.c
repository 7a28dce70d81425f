/* See sweep_show.h. */
#include "sweep_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "cli.h"
#include "sweep/grid.h"
#include "tune/transfer.h"

/* All learning rates of a group, ascending; the caller frees. */
static double *all_rates(const transfer_group *g, int64_t *count)
{
    int64_t most = 0;
    for (int64_t i = 0; i < g->count; i++)
        most += g->widths[i].count;
    double *rates = malloc((size_t)(most + 1) * sizeof *rates);
    *count = 0;
    for (int64_t i = 0; rates && i < g->count; i++)
        for (int64_t k = 0; k < g->widths[i].count; k++)
            rates[(*count)++] = g->widths[i].points[k].lr;
    if (!rates)
        return NULL;
    qsort(rates, (size_t)*count, sizeof *rates, array_ascending);
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (kept == 0 || rates[i] != rates[kept - 1])
            rates[kept++] = rates[i];
    *count = kept;
    return rates;
}

static void print_cell(const transfer_width *w, double lr)
{
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        if (p->lr != lr)
            continue;
        if (isfinite(p->loss))
            printf(" %9.4f%c", p->loss, i == w->best ? '*' : ' ');
        else
            printf(" %9s ", p->diverged ? "diverged" : "failed");
        return;
    }
    printf(" %9s ", "-");
}

static void print_group(const transfer_group *g)
{
    int64_t count;
    char text[CONFIG_TEXT];
    double *rates = all_rates(g, &count);
    printf("\n%s%s%-10s", g->label, g->label[0] ? "\n" : "", "lr \\ width");
    for (int64_t k = 0; k < g->count; k++)
        printf(" %9lld ", (long long)g->widths[k].width);
    printf("\n");
    for (int64_t i = 0; rates && i < count; i++) {
        grid_rate(rates[i], text);
        printf("%-10s", text);
        for (int64_t k = 0; k < g->count; k++)
            print_cell(&g->widths[k], rates[i]);
        printf("\n");
    }
    free(rates);
    transfer_sentence(g, text);
    printf("%s\n", text);
}

static json_t *width_json(const transfer_width *w)
{
    json_t *points = json_array();
    for (int64_t i = 0; i < w->count; i++) {
        const transfer_point *p = &w->points[i];
        json_array_append_new(points, json_pack("{s:f, s:o, s:o, s:i, s:i, s:i}", "lr", p->lr, "loss",
                                                json_number(p->loss), "accuracy", json_number(p->accuracy), "seeds",
                                                p->seeds, "diverged", p->diverged, "failed", p->failed));
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "width", (json_int_t)w->width, "best_lr",
                     w->best >= 0 ? json_real(w->points[w->best].lr) : json_null(), "best_loss",
                     w->best >= 0 ? json_number(w->points[w->best].loss) : json_null(), "points", points);
}

static int write_json(const transfer *t, const char *path)
{
    json_t *groups = json_array();
    for (int64_t i = 0; i < t->count; i++) {
        const transfer_group *g = &t->groups[i];
        json_t *widths = json_array();
        char text[256];
        for (int64_t k = 0; k < g->count; k++)
            json_array_append_new(widths, width_json(&g->widths[k]));
        transfer_sentence(g, text);
        json_array_append_new(groups, json_pack("{s:s, s:o, s:o, s:b, s:s, s:o}", "label", g->label, "moved",
                                                json_number(g->moved), "cost", json_number(g->cost), "at_edge",
                                                g->at_edge, "verdict", text, "widths", widths));
    }
    scion_error err;
    return json_save(json_pack("{s:o}", "groups", groups), JSON_INDENT(2), path, &err) == SCION_OK
               ? CLI_OK
               : cli_error(CLI_FAILED, "%s", err.message);
}

int cli_show_sweep(const char *path, const char *json)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    int64_t count = 0;
    transfer t = {NULL, 0};
    scion_error err;
    int status = CLI_FAILED;
    if (ledger_open(&l, path, false, &err) != SCION_OK || ledger_runs(l, &runs, &count, &err) != SCION_OK ||
        transfer_make(&t, runs, count, &err) != SCION_OK) {
        cli_error(status, "%s", err.message);
        goto done;
    }
    if (t.count == 0)
        printf("%s: no run has ended yet\n", path);
    else
        printf("validation loss, mean over the seeds; * the best of its width\n");
    for (int64_t i = 0; i < t.count; i++)
        print_group(&t.groups[i]);
    for (int64_t i = 0; i < count; i++)
        if (runs[i].state == LEDGER_FAILED)
            printf("run %lld failed: %s\n", (long long)runs[i].id, runs[i].result.message);
    status = json ? write_json(&t, json) : CLI_OK;
done:
    transfer_free(&t);
    free(runs);
    ledger_close(l);
    return status;
}
