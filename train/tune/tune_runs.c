/* Trials as runs of a ledger: a tune that was stopped finds its runs done, and several processes may work on one. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "tune/tune.h"
#include "base/clock.h"

/* The runs of `count` trials, one for each seed; NULL: out of memory. */
static config *configs_of(const tune *t, int64_t first, int64_t count)
{
    config *points = malloc((size_t)(count * t->seeds) * sizeof *points);
    for (int64_t i = 0; points && i < count * t->seeds; i++) {
        const tune_trial *trial = &t->trials[first + i / t->seeds];
        points[i] = tune_config(&t->base, &trial->at, tune_share(t, trial->rung));
        points[i].training.seed += (uint64_t)(i % t->seeds);
    }
    return points;
}

/* Adds what is new, and puts back what failed in an earlier attempt: the reason may be gone. */
static scion_status enter(tune_runs *r, const config *points, int64_t count, scion_error *err)
{
    ledger *l = NULL;
    int64_t added = 0, again = 0;
    bool failed = false;
    scion_status status = ledger_open(&l, r->path, true, err);
    if (status == SCION_OK)
        status = ledger_add_all(l, LEDGER_TRAINING, points, count, &added, err);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        ledger_run run;
        bool found;
        status = ledger_find(l, LEDGER_TRAINING, &points[i], &run, &found, err);
        failed = failed || (status == SCION_OK && found && run.state == LEDGER_FAILED);
    }
    if (status == SCION_OK && failed)
        status = ledger_retry(l, false, &again, err);
    r->added += added;
    ledger_close(l);
    return status;
}

/* Adds the run of one seed to its trial, whose worst state it has. */
static void count_run(tune *t, tune_trial *trial, const ledger_run *run)
{
    const bool ended = run->state != LEDGER_WAITING && run->state != LEDGER_RUNNING;
    const double loss = isfinite(run->result.val_loss) ? run->result.val_loss : run->result.loss;
    if (trial->id == 0)
        trial->id = run->id;
    if (!ended)
        trial->state = LEDGER_WAITING;
    else if (trial->state != LEDGER_WAITING && run->state > trial->state)
        trial->state = run->state;
    if (run->state == LEDGER_FAILED && !t->failure[0])
        snprintf(t->failure, sizeof t->failure, "%s", run->result.message);
    if (isfinite(run->result.seconds))
        trial->seconds += run->result.seconds;
    trial->loss += loss / t->seeds;
}

/* Reads what has become of the trials; *waiting: how many have not ended. */
static scion_status look(const tune_runs *r, tune *t, int64_t first, const config *points, int64_t count,
                         int64_t *waiting, scion_error *err)
{
    ledger *l = NULL;
    scion_status status = ledger_open(&l, r->path, false, err);
    *waiting = 0;
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        tune_trial *trial = &t->trials[first + i];
        trial->state = LEDGER_DONE;
        trial->loss = trial->seconds = 0;
        for (int k = 0; status == SCION_OK && k < t->seeds; k++) {
            ledger_run run;
            bool found;
            status = ledger_find(l, LEDGER_TRAINING, &points[i * t->seeds + k], &run, &found, err);
            if (status == SCION_OK && !found)
                status = train_fail(err, SCION_EINVAL, "%s: a run of this search has been removed", r->path);
            if (status == SCION_OK)
                count_run(t, trial, &run);
        }
        if (trial->state == LEDGER_DIVERGED)
            trial->loss = INFINITY;
        else if (trial->state != LEDGER_DONE)
            trial->loss = NAN;
        *waiting += trial->state == LEDGER_WAITING;
    }
    ledger_close(l);
    return status;
}

scion_status tune_measure_runs(void *context, tune *t, int64_t first, int64_t count, scion_error *err)
{
    tune_runs *r = context;
    const struct timespec pause = {0, 300000000};
    int64_t waiting = 0;
    config *points = configs_of(t, first, count);
    scion_status status = points ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
    if (status == SCION_OK)
        status = enter(r, points, count * t->seeds, err);
    if (status == SCION_OK)
        status = look(r, t, first, points, count, &waiting, err);
    while (status == SCION_OK && waiting > 0) {
        sweep_progress at;
        if (r->end > 0 && clock_now() >= r->end) {
            t->time_up = true;
            break;
        }
        r->sweep.seconds = r->end > 0 ? r->end - clock_now() : 0;
        if (r->sweep.seconds < 0.001 && r->end > 0)
            r->sweep.seconds = 0.001; /* 0 would be no limit */
        status = sweep_work(r->path, &r->sweep, &at, err);
        if (status == SCION_OK && r->sweep.stopped && r->sweep.stopped())
            status = train_fail(err, SCION_ESTOPPED, "stopped");
        if (status == SCION_OK)
            status = look(r, t, first, points, count, &waiting, err);
        if (status == SCION_OK && waiting > 0) { /* another process has the rest */
            if (r->sweep.show)
                r->sweep.show(r->sweep.context, &at);
            nanosleep(&pause, NULL);
        }
    }
    free(points);
    return status;
}
