/* The inside of a trainer, for the files of this room and for tests. */
#ifndef TRAIN_TRAINER_TRAINER_STRUCT_H
#define TRAIN_TRAINER_TRAINER_STRUCT_H

#include "ranks/running_buffers.h"
#include "ranks/reducer.h"
#include "ranks/step_share.h"
#include "record/checkpoint.h"
#include "trainer/flat.h"
#include "trainer/trainer.h"

/* Plans that a trainer is made with. */
enum { PLAN_TO_TRAIN = 1, PLAN_TO_EVALUATE = 2, PLAN_TO_CLASSIFY = 4 };

/* The model and its training plan for micro-batches of one size. At most two sizes occur, which differ by one. */
typedef struct sized_plan {
    int64_t count; /* sequences */
    model *model;  /* the trainer's, or `own` */
    model own;     /* recorded for this size, unless it is `batch` */
    tape_plan *plan;
} sized_plan;

enum { SIZES_MAX = 2 };

struct trainer {
    config c;
    comm *comm;
    int threads;
    data_set *data;
    model model;       /* recorded once */
    tape_plan *eval;   /* of its loss; NULL: not planned */
    tape_plan *logits; /* of images; else NULL */
    char *passing;     /* memory of what no plan keeps: only one of them runs at a time */
    float *class_sums; /* (2, batch, classes): mean logits of the views of tta, and those of the first view */
    float *images;     /* a batch, if there is no evaluation plan to put it into */
    int64_t elements;
    void *flats[FLATS_MAX]; /* as flat_rows lists them; NULL: not wanted */
    scion_optimizer *optimizer;
    trainer_memory memory;
    int64_t steps; /* of the whole run */

    /* Position */
    int64_t step;       /* steps taken */
    int64_t micro;      /* `light` on one rank, stopped in a step: micro-batches that the average has already */
    double micro_loss;  /* the sum of their losses */
    double micro_bytes; /* raw bytes of their targets; NAN: not known */
    bool partial_step;  /* `light` on several ranks: a step failed, and the averages have parts of it */

    /* Training */
    step_share share;
    sized_plan sizes[SIZES_MAX];
    int size_count;
    shard_plan shards;
    reducer *reducer;
    running_buffers running;
    struct step_message *messages; /* of all ranks, at the end of a step */
    size_t message_bytes;
    double *joint; /* sums over all parameters */
};

/* ---- Making, in this order (trainer.c) ---- */

scion_status trainer_new(trainer **out, const config *c, comm *ranks, scion_error *err);
/* *special: context of these data that is no option, else all zero. */
scion_status trainer_open_data(trainer *t, const data_context *special, scion_error *err);
/* Records the model and makes the plans; checks that they fit into memory before anything large is allocated. */
scion_status trainer_plan(trainer *t, unsigned plans, scion_error *err);
scion_status trainer_allocate(trainer *t, scion_error *err);
scion_status trainer_make_optimizer(trainer *t, scion_error *err);

/* ---- Checkpoints (trainer_checkpoint.c) ---- */

/* The configuration of a checkpoint of ours. */
scion_status trainer_read_config(const checkpoint *file, const char *path, config *c, scion_error *err);
/* Weights and buffers, and unless model_only, the other flat arrays that are saved. */
scion_status trainer_read_weights(trainer *t, const checkpoint *file, const char *path, bool model_only,
                                  scion_error *err);
scion_status trainer_read_optimizer(trainer *t, const checkpoint *file, const char *path, scion_error *err);
/* The step of the checkpoint, and the steps that its run was to have. */
scion_status trainer_read_steps(const checkpoint *file, const char *path, int64_t *step, int64_t *steps,
                                scion_error *err);
/* The rest of the position; refuses a step in the middle where the ranks divide it otherwise. */
scion_status trainer_read_position(trainer *t, const checkpoint *file, const char *path, run_position *position,
                                   scion_error *err);

/* ---- For the files of this room ---- */

/* Points all models at the flat arrays, with gradients going to `grads`. */
void trainer_bind(const trainer *t, void *grads);
const scion_rule_properties *trainer_rule(const trainer *t);
const tta *trainer_tta(const trainer *t);
double trainer_lr_at(const training_options *o, int64_t steps, int64_t step);
/* Arrays of a plan's inputs, in the order of the data's arrays. */
void trainer_find_inputs(const model *m, const tape_plan *p, void *arrays[DATA_ARRAYS]);
/* Raw bytes of the targets in a plan's inputs; 0: not known, or the loss is not the cost of these bytes. */
double trainer_target_bytes(const trainer *t, const model *m, const tape_plan *p);
/* Bits per byte of text whose tokens cost `nats` in all; NAN: bytes are 0 or not known. */
double trainer_bits_per_byte(double nats, double bytes);
/* Name of the first buffer, or weight if asked for, that is not finite; NULL: all are. */
const char *trainer_nonfinite(const trainer *t, bool weights);

/* Bytes of a rank's message at the end of a step (trainer_step.c). */
size_t step_message_bytes(const step_share *s);

static inline bool trainer_stopped(const trainer_watch *w)
{
    return w && w->stop && w->stop(w->ctx);
}

#endif
