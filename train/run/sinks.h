/* Sinks that write files into the folder of a run: rows of a table (sink_rows.c), opened and closed together. The
 * terminal's sink is the command's own. */
#ifndef TRAIN_RUN_SINKS_H
#define TRAIN_RUN_SINKS_H

#include "run/run.h"

enum { SINKS_MAX = 8 };

typedef struct sink_row {
    const char *name;
    /* Fills in a sink for a run in this folder, which outlives it. A sink that the settings do not ask for stays all
     * zero. */
    scion_status (*open)(run_sink *out, const run_dir *dir, const config *c, scion_error *err);
    void (*close)(run_sink *sink); /* after the run: flushes, and frees ctx */
} sink_row;

/* All rows, ended by one without a name. A test may bring a table of its own. */
extern const sink_row sink_rows[];

/* Opens a sink of every row; their number is the rows'. On failure none is left open. */
scion_status sinks_open(run_sink sinks[SINKS_MAX], int *count, const run_dir *dir, const config *c, scion_error *err);
void sinks_close(run_sink sinks[SINKS_MAX], int count);

#endif
