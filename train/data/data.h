/* Data sets. A set describes the arrays of a sample ("tokens" and "targets", "pixels" and "targets") and fills them:
 * a pure function of the set, the part, the sample's number and the seed. Nothing has a position, so that a resumed
 * run, another number of ranks, or a repeated micro-batch sees the same samples.
 *
 * One file per kind, one row each in data_kinds.c. Files are checked when they are opened; errors name the file and
 * what is wrong. All functions except open and close are thread-safe. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "text/tokenizer.h"
#include "util/option.h"

enum { DATA_DIMS = 4, DATA_ARRAYS = 4, DATA_KIND_BYTES = 1024, DATA_CHANNELS = 4 };

typedef struct data_set data_set;

/* Options of data in a configuration. */
typedef struct data_options {
    char path[OPTION_TEXT]; /* file or folder; tokens: also a pattern with * */
    char kind[OPTION_NAME]; /* a kind, or "auto": detected from path */
    char val[OPTION_TEXT];  /* text: validation data, none of which is trained on; "": val_fraction of path, or shards
                               named "*val*" */
    char tokenizer[OPTION_TEXT]; /* text: a kind, or a name that data_context.open_tokenizer knows; "", "auto": chars;
                                    token shards: the one beside them */
    double val_fraction;         /* share at the end that is kept for validation, 0 to 1 */
    int64_t vocab;               /* text: every token is below it, 0: as the data have it */
    int64_t block;               /* text: tokens in a sample */
    /* The kinds' own options, one struct after another. */
    _Alignas(8) unsigned char kinds[DATA_KIND_BYTES];
} data_options;

extern const option data_option_rows[];
/* Name i of the choices of data_kind: "auto", then the kinds. NULL past the last. */
const char *data_kind_name(int i);
/* Kind i: its own options (NULL: none) and the offset of their struct in data_options. False past the last. */
bool data_kind_options(int i, const char **name, const option **rows, size_t *offset);
/* True if data of this kind are read from a path (synthetic data are not). */
bool data_needs_path(const char *kind);
/* True if data of this kind may be images (`images`), or else text. Synthetic data are both. */
bool data_kind_gives(const char *kind, bool images);
/* True if both are names of one kind. */
bool data_same_kind(const char *a, const char *b);

/* Content of samples, by the array that a model reads. */
typedef struct data_content {
    const char *array;   /* tokens; pixels (channels, height, width); image (height, width, channels) */
    const char *unit;    /* of counts: "tokens", "images" */
    const char *samples; /* name of several samples: "sequences", "images" */
    bool images, channels_last;
} data_content;

/* The row of an array; unknown arrays hold "samples". */
const data_content *data_content_of(const char *array);

/* A saved tokenizer. */
typedef struct data_vocabulary {
    const char *kind; /* NULL: none */
    const void *bytes;
    size_t size;
} data_vocabulary;

/* Purpose of a set, beside its options. With a vocabulary or a range, or images, the path may be empty: such a set
 * has no samples; it has the tokenizer, or reads single images. */
typedef struct data_context {
    uint64_t seed;              /* for the order of samples, augmentation and synthetic data */
    data_vocabulary vocabulary; /* text: the tokenizer of a model */
    int64_t range;              /* text: tokens that a model knows, where the option vocab is 0; 0: no model */
    const char *kind;           /* data_info.kind of a model; NULL: no model */
    /* Opens a tokenizer by a name that is not one of a kind: a file, a run, ...; NULL: there are none. */
    scion_status (*open_tokenizer)(tokenizer **out, const char *name, scion_error *err);
    const char *const *wants; /* inputs of a model, the first of which decides the content; NULL: any */
    int64_t ahead;            /* samples that data_prefetch may ask for at once; 0: it does nothing */
    int workers;              /* background threads for kinds that decode files; 0: none */
    const char *images;       /* images: data_info.images of a model: its mean, scale and classes are used */
    bool stored;              /* the options are those of a trained model: not checked */
    bool whole;               /* all data are the validation part */
    int rank, ranks;          /* ranks that check and hash the data together (data_hash_parts); 0, 0: one */
} data_context;

typedef enum data_part { DATA_TRAIN, DATA_VAL, DATA_PARTS } data_part;
typedef enum data_type { DATA_INT32, DATA_FLOAT32, DATA_TYPE_BYTES = 4 /* of both */ } data_type;

/* One array of a sample. A batch of B samples is an array (B, shape). */
typedef struct data_array {
    const char *name; /* one of data_content; targets (-1: ignored); target_weights (classes; if images are mixed) */
    data_type type;
    int ndim; /* 0: one number */
    int64_t shape[DATA_DIMS];
    int64_t count;      /* product of the shape */
    int64_t range;      /* INT32: values are below it */
    int32_t pad;        /* INT32: value of padding; floats are padded with 0 */
    bool channels_last; /* images: (height, width, channels) */
} data_array;

