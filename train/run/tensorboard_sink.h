/* The sink that writes event files for TensorBoard, where the option tensorboard names a folder. */
#ifndef TRAIN_RUN_TENSORBOARD_SINK_H
#define TRAIN_RUN_TENSORBOARD_SINK_H

#include "run/run.h"

/* The row of sink_rows.c. The files of a run are in a folder of its name, so that several runs can share one. */
scion_status tensorboard_sink_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err);
void tensorboard_sink_close(run_sink *sink);

#endif
