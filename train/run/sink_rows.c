/* The sinks of a run's folder (sinks.h). */
#include "run/csv_sink.h"
#include "run/metrics_sink.h"
#include "run/sinks.h"
#include "run/tensorboard_sink.h"

const sink_row sink_rows[] = {
    {"metrics", metrics_sink_open, metrics_sink_close},
    {"csv", csv_sink_open, csv_sink_close},
    {"tensorboard", tensorboard_sink_open, tensorboard_sink_close},
    {.name = NULL},
};
