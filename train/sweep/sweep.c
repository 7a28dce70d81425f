/* See sweep.h. The parent shows progress and forks a worker for each run, which takes a run from the ledger, trains
 * it, writes its end and exits: a crash costs one attempt at one run, and its memory is freed. No connection to the
 * ledger is open across a fork. */
#include "sweep/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/fail.h"
#include "run/run.h"
#include "util/clock.h"

/* Exit status of a worker. */
enum { SWEEP_MESSAGE = 256 };
enum { WORKED = 0, NOTHING_WAITS = 10, BROKEN = 11 };

/* ---- The worker ---- */

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

/* Approximate number of points in the curves that a run leaves in the ledger. */
enum { curve_points = 200, norm_points = 10 };

/* A smoothed loss this many times that of the first step will not come back in time: networks begin near the loss of
 * guessing, and a spike that a run recovers from is lower. */
static const double divergence = 3;

/* Collects the curves: the mean of the loss over each interval, validations and norms. */
typedef struct collector {
    run_curves *curves;
    double sum; /* of the losses since the last point */
    int64_t summed;
} collector;

static scion_status out_of_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory");
}

static int64_t interval(const trainer *t, int64_t points)
{
    return scn_max(trainer_about(t).steps / points, 1);
}

static scion_status collect_step(void *ctx, const run_event *e, scion_error *err)
{
    collector *k = ctx;
    run_point mean = *e->point;
    k->sum += mean.loss;
    k->summed++;
    if (mean.step % interval(e->t, curve_points) != 0 && mean.step != trainer_about(e->t).steps)
        return SCION_OK;
    mean.loss = k->sum / (double)k->summed;
    k->sum = 0;
    k->summed = 0;
    return run_curves_add_point(k->curves, &mean) ? SCION_OK : out_of_memory(err);
}

static scion_status collect_validation(void *ctx, const run_event *e, scion_error *err)
{
    collector *k = ctx;
    run_point point = *e->point;
    if (!trainer_about(e->t).reports_accuracy)
        point.accuracy = point.top5 = NAN;
    return run_curves_add_point(k->curves, &point) ? SCION_OK : out_of_memory(err);
}

static scion_status collect_norms(void *ctx, const run_event *e, scion_error *err)
{
    collector *k = ctx;
    for (int64_t i = 0; i < e->count; i++)
        if (!run_curves_add_norm(k->curves, &e->norms[i]))
            return out_of_memory(err);
    return SCION_OK;
}

static void fail_run(ledger_run *run, const char *message)
{
    run->result.state = RUN_FAILED;
    snprintf(run->result.message, sizeof run->result.message, "%s", message);
}

void sweep_train(ledger_run *run, run_curves *curves, bool (*stop)(void *ctx),
                 void (*warn)(void *ctx, const char *message), void *ctx)
{
    collector k = {.curves = curves};
    const run_sink sink = {
        .on = {[RUN_STEPPED] = collect_step, [RUN_VALIDATED] = collect_validation, [RUN_MEASURED] = collect_norms},
        .ctx = &k};
    const run_sink *const sinks[] = {&sink};
    run_policy policy = {.validate = true,
                         .eval_every = run->c.run.eval_every,
                         .divergence = divergence,
                         .stop = stop,
                         .stop_ctx = ctx,
                         .warn = warn,
                         .warn_ctx = ctx,
                         .began = clock_now()};
    trainer *t;
    int failed;
    scion_error err;
    *curves = (run_curves){.points = NULL};
    run->result = run_result_empty();
    if (config_check(&run->c, &err) != SCION_OK || /* a ledger is a file: it may hold anything */
        trainer_create(&t, &run->c, NULL, NULL, &err) != SCION_OK) {
        fail_run(run, err.message);
        return;
    }
    policy.norm_every = interval(t, norm_points);
    run_train(t, &policy, sinks, 1, &run->result, &failed, NULL);
    if (!trainer_about(t).reports_accuracy)
        run->result.accuracy = run->result.plain_accuracy = run->result.top5 = NAN;
    trainer_free(t);
    if (failed > 0 && run->result.state == RUN_DONE)
        fail_run(run, "out of memory");
}

