/* See tensorboard_sink.h. Tags are the keys of the metric rows; those of norms have the parameter behind them. */
#include "run/tensorboard_sink.h"

#include <stdlib.h>
#include <time.h>

#include "record/event_file.h"
#include "util/fail.h"
#include "util/file.h"

typedef struct board {
    char folder[RUN_FILE];
    event_file *f; /* opened when the run starts */
} board;

static scion_status sink_start(void *ctx, const run_event *e, scion_error *err)
{
    board *b = ctx;
    return event_file_open(&b->f, b->folder, trainer_about(e->t).step, err);
}

static scion_status sink_point(void *ctx, const run_event *e, scion_error *err)
{
    const board *b = ctx;
    const run_point *p = e->point;
    char key[METRIC_KEY];
    if (!e->log && !run_is_validation(p))
        return SCION_OK;
    event_file_begin(b->f, p->step, p->time);
    for (const run_metric *m = run_point_metrics; m->key; m++)
        if (metric_is_curve(m))
            event_file_add(b->f, metric_key(m, p->unit, key), NULL, metric_value(m, p));
    return event_file_end(b->f, err);
}

/* Norms, their bounds and the largest share of a bound. */
static scion_status sink_norms(void *ctx, const run_event *e, scion_error *err)
{
    const board *b = ctx;
    const run_norm *worst = run_norms_worst(e->norms, e->count);
    if (e->count == 0)
        return SCION_OK;
    event_file_begin(b->f, e->norms[0].step, (double)time(NULL));
    for (int64_t i = 0; i < e->count; i++)
        for (const run_metric *m = run_norm_metrics; m->key; m++)
            if (metric_is_curve(m))
                event_file_add(b->f, m->key, e->norms[i].name, metric_value(m, &e->norms[i]));
    if (worst)
        event_file_add(b->f, "worst_share_of_bound", NULL, run_norm_share(worst));
    return event_file_end(b->f, err);
}

scion_status tensorboard_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err)
{
    char name[CONFIG_TEXT];
    if (!c->run.tensorboard[0])
        return SCION_OK;
    board *b = calloc(1, sizeof *b);
    if (!b)
        return train_fail(err, SCION_ENOMEM, "out of memory for the events of TensorBoard");
    file_name(dir->path, NULL, name, sizeof name);
    const scion_status status = run_dir_file(c->run.tensorboard, name, b->folder, err);
    if (status != SCION_OK) {
        free(b);
        return status;
    }
    *out = (run_sink){.on = {[RUN_STARTS] = sink_start,
                             [RUN_STEPPED] = sink_point,
                             [RUN_VALIDATED] = sink_point,
                             [RUN_MEASURED] = sink_norms},
                      .ctx = b};
    return SCION_OK;
}

void tensorboard_sink_close(run_sink *sink)
{
    board *b = sink->ctx;
    event_file_close(b->f);
    free(b);
}
