/* What happened in a run, in its folder:
 *     metrics.jsonl   one JSON object per line and event:
 *         {"step":10,"loss":3.1,"lr":0.03,"tokens_per_s":5e4,"optimizer_share":0.04,
 *          "time":"2026-11-16T18:10:32Z","elapsed":1.625,"tokens":81920}
 *         {"step":10,"val_loss":3.2,"accuracy":0.21,"top5":0.6,"time":"...","elapsed":1.9,"tokens":81920}
 *         {"step":10,"name":"head","norm":9.9,"bound":10,"ratio":0.99}
 *     summary.json    one object at the end: state, steps, seconds, elapsed, tokens, tokens_per_s, parameters, loss,
 *                     val_loss, best_val_loss, accuracy, baseline, peak_bytes, data_hash, config;
 *                     changes, if step sizes were changed on the way; top5, plain_accuracy, skipped where they say
 *                     something
 *     mistakes.json   of images: what the validation at the end got wrong (mistakes.h)
 * A number that is not finite is written as null, which JSON has. Steps appear once: a resumed run cuts off what
 * the run before wrote past the checkpoint. */
#ifndef TRAIN_RECORD_METRICS_H
#define TRAIN_RECORD_METRICS_H

#include <stdio.h>

#include "run/run.h"

typedef struct metrics metrics;

/* Opens dir/metrics.jsonl, in the open folder `folder` if that is >= 0 (file.h). step: that of the checkpoint that
 * the run is resumed from; later lines are cut off, and so is an unfinished last line. validation_due: the run will
 * validate after that step (again), so that line is cut off, too. 0: a new run, the file starts empty. On failure
 * *out is NULL. */
scion_status metrics_open(metrics **out, int folder, const char *dir, int64_t step, bool validation_due,
                          scion_error *err);
/* Flushes to disk. NULL is fine. */
void metrics_close(metrics *m);

/* One line each, of a step or a validation, and of a norm. A line that does not fit on the disk is not there at all:
 * EINVAL. */
scion_status metrics_point(metrics *m, const run_point *p, scion_error *err);
scion_status metrics_norm(metrics *m, const run_norm *n, scion_error *err);

/* Seconds that the run in `dir` had taken at `step`: as its lines up to there say, or its summary, if that is not of
 * a later step. 0: they do not say. */
double metrics_elapsed(const char *dir, int64_t step);

/* Flushes to disk what was written so far, as a checkpoint of the same step will be: a resumed run finds the lines up
 * to its checkpoint. */
scion_status metrics_flush(metrics *m, scion_error *err);

/* Writes dir/summary.json as a whole (atomic_file.h), in the open folder `folder` if that is >= 0. samples: those of
 * one step. */
scion_status metrics_summary(int folder, const char *dir, const run_result *r, int64_t samples, const config *c,
                             scion_error *err);

/* The sink that writes these files into a run's folder. */
typedef struct metrics_folder {
    const run_dir *dir;
    metrics *m; /* opened by the sink; the caller closes it after the run */
} metrics_folder;
run_sink metrics_sink(metrics_folder *to);
/* The sink that prints the same lines, and the summary as the last one. */
run_sink metrics_print_sink(FILE *to);

#endif
