/* See sweep_progress.h. */
#include "sweep_progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/grid.h"

static void tell_end(sweep_view *v, const ledger_run *r, const char *text)
{
    char took[16], validation[32] = "", accuracy[32] = "";
    const ledger_result *e = &r->result;
    if (!isnan(e->val_loss))
        snprintf(validation, sizeof validation, "  validation %.4f", e->val_loss);
    if (!isnan(e->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", 100 * e->accuracy);
    if (r->state == LEDGER_DONE)
        cli_progress_show(&v->progress, true, "%-9s %-44s  loss %.4f%s%s  %s", "done", text, e->loss, validation,
                          accuracy, cli_duration(e->seconds, took));
    else
        cli_progress_show(&v->progress, true, "%-9s %-44s  %s", ledger_state_name(r->state), text, e->message);
}

/* Room for all runs; what had ended when the sweep began is not told again. */
static bool make_room(sweep_view *v, const sweep_progress *p)
{
    bool *more = realloc(v->told, (size_t)p->run_count * sizeof *more);
    if (!more)
        return false;
    for (int64_t i = v->room; i < p->run_count; i++)
        more[i] = v->room == 0 && p->runs[i].state >= LEDGER_DONE;
    v->told = more;
    v->room = p->run_count;
    v->column_count = grid_naming(&p->runs[0].c, sizeof *p->runs, p->run_count, NULL, v->columns, SWEEP_COLUMNS);
    return true;
}

void sweep_view_show(void *context, const sweep_progress *p)
{
    sweep_view *v = context;
    char text[256], running[96] = "", left[16];
    if (p->run_count > v->room && !make_room(v, p))
        return;
    for (int64_t i = 0; i < p->run_count; i++) {
        const ledger_run *r = &p->runs[i];
        if (r->kind != LEDGER_TRAINING)
            continue;
        grid_label(&r->c, v->columns, v->column_count, text, sizeof text);
        if (r->state == LEDGER_RUNNING && r->result.steps > 0 && !running[0])
            snprintf(running, sizeof running, "  now %.44s: step %lld/%lld", text, (long long)r->result.step,
                     (long long)r->result.steps);
        if (r->state < LEDGER_DONE || v->told[i])
            continue;
        v->told[i] = true;
        tell_end(v, r, text);
    }
    const int64_t ended = p->count[LEDGER_DONE] + p->count[LEDGER_DIVERGED] + p->count[LEDGER_FAILED];
    cli_progress_show(&v->progress, false, "%lld of %lld runs%s  %s left", (long long)ended,
                      (long long)(ended + p->count[LEDGER_WAITING] + p->count[LEDGER_RUNNING]), running,
                      isnan(p->left) ? "?" : cli_duration(p->left, left));
}

void sweep_view_free(sweep_view *v)
{
    free(v->told);
    v->told = NULL;
}
