/* Configuration: every option is one row of one table (config.c), which gives the key in files and on the command
 * line, its default, its help text, its entry in logs and in checkpoints. */
#ifndef TRAIN_CONFIG_CONFIG_H
#define TRAIN_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "scion.h"

enum { CONFIG_TEXT = 256 };

/* What a model is; each kind of options has a struct of its own. */
typedef struct model_options {
    char name[CONFIG_TEXT]; /* gpt, mlp */
    int64_t layers, width, head_size;
    char activation[CONFIG_TEXT];
    bool tied;      /* one matrix for embedding and output */
    bool zero_init; /* projections back into the residual start at zero */
    bool bias;      /* mlp */
    double rotary_base;
    bool qk_norm;
    double smoothing; /* label smoothing */
    bool recompute;
} model_options;

typedef struct data_settings {
    char path[CONFIG_TEXT], kind[CONFIG_TEXT], val[CONFIG_TEXT];
    double val_fraction;
    int64_t vocab, block; /* vocab 0: the data's */
} data_settings;

typedef struct training_options {
    int64_t batch, accum, steps; /* sequences or images in a micro-batch, micro-batches in a step */
    double epochs;               /* images: steps = epochs * examples / (batch * accum) if steps is 0 */
    double lr;
    char schedule[CONFIG_TEXT];
    int64_t warmup, decay;
    double lr_start, lr_end;
    uint64_t seed;
    int64_t threads;
} training_options;

typedef struct optimizer_options {
    char rule[CONFIG_TEXT], norms[CONFIG_TEXT]; /* norms: a configuration name of scion.h, or "first,hidden,last" */
    double momentum, weight_decay;
    bool vanishing, light, nesterov, boundary_init;
    double radius_first, radius_hidden, radius_last;
    char input_scale[CONFIG_TEXT]; /* max, plain */
    double muon_multiplier, beta1, beta2, adam_eps, clip_norm, eps;
    char polar[CONFIG_TEXT];
    int64_t polar_steps;
} optimizer_options;

typedef struct run_options {
    char out[CONFIG_TEXT];
    int64_t log_every, eval_every, eval_batches, norm_every, save_every, keep; /* steps; 0: off */
    double baseline;    /* validation loss of a recorded AdamW run of the same preset, 0: none */
    double max_minutes; /* 0: no limit; stops and saves */
} run_options;

typedef struct config {
    char preset[CONFIG_TEXT]; /* name it came from */
    model_options model;
    data_settings data;
    training_options training;
    optimizer_options optimizer;
    run_options run;
} config;

typedef enum config_type { CONFIG_INT, CONFIG_REAL, CONFIG_BOOL, CONFIG_STRING, CONFIG_SEED } config_type;

typedef struct config_option {
    const char *key, *section, *help;
    config_type type;
    size_t offset;
    const char *initial; /* default, as text */
    double least, most;  /* range of numbers */
    const char *choices; /* "gpt mlp", or NULL */
} config_option;

/* Row i, NULL past the last. */
const config_option *config_option_at(int i);

/* All defaults. */
void config_init(config *c);

/* key=value. Numbers may be written 1e-3, 2^-5, 0x10, 1k, 1m; booleans 1/0, yes/no, true/false, on/off. An unknown
 * key is refused with the nearest known one; a value out of range with the range. `where` names the file and
 * line or "command line" in messages. */
scion_status config_set(config *c, const char *key, const char *value, const char *where, scion_error *err);
/* "key=value". */
scion_status config_set_pair(config *c, const char *pair, scion_error *err);

/* An .ini file (sections are for people; keys are unique). `preset = NAME` on top reads that preset first. */
scion_status config_load(config *c, const char *path, scion_error *err);
/* A preset by name: NAME.ini in SCION_PRESETS, ./presets, beside the program, or where it was installed; or a path.
 * What it does not set stays as it was. On failure nothing changes, here and above. */
scion_status config_preset(config *c, const char *name, scion_error *err);
/* Finds the file of a preset; false: not found. */
bool config_preset_path(const char *name, char *path, size_t bytes);
/* Calls back for each preset that can be found: name, first comment line. */
void config_presets(void (*each)(void *ctx, const char *name, const char *about), void *ctx);

/* Checks what no single option can see (width divisible by head_size, rule and light, ...). */
scion_status config_check(const config *c, scion_error *err);

/* Value of an option as text that config_set reads back to the same value. */
void config_get(const config *c, const config_option *o, char *text, size_t bytes);
/* As an .ini file; only_changed: what differs from the defaults. */
void config_write(const config *c, FILE *to, bool only_changed);
/* As one JSON object of strings, and back (for checkpoints). The string is the caller's to free. */
char *config_to_json(const config *c);
scion_status config_from_json(config *c, const char *json, scion_error *err);

#endif
