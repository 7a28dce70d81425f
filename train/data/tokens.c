/* Token shards as llm.c and modded-nanogpt write them: 256 int32 (magic 20240520, version 1, number of tokens), then
 * the tokens as uint16, little-endian as the machine must be. Training runs through the files in the order of their
 * names (as bytes, in any locale) and starts again. Every token is read once at opening, so that one outside of the
 * vocabulary is told of then; later, samples are read from the files, which stay open. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/fail.h"
#include "data/data_kind.h"

enum { magic = 20240520, version = 1, header_ints = 256, header_bytes = header_ints * 4, gpt2_vocab = 50304 };

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files that `path` means: a file, a folder's *.bin, or a pattern. What exists is taken literally, so its special
 * characters are escaped. false: there are none; else globfree is due. */
static bool list_files(const char *path, glob_t *files)
{
    char pattern[2 * data_path_bytes];
    const bool exists = data_exists(path);
    size_t n = 0;
    if (strlen(path) >= data_path_bytes - sizeof "/*.bin")
        return false;
    for (const char *c = path; *c; c++) {
        if (exists && strchr("*?[\\", *c))
            pattern[n++] = '\\';
        pattern[n++] = *c;
    }
    snprintf(pattern + n, sizeof pattern - n, "%s", data_is_folder(path) ? "/*.bin" : "");
    if (glob(pattern, GLOB_NOSORT, NULL, files) != 0)
        return false;
    qsort(files->gl_pathv, files->gl_pathc, sizeof *files->gl_pathv, by_bytes);
    return true;
}

static bool starts_with_magic(const char *path)
{
    struct stat s;
    int32_t first = 0;
    FILE *f = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? fopen(path, "rb") : NULL;
    bool found = f && fread(&first, sizeof first, 1, f) == 1 && first == magic;
    if (f)
        fclose(f);
    return found;
}

/* A folder with *.bin, a pattern of files, or a file with the magic. */
static bool looks(const char *path)
{
    glob_t files;
    if (data_exists(path) && !data_is_folder(path))
        return starts_with_magic(path);
    bool found = list_files(path, &files);
    if (found)
        globfree(&files);
    return found;
}

/* The largest of n tokens, by sixteen so that a compiler sees vectors. */
static uint16_t largest_of(const uint16_t *tokens, int64_t n)
{
    enum { lanes = 16 };
    uint16_t max[lanes] = {0}, largest = 0;
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int k = 0; k < lanes; k++)
            max[k] = tokens[i + k] > max[k] ? tokens[i + k] : max[k];
    for (; i < n; i++)
        largest = tokens[i] > largest ? tokens[i] : largest;
    for (int k = 0; k < lanes; k++)
        largest = max[k] > largest ? max[k] : largest;
    return largest;
}

/* Reads all tokens of a shard once. */
static scion_status check_tokens(data_set *d, int file, const char *path, int64_t count, int64_t vocab,
                                 scion_error *err)
{
    enum { some = 1 << 19 };
    uint16_t *tokens = malloc(some * sizeof *tokens);
    scion_status status = tokens ? SCION_OK : data_fail(err, SCION_ENOMEM, path, "out of memory to read it");
    for (int64_t done = 0, n; status == SCION_OK && done < count; done += n) {
        n = count - done < some ? count - done : some;
        status = data_read_at(file, path, header_bytes + 2 * done, tokens, (size_t)n * sizeof *tokens, err);
        const uint16_t largest = status == SCION_OK ? largest_of(tokens, n) : 0;
        if (largest >= vocab)
            status = data_fail(err, SCION_EINVAL, path, "token %d, but the vocabulary has only %lld", (int)largest,
                               (long long)vocab);
        if (status == SCION_OK)
            data_hash(d, tokens, (size_t)n * sizeof *tokens);
    }
    free(tokens);
    return status;
}

static const char *kept_path(data_set *d, const char *path, scion_error *err)
{
    char *copy = data_own(d, strlen(path) + 1, err);
    return copy ? strcpy(copy, path) : NULL;
}

