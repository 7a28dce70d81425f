/* A report: the page of runs and ledgers, with its figures. */
#ifndef TRAIN_REPORT_REPORT_H
#define TRAIN_REPORT_REPORT_H

#include "draw/page.h"
#include "record/run_record.h"

typedef struct report_options {
    const char *title; /* NULL: made of the sources' names */
    /* Writes the beginning of the page. May be NULL. */
    void (*opening)(void *context, page *p);
    void *opening_context;
    /* Called for each figure that was written. May be NULL. */
    void (*wrote)(void *context, const char *id, const char *title, const char *folder);
    void *context;
} report_options;

/* Writes out_html and its folder of figures (page.h) from run folders and ledgers, which are only read. EINVAL or
 * ESTATE, with a message that names the source: missing, not a run or ledger, damaged. EINVAL: out_html is a file
 * that is not a page. `o` may be NULL. */
scion_status report_write(const char *const *sources, int count, const char *out_html, const report_options *o,
                          scion_error *err);

/* Writes out_html from the record of a run that goes on: without files beside it, and it reloads itself every so many
 * seconds. The record is only read; `now`: seconds since 1970, for a line that says when it was drawn. */
scion_status report_write_live(run_record *run, const char *out_html, int seconds, double now, scion_error *err);

#endif
