/* What scion tune prints: the plan, and what was found. */
#ifndef CLI_TUNE_SHOW_H
#define CLI_TUNE_SHOW_H

#include "tune/tune.h"

/* "lr 2^-5, radius_last 10": the values that are searched. */
const char *tune_show_point(const tune *t, const tune_point *p, char text[256]);

/* What is searched, before the search. */
void tune_show_plan(const tune *t, const config *target, const char *ledger_path);

/* The runs of full length and what follows from them. asked: candidates at first; added: runs that were new; out: the
 * file that was written. */
void tune_show_end(const tune *t, const config *target, int64_t asked, int64_t added, const char *out);

#endif
