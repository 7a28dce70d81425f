/* What a kind of data owes, and what the kinds share. A kind is a file with a row, which data_kinds.c lists. */
#ifndef TRAIN_DATA_DATA_KIND_H
#define TRAIN_DATA_DATA_KIND_H

#include <stdatomic.h>
#include <stddef.h>

#include "data/augment.h"
#include "data/data.h"

typedef struct data_kind {
    const char *name, *help;
    bool no_path;   /* is not read from a path */
    bool takes_val; /* val_data is for it */
    bool images;    /* gives images, and has their options */
    /* Could path be of this kind? For "auto", asked in the order of the table. NULL: only by name. */
    bool (*looks)(const char *path);
    /* Text: could this vocabulary be of this kind? NULL: the kind has no vocabulary. */
    bool (*reads)(const char *vocabulary);
    /* Opens and checks the files and describes them: d->info, d->fetch, d->order, d->state. What data_own and
     * data_keep_file got are freed with d, whether or not it succeeds. */
    scion_status (*open)(data_set *d, const data_options *o, const data_context *context, scion_error *err);
    void (*close)(data_set *d); /* whatever else the state holds; NULL: nothing. Also after a failed open */
    /* Text, else NULL; see data_encode and data_decode. */
    int64_t (*encode)(const data_set *d, const char *text, int32_t *tokens, int64_t max, scion_error *err);
    int (*decode)(const data_set *d, int32_t token, char text[DATA_TOKEN_TEXT]);
    bool alone; /* images: opens without a path, for a model's images (data_context.images) */
    /* Options of its own, in a struct; data_own_options gives them to open. */
    const option *options;
    size_t options_size;
} data_kind;

/* All kinds, ended by NULL. A test may bring a table of its own. */
extern const data_kind *const data_kinds[];

/* Which sample comes when, in training. Validation is in order. */
typedef enum data_order {
    DATA_SHUFFLED, /* every epoch in a new order */
    DATA_CYCLED,   /* in order, again and again */
    DATA_DRAWN     /* fetch draws by `number` alone; `sample` is -1 */
} data_order;

/* One sample into arrays (one pointer per array of d->info, NULL: not wanted). `sample` is its place in the part,
 * `number` counts over all epochs, for random choices such as augmentation: scn_philox(d->seed, stream, number);
 * -1: no such choices.
 * A pure function, called from several threads at once. */
typedef scion_status data_fetch(const data_set *d, data_part part, int64_t sample, int64_t number,
                                void *const arrays[], scion_error *err);

struct image; /* image_file.h */
typedef struct data_pool data_pool;
typedef struct data_warnings data_warnings;

struct data_set {
    const data_kind *kind;
    data_options options;
    uint64_t seed;
    bool whole; /* of data_context */
    /* Set by the kind */
    data_info info;
    data_fetch *fetch;
    void (*hint)(const data_set *d, data_part part, int64_t sample); /* a sample will be fetched next, to warm the
                                                                        cache; NULL: none */
    data_order order;
    bool background;                     /* fetch takes long: decode ahead */
    const atomic_uchar *bad[DATA_PARTS]; /* of each file: could not be read; NULL: files are not read one by one */
    int64_t bad_count[DATA_PARTS];
    void *state;
    /* Set by data.c */
    data_pool *pool;
    data_warnings *warnings;
    void **owned; /* freed by data_close */
    int owned_count;
    size_t owned_bytes;
    int *files; /* closed by data_close */
    int file_count;
};

/* Zeroed memory that belongs to d from now on (NULL: out of memory, told). */
void *data_own(data_set *d, size_t bytes, scion_error *err);
/* Opens a file to read; one that is empty or not regular is an error. */
scion_status data_open_file(const char *path, int *file, int64_t *bytes, scion_error *err);
/* The file is closed with d from now on. Closes it if that fails. */
scion_status data_keep_file(data_set *d, int file, scion_error *err);
/* Exactly n bytes from an offset; a file that has become shorter is told. */
scion_status data_read_at(int file, const char *path, int64_t offset, void *to, size_t n, scion_error *err);
/* Adds bytes to the hash of the data. */
void data_hash(data_set *d, const void *bytes, size_t n);
/* The struct of the kind's own options. */
const void *data_own_options(const data_set *d);
/* Appends the description of an array; shape NULL: one number. */
void data_add_array(data_set *d, const char *name, data_type type, int ndim, const int64_t *shape, int64_t range);

/* Counts a file that cannot be read, and keeps the sentence for data_next_warning. Thread-safe. */
void data_warn(const data_set *d, const scion_error *why);

/* Sample `number` of a part as fetch gives it, without the pool. */
scion_status data_fetch_one(const data_set *d, data_part part, int64_t number, void *const arrays[],
                            scion_error *err);

/* ---- Decoding ahead (prefetch.c) ---- */

/* Memory for `ahead` samples twice and `workers` threads; NULL: out of memory or threads, and d works without. */
data_pool *data_pool_create(const data_set *d, int64_t ahead, int workers);
void data_pool_free(data_pool *p);
size_t data_pool_bytes(const data_pool *p);
void data_pool_prefetch(data_pool *p, data_part part, int64_t first, int64_t count);
/* Takes a sample that was decoded ahead. False: it was not asked for, or not begun: the caller fetches it. */
bool data_pool_take(data_pool *p, data_part part, int64_t number, void *const arrays[], scion_status *status,
                    scion_error *err);

