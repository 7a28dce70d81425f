/* tokenizer_open_path: finds which files a path holds, and makes a tokenizer.json of those that are none.
 *
 * A tiktoken file has a token in base64 and its number in each line. Two neighbours are merged if both together are a
 * token, the one with the lowest number first: so the merges follow from the tokens. It says neither by which pattern
 * a text is split nor what the separator is: these are GPT-2's pattern and the next number, unless the number of
 * tokens is that of a known file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/base64.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
}

/* ---- tiktoken files -------------------------------------------------------------------------------------- */

#define CASELESS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

/* Files that are known by their number of tokens. separator: number of "<|endoftext|>". */
static const struct {
    int32_t tokens, separator;
    const char *pattern;
} known[] = {
    {50256, 50256, bpe_gpt2_pattern}, /* r50k_base, that is, GPT-2 */
    {50280, 50256, bpe_gpt2_pattern}, /* p50k_base */
    {100256, 100257,                  /* cl100k_base */
     CASELESS
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {199998, 199999, /* o200k_base */
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" CASELESS
     "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CASELESS
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

/* Tokens of a file by their numbers. */
typedef struct list {
    struct line {
        const char *text; /* in base64; NULL: none has this number */
        size_t length;
    } * of;
    int32_t size, count; /* 1 + the largest number; tokens */
    int64_t most;        /* numbers for which there is space */
} list;

enum { LONGEST_TOKEN = 1024 }; /* bytes; the time to find a token's merge is quadratic in its length */

static scion_status read_line(list *all, const char *line, size_t n, int64_t number, scion_error *err)
{
    const char *space = memchr(line, ' ', n);
    const size_t length = space ? (size_t)(space - line) : 0, digits = space ? n - length - 1 : 0;
    int64_t id = 0;
    for (size_t i = 0; i < digits && id < BPE_MAX_TOKENS; i++) {
        const char c = space[1 + i];
        id = c >= '0' && c <= '9' ? 10 * id + (c - '0') : INT64_MAX;
    }
    if (length == 0 || digits == 0 || id == INT64_MAX)
        return train_fail(err, SCION_EINVAL, "line %lld is not a token in base64, a blank and a number",
                          (long long)number);
    if (id >= BPE_MAX_TOKENS)
        return train_fail(err, SCION_EINVAL, "line %lld has the number %lld; at most %d tokens are possible",
                          (long long)number, (long long)id, (int)BPE_MAX_TOKENS);
    if (id >= all->most)
        return train_fail(err, SCION_EINVAL, "line %lld has the number %lld, but the file has fewer lines",
                          (long long)number, (long long)id);
    if (all->of[id].text)
        return train_fail(err, SCION_EINVAL, "line %lld has the number %lld, which another line has as well",
                          (long long)number, (long long)id);
    all->of[id].text = line;
    all->of[id].length = length;
    all->count++;
    all->size = id >= all->size ? (int32_t)id + 1 : all->size;
    return SCION_OK;
}

static scion_status read_lines(list *all, const char *bytes, size_t size, scion_error *err)
{
    int64_t number = 0;
    for (size_t at = 0; at < size;) {
        const char *line = bytes + at, *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t)(end - line) : size - at;
        at += n + 1;
        number++;
        n -= n > 0 && line[n - 1] == '\r';
        if (n > 0)
            RETURN_IF_FAILED(read_line(all, line, n, number, err));
    }
    return SCION_OK;
}

static scion_status add_line(bpe_vocabulary *v, const struct line *line, scion_error *err)
{
    uint8_t bytes[LONGEST_TOKEN];
    size_t n = line->length / 4 * 3;
    for (size_t i = 1; i <= 2 && i < line->length && line->text[line->length - i] == '='; i++)
        n--;
    if (n > sizeof bytes)
        return train_fail(err, SCION_EINVAL, "token %d has %zu bytes; at most %d are possible", (int)v->size, n,
                          (int)LONGEST_TOKEN);
    if (!base64_decode(line->text, line->length, bytes, n))
        return train_fail(err, SCION_EINVAL, "token %d is not base64", (int)v->size);
    return bpe_add_token(v, (const char *)bytes, n, false, err);
}

/* Adds all tokens, the separator at its number, and tokens that nothing stands for where numbers between are
 * unused. */
static scion_status add_lines(bpe_vocabulary *v, const list *all, int32_t separator, scion_error *err)
{
    const int32_t end = separator >= all->size ? separator + 1 : all->size;
    for (int32_t i = 0; i < end; i++) {
        char name[32] = "<|endoftext|>";
        if (i != separator)
            snprintf(name, sizeof name, "<|unused%d|>", (int)i);
        if (i < all->size && all->of[i].text)
            RETURN_IF_FAILED(add_line(v, &all->of[i], err));
        else if (i == separator || i >= all->size)
            RETURN_IF_FAILED(bpe_add_token(v, name, strlen(name), true, err));
        else
            return train_fail(err, SCION_EINVAL, "no token has the number %d, but the largest number is %d", (int)i,
                              (int)all->size - 1);
    }
    v->separator = separator;
    return SCION_OK;
}

/* The token of bytes `from` to `to` of a text, if it is lower than `limit`; -1: none. */
static int32_t lower_token(const bpe_vocabulary *v, const char *s, size_t from, size_t to, int32_t limit)
{
    const int32_t found = bpe_find(v, s + from, to - from);
    return found < limit ? found : -1;
}

/* Merges the bytes of a token by lower tokens until two parts are left. Returns the bytes of the first; 0: more
 * are. */
static size_t find_merge(const bpe_vocabulary *v, int32_t token)
{
    size_t n, ends[LONGEST_TOKEN + 1]; /* of part i: ends[i + 1] */
    int32_t both[LONGEST_TOKEN];       /* token of part i and the next */
    const char *s = bpe_bytes(v, token, &n);
    size_t count = n;
    for (size_t i = 0; i <= count; i++)
        ends[i] = i;
    for (size_t i = 0; i + 1 < count; i++)
        both[i] = lower_token(v, s, i, i + 2, token);
    while (count > 2) {
        size_t best = count;
        for (size_t i = 0; i + 1 < count; i++)
            if (both[i] >= 0 && (best == count || both[i] < both[best]))
                best = i;
        if (best == count)
            return 0;
        memmove(ends + best + 1, ends + best + 2, (count - best - 1) * sizeof *ends);
        memmove(both + best, both + best + 1, (count - best - 2) * sizeof *both);
        count--;
        if (best + 1 < count)
            both[best] = lower_token(v, s, ends[best], ends[best + 2], token);
        if (best > 0)
            both[best - 1] = lower_token(v, s, ends[best - 1], ends[best + 1], token);
    }
    return ends[1];
}

/* Adds all ways to merge a token of two, for one that lower tokens do not lead to. */
static scion_status add_all_merges(bpe_vocabulary *v, int32_t token, scion_error *err)
{
    size_t n;
    const size_t at = v->starts[token];
    bpe_bytes(v, token, &n);
    for (size_t i = 1; i < n; i++) {
        const int32_t left = bpe_find(v, v->bytes + at, i), right = bpe_find(v, v->bytes + at + i, n - i);
        if (left >= 0 && right >= 0)
            RETURN_IF_FAILED(bpe_add_merge(v, left, right, err));
    }
    return SCION_OK;
}

static scion_status add_merges(bpe_vocabulary *v, scion_error *err)
{
    for (int32_t i = 0; i < v->size; i++) {
        size_t n;
        const char *s = bpe_bytes(v, i, &n);
        if (n == 1 || v->added[i])
            continue;
        const size_t first = find_merge(v, i);
        const int32_t left = first > 0 ? bpe_find(v, s, first) : -1, right = bpe_find(v, s + first, n - first);
        if (left >= 0 && right >= 0)
            RETURN_IF_FAILED(bpe_add_merge(v, left, right, err));
        else if (first == 0)
            RETURN_IF_FAILED(add_all_merges(v, i, err));
    }
    return SCION_OK;
}

scion_status tokenizer_read_tiktoken(bpe_vocabulary *v, const char *bytes, size_t size, scion_error *err)
{
    list all = {.most = 2}; /* a line more than there are breaks, and one number may be left out */
    const char *pattern = bpe_gpt2_pattern;
    scion_status status = SCION_OK;
    for (size_t i = 0; i < size; i++)
        all.most += bytes[i] == '\n';
    if (!(all.of = calloc((size_t)all.most, sizeof *all.of)))
        TRY(no_memory(err));
    TRY(read_lines(&all, bytes, size, err));
    int32_t separator = all.size;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].tokens == all.count) {
            separator = known[i].separator;
            pattern = known[i].pattern;
        }
    TRY(add_lines(v, &all, separator, err));
    TRY(bpe_add_pattern(v, pattern, err));
    TRY(add_merges(v, err));
done:
    free(all.of);
    return status;
}

