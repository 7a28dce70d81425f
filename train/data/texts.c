/* Text, as tokens of any tokenizer. A text is a file, a file of JSON Lines or a folder of them (text_files.c); its
 * end or another text is for validation. The tokenizer is a model's, or the option `tokenizer` names it; by default
 * the characters of the text are its tokens. Tokens that take time to make are kept in a cache (token_cache.c). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/path.h"
#include "util/utf8.h"
#include "data/paths.h"
#include "data/text.h"
#include "data/text_files.h"
#include "data/token_cache.h"
#include "data/tokenize.h"
#include "text/tokenizer_row.h"

typedef struct texts_options {
    bool skip_unknown, cache;
    char field[OPTION_TEXT];
} texts_options;

static const option options[] = {
    OPTION_BOOL_ROW(texts_options, skip_unknown, "skip_unknown", "no",
                    "leave out characters that are not in the vocabulary, instead of refusing the text",
                    .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_STRING_ROW(texts_options, field, "field", "text",
                      "JSON Lines (*.jsonl): field of a record that is its text; empty: lines as they are",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_BOOL_ROW(texts_options, cache, "token_cache", "yes",
                    "keep the tokens of a text in ~/.cache/scion/tokens for the next run, unless chars or bytes",
                    .neutral = true, .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_END,
};

/* ---- Tokens -------------------------------------------------------------------------------------------- */

/* Tokens as they come. */
typedef struct collected {
    void *tokens;
    int width;
    int64_t count, capacity;
} collected;

static scion_status collect(void *ctx, const int32_t *tokens, int64_t count, int64_t document, scion_error *err)
{
    collected *c = ctx;
    (void)document;
    if (c->count + count > c->capacity) {
        const int64_t capacity = c->count + count > 2 * c->capacity ? c->count + count : 2 * c->capacity;
        void *larger = realloc(c->tokens, (size_t)(capacity * c->width));
        if (!larger)
            return train_fail(err, SCION_ENOMEM, "out of memory for %lld tokens", (long long)capacity);
        c->tokens = larger;
        c->capacity = capacity;
    }
    for (int64_t i = 0; i < count; i++)
        data_put_token(c->tokens, c->width, c->count + i, (uint32_t)tokens[i]);
    c->count += count;
    return SCION_OK;
}

static void show_progress(void *ctx, double share)
{
    (void)ctx;
    data_progress("tokenising the text", share);
}

/* Encodes the texts, or takes the tokens from the cache. */
static scion_status tokenise(data_set *d, const data_texts *texts, collected *c, scion_error *err)
{
    const texts_options *o = data_own_options(d);
    const bool cached = o->cache && !tokenizer_find_row(tokenizer_name(d->tokenizer))->quick;
    const uint64_t key = cached ? token_cache_key(texts, d->tokenizer) : 0;
    const data_tokenizing how = {.tokenizer = d->tokenizer,
                                 .skip_unknown = o->skip_unknown,
                                 .skipped = &d->info.skipped,
                                 .progress = show_progress,
                                 .take = collect,
                                 .ctx = c};
    if (cached && c->width == 1)
        c->width = 2; /* a shard's tokens have at least 2 bytes */
    if (cached && token_cache_read(key, c->width, &c->tokens, &c->count))
        return SCION_OK;
    const int claim = cached ? token_cache_claim(key) : -1;
    scion_status status = SCION_OK;
    if (claim < 0 || !token_cache_read(key, c->width, &c->tokens, &c->count)) {
        status = data_tokenize(texts, &how, err);
        if (cached && status == SCION_OK)
            token_cache_write(key, c->width, c->tokens, c->count);
    }
    token_cache_release(claim);
    return status;
}

/* Makes the tokens of the texts d's own. */
static scion_status take_tokens(data_set *d, const data_texts *texts, data_segment *tokens, scion_error *err)
{
    collected c = {.width = data_token_width(d->info.symbols)};
    const scion_status status = tokenise(d, texts, &c, err);
    if (status != SCION_OK) {
        free(c.tokens);
        return status;
    }
    void *exact = realloc(c.tokens, (size_t)(c.count > 0 ? c.count * c.width : 1));
    exact = exact ? exact : c.tokens;
    data_hash(d, texts->bytes, texts->count);
    *tokens = (data_segment){.tokens = exact, .width = c.width, .count = c.count};
    return data_adopt(d, exact, (size_t)(c.count * c.width), err);
}

