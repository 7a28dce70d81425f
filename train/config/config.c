/* The table of options: one row is the key in files and on the command line, the help text, the entry in logs and
 * in checkpoints. A new option is a field of struct config and a row here. */
#include "config/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "config/config_parts.h"

#define AT(field) offsetof(config, field)
#define TEXT(key, field, section, initial, help)                           \
    {                                                                      \
#key, section, help, CONFIG_STRING, AT(field), initial, 0, 0, NULL \
    }
#define ONE_OF(key, field, section, initial, choices, help)                   \
    {                                                                         \
#key, section, help, CONFIG_STRING, AT(field), initial, 0, 0, choices \
    }
#define WHOLE(key, field, section, initial, least, most, help)                 \
    {                                                                          \
#key, section, help, CONFIG_INT, AT(field), initial, least, most, NULL \
    }
#define REAL(key, field, section, initial, least, most, help)                   \
    {                                                                           \
#key, section, help, CONFIG_REAL, AT(field), initial, least, most, NULL \
    }
#define SWITCH(key, field, section, initial, help)                       \
    {                                                                    \
#key, section, help, CONFIG_BOOL, AT(field), initial, 0, 1, NULL \
    }

/* Sizes stay below these, so that batch x accum x block and width x width x 4 fit in 63 bits. */
#define MANY 0x1p20
#define EVER 1e15

