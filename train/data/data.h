/* Data sets. A set describes the arrays of a sample ("tokens" and "targets", "pixels" and "targets") and fills them:
 * a pure function of the set, the part, the sample's number and the seed. Nothing has a position, so that a resumed
 * run, another number of ranks, or a repeated micro-batch sees the same samples.
 *
 * One file per kind, one row each in data_kinds.c. Files are checked when they are opened; errors name the file and
 * what is wrong. All functions except open and close are thread-safe. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "util/option.h"

enum { DATA_DIMS = 4, DATA_ARRAYS = 4, DATA_KIND_BYTES = 1024, DATA_CHANNELS = 4 };

typedef struct data_set data_set;

/* What the configuration says about data. */
typedef struct data_options {
    char path[OPTION_TEXT]; /* file or folder; tokens: also a pattern with * */
    char kind[OPTION_NAME]; /* a kind, or "auto": by what path is */
    char val[OPTION_TEXT];  /* text: what to validate on, none of which is trained on; "": val_fraction, or of tokens
                               the shards named "*val*" */
    double val_fraction;    /* text: share at its end that is kept for validation, 0 to 1 */
    int64_t vocab;          /* text: every token is below it, 0: as the data have it */
    int64_t block;          /* text: tokens in a sample */
    /* The options of each kind that has some, one struct after another. */
    _Alignas(8) unsigned char kinds[DATA_KIND_BYTES];
} data_options;

extern const option data_option_rows[];
/* Name i of the choices of data_kind: "auto", then the kinds. NULL past the last. */
const char *data_kind_name(int i);
/* Kind i: its own options (NULL: none) and where their struct is in data_options. False past the last. */
bool data_kind_options(int i, const char **name, const option **rows, size_t *offset);
/* True if data of this kind are read from a path (synthetic data are not). */
bool data_needs_path(const char *kind);

/* What samples are, by the array that a model reads. */
typedef struct data_content {
    const char *array;   /* tokens; pixels (channels, height, width); image (height, width, channels) */
    const char *unit;    /* they are counted in: "tokens", "images" */
    const char *samples; /* and called, more than one: "sequences", "images" */
    bool images, channels_last;
} data_content;

/* Any other array: "samples". */
const data_content *data_content_of(const char *array);

/* What a set is opened for, beside its options. */
typedef struct data_context {
    uint64_t seed; /* of the order of samples, and of synthetic data */
    const char
        *vocabulary; /* text: data_info.vocabulary of the text that a model learned; NULL: from the text. With it
                                 the path may be empty: a set without samples, to encode and decode */
    const char *const *wants; /* names of arrays, ended by NULL, for kinds that can give several; NULL: any */
    int64_t ahead;            /* samples that data_prefetch may ask for at once; 0: it does nothing */
    int workers;              /* background threads for kinds that decode files; 0: none */
    const char *images;       /* images: data_info.images of those that a model learned from: their mean, scale and
                                 classes are used. With it the path may be empty: a set without samples */
    bool stored;              /* the options are those that a model was trained with: they are taken as they are */
    bool whole;               /* all data are the validation part: to be measured, not trained on */
    bool as_0_1;              /* as version 0.1 read them: texts without val, compressed ones as bytes */
} data_context;

typedef enum data_part { DATA_TRAIN, DATA_VAL, DATA_PARTS } data_part;
typedef enum data_type { DATA_INT32, DATA_FLOAT32 } data_type;

/* One array of a sample. A batch of B samples is an array (B, shape). */
typedef struct data_array {
    const char *name; /* tokens; pixels (channels, height, width) or image (height, width, channels), whichever is
                         wanted; targets (-1: ignored); target_weights (classes; where images are mixed) */
    data_type type;
    int ndim; /* 0: one number */
    int64_t shape[DATA_DIMS];
    int64_t count;      /* product of the shape */
    int64_t range;      /* INT32: values are below it */
    int32_t pad;        /* INT32: fills up the last batch of a part, where floats are 0 */
    bool channels_last; /* images: (height, width, channels) */
} data_array;

/* What images are. A pixel, a byte, is given as (byte - mean) scale, by channel. */
typedef struct data_image_info {
    int64_t height, width, channels, classes;
    float mean[DATA_CHANNELS], scale[DATA_CHANNELS];
    const char *const *names; /* of the classes */
    /* Of files of any size evaluation sees the square in the middle whose side is this share of the shorter one, made
     * height x width by this filter (resample.h). */
    double crop;
    const char *resample;
} data_image_info;

