/* The sink that draws the page of a run while it goes on, report.html in its folder. */
#ifndef TRAIN_REPORT_LIVE_REPORT_H
#define TRAIN_REPORT_LIVE_REPORT_H

#include "run/run.h"

/* Draws the page after the first step and every c->run.report steps (0: leaves *out all zero); at the end as scion
 * report does, with its figures as files. Drawing takes at most live_report_share of the time: drawings that would
 * take more are left out. Add it behind the sinks of the folder, whose files the last page shows. */
scion_status live_report_open(run_sink *out, const run_dir *dir, const config *c, scion_error *err);
/* NULL-safe: a sink that is all zero is fine. The page of a run that failed stops reloading. */
void live_report_close(run_sink *sink);

extern const double live_report_share;

#endif
