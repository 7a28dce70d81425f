/* What is shown while a sweep works: a row for each run that has ended, and a line about the rest. */
#ifndef CLI_SWEEP_PROGRESS_H
#define CLI_SWEEP_PROGRESS_H

#include "cli.h"
#include "sweep/sweep.h"

enum { SWEEP_COLUMNS = 16 };

typedef struct sweep_view {
    cli_progress progress; /* from cli_progress_start */
    bool *told;            /* runs whose end was told, by their place in the ledger */
    int64_t room;
    const config_option *columns[SWEEP_COLUMNS]; /* what tells the runs apart */
    int column_count;
} sweep_view;

/* For sweep_options.show; the context is a sweep_view. */
void sweep_view_show(void *context, const sweep_progress *p);
void sweep_view_free(sweep_view *v);

#endif
