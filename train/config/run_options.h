/* Options of training, optimizer and run. */
#ifndef TRAIN_CONFIG_RUN_OPTIONS_H
#define TRAIN_CONFIG_RUN_OPTIONS_H

#include "base/bf16.h"
#include "scion_advanced.h"
#include "util/option.h"

typedef struct training_options {
    int64_t batch, accum, steps; /* samples in a micro-batch, micro-batches in a step */
    double epochs;               /* where steps is 0 */
    double lr;
    char schedule[OPTION_NAME];
    option_span warmup, decay;
    double lr_start, lr_end; /* lr_start: OPTION_AUTO: lr divided by the steps of the warm-up */
    uint64_t seed;
    int64_t threads;
    bool deterministic;              /* sum micro-batches along a tree that does not depend on the number of ranks */
    int wire;                        /* scion_dtype of gradients between ranks */
    double comm_timeout;             /* seconds after which a silent rank ends the run; 0: never */
    int weights, grads, activations; /* scion_dtype of storage */
    int compute;                     /* scion_dtype of the operands of products */
    int rounding;                    /* scion_rounding of weights and grads to bfloat16 */
    char init[OPTION_TEXT];          /* run or checkpoint whose weights the run starts from, "": random weights */
} training_options;

/* Factor of the spectral norm of a first layer of images: max(1, sqrt(d_out/d_in)), or without the max. */
enum { INPUT_SCALE_MAX, INPUT_SCALE_PLAIN };

/* As `compute`, unless the set of coefficients computes in float32 only. */
enum { POLAR_COMPUTE_AUTO = SCION_BF16 + 1 };

typedef struct optimizer_options {
    char rule[OPTION_NAME], norms[OPTION_TEXT]; /* norms: a routing of scion.h, "first,hidden,last",
                                                   or "auto" */
    double momentum, weight_decay;
    bool decay_vectors, vanishing, first_full, light, layerwise, nesterov, boundary_init;
    double radius_first, radius_hidden, radius_last, radius_vector;
    int input_scale; /* INPUT_SCALE_MAX, INPUT_SCALE_PLAIN */
    double muon_multiplier, adam_lr, beta1, beta2, adam_eps, clip_norm, eps;
    char polar[OPTION_NAME];
    int64_t polar_steps;
    int polar_compute; /* scion_dtype, or POLAR_COMPUTE_AUTO (config_polar_compute) */
} optimizer_options;

typedef struct run_options {
    char out[OPTION_TEXT];
    int64_t log_every, eval_every, eval_batches, norm_every, save_every, keep; /* steps; 0: off */
    int64_t eval_tokens, eval_end; /* tokens or images per validation, and of the last one; 0: all; as the others */
    char tta[OPTION_NAME];         /* test-time augmentation of the last validation and of eval (data/tta.h) */
    int64_t report;                /* steps between drawings of report.html; 0: none */
    char tensorboard[OPTION_TEXT]; /* folder for event files of TensorBoard, "": none */
    double max_minutes;            /* 0: no limit; stops and saves */
} run_options;

/* The step sizes of a run of that many steps, as the library takes them: shares become steps. */
scion_schedule training_schedule(const training_options *o, int64_t steps);
/* A span of a run that has `factor` times as many steps: a share stays, a number of steps is multiplied and cut, but
 * not to 0. */
option_span training_span(option_span s, double factor);

extern const option training_option_rows[], optimizer_option_rows[], run_option_rows[];

#endif
