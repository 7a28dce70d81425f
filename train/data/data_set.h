/* Inside of a data set: what every kind of data becomes when it is opened, so that batches are made in one place. */
#ifndef TRAIN_DATA_DATA_SET_H
#define TRAIN_DATA_DATA_SET_H

#include <stddef.h>

#include "data/data.h"

/* A run of tokens in memory or in a mapped file. */
typedef struct data_segment {
    const uint16_t *tokens;
    int64_t count;
} data_segment;

/* Segments one after another. */
typedef struct data_stream {
    data_segment *segments;
    int64_t *starts; /* of each segment in the stream */
    int count;
    int64_t total;
} data_stream;

/* Images of `features` bytes each, channel by channel. */
typedef struct data_pictures {
    const uint8_t *pixels, *labels;
    int64_t count;
} data_pictures;

/* A mapped file. */
typedef struct data_mapping {
    void *at;
    size_t bytes;
} data_mapping;

struct data_set {
    data_info info;
    uint64_t seed;
    bool random_windows; /* tokens: training windows at random places, else one after another */
    data_stream streams[2];
    data_pictures pictures[2];
    float mean[3], scale[3]; /* by channel: pixel -> (pixel - mean) * scale */
    uint32_t *symbols;       /* chars: code points (or bytes) in order */
    char *vocabulary;
    bool utf8;
    void *owned[8]; /* freed by data_close; no kind needs more than four */
    int owned_count;
    data_mapping *maps; /* unmapped by data_close */
    int map_count;
};

/* One row per kind. */
typedef struct data_kind {
    const char *name;
    /* Could path be of this kind? For "auto", asked in the order of the table. */
    bool (*looks)(const char *path);
    scion_status (*open)(data_set *d, const data_options *o, scion_error *err);
    bool no_path; /* is not read from a path */
} data_kind;

extern const data_kind data_kind_chars, data_kind_tokens, data_kind_idx, data_kind_cifar10, data_kind_synthetic;

/* Zeroed memory that belongs to d from now on (NULL: out of memory, told). */
void *data_own(data_set *d, size_t bytes, scion_error *err);
/* A whole file, mapped, closed with d. An empty file is an error. */
scion_status data_map(data_set *d, const char *path, const uint8_t **bytes, size_t *count, scion_error *err);
/* Adds a segment to a part. */
scion_status data_add_segment(data_set *d, data_part part, const uint16_t *tokens, int64_t count, scion_error *err);
/* One array as both parts: its last val_fraction for validation. */
scion_status data_split(data_set *d, const data_options *o, const uint16_t *tokens, int64_t count, scion_error *err);
/* Means and scales by channel from the training pictures; counts into info. */
void data_standardise(data_set *d);

/* A path made by a format. false: it does not fit. */
enum { data_path_bytes = 1024 };
bool data_path(char path[data_path_bytes], const char *format, ...) __attribute__((format(printf, 2, 3)));
bool data_exists(const char *path);
bool data_is_folder(const char *path);
/* What of a path a sentence has room for: its last `most` bytes at most, from the start of a name if there is one. */
const char *data_tail(const char *path, size_t most);
/* "file: sentence", where the sentence stays whole however long the path is. Returns status. */
scion_status data_fail(scion_error *err, scion_status status, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
