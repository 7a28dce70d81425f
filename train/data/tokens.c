/* Token shards as llm.c and modded-nanogpt write them: 256 int32 (magic, version, number of tokens), then the tokens,
 * little-endian as the machine must be; two forms, of uint16 and of uint32. Training runs through the files in the
 * order of their names (as bytes, in any locale) and starts again.
 *
 * Opening reads every token of a small shard and some of a large one, for the hash of the data and to find tokens
 * outside of the vocabulary at once. Several ranks share this work, shard by shard; each glances at the first and
 * last tokens of all, so that ranks that see other files notice. Every token is checked again when a sample is read
 * from the file, which stays open. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/arith.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "data/paths.h"
#include "data/shard_file.h"
#include "data/text.h"

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
    const bool found = data_read_at(file, path, 0, &first, sizeof first, NULL) == SCION_OK && shard_form_of(first);
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

/* Reads tokens of a shard and adds their bytes to a hash. */
static scion_status hash_tokens(const data_segment *s, int64_t vocab, int64_t first, int64_t n, int32_t *tokens,
                                uint64_t *hash, scion_error *err)
{
    RETURN_IF_FAILED(data_read_tokens(s, vocab, first, n, tokens, err));
    *hash = XXH3_64bits_withSeed(tokens, (size_t)n * sizeof *tokens, *hash);
    return SCION_OK;
}

/* Checks and hashes the tokens of a shard: all of them, or of more than max_pieces x piece so many pieces, spread
 * from its first to its last token, and its size. FineWeb10B has 20 GB. */
static scion_status check_tokens(const data_segment *s, int64_t vocab, uint64_t *hash, scion_error *err)
{
    enum { piece = 1 << 19, max_pieces = 8 };
    const int64_t count = s->count;
    const bool all = count <= (int64_t)max_pieces * piece;
    const int64_t pieces = all ? (count + piece - 1) / piece : max_pieces;
    int32_t *tokens = malloc(piece * sizeof *tokens);
    scion_status status = tokens ? SCION_OK : data_fail(err, SCION_ENOMEM, s->path, "out of memory to read it");
    *hash = XXH3_64bits(&count, sizeof count);
    for (int64_t i = 0; status == SCION_OK && i < pieces; i++) {
        const int64_t first = all ? i * piece : i * (count - piece) / (pieces - 1);
        status = hash_tokens(s, vocab, first, scn_min(count - first, piece), tokens, hash, err);
    }
    free(tokens);
    return status;
}

/* Hashes the first and the last tokens of a shard. */
static scion_status glance_at(const data_segment *s, int64_t vocab, uint64_t *hash, scion_error *err)
{
    enum { some = 1024 };
    int32_t tokens[some];
    const int64_t n = scn_min(s->count, some);
    RETURN_IF_FAILED(hash_tokens(s, vocab, 0, n, tokens, hash, err));
    return hash_tokens(s, vocab, s->count - n, n, tokens, hash, err);
}

/* Checks and hashes this rank's share of the shards, and glances at all of them. */
static scion_status check_shards(data_set *d, int64_t vocab, const data_context *context, scion_error *err)
{
    const data_stream *streams = ((const data_text *)d->state)->streams;
    const int ranks = context->ranks > 1 ? context->ranks : 1;
    int64_t i = 0;
    uint64_t *hashes = data_own_hashes(d, streams[DATA_TRAIN].count + streams[DATA_VAL].count, err);
    if (!hashes)
        return SCION_ENOMEM;
    for (int part = 0; part < DATA_PARTS; part++)
        for (const data_segment *s = streams[part].first; s; s = s->next, i++) {
            if (i % ranks == context->rank)
                RETURN_IF_FAILED(check_tokens(s, vocab, &hashes[i], err));
            RETURN_IF_FAILED(glance_at(s, vocab, &d->info.glance, err));
        }
    return SCION_OK;
}

