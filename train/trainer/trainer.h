/* Training: data, model, weights and optimizer together, on one rank or many. One step is a straight line:
 *
 *     batch   <- data                    for each micro-batch of this rank
 *     loss    <- tape forward
 *     grads   <- tape backward           (adds; the optimizer zeroed or shrank them)
 *     grads   <- sum over ranks
 *     weights <- optimizer step(lr)
 *
 * A trainer prints nothing and knows no folder; cli/ and run/ do. */
#ifndef TRAIN_TRAINER_TRAINER_H
#define TRAIN_TRAINER_TRAINER_H

#include "comm/comm.h"
#include "config/config.h"
#include "data/data.h"
#include "data/tta.h"
#include "models/model.h"
#include "ranks/shard.h"
#include "record/mistakes.h"
#include "tensor/plan.h"
#include "util/memory_limit.h"

typedef struct trainer trainer;

/* Bytes of the parts of a run. */
typedef struct trainer_memory {
    size_t weights, gradients, state, workspace, activations, packed, evaluation, total;
    size_t sharing;       /* sums and messages of several ranks, or of deterministic sums */
    size_t data;          /* the data in memory, with samples decoded ahead */
    size_t decoding;      /* beside them, at most, while files are decoded */
    double per_parameter; /* weights, gradients and state */
    memory_limit limit;   /* available to this process */
} trainer_memory;

/* ---- Opening ----
 * Each function below composes checkpoint -> configuration -> data -> model -> weights [-> optimizer -> position] and
 * stops where it has enough. On failure *out is NULL. */

/* A new run with settings that passed config_check. The option `init` names a run, or a folder of transformers, to
 * take weights and vocabulary from; its model must be the same, and *init_step (may be NULL) is its step (0 for a
 * folder), else -1. `ranks`: those that train together; NULL: this process alone. */
scion_status trainer_create(trainer **out, const config *c, comm *ranks, int64_t *init_step, scion_error *err);

/* The part of a run's position that is the loop's, not the trainer's; checkpoints carry it. */
typedef struct run_position {
    double best;         /* lowest validation loss so far, INFINITY: none yet */
    bool validation_due; /* the run was stopped in the validation after its last step */
    char *changes;       /* step sizes changed by resume --force, a line each, or NULL; owned by the struct */
} run_position;

run_position run_position_start(void);
void run_position_free(run_position *p);

/* Differences between a resumed run and the saved one, for messages. */
typedef struct trainer_resumed {
    double lr_before;     /* of the last step before; NAN: none */
    int64_t steps_before; /* that the run was to have */
} trainer_resumed;

/* Continues the run of a checkpoint. Pairs "key=value" change options that do not decide what a run computes (out,
 * steps, intervals, threads); force: the step sizes too, which *position then records. */
scion_status trainer_resume(trainer **out, const char *path, const char *const *pairs, int count, bool force,
                            comm *ranks, run_position *position, trainer_resumed *before, scion_error *err);

/* Uses of a trained model: no gradients, no optimizer, one process. */
typedef enum trainer_use {
    TRAINER_EVALUATE,       /* on the validation part */
    TRAINER_EVALUATE_WHOLE, /* on all of the data */
    TRAINER_CLASSIFY,       /* image files; the training images are not needed */
    TRAINER_GENERATE,       /* text; the training text is not needed, and nothing is planned */
    TRAINER_EXPORT          /* the same, for files of other programs */
} trainer_use;

/* Opens a checkpoint for such a use. Pairs change data, batch, block, threads and the like. */
scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, trainer_use use,
                          scion_error *err);

/* For `init`: sets the model, and the settings that its weights depend on, to those of a run or of a folder of
 * transformers; *from gets that run's whole configuration. *trained: it is a run, which has an optimizer. */
scion_status trainer_model_of(config *c, const char *run, config *from, bool *trained, scion_error *err);
/* For `init`: sets the optimizer to that of the run, with a tenth of its peak learning rate. The weights have learned
 * already: steps as large as those of their start would undo it. */
#define TRAINER_INIT_LR 0.1
void trainer_optimizer_of(config *c, const config *from);
/* Ranks tell each other the hashes of the data that each has read; data_info.hash is then that of all. */
void trainer_share_hashes(trainer *t);
/* All ranks take the weights and buffers of rank 0: they begin alike although their machines may round
 * differently. */
void trainer_share_weights(const trainer *t);
void trainer_free(trainer *t);

/* ---- Looking ---- */

