/* The sinks that write a run's metrics: into its folder, or as lines that are printed. */
#ifndef TRAIN_RUN_METRICS_SINK_H
#define TRAIN_RUN_METRICS_SINK_H

#include "record/metrics.h"
#include "run/run.h"

/* Writes metrics.jsonl, summary.json and, for images, mistakes.json into a run's folder: the row of sink_rows.c. */
scion_status metrics_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err);
void metrics_sink_close(run_sink *sink);
/* Prints the lines of metrics.jsonl, and the summary as the last one. */
run_sink metrics_print_sink(FILE *to);

#endif
