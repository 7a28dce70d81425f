/* Estimates how long runs will take on this machine, by a few steps of each size. See sweep.h. */
#include "sweep/sweep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/fail.h"
#include "run/run.h"
#include "util/clock.h"

enum { timed_steps = 2 };

/* Result that a process measuring one size sends back. */
typedef struct probe {
    double create, step, evaluation; /* seconds: to begin, of one step, of one batch of validation */
    int64_t steps, passes;           /* of the whole run; forward passes of its validation */
    char message[256];               /* "": it worked */
} probe;

/* The first step is slower, and counts only if there is no other. */
static scion_status time_step(void *ctx, const run_event *e, scion_error *err)
{
    probe *to = ctx;
    const int64_t step = e->point->step;
    (void)err;
    to->step = step <= 2 ? e->point->seconds : to->step + (e->point->seconds - to->step) / (double)(step - 1);
    return SCION_OK;
}

static void measure(const config *c, probe *p)
{
    trainer *t;
    scion_error err = {.message = ""};
    double loss, accuracy, begin = clock_now();
    const run_sink sink = {.on = {[RUN_STEPPED] = time_step}, .ctx = p}, *const sinks[] = {&sink};
    const run_policy policy = {.steps = 1 + timed_steps};
    run_result r;
    scion_status status;
    TRY(trainer_create(&t, c, NULL, NULL, &err));
    p->create = clock_now() - begin;
    TRY(run_train(t, &policy, sinks, 1, &r, NULL, &err));
    p->steps = trainer_about(t).steps;
    p->passes = trainer_validation_passes(t, true);
    begin = clock_now();
    if (p->passes > 0)
        TRY(trainer_evaluate(t, 1, &loss, &accuracy, &err));
    p->evaluation = clock_now() - begin;
done:
    snprintf(p->message, sizeof p->message, "%s", status == SCION_OK ? "" : err.message);
    trainer_free(t);
}

static scion_status measure_apart(const config *c, probe *p, scion_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return train_fail(err, SCION_ENOMEM, "no pipe: %s", strerror(errno));
    const pid_t pid = fork();
    if (pid == 0) {
        measure(c, p);
        _exit(write(ends[1], p, sizeof *p) == (ssize_t)sizeof *p ? 0 : 1);
    }
    close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    const bool stopped = pid > 0 && poll(&answer, 1, -1) < 0; /* Ctrl-C ends poll, but would restart read */
    const bool heard = pid > 0 && !stopped && read(ends[0], p, sizeof *p) == (ssize_t)sizeof *p;
    close(ends[0]);
    if (stopped)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (stopped)
        return train_fail(err, SCION_ESTOPPED, "stopped");
    if (!heard)
        return train_fail(err, SCION_EINVAL, "a trial run of width %lld did not come to an end",
                          (long long)config_int(c, "width"));
    return p->message[0] ? train_fail(err, SCION_EINVAL, "%s", p->message) : SCION_OK;
}

static bool same_size(const config *a, const config *b)
{
    const model_row *row = config_model(a);
    if (row != config_model(b))
        return false;
    for (const option *o = row->options; o && o->key; o++)
        if (!config_same(a, b, config_find(o->key)))
            return false;
    return a->training.batch == b->training.batch && a->data.block == b->data.block &&
           a->training.accum == b->training.accum;
}

/* The number of steps differs between runs of one size. */
static double seconds_of(const config *c, const config *measured, const probe *p)
{
    const double steps = c->training.steps > 0 ? (double)c->training.steps
                         : measured->training.epochs > 0
                             ? (double)p->steps * c->training.epochs / measured->training.epochs
                             : (double)p->steps;
    return p->create + steps * p->step + (double)p->passes * p->evaluation;
}

scion_status sweep_estimate(const config *points, int64_t count, int jobs, int threads, double *seconds,
                            scion_error *err)
{
    bool *counted = calloc((size_t)count + 1, sizeof *counted);
    scion_status status = counted ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
    *seconds = 0;
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        probe p = {.steps = 0};
        config c = points[i];
        if (counted[i])
            continue;
        c.training.threads = scn_max(scn_threads(threads) / jobs, 1);
        status = measure_apart(&c, &p, err);
        for (int64_t k = i; status == SCION_OK && k < count; k++)
            if (!counted[k] && same_size(&points[k], &points[i])) {
                counted[k] = true;
                *seconds += seconds_of(&points[k], &points[i], &p) / jobs;
            }
    }
    free(counted);
    return status;
}
