/* Transfer of the best learning rate from small models to large ones. A group is all runs that differ in lr, width
 * and seed only (one group per rule, norms, batch, ...).
 *
 * The best learning rate of a width is the vertex of a parabola in log2 lr through the lowest loss and its two
 * neighbours, once for each seed; spreads and errors are those of util/statistics.h.
 *
 *     moved = largest difference of log2(best lr) between any two widths
 *     cost  = loss(width, smallest width's best lr of the grid) - loss(width, its own best lr of the grid)  */
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
    stat_pool spread; /* of log2_best, over all widths */
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

/* Finds out if the best lr of all widths is the same up to a factor of 2^margin: for each pair of widths, by its
 * interval, which is open towards an edge. */
stat_finding transfer_stays(const transfer_group *g, double margin);

/* The loss by stat_text; "diverged", "failed". */
const char *transfer_loss_text(const transfer_point *p, char text[32]);

enum { TRANSFER_TEXT = 768 };

/* One sentence: "the best lr moves most from width 64 (2^-5.02) to 512 (2^-6.10): by 2^(-1.08 +- 0.20); using
 * width 64's lr costs 0.0021 +- 0.0010 at 256, 0.0120 +- 0.0020 at 512". */
void transfer_sentence(const transfer_group *g, char text[TRANSFER_TEXT]);

/* Writes everything to a JSON file. */
scion_status transfer_save(const transfer *t, const char *path, scion_error *err);

#endif
