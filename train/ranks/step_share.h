/* The part of a step that each rank computes. A step has batch x accum sequences. A rank has whole micro-batches of
 * them, or where these do not divide evenly, its share of the sequences in micro-batches as large as `batch` allows.
 * One rank has all. */
#ifndef TRAIN_RANKS_STEP_SHARE_H
#define TRAIN_RANKS_STEP_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "scion.h"

typedef struct step_share {
    int rank, ranks;
    int64_t batch, accum;
    bool whole; /* ranks have whole micro-batches */
} step_share;

/* A micro-batch: sequences [first, first + count) of the step. */
typedef struct step_piece {
    int64_t first, count;
} step_piece;

/* indivisible: micro-batches may not be cut (batch normalisation). EINVAL: there is too little for so many ranks. */
scion_status share_make(step_share *out, int rank, int ranks, int64_t batch, int64_t accum, bool indivisible,
                        scion_error *err);
/* The first sequence of a rank; of `ranks`: the number of all. */
int64_t share_first(const step_share *s, int rank);
int64_t share_pieces(const step_share *s, int rank);
step_piece share_piece(const step_share *s, int rank, int64_t k);
/* Pieces of the ranks before this one, and of the rank with the largest number. */
int64_t share_pieces_before(const step_share *s);
int64_t share_max_pieces(const step_share *s);

#endif