typedef struct data_info {
    data_array arrays[DATA_ARRAYS];
    int array_count;
    int input, targets;          /* arrays[] that a model reads, and learns to predict; targets -1: none */
    int64_t classes;             /* targets are classes, and samples scored by the logits of these; 0: they are not */
    const char *unit;            /* tokens or images */
    int64_t sample_units;        /* of them in a sample */
    int64_t units[DATA_PARTS];   /* and in a part */
    int64_t samples[DATA_PARTS]; /* whole ones in a part */
    int64_t symbols;             /* text: tokens that data_decode knows; 0: no text */
    const char *vocabulary;      /* text: the symbols, valid UTF-8 (the form is the kind's); NULL: none */
    const data_image_info *image; /* images: what they are; NULL: no images */
    const char *images;           /* the same as JSON, for checkpoints */
    char description[200];        /* one line for people: files, sizes */
    char held_out[120];           /* what the validation part is: "input.txt, the last 10 %" */
    char note[320];               /* what people should know beside: "not UTF-8 ..."; "": nothing */
    const char *kind;             /* name of the kind */
    int64_t skipped;              /* text: symbols that were left out. Images: see data_skipped */
    uint64_t hash;                /* of the data as they were read, whatever they were packed in; 0: none */
} data_info;

scion_status data_open(data_set **out, const data_options *o, const data_context *context, scion_error *err);
void data_close(data_set *d);
const data_info *data_about(const data_set *d);
/* Index of an array in data_info.arrays, -1: there is none of that name. */
int data_find(const data_info *info, const char *name);

/* Batches that cover a part once, rounded up. */
int64_t data_batches(const data_set *d, data_part part, int64_t batch);

/* Samples [first, first + count) of a part, which must have one. arrays[i] is what arrays[i] of data_info describes,
 * `count` times; NULL: not wanted.
 * VAL: in order; from the number of samples on there is padding. TRAIN: numbers go on over all epochs. Images: every
 * epoch in a new order; shards: in the order of the files, again and again; other text: windows at random places. */
scion_status data_fill(const data_set *d, data_part part, int64_t first, int64_t count, void *const arrays[],
                       scion_error *err);
/* The same of the validation part, of which only `of` samples are taken, as far apart as possible: number i is sample
 * floor(i N / of) of its N, and from `of` on there is padding. */
scion_status data_fill_even(const data_set *d, int64_t of, int64_t first, int64_t count, void *const arrays[],
                            scion_error *err);
/* Samples of a part in their own order, and images as evaluation sees them, whichever part it is; from the number of
 * samples on there is padding. */
scion_status data_fill_plain(const data_set *d, data_part part, int64_t first, int64_t count, void *const arrays[],
                             scion_error *err);
/* A hint that data_fill, or data_fill_even, will be asked for these soon: kinds that decode files begin in the
 * background. */
void data_prefetch(const data_set *d, data_part part, int64_t first, int64_t count);
void data_prefetch_even(const data_set *d, int64_t of, int64_t first, int64_t count);
/* What a set holds in memory, with what is decoded ahead. */
size_t data_bytes(const data_set *d);

/* Images: a file, PNG or JPEG of any size, as evaluation would see it, into the first array of a sample. */
scion_status data_put_file(const data_set *d, const char *path, void *array, scion_error *err);

/* Files of the data that could not be read so far: training takes others in their place, evaluation leaves them
 * out. */
int64_t data_skipped(const data_set *d);
/* Files that are read one by one, 0: the kind has none such; and which of them could not be read so far, 1 each. */
int64_t data_files(const data_set *d);
void data_unreadable(const data_set *d, uint8_t *files);
/* A sentence about the next of them; false: no news. Each file is told of once, and DATA_WARNINGS of them at most. */
enum { DATA_WARNINGS = 20 };
bool data_next_warning(const data_set *d, scion_error *warning);

/* Text: the first `max` symbols of a text to tokens; returns their number, or -1 with an error that names the first
 * symbol that is not in the vocabulary. */
int64_t data_encode(const data_set *d, const char *text, int32_t *tokens, int64_t max, scion_error *err);
/* Text: one token to text, ended by a 0. Returns its bytes, 1 to DATA_TOKEN_TEXT - 1; 0: there is no such token. */
enum { DATA_TOKEN_TEXT = 256 };
int data_decode(const data_set *d, int32_t token, char text[DATA_TOKEN_TEXT]);

#endif
