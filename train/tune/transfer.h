/* Does the best learning rate of a small model hold for a large one? Runs are put in groups that agree in everything
 * but lr, width and seed (one group per rule, norms, batch, ...), and in each group, for each width, the loss is the
 * mean over the seeds.
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
    char label[160]; /* what tells it from the other groups: "rule=scion norms=onehot"; "" if it is the only one */
    config c;        /* of its first run */
    transfer_width *widths; /* ascending */
    int64_t count;
    double moved; /* NAN: fewer than two widths with a best value */
    double cost;  /* NAN: the largest width has no run at that value; INFINITY: it diverged there */
    bool at_edge; /* a best value lies on the edge of its grid: the true one may lie beyond */
} transfer_group;

typedef struct transfer {
    transfer_group *groups;
    int64_t count;
} transfer;

/* Looks at the training runs among them that have ended. */
scion_status transfer_make(transfer *t, const ledger_run *runs, int64_t count, scion_error *err);
void transfer_free(transfer *t);

/* One sentence: "the best lr moves by 1 step (2^-5 to 2^-6) from width 64 to 512; the small model's value costs 0.012
 * there". */
void transfer_sentence(const transfer_group *g, char text[256]);

#endif