static void show_learning(void *ctx, const char *what, double share)
{
    (void)ctx;
    data_progress(what, share);
}

/* Bytes of the texts that a vocabulary is learned from: characters must all be known, those of validation too; byte
 * pairs are chosen by the training part alone. */
static size_t learned_bytes(const data_set *d, const tokenizer_row *row, const data_texts *texts)
{
    const bool split = !row->quick && !d->whole && !d->options.val[0];
    return split ? (size_t)((1 - d->options.val_fraction) * (double)texts->count) : texts->count;
}

/* Learns a tokenizer from the texts. */
static scion_status learn(data_set *d, const tokenizer_row *row, const data_texts *texts, scion_error *err)
{
    enum { usual_vocab = 4096 };
    const tokenizer_options how = {.vocab = d->options.vocab > 0 ? d->options.vocab : usual_vocab,
                                   .progress = show_learning};
    const size_t bytes = learned_bytes(d, row, texts);
    int64_t count = 0;
    tokenizer *t = NULL;
    tokenizer_text *all = malloc((size_t)texts->document_count * sizeof *all);
    scion_status status = SCION_OK;
    if (!all)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the data"));
    for (size_t start = 0; count < texts->document_count && start < bytes; count++) { /* with what is between them */
        const size_t next = count + 1 < texts->document_count ? texts->documents[count + 1].start : texts->count;
        all[count] = (tokenizer_text){(const char *)texts->bytes + start, (next < bytes ? next : bytes) - start};
        start = next;
    }
    TRY(tokenizer_learn(&t, row->name, all, count, &how, err));
    status = data_set_tokenizer(d, t, err);
    const size_t good = row->quick ? utf8_bytes((const char *)texts->bytes, texts->count) : texts->count;
    if (status == SCION_OK && good < texts->count) {
        int64_t line;
        size_t byte;
        const char *path = data_text_place(texts, good, &line, &byte);
        snprintf(d->info.note, sizeof d->info.note,
                 "%s is not UTF-8 (line %lld, byte %zu): taken as bytes, not characters", path_tail(path, 60),
                 (long long)line, byte);
    }
done:
    free(all);
    return status;
}

/* Finds the tokenizer, unless d has that of a model. */
static scion_status choose_tokenizer(data_set *d, const data_options *o, const data_context *context,
                                     const data_texts *texts, scion_error *err)
{
    const bool automatic = data_tokenizer_is_auto(o);
    const tokenizer_row *row = tokenizer_find_row(automatic ? "chars" : o->tokenizer);
    if (d->tokenizer || (automatic && !o->path[0]))
        return SCION_OK;
    if (row && row->learn && o->path[0])
        return learn(d, row, texts, err);
    return data_find_tokenizer(d, o->tokenizer, context, err);
}

/* ---- Description --------------------------------------------------------------------------------------- */

