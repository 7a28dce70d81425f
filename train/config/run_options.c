/* See run_options.h. */
#include "config/run_options.h"

#include <string.h>

#include "base/bf16.h"
#include "config/config.h"
#include "data/tta.h"

static const char *rule_name(int i)
{
    return scion_enum_name(SCION_ENUM_RULE, i);
}

static const char *polar_name(int i)
{
    return scion_enum_name(SCION_ENUM_POLAR, i);
}

static const char *schedule_name(int i)
{
    return scion_enum_name(SCION_ENUM_SCHEDULE, i);
}

static const char *const storage[] = {[SCION_F32] = "float32", [SCION_BF16] = "bf16", NULL};
static const char *const rounding[] = {
    [SCION_ROUNDING_STOCHASTIC] = "stochastic", [SCION_ROUNDING_NEAREST] = "nearest", NULL};
static const char *const input_scale[] = {[INPUT_SCALE_MAX] = "max", [INPUT_SCALE_PLAIN] = "plain", NULL};

static const char *norms_of_model(const void *configuration)
{
    const model_row *row = config_model(configuration);
    if (row->norms_by)
        return row->norms_by(config_model_options(configuration));
    return row->norms ? row->norms : "onehot";
}

/* Before the option existed, each layer had its own norm where the step grows with the dual norm (ssd), and all layers
 * had one in nsgd and mnsgd. */
static const char *layerwise_origin(const void *configuration)
{
    const char *rule = ((const config *)configuration)->optimizer.rule;
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, rule))->sharp ? "yes" : "no";
}

#define INT(field, ...) OPTION_INT_ROW(training_options, field, #field, __VA_ARGS__)
#define REAL(field, ...) OPTION_REAL_ROW(training_options, field, #field, __VA_ARGS__)

#define STORAGE(field, about) OPTION_CHOICE_ROW(training_options, field, #field, "float32", storage, about)

