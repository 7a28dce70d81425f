/* See metrics_sink.h. */
#include "run/metrics_sink.h"

#include <stdlib.h>

#include "record/mistakes.h"
#include "util/atomic_file.h"
#include "util/fail.h"

/* ---- Into the folder ---- */

typedef struct metrics_folder {
    const run_dir *dir;
    metrics *m; /* opened when the run starts */
} metrics_folder;

static scion_status sink_start(void *ctx, const run_event *e, scion_error *err)
{
    metrics_folder *to = ctx;
    atomic_remove_stale(to->dir->fd, to->dir->path);
    return metrics_open(&to->m, to->dir->fd, to->dir->path, trainer_about(e->t).step, e->at->validation_due, err);
}

static scion_status sink_step(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    return e->log ? metrics_point(to->m, e->point, err) : SCION_OK;
}

static scion_status sink_validation(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    char path[RUN_FILE];
    scion_status status = SCION_OK;
    TRY(metrics_point(to->m, e->point, err));
    if (!e->mistakes)
        return SCION_OK;
    TRY(run_dir_file(to->dir->path, "mistakes.json", path, err));
    TRY(mistakes_save(e->mistakes, to->dir->fd, path, err));
done:
    return status;
}

static scion_status sink_norms(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < e->count; i++)
        status = metrics_norm(to->m, &e->norms[i], err);
    return status;
}

static scion_status sink_saving(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    (void)e;
    return metrics_flush(to->m, err);
}

static scion_status sink_end(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    return metrics_summary(to->dir->fd, to->dir->path, e->result, trainer_about(e->t).config, err);
}

scion_status metrics_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err)
{
    metrics_folder *to = calloc(1, sizeof *to);
    (void)c;
    if (!to)
        return train_fail(err, SCION_ENOMEM, "out of memory for the metrics");
    to->dir = dir;
    *out = (run_sink){.on = {[RUN_STARTS] = sink_start,
                             [RUN_STEPPED] = sink_step,
                             [RUN_VALIDATED] = sink_validation,
                             [RUN_MEASURED] = sink_norms,
                             [RUN_SAVING] = sink_saving,
                             [RUN_ENDED] = sink_end},
                      .ctx = to};
    return SCION_OK;
}

void metrics_sink_close(run_sink *sink)
{
    metrics_folder *to = sink->ctx;
    metrics_close(to->m);
    free(to);
}

/* ---- Printed ----
 * Failures are reported at the end of the program, as for everything that is printed. */

static scion_status print_point(void *ctx, const run_event *e, scion_error *err)
{
    (void)err;
    if (e->log || run_is_validation(e->point))
        metrics_print_point(ctx, e->point);
    fflush(ctx);
    return SCION_OK;
}

static scion_status print_norms(void *ctx, const run_event *e, scion_error *err)
{
    (void)err;
    for (int64_t i = 0; i < e->count; i++)
        metrics_print_norm(ctx, &e->norms[i]);
    fflush(ctx);
    return SCION_OK;
}

static scion_status print_summary(void *ctx, const run_event *e, scion_error *err)
{
    if (!metrics_print_summary(ctx, e->result, trainer_about(e->t).config, false))
        return train_fail(err, SCION_ENOMEM, "out of memory for a line of metrics");
    fflush(ctx);
    return SCION_OK;
}

run_sink metrics_print_sink(FILE *to)
{
    return (run_sink){.on = {[RUN_STEPPED] = print_point,
                             [RUN_VALIDATED] = print_point,
                             [RUN_MEASURED] = print_norms,
                             [RUN_ENDED] = print_summary},
                      .ctx = to};
}
