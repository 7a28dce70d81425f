/* The sections of a report. A section on ledgers is a function that draws one aspect of all runs, and a row of
 * the table in report_ledger.c; a section without data adds nothing to the page. report_run.c draws the folders
 * of runs. */
#ifndef TRAIN_REPORT_SECTION_H
#define TRAIN_REPORT_SECTION_H

#include "draw/page.h"
#include "record/run_record.h"
#include "sweep/grid.h"
#include "sweep/ledger.h"
#include "tune/transfer.h"

enum { REPORT_ID = 64 }; /* bytes of a figure's id */

/* ---- Called by report.c ------------------------------------------------------------------------------------ */

/* The folders of runs: a comparison if there are several, then each by itself. Puts the runs in order, best first. */
void report_runs(page *p, run_record *runs, int count);

/* Everything in a ledger. prefix: of the ids of its figures; name: of the ledger, "" if it is the only source. */
scion_status report_ledger(page *p, const char *path, const char *prefix, const char *name, scion_error *err);

/* ---- What sections share ----------------------------------------------------------------------------------- */

/* The x axis of a curve: steps, time (minutes; report_losses_end chooses the unit that is shown), or samples. */
typedef enum report_clock { REPORT_STEPS, REPORT_TIME, REPORT_SAMPLES } report_clock;

/* Place of a point on that axis; NAN: not recorded. */
double report_at(const run_point *p, report_clock clock);
/* End of the curves: the last step, at least 1; 0 if the clock was not recorded. */
double report_end(const run_curves *c, report_clock clock);

/* Draws a field of the curves' points (offsetof(run_point, ...)) where it is not NAN, times a factor, as a
 * series, which it returns. mark: the value whose first point is marked; NAN: none. */
int report_curve(figure *f, const char *name, const run_curves *c, report_clock clock, size_t field, double factor,
                 double mark);
/* The training loss, a field of the points: its moving mean, and the single steps pale behind it; only these if there
 * are few. */
void report_training(figure *f, const char *name, const run_curves *c, report_clock clock, size_t field);
/* Begins a figure of losses against a clock. unit: name of the samples. report_losses_end sets its axes after the
 * curves, which end at `end`, are drawn. */
figure report_losses(const char *id, const char *title, const char *caption, const char *label, report_clock clock,
                     const char *unit);
void report_losses_end(figure *f, report_clock clock, double end);

/* Norms over bounds by step, on an axis of steps from 0 to `last`. */
void report_norms(page *p, const char *id, const char *title, const run_norm *norms, int64_t count, int64_t last);
/* The last step in the curves. */
int64_t report_last_step(const run_curves *c);

/* Shows the mistakes of a classifier at the end of a run. prefix: of the name of its file. NULL: shows nothing. */
void report_mistakes(page *p, const char *prefix, const mistakes *m);

/* blocks.3.attn.q -> blocks.N.attn.q if `fold`: all layers of one kind become one series where there are too many. */
void report_fold_name(const char *name, bool fold, char folded[64]);

/* All settings of a configuration, folded. */
void report_settings(page *p, const config *c);

/* The largest y worth showing, so that a few high losses do not flatten the rest. NAN: no limit. Sorts `losses`. */
double report_limit(double *losses, int64_t count);

/* ---- Sections on a ledger ---------------------------------------------------------------------------------- */

enum { SECTION_LABEL = 200, SECTION_NAMING = 24 };

typedef struct ledger_view {
    page *p;
    ledger *l;
    const char *prefix; /* of the ids */
    const char *name;   /* of the ledger; "": the only source */
    ledger_run *runs;
    int64_t count, shown; /* the page is about the first `shown` of them (report_ledger.c) */
    transfer t;
    bool validated;                              /* losses are validation losses */
    bool bits;                                   /* all finished runs have bits per byte */
    const config_option *naming[SECTION_NAMING]; /* options in which the runs differ, the most interesting first */
    int naming_count;
    scion_status status; /* of reading; not OK: *err says why, and the page is not written */
    scion_error *err;
} ledger_view;

/* The loss that counts: validation, else training; INFINITY: diverged; NAN: none (yet). */
double section_loss(const ledger_run *r);
/* The number that decides which of two runs is better, whatever tokens they have: bits per byte where v->bits, else
 * section_loss. */
double section_score(const ledger_view *v, const ledger_run *r);
/* The best learning rate of a width that has one, as a point of a figure: fitted, with its interval (transfer_best),
 * or of the grid where it cannot be; open at the edge of its grid. */
void section_best_lr(figure *f, int s, double x, const transfer_group *g, const transfer_width *w);
/* Says in the caption beyond which values the open points of such a figure lie. */
void section_note_edges(figure *f);
/* "validation loss" or "training loss". */
const char *section_loss_name(const ledger_view *v);

/* A list of option keys, ended by NULL. */
#define SECTION_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The options in which a configuration differs from others of the ledger, without `except`: "rule=scion
 * norms=onehot". */
void section_label(const ledger_view *v, const config *c, const char *const *except, char text[SECTION_LABEL]);
/* Id of a figure: prefix and name, and a number if n > 0. */
void section_id(const ledger_view *v, const char *name, int64_t n, char id[REPORT_ID]);
/* Begins a section; the title starts with the ledger's name if there are several sources. */
void section_begin(const ledger_view *v, const char *title);
/* The best finished run of a transfer group (NULL: of all), or NULL. */
const ledger_run *section_best(const ledger_view *v, const transfer_group *g);
/* Title of a figure about one of several groups: "Loss against learning rate, rule=scion". */
void section_title(const char *title, const char *label, char text[SECTION_LABEL]);

/* Begins a figure: section_id and section_title. */
figure section_figure(const ledger_view *v, const char *name, int64_t n, const char *title, const char *label,
                      const char *caption);

typedef void section(ledger_view *v);

section section_transfer, section_against, section_curves, section_coords, section_costs, section_runs;

#endif