typedef struct trainer_info {
    const config *config;
    data_set *data;
    const model *model;
    int64_t parameters;
    scion_optimizer *optimizer; /* NULL: opened for use only */
    tape_plan *evaluation;      /* NULL: none was made */
    const trainer_memory *memory;
    int threads;
    comm *comm;
    const shard_plan *shards; /* shares of the ranks; NULL: there is one */
    const char *unit;         /* "tokens" or "images" */
    bool reports_accuracy;    /* accuracy is worth showing for this model */
    bool reports_mistakes;    /* validations can collect mistakes: images, on one rank */
    int64_t step, steps;      /* taken; of the whole run */
    int64_t micro;            /* micro-batches of the present step that `light` has taken in already */
    bool is_whole; /* weights and optimizer are those after whole steps, and may be saved; false: a step with
                                 `light` failed on several ranks, and their averages hold parts of it */
} trainer_info;

trainer_info trainer_about(const trainer *t);
/* Bytes that a rank sends and receives in a step, beside small messages. */
double trainer_wire_bytes(const trainer *t, int rank);

/* Tokens or images of one step; operations of its forward and backward passes. */
int64_t trainer_samples(const trainer *t);
double trainer_flops(const trainer *t);
/* Step size of the next step. */
double trainer_lr(const trainer *t);
/* Files or symbols of the data that were left out, on all ranks together. */
int64_t trainer_skipped(const trainer *t);

/* ---- Training ---- */

/* Callbacks during steps and validations; members may be NULL. */
typedef struct trainer_watch {
    /* Asked between micro-batches, and between batches of a validation, which then end with SCION_ESTOPPED. */
    bool (*stop)(void *ctx);
    void (*computed)(void *ctx, int64_t done, int64_t count);  /* after each micro-batch of a step */
    void (*evaluated)(void *ctx, int64_t done, int64_t count); /* after each batch of a validation */
    void *ctx;
} trainer_watch;

typedef struct step_report {
    double loss;          /* mean over the micro-batches of all ranks */
    double bits_per_byte; /* the same in bits per byte of the raw text; NAN: not known */
    double forward_s, backward_s, optimizer_s;
    double comm_s; /* waiting for other ranks */
    bool stopping; /* some rank wants to stop; the same on all of them */
} step_report;

/* One step. A loss that is not finite: SCION_ENONFINITE, and the message names the first layer whose result was not
 * finite; weights and optimizer state are as before the step (the gradients are not). The same if it is stopped,
 * SCION_ESTOPPED, or has no data. With `light` on one rank, whose average is in the gradients, a stopped step is
 * continued at the next micro-batch. `watch` may be NULL. */
scion_status trainer_step(trainer *t, const trainer_watch *watch, step_report *report, scion_error *err);

/* Writes all that a resumed run needs, into the open folder `folder` if that is >= 0 (file.h). All ranks call it;
 * rank 0 writes, the others send it their parts. ENONFINITE, and the file is as it was, if a weight is not finite. */
scion_status trainer_save(const trainer *t, const run_position *position, int folder, const char *path,
                          scion_error *err);

/* ---- Evaluation ---- */

typedef struct trainer_scores {
    double loss;           /* mean over the samples, as they are */
    double bits_per_byte;  /* of the raw text; NAN: no text, or its bytes are not known */
    double accuracy;       /* share of right answers; with tta, by the mean logits */
    double plain_accuracy; /* without tta */
    double top5;      /* share whose class is among the five likeliest; NAN: no images, or at most five classes */
    int64_t measured; /* tokens or images that counted; files that cannot be read do not */
} trainer_scores;

/* A validation as the options say; last: the one at the end of the run, with tta. *wrong, if not NULL: the mistakes
 * of images, which the caller frees; NULL if there are none to collect (reports_mistakes) or the loss is not
 * finite. */
scion_status trainer_validate(trainer *t, bool last, const trainer_watch *watch, trainer_scores *scores,
                              mistakes **wrong, scion_error *err);
/* Mean loss over the validation part (at most `batches` batches, 0: all of it) and, for images, accuracy; by the plan
 * of the loss alone. */
scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err);
/* Puts a batch into the inputs of the evaluation plan; it stays there until the next evaluation. */
scion_status trainer_fill_evaluation(trainer *t, data_part part, int64_t index, scion_error *err);

/* Samples of one validation, as eval_end, eval_batches or eval_tokens limit it; 0: there is none. */
int64_t trainer_validation_samples(const trainer *t, bool last);
/* Forward passes over a batch: at the end, one for each view of tta. */
int64_t trainer_validation_passes(const trainer *t, bool last);

/* Puts an image file into row `row` of a batch; then computes the probabilities (batch, classes) of all rows. For
 * TRAINER_CLASSIFY. */
scion_status trainer_put_file(trainer *t, int64_t row, const char *path, scion_error *err);
void trainer_classify(trainer *t, float *probabilities);

#endif
