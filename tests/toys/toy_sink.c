/* A toy sink: a line "STEP LOSS" for every step into steps.txt of the run's folder. Its
 * functions and the second row of the table below are all that it takes. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "run/metrics_sink.h"
#include "run/sinks.h"

static scion_status write_step(void *ctx, const run_event *e, scion_error *err)
{
    (void)err;
    fprintf(ctx, "%lld %.17g\n", (long long)e->point->step, e->point->loss);
    return SCION_OK;
}

static scion_status open_steps(run_sink *out, const run_dir *dir, const config *c, scion_error *err)
{
    const int fd = openat(dir->fd, "steps.txt", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    (void)c;
    (void)err;
    *out = (run_sink){.on = {[RUN_STEPPED] = write_step}, .ctx = fd >= 0 ? fdopen(fd, "a") : NULL};
    return SCION_OK;
}

static void close_steps(run_sink *sink)
{
    fclose(sink->ctx);
}

const sink_row sink_rows[] = {
    {"metrics", metrics_sink_open, metrics_sink_close},
    {"steps", open_steps, close_steps},
    {.name = NULL},
};