typedef struct worker {
    ledger *l;
    ledger_run run;
    double heartbeat; /* clock of the last one */
    bool lost;
    int report; /* pipe for its messages */
} worker;

/* Sends a message to the process that shows progress. Each is one write of fixed size, so that messages do not mix.
 * If the pipe is full, the message is lost: a worker never waits. */
static void worker_tells(void *ctx, const char *message)
{
    const worker *w = ctx;
    char text[SWEEP_MESSAGE] = "";
    snprintf(text, sizeof text, "%s", message);
    if (write(w->report, text, sizeof text) < 0)
        return;
}

static const double heartbeat_s = 1;

static bool worker_stops(void *ctx)
{
    worker *w = ctx;
    scion_error err;
    if (asked_to_stop)
        return true;
    if (clock_now() - w->heartbeat < heartbeat_s)
        return false;
    w->heartbeat = clock_now();
    return ledger_heartbeat(w->l, &w->run, &w->lost, &err) != SCION_OK || w->lost;
}

/* Takes a run and brings it to its end. */
static int work(const char *path, const sweep_options *o, int threads, int report)
{
    worker w = {.heartbeat = clock_now(), .report = report};
    run_curves curves;
    bool found = false;
    scion_error err;
    scion_status status;
    TRY(ledger_open(&w.l, path, false, &err));
    if (o->only)
        TRY(ledger_only(w.l, o->only, o->only_count, &err));
    TRY(ledger_take(w.l, &w.run, &found, &err));
    if (!found)
        goto done;
    w.run.c.training.threads = threads;
    sweep_train(&w.run, &curves, worker_stops, worker_tells, &w);
    if (!w.lost && w.run.result.state == RUN_RUNNING)
        status = ledger_put_back(w.l, &w.run, &err);
    else if (!w.lost)
        status = ledger_finish(w.l, &w.run, &curves, &w.lost, &err);
    run_curves_free(&curves);
done:
    if (status != SCION_OK)
        worker_tells(&w, err.message);
    ledger_close(w.l);
    return status != SCION_OK ? BROKEN : found ? WORKED : NOTHING_WAITS;
}

/* A worker stops when its parent dies. Its warnings, and why it cannot use the ledger, go to a pipe that the parent
 * reads. */
static void become_worker(const char *path, const sweep_options *o, int threads, int report, pid_t parent)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(WORKED);
    _exit(work(path, o, threads, report));
}

/* ---- The process that shows progress ---- */

typedef struct pool {
    const char *path;
    const sweep_options *o;
    int jobs, threads;
    pid_t pid[SWEEP_JOBS];
    int working;
    double begin;                            /* clock */
    bool empty;                              /* the last worker that asked found no waiting run */
    int pipe[2];                             /* messages of workers, SWEEP_MESSAGE bytes each */
    char message[SWEEP_MESSAGE];             /* the last of these */
    bool broken;                             /* a worker could not use the ledger */
    char said[DATA_WARNINGS][SWEEP_MESSAGE]; /* warnings that were passed on */
    int said_count;
    ledger_run *runs; /* that the sweep is about, as they were last read */
    double *costs;    /* of each; NULL: not read yet */
    int64_t run_count;
} pool;

static scion_status spawn(pool *c, scion_error *err)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0)
        become_worker(c->path, c->o, c->threads, c->pipe[1], parent);
    if (pid < 0)
        return train_fail(err, SCION_ENOMEM, "cannot start a process: %s", strerror(errno));
    c->pid[c->working++] = pid;
    return SCION_OK;
}

/* Takes note of workers that have ended. */
static void wait_ended(pool *c)
{
    bool empty = false, other = false;
    for (int i = 0; i < c->working; i++) {
        int status = 0;
        if (waitpid(c->pid[i], &status, WNOHANG) == 0)
            continue;
        c->pid[i--] = c->pid[--c->working];
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_WAITS)
            empty = true;
        else
            other = true; /* may have died, and its run waits again */
        c->broken = c->broken || (WIFEXITED(status) && WEXITSTATUS(status) == BROKEN);
    }
    c->empty = other ? false : empty || c->empty;
}

