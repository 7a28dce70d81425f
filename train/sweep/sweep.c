/* See sweep.h. The process that shows progress forks one process per run, which takes a run from the ledger, trains
 * it, writes the end and is gone: a crash costs one attempt at one run, and the memory that a run needed is its own.
 * No connection to the ledger is open across a fork. */
#include "sweep/sweep.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/fail.h"
#include "base/clock.h"

/* How a worker ends. */
enum { WORKED = 0, NOTHING_WAITS = 10, BROKEN = 11 };

/* ---- The worker ---- */

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

typedef struct worker {
    ledger *l;
    ledger_run run;
    bool lost;
} worker;

static bool beat(void *context)
{
    worker *w = context;
    scion_error err;
    return !asked_to_stop && ledger_beat(w->l, &w->run, &w->lost, &err) == SCION_OK && !w->lost;
}

/* Takes a run and brings it to its end. Errors of the ledger go to a pipe that the parent reads. */
static int work(const char *path, int threads, scion_error *err)
{
    worker w = {.l = NULL};
    sweep_curves curves;
    bool found;
    if (ledger_open(&w.l, path, false, err) != SCION_OK || ledger_take(w.l, &w.run, &found, err) != SCION_OK) {
        ledger_close(w.l);
        return BROKEN;
    }
    if (!found) {
        ledger_close(w.l);
        return NOTHING_WAITS;
    }
    w.run.c.training.threads = threads;
    sweep_train(&w.run, &curves, beat, &w);
    scion_status status = w.lost ? SCION_OK
                          : w.run.state == LEDGER_RUNNING
                              ? ledger_put_back(w.l, &w.run, err)
                              : ledger_finish(w.l, &w.run, curves.points, curves.point_count, curves.norms,
                                              curves.norm_count, &w.lost, err);
    sweep_curves_free(&curves);
    ledger_close(w.l);
    return status == SCION_OK ? WORKED : BROKEN;
}

/* The end of a worker that nobody waits for must not leave it behind: when its parent dies it is told to stop. */
static void become_worker(const char *path, int threads, int report, pid_t parent)
{
    struct sigaction action = {.sa_handler = on_signal};
    scion_error err = {.message = ""};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(WORKED);
    const int status = work(path, threads, &err);
    if (status == BROKEN && write(report, err.message, strlen(err.message)) < 0)
        _exit(BROKEN);
    _exit(status);
}

/* ---- The process that shows progress ---- */

typedef struct crew {
    const char *path;
    int jobs, threads;
    pid_t pid[SWEEP_JOBS];
    int working;
    bool dry;    /* the last to ask found nothing that waits */
    int pipe[2]; /* errors of workers */
    bool broken; /* a worker could not use the ledger */
} crew;

static scion_status hire(crew *c, scion_error *err)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0)
        become_worker(c->path, c->threads, c->pipe[1], parent);
    if (pid < 0)
        return train_fail(err, SCION_ENOMEM, "cannot start a process: %s", strerror(errno));
    c->pid[c->working++] = pid;
    return SCION_OK;
}

/* Takes note of workers that have ended. */
static void reap(crew *c)
{
    bool dry = false, other = false;
    for (int i = 0; i < c->working; i++) {
        int status = 0;
        if (waitpid(c->pid[i], &status, WNOHANG) == 0)
            continue;
        c->pid[i--] = c->pid[--c->working];
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_WAITS)
            dry = true;
        else
            other = true; /* may have died, and its run waits again */
        c->broken = c->broken || (WIFEXITED(status) && WEXITSTATUS(status) == BROKEN);
    }
    c->dry = other ? false : dry || c->dry;
}

static void dismiss(crew *c)
{
    for (int i = 0; i < c->working; i++)
        kill(c->pid[i], SIGTERM);
    for (int i = 0; i < c->working; i++)
        waitpid(c->pid[i], NULL, 0);
    c->working = 0;
}

/* Operations of a run, up to a factor that a sweep does not change. */
static double effort(const config *c)
{
    const bool gpt = strcmp(c->model, "gpt") == 0;
    const double width = (double)config_int(c, "width"), layers = (double)config_int(c, "layers");
    const double matrices = gpt ? 12 * layers * width * width + 130 * width + layers * (double)c->data.block * width
                                : 800 * width + layers * width * width;
    const double samples = (double)(c->training.batch * c->training.accum) * (gpt ? (double)c->data.block : 1);
    return c->training.steps > 0 ? matrices * samples * (double)c->training.steps : matrices * c->training.epochs;
}

