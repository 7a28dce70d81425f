/* The sink that writes a run's metrics.csv, for spreadsheets, pandas and dashboards that import CSV. */
#ifndef TRAIN_RUN_CSV_SINK_H
#define TRAIN_RUN_CSV_SINK_H

#include "run/run.h"

/* The row of sink_rows.c; after that of metrics.jsonl, whose points it takes over when a run is resumed. */
scion_status csv_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err);
void csv_sink_close(run_sink *sink);

#endif