/* Checks the header of a shard; sets width and count of the segment. */
static scion_status read_header(data_segment *s, int64_t size, scion_error *err)
{
    int32_t head[3];
    if (size < SHARD_HEADER)
        return data_fail(err, SCION_EINVAL, s->path, "%lld bytes are too few for a token shard's header of %d",
                         (long long)size, SHARD_HEADER);
    RETURN_IF_FAILED(data_read_at(s->file, s->path, 0, head, sizeof head, err));
    const shard_form *form = shard_form_of(head[0]);
    if (!form || head[1] != form->version)
        return data_fail(err, SCION_EINVAL, s->path, "magic %d and version %d, expected %d and %d: not a token shard",
                         (int)head[0], (int)head[1], (int)(form ? form : shard_form_wide(2))->magic,
                         (int)(form ? form : shard_form_wide(2))->version);
    s->width = form->width;
    s->count = head[2];
    const int64_t expected = SHARD_HEADER + s->width * s->count;
    if (s->count < 1)
        return data_fail(err, SCION_EINVAL, s->path, "its header says %lld tokens", (long long)s->count);
    if (size != expected)
        return data_fail(err, SCION_EINVAL, s->path,
                         "%lld bytes, but its header says %lld tokens: expected %lld bytes", (long long)size,
                         (long long)s->count, (long long)expected);
    return SCION_OK;
}

static scion_status add_shard(data_set *d, data_part part, const char *path, scion_error *err)
{
    data_segment s = {.offset = SHARD_HEADER, .path = data_own_text(d, path, err)};
    int64_t size;
    scion_status status;
    if (!s.path)
        return SCION_ENOMEM;
    RETURN_IF_FAILED(data_open_file(path, &s.file, &size, err));
    TRY(read_header(&s, size, err));
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
static scion_status add_shards(data_set *d, const data_names *all, const data_names *val, scion_error *err)
{
    for (int64_t i = 0; i < all->count; i++) {
        const data_part part = val->count == 0 && is_val(all->name[i]) ? DATA_VAL : DATA_TRAIN;
        if (!is_listed(all->name[i], val))
            RETURN_IF_FAILED(add_shard(d, part, all->name[i], err));
    }
    for (int64_t i = 0; i < val->count; i++)
        RETURN_IF_FAILED(add_shard(d, DATA_VAL, val->name[i], err));
    return SCION_OK;
}

/* The vocabulary that shards have where nothing else says it: the largest of their forms'. */
static int64_t usual_vocab(const data_set *d)
{
    const data_stream *streams = ((const data_text *)d->state)->streams;
    int64_t vocab = 0;
    for (int part = 0; part < DATA_PARTS; part++)
        for (const data_segment *s = streams[part].first; s; s = s->next)
            vocab = scn_max(vocab, shard_form_wide(s->width)->vocab);
    return vocab;
}

/* Finds the tokenizer: the one that is named, or that beside the shards. A model has its own, which must have made
 * the shards if it is one of a text. */
static scion_status choose_tokenizer(data_set *d, const char *shard, const data_options *o,
                                     const data_context *context, scion_error *err)
{
    const bool learned = context->kind && data_same_kind(context->kind, d->kind->name);
    tokenizer *beside = NULL;
    if (!d->tokenizer && !data_tokenizer_is_auto(o))
        return data_find_tokenizer(d, o->tokenizer, context, err);
    if (!d->tokenizer && context->kind)
        return SCION_OK; /* the model never knew it */
    RETURN_IF_FAILED(shard_tokenizer_open(&beside, shard, err));
    if (!d->tokenizer)
        return beside ? data_set_tokenizer(d, beside, err) : SCION_OK;
    const bool same = beside && tokenizer_hash(beside) == tokenizer_hash(d->tokenizer), known = beside != NULL;
    tokenizer_free(beside);
    if (same || (!known && learned))
        return SCION_OK;
    return known ? data_fail(err, SCION_EINVAL, shard, "token shards of another tokenizer than the model's")
                 : data_fail(err, SCION_EINVAL, shard,
                             "token shards without their tokenizer, but the model learned from a text");
}

static scion_status open_tokens(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_names all = {NULL, 0}, val = {NULL, 0};
    const bool has_val = o->val[0] && !d->whole;
    const data_text *t = d->state;
    scion_status status = SCION_OK;
    TRY(list_files(o->path, &all, err));
    if (all.count == 0)
        TRY(data_fail(err, SCION_EINVAL, o->path,
                      "there is no such file or folder; scion train --help says how to get token shards"));
    if (has_val)
        TRY(list_files(o->val, &val, err));
    if (has_val && val.count == 0)
        TRY(data_fail(err, SCION_EINVAL, o->val, "there is no such file"));
    TRY(add_shards(d, &all, &val, err));
    TRY(choose_tokenizer(d, all.name[0], o, context, err));
    const int64_t own = d->range > 0 ? d->range : d->tokenizer ? d->info.symbols : usual_vocab(d);
    const int64_t vocab = o->vocab > 0 ? o->vocab : own;
    TRY(check_shards(d, vocab, context, err));
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
    status = data_text_ready(d, scn_max(vocab, d->info.symbols), false, err);
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
