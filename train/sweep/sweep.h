/* Trains the waiting runs of a ledger, each in a process of its own: a run that crashes takes nothing with it. */
#ifndef TRAIN_SWEEP_SWEEP_H
#define TRAIN_SWEEP_SWEEP_H

#include "sweep/ledger.h"

enum { SWEEP_JOBS = 64 };

typedef struct sweep_progress {
    int64_t count[RUN_STATES]; /* of the runs that the sweep is about, by state */
    double seconds, left;      /* since the sweep began; until it ends, NAN: not known yet */
    const ledger_run *runs;    /* these, while they are shown; NULL afterwards */
    int64_t run_count;
} sweep_progress;

typedef struct sweep_options {
    const int64_t *only; /* ids of the runs that it is about, ascending; NULL: all of the ledger */
    int64_t only_count;
    int jobs, threads;     /* processes, and threads of all of them together; 0: one, all */
    double seconds;        /* no run is begun after that time; 0: no limit */
    double forecast;       /* estimated seconds of all runs (sweep_estimate); 0: none */
    bool together;         /* other processes work on the same runs: wait for theirs too */
    bool (*stopped)(void); /* asked often; may be NULL */
    void (*show)(void *context, const sweep_progress *p); /* about once a second; may be NULL */
    /* Called for warnings of runs (unreadable data files), once for each text, at most DATA_WARNINGS times. May be
     * NULL. */
    void (*warn)(void *context, const char *message);
    void *context;
} sweep_options;

/* Returns when no run is waiting or running here, when the time is up, or when stopped (running runs wait again).
 * *end may be NULL. OK even if runs failed: see the counts. No OpenMP region may have been opened before. */
scion_status sweep_work(const char *path, const sweep_options *o, sweep_progress *end, scion_error *err);

/* Seconds for all configurations with `jobs` processes that share `threads` (0: all). Configurations of one size
 * (model, batch, block) are measured once. ESTOPPED: a signal came. Forks: no OpenMP region may have been opened
 * before. */
scion_status sweep_estimate(const config *points, int64_t count, int jobs, int threads, double *seconds,
                            scion_error *err);

/* Trains one configuration, as scion train would without a folder, and fills in the result (which `stop` may read)
 * and the curves, which the caller frees. `stop` is called often (NULL: never); true ends the run, whose state is
 * then RUN_RUNNING. `warn` may be NULL. ctx is passed to both. */
void sweep_train(ledger_run *run, run_curves *curves, bool (*stop)(void *ctx),
                 void (*warn)(void *ctx, const char *message), void *ctx);

#endif