static void add_note(data_set *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_note(data_set *d, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    utf8_append(d->info.note, sizeof d->info.note, "%s%s", d->info.note[0] ? "; " : "", text);
}

static void describe_files(data_set *d, const data_texts *texts, const data_texts *val)
{
    const int64_t utf16 = texts->utf16 + val->utf16, others = texts->others + val->others;
    if (utf16 > 0)
        add_note(d, "UTF-16 was read as characters (%lld file%s)", (long long)utf16, utf16 == 1 ? "" : "s");
    if (texts->json > 0 && texts->file_count == 1)
        add_note(d, "looks like JSON Lines: learned as it is; named *.jsonl, its records would be read");
    else if (texts->json > 0)
        add_note(d, "%lld of %lld texts look%s like JSON Lines, but %s not named *.jsonl: learned as they are",
                 (long long)texts->json, (long long)texts->file_count, texts->json == 1 ? "s" : "",
                 texts->json == 1 ? "is" : "are");
    if (others > 0)
        add_note(d, "left out: %lld file%s no text", (long long)others, others == 1 ? " that is" : "s that are");
    if (d->info.skipped > 0)
        add_note(d, "skipped: %lld %s that are not in the vocabulary", (long long)d->info.skipped,
                 tokenizer_unit(d->tokenizer));
}

/* Writes "corpus, 12 texts, 1115394 characters of 65 kinds, the last 111539 for validation". */
static void describe(data_set *d, const data_texts *texts, const data_texts *val)
{
    const data_stream *streams = ((const data_text *)d->state)->streams;
    const char *path = path_tail(d->options.path, 60), *kinds = d->info.symbols == 1 ? "kind" : "kinds";
    char files[40] = "", end[100] = "";
    if (texts->document_count > 1)
        snprintf(files, sizeof files, " %lld %s,", (long long)texts->document_count,
                 texts->document_count > texts->file_count ? "documents" : "texts");
    if (val->count > 0)
        snprintf(end, sizeof end, "; %s, %lld for validation", path_tail(d->options.val, 40),
                 (long long)streams[DATA_VAL].total);
    else if (!d->whole)
        snprintf(end, sizeof end, ", the last %lld for validation", (long long)streams[DATA_VAL].total);
    snprintf(
        d->info.description, sizeof d->info.description, "%s,%s %lld %s of %lld %s%s", path, files,
        (long long)(val->count > 0 ? streams[DATA_TRAIN].total : streams[DATA_TRAIN].total + streams[DATA_VAL].total),
        tokenizer_unit(d->tokenizer), (long long)d->info.symbols, kinds, end);
    if (val->count > 0 && !d->whole)
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s", path_tail(d->options.val, 90));
    else
        data_describe_split(d, path_tail(d->options.path, 90));
    describe_files(d, texts, val);
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

/* Divides the texts into parts: validation is the end of the first text, or the second. */
static scion_status take_texts(data_set *d, const data_texts *texts, const data_texts *val, scion_error *err)
{
    data_segment tokens, held;
    RETURN_IF_FAILED(take_tokens(d, texts, &tokens, err));
    if (val->count == 0) {
        RETURN_IF_FAILED(data_split(d, &tokens, err));
    } else {
        RETURN_IF_FAILED(take_tokens(d, val, &held, err));
        RETURN_IF_FAILED(data_add_segment(d, DATA_TRAIN, &tokens, err));
        RETURN_IF_FAILED(data_add_segment(d, DATA_VAL, &held, err));
    }
    describe(d, texts, val);
    return SCION_OK;
}

/* True if the byte order mark of UTF-8, which is no symbol, is one all the same because a model learned it. */
static bool keeps_mark(const tokenizer *t)
{
    static const char mark[] = "\xef\xbb\xbf";
    int32_t tokens[3];
    size_t bad;
    const tokenizer_row *row = t ? tokenizer_find_row(tokenizer_name(t)) : NULL;
    return row && row->quick && row->learn && tokenizer_encode(t, mark, 3, tokens, &bad, NULL) == 1 && bad == 3;
}

static scion_status open_texts(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const texts_options *own = data_own_options(d);
    const data_reading how = {
        .except = d->whole ? "" : o->val, .field = own->field, .keep_mark = keeps_mark(d->tokenizer)};
    data_texts texts = {.bytes = NULL}, val = {.bytes = NULL};
    scion_status status = SCION_OK;
    if (o->path[0])
        TRY(data_read_texts(&texts, o->path, &how, err));
    if (o->path[0] && how.except[0])
        TRY(data_read_texts(&val, o->val, &(data_reading){.field = how.field, .keep_mark = how.keep_mark}, err));
    TRY(choose_tokenizer(d, o, context, &texts, err));
    if (o->path[0])
        TRY(take_texts(d, &texts, &val, err));
    else if (d->tokenizer)
        snprintf(d->info.description, sizeof d->info.description, "no text, %lld kinds of %s",
                 (long long)d->info.symbols, tokenizer_unit(d->tokenizer));
    status = data_text_ready(d, d->info.symbols, true, err);
done:
    data_free_texts(&texts);
    data_free_texts(&val);
    return status;
}

const data_kind data_kind_text = {
    .name = "text",
    .also = "chars",
    .help = "a text",
    .takes_val = true,
    .default_for_text = true,
    .state_bytes = sizeof(data_text),
    .open = open_texts,
    .options = options,
    .options_size = sizeof(texts_options),
};
