/* Transfer of the best learning rate from small models to large ones. A group is all runs that differ in lr, width
 * and seed only (one group per rule, norms, batch, ...).
 *
 * The best learning rate of a width is the vertex of a parabola in log2 lr through the lowest loss and its two
 * neighbours, once for each seed; spreads and errors are those of util/statistics.h. At the edge of its grid it is
 * open: the best value is that one or lies beyond.
 *
 *     moved = largest difference of log2(best lr) between any two widths
 *     cost  = loss(width, smallest width's best lr of the grid) - loss(width, its own best lr of the grid)
 *
 * A learning rate transfers if both hold: it moves by at most a factor of two, around which the loss is flat; and the
 * smallest width's value costs at most two standard deviations of a loss over the seeds: about 19 of 20 runs are that
 * near to their mean, so that one run of the large model would not show it. */
#ifndef TRAIN_TUNE_TRANSFER_H
#define TRAIN_TUNE_TRANSFER_H

#include "util/statistics.h"
#include "sweep/ledger.h"

typedef struct transfer_seed {
    uint64_t seed;
    double loss; /* INFINITY: diverged; NAN: failed */
} transfer_seed;

typedef struct transfer_point {
    double lr;
    double loss;      /* mean over seeds; INFINITY: no seed gave one, or one diverged */
    double accuracy;  /* mean, NAN: none */
    stat_sample done; /* losses of the seeds that are done */
    int diverged, failed;
    transfer_seed *seeds; /* all */
    int64_t seed_count;
} transfer_point;

typedef struct transfer_width {
    int64_t width;
    transfer_point *points; /* by lr, ascending */
    int64_t count;
    int64_t best;                /* index of the lowest mean loss, -1: none */
    stat_sample log2_best;       /* log2 of the best lr, a value for each seed */
    bool edge_below, edge_above; /* the best lr of a seed is at this end of the grid: a better one may be outside */
    stat_estimate cost;          /* value NAN: no run at that lr; INFINITY: it diverged there */
} transfer_width;

typedef struct transfer_group {
    char label[160]; /* how it differs from other groups: "rule=scion norms=onehot"; "" if it is the only one */
    config c;        /* of its first run */
    transfer_width *widths; /* ascending */
    int64_t count;
    stat_pool spread;      /* of log2_best, over all widths */
    stat_pool loss_spread; /* of the losses at the best lr of each width */
    stat_estimate
        moved; /* from widths[from] to widths[to], in log2; value NAN: fewer than two widths have a best lr */
    int64_t from, to;
    bool at_edge; /* a best value is at the edge of its grid */
} transfer_group;

typedef struct transfer {
    transfer_group *groups;
    int64_t count;
} transfer;

/* Groups the training runs that have ended. */
scion_status transfer_make(transfer *t, const ledger_run *runs, int64_t count, scion_error *err);
void transfer_free(transfer *t);

/* log2 of the best lr of a width, with the spread of its group; NAN: it has none. */
stat_estimate transfer_best(const transfer_group *g, const transfer_width *w);

/* Sides on which the best lr of a width is open, as FIGURE_OPEN_...; "below", "above", "both", "". */
int transfer_open(const transfer_width *w);
const char *transfer_open_name(const transfer_width *w);

typedef struct transfer_judgement {
    /* The best lr of any two widths is the same up to a factor of two, by their intervals, open towards an edge. */
    stat_finding move;
    stat_finding cost;     /* the smallest width's lr costs at most `margin` at every width */
    stat_finding transfer; /* both */
    double margin;         /* in loss; NAN: one seed */
} transfer_judgement;

/* The one judgement, of sweep show, reports and reproduce. */
transfer_judgement transfer_judge(const transfer_group *g);

/* The sign before the largest move: "" where it is known, "\u2264 " or "\u2265 " where it may be further in its
 * direction; NULL: an edge leaves it open. */
const char *transfer_move_sign(const transfer_group *g);

/* The loss by stat_text; "diverged", "failed". */
const char *transfer_loss_text(const transfer_point *p, char text[32]);

enum { TRANSFER_TEXT = 1200, TRANSFER_PART = 512 };

/* "best lr, interpolated by a parabola: 2^-5.02 at width 64, 2^-6.10 at width 512; it moves most from width 64 to
 * 512: by 2^(-1.08 +- 0.20)". */
void transfer_move_text(const transfer_group *g, char text[TRANSFER_PART]);
/* "using width 64's lr (2^-5) costs 0.0021 +- 0.0010 in loss at width 256, 0.0120 +- 0.0020 at width 512"; "": fewer
 * than two widths have a best lr. */
void transfer_cost_text(const transfer_group *g, char text[TRANSFER_PART]);
/* Both, and the judgement with its margins: "transfer: undecided (move of at most a factor of two: kept; cost of at
 * most 0.0200 in loss: undecided)". */
void transfer_sentence(const transfer_group *g, char text[TRANSFER_TEXT]);

/* Writes everything to a JSON file ("-": standard output). */
scion_status transfer_save(const transfer *t, const char *path, scion_error *err);
/* Writes a row for each point to a CSV file, likewise. */
scion_status transfer_save_csv(const transfer *t, const char *path, scion_error *err);

#endif
