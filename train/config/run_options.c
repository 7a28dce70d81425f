/* See run_options.h. */
#include "config/run_options.h"

#include <math.h>
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
static const char *const polar_compute[] = {
    [SCION_F32] = "float32", [SCION_BF16] = "bf16", [POLAR_COMPUTE_AUTO] = "auto", NULL};
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

static const char *polar_compute_of(const void *configuration)
{
    return storage[config_polar_compute(configuration)];
}

/* "auto" is float32 too where it means that. */
static const char *polar_compute_origin(const void *configuration)
{
    (void)configuration;
    return storage[SCION_F32];
}

/* Before the option existed, each layer had its own norm where the step grows with the dual norm (ssd), and all
 * layers had one in nsgd and mnsgd. */
static const char *layerwise_origin(const void *configuration)
{
    const char *rule = ((const config *)configuration)->optimizer.rule;
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, rule))->sharp ? "yes" : "no";
}

/* In the identity of a run a share is the number of steps, where that is known; and lr_start, which runs without a
 * warm-up do not read, is the 0 that it was by default. */
static void mean_steps(const config *c, option_span s, char *text, size_t bytes)
{
    if (c->training.steps > 0)
        snprintf(text, bytes, "%lld", (long long)option_span_steps(s, c->training.steps));
}

static void warmup_meaning(const void *c, char *text, size_t bytes)
{
    mean_steps(c, ((const config *)c)->training.warmup, text, bytes);
}

static void decay_meaning(const void *c, char *text, size_t bytes)
{
    mean_steps(c, ((const config *)c)->training.decay, text, bytes);
}

static void lr_start_meaning(const void *c, char *text, size_t bytes)
{
    const training_options *t = &((const config *)c)->training;
    if (t->lr_start < 0 && t->warmup.value <= 0)
        snprintf(text, bytes, "0");
}

scion_schedule training_schedule(const training_options *o, int64_t steps)
{
    scion_schedule s = {
        .size = sizeof s,
        .kind = scion_enum_value(SCION_ENUM_SCHEDULE, o->schedule),
        .n = steps,
        .warmup = option_span_steps(o->warmup, steps),
        .decay = option_span_steps(o->decay, steps),
        .peak = o->lr,
        .start = o->lr_start,
        .end = o->lr_end,
    };
    const int64_t rest = steps - (s.decay > 0 ? s.decay : 1);
    if (o->warmup.of > 0 && s.warmup > rest) /* rounded up, in a short run */
        s.warmup = rest > 0 ? rest : 0;
    if (o->lr_start < 0)
        s.start = s.warmup > 0 ? o->lr / (double)s.warmup : 0;
    return s;
}

option_span training_span(option_span s, double factor)
{
    if (s.of == 0 && s.value > 0)
        s.value = fmax(1, floor(s.value * factor));
    return s;
}

/* Rows whose key is the name of their field, in the struct that OWNER names. */
#define INT(field, ...) OPTION_INT_ROW(OWNER, field, #field, __VA_ARGS__)
#define REAL(field, ...) OPTION_REAL_ROW(OWNER, field, #field, __VA_ARGS__)
#define BOOL(field, ...) OPTION_BOOL_ROW(OWNER, field, #field, __VA_ARGS__)
#define ENUM(field, ...) OPTION_ENUM_ROW(OWNER, field, #field, __VA_ARGS__)
#define CHOICE(field, ...) OPTION_CHOICE_ROW(OWNER, field, #field, __VA_ARGS__)
#define STRING(field, ...) OPTION_STRING_ROW(OWNER, field, #field, __VA_ARGS__)
#define SPAN(field, ...) OPTION_SPAN_ROW(OWNER, field, #field, __VA_ARGS__)

/* May change when a run is resumed, because it does not change what the run computes. */
#define FREE .neutral = true, .change = OPTION_ON_RESUME