/* Description of images. A pixel, a byte in its file, becomes (byte - mean) scale, by channel. */
typedef struct data_image_info {
    int64_t height, width, channels, classes;
    float mean[DATA_CHANNELS], scale[DATA_CHANNELS];
    const char *const *names; /* of the classes */
    double crop;              /* evaluation sees the middle square of a file: this share of the shorter side, */
    int resample;             /* resampled to height x width by this filter (resample.h) */
} data_image_info;

typedef struct data_info {
    data_array arrays[DATA_ARRAYS];
    int array_count;
    int input, targets;           /* indices of the array that a model reads, and of "targets" (-1: none) */
    int64_t classes;              /* > 0: targets are classes, and samples can be scored by logits */
    const char *unit;             /* "tokens", "images" */
    int64_t sample_units;         /* tokens or images in a sample */
    int64_t units[DATA_PARTS];    /* tokens or images in a part */
    int64_t samples[DATA_PARTS];  /* whole samples in a part */
    int64_t symbols;              /* text: tokens that the tokenizer knows; 0: there is none */
    const int32_t *token_bytes;   /* text: raw bytes of each token below `symbols`; NULL: not known */
    const tokenizer *tokenizer;   /* text; NULL: not known */
    const data_image_info *image; /* NULL: no images */
    const char *images;           /* image as JSON, for checkpoints */
    char description[200];        /* one line for people: files, sizes */
    char held_out[120];           /* the validation part: "input.txt, the last 10 %" */
    char note[320];               /* a remark for people: "not UTF-8 ..."; "": none */
    const char *kind;             /* name of the kind */
    int64_t skipped;              /* text: symbols that were left out. Images: see data_skipped */
    uint64_t hash;                /* of the unpacked data; 0: none. Several ranks: see data_hash_parts */
    uint64_t glance;              /* of a few data that every rank has read itself; 0: hash covers what it has read */
} data_info;

scion_status data_open(data_set **out, const data_options *o, const data_context *context, scion_error *err);
void data_close(data_set *d);
const data_info *data_about(const data_set *d);
/* Index of an array in data_info.arrays, -1: there is none of that name. */
int data_find(const data_info *info, const char *name);

/* Hashes of the parts (shards) that ranks share, part i of which rank i mod ranks has; NULL: this rank has read and
 * hashed everything. With all of them filled in, data_join_hashes sets data_info.hash, which then does not depend on
 * the number of ranks. A single rank has no need for either. */
uint64_t *data_hash_parts(data_set *d, int64_t *count);
void data_join_hashes(data_set *d);

/* A numbered sequence of samples of a part, which must have one. {.part = p} alone:
 * VAL: in order, then padding. TRAIN: numbers go on over all epochs. Images come in a new order every epoch; shards
 * in the order of the files, again and again; other text in windows at random places. */
typedef struct data_sequence {
    data_part part;
    /* > 0, VAL: so many of its samples, as far apart as possible: number i is sample floor(i N / even) of N; from
     * `even` on there is padding. */
    int64_t even;
    bool plain; /* the part in its own order, then padding; images as evaluation sees them, in both parts */
} data_sequence;

/* Writes samples [first, first + count) of a sequence: arrays[i] has `count` times the array that data_info.arrays[i]
 * describes; NULL: not wanted. */
scion_status data_fill(const data_set *d, data_sequence s, int64_t first, int64_t count, void *const arrays[],
                       scion_error *err);
/* Announces samples that data_fill will be asked for: kinds that decode files begin in the background. */
void data_prefetch(const data_set *d, data_sequence s, int64_t first, int64_t count);
/* Bytes that a set holds in memory, with those for decoding ahead. */
size_t data_bytes(const data_set *d);
/* Bytes that decoding may take beside them, on all threads together; 0: files are not decoded one by one. */
size_t data_decode_bytes(const data_set *d);

/* Images: reads a PNG or JPEG file of any size, as evaluation would see it, into the input array of a sample. */
scion_status data_put_file(const data_set *d, const char *path, void *array, scion_error *err);

/* Number of files that could not be read so far, and of symbols that were left out. Training takes other files in
 * their place, evaluation leaves them out. */
int64_t data_skipped(const data_set *d);
/* File of a sample, as a path in the folder of the data; NULL: samples are not files. */
const char *data_file_of(const data_set *d, data_sequence s, int64_t number);
/* Number of files that are read one by one (0: none), and a 1 for each that could not be read so far. */
int64_t data_files(const data_set *d);
void data_unreadable(const data_set *d, uint8_t *files);
/* Takes the next warning about such a file; false: none left. There is one for each file, at most DATA_WARNINGS. */
enum { DATA_WARNINGS = 20 };
bool data_next_warning(const data_set *d, scion_error *warning);

/* Text: raw bytes that tokens stand for; padding and tokens of no text count 0. 0: token_bytes is not known. */
int64_t data_raw_bytes(const data_info *info, const int32_t *tokens, int64_t count);
/* Calls a function now and then while data_open tokenises a text: `share` of it is done. One for the whole program;
 * NULL: none. */
void data_on_progress(void (*show)(void *ctx, const char *what, double share), void *ctx);

#endif
