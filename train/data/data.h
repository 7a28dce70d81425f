/* Data sets. A batch is a pure function of (data set, part, index, sizes, seed): nothing has a position, so that
 * a resumed run, another number of ranks, or a repeated micro-batch sees the same samples.
 *
 * One file per kind, one row each in the table of data.c. Files are checked when they are opened; errors name
 * the file and what is wrong. All functions but open and close are thread-safe. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"

typedef struct data_set data_set;

/* What the configuration says about data. */
typedef struct data_settings {
    char path[OPTION_TEXT], kind[OPTION_NAME], val[OPTION_TEXT];
    double val_fraction;
    int64_t vocab, block; /* vocab 0: the data's */
} data_settings;

extern const option data_option_rows[];
/* Whether data of this kind are read from a path (synthetic data are not). */
bool data_needs_path(const char *kind);

typedef struct data_options {
    const char *kind;       /* "chars", "tokens", "idx", "cifar10", "synthetic", or "auto": by what path is */
    const char *path;       /* file or folder; tokens: also a pattern with *; chars with a vocabulary: may be NULL */
    const char *val;        /* tokens: validation shards, none of which is trained on; NULL: those named "*val*" */
    double val_fraction;    /* chars, synthetic text: share of the text at its end, 0 to 1 */
    uint64_t seed;          /* of the order of samples */
    const char *vocabulary; /* chars: data_info.vocabulary of the text that a model learned; NULL: from the text */
    int64_t vocab; /* tokens: every token must be below it, 0: 50304; synthetic: a text if > 0, else images */
    int64_t features, classes; /* synthetic images */
} data_options;

typedef struct data_info {
    bool tokens;      /* sequences of tokens, else images with labels */
    int64_t vocab;    /* tokens: symbols */
    int64_t features; /* images: floats each, about zero mean and unit RMS */
    int64_t channels, height, width_px;
    int64_t classes;
    int64_t train, val;     /* tokens or images in each part */
    const char *vocabulary; /* chars: the symbols in order, valid UTF-8 (the form: chars.c); NULL else */
    char description[160];  /* one line for people: files, sizes */
} data_info;

typedef enum data_part { DATA_TRAIN, DATA_VAL } data_part;

scion_status data_open(data_set **out, const data_options *o, scion_error *err);
void data_close(data_set *d);
const data_info *data_about(const data_set *d);

/* Number of batches that cover the part once. VAL: rounded up; what is missing in the last batch has targets or
 * labels -1 and inputs 0. TRAIN: rounded down for tokens, up for images; batches are full, the next epoch goes on. */
int64_t data_batches(const data_set *d, data_part part, int64_t batch, int64_t block);

/* Batch `index` of a part, index >= 0; data_batches of the part must not be 0.
 * Tokens: inputs and targets (batch, block), targets shifted by one. TRAIN of chars: windows at random places,
 *   of shards: consecutive windows through all files in their order, then again from the start. VAL: consecutive
 *   windows from the start of the part, without overlap, as many as are whole.
 * Images: pixels (batch, features) and labels (batch). TRAIN: every epoch in a new order. VAL: in order. */
void data_tokens(const data_set *d, data_part part, int64_t index, int64_t batch, int64_t block, int32_t *inputs,
                 int32_t *targets);
void data_images(const data_set *d, data_part part, int64_t index, int64_t batch, float *pixels, int32_t *labels);

/* chars: the first `most` symbols of a text to tokens; returns their number, or -1 with an error that names the first
 * symbol that is not in the vocabulary. */
int64_t data_encode(const data_set *d, const char *text, int32_t *tokens, int64_t most, scion_error *err);
/* chars: one token to text, ended by a 0. Returns its bytes, 1 to 4; 0: there is no such token. */
int data_decode(const data_set *d, int32_t token, char text[5]);

#endif