static void stop_workers(pool *c)
{
    for (int i = 0; i < c->working; i++)
        kill(c->pid[i], SIGTERM);
    for (int i = 0; i < c->working; i++)
        waitpid(c->pid[i], NULL, 0);
    c->working = 0;
}

/* ---- Time left ---- */

/* Operations of a run, up to a factor that a sweep does not change. */
static double cost(const config *c)
{
    const model_row *m = config_model(c);
    const double sample = m->cost ? m->cost(config_model_options(c), c->data.block) : 1;
    return c->training.steps > 0 ? sample * (double)(c->training.batch * c->training.accum * c->training.steps)
                                 : sample * c->training.epochs;
}

/* Seconds of a run from beginning to end, of one under way by its steps so far; NAN: not known yet. */
static double seconds_of(const ledger_run *r)
{
    if (r->kind != LEDGER_TRAINING)
        return NAN;
    if (r->result.state == RUN_RUNNING && r->result.step > 0)
        return r->result.seconds * (double)r->result.steps / (double)r->result.step;
    return r->result.state == RUN_DONE ? r->result.seconds : NAN;
}

/* Seconds that a run will take, by the one whose cost is nearest; NAN: none is known. */
static double estimate_seconds(const pool *c, int64_t run)
{
    double nearest = INFINITY, seconds = NAN;
    for (int64_t i = 0; i < c->run_count; i++) {
        const double known = seconds_of(&c->runs[i]), distance = fabs(log(c->costs[run] / c->costs[i]));
        if (!isnan(known) && distance <= nearest) {
            nearest = distance;
            seconds = known * c->costs[run] / c->costs[i];
        }
    }
    return seconds;
}

/* True if an open run costs more than all runs whose time is known: small runs say little about it. */
static bool costliest_unknown(const pool *c)
{
    double known = 0, open = 0;
    for (int64_t i = 0; i < c->run_count; i++)
        if (!isnan(seconds_of(&c->runs[i])))
            known = fmax(known, c->costs[i]);
        else if (c->runs[i].result.state < RUN_DONE)
            open = fmax(open, c->costs[i]);
    return open > known;
}

/* ---- Progress ---- */

/* Reads the runs that the sweep is about, with their configurations. */
static scion_status read_runs(pool *c, ledger *l, scion_error *err)
{
    free(c->runs);
    free(c->costs);
    c->costs = NULL;
    const scion_status status = ledger_runs(l, &c->runs, &c->run_count, err);
    if (status != SCION_OK)
        return status;
    c->costs = calloc((size_t)c->run_count + 1, sizeof *c->costs);
    if (!c->costs)
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)c->run_count);
    for (int64_t i = 0; i < c->run_count; i++)
        c->costs[i] = cost(&c->runs[i].c);
    return SCION_OK;
}

/* Brings the runs up to date, and counts them. */
static scion_status look(pool *c, sweep_progress *p, scion_error *err)
{
    ledger *l = NULL;
    bool same = false;
    scion_status status = SCION_OK;
    TRY(ledger_open(&l, c->path, false, err));
    if (c->o->only)
        TRY(ledger_only(l, c->o->only, c->o->only_count, err));
    if (c->costs)
        TRY(ledger_refresh(l, c->runs, c->run_count, &same, err));
    if (!same)
        TRY(read_runs(c, l, err));
    *p = (sweep_progress){.seconds = clock_now() - c->begin, .runs = c->runs, .run_count = c->run_count};
    for (int64_t i = 0; i < c->run_count; i++) {
        const run_result *r = &c->runs[i].result;
        const double share = r->state == RUN_RUNNING && r->steps > 0 ? (double)r->step / (double)r->steps : 0;
        if (c->runs[i].kind != LEDGER_TRAINING)
            continue;
        p->count[r->state]++;
        if (r->state < RUN_DONE)
            p->left += estimate_seconds(c, i) * (1 - share) / c->jobs;
    }
    if (c->o->forecast > 0 && costliest_unknown(c))
        p->left = fmax(0, c->o->forecast - p->seconds);
done:
    ledger_close(l);
    return status;
}