const option training_option_rows[] = {
    INT(batch, "32", 1, OPTION_MANY, "sequences or images in a micro-batch", .change = OPTION_ON_EVAL),
    INT(accum, "1", 1, OPTION_MANY, "micro-batches in a step"),
    INT(steps, "0", 0, OPTION_EVER, "steps of the run; 0: epochs says", .change = OPTION_ON_RESUME),
    REAL(epochs, "0", 0, 1e9, "passes over the data, where steps is 0"),
    REAL(lr, "2^-5", 0, 1e6, "learning rate: the step size, or its peak", .change = OPTION_ON_FORCE),
    OPTION_ENUM_ROW(training_options, schedule, "schedule", "linear", schedule_name, "step size over time",
                    .change = OPTION_ON_FORCE),
    INT(warmup, "0", 0, OPTION_EVER, "cosine, constant_linear: steps from lr_start up to lr",
        .change = OPTION_ON_FORCE),
    INT(decay, "0", 0, OPTION_EVER, "constant_linear: steps of the decay at the end", .change = OPTION_ON_FORCE),
    REAL(lr_start, "0", 0, 1e6, "cosine, constant_linear: step size before the warm-up", .change = OPTION_ON_FORCE),
    REAL(lr_end, "0", 0, 1e6, "cosine: step size at the end", .change = OPTION_ON_FORCE),
    OPTION_SEED_ROW(training_options, seed, "seed", "1", "of weights and of the order of samples"),
    OPTION_STRING_ROW(training_options, init, "init", "",
                      "run or checkpoint whose model and weights the run starts from (fine-tuning)"),
    STORAGE(weights, "storage of the matrices' weights: bf16 takes half the room"),
    STORAGE(grads, "storage of their gradients, and with light of the average"),
    STORAGE(activations, "storage of what waits for the backward pass"),
    OPTION_CHOICE_ROW(training_options, rounding, "rounding", "stochastic", rounding,
                      "of bf16 weights and gradients; nearest loses small steps: for comparison"),
    INT(threads, "0", 0, 4096, "0: all cores; of several ranks on a host each has its share of them", .neutral = true,
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_BOOL_ROW(training_options, deterministic, "deterministic", "no",
                    "sum micro-batches along one tree: the same bits with 1, 2, 4, ... ranks that divide accum",
                    .change = OPTION_ON_RESUME),
    OPTION_CHOICE_ROW(training_options, wire, "wire", "float32", storage,
                      "what gradients are between ranks; bf16: half the bytes, rounded to nearest",
                      .change = OPTION_ON_RESUME),
    REAL(comm_timeout, "300", 0, 1e9, "seconds of silence after which a rank is given up and the run ends, 0: never",
         .neutral = true, .change = OPTION_ON_RESUME),
    OPTION_END,
};

#undef INT
#undef REAL
#undef STORAGE
#define INT(field, ...) OPTION_INT_ROW(optimizer_options, field, #field, __VA_ARGS__)
#define REAL(field, ...) OPTION_REAL_ROW(optimizer_options, field, #field, __VA_ARGS__)
#define BOOL(field, ...) OPTION_BOOL_ROW(optimizer_options, field, #field, __VA_ARGS__)
#define ENUM(field, ...) OPTION_ENUM_ROW(optimizer_options, field, #field, __VA_ARGS__)

const option optimizer_option_rows[] = {
    ENUM(rule, "scion", rule_name, "optimizer"),
    OPTION_STRING_ROW(optimizer_options, norms, "norms", "auto",
                      "auto: image for images, shared if tied, else onehot; sign, colnorm, ..., or sign,rownorm,sign",
                      .list = '/', .origin = "onehot", .derive = norms_of_model),
    REAL(momentum, "0.1", 0, 1, "weight alpha of the new gradient in the average; 0: the rule's own"),
    REAL(weight_decay, "0", 0, 1e6, "mu; scion has 1 by definition and takes 0 here"),
    BOOL(decay_vectors, "yes", "weight_decay is of vectors too: biases, gains, shifts, positions, class token"),
    BOOL(vanishing, "no", "alpha = 1/sqrt(step) in place of momentum"),
    BOOL(first_full, "no", "alpha = 1 in the first step: the average starts at the first gradient"),
    BOOL(light, "no", "keep the average in the gradient: no state (scion, uscion, signum, mnsgd)"),
    BOOL(layerwise, "no", "nsgd, mnsgd, ssd: each layer's own norm in place of one for all",
         .origin_of = layerwise_origin),
    BOOL(nesterov, "yes", "muon: look ahead"),
    BOOL(boundary_init, "yes", "weights start on the boundary of their balls"),
    REAL(radius_first, "1", 0, 1e9, "radius of the first layer"),
    REAL(radius_hidden, "3", 0, 1e9, "radius of the hidden layers"),
    REAL(radius_last, "10", 0, 1e9, "radius of the last layer"),
    REAL(radius_vector, "0", 0, 1e9, "radius of the hidden layers' vectors (biases, shifts), 0: radius_hidden"),
    OPTION_CHOICE_ROW(optimizer_options, input_scale, "input_scale", "max", input_scale,
                      "spectral first layer of images: max(1, sqrt(d_out/d_in)), or sqrt(d_out/d_in)"),
    REAL(muon_multiplier, "0.1", 0, 1e6, "muon: factor on the step size of the hidden layers"),
    REAL(adam_lr, "0", 0, 1e6, "muon: learning rate of its AdamW part, which follows the schedule too; 0: lr"),
    REAL(beta1, "0.9", 0, 0.9999999, "adamw: average of the gradient"),
    REAL(beta2, "0.95", 0, 0.9999999, "adamw: average of its square"),
    REAL(adam_eps, "1e-8", 0, 1, "adamw: added to the denominator"),
    REAL(clip_norm, "0", 0, 1e9, "adamw, sgd: largest norm of the whole gradient, 0: any"),
    REAL(eps, "0", 0, 1, "added to the denominators of the norms"),
    ENUM(polar, "quintic", polar_name, "iteration of the spectral norm"),
    INT(polar_steps, "0", 0, 1000, "steps of that iteration, 0: its own number"),
    OPTION_END,
};

#undef INT
#undef REAL
#define INT(field, ...) OPTION_INT_ROW(run_options, field, #field, __VA_ARGS__)
#define REAL(field, ...) OPTION_REAL_ROW(run_options, field, #field, __VA_ARGS__)

const option run_option_rows[] = {
    OPTION_STRING_ROW(run_options, out, "out", "", "folder for metrics, summary and checkpoints", .neutral = true,
                      .change = OPTION_ON_RESUME),
    INT(log_every, "10", 0, OPTION_EVER, "steps between log lines, 0: none", .neutral = true,
        .change = OPTION_ON_RESUME),
    INT(eval_every, "0", 0, OPTION_EVER, "steps between validations, 0: only at the end", .neutral = true,
        .change = OPTION_ON_RESUME),
    INT(eval_batches, "0", 0, OPTION_EVER, "batches of a validation, 0: all of the validation part",
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    /* No part of a run's identity: ledgers find the runs that were validated on more. */
    INT(eval_tokens, "2^18", 0, OPTION_EVER,
        "without eval_batches: tokens (images) of a validation, spread over its part, 0: all", .neutral = true,
        .origin = "0", .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    INT(eval_end, "0", 0, OPTION_EVER,
        "tokens (images) of the validation at the end, from the start of its part, 0: as the others",
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_ENUM_ROW(run_options, tta, "tta", "none", tta_name,
                    "images, at the end: accuracy of the mean logits of an image mirrored, also moved by a pixel",
                    .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    INT(norm_every, "0", 0, OPTION_EVER, "steps between measurements of the weights' norms, 0: none", .neutral = true,
        .change = OPTION_ON_RESUME),
    INT(save_every, "0", 0, OPTION_EVER, "steps between checkpoints, 0: only at the end", .neutral = true,
        .change = OPTION_ON_RESUME),
    INT(keep, "2", 0, OPTION_EVER, "newest checkpoints to keep, beside the best one; 0: one, and not the best",
        .neutral = true, .change = OPTION_ON_RESUME),
    REAL(max_minutes, "0", 0, 1e9, "stop and save after this time, 0: no limit", .neutral = true,
         .change = OPTION_ON_RESUME),
    OPTION_END,
};
