/* The table of kinds, opening and closing, and what the kinds share. */
#define _POSIX_C_SOURCE 200809L
#include "data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "data/data_set.h"

/* In the order in which "auto" asks them; any file is a text. */
static const data_kind *const kinds[] = {&data_kind_synthetic, &data_kind_idx, &data_kind_cifar10, &data_kind_tokens,
                                         &data_kind_chars};

enum { kind_count = sizeof kinds / sizeof *kinds };

/* ---- Options ------------------------------------------------------------------------------------------- */

static const char *kind_name(int i)
{
    return i == 0 ? "auto" : i > 0 && i <= kind_count ? kinds[kind_count - i]->name : NULL;
}

const option data_option_rows[] = {
    OPTION_STRING_ROW(data_settings, path, "data", "",
                      "file or folder to learn from; token shards: a pattern such as 'fineweb/*.bin'",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_ENUM_ROW(data_settings, kind, "data_kind", "auto", kind_name, "what data is; auto: look at it",
                    .change = OPTION_ON_EVAL),
    OPTION_STRING_ROW(data_settings, val, "val_data", "",
                      "token shards for validation; default: those with val in their name",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_REAL_ROW(data_settings, val_fraction, "val_fraction", "0.1", 0, 0.9,
                    "text: the last part, kept for validation", .change = OPTION_ON_EVAL),
    OPTION_INT_ROW(data_settings, vocab, "vocab", "0", 0, 0x1p24,
                   "text: size of the vocabulary, 0: as the data have it"),
    OPTION_INT_ROW(data_settings, block, "block", "256", 1, OPTION_MANY, "text: tokens in a sequence",
                   .change = OPTION_ON_EVAL),
    OPTION_END,
};

bool data_needs_path(const char *kind)
{
    for (int i = 0; i < kind_count; i++)
        if (strcmp(kinds[i]->name, kind) == 0)
            return !kinds[i]->no_path;
    return true;
}

/* ---- Paths and sentences ------------------------------------------------------------------------------- */

bool data_path(char path[data_path_bytes], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, data_path_bytes, format, args);
    va_end(args);
    return length >= 0 && length < data_path_bytes;
}

bool data_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool data_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

const char *data_tail(const char *path, size_t most)
{
    const size_t n = strlen(path);
    if (n <= most)
        return path;
    const char *tail = path + (n - most), *slash = strchr(tail, '/');
    if (slash && slash[1])
        return slash + 1;
    while (((uint8_t)*tail & 0xc0) == 0x80) /* not from the middle of a UTF-8 character */
        tail++;
    return tail;
}

scion_status data_fail(scion_error *err, scion_status status, const char *path, const char *format, ...)
{
    enum { most_sentence = 120 };
    char sentence[most_sentence];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return train_fail(err, status, "%s: %s", data_tail(path, sizeof err->message - most_sentence - 2), sentence);
}

/* ---- What a data set owns ------------------------------------------------------------------------------ */

void *data_own(data_set *d, size_t bytes, scion_error *err)
{
    const int most = sizeof d->owned / sizeof *d->owned;
    void *memory = d->owned_count < most ? calloc(1, bytes > 0 ? bytes : 1) : NULL;
    if (memory)
        d->owned[d->owned_count++] = memory;
    else
        train_fail(err, SCION_ENOMEM, "out of memory for the data: %zu bytes", bytes);
    return memory;
}

scion_status data_map(data_set *d, const char *path, const uint8_t **bytes, size_t *count, scion_error *err)
{
    struct stat s;
    void *at = MAP_FAILED;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
    if (file < 0 || fstat(file, &s) != 0) {
        int reason = errno;
        if (file >= 0)
            close(file);
        return data_fail(err, SCION_EINVAL, path, "cannot open: %s", strerror(reason));
    }
    const bool regular = S_ISREG(s.st_mode);
    if (regular && s.st_size > 0)
        at = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (!regular || s.st_size == 0)
        return data_fail(err, SCION_EINVAL, path, regular ? "the file is empty" : "not a regular file");
    void *maps = at == MAP_FAILED ? NULL : realloc(d->maps, (size_t)(d->map_count + 1) * sizeof *d->maps);
    if (!maps) {
        if (at != MAP_FAILED)
            munmap(at, (size_t)s.st_size);
        return data_fail(err, SCION_ENOMEM, path, "cannot map %lld bytes", (long long)s.st_size);
    }
    d->maps = maps;
    d->maps[d->map_count++] = (data_mapping){at, (size_t)s.st_size};
    *bytes = at;
    *count = (size_t)s.st_size;
    return SCION_OK;
}

scion_status data_add_segment(data_set *d, data_part part, const uint16_t *tokens, int64_t count, scion_error *err)
{
    data_stream *s = &d->streams[part];
    data_segment *segments = realloc(s->segments, (size_t)(s->count + 1) * sizeof *segments);
    if (segments)
        s->segments = segments;
    int64_t *starts = segments ? realloc(s->starts, (size_t)(s->count + 1) * sizeof *starts) : NULL;
    if (!starts)
        return train_fail(err, SCION_ENOMEM, "out of memory for the data");
    s->starts = starts;
    s->segments[s->count] = (data_segment){tokens, count};
    s->starts[s->count++] = s->total;
    s->total += count;
    return SCION_OK;
}

scion_status data_split(data_set *d, const data_options *o, const uint16_t *tokens, int64_t count, scion_error *err)
{
    if (!(o->val_fraction >= 0 && o->val_fraction <= 1))
        return train_fail(err, SCION_EINVAL, "val_fraction is %g, expected 0 to 1", o->val_fraction);
    d->info.val = (int64_t)(o->val_fraction * (double)count);
    d->info.train = count - d->info.val;
    scion_status status = data_add_segment(d, DATA_TRAIN, tokens, d->info.train, err);
    return status == SCION_OK ? data_add_segment(d, DATA_VAL, tokens + d->info.train, d->info.val, err) : status;
}

/* Sum and sum of squares of n bytes: whole numbers, so exact in any order; 4096 squares of bytes fit in 32 bits. */
static void add_moments(const uint8_t *x, int64_t n, uint64_t *sum, uint64_t *squares)
{
    enum { run = 4096 };
    for (int64_t i = 0; i < n; i += run) {
        uint32_t s = 0, q = 0;
        for (int64_t k = i; k < n && k < i + run; k++) {
            s += x[k];
            q += (uint32_t)x[k] * x[k];
        }
        *sum += s;
        *squares += q;
    }
}

void data_standardise(data_set *d)
{
    const data_pictures *p = &d->pictures[DATA_TRAIN];
    const int64_t area = d->info.features / d->info.channels;
    for (int64_t c = 0; c < d->info.channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (int64_t i = 0; i < p->count; i++)
            add_moments(p->pixels + i * d->info.features + c * area, area, &sum, &squares);
        const double n = (double)p->count * (double)area, mean = (double)sum / n;
        const double variance = (double)squares / n - mean * mean;
        d->mean[c] = (float)mean;
        d->scale[c] = (float)(variance > 0 ? 1 / sqrt(variance) : 1);
    }
    d->info.train = d->pictures[DATA_TRAIN].count;
    d->info.val = d->pictures[DATA_VAL].count;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

/* "auto" with a vocabulary is a text: only texts have one. */
static const data_kind *find_kind(const data_options *o, scion_error *err)
{
    const char *kind = o->kind && o->kind[0] ? o->kind : "auto", *path = o->path ? o->path : "";
    const bool by_path = strcmp(kind, "auto") == 0;
    if (by_path && (o->vocabulary || !path[0]))
        return &data_kind_chars;
    for (int i = 0; i < kind_count; i++)
        if (by_path ? kinds[i]->looks(path) : strcmp(kind, kinds[i]->name) == 0)
            return kinds[i];
    if (by_path)
        data_fail(err, SCION_EINVAL, path, "a folder without idx images, CIFAR-10 or token shards (*.bin)");
    else
        train_fail(err, SCION_EINVAL, "%.60s: there is no kind of data of this name", kind);
    return NULL;
}

scion_status data_open(data_set **out, const data_options *o, scion_error *err)
{
    *out = NULL;
    const data_kind *kind = find_kind(o, err);
    if (!kind)
        return SCION_EINVAL;
    data_set *d = calloc(1, sizeof *d);
    if (!d)
        return train_fail(err, SCION_ENOMEM, "out of memory for the data");
    d->seed = o->seed;
    scion_status status = kind->open(d, o, err);
    if (status == SCION_OK)
        *out = d;
    else
        data_close(d);
    return status;
}

void data_close(data_set *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->owned_count; i++)
        free(d->owned[i]);
    for (int i = 0; i < d->map_count; i++)
        munmap(d->maps[i].at, d->maps[i].bytes);
    for (int part = 0; part < 2; part++) {
        free(d->streams[part].segments);
        free(d->streams[part].starts);
    }
    free(d->maps);
    free(d);
}

const data_info *data_about(const data_set *d)
{
    return &d->info;
}