static scion_status show(pool *c, sweep_progress *p, scion_error *err)
{
    const scion_status status = look(c, p, err);
    if (status == SCION_OK && c->o->show)
        c->o->show(c->o->context, p);
    return status;
}

/* Passes on a warning once: all runs of a sweep read the same files. */
static void pass_warning(pool *c, const char *message)
{
    for (int i = 0; i < c->said_count; i++)
        if (strcmp(c->said[i], message) == 0)
            return;
    if (!c->o->warn || c->said_count == DATA_WARNINGS)
        return;
    snprintf(c->said[c->said_count++], SWEEP_MESSAGE, "%s", message);
    c->o->warn(c->o->context, message);
}

/* Reads the next message of a worker into c->message; false: none. */
static bool next_message(pool *c)
{
    char message[SWEEP_MESSAGE];
    if (read(c->pipe[0], message, SWEEP_MESSAGE) != SWEEP_MESSAGE)
        return false;
    snprintf(c->message, SWEEP_MESSAGE, "%.*s", SWEEP_MESSAGE - 1, message);
    return true;
}

static void pass_warnings(pool *c)
{
    while (next_message(c))
        pass_warning(c, c->message);
}

/* Reports why workers could not go on: their last message says so, which may have been passed on already. */
static scion_status report_broken(pool *c, scion_error *err)
{
    while (next_message(c))
        ;
    return train_fail(err, SCION_EINVAL, "%s", c->message[0] ? c->message : "a worker could not use the ledger");
}

/* True if runs are left with other processes, or wait because one of those died. */
static bool others_work(pool *c, sweep_progress *p, scion_error *err)
{
    const struct timespec pause = {0, 300000000};
    if (look(c, p, err) != SCION_OK)
        return false;
    nanosleep(&pause, NULL);
    c->empty = false; /* ask again: runs of dead workers are taken over */
    return p->count[RUN_WAITING] + p->count[RUN_RUNNING] > 0;
}

static scion_status supervise(pool *c, sweep_progress *p, scion_error *err)
{
    const sweep_options *o = c->o;
    const struct timespec pause = {0, 20000000};
    double looked = -INFINITY, spent = 0;
    scion_status status = SCION_OK;
    for (;;) {
        wait_ended(c);
        const bool late = o->seconds > 0 && clock_now() - c->begin > o->seconds;
        if (c->broken)
            return report_broken(c, err);
        pass_warnings(c);
        if (o->stopped && o->stopped())
            break;
        while (status == SCION_OK && !late && !c->empty && c->working < c->jobs)
            status = spawn(c, err);
        if (status == SCION_OK && c->working == 0 && o->together && !late && others_work(c, p, err))
            continue;
        if (status != SCION_OK || c->working == 0)
            break;
        if (o->show &&
            clock_now() - looked > fmax(1, 20 * spent)) { /* looking takes at most a twentieth of the time */
            const double before = clock_now();
            status = show(c, p, err);
            looked = clock_now();
            spent = looked - before;
        }
        nanosleep(&pause, NULL);
    }
    stop_workers(c);
    pass_warnings(c);
    return status == SCION_OK ? show(c, p, err) : status;
}

scion_status sweep_work(const char *path, const sweep_options *o, sweep_progress *end, scion_error *err)
{
    const int jobs = (int)scn_min(scn_max(o->jobs, 1), SWEEP_JOBS);
    pool c = {.path = path,
              .o = o,
              .jobs = jobs,
              .threads = (int)scn_max(scn_threads(o->threads) / jobs, 1),
              .begin = clock_now()};
    sweep_progress p = {.left = NAN};
    if (pipe(c.pipe) != 0)
        return train_fail(err, SCION_ENOMEM, "no pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) /* this process has both ends: neither may block */
        fcntl(c.pipe[i], F_SETFL, O_NONBLOCK);
    signal(SIGCHLD, SIG_DFL); /* if ignored, the exit status of workers would be lost */
    const scion_status status = supervise(&c, &p, err);
    stop_workers(&c);
    for (int i = 0; i < 2; i++)
        close(c.pipe[i]);
    free(c.runs);
    free(c.costs);
    p.runs = NULL;
    if (end)
        *end = p;
    return status;
}
