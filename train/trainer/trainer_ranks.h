/* Several ranks train as one: the part of a trainer that other ranks have to do with. Without it (trainer.ranks is
 * NULL) there is one rank, which adds up micro-batches as they come.
 *
 *     shares     a rank has whole micro-batches of the step, or where these do not come out even, its share of the
 *                sequences, in micro-batches as large as they may be, weighted by their sequences
 *     gradients  summed to their owner (shard.h) by the bucket, from the moment when the backward pass of the last
 *                micro-batch has added all that belongs in one
 *     the step   each owner's, and then weights travel back the same way
 *
 * deterministic=yes: the gradient of a step is summed along a tree that the settings fix, whatever the number of
 * ranks. With G the largest power of two that divides accum, the micro-batches are G groups in a row; within a group
 * they are added one after another, groups in pairs, pairs in pairs, and so on. 1, 2, 4, ... up to G ranks have the
 * same bits: a rank has one branch of the tree, and branches meet as ranks do (comm.h). It takes log2(G/ranks) more
 * arrays of gradients, with `light` one more than that, since there the gradients hold the average. */
#ifndef TRAIN_TRAINER_TRAINER_RANKS_H
#define TRAIN_TRAINER_TRAINER_RANKS_H

#include "comm/comm.h"
#include "ranks/shard.h"
#include "trainer/trainer.h"

typedef struct trainer_ranks trainer_ranks;

/* ---- Making, called in this order by those who make a trainer ---- */

/* After the model is recorded. Nothing if there is one rank and `deterministic` is not set. */
scion_status ranks_make(trainer *t, scion_error *err);
/* Bytes that it takes beside what one rank takes; of activations of micro-batches that are smaller than `batch`; and
 * the share of the optimizer's state that is here. */
size_t ranks_bytes(const trainer *t);
size_t ranks_activations(const trainer *t);
double ranks_state_share(const trainer *t);
scion_status ranks_allocate(trainer *t, scion_error *err);
/* Says what this rank owns. */
void ranks_own(const trainer *t, scion_param *params);
void ranks_free(trainer *t);

/* Refuses to go on in the middle of a step (trainer.micro) where it is shared out otherwise. */
scion_status ranks_check_position(const trainer *t, const char *path, scion_error *err);

/* Whether the trainer's own plan is used: not where all micro-batches of a rank are smaller. */
bool ranks_use_plan(const trainer *t);
/* Micro-batches of a step that this rank computes. */
int64_t ranks_pieces(const trainer *t);

/* ---- Steps ---- */

scion_status ranks_step(trainer *t, double *loss, scion_error *err);
/* Whether some rank wants to stop: the same answer on all of them, as of the last step. */
bool ranks_stopping(const trainer *t);
/* The status of the lowest rank that failed, with its message, on all ranks; the same as it is without others. */
scion_status ranks_agree(const trainer *t, scion_status status, scion_error *err);
/* data_skipped of all ranks together: a file that several could not read counts once. */
int64_t ranks_skipped(const trainer *t);
/* Rank 0 gets what all counted in a validation, whose batches they share. */
scion_status ranks_unite_mistakes(const trainer *t, struct mistakes *m, scion_error *err);
/* Whether this rank is the one that writes and tells: rank 0. */
bool ranks_first(const trainer *t);
/* All ranks take the weights and buffers of rank 0: they begin alike although their machines may differ. */
void ranks_begin(trainer *t);

/* ---- Checkpoints: rank 0 writes, the others give it what they own ---- */

typedef struct ranks_array {
    char name[32]; /* of the state array */
    int32_t type;
    int32_t exists;
} ranks_array;

/* Rank 0: what state array k of a parameter is; and `count` entries from `first` on, of that type, into `to`. k < 0:
 * the gradients, which with `light` are the average. */
ranks_array ranks_about(const trainer *t, int64_t param, int k);
void ranks_fetch(const trainer *t, int64_t param, int k, scion_dtype type, int64_t first, int64_t count, void *to);
/* Rank 0: that is all. The others: give what is asked for until then. All return the status of rank 0. */
scion_status ranks_save_end(const trainer *t, scion_status status, scion_error *err);

/* Bytes that a rank sends and receives in a step, beside some small messages; gradients and weights apart where the
 * pointers are not NULL. */
double ranks_wire_bytes(const trainer *t, int rank, double *gradients, double *weights);
/* The shares, for those who show them. NULL: one rank. */
const shard_plan *ranks_shards(const trainer *t);

#endif
