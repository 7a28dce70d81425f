/* The paper's figures: each is one or more grids of runs, a claim, and a judgement of the results; a row of the
 * table in figures.c. */
#ifndef TRAIN_REPRODUCE_REPRODUCE_H
#define TRAIN_REPRODUCE_REPRODUCE_H

#include "sweep/ledger.h"

typedef enum reproduce_verdict { REPRODUCE_YES, REPRODUCE_PARTLY, REPRODUCE_NO, REPRODUCE_OPEN } reproduce_verdict;

const char *reproduce_verdict_name(reproduce_verdict v); /* "reproduced", "partly reproduced", ... */

typedef struct reproduce_judgement {
    reproduce_verdict verdict;
    char sentence[512]; /* with the deciding number */
} reproduce_judgement;

enum { REPRODUCE_PARTS = 17 }; /* at most 16, and a NULL */

/* The data of a figure, which the user gives. */
typedef struct reproduce_data {
    const char *what;  /* "a text" */
    const char *value; /* of data=, for the message: "FILE" */
    const char *path;  /* used if it exists and data= is not given; NULL: none */
    bool full_has_own; /* the presets of the full size name their data */
} reproduce_data;

typedef struct reproduce_figure {
    const char *name, *title;
    const char *claim;          /* of the paper, in one sentence */
    const reproduce_data *data; /* NULL: none */
    /* "PRESET key=values ...", as scion sweep would take it: for two cores, and of the paper's own size. */
    const char *small[REPRODUCE_PARTS], *full[REPRODUCE_PARTS];
    void (*judge)(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j);
    /* A figure that is not a sweep has this instead, which measures, writes the page and judges. `show` gets the
     * fraction done and returns false to stop (ESTOPPED). */
    scion_status (*make)(const char *folder, bool full, const char *data, bool (*show)(double share),
                         reproduce_judgement *j, scion_error *err);
} reproduce_figure;

const reproduce_figure *reproduce_at(int i);              /* NULL past the last */
const reproduce_figure *reproduce_find(const char *name); /* NULL: none */

/* All runs of a figure; data replaces that of the presets (NULL: as they have it). The caller frees. */
scion_status reproduce_points(const reproduce_figure *f, bool full, const char *data, config **points, int64_t *count,
                              scion_error *err);

/* Fewer steps, epochs, warm-up and decay by a factor, at least one step. */
void reproduce_shorten(config *points, int64_t count, double factor);

/* scion_info.overshoot of the default polar iteration: the factor by which spectral norms may exceed their bounds. */
extern const double reproduce_overshoot;

/* For the table. */
void reproduce_judge_transfer(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j);
void reproduce_judge_batch(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j);
void reproduce_judge_norms(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j);
void reproduce_judge_epochs(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j);
scion_status reproduce_input_radius(const char *folder, bool full, const char *data, bool (*show)(double share),
                                    reproduce_judgement *j, scion_error *err);
scion_status reproduce_rates(const char *folder, bool full, const char *data, bool (*show)(double share),
                             reproduce_judgement *j, scion_error *err);

#endif