#define OWNER training_options
const option training_option_rows[] = {
    INT(batch, "32", 1, OPTION_MANY, "sequences or images in a micro-batch", .change = OPTION_ON_EVAL),
    INT(accum, "1", 1, OPTION_MANY, "micro-batches in a step"),
    INT(steps, "0", 0, OPTION_EVER, "steps of the run; 0: epochs decides", .change = OPTION_ON_RESUME),
    REAL(epochs, "0", 0, 1e9, "passes over the data, where steps is 0"),
    REAL(lr, "2^-5", 0, 1e6, "learning rate: the step size, or its peak", .change = OPTION_ON_FORCE),
    ENUM(schedule, "linear", schedule_name, "step size over time", .change = OPTION_ON_FORCE),
    SPAN(warmup, "0", "cosine, constant_linear: steps from lr_start up to lr, or a share of the steps (5%)",
         .meaning = warmup_meaning, .change = OPTION_ON_FORCE),
    SPAN(decay, "0", "constant_linear: steps of the decay at the end, or a share of the steps (28%)",
         .meaning = decay_meaning, .change = OPTION_ON_FORCE),
    REAL(lr_start, "auto", 0, 1e6, "cosine, constant_linear: step size at the first step; auto: lr/warmup",
         .automatic = true, .origin = "0", .meaning = lr_start_meaning, .change = OPTION_ON_FORCE),
    REAL(lr_end, "0", 0, 1e6, "cosine: step size at the end", .change = OPTION_ON_FORCE),
    OPTION_SEED_ROW(OWNER, seed, "seed", "1", "random seed of weights, batches, dropout and rounding"),
    STRING(init, "",
           "fine-tuning: start from a run or checkpoint (also its rule, radii, lr/10) or a Hugging Face folder"),
    CHOICE(compute, "float32", storage,
           "operands of products; bf16: mixed precision, sums and all else in float32 (see scion version)",
           .change = OPTION_ON_EVAL),
    CHOICE(weights, "float32", storage, "storage of matrices; bf16 takes half the memory"),
    CHOICE(grads, "float32", storage, "storage of their gradients; with light this is the average"),
    CHOICE(activations, "float32", storage, "storage of activations until the backward pass"),
    CHOICE(rounding, "stochastic", rounding,
           "rounding of bf16 weights and gradients; nearest loses small steps (for comparison)"),
    INT(threads, "0", 0, 4096, "0: all cores, divided among the ranks on this host", .neutral = true,
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    BOOL(deterministic, "no",
         "sum micro-batches along one tree: the same bits with 1, 2, 4, ... ranks that divide accum",
         .change = OPTION_ON_RESUME),
    CHOICE(wire, "float32", storage, "gradients sent between ranks; bf16: half the bytes, rounded to nearest",
           .change = OPTION_ON_RESUME),
    REAL(comm_timeout, "300", 0, 1e9,
         "seconds of silence after which a rank counts as lost and the run ends, 0: never", FREE),
    OPTION_END,
};

#undef OWNER
#define OWNER optimizer_options

const option optimizer_option_rows[] = {
    ENUM(rule, "scion", rule_name, "optimizer"),
    STRING(norms, "auto",
           "auto: image for images, shared if tied, else onehot; sign, colnorm, ..., or sign,rownorm,sign",
           .list = '/', .origin = "onehot", .derive = norms_of_model),
    REAL(momentum, "0.1", 0, 1, "weight alpha of the new gradient in the average; 0: the rule's own"),
    REAL(weight_decay, "0", 0, 1e6,
         "mu: a step shrinks weights by lr mu; must be 0 for scion, which shrinks them by lr itself"),
    BOOL(decay_vectors, "yes", "weight_decay applies to vectors too: biases, gains, shifts, positions, class token"),
    BOOL(vanishing, "no", "alpha = 1/sqrt(step) in place of momentum"),
    BOOL(first_full, "no", "alpha = 1 in the first step: the average starts at the first gradient"),
    BOOL(light, "no", "keep the average in the gradient: no state (scion, uscion, signum, mnsgd)"),
    BOOL(layerwise, "no", "nsgd, mnsgd, ssd: one norm per layer, not one for all layers",
         .origin_of = layerwise_origin),
    BOOL(nesterov, "yes", "muon: Nesterov momentum"),
    BOOL(boundary_init, "yes", "weights start on the boundary of their balls"),
    REAL(radius_first, "1", 0, 1e9, "radius of the first layer"),
    REAL(radius_hidden, "3", 0, 1e9, "radius of the hidden layers"),
    REAL(radius_last, "10", 0, 1e9, "radius of the last layer"),
    REAL(radius_vector, "0", 0, 1e9, "radius of the hidden layers' vectors (biases, shifts), 0: radius_hidden"),
    CHOICE(input_scale, "max", input_scale,
           "spectral first layer of images: max(1, sqrt(d_out/d_in)), or sqrt(d_out/d_in)"),
    REAL(muon_multiplier, "0.1", 0, 1e6, "muon: factor on the step size of the hidden layers"),
    REAL(adam_lr, "0", 0, 1e6, "muon: learning rate of its AdamW part, which follows the schedule too; 0: lr"),
    REAL(beta1, "0.9", 0, 0.9999999, "adamw: decay of the gradient's average"),
    REAL(beta2, "0.95", 0, 0.9999999, "adamw: decay of the average of its square"),
    REAL(adam_eps, "1e-8", 0, 1, "adamw: added to the denominator"),
    REAL(clip_norm, "0", 0, 1e9, "adamw, sgd: max norm of the whole gradient, 0: no limit"),
    REAL(eps, "0", 0, 1, "added to the denominators of the norms"),
    ENUM(polar, "quintic", polar_name, "iteration of the spectral norm"),
    INT(polar_steps, "0", 0, 1000, "steps of that iteration, 0: the iteration's default"),
    CHOICE(polar_compute, "auto", polar_compute,
           "operands of its products; auto: as compute, if polar=quintic; bf16: quintic only", .origin = "float32",
           .origin_of = polar_compute_origin, .derive = polar_compute_of),
    OPTION_END,
};

#undef OWNER
#define OWNER run_options

const option run_option_rows[] = {
    STRING(out, "", "folder for metrics, summary and checkpoints", FREE),
    INT(log_every, "10", 0, OPTION_EVER, "steps between log lines, 0: none", FREE),
    INT(eval_every, "0", 0, OPTION_EVER, "steps between validations, 0: only at the end", FREE),
    INT(eval_batches, "0", 0, OPTION_EVER, "batches of a validation, 0: all of the validation part",
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    /* Neutral, so that ledgers find the runs that were validated on more. */
    INT(eval_tokens, "2^18", 0, OPTION_EVER,
        "tokens (images) per validation, spread over its part, 0: all; not with eval_batches", .neutral = true,
        .origin = "0", .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    INT(eval_end, "0", 0, OPTION_EVER,
        "tokens (images) of the last validation, whole batches from the start of its part, 0: as the others",
        .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    ENUM(tta, "none", tta_name,
         "images, last validation: mean logits of the image and its mirror image, also shifted by a pixel",
         .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    INT(norm_every, "0", 0, OPTION_EVER, "steps between measurements of the weights' norms, 0: none", FREE),
    INT(save_every, "0", 0, OPTION_EVER, "steps between checkpoints, 0: only at the end", FREE),
    INT(keep, "2", 0, OPTION_EVER, "newest checkpoints to keep, and the best one; 0: only the newest", FREE),
    INT(report, "0", 0, OPTION_EVER, "steps between drawings of report.html in the run's folder, 0: none", FREE),
    STRING(tensorboard, "", "folder for TensorBoard's event files, in one of the run's name; empty: none", FREE),
    REAL(max_minutes, "0", 0, 1e9, "stop and save after this time, 0: no limit", FREE),
    OPTION_END,
};
