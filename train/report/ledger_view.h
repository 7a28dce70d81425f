/* A ledger as the parts of a report see it. */
#ifndef TRAIN_REPORT_LEDGER_VIEW_H
#define TRAIN_REPORT_LEDGER_VIEW_H

#include "report/report_parts.h"
#include "sweep/grid.h"
#include "tune/transfer.h"

enum { VIEW_LABEL = 200, VIEW_NAMING = 24 };

typedef struct ledger_view {
    page *p;
    ledger *l;
    const char *prefix; /* of the ids */
    const char *name;   /* of the ledger, where there are several; else "" */
    ledger_run *runs;
    int64_t count;
    transfer t;
    bool validated;                           /* losses are validation losses */
    const config_option *naming[VIEW_NAMING]; /* the options that tell runs apart, what people ask about first */
    int naming_count;
} ledger_view;

/* The loss that counts: validation, else training; INFINITY: diverged; NAN: there is none (yet). */
double view_loss(const ledger_run *r);
/* "validation loss" or "training loss". */
const char *view_loss_name(const ledger_view *v);

/* A list of options, ended by NULL. */
#define VIEW_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What tells a configuration from the others of the ledger, but for these options: "rule=scion norms=onehot". */
void view_label(const ledger_view *v, const config *c, const char *const *but, char text[VIEW_LABEL]);
/* Prefix and name, and a number if n > 0. */
void view_id(const ledger_view *v, const char *name, int64_t n, char id[REPORT_ID]);
/* A section, called after the ledger where there are several. */
void view_section(const ledger_view *v, const char *title);
/* The best run that is done of a transfer group, or NULL. */
const ledger_run *view_best(const ledger_view *v, const transfer_group *g);
/* The title of a figure on one of several groups: "Loss against learning rate, rule=scion". */
void view_title(const char *title, const char *label, char text[VIEW_LABEL]);

/* The parts, in the order of the page. */
void view_transfer(const ledger_view *v);
void view_batch(const ledger_view *v);
void view_length(const ledger_view *v);
scion_status view_curves(const ledger_view *v, scion_error *err);
scion_status view_coords(const ledger_view *v, scion_error *err);
void view_costs(const ledger_view *v);
void view_runs(const ledger_view *v);

#endif
