/* Does the best learning rate of a small model hold for a large one? A group is all runs that differ in lr, width and
 * seed only (one group per rule, norms, batch, ...); a loss is the mean over the seeds.
 *
 *     moved = log2(best lr of the largest width / best lr of the smallest) / grid step      in grid steps
 *     cost  = loss(largest width, smallest width's best lr) - loss(largest width, its own best lr)  */
#ifndef TRAIN_TUNE_TRANSFER_H
#define TRAIN_TUNE_TRANSFER_H

#include "sweep/ledger.h"

typedef struct transfer_point {
    double lr;
    double loss;      /* mean over seeds; INFINITY: no seed gave one, or one diverged */
    double accuracy;  /* mean, NAN: none */
    double low, high; /* over the seeds */
    int seeds;        /* that are done */
    int diverged, failed;
} transfer_point;

typedef struct transfer_width {
    int64_t width;
    transfer_point *points; /* by lr, ascending */
    int64_t count;
    int64_t best; /* index of the lowest loss, -1: none */
} transfer_width;

typedef struct transfer_group {
    char label[160]; /* how it differs from other groups: "rule=scion norms=onehot"; "" if it is the only one */
    config c;        /* of its first run */
    transfer_width *widths; /* ascending */
    int64_t count;
    double moved; /* NAN: fewer than two widths with a best value */
    double cost;  /* NAN: the largest width has no run at that value; INFINITY: it diverged there */
    bool at_edge; /* a best value is at the edge of its grid: a better one may be outside */
} transfer_group;

typedef struct transfer {
    transfer_group *groups;
    int64_t count;
} transfer;

/* Of the training runs that have ended. */
scion_status transfer_make(transfer *t, const ledger_run *runs, int64_t count, scion_error *err);
void transfer_free(transfer *t);

/* One sentence: "the best lr moves by 1 step (2^-5 to 2^-6) from width 64 to 512; the small model's value costs 0.012
 * there". */
void transfer_sentence(const transfer_group *g, char text[256]);

/* Writes everything to a JSON file. */
scion_status transfer_save(const transfer *t, const char *path, scion_error *err);

#endif