/* ---- Paths ----------------------------------------------------------------------------------------------- */

enum { LARGEST_FILE = 1 << 28 }; /* bytes */

/* Reads a whole file, which the caller frees. */
static scion_status read_file(const char *path, char **bytes, size_t *size, scion_error *err)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    scion_status status = SCION_OK;
    *size = 0;
    *bytes = NULL;
    if (file < 0 || fstat(file, &about) != 0)
        TRY(train_fail(err, SCION_EINVAL, "cannot open: %s", strerror(errno)));
    if (!S_ISREG(about.st_mode))
        TRY(train_fail(err, SCION_EINVAL, "not a file"));
    if (about.st_size > LARGEST_FILE)
        TRY(train_fail(err, SCION_EINVAL, "too large for a tokenizer"));
    if (!(*bytes = malloc((size_t)about.st_size + 1)))
        TRY(no_memory(err));
    for (ssize_t got = 1; got > 0 && *size < (size_t)about.st_size; *size += (size_t)got) {
        got = read(file, *bytes + *size, (size_t)about.st_size - *size);
        if (got < 0)
            TRY(train_fail(err, SCION_EINVAL, "cannot read: %s", strerror(errno)));
    }
done:
    if (file >= 0)
        close(file);
    return status;
}

/* Puts the path before the sentence of an error. */
static scion_status in_file(const char *path, scion_status status, scion_error *err)
{
    scion_error sentence;
    if (status != SCION_OK && err) {
        sentence = *err;
        train_fail(err, status, "%s: %s", path_end(path), sentence.message);
    }
    return status;
}

