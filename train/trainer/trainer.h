/* Training: data, model, weights and optimizer together. One step is a straight line:
 *
 *     batch   <- data                    for each micro-batch
 *     loss    <- tape forward
 *     grads   <- tape backward           (adds; the optimizer zeroed or shrank them)
 *     weights <- optimizer step(lr)
 *
 * A trainer prints nothing; cli/ does. */
#ifndef TRAIN_TRAINER_TRAINER_H
#define TRAIN_TRAINER_TRAINER_H

#include "config/config.h"
#include "util/memory_limit.h"
#include "data/data.h"
#include "data/tta.h"
#include "models/model.h"
#include "tensor/plan.h"

/* Bytes of the parts of a run. */
typedef struct trainer_memory {
    size_t weights, gradients, state, workspace, activations, packed, evaluation, total;
    size_t sharing;       /* sums and messages of several ranks, or of deterministic sums */
    size_t data;          /* what the data hold in memory, samples that are decoded ahead as well */
    double per_parameter; /* of weights, gradients and state */
    memory_limit limit;   /* what may be used */
} trainer_memory;

struct trainer_ranks; /* trainer_ranks.h */

typedef struct trainer {
    config c;
    data_set *data;
    model model;             /* recorded once */
    tape_plan *train, *eval; /* of its loss; train: NULL if the trainer only evaluates */
    tape_plan *logits;       /* of images; else NULL */
    float *class_sums;       /* (batch, classes): mean logits of the views of tta */
    struct mistakes *wrong;  /* of the last validation with last = true (mistakes.h); NULL: none, or no images */
    float *weights, *grads;  /* flat: float32, unless the options weights and grads say otherwise (tape_store) */
    float *buffers;          /* likewise, what the model keeps beside its weights; NULL: nothing */
    float *buffers_before;   /* as they were before this step */
    float *grads_before;     /* rule mars: gradient at the weights before, else NULL */
    int64_t elements;
    scion_optimizer *optimizer;
    int64_t step;        /* steps taken */
    int64_t steps;       /* of the whole run */
    double best;         /* lowest validation loss so far, INFINITY: none yet */
    bool validation_due; /* the run was stopped in the validation after `step` */
    int64_t micro;       /* `light`, ended in a step: micro-batches of it that are in the average already */
    double micro_loss;   /* the sum of their losses */
    bool torn;           /* `light` with `ranks`: a step failed, and the averages have parts of it: not to be saved */
    int64_t init_step;   /* step of the run that `init` names, whose weights this one started from */
    double lr_before;    /* of the last step before the run was resumed; NAN: none */
    int64_t steps_before; /* steps that the run was to have when it was saved, 0: it is new */
    char *changes; /* settings changed by trainer_resume_changed, a line each ("step 40: lr 0.03 -> 0.01"), or NULL */
    struct trainer_ranks *ranks; /* several ranks, or `deterministic`; NULL: neither */
    int threads;
    int folder; /* c.run.out, open and locked (run_dir.h): what is written there goes into it; -1: by its path */
    trainer_memory memory; /* what it takes */
    /* Asked between micro-batches and between batches of a validation, which then end with SCION_ESTOPPED; may be
     * NULL. A step that was stopped is begun again; with `light`, whose average is in the gradients, it is gone on
     * with at the next micro-batch. */
    bool (*stop)(void *ctx);
    void (*computed)(void *ctx, int64_t done, int64_t count);  /* after each micro-batch of a step; may be NULL */
    void (*evaluated)(void *ctx, int64_t done, int64_t count); /* after each batch of a validation; may be NULL */
    void *stop_ctx;                                            /* of all three */
    double forward_s, backward_s, optimizer_s;                 /* of the last step */
    double comm_s;                                             /* ... waiting for other ranks */
} trainer;

/* Opens the data, records the model, refuses what cannot fit in memory, allocates, initialises the weights, or takes
 * them from the run that the option `init` names: then the model must be the same, and the data are read with its
 * vocabulary. */
scion_status trainer_create(trainer **out, const config *c, scion_error *err);
/* The same from a checkpoint: configuration, weights, optimizer, position. Pairs "key=value" change what may be
 * changed on the way (out, steps, log and save intervals, threads). */
scion_status trainer_resume(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err);
/* The same; pairs may also change the step sizes (lr, schedule, ...). What was changed is in t->changes, and in the
 * checkpoints from now on. */
scion_status trainer_resume_changed(trainer **out, const char *path, const char *const *pairs, int count,
                                    scion_error *err);