static const config_option table[] = {
    TEXT(preset, preset, "", "", "preset that the other options started from"),

    ONE_OF(model, model.name, "model", "gpt", "gpt mlp", "what to train"),
    WHOLE(layers, model.layers, "model", "3", 1, 10000, "gpt: blocks; mlp: weight matrices"),
    WHOLE(width, model.width, "model", "128", 1, MANY, "width of the layers (embedding dimension)"),
    WHOLE(head_size, model.head_size, "model", "64", 2, MANY, "gpt: width of an attention head; divides width"),
    WHOLE(vocab, data.vocab, "model", "0", 0, 0x1p24, "gpt: size of the vocabulary, 0: as the data have it"),
    WHOLE(block, data.block, "model", "256", 1, MANY, "gpt: tokens in a sequence"),
    ONE_OF(activation, model.activation, "model", "sqrt2_gelu",
           "relu scaled_relu relu2 scaled_relu2 gelu sqrt2_gelu tanh",
           "function between the layers; the scaled ones keep the variance"),
    SWITCH(tied, model.tied, "model", "no", "gpt: one matrix for the embedding and the output"),
    SWITCH(zero_init, model.zero_init, "model", "no", "gpt: projections back into the residual start at zero"),
    SWITCH(bias, model.bias, "model", "yes", "mlp: layers but the last have a bias"),
    REAL(rotary_base, model.rotary_base, "model", "10000", 1, INFINITY,
         "gpt: base of the rotary embedding's wavelengths"),
    SWITCH(qk_norm, model.qk_norm, "model", "yes", "gpt: RMS norm of queries and keys"),
    REAL(smoothing, model.smoothing, "model", "0", 0, 0.999, "label smoothing"),
    SWITCH(recompute, model.recompute, "model", "no",
           "gpt: compute blocks again in the backward pass, to save memory"),

    TEXT(data, data.path, "data", "",
         "file or folder to learn from; token shards: a pattern such as 'fineweb/*.bin'"),
    ONE_OF(data_kind, data.kind, "data", "auto", "auto chars tokens idx cifar10 synthetic",
           "what data is; auto: look at it"),
    TEXT(val_data, data.val, "data", "", "token shards for validation; default: those with val in their name"),
    REAL(val_fraction, data.val_fraction, "data", "0.1", 0, 0.9, "text: the last part, kept for validation"),

    WHOLE(batch, training.batch, "training", "32", 1, MANY, "sequences or images in a micro-batch"),
    WHOLE(accum, training.accum, "training", "1", 1, MANY, "micro-batches in a step"),
    WHOLE(steps, training.steps, "training", "0", 0, EVER, "steps of the run; 0: epochs says"),
    REAL(epochs, training.epochs, "training", "0", 0, 1e9, "passes over the data, where steps is 0"),
    REAL(lr, training.lr, "training", "2^-5", 0, 1e6, "learning rate: the step size, or its peak"),
    ONE_OF(schedule, training.schedule, "training", "linear",
           "constant linear constant_linear cosine cosine_unshifted inv_sqrt_n inv_n34 inv_sqrt_k",
           "step size over time"),
    WHOLE(warmup, training.warmup, "training", "0", 0, EVER, "cosine, constant_linear: steps from lr_start up to lr"),
    WHOLE(decay, training.decay, "training", "0", 0, EVER, "constant_linear: steps of the decay at the end"),
    REAL(lr_start, training.lr_start, "training", "0", 0, 1e6,
         "cosine, constant_linear: step size before the warm-up"),
    REAL(lr_end, training.lr_end, "training", "0", 0, 1e6, "cosine: step size at the end"),
    {"seed", "training", "of weights and of the order of samples", CONFIG_SEED, AT(training.seed), "1", 0, 0x1p64,
     NULL},
    WHOLE(threads, training.threads, "training", "0", 0, 4096, "0: all cores"),

    ONE_OF(rule, optimizer.rule, "optimizer", "scion",
           "scion uscion almond muon signsgd signum nsgd mnsgd ssd mars adamw sgd", "optimizer"),
    TEXT(norms, optimizer.norms, "optimizer", "onehot",
         "image, onehot, shared, sign, colnorm, rownorm, spectral, or three as colnorm,spectral,sign"),
    REAL(momentum, optimizer.momentum, "optimizer", "0.1", 0, 1,
         "weight alpha of the new gradient in the average; 0: the rule's own"),
    REAL(weight_decay, optimizer.weight_decay, "optimizer", "0", 0, 1e6,
         "mu; scion has 1 by definition and takes 0 here"),
    SWITCH(vanishing, optimizer.vanishing, "optimizer", "no", "alpha = 1/sqrt(step) in place of momentum"),
    SWITCH(light, optimizer.light, "optimizer", "no",
           "keep the average in the gradient: no state (scion, uscion, signum, mnsgd)"),
    SWITCH(nesterov, optimizer.nesterov, "optimizer", "yes", "muon: look ahead"),
    SWITCH(boundary_init, optimizer.boundary_init, "optimizer", "yes",
           "weights start on the boundary of their balls"),
    REAL(radius_first, optimizer.radius_first, "optimizer", "1", 0, 1e9, "radius of the first layer"),
    REAL(radius_hidden, optimizer.radius_hidden, "optimizer", "3", 0, 1e9,
         "radius of the hidden layers and of vectors"),
    REAL(radius_last, optimizer.radius_last, "optimizer", "10", 0, 1e9, "radius of the last layer"),
    ONE_OF(input_scale, optimizer.input_scale, "optimizer", "max", "max plain",
           "spectral first layer of images: max(1, sqrt(d_out/d_in)), or sqrt(d_out/d_in)"),
    REAL(muon_multiplier, optimizer.muon_multiplier, "optimizer", "0.1", 0, 1e6,
         "muon: factor on the step size of the hidden layers"),
    REAL(beta1, optimizer.beta1, "optimizer", "0.9", 0, 0.9999999, "adamw: average of the gradient"),
    REAL(beta2, optimizer.beta2, "optimizer", "0.95", 0, 0.9999999, "adamw: average of its square"),
    REAL(adam_eps, optimizer.adam_eps, "optimizer", "1e-8", 0, 1, "adamw: added to the denominator"),
    REAL(clip_norm, optimizer.clip_norm, "optimizer", "0", 0, 1e9,
         "adamw, sgd: largest norm of the whole gradient, 0: any"),
    REAL(eps, optimizer.eps, "optimizer", "0", 0, 1, "added to the denominators of the norms"),
    ONE_OF(polar, optimizer.polar, "optimizer", "quintic", "quintic express converged",
           "iteration of the spectral norm"),
    WHOLE(polar_steps, optimizer.polar_steps, "optimizer", "0", 0, 1000,
          "steps of that iteration, 0: its own number"),

    TEXT(out, run.out, "run", "", "folder for metrics, summary and checkpoints"),
    WHOLE(log_every, run.log_every, "run", "10", 0, EVER, "steps between log lines, 0: none"),
    WHOLE(eval_every, run.eval_every, "run", "0", 0, EVER, "steps between validations, 0: only at the end"),
    WHOLE(eval_batches, run.eval_batches, "run", "0", 0, EVER,
          "batches of a validation, 0: all of the validation part"),
    WHOLE(norm_every, run.norm_every, "run", "0", 0, EVER,
          "steps between measurements of the weights' norms, 0: none"),
    WHOLE(save_every, run.save_every, "run", "0", 0, EVER, "steps between checkpoints, 0: only at the end"),
    WHOLE(keep, run.keep, "run", "2", 0, EVER,
          "newest checkpoints to keep, beside the best one; 0: one, and not the best"),
    REAL(baseline, run.baseline, "run", "0", 0, 1e6,
         "validation loss of a recorded AdamW run to compare with, 0: none"),
    REAL(max_minutes, run.max_minutes, "run", "0", 0, 1e9, "stop and save after this time, 0: no limit"),
};

enum { options = sizeof table / sizeof *table };

const config_option *config_option_at(int i)
{
    return i >= 0 && i < options ? &table[i] : NULL;
}

const config_option *config_find(const char *key)
{
    for (int i = 0; i < options; i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

void config_init(config *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < options; i++)
        config_set(c, table[i].key, table[i].initial, "defaults", NULL);
}
