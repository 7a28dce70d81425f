/* See live_report.h. The points are kept in memory: a page of a long run is drawn without reading its files again. */
#include "report/live_report.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "record/run_record.h"
#include "report/report.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/file.h"

const double live_report_share = 0.02;

typedef struct live {
    const run_dir *dir;
    int64_t every;
    run_record run;
    double drawn; /* clock, when the last page was done; the start of the run before the first */
    double took;  /* seconds, to draw it */
    bool going;   /* the last page reloads itself */
} live;

/* Points and norms of the run before it was resumed. */
static scion_status sink_start(void *ctx, const run_event *e, scion_error *err)
{
    live *v = ctx;
    (void)err;
    if (trainer_about(e->t).step > 0)
        run_record_read(&v->run, v->dir->path, NULL); /* what is damaged was refused before, or is drawn without */
    mistakes_free(v->run.wrong);
    v->run.wrong = NULL;
    v->run.wrong_damaged.message[0] = '\0';
    file_name(v->dir->path, NULL, v->run.name, sizeof v->run.name);
    v->run.ended = false;
    v->run.configured = true;
    v->run.c = *trainer_about(e->t).config;
    v->run.result = run_result_empty();
    v->run.result.seconds = NAN;
    v->run.result.steps = trainer_about(e->t).steps;
    v->run.result.parameters = trainer_about(e->t).parameters;
    v->drawn = clock_now();
    return SCION_OK;
}

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for the points of the report");
}

static scion_status draw(live *v, scion_error *err)
{
    static const double shortest = 5, longest = 600; /* seconds between reloads */
    char path[RUN_FILE];
    const double begin = clock_now(), since = ceil(begin - v->drawn);
    RETURN_IF_FAILED(run_dir_file(v->dir->path, "report.html", path, err));
    const scion_status status =
        report_write_live(&v->run, path, (int)fmin(longest, fmax(shortest, since)), (double)time(NULL), err);
    v->drawn = clock_now();
    v->took = v->drawn - begin;
    v->going = v->going || status == SCION_OK;
    return status;
}

static scion_status sink_step(void *ctx, const run_event *e, scion_error *err)
{
    live *v = ctx;
    const bool due = e->point->step % v->every == 0 || !v->going;
    const bool rested = clock_now() - v->drawn >= v->took / live_report_share;
    if ((e->log || due) && !run_curves_add_point(&v->run.curves, e->point))
        return no_memory(err);
    return due && rested ? draw(v, err) : SCION_OK;
}

static scion_status sink_validation(void *ctx, const run_event *e, scion_error *err)
{
    live *v = ctx;
    return run_curves_add_point(&v->run.curves, e->point) ? SCION_OK : no_memory(err);
}

static scion_status sink_norms(void *ctx, const run_event *e, scion_error *err)
{
    live *v = ctx;
    for (int64_t i = 0; i < e->count; i++)
        if (!run_curves_add_norm(&v->run.curves, &e->norms[i]))
            return no_memory(err);
    return SCION_OK;
}

/* The page of the files, as scion report draws it. */
static scion_status draw_last(live *v, scion_error *err)
{
    const char *source = v->dir->path;
    char path[RUN_FILE];
    RETURN_IF_FAILED(run_dir_file(source, "report.html", path, err));
    v->going = false;
    return report_write(&source, 1, path, NULL, err);
}

static scion_status sink_end(void *ctx, const run_event *e, scion_error *err)
{
    (void)e;
    return draw_last(ctx, err);
}

scion_status live_report_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err)
{
    *out = (run_sink){.ctx = NULL};
    if (c->run.report < 1)
        return SCION_OK;
    live *v = calloc(1, sizeof *v);
    if (!v)
        return no_memory(err);
    v->dir = dir;
    v->every = c->run.report;
    *out = (run_sink){.on = {[RUN_STARTS] = sink_start,
                             [RUN_STEPPED] = sink_step,
                             [RUN_VALIDATED] = sink_validation,
                             [RUN_MEASURED] = sink_norms,
                             [RUN_ENDED] = sink_end},
                      .ctx = v};
    return SCION_OK;
}

void live_report_close(run_sink *sink)
{
    live *v = sink->ctx;
    if (!v)
        return;
    if (v->going)
        draw_last(v, NULL);
    run_record_free(&v->run);
    free(v);
}
