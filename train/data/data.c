/* Opening and closing, warnings, and the order of samples. */
#include "data/data.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/arith.h"
#include "base/random.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/number.h"
#include "data/catalogue.h"
#include "data/data_kind.h"
#include "data/paths.h"
#include "data/prefetch.h"
#include "text/tokenizer_row.h"

/* ---- Options ------------------------------------------------------------------------------------------- */

static const data_kind *kind_at(int i)
{
    int k = 0;
    while (k < i && data_kinds[k])
        k++;
    return data_kinds[k];
}

static const data_kind *kind_of_name(const char *name)
{
    for (int i = 0; data_kinds[i]; i++)
        if (strcmp(data_kinds[i]->name, name) == 0 || (data_kinds[i]->also && strcmp(data_kinds[i]->also, name) == 0))
            return data_kinds[i];
    return NULL;
}

const char *data_kind_name(int i)
{
    if (i == 0)
        return "auto";
    for (int k = 0; data_kinds[k]; k++) {
        if (--i == 0)
            return data_kinds[k]->name;
        if (data_kinds[k]->also && --i == 0)
            return data_kinds[k]->also;
    }
    return NULL;
}

bool data_same_kind(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (kind_of_name(a) && kind_of_name(a) == kind_of_name(b));
}

const option data_option_rows[] = {
    OPTION_STRING_ROW(data_options, path, "data", "",
                      "file or folder to learn from; token shards: also a pattern such as 'fineweb/*.bin'",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_ENUM_ROW(data_options, kind, "data_kind", "auto", data_kind_name, "format of the data; auto: detected",
                    .change = OPTION_ON_EVAL),
    OPTION_STRING_ROW(data_options, val, "val_data", "",
                      "text or token shards for validation; default: the last val_fraction, shards named *val*",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_STRING_ROW(data_options, tokenizer, "tokenizer", "auto",
                      "text: chars, bytes, bpe, gpt2, a tokenizer.json, a run; auto: chars; for shards, beside them",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_REAL_ROW(data_options, val_fraction, "val_fraction", "0.1", 0, 0.9,
                    "text without val_data, images without val/: the last part, kept for validation",
                    .change = OPTION_ON_EVAL),
    OPTION_INT_ROW(data_options, vocab, "vocab", "0", 0, 0x1p24,
                   "text: size of the vocabulary, 0: as the data have it; of tokenizer=bpe 4096",
                   .change = OPTION_FROM_INIT),
    OPTION_INT_ROW(data_options, block, "block", "256", 1, OPTION_MANY, "text: tokens in a sequence",
                   .change = OPTION_ON_EVAL | OPTION_FROM_INIT),
    OPTION_END,
};

static size_t kind_offset(int i)
{
    size_t offset = offsetof(data_options, kinds);
    for (int k = 0; k < i; k++)
        offset += (data_kinds[k]->options_size + 7) / 8 * 8;
    return offset;
}

bool data_kind_options(int i, const char **name, const option **rows, size_t *offset)
{
    if (!kind_at(i))
        return false;
    *name = kind_at(i)->name;
    *rows = kind_at(i)->options;
    *offset = kind_offset(i);
    return true;
}

const void *data_own_options(const data_set *d)
{
    int i = 0;
    while (data_kinds[i] != d->kind)
        i++;
    return (const char *)&d->options + kind_offset(i);
}

bool data_needs_path(const char *kind)
{
    const data_kind *k = kind_of_name(kind);
    return !k || !k->no_path;
}

bool data_kind_gives(const char *kind, bool images)
{
    const data_kind *k = kind_of_name(kind);
    return !k || k->no_path || k->images == images;
}

const data_content *data_content_of(const char *array)
{
    static const data_content rows[] = {{"tokens", "tokens", "sequences", false, false},
                                        {"pixels", "images", "images", true, false},
                                        {"image", "images", "images", true, true},
                                        {NULL, "samples", "samples", false, false}};
    const data_content *row = rows;
    while (row->array && strcmp(row->array, array) != 0)
        row++;
    return row;
}

/* ---- Memory and files of a set ------------------------------------------------------------------------------ */

void *data_own(data_set *d, size_t bytes, scion_error *err)
{
    char text[NUMBER_BYTES_TEXT];
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    void **slot = memory ? array_append(&d->owned, &d->owned_count, sizeof *slot) : NULL;
    if (!slot) {
        free(memory);
        train_fail(err, SCION_ENOMEM, "out of memory for %s of data", number_bytes((double)bytes, text));
        return NULL;
    }
    d->owned_bytes += bytes;
    *slot = memory;
    return memory;
}

scion_status data_adopt(data_set *d, void *memory, size_t bytes, scion_error *err)
{
    void **slot = array_append(&d->owned, &d->owned_count, sizeof *slot);
    if (!slot) {
        free(memory);
        return train_fail(err, SCION_ENOMEM, "out of memory for the data");
    }
    d->owned_bytes += bytes;
    *slot = memory;
    return SCION_OK;
}

char *data_own_text(data_set *d, const char *text, scion_error *err)
{
    char *copy = data_own(d, strlen(text) + 1, err);
    return copy ? strcpy(copy, text) : NULL;
}

void data_hash(data_set *d, const void *bytes, size_t n)
{
    d->info.hash = XXH3_64bits_withSeed(bytes, n, d->info.hash);
}

uint64_t *data_own_hashes(data_set *d, int64_t count, scion_error *err)
{
    d->hashes = data_own(d, (size_t)count * sizeof *d->hashes, err);
    d->hash_count = count;
    return d->hashes;
}

uint64_t *data_hash_parts(data_set *d, int64_t *count)
{
    *count = d->hash_count;
    return d->hashes;
}

void data_join_hashes(data_set *d)
{
    d->info.hash = 0;
    data_hash(d, d->hashes, (size_t)d->hash_count * sizeof *d->hashes);
}

void data_add_array(data_set *d, const char *name, data_type type, int ndim, const int64_t *shape, int64_t range)
{
    const data_content *content = data_content_of(name);
    const int index = d->info.array_count++;
    data_array *a = &d->info.arrays[index];
    *a = (data_array){.name = name,
                      .type = type,
                      .ndim = ndim,
                      .count = 1,
                      .range = range,
                      .channels_last = content->channels_last};
    for (int i = 0; i < ndim; i++) {
        a->shape[i] = shape[i];
        a->count *= shape[i];
    }
    if (strcmp(name, "targets") == 0) {
        d->info.targets = index;
        a->pad = -1;
    }
    if (index == 0)
        d->info.unit = content->unit;
    if (content->array)
        d->info.input = index;
}

/* ---- Tokenizers ---------------------------------------------------------------------------------------- */

scion_status data_set_tokenizer(data_set *d, tokenizer *t, scion_error *err)
{
    const int64_t count = tokenizer_size(t);
    int32_t *bytes = data_own(d, (size_t)count * sizeof *bytes, err);
    if (!bytes) {
        tokenizer_free(t);
        return SCION_ENOMEM;
    }
    for (int32_t i = 0; i < count; i++) { /* a separator stands for no byte of a text */
        size_t n;
        tokenizer_decode(t, i, &n);
        bytes[i] = i == tokenizer_separator(t) ? 0 : (int32_t)n;
    }
    d->info.tokenizer = d->tokenizer = t;
    d->info.symbols = count;
    d->info.token_bytes = bytes;
    return SCION_OK;
}

bool data_tokenizer_is_auto(const data_options *o)
{
    return !o->tokenizer[0] || strcmp(o->tokenizer, "auto") == 0;
}

scion_status data_find_tokenizer(data_set *d, const char *name, const data_context *context, scion_error *err)
{
    const tokenizer_row *row = tokenizer_find_row(name);
    tokenizer *t = NULL;
    if (row && row->learn)
        return train_fail(
            err, SCION_EINVAL,
            "tokenizer=%s is learned from a text, and there is none; a tokenizer.json or a run would do", name);
    if (!row && !context->open_tokenizer)
        return train_fail(err, SCION_EINVAL, "tokenizer=%.100s: there is no such tokenizer", name);
    if (row)
        RETURN_IF_FAILED(tokenizer_open(&t, name, NULL, 0, err));
    else
        RETURN_IF_FAILED(context->open_tokenizer(&t, name, err));
    return data_set_tokenizer(d, t, err);
}

/* Opens a model's tokenizer. */
static scion_status take_vocabulary(data_set *d, const data_vocabulary *v, scion_error *err)
{
    tokenizer *t;
    scion_error inner;
    if (!v->kind)
        return SCION_OK;
    const scion_status status = tokenizer_open(&t, v->kind, v->bytes, v->size, &inner);
    if (status != SCION_OK)
        return train_fail(err, status, "the model's tokenizer: %.200s", inner.message);
    return data_set_tokenizer(d, t, err);
}

static struct {
    void (*show)(void *ctx, const char *what, double share);
    void *ctx;
} listener;

void data_on_progress(void (*show)(void *ctx, const char *what, double share), void *ctx)
{
    listener.show = show;
    listener.ctx = ctx;
}

void data_progress(const char *what, double share)
{
    if (listener.show)
        listener.show(listener.ctx, what, share);
}

/* ---- Warnings ------------------------------------------------------------------------------------------ */

struct data_warnings {
    pthread_mutex_t lock;
    int64_t count; /* of all, also those without a sentence */
    int kept, taken;
    scion_error sentence[DATA_WARNINGS];
};

static scion_status make_warnings(data_set *d, scion_error *err)
{
    d->warnings = data_own(d, sizeof *d->warnings, err);
    if (!d->warnings)
        return SCION_ENOMEM;
    pthread_mutex_init(&d->warnings->lock, NULL);
    return SCION_OK;
}

void data_warn(const data_set *d, const scion_error *why)
{
    data_warnings *w = d->warnings;
    pthread_mutex_lock(&w->lock);
    w->count++;
    if (w->kept < DATA_WARNINGS)
        w->sentence[w->kept++] = *why;
    pthread_mutex_unlock(&w->lock);
}

int64_t data_skipped(const data_set *d)
{
    pthread_mutex_lock(&d->warnings->lock);
    const int64_t count = d->warnings->count;
    pthread_mutex_unlock(&d->warnings->lock);
    return d->info.skipped + count;
}

int64_t data_files(const data_set *d)
{
    return d->bad_count[DATA_TRAIN] + d->bad_count[DATA_VAL];
}

void data_unreadable(const data_set *d, uint8_t *files)
{
    for (int part = 0; part < DATA_PARTS; part++)
        for (int64_t i = 0; i < d->bad_count[part]; i++)
            *files++ = atomic_load(&d->bad[part][i]);
}

bool data_next_warning(const data_set *d, scion_error *warning)
{
    data_warnings *w = d->warnings;
    pthread_mutex_lock(&w->lock);
    const bool found = w->taken < w->kept;
    if (found)
        *warning = w->sentence[w->taken++];
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

/* The first kind that detects a path, among those of images if it must be one; NULL: none. */
static const data_kind *kind_of_path(const char *path, bool images)
{
    for (int i = 0; data_kinds[i]; i++)
        if (data_kinds[i]->detect && (data_kinds[i]->images || !images) && data_kinds[i]->detect(path))
            return data_kinds[i];
    return NULL;
}

/* The kind that takes any path: it reads images from files, or text with a vocabulary. NULL: the table has none. */
static const data_kind *default_kind(bool images)
{
    for (int i = 0; data_kinds[i]; i++)
        if (images ? data_kinds[i]->default_for_images : data_kinds[i]->default_for_text)
            return data_kinds[i];
    return NULL;
}

/* Finds the kind by name, else by the path. */
static const data_kind *find_kind(const data_options *o, const data_context *context, scion_error *err)
{
    const bool images = context->images || (context->wants && data_content_of(context->wants[0])->images);
    const data_kind *kind;
    if (o->kind[0] && strcmp(o->kind, "auto") != 0) {
        kind = kind_of_name(o->kind);
        if (!kind)
            train_fail(err, SCION_EINVAL, "%.60s: there is no kind of data of this name", o->kind);
        /* A folder may hold files of several kinds; a file, or a pattern, is of one. */
        const data_kind *found = kind && o->path[0] && !file_is_folder(o->path) ? kind_of_path(o->path, false) : NULL;
        if (!found || found == kind)
            return kind;
        if (file_exists(o->path))
            data_fail(err, SCION_EINVAL, o->path, "%s: say data_kind=%s (data_kind=%s wants %s)", found->help,
                      found->name, kind->name, kind->help);
        else
            data_fail(err, SCION_EINVAL, o->path,
                      "a pattern means %s: say data_kind=%s (%s takes one file or folder)", found->help, found->name,
                      kind->name);
        return NULL;
    }
    if (!o->path[0] && !context->vocabulary.kind && context->range == 0 && !context->images) {
        train_fail(err, SCION_EINVAL, "no data are given");
        return NULL;
    }
    const data_kind *detected = o->path[0] ? kind_of_path(o->path, images) : NULL;
    kind = detected ? detected : default_kind(images);
    if (!kind)
        data_fail(err, SCION_EINVAL, o->path, "in no format that is read");
    return kind;
}

/* Refuses a kind that is read from a path if there is none, unless the model has all that is needed. */
static scion_status check_path(const data_kind *kind, const data_options *o, const data_context *context,
                               scion_error *err)
{
    if (o->val[0] && !kind->takes_val)
        return train_fail(err, SCION_EINVAL, "val_data is for texts and token shards; kind %s has none", kind->name);
    if (o->path[0] || kind->no_path || (kind->default_for_text && (context->vocabulary.kind || context->range > 0)) ||
        (kind->default_for_images && context->images))
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "no data are given, expected %s", kind->help);
}

static bool has_option(const data_kind *kind, const char *key)
{
    for (const option *o = kind->options; o && o->key; o++)
        if (strcmp(o->key, key) == 0)
            return true;
    return false;
}

/* True if an option has its default. All zeros count as not set. */
static bool is_default(const option *o, const void *values)
{
    _Alignas(8) unsigned char initial[DATA_KIND_BYTES] = {0}, zero[DATA_KIND_BYTES] = {0};
    return option_set(o, initial, o->initial, "", NULL) != SCION_OK || option_same(o, values, initial) ||
           option_same(o, values, zero);
}

/* Rejects options of other kinds, which would do nothing. Synthetic images stand for any. */
static scion_status check_options(const data_set *d, const data_context *context, scion_error *err)
{
    const bool images = d->info.image != NULL;
    if (images && (d->kind->no_path || context->stored))
        return SCION_OK;
    for (int i = 0; data_kinds[i]; i++)
        for (const option *o = data_kinds[i]->options; o && o->key && (images || data_kinds[i]->images); o++) {
            if (is_default(o, (const char *)&d->options + kind_offset(i)) || (images && has_option(d->kind, o->key)))
                continue;
            if (!images)
                return train_fail(err, SCION_EINVAL, "%s applies to images; data of kind %s are not images", o->key,
                                  d->kind->name);
            return train_fail(err, SCION_EINVAL, "%s is for data of kind %s; these are of kind %s", o->key,
                              data_kinds[i]->name, d->kind->name);
        }
    return SCION_OK;
}

scion_status data_open(data_set **out, const data_options *o, const data_context *context, scion_error *err)
{
    *out = NULL;
    data_options named = *o;
    if (catalogue_path(o->path, named.path, err) != SCION_OK)
        return SCION_EINVAL;
    const data_kind *kind = find_kind(&named, context, err);
    if (!kind || check_path(kind, o, context, err) != SCION_OK)
        return SCION_EINVAL;
    data_set *d = calloc(1, sizeof *d);
    if (!d)
        return train_fail(err, SCION_ENOMEM, "out of memory for the data");
    d->kind = kind;
    d->options = named;
    d->seed = context->seed;
    d->whole = context->whole;
    d->range = context->range;
    d->info.kind = kind->name;
    d->info.targets = -1;
    d->ahead = context->ahead;
    scion_status status = SCION_OK;
    TRY(make_warnings(d, err));
    d->state = data_own(d, kind->state_bytes, err);
    TRY(d->state ? SCION_OK : SCION_ENOMEM);
    TRY(take_vocabulary(d, &context->vocabulary, err));
    TRY(kind->open(d, &d->options, context, err));
    TRY(check_options(d, context, err));
    if (d->hashes && context->ranks < 2)
        data_join_hashes(d);
    if (d->background && d->ahead > 0 && context->workers > 0)
        d->pool = data_pool_create(d, d->ahead, context->workers);
    *out = d;
done:
    if (status != SCION_OK)
        data_close(d);
    return status;
}

void data_close(data_set *d)
{
    if (!d)
        return;
    data_pool_free(d->pool); /* its threads use all that follows */
    if (d->kind->close && d->state)
        d->kind->close(d);
    tokenizer_free(d->tokenizer);
    if (d->warnings)
        pthread_mutex_destroy(&d->warnings->lock);
    for (int64_t i = 0; i < d->owned_count; i++)
        free(d->owned[i]);
    free(d->owned);
    free(d);
}

const data_info *data_about(const data_set *d)
{
    return &d->info;
}

int data_find(const data_info *info, const char *name)
{
    for (int i = 0; i < info->array_count; i++)
        if (strcmp(info->arrays[i].name, name) == 0)
            return i;
    return -1;
}

int64_t data_raw_bytes(const data_info *info, const int32_t *tokens, int64_t count)
{
    int64_t bytes = 0;
    for (int64_t i = 0; info->token_bytes && i < count; i++)
        bytes += tokens[i] >= 0 && tokens[i] < info->symbols ? info->token_bytes[tokens[i]] : 0;
    return bytes;
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

/* Mixes 32 bits so that each depends on all (the finalizer of MurmurHash3, by A. Appleby). */
static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Place of sample i in the order of an epoch: a keyed permutation of [0, n), four rounds of a Feistel network on the
 * next power of four, walked until it falls inside. */
static int64_t shuffled(uint64_t seed, int64_t epoch, int64_t i, int64_t n)
{
    const scn_words keys = scn_philox(seed, SCN_STREAM_SHUFFLE, (uint64_t)epoch);
    int half = 1;
    while (((int64_t)1 << 2 * half) < n)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int round = 0; round < 4; round++) {
            const uint64_t next = left ^ (mixed((uint32_t)right ^ keys.w[round]) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* Samples in a sequence; training goes on over all epochs. */
static int64_t length_of(const data_set *d, data_sequence s)
{
    if (s.part == DATA_TRAIN && !s.plain)
        return INT64_MAX;
    return s.even > 0 ? s.even : d->info.samples[s.part];
}

/* Place in the part of sample `number`; -1: drawn. */
static int64_t sample_at(const data_set *d, data_sequence s, int64_t number)
{
    const int64_t n = d->info.samples[s.part];
    if (s.even > 0) /* floor(number n / even), without a product that may overflow */
        return number * (n / s.even) + number * (n % s.even) / s.even;
    if (s.part != DATA_TRAIN || s.plain)
        return number;
    if (d->order == DATA_SHUFFLED)
        return shuffled(d->seed, number / n, number % n, n);
    return d->order == DATA_CYCLED ? number % n : -1;
}

scion_status data_fetch_one(const data_set *d, data_sequence s, int64_t number, void *const arrays[],
                            scion_error *err)
{
    const int64_t sample = sample_at(d, s, number);
    return d->fetch(d, s.part, sample, s.plain ? -1 : s.even > 0 ? sample : number, arrays, err);
}

const char *data_file_of(const data_set *d, data_sequence s, int64_t number)
{
    return d->file ? d->file(d, s.part, sample_at(d, s, number)) : NULL;
}

/* Points to row `row` of a batch. */
static void row_of(const data_info *info, void *const arrays[], int64_t row, void *to[DATA_ARRAYS])
{
    for (int i = 0; i < info->array_count; i++)
        to[i] = arrays[i] ? (char *)arrays[i] + row * info->arrays[i].count * DATA_TYPE_BYTES : NULL;
}

static void pad_row(const data_info *info, void *const row[])
{
    for (int i = 0; i < info->array_count; i++) {
        const data_array *a = &info->arrays[i];
        if (!row[i])
            continue;
        memset(row[i], 0, (size_t)a->count * DATA_TYPE_BYTES);
        for (int64_t k = 0; a->type == DATA_INT32 && k < a->count; k++)
            ((int32_t *)row[i])[k] = a->pad;
    }
}

void data_prefetch(const data_set *d, data_sequence s, int64_t first, int64_t count)
{
    const int64_t left = length_of(d, s) - first;
    if (d->pool && left > 0)
        data_pool_prefetch(d->pool, s, first, scn_min(count, left));
}

/* The pool decodes the samples on all its threads, whether or not they were asked for before. */
scion_status data_fill(const data_set *d, data_sequence s, int64_t first, int64_t count, void *const arrays[],
                       scion_error *err)
{
    const int64_t length = length_of(d, s);
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        const int64_t number = first + i;
        void *row[DATA_ARRAYS];
        row_of(&d->info, arrays, i, row);
        if (d->pool && i % d->ahead == 0)
            data_prefetch(d, s, number, count - i);
        if (d->hint && d->order == DATA_SHUFFLED && number + 1 < length)
            d->hint(d, s.part, sample_at(d, s, number + 1));
        if (number >= length)
            pad_row(&d->info, row);
        else if (!d->pool || !data_pool_take(d->pool, s, number, row, &status, err))
            status = data_fetch_one(d, s, number, row, err);
    }
    return status;
}

size_t data_bytes(const data_set *d)
{
    return d->owned_bytes + (d->pool ? data_pool_bytes(d->pool) : 0);
}

size_t data_decode_bytes(const data_set *d)
{
    return d->decode_bytes;
}
