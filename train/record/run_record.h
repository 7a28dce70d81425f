/* The record of a run: its configuration, result and curves, read back from its folder (metrics.jsonl, and once the
 * run has ended summary.json and, for images, mistakes.json). A ledger has the same parts except the last: a
 * ledger_run, and its ledger_curves. */
#ifndef TRAIN_RECORD_RUN_RECORD_H
#define TRAIN_RECORD_RUN_RECORD_H

#include "config/config.h"
#include "record/mistakes.h"
#include "record/run_metrics.h"

typedef struct run_record {
    char name[128];  /* the end of the folder's path */
    bool configured; /* c is known */
    bool ended;
    config c;
    run_result result;
    run_curves curves;
    mistakes *wrong;           /* of the validation at its end; NULL: no images, not ended yet, or damaged */
    scion_error wrong_damaged; /* why its file cannot be used; "": it can */
} run_record;

/* Reads a folder. A loss that was not finite is INFINITY. An unfinished last line, which a killed run leaves, is
 * ignored. EINVAL: no such folder, no run in it; ESTATE: the files are something else. Free with
 * run_record_free, also after an error. */
scion_status run_record_read(run_record *run, const char *dir, scion_error *err);
void run_record_free(run_record *run);

/* The lowest validation loss; without validation, the last training loss. NAN: none. */
double run_record_best(const run_record *run);
/* Seconds that the run in `dir` had taken at `step`, by its lines up to there, or by its summary if that is not of a
 * later step. 0: they do not say. */
double run_record_elapsed(const char *dir, int64_t step);
/* The last point that is a validation, or a step; NULL: none. */
const run_point *run_record_last(const run_record *run, bool validation);

#endif
