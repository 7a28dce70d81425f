/* What happened in a run, in its folder:
 *     metrics.jsonl   one JSON object per line and event:
 *         {"step":10,"loss":3.1,"lr":0.03,"tokens_per_s":5e4,"optimizer_share":0.04}
 *         {"step":10,"val_loss":3.2,"accuracy":0.21}
 *         {"step":10,"name":"head","norm":9.9,"bound":10,"ratio":0.99}
 *     summary.json    one object at the end: steps, seconds, tokens, tokens_per_s, parameters, loss, val_loss,
 *                     best_val_loss, accuracy, baseline, peak_bytes, config
 * A number that is not finite is written as null, which JSON has. Steps appear once: a resumed run cuts off what
 * the run before wrote past the checkpoint. */
#ifndef TRAIN_RUN_METRICS_H
#define TRAIN_RUN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "scion.h"

typedef struct metrics metrics;

/* Opens dir/metrics.jsonl. step: that of the checkpoint which the run goes on from; later lines are cut off, and so
 * is an unfinished last line. 0: a new run, the file starts empty. On failure *out is NULL. */
scion_status metrics_open(metrics **out, const char *dir, int64_t step, scion_error *err);
/* Flushes to disk. NULL is fine, here and below: a run without a folder writes nothing. */
void metrics_close(metrics *m);

/* One line each. A line that does not fit on the disk is not there at all; training need not end for that, but
 * metrics_failed tells. */
void metrics_step(metrics *m, int64_t step, double loss, double lr, double tokens_per_s, double optimizer_share);
void metrics_val(metrics *m, int64_t step, double val_loss, double accuracy);
void metrics_norm(metrics *m, int64_t step, const char *name, double norm, double bound, double ratio);

/* OK, or the first line that could not be written. */
scion_status metrics_failed(const metrics *m, scion_error *err);

/* A run in short. NAN: unknown, written as null. */
typedef struct metrics_summary {
    int64_t steps, parameters;
    int64_t samples; /* tokens or images of all steps */
    double seconds, samples_per_s;
    double loss, val_loss, best_val_loss, accuracy;
    double baseline;
    size_t peak_bytes;
    const char *config; /* JSON, or NULL */
} metrics_summary;

/* Writes dir/summary.json at once, as atomic_file.h does. */
scion_status metrics_write_summary(const char *dir, const metrics_summary *s, scion_error *err);

#endif
