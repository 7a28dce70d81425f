/* A kind of data: a file with a row, which data_kinds.c lists. Kinds of text use text.h, kinds of images images.h. */
#ifndef TRAIN_DATA_DATA_KIND_H
#define TRAIN_DATA_DATA_KIND_H

#include <stdatomic.h>

#include "data/data.h"

typedef struct data_kind {
    const char *name, *help;
    const char *also;        /* another name that data_kind takes; NULL: none */
    bool no_path;            /* is made, not read from a path */
    bool takes_val;          /* has the option val_data */
    bool images;             /* gives images, and has their options */
    bool default_for_images; /* takes any path for models of images, or none (data_context.images) */
    bool default_for_text;   /* takes any path for models of text, or none (data_context.vocabulary, range) */
    /* True if path is of this kind. data_kind=auto asks in the order of the table. NULL: by name, or by default. */
    bool (*detect)(const char *path);
    size_t state_bytes; /* of d->state, which is zeroed and belongs to d */
    /* Opens and checks the files and describes them: sets d->info, d->fetch, d->order, *d->state. Memory of data_own
     * is freed with d, whether or not open succeeds. */
    scion_status (*open)(data_set *d, const data_options *o, const data_context *context, scion_error *err);
    void (*close)(data_set *d); /* frees the rest of the state, also after a failed open; NULL: nothing to free */
    /* Options of its own, in a struct; data_own_options gives them to open. */
    const option *options;
    size_t options_size;
} data_kind;

/* All kinds, ended by NULL. A test may bring a table of its own. */
extern const data_kind *const data_kinds[];

/* Order of the samples in training. Validation is in order. */
typedef enum data_order {
    DATA_SHUFFLED, /* a new order in every epoch */
    DATA_CYCLED,   /* in order, again and again */
    DATA_DRAWN     /* fetch draws by `number` alone; `sample` is -1 */
} data_order;

/* Writes one sample to arrays (one pointer per array of d->info, NULL: not wanted). `sample` is its place in the
 * part; `number` counts over all epochs and decides random choices such as augmentation: scn_philox(d->seed, stream,
 * number); -1: no such choices. A pure function, called from several threads at once. */
typedef scion_status data_fetch(const data_set *d, data_part part, int64_t sample, int64_t number,
                                void *const arrays[], scion_error *err);

typedef struct data_pool data_pool;
typedef struct data_warnings data_warnings;

struct data_set {
    const data_kind *kind;
    data_options options;
    uint64_t seed;
    bool whole;    /* of data_context */
    int64_t range; /* of data_context */
    /* Set by data_set_tokenizer, before open if it is a model's; NULL: none */
    tokenizer *tokenizer;
    /* Set by the kind */
    data_info info;
    data_fetch *fetch;
    void (*hint)(const data_set *d, data_part part, int64_t sample); /* warms the cache for a sample that comes next;
                                                                        NULL: none */
    data_order order;
    bool background;     /* fetch takes long: decode ahead */
    size_t decode_bytes; /* that decoding may take on all threads together */
    const char *(*file)(const data_set *d, data_part part, int64_t sample); /* see data_file_of; NULL: none */
    atomic_uchar *bad[DATA_PARTS]; /* for each file: could not be read; NULL: files are not read one by one */
    int64_t bad_count[DATA_PARTS];
    /* Set by data.c */
    void *state;
    data_pool *pool;
    int64_t ahead; /* of data_context */
    data_warnings *warnings;
    void **owned; /* freed by data_close */
    int64_t owned_count;
    size_t owned_bytes;
    uint64_t *hashes; /* of the parts that ranks share, see data_hash_parts; NULL: none */
    int64_t hash_count;
};

/* Zeroed memory that belongs to d. NULL: out of memory, err says so. */
void *data_own(data_set *d, size_t bytes, scion_error *err);
/* Makes memory of malloc d's own; on an error it is freed. */
scion_status data_adopt(data_set *d, void *memory, size_t bytes, scion_error *err);
/* A copy of a text in such memory. */
char *data_own_text(data_set *d, const char *text, scion_error *err);
/* Adds bytes to the hash of the data. */
void data_hash(data_set *d, const void *bytes, size_t n);
/* Makes a tokenizer d's own, which data_info then describes; it is freed with d, or on an error. */
scion_status data_set_tokenizer(data_set *d, tokenizer *t, scion_error *err);
/* True if the option `tokenizer` names none. */
bool data_tokenizer_is_auto(const data_options *o);
/* Opens the tokenizer of this name: a kind that need not learn, or what context->open_tokenizer finds. */
scion_status data_find_tokenizer(data_set *d, const char *name, const data_context *context, scion_error *err);
/* Tells whoever called data_on_progress how far a long piece of work is. */
void data_progress(const char *what, double share);
/* Makes the hash of the data that of `count` parts: open fills in each part i with i mod context.ranks ==
 * context.rank. NULL: out of memory. */
uint64_t *data_own_hashes(data_set *d, int64_t count, scion_error *err);
/* The struct of the kind's own options. */
const void *data_own_options(const data_set *d);
/* Appends the description of an array; shape NULL: one number. */
void data_add_array(data_set *d, const char *name, data_type type, int ndim, const int64_t *shape, int64_t range);
/* Counts a file that cannot be read, and keeps the sentence for data_next_warning. Thread-safe. */
void data_warn(const data_set *d, const scion_error *why);

#endif
