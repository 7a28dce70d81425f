/* One run: steps, validations, norms and checkpoints, until it ends, diverges, is stopped or out of time.
 *
 * `run_train` is the only loop of the program. A policy says what to do when; sinks learn of events, and put
 * it into a folder (metrics.h), a ledger, a line on the terminal. Sinks never change the run. */
#ifndef TRAIN_RUN_RUN_H
#define TRAIN_RUN_RUN_H

#include "record/run_dir.h"
#include "record/run_metrics.h"
#include "trainer/trainer.h"

/* Events of a run, and the members of run_event that they set beside t and at. */
typedef enum run_event_kind {
    RUN_STARTS,     /* before the first step; a sink's failure is the run's */
    RUN_STEPPED,    /* point, step, log */
    RUN_STEPPING,   /* in a step: `done` of its `count` micro-batches */
    RUN_VALIDATED,  /* point, mistakes */
    RUN_VALIDATING, /* in a validation: `done` of its `count` batches */
    RUN_MEASURED,   /* norms, count: all parameters, after one step */
    RUN_SAVING,     /* before a checkpoint is written: lines about the steps before it go to the disk first */
    RUN_SAVED,      /* path */
    RUN_ENDED,      /* result; not after a failure */
    RUN_EVENTS
} run_event_kind;

typedef struct run_event {
    const trainer *t;
    const run_position *at;
    const run_point *point;
    const step_report *step;
    bool log; /* the policy's log interval falls on this step */
    int64_t done, count;
    const mistakes *mistakes; /* of images at the end of the run; NULL: none were collected */
    const run_norm *norms;
    const char *path;
    const run_result *result;
} run_event;

/* A sink learns of events: functions by kind, or NULL. A failure is reported once, and the function is called again:
 * the next line may fit on the disk. */
typedef scion_status run_listener(void *ctx, const run_event *e, scion_error *err);
typedef struct run_sink {
    run_listener *on[RUN_EVENTS];
    void *ctx;
} run_sink;

/* All zero: steps, and nothing else. */
typedef struct run_policy {
    /* Intervals in steps; 0: never. Also after the first step of the process (log) and the last of the run. */
    int64_t log_every, norm_every;
    bool validate; /* at the end, and after every eval_every steps (0: only then) */
    int64_t eval_every;
    /* Saves checkpoints: at the end, when stopped, and after every save_every steps. One that falls on a validation
     * is written before it, and after it again with its outcome. */
    bool save;
    const run_dir *dir;       /* where rank 0 writes them */
    int64_t save_every, keep; /* keep: newest checkpoints that stay, and the best; 0: one, and no best */
    int64_t steps;            /* at most that many steps in this process, 0: any number */
    double seconds;           /* at most that long; 0: no limit */
    double divergence;        /* ends a run whose mean loss exceeds that many times the first one, + 1; 0: never */
    /* Asked often: between micro-batches and batches of a validation. May be NULL. */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    void (*warn)(void *ctx, const char *message); /* a sink failed; may be NULL */
    void *warn_ctx;
    double began;           /* clock_now() when the work on this run began; 0: with this call */
    double elapsed;         /* seconds of the run before it was resumed */
    run_position *position; /* of the run, changed as it goes; NULL: it starts */
} run_policy;

/* The policy of scion train, as the options say. */
run_policy run_policy_of(const config *c);

/* Trains until the end. *r is filled in as the run goes, so that stop() may look at it. OK: r->state is DONE,
 * DIVERGED (by the policy) or UNFINISHED (stopped; saved, if the policy saves). An error is the run's, which is saved
 * as it was after its last good step, unless its numbers are not finite or its averages hold parts of a step;
 * *sinks_failed (may be NULL) counts sinks that failed, which is no error. A run stopped in the middle of a step is
 * as before that step (with `light` on one rank, it goes on in it); one stopped in a validation repeats it when it is
 * resumed. */
scion_status run_train(trainer *t, const run_policy *policy, const run_sink *const *sinks, int count, run_result *r,
                       int *sinks_failed, scion_error *err);

/* ---- Norms ---- */

/* Measures all parameters, as many as the trainer has. */
scion_status run_norms(const trainer *t, run_norm *norms, scion_error *err);

#endif
