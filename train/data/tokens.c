/* Token shards as llm.c and modded-nanogpt write them: 256 int32 (magic 20240520, version 1, number of tokens), then
 * the tokens as uint16, little-endian as the machine must be. Training runs through the files in the order of their
 * names (as bytes, in any locale) and starts again. Opening reads every token of a small shard and some of a large
 * one, for the hash of the data and to find tokens outside of the vocabulary at once; each token is checked again
 * when a sample is read from the file, which stays open. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/simd.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "data/paths.h"
#include "data/text.h"

enum { magic = 20240520, version = 1, header_ints = 256, header_bytes = header_ints * 4, gpt2_vocab = 50304 };

/* Lists the files that `path` means, in order: a file, a folder's *.bin, or a pattern. An existing path is taken
 * literally, so its special characters are escaped. No such files: the list stays empty. */
static scion_status list_files(const char *path, data_names *names, scion_error *err)
{
    char pattern[2 * data_path_bytes];
    const bool exists = file_exists(path);
    size_t n = 0;
    glob_t files;
    if (strlen(path) >= data_path_bytes - sizeof "/*.bin")
        return SCION_OK;
    for (const char *c = path; *c; c++) {
        if (exists && strchr("*?[\\", *c))
            pattern[n++] = '\\';
        pattern[n++] = *c;
    }
    snprintf(pattern + n, sizeof pattern - n, "%s", file_is_folder(path) ? "/*.bin" : "");
    if (glob(pattern, GLOB_NOSORT, NULL, &files) != 0)
        return SCION_OK;
    scion_status status = SCION_OK;
    for (size_t i = 0; status == SCION_OK && i < files.gl_pathc; i++)
        status = data_add_name(names, files.gl_pathv[i], err);
    globfree(&files);
    data_sort_names(names);
    return status;
}

static bool starts_with_magic(const char *path)
{
    int32_t first = 0;
    int64_t size;
    int file;
    if (data_open_file(path, &file, &size, NULL) != SCION_OK)
        return false;
    const bool found = data_read_at(file, path, 0, &first, sizeof first, NULL) == SCION_OK && first == magic;
    close(file);
    return found;
}

/* True for a folder with *.bin, a pattern of files, or a file with the magic. */
static bool detect(const char *path)
{
    data_names names = {NULL, 0};
    if (file_exists(path) && !file_is_folder(path))
        return starts_with_magic(path);
    const bool found = list_files(path, &names, NULL) == SCION_OK && names.count > 0;
    data_free_names(&names);
    return found;
}

static uint16_t largest_of(const uint16_t *tokens, int64_t n)
{
    uint16_t largest = 0;
    SCN_SIMD_MAX(largest)
    for (int64_t i = 0; i < n; i++)
        largest = tokens[i] > largest ? tokens[i] : largest;
    return largest;
}

/* Checks and hashes the tokens of a shard: all of them, or of more than max_pieces x piece so many pieces, spread
 * from its first to its last token, and its size. FineWeb10B has 20 GB, which every rank opens. */