/* Seconds that a run will take, by the finished one that is most like it; NAN: none has finished. */
static double foresee(const ledger_run *run, const ledger_run *runs, int64_t count)
{
    const double own = effort(&run->c);
    double nearest = INFINITY, seconds = NAN;
    for (int64_t i = 0; i < count; i++) {
        if (runs[i].state != LEDGER_DONE || runs[i].kind != LEDGER_TRAINING)
            continue;
        const double other = effort(&runs[i].c), distance = fabs(log(own / other));
        if (distance <= nearest) {
            nearest = distance;
            seconds = runs[i].result.seconds * own / other;
        }
    }
    return seconds;
}

/* Fills in p from the ledger, with runs that the caller frees. */
static scion_status look(const crew *c, sweep_progress *p, ledger_run **runs, scion_error *err)
{
    ledger *l;
    scion_status status = ledger_open(&l, c->path, false, err);
    *runs = NULL;
    if (status != SCION_OK)
        return status;
    status = ledger_runs(l, runs, &p->run_count, err);
    ledger_close(l);
    p->runs = *runs;
    memset(p->count, 0, sizeof p->count);
    p->left = 0;
    for (int64_t i = 0; status == SCION_OK && i < p->run_count; i++) {
        const ledger_run *r = &p->runs[i];
        if (r->kind != LEDGER_TRAINING)
            continue;
        const double share = r->result.steps > 0 ? (double)r->result.step / (double)r->result.steps : 0;
        p->count[r->state]++;
        if (r->state == LEDGER_WAITING || r->state == LEDGER_RUNNING)
            p->left += foresee(r, p->runs, p->run_count) * (r->state == LEDGER_RUNNING ? 1 - share : 1);
    }
    p->left /= c->jobs;
    return status;
}

static scion_status show(const crew *c, const sweep_options *o, sweep_progress *p, double begin, scion_error *err)
{
    ledger_run *runs;
    scion_status status = look(c, p, &runs, err);
    p->seconds = clock_now() - begin;
    if (status == SCION_OK && o->show)
        o->show(o->context, p);
    free(runs);
    p->runs = NULL;
    return status;
}

/* Workers that can do nothing say why; the first is enough. */
static scion_status tell_broken(const crew *c, scion_error *err)
{
    char message[256];
    const ssize_t length = read(c->pipe[0], message, sizeof message - 1);
    message[length > 0 ? length : 0] = '\0';
    return train_fail(err, SCION_EINVAL, "%s", length > 0 ? message : "a worker could not use the ledger");
}

static scion_status supervise(crew *c, const sweep_options *o, sweep_progress *p, scion_error *err)
{
    const struct timespec pause = {0, 20000000};
    const double begin = clock_now();
    double looked = -INFINITY, spent = 0;
    scion_status status = SCION_OK;
    for (;;) {
        reap(c);
        const bool late = o->seconds > 0 && clock_now() - begin > o->seconds;
        if (c->broken)
            return tell_broken(c, err);
        if (o->stopped && o->stopped())
            break;
        while (status == SCION_OK && !late && !c->dry && c->working < c->jobs)
            status = hire(c, err);
        if (status != SCION_OK || c->working == 0)
            break;
        if (o->show &&
            clock_now() - looked > fmax(1, 20 * spent)) { /* looking takes at most a twentieth of the time */
            const double before = clock_now();
            status = show(c, o, p, begin, err);
            looked = clock_now();
            spent = looked - before;
        }
        nanosleep(&pause, NULL);
    }
    dismiss(c);
    return status == SCION_OK ? show(c, o, p, begin, err) : status;
}

scion_status sweep_work(const char *path, const sweep_options *o, sweep_progress *end, scion_error *err)
{
    const int threads = scn_threads(o->threads), jobs = o->jobs > 0 ? o->jobs : 1;
    crew c = {.path = path, .jobs = jobs < SWEEP_JOBS ? jobs : SWEEP_JOBS};
    sweep_progress p = {.left = NAN};
    scion_status status =
        pipe(c.pipe) == 0 ? SCION_OK : train_fail(err, SCION_ENOMEM, "no pipe: %s", strerror(errno));
    c.threads = threads / c.jobs > 1 ? threads / c.jobs : 1;
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody learns how a worker ended */
    if (status == SCION_OK) {
        status = supervise(&c, o, &p, err);
        dismiss(&c);
        close(c.pipe[0]);
        close(c.pipe[1]);
    }
    if (end)
        *end = p;
    return status;
}