static scion_status add_shard(data_set *d, data_part part, const char *path, int64_t vocab, scion_error *err)
{
    int32_t head[3];
    int64_t size;
    int file;
    scion_status status = data_open_file(path, &file, &size, err);
    if (status == SCION_OK)
        status = data_keep_file(d, file, err);
    if (status != SCION_OK)
        return status;
    if (size < header_bytes)
        return data_fail(err, SCION_EINVAL, path, "%lld bytes are too few for a token shard's header of %d",
                         (long long)size, header_bytes);
    status = data_read_at(file, path, 0, head, sizeof head, err);
    if (status != SCION_OK)
        return status;
    const int64_t count = head[2], expected = header_bytes + 2 * count;
    if (head[0] != magic || head[1] != version)
        return data_fail(err, SCION_EINVAL, path, "magic %d and version %d, expected %d and %d: not a token shard",
                         (int)head[0], (int)head[1], magic, version);
    if (count < 1)
        return data_fail(err, SCION_EINVAL, path, "its header says %lld tokens", (long long)count);
    if (size != expected)
        return data_fail(err, SCION_EINVAL, path, "%lld bytes, but its header says %lld tokens: expected %lld bytes",
                         (long long)size, (long long)count, (long long)expected);
    status = check_tokens(d, file, path, count, vocab, err);
    const data_segment s = {.count = count, .file = file, .offset = header_bytes, .path = kept_path(d, path, err)};
    if (status == SCION_OK && !s.path)
        status = SCION_ENOMEM;
    return status == SCION_OK ? data_add_segment(d, part, &s, err) : status;
}

/* Does a file's name say that it is for validation? */
static bool is_val(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strstr(slash ? slash + 1 : path, "val") != NULL;
}

/* Is a file one of the list, under whatever name? */
static bool is_listed(const char *path, const glob_t *files)
{
    struct stat a, b;
    if (stat(path, &a) != 0)
        return false;
    for (size_t i = 0; i < files->gl_pathc; i++)
        if (stat(files->gl_pathv[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return true;
    return false;
}

/* All shards to their parts; val may be NULL. */
static scion_status add_shards(data_set *d, const glob_t *all, const glob_t *val, int64_t vocab, scion_error *err)
{
    scion_status status = SCION_OK;
    for (size_t i = 0; status == SCION_OK && i < all->gl_pathc; i++) {
        const char *path = all->gl_pathv[i];
        if (val && is_listed(path, val))
            continue;
        status = add_shard(d, !val && is_val(path) ? DATA_VAL : DATA_TRAIN, path, vocab, err);
    }
    for (size_t i = 0; val && status == SCION_OK && i < val->gl_pathc; i++)
        status = add_shard(d, DATA_VAL, val->gl_pathv[i], vocab, err);
    return status;
}

static scion_status open_tokens(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    glob_t all, val;
    const bool has_val = o->val[0] && !d->whole; /* all of `path` */
    const int64_t vocab = o->vocab > 0 ? o->vocab : gpt2_vocab;
    data_text *t = d->state = data_own(d, sizeof *t, err);
    (void)context;
    if (!t)
        return SCION_ENOMEM;
    if (!o->path[0])
        return train_fail(err, SCION_EINVAL, "no token shards are given");
    if (!list_files(o->path, &all))
        return data_fail(err, SCION_EINVAL, o->path,
                         "there is no such file or folder; scion train --help says how to get token shards");
    if (has_val && !list_files(o->val, &val)) {
        globfree(&all);
        return data_fail(err, SCION_EINVAL, o->val, "there is no such file");
    }
    scion_status status = add_shards(d, &all, has_val ? &val : NULL, vocab, err);
    if (has_val)
        globfree(&val);
    globfree(&all);
    if (status == SCION_OK && !d->whole && t->streams[DATA_TRAIN].total == 0)
        status = data_fail(err, SCION_EINVAL, o->path, "all shards are for validation");
    snprintf(d->info.description, sizeof d->info.description,
             "%s, %d shard%s, %lld tokens to train, %lld to validate", data_tail(o->path, 60), d->file_count,
             d->file_count == 1 ? "" : "s", (long long)t->streams[DATA_TRAIN].total,
             (long long)t->streams[DATA_VAL].total);
    snprintf(d->info.held_out, sizeof d->info.held_out,
             d->whole  ? "%s, all of it"
             : has_val ? "%s"
                       : "%s, *val*",
             data_tail(has_val ? o->val : o->path, 90));
    return status == SCION_OK ? data_text_ready(d, vocab, false, err) : status;
}

const data_kind data_kind_tokens = {
    .name = "tokens",
    .help = "token shards of llm.c and modded-nanogpt",
    .takes_val = true,
    .looks = looks,
    .open = open_tokens,
};
