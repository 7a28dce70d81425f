/* The sinks of a run's folder (sinks.h). */
#include "run/metrics_sink.h"
#include "run/sinks.h"

const sink_row sink_rows[] = {
    {"metrics", metrics_sink_open, metrics_sink_close},
    {.name = NULL},
};
