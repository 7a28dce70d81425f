/* The paper's figures: each is one or more grids of runs, a claim, and a judgement of its parts; a row of the table
 * in figures.c. Differences count by the rule of util/statistics.h. */
#ifndef TRAIN_REPRODUCE_REPRODUCE_H
#define TRAIN_REPRODUCE_REPRODUCE_H

#include "util/statistics.h"
#include "draw/page.h"
#include "sweep/ledger.h"

typedef enum reproduce_verdict { REPRODUCE_YES, REPRODUCE_PARTLY, REPRODUCE_NO, REPRODUCE_OPEN } reproduce_verdict;

enum {
    REPRODUCE_GRIDS = 17, /* at most 16, and a NULL */
    REPRODUCE_RULES = 4,  /* at most 3, and a NULL */
    REPRODUCE_PARTS = 16,
    REPRODUCE_SEEDS = 3, /* default */
    REPRODUCE_TEXT = 1200
};

/* One part of a claim. */
typedef struct reproduce_part {
    stat_finding finding;
    char claim[320];
    char evidence[REPRODUCE_TEXT]; /* the deciding numbers */
} reproduce_part;

typedef struct reproduce_judgement {
    reproduce_part parts[REPRODUCE_PARTS];
    int count;
    char margin[400];           /* margin within which a part counts as kept */
    char aside[REPRODUCE_TEXT]; /* numbers that the claim says nothing about; "": none */
    char runs[160];             /* "76 of 240 runs, 1 of 2 seeds, 30 steps each"; "": no sweep */
    bool incomplete;            /* runs are left: undecided, whatever the others say */
} reproduce_judgement;

/* All parts kept: reproduced. None failed, but not all kept: undecided. Some kept and some failed: partly. */
reproduce_verdict reproduce_verdict_of(const reproduce_judgement *j);

/* Adds a part; its evidence is to be filled in. */
reproduce_part *reproduce_add(reproduce_judgement *j, stat_finding finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The data of a figure, which the user gives. */
typedef struct reproduce_data {
    const char *what;  /* "a text" */
    const char *value; /* of data=, for the message: "FILE" */
    const char *set;   /* of the catalogue: used if it is here and data= is not given; NULL: none */
    const char *path;  /* then this, if it exists; NULL: none */
    bool full_has_own; /* the presets of the full size name their data */
} reproduce_data;

/* Order for a figure. */
typedef struct reproduce_order {
    const char *folder;
    bool full;
    int64_t seeds;
    bool (*show)(double share); /* gets the fraction done and returns false to stop (ESTOPPED); may be NULL */
} reproduce_order;

typedef struct reproduce_figure reproduce_figure;
/* The runs of a figure, in their ledger. */
typedef struct reproduce_runs {
    const reproduce_figure *f;
    ledger *l;
    const ledger_run *runs;
    int64_t count;
} reproduce_runs;
typedef void reproduce_judging(const reproduce_runs *r, reproduce_judgement *j);
typedef scion_status reproduce_making(const reproduce_figure *f, const reproduce_order *o, reproduce_judgement *j,
                                      scion_error *err);

struct reproduce_figure {
    const char *name, *title;
    const char *claim;          /* of the paper, in one sentence */
    bool own;                   /* it is a question of our own: its answer reproduces nothing */
    const char *size[2];        /* small and full, beside the paper's: model, widths, batches */
    const reproduce_data *data; /* NULL: none */
    /* "PRESET key=values ...", as scion sweep would take it: for two cores, and full. */
    const char *small[REPRODUCE_GRIDS], *full[REPRODUCE_GRIDS];
    /* Rules that the claim is about, and those it compares them with. */
    const char *subjects[REPRODUCE_RULES], *rivals[REPRODUCE_RULES];
    /* Part of the names of the weights whose growth counts; NULL: all. Bounds are those of all weights. */
    const char *weights;
    reproduce_judging *judge;
    /* A figure that is not a sweep has this instead, which measures, judges and writes the page. */
    reproduce_making *make;
};

/* "reproduced", "partly reproduced", ...; of a question of our own: "answered yes", "answered in part", ... */
const char *reproduce_verdict_name(const reproduce_figure *f, reproduce_verdict v);

const reproduce_figure *reproduce_at(int i);              /* NULL past the last */
const reproduce_figure *reproduce_find(const char *name); /* NULL: none */

/* All runs of a figure with each of `seeds` seeds, those of one seed after those of another; data replaces that of
 * the presets (NULL: as they have it). The caller frees. */
scion_status reproduce_points(const reproduce_figure *f, bool full, const char *data, int64_t seeds, config **points,
                              int64_t *count, scion_error *err);

/* Fewer steps, epochs, warm-up and decay by a factor, at least one step. */
void reproduce_shorten(config *points, int64_t count, double factor);

/* Number of seeds, from `min` to `max`, that leaves the runs a quarter of their steps if those of one seed take
 * `seconds` and all may take `budget` (0: no limit). *share: the fraction of the steps that fits, at least 0.05. */
int64_t reproduce_afford(double seconds, double budget, int64_t min, int64_t max, double *share);

/* Judges the runs of a ledger; `left`: how many have not ended. */
void reproduce_judge(const reproduce_figure *f, ledger *l, const ledger_run *runs, int64_t count, int64_t left,
                     reproduce_judgement *j);

/* Claim, parts, margin and size, at the top of a page. */
void reproduce_opening(page *p, const reproduce_figure *f, bool full, const reproduce_judgement *j);

/* The page of a ledger, which begins so. */
scion_status reproduce_page(const reproduce_figure *f, bool full, const reproduce_judgement *j,
                            const char *ledger_path, const char *out_html, scion_error *err);

/* For the table. */
reproduce_judging reproduce_judge_transfer, reproduce_judge_batch, reproduce_judge_norms, reproduce_judge_lengths,
    reproduce_judge_best;
reproduce_making reproduce_input_radius, reproduce_rates;

#endif