static scion_status check_tokens(data_set *d, int file, const char *path, int64_t count, int64_t vocab,
                                 scion_error *err)
{
    enum { piece = 1 << 19, max_pieces = 8 };
    const bool all = count <= (int64_t)max_pieces * piece;
    const int64_t pieces = all ? (count + piece - 1) / piece : max_pieces;
    uint16_t *tokens = malloc(piece * sizeof *tokens);
    scion_status status = tokens ? SCION_OK : data_fail(err, SCION_ENOMEM, path, "out of memory to read it");
    if (!all)
        data_hash(d, &count, sizeof count);
    for (int64_t i = 0; status == SCION_OK && i < pieces; i++) {
        const int64_t first = all ? i * piece : i * (count - piece) / (pieces - 1);
        const int64_t n = count - first < piece ? count - first : piece;
        status = data_read_at(file, path, header_bytes + 2 * first, tokens, (size_t)n * sizeof *tokens, err);
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

/* Checks the header of a shard and counts its tokens. */
static scion_status read_header(int file, const char *path, int64_t size, int64_t *count, scion_error *err)
{
    int32_t head[3];
    if (size < header_bytes)
        return data_fail(err, SCION_EINVAL, path, "%lld bytes are too few for a token shard's header of %d",
                         (long long)size, header_bytes);
    RETURN_IF_FAILED(data_read_at(file, path, 0, head, sizeof head, err));
    *count = head[2];
    const int64_t expected = header_bytes + 2 * *count;
    if (head[0] != magic || head[1] != version)
        return data_fail(err, SCION_EINVAL, path, "magic %d and version %d, expected %d and %d: not a token shard",
                         (int)head[0], (int)head[1], magic, version);
    if (*count < 1)
        return data_fail(err, SCION_EINVAL, path, "its header says %lld tokens", (long long)*count);
    if (size != expected)
        return data_fail(err, SCION_EINVAL, path, "%lld bytes, but its header says %lld tokens: expected %lld bytes",
                         (long long)size, (long long)*count, (long long)expected);
    return SCION_OK;
}

static scion_status add_shard(data_set *d, data_part part, const char *path, int64_t vocab, scion_error *err)
{
    data_segment s = {.offset = header_bytes, .path = data_own_text(d, path, err)};
    int64_t size;
    scion_status status;
    if (!s.path)
        return SCION_ENOMEM;
    RETURN_IF_FAILED(data_open_file(path, &s.file, &size, err));
    TRY(read_header(s.file, path, size, &s.count, err));
    TRY(check_tokens(d, s.file, path, s.count, vocab, err));
    TRY(data_add_segment(d, part, &s, err));
    return SCION_OK;
done:
    close(s.file);
    return status;
}

/* True if the name of a file says that it is for validation. */
static bool is_val(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strstr(slash ? slash + 1 : path, "val") != NULL;
}

/* True if a file is in the list, under any name. */
static bool is_listed(const char *path, const data_names *names)
{
    for (int64_t i = 0; i < names->count; i++)
        if (file_same(path, names->name[i]))
            return true;
    return false;
}

/* Adds the shards to their parts. */
static scion_status add_shards(data_set *d, const data_names *all, const data_names *val, int64_t vocab,
                               scion_error *err)
{
    for (int64_t i = 0; i < all->count; i++) {
        const data_part part = val->count == 0 && is_val(all->name[i]) ? DATA_VAL : DATA_TRAIN;
        if (!is_listed(all->name[i], val))
            RETURN_IF_FAILED(add_shard(d, part, all->name[i], vocab, err));
    }
    for (int64_t i = 0; i < val->count; i++)
        RETURN_IF_FAILED(add_shard(d, DATA_VAL, val->name[i], vocab, err));
    return SCION_OK;
}

static scion_status open_tokens(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_names all = {NULL, 0}, val = {NULL, 0};
    const bool has_val = o->val[0] && !d->whole;
    const int64_t vocab = o->vocab > 0 ? o->vocab : gpt2_vocab;
    const data_text *t = d->state;
    scion_status status = SCION_OK;
    (void)context;
    TRY(list_files(o->path, &all, err));
    if (all.count == 0)
        TRY(data_fail(err, SCION_EINVAL, o->path,
                      "there is no such file or folder; scion train --help says how to get token shards"));
    if (has_val)
        TRY(list_files(o->val, &val, err));
    if (has_val && val.count == 0)
        TRY(data_fail(err, SCION_EINVAL, o->val, "there is no such file"));
    TRY(add_shards(d, &all, &val, vocab, err));
    if (!d->whole && t->streams[DATA_TRAIN].total == 0)
        TRY(data_fail(err, SCION_EINVAL, o->path, "all shards are for validation"));
    const int64_t shards = t->streams[DATA_TRAIN].count + t->streams[DATA_VAL].count;
    snprintf(d->info.description, sizeof d->info.description,
             "%s, %lld shard%s, %lld tokens to train, %lld to validate", path_tail(o->path, 60), (long long)shards,
             shards == 1 ? "" : "s", (long long)t->streams[DATA_TRAIN].total, (long long)t->streams[DATA_VAL].total);
    snprintf(d->info.held_out, sizeof d->info.held_out,
             d->whole  ? "%s, all of it"
             : has_val ? "%s"
                       : "%s, *val*",
             path_tail(has_val ? o->val : o->path, 90));
    status = data_text_ready(d, vocab, false, err);
done:
    data_free_names(&val);
    data_free_names(&all);
    return status;
}

static void close_tokens(data_set *d)
{
    const data_text *t = d->state;
    for (int part = 0; part < DATA_PARTS; part++)
        for (const data_segment *s = t->streams[part].first; s; s = s->next)
            close(s->file);
}

const data_kind data_kind_tokens = {
    .name = "tokens",
    .help = "token shards of llm.c and modded-nanogpt",
    .takes_val = true,
    .detect = detect,
    .state_bytes = sizeof(data_text),
    .open = open_tokens,
    .close = close_tokens,
};