/* Sets the model of a configuration, and what belongs to it, to that of a run or checkpoint: for `init`. */
scion_status trainer_model_of(config *c, const char *run, scion_error *err);
/* Only data vocabulary, model and weights of a checkpoint, for evaluation and sampling: no gradients, no optimizer.
 * Pairs change data, batch, block and threads. */
scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err);
/* The same, with all of the data as the validation part. */
scion_status trainer_open_whole(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err);
/* The same without data: the vocabulary and the model alone, for sampling. */
scion_status trainer_open_model(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err);
/* The same for images: what the checkpoint says of them is enough. */
scion_status trainer_open_images(trainer **out, const char *path, const char *const *pairs, int count,
                                 scion_error *err);
void trainer_free(trainer *t);

/* An image file into row `row` of a batch; then the probabilities of the classes of all its rows, (batch, classes).
 * Of trainers by trainer_open_images. */
scion_status trainer_put_file(trainer *t, int64_t row, const char *path, scion_error *err);
void trainer_classify(trainer *t, float *probabilities);

/* One step; *loss is the mean over its micro-batches. A loss that is not finite: SCION_ENONFINITE, and the message
 * names the first layer whose result was not finite; weights and the optimizer's state are as before the step (the
 * gradients are not). The same if it is stopped, SCION_ESTOPPED, or has no data; but see `micro`. */
scion_status trainer_step(trainer *t, double *loss, scion_error *err);
/* Puts a batch into the inputs that trainer_evaluate uses; it stays there until the next evaluation. */
scion_status trainer_fill_evaluation(trainer *t, data_part part, int64_t index, scion_error *err);
/* Step size of the next step. */
double trainer_lr(const trainer *t);
/* What a validation finds. */
typedef struct trainer_scores {
    double loss;           /* mean over the samples, as they are */
    double accuracy;       /* share of right answers; with tta, of the mean logits */
    double plain_accuracy; /* without tta */
    double top5;           /* share whose class is among the five likeliest, as accuracy; NAN: no images, or not more
                              than five classes */
    int64_t measured;      /* samples' units that counted: not images that cannot be read */
} trainer_scores;

/* A validation as the options say; last: the one at the end of the run, with tta, and what it gets wrong becomes
 * t->wrong. */
scion_status trainer_validate(trainer *t, bool last, trainer_scores *scores, scion_error *err);
/* Mean loss over the validation part (at most `batches` batches, 0: all of it) and, for images, accuracy; by the plan
 * of the loss alone. */
scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err);

/* Writes everything that a resumed run needs, into the open folder `folder` if that is >= 0 (file.h); ENONFINITE, and
 * the file is as it was, if a weight is not finite. */
scion_status trainer_save(const trainer *t, int folder, const char *path, scion_error *err);

/* What a sample is: "tokens" or "images". */
const char *trainer_unit(const trainer *t);
/* Whether trainer_evaluate's accuracy is worth showing for this model. */
bool trainer_reports_accuracy(const trainer *t);
/* Samples and batches of one validation: those that eval_end, eval_batches or eval_tokens allow, or all of the
 * validation part; 0: there is none. */
int64_t trainer_validation_samples(const trainer *t, bool last);
int64_t trainer_validation_batches(const trainer *t, bool last);
/* Forward passes over a batch: at the end, one for each view of tta. */
int64_t trainer_validation_passes(const trainer *t, bool last);

/* Tokens or images of one step; operations of one step's forward and backward passes. */
int64_t trainer_samples(const trainer *t);
double trainer_flops(const trainer *t);

/* ---- For those who compute with one ---- */

const scion_rule_properties *trainer_rule(const trainer *t);
const tta *trainer_tta(const trainer *t);
double trainer_lr_at(const training_options *o, int64_t steps, int64_t step);
/* Where a plan wants the arrays of a batch. */
void trainer_find_inputs(const trainer *t, const tape_plan *p, void *arrays[DATA_ARRAYS]);
/* Batch `index` of a part into a plan's inputs; batch `next` is decoded meanwhile, if it must be. */
scion_status trainer_fill(const trainer *t, const tape_plan *p, data_part part, int64_t index, int64_t next,
                          scion_error *err);
/* Whether somebody wants it to stop. */
bool trainer_stopped(const trainer *t);
/* The first of n values that is not finite, by its name; NULL: all are. */
const char *trainer_find_nonfinite(tape_value *(*value)(const tape *t, int64_t i), const tape *t, int64_t n);
const char *trainer_nonfinite_buffer(const trainer *t);

#endif
