/* The configuration of a run. Models (models/), data (data/), training, optimizer and run (run_options.h) each have
 * rows of options for their own struct. Here the rows become one list: keys of files and of the command line, help,
 * and entries of logs and checkpoints. */
#ifndef TRAIN_CONFIG_CONFIG_H
#define TRAIN_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "util/option.h"
#include "config/run_options.h"
#include "data/data.h"
#include "models/model.h"

enum { CONFIG_TEXT = OPTION_TEXT, CONFIG_MODEL_BYTES = 1024, CONFIG_OPTIONS = 192 }; /* options: at most */

typedef option config_option;

typedef struct config {
    char preset[CONFIG_TEXT]; /* name it came from */
    char model[OPTION_NAME];
    data_options data;
    training_options training;
    optimizer_options optimizer;
    run_options run;
    /* The options of each model, one struct after another. An option that several models have is set in all. */
    _Alignas(8) unsigned char models[CONFIG_MODEL_BYTES];
} config;

/* Option i of the list, NULL past the last. An option of several models is one entry, with the help of each. */
const config_option *config_option_at(int i);
/* The option with that key or former key (config_aliases), or NULL. */
const config_option *config_find(const char *key);
/* True if an option has the same value in both; "auto" counts as the value it stands for. */
bool config_same(const config *a, const config *b, const config_option *o);
/* True if an option has the value that runs had before it existed, or is another model's: it is then not part of the
 * identity of a run. */
bool config_at_origin(const config *c, const config_option *o);

/* The identity of a run, line by line: "key=value\n" for each option that decides what it computes. It does not
 * change when an option is added, renamed or gets another default. */
typedef void config_line(void *ctx, const char *line, size_t length);
void config_identity(const config *c, config_line *add, void *ctx);

/* Former names of options, ended by {NULL, NULL}, for reading older files, checkpoints and ledgers. */
typedef struct config_alias {
    const char *old, *key; /* key NULL: the option was removed, and files that set it are read without it */
} config_alias;
extern const config_alias config_aliases[];
bool config_removed(const char *key);

/* Names of an option in other programs, separated by spaces, and the answer: its key here, or a sentence where there
 * is no such option. Ended by a row of NULLs. */
typedef struct config_foreign_name {
    const char *names, *answer;
} config_foreign_name;
extern const config_foreign_name config_foreign_names[];

/* All defaults; all origins. */
void config_init(config *c);
void config_init_origins(config *c);

/* key=value; see option_set. An unknown key is refused with config_unknown's sentence. `where` is the file and line,
 * or "command line", for messages. */
scion_status config_set(config *c, const char *key, const char *value, const char *where, scion_error *err);
/* "key=value". */
scion_status config_set_pair(config *c, const char *pair, scion_error *err);
/* True if pairs of a command line set that key. */
bool config_given(const char *key, const char *const *pairs, int n);
/* The same, but not to 0, which stands for no limit. */
bool config_limits(const char *key, const char *const *pairs, int n);
/* Before the pairs of a command line are set: takes back the limits of a preset or a run on validations which would
 * hide those that the pairs give. Refuses pairs that limit the same validations twice. */
scion_status config_make_way(config *c, const char *const *pairs, int n, scion_error *err);

/* Value of an option as text that config_set reads back to the same value; "auto" is replaced by its meaning. */
void config_get(const config *c, const config_option *o, char *text, size_t bytes);
/* Value of an option by its key, where the struct is not known; the option must exist and be an INT. */
int64_t config_int(const config *c, const char *key);
void config_set_int(config *c, const char *key, int64_t value);

/* The chosen model and its options, as its own struct. */
const model_row *config_model(const config *c);
const void *config_model_options(const config *c);
/* Key of an option that is not at its default although the chosen model does not have it, or NULL; `owner`: the
 * models that have it. */
const char *config_foreign_option(const config *c, char *owner, size_t bytes);
/* Unit of the model's samples: "tokens", "images". */
const char *config_unit(const config *c);

/* An .ini file (sections are for people; keys are unique). `preset = NAME` on top reads that preset first. */
scion_status config_load(config *c, const char *path, scion_error *err);
/* A preset by name: NAME.ini in SCION_PRESETS, ./presets, beside the program, or where it was installed; or a path.
 * Options that it does not set keep their values. On failure nothing changes, here and above. */
scion_status config_preset(config *c, const char *name, scion_error *err);
/* Calls back for each preset that can be found: name, first comment line. */
void config_presets(void (*each)(void *ctx, const char *name, const char *about), void *ctx);

/* Checks that involve several options: width divisible by head_size, rule and light, options of another model, ... */
scion_status config_check(const config *c, scion_error *err);
/* Checks that lr times weight decay does not exceed 1 in any step. */
scion_status config_check_lr(const config *c, scion_error *err);
/* The part of config_check that concerns the schedule, which a resumed run may change. */
scion_status config_check_schedule(const config *c, scion_error *err);
/* Value of `norms`, and its norms of the first, hidden and last layers: SCION_NORM_AUTO if it names a routing. */
const char *config_norms_text(const config *c);
scion_status config_norms(const config *c, int32_t norm[3], scion_error *err);
/* Type of the operands of the products of the spectral lmo. */
scion_dtype config_polar_compute(const config *c);
/* The optimizer's options as the library takes them. */
scion_status config_optimizer(const config *c, scion_options *o, scion_error *err);

/* True if an option matters to the chosen model and kind of data. */
bool config_has(const config *c, const config_option *o);
typedef enum config_part {
    CONFIG_ALL,
    CONFIG_CHANGED, /* options that differ from the defaults */
    CONFIG_OWN      /* options that matter to the chosen model and kind of data */
} config_part;
/* Writes an .ini file. */
void config_write(const config *c, FILE *to, config_part part);
/* As one JSON object of strings, and back (checkpoints, ledgers). The caller frees the string. Missing keys did not
 * exist when it was written: they take their origin. Unknown keys are refused. */
char *config_to_json(const config *c);
/* The same with JSON's numbers and booleans (for people and other programs). */
char *config_to_values(const config *c);
/* Reads both. */
scion_status config_from_json(config *c, const char *json, scion_error *err);

/* Finds the name that a misspelt one probably stands for: keeps `offered` in `nearest` ("" at first) if it is nearer
 * than those before, and differs in at most a third of the letters. */
void config_nearer(const char *name, const char *offered, char nearest[CONFIG_TEXT]);
/* True if a list of words, apart by spaces, has this one, in any case. */
bool config_in_list(const char *list, const char *word);
/* The answer of config_foreign_names to a name that other programs use: a key, or a sentence; NULL: not known. */
const char *config_foreign_answer(const char *key);
/* Sentence about an unknown key: its name here (config_foreign_names), or the option that was probably meant. */
void config_unknown(const char *key, char *text, size_t bytes);

#endif
