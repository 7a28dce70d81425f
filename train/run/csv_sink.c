/* See csv_sink.h. Rows are the points of metrics.jsonl; when a run starts, the file is made anew from these, so that
 * both have the same steps. */
#include "run/csv_sink.h"

#include <stdlib.h>

#include "record/metrics.h"
#include "record/run_record.h"
#include "util/fail.h"

typedef struct csv_folder {
    const run_dir *dir;
    metrics *m; /* opened when the run starts */
} csv_folder;

/* A damaged metrics.jsonl was refused by its own sink; one without points is no failure. */
static scion_status sink_start(void *ctx, const run_event *e, scion_error *err)
{
    csv_folder *to = ctx;
    run_record before = {.ended = false};
    if (trainer_about(e->t).step > 0)
        run_record_read(&before, to->dir->path, NULL);
    const scion_status status =
        metrics_csv_open(&to->m, to->dir->fd, to->dir->path, &before.curves, trainer_about(e->t).unit, err);
    run_record_free(&before);
    return status;
}

static scion_status sink_point(void *ctx, const run_event *e, scion_error *err)
{
    const csv_folder *to = ctx;
    return e->log || run_is_validation(e->point) ? metrics_csv_point(to->m, e->point, err) : SCION_OK;
}

static scion_status sink_saving(void *ctx, const run_event *e, scion_error *err)
{
    const csv_folder *to = ctx;
    (void)e;
    return metrics_flush(to->m, err);
}

scion_status csv_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err)
{
    csv_folder *to = calloc(1, sizeof *to);
    (void)c;
    if (!to)
        return train_fail(err, SCION_ENOMEM, "out of memory for metrics.csv");
    to->dir = dir;
    *out = (run_sink){.on = {[RUN_STARTS] = sink_start,
                             [RUN_STEPPED] = sink_point,
                             [RUN_VALIDATED] = sink_point,
                             [RUN_SAVING] = sink_saving},
                      .ctx = to};
    return SCION_OK;
}

void csv_sink_close(run_sink *sink)
{
    csv_folder *to = sink->ctx;
    metrics_close(to->m);
    free(to);
}
