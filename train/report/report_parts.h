/* What the files of a report share. */
#ifndef TRAIN_REPORT_REPORT_PARTS_H
#define TRAIN_REPORT_REPORT_PARTS_H

#include "report/page.h"
#include "report/run_read.h"
#include "sweep/ledger.h"

enum { REPORT_ID = 64 }; /* room for the id of a figure */

/* Runs, compared if they are several, then each by itself. */
void report_runs(page *p, const run_data *runs, int count);

/* Everything that a ledger holds. prefix: put before the ids of its figures; name: what it is called. */
scion_status report_ledger(page *p, const char *path, const char *prefix, const char *name, scion_error *err);

/* Norms over bounds, step by step: what both a run and a ledger have. */
void report_norms(page *p, const char *id, const char *title, const run_norm *norms, int64_t count);

/* blocks.3.attn.q -> blocks.N.attn.q if `fold`: layers of one kind are one series where there are too many. */
void report_fold_name(const char *name, bool fold, char folded[64]);

/* All settings of a configuration, folded. */
void report_settings(page *p, const config *c);

/* The largest y worth showing: losses far above the rest squeeze it. NAN: no limit. `losses` is sorted. */
double report_limit(double *losses, int64_t count);

#endif
