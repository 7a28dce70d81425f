/* The files that a run writes into its folder:
 *     metrics.jsonl   one JSON object per line and event:
 *         {"step":10,"loss":3.1,"lr":0.03,"tokens_per_s":5e4,"optimizer_share":0.04,
 *          "time":"2026-11-16T18:10:32Z","elapsed":1.625,"tokens":81920}
 *         {"step":10,"val_loss":3.2,"accuracy":0.21,"top5":0.6,"time":"...","elapsed":1.9,"tokens":81920}
 *         {"step":10,"name":"head","norm":9.9,"bound":10,"overshoot":1,"ratio":0.99}
 *     summary.json    one object at the end: state, the metrics of the result (metric_rows.c), changes (if step sizes
 *                     were changed on the way), config
 *     metrics.csv     the points of metrics.jsonl: step,timestamp, and a column for each metric of a point
 * A number that is not finite is written as null, since JSON has no other way. Numbers have all their digits. Steps
 * appear once: a resumed run cuts off the lines past its checkpoint. */
#ifndef TRAIN_RECORD_METRICS_H
#define TRAIN_RECORD_METRICS_H

#include "config/config.h"
#include "record/run_metrics.h"

typedef struct metrics metrics;

/* Opens dir/metrics.jsonl, in the open folder `folder` if that is >= 0 (file.h). step: of the checkpoint that the run
 * is resumed from; later lines are cut off, and so is an unfinished last line. validation_due: the run will validate
 * after that step (again), so the line of that validation is cut off too. step 0: a new run, the file starts empty.
 * On failure *out is NULL. */
scion_status metrics_open(metrics **out, int folder, const char *dir, int64_t step, bool validation_due,
                          scion_error *err);
/* Flushes to disk. NULL is fine. */
void metrics_close(metrics *m);

/* Writes one line, of a step or a validation, or of a norm. If it does not fit on the disk, nothing of it stays:
 * EINVAL. */
scion_status metrics_point(metrics *m, const run_point *p, scion_error *err);
scion_status metrics_norm(metrics *m, const run_norm *n, scion_error *err);

/* Flushes the lines to disk: a resumed run finds those up to its checkpoint. */
scion_status metrics_flush(metrics *m, scion_error *err);

/* Opens dir/metrics.csv for a run that has these points already; they are written again, in whatever form an older
 * program left them. Without points the file is removed until there is one. unit: name of the samples. Then
 * metrics_csv_point for each that follows; flush and close as above. */
scion_status metrics_csv_open(metrics **out, int folder, const char *dir, const run_curves *before, const char *unit,
                              scion_error *err);
scion_status metrics_csv_point(metrics *m, const run_point *p, scion_error *err);

/* Writes dir/summary.json as a whole (atomic_file.h), in the open folder `folder` if that is >= 0. */
scion_status metrics_summary(int folder, const char *dir, const run_result *r, const config *c, scion_error *err);

/* Prints the same lines and object. lines: in several lines; false: out of memory. */
void metrics_print_point(FILE *to, const run_point *p);
void metrics_print_norm(FILE *to, const run_norm *n);
bool metrics_print_summary(FILE *to, const run_result *r, const config *c, bool lines);

#endif
