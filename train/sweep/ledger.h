/* The ledger: an SQLite database of runs. Every run is in it once, with its full configuration, state, result and
 * curves. Processes on one machine, or on several that share a folder, use it at once: a run is taken in one
 * transaction, and the result of a worker that lost its run is not written.
 *
 *     waiting -> running -> done | diverged | failed      running -> waiting: its worker died
 *
 * All times are seconds since 1970. Numbers that are not known are NAN. */
#ifndef TRAIN_SWEEP_LEDGER_H
#define TRAIN_SWEEP_LEDGER_H

#include "config/config.h"
#include "record/run_metrics.h"

typedef struct ledger ledger;

typedef enum ledger_kind {
    LEDGER_TRAINING,
    LEDGER_COORD /* a coordinate check: has coordinates instead of a validation loss */
} ledger_kind;

typedef struct ledger_run {
    int64_t id;
    ledger_kind kind;
    int attempts;
    config c;
    run_result result; /* its state is that of the run */
} ledger_run;

typedef struct ledger_coord {
    int64_t step;
    int64_t place; /* of the layer, in forward order */
    char name[64]; /* layer: the parameter it applies */
    double rms;    /* of the layer's result */
    double change; /* RMS of its change in the last step; NAN: not known, as at step 0 */
} ledger_coord;

/* Opens a ledger; create: makes one where there is no file. Errors name the file: no such file, not a ledger, a newer
 * version, a folder that cannot be written. */
scion_status ledger_open(ledger **out, const char *path, bool create, scion_error *err);
void ledger_close(ledger *l);

/* Adds the runs that are not there yet, in one transaction; *added (may be NULL): how many were new. Two
 * configurations are the same run if they have the same identity (config_identity), whichever version of the program
 * added them. */
scion_status ledger_add(ledger *l, ledger_kind kind, const config *points, int64_t count, int64_t *added,
                        scion_error *err);

/* Finds the ids of configurations, ids[count], ascending. EINVAL: one is not in the ledger. */
scion_status ledger_ids(ledger *l, ledger_kind kind, const config *points, int64_t count, int64_t *ids,
                        scion_error *err);
/* Limits take, retry and runs to these runs of the ledger; NULL: all. */
scion_status ledger_only(ledger *l, const int64_t *ids, int64_t count, scion_error *err);
/* ledger_others counts the waiting training runs outside the limit of ledger_only, ledger_drop removes them (without
 * a limit, all that wait). Runs of dead workers count as waiting. */
scion_status ledger_others(ledger *l, int64_t *count, scion_error *err);
scion_status ledger_drop(ledger *l, int64_t *count, scion_error *err);

/* Takes the next waiting training run, first putting back the runs of workers that died; *found false: none
 * is waiting. A run whose workers died three times is failed instead. */
scion_status ledger_take(ledger *l, ledger_run *run, bool *found, scion_error *err);
/* Stores the progress of a run, as a sign of life; *lost: the run is no longer this worker's. */
scion_status ledger_heartbeat(ledger *l, const ledger_run *run, bool *lost, scion_error *err);
/* Writes the end of a run: run->result and its curves (NULL: none), in one transaction. */
scion_status ledger_finish(ledger *l, const ledger_run *run, const run_curves *curves, bool *lost, scion_error *err);
/* Puts a run back that this worker took (the user stopped the sweep). */
scion_status ledger_put_back(ledger *l, const ledger_run *run, scion_error *err);
/* Puts back all failed (and diverged) runs. *count: how many. */
scion_status ledger_retry(ledger *l, bool diverged, int64_t *count, scion_error *err);

/* All runs, in the order in which they were added; the caller frees. */
scion_status ledger_runs(ledger *l, ledger_run **runs, int64_t *count, scion_error *err);
/* Reads state, attempts and result of the runs that ledger_runs gave, but not their configurations; *same false: the
 * ledger now has other runs. */
scion_status ledger_refresh(ledger *l, ledger_run *runs, int64_t count, bool *same, scion_error *err);
/* The row of a configuration; *found false: it is not there. */
scion_status ledger_find(ledger *l, ledger_kind kind, const config *c, ledger_run *run, bool *found,
                         scion_error *err);
/* Curves of one run; free with run_curves_free, also after an error. */
scion_status ledger_curves(ledger *l, int64_t run, run_curves *curves, scion_error *err);
/* Coordinates in order of steps and places; the caller frees. */
scion_status ledger_coords(ledger *l, int64_t run, ledger_coord **coords, int64_t *count, scion_error *err);

/* Stores a coordinate check as a run that is done, in place of an earlier one of this configuration. */
scion_status ledger_put_coords(ledger *l, const ledger_run *run, const ledger_coord *coords, int64_t count,
                               scion_error *err);

#endif
