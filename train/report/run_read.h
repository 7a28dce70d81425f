/* Reads the folder of a run: metrics.jsonl, and summary.json if the run has ended. */
#ifndef TRAIN_REPORT_RUN_READ_H
#define TRAIN_REPORT_RUN_READ_H

#include <stdint.h>

#include "config/config.h"

typedef struct run_step {
    int64_t step;
    double loss, lr, rate, share; /* rate: tokens or images per second; share: of the optimizer, in the time */
} run_step;

typedef struct run_val {
    int64_t step;
    double loss, accuracy;
} run_val;

typedef struct run_norm {
    int64_t step;
    char name[64];
    double norm, bound; /* bound INFINITY: none */
} run_norm;

typedef struct run_data {
    char name[128]; /* the end of the folder's path */
    run_step *steps;
    run_val *vals;
    run_norm *norms;
    int64_t step_count, val_count, norm_count;
    bool ended;      /* there is a summary */
    bool configured; /* c is known */
    config c;
    int64_t parameters;
    double seconds, rate, tokens, best_val_loss, baseline, peak_bytes; /* of the summary; NAN: unknown */
} run_data;

/* A loss that was not finite is INFINITY. An unfinished last line, which a killed run leaves, is passed over. EINVAL:
 * no such folder, no run in it; ESTATE: the files are something else. Free with run_free, also after an error. */
scion_status run_read(run_data *run, const char *dir, scion_error *err);
void run_free(run_data *run);

/* The last known numbers; NAN: none. */
double run_last_loss(const run_data *run);
double run_last_val(const run_data *run);
/* The lowest validation loss; without validation, the last training loss. NAN: none. */
double run_best(const run_data *run);

#endif