/* ---- Text: streams of tokens, of which samples are windows (text.c) ---- */

/* A run of tokens in memory, of 1, 2 or 4 bytes each, or in a file, of 2. A file is read when a sample is asked for,
 * and not mapped: one that shrinks under way is an error and not a signal. */
typedef struct data_segment {
    const void *tokens; /* NULL: in a file */
    int width;
    int64_t count;
    int file;
    int64_t offset; /* in bytes */
    const char *path;
} data_segment;

/* Segments one after another. */
typedef struct data_stream {
    data_segment *segments;
    int64_t *starts; /* of each segment in the stream */
    int count, capacity;
    int64_t total;
} data_stream;

/* The state of a kind of text starts with this. */
typedef struct data_text {
    data_stream streams[DATA_PARTS];
    int64_t block;
} data_text;

/* Bytes of a token below `range`. */
int data_token_width(int64_t range);
void data_put_token(void *tokens, int width, int64_t i, uint32_t token);
/* Adds a segment to a part (of a whole set, to the validation part); the state must exist. */
scion_status data_add_segment(data_set *d, data_part part, const data_segment *s, scion_error *err);
/* One array as both parts: its last val_fraction for validation. */
scion_status data_split(data_set *d, const void *tokens, int width, int64_t count, scion_error *err);
/* Says what the validation part of such a split is. */
void data_describe_split(data_set *d, const char *name);
/* Describes the text, whose own tokens are below `symbols`; `drawn`: training windows at random places. */
scion_status data_text_ready(data_set *d, int64_t symbols, bool drawn, scion_error *err);

/* ---- Texts as files (text_files.c) ---- */

typedef struct data_text_file {
    char *path;
    size_t start; /* of its bytes */
} data_text_file;

typedef struct data_texts {
    uint8_t *bytes; /* of all, one after the other */
    size_t count, capacity;
    data_text_file *files;
    int64_t file_count;
    int64_t others; /* files of the folder that are no text */
    int64_t utf16;  /* files that were UTF-16 */
} data_texts;

enum { DATA_RAW = 1, DATA_KEEP_MARK = 2 }; /* files as they are; the byte order mark of UTF-8 is a character */

/* A text file or a folder of them, but for what `except` (may be NULL) leads to. Free *t in any case. */
scion_status data_read_texts(data_texts *t, const char *path, const char *except, unsigned how, scion_error *err);
void data_free_texts(data_texts *t);
/* The file, line and byte, from 1, of a place in the texts. */
const char *data_text_place(const data_texts *t, size_t at, int64_t *line, size_t *byte);
/* Whether there is a file in a folder or the folders in it that might be a text. */
bool data_has_files(const char *folder);

/* ---- Images (images.c) ---- */

/* The state of a kind of images starts with this. In memory, pixels are bytes, channel by channel. */
typedef struct data_images {
    data_image_info about;
    struct {
        const uint8_t *pixels;
        const int32_t *labels;
        int64_t count;
    } part[DATA_PARTS];
    bool last; /* of the channels: `image` is wanted, not `pixels` */
    /* The bytes of an image; *memory, if it is set, is freed afterwards. `number` as in data_fetch. One that cannot
     * be read may be replaced by another (*sample), or left out (*sample is -1, and there are no bytes). A kind whose
     * images are not in memory sets it before data_images_ready, and mean and scale. */
    scion_status (*get)(const data_set *d, data_part part, int64_t *sample, int64_t number, data_pixels *pixels,
                        void **memory, scion_error *err);
} data_images;

/* Describes the images, once part[].count, labels and pixels are there, and sizes and classes in `about`; names
 * NULL: the classes are called by their numbers. Means and scales come from the training images, if they are in
 * memory. The kind's options start with data_image_options. */
scion_status data_images_ready(data_set *d, const data_context *context, scion_error *err);
/* Part of an image as one of the size that `about` says, with its channels: to is (height, width, channels). The box
 * is drawn, or data_middle's. */
scion_status data_view_image(const data_image_info *about, const struct image *from, data_box box, uint8_t *to,
                             scion_error *err);
data_box data_middle(const data_image_info *about, const struct image *from);
/* Reads what data_info.images says; names belong to d. */
scion_status data_images_read(data_set *d, const char *text, data_image_info *m, scion_error *err);

/* ---- Paths and sentences ---- */

/* A path made by a format. false: it does not fit. */
enum { data_path_bytes = 1024 };
bool data_path(char path[data_path_bytes], const char *format, ...) __attribute__((format(printf, 2, 3)));
bool data_exists(const char *path);
bool data_is_folder(const char *path);
/* The end of a path, at most `max` bytes of it, from the start of a name if there is one. */
const char *data_tail(const char *path, size_t max);
/* Names of files. All zero: none. Free them in any case. */
typedef struct data_names {
    char **name;
    int64_t count;
} data_names;

scion_status data_add_name(data_names *n, const char *name, scion_error *err);
void data_sort_names(data_names *n); /* as bytes */
void data_free_names(data_names *n);
/* "file: sentence", where the sentence stays whole however long the path is. Returns status. */
scion_status data_fail(scion_error *err, scion_status status, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