static scion_status open_file(tokenizer **out, const char *path, scion_error *err)
{
    char *bytes = NULL, *characters = NULL;
    void *json = NULL;
    size_t size, character_bytes;
    bpe_vocabulary v;
    scion_status status;
    bpe_vocabulary_init(&v);
    TRY(read_file(path, &bytes, &size, err));
    if (size == 0)
        TRY(train_fail(err, SCION_EINVAL, "the file is empty"));
    if (bytes[0] == '{') {
        TRY(tokenizer_json_read_symbols(bytes, size, &characters, &character_bytes, err));
        status = characters ? tokenizer_open(out, "chars", characters, character_bytes, err)
                            : tokenizer_open(out, "bpe", bytes, size, err);
    } else {
        TRY(tokenizer_read_tiktoken(&v, bytes, size, err));
        TRY(tokenizer_json_write(&v, &json, &size, err));
        status = tokenizer_open(out, "bpe", json, size, err);
    }
done:
    bpe_vocabulary_free(&v);
    free(bytes);
    free(characters);
    free(json);
    return in_file(path, status, err);
}

/* Opens the file with the numbers of tokens and the file with merges. */
static scion_status open_pair(tokenizer **out, const char *encoder, const char *merges, scion_error *err)
{
    char *tokens = NULL, *lines = NULL;
    void *json = NULL;
    size_t size, line_size;
    scion_status status = in_file(encoder, read_file(encoder, &tokens, &size, err), err);
    if (status == SCION_OK)
        status = in_file(merges, read_file(merges, &lines, &line_size, err), err);
    if (status == SCION_OK)
        status = in_file(encoder, tokenizer_json_join(tokens, size, lines, line_size, &json, &size, err), err);
    if (status == SCION_OK)
        status = in_file(encoder, tokenizer_open(out, "bpe", json, size, err), err);
    free(tokens);
    free(lines);
    free(json);
    return status;
}

scion_status tokenizer_open_path(tokenizer **out, const char *path, scion_error *err)
{
    static const char *const pairs[][2] = {{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};
    char file[PATH_MAX], second[PATH_MAX];
    *out = NULL;
    if (!file_is_folder(path))
        return open_file(out, path, err);
    if ((size_t)snprintf(file, sizeof file, "%s/tokenizer.json", path) < sizeof file && file_exists(file))
        return open_file(out, file, err);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((size_t)snprintf(file, sizeof file, "%s/%s", path, pairs[i][0]) < sizeof file && file_exists(file) &&
            (size_t)snprintf(second, sizeof second, "%s/%s", path, pairs[i][1]) < sizeof second &&
            file_exists(second))
            return open_pair(out, file, second, err);
    return train_fail(err, SCION_EINVAL,
                      "%s: no tokenizer in this folder; expected tokenizer.json, or encoder.json and vocab.bpe, or "
                      "vocab.json and merges.txt",
                      path_end(path));
}
