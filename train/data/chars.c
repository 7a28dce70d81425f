/* Text by characters. Symbols are the code points of a UTF-8 text, or the bytes of any other text; a token is the
 * rank of its symbol. A model's vocabulary fixes them; sampling opens one without a text. A text is a file or a
 * folder of files (text_files.c); its end or another text is for validation.
 *
 * The vocabulary is a string of valid UTF-8, since a checkpoint keeps it in JSON: the symbols as code points,
 * strictly ascending. Two special cases are marked by doubled symbols at its start, which that order excludes:
 *     U+FFFD U+FFFD  the symbols are bytes, written as the code points of the same number
 *     U+FFFE U+FFFE  the symbol 0, which a string cannot hold */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/path.h"
#include "util/utf8.h"
#include "data/paths.h"
#include "data/text.h"
#include "data/text_files.h"

static const char mark_bytes[] = "\xef\xbf\xbd\xef\xbf\xbd", mark_zero[] = "\xef\xbf\xbe\xef\xbf\xbe";

typedef struct chars {
    data_text text;
    uint32_t *symbols; /* code points (or bytes) in order */
    bool utf8;
} chars;

typedef struct chars_options {
    bool skip_unknown;
    char field[OPTION_TEXT];
} chars_options;

static const option options[] = {
    OPTION_BOOL_ROW(chars_options, skip_unknown, "skip_unknown", "no",
                    "leave out characters that are not in the vocabulary, instead of refusing the text",
                    .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_STRING_ROW(chars_options, field, "field", "text",
                      "JSON Lines (*.jsonl, *.ndjson): the field of a record that is its text; empty: read the lines "
                      "as they are",
                      .change = OPTION_ON_RESUME | OPTION_ON_EVAL),
    OPTION_END,
};

/* Reads the symbol at s, a code point or a byte; returns its length, 0: not UTF-8. */
static int symbol_at(bool utf8, const uint8_t *s, size_t n, uint32_t *symbol)
{
    *symbol = s[0];
    return utf8 ? utf8_decode((const char *)s, n, symbol) : 1;
}

/* ---- Vocabulary ---------------------------------------------------------------------------------------- */

/* The set of symbols among all code points. */
typedef struct alphabet {
    int32_t *at;  /* 0: no symbol; else 1, and once they are counted, the symbol's token + 1 */
    uint32_t end; /* 1 + the largest symbol */
} alphabet;

static void add_symbol(alphabet *a, uint32_t symbol)
{
    a->at[symbol] = 1;
    a->end = symbol >= a->end ? symbol + 1 : a->end;
}

/* Numbers the tokens of an alphabet, makes its symbols those of d, and writes the vocabulary. */
static scion_status set_symbols(data_set *d, alphabet *a, scion_error *err)
{
    chars *t = d->state;
    int32_t count = 0;
    for (uint32_t c = 0; c < a->end; c++)
        if (a->at[c])
            a->at[c] = ++count;
    t->symbols = data_own(d, (size_t)count * sizeof *t->symbols, err);
    int32_t *bytes = data_own(d, (size_t)count * sizeof *bytes, err);
    char *out = data_own(d, (size_t)count * 4 + sizeof mark_bytes + sizeof mark_zero, err), text[4];
    if (!t->symbols || !bytes || !out)
        return SCION_ENOMEM;
    d->info.symbols = count;
    d->info.token_bytes = bytes;
    d->info.vocabulary = out;
    if (!t->utf8)
        out = stpcpy(out, mark_bytes);
    if (a->at[0])
        out = stpcpy(out, mark_zero);
    for (uint32_t c = 0; c < a->end; c++)
        if (a->at[c]) {
            t->symbols[a->at[c] - 1] = c;
            bytes[a->at[c] - 1] = t->utf8 ? utf8_encode(c, text) : 1;
            out += c > 0 ? utf8_encode(c, out) : 0;
        }
    return SCION_OK;
}

/* Steps over a mark at the start of the text; false: it is not there. */
static bool take_mark(const char **text, const char *mark)
{
    const bool found = strncmp(*text, mark, strlen(mark)) == 0;
    *text += found ? strlen(mark) : 0;
    return found;
}

static scion_status read_vocabulary(const char *text, bool *utf8, alphabet *a, scion_error *err)
{
    *utf8 = !take_mark(&text, mark_bytes);
    if (take_mark(&text, mark_zero))
        add_symbol(a, 0);
    const size_t n = strlen(text);
    const uint32_t end = *utf8 ? UTF8_CODE_POINTS : 256;
    uint32_t before = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        int length = utf8_decode(text + i, n - i, &code);
        if (length == 0 || code <= before || code >= end)
            return train_fail(err, SCION_ESTATE, "the model's vocabulary is damaged: %s at byte %zu",
                              length == 0 ? "not UTF-8" : "symbols out of order", i);
        add_symbol(a, code);
        before = code;
        i += (size_t)length;
    }
    if (a->end == 0)
        return train_fail(err, SCION_ESTATE, "the model's vocabulary is empty");
    return SCION_OK;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Rank of a symbol, -1: it is none. */
static int64_t token_of(const data_set *d, uint32_t symbol)
{
    const chars *t = d->state;
    const uint32_t *found = bsearch(&symbol, t->symbols, (size_t)d->info.symbols, sizeof symbol, ascending);
    return found ? found - t->symbols : -1;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

enum { symbol_text = 40 };

/* A symbol in words, for errors: the character "z" (U+007A), the character U+0009, the byte 0xE4. */
static const char *name_symbol(bool character, uint32_t symbol, char text[symbol_text])
{
    char bytes[5] = "";
    const bool printable = symbol >= ' ' && !(symbol >= 0x7f && symbol < 0xa0) && (character || symbol < 0x7f);
    if (printable)
        bytes[utf8_encode(symbol, bytes)] = '\0';
    if (printable && character)
        snprintf(text, symbol_text, "the character \"%s\" (U+%04X)", bytes, (unsigned)symbol);
    else if (printable)
        snprintf(text, symbol_text, "the character \"%s\"", bytes);
    else
        snprintf(text, symbol_text, character ? "the character U+%04X" : "the byte 0x%02X", (unsigned)symbol);
    return text;
}

/* Refuses a symbol that is not in the vocabulary (length 0: bytes that are not UTF-8). */
static scion_status refuse_symbol(const data_set *d, const data_texts *texts, size_t at, int length, uint32_t symbol,
                                  bool learned, scion_error *err)
{
    const chars *t = d->state;
    const char *owner = learned ? "model's vocabulary" : "training text";
    char name[symbol_text];
    int64_t line;
    size_t byte;
    const char *path = data_text_place(texts, at, &line, &byte);
    if (length == 0)
        return data_fail(err, SCION_EINVAL, path, "line %lld is not UTF-8, but the %s is", (long long)line, owner);
    return data_fail(err, SCION_EINVAL, path,
                     "line %lld has %s, which is not in the %s; skip_unknown=yes leaves such characters out",
                     (long long)line, name_symbol(t->utf8, symbol, name), owner);
}

/* Encodes the texts; d owns the tokens. learned: the vocabulary is a model's. */
static scion_status tokenise(data_set *d, const data_texts *texts, const alphabet *a, bool learned,
                             data_segment *tokens, scion_error *err)
{
    const chars *t = d->state;
    const bool skip = ((const chars_options *)data_own_options(d))->skip_unknown;
    const int width = data_token_width(d->info.symbols);
    void *to = data_own(d, texts->count * (size_t)width, err);
    int64_t count = 0;
    if (!to)
        return SCION_ENOMEM;
    for (size_t i = 0; i < texts->count;) {
        uint32_t symbol;
        const int length = symbol_at(t->utf8, texts->bytes + i, texts->count - i, &symbol);
        if (length > 0 && a->at[symbol])
            data_put_token(to, width, count++, (uint32_t)(a->at[symbol] - 1));
        else if (skip)
            d->info.skipped++;
        else
            return refuse_symbol(d, texts, i, length, symbol, learned, err);
        i += length > 0 ? (size_t)length : 1;
    }
    data_hash(d, texts->bytes, texts->count);
    *tokens = (data_segment){.tokens = to, .width = width, .count = count};
    return SCION_OK;
}

/* Takes the symbols from the model's vocabulary if there is one, else from the text. */
static scion_status choose_symbols(data_set *d, const char *vocabulary, const data_texts *texts, alphabet *a,
                                   scion_error *err)
{
    chars *t = d->state;
    if (vocabulary)
        return read_vocabulary(vocabulary, &t->utf8, a, err);
    const size_t good = utf8_bytes((const char *)texts->bytes, texts->count);
    t->utf8 = good == texts->count;
    for (size_t i = 0; i < texts->count;) {
        uint32_t symbol;
        i += (size_t)symbol_at(t->utf8, texts->bytes + i, texts->count - i, &symbol);
        add_symbol(a, symbol);
    }
    if (!t->utf8) {
        int64_t line;
        size_t byte;
        const char *path = data_text_place(texts, good, &line, &byte);
        snprintf(d->info.note, sizeof d->info.note,
                 "%s is not UTF-8 (line %lld, byte %zu): taken as bytes, not characters", path_tail(path, 60),
                 (long long)line, byte);
    }
    return SCION_OK;
}

/* Writes "corpus, 12 texts, 1115394 characters of 65 kinds, the last 111539 for validation". */
static void describe(data_set *d, const data_texts *texts, const data_texts *val)
{
    const chars *t = d->state;
    const data_stream *streams = t->text.streams;
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
        t->utf8 ? "characters" : "bytes", (long long)d->info.symbols, kinds, end);
    if (val->count > 0 && !d->whole)
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s", path_tail(d->options.val, 90));
    else
        data_describe_split(d, path_tail(d->options.path, 90));
    char *note = d->info.note;
    const size_t bytes = sizeof d->info.note;
    const int64_t utf16 = texts->utf16 + val->utf16, others = texts->others + val->others;
    if (utf16 > 0)
        utf8_append(note, bytes, "%sUTF-16 was read as characters (%lld file%s)", note[0] ? "; " : "",
                    (long long)utf16, utf16 == 1 ? "" : "s");
    if (texts->json > 0 && texts->file_count == 1)
        utf8_append(note, bytes,
                    "%slooks like JSON Lines: learned as it is; named *.jsonl, its records would be read",
                    note[0] ? "; " : "");
    else if (texts->json > 0)
        utf8_append(note, bytes,
                    "%s%lld of %lld texts look%s like JSON Lines, but %s not named *.jsonl: learned as "
                    "they are",
                    note[0] ? "; " : "", (long long)texts->json, (long long)texts->file_count,
                    texts->json == 1 ? "s" : "", texts->json == 1 ? "is" : "are");
    if (others > 0)
        utf8_append(note, bytes, "%sleft out: %lld file%s no text", note[0] ? "; " : "", (long long)others,
                    others == 1 ? " that is" : "s that are");
    if (d->info.skipped > 0)
        utf8_append(note, bytes, "%sskipped: %lld %s that are not in the vocabulary", note[0] ? "; " : "",
                    (long long)d->info.skipped, t->utf8 ? "characters" : "bytes");
}

/* Divides the texts into parts: validation is the end of the first text, or the second. */
static scion_status take_texts(data_set *d, const data_texts *texts, const data_texts *val, const alphabet *a,
                               bool learned, scion_error *err)
{
    data_segment tokens, held;
    RETURN_IF_FAILED(tokenise(d, texts, a, learned, &tokens, err));
    if (val->count == 0) {
        RETURN_IF_FAILED(data_split(d, &tokens, err));
    } else {
        RETURN_IF_FAILED(tokenise(d, val, a, learned, &held, err));
        RETURN_IF_FAILED(data_add_segment(d, DATA_TRAIN, &tokens, err));
        RETURN_IF_FAILED(data_add_segment(d, DATA_VAL, &held, err));
    }
    describe(d, texts, val);
    return SCION_OK;
}

static scion_status open_chars(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const char *vocabulary = context->vocabulary, *held = d->whole ? "" : o->val;
    /* The byte order mark of UTF-8 is no symbol, unless a model learned it as one. */
    const bool keep_mark = vocabulary && strstr(vocabulary, "\xef\xbb\xbf");
    const data_reading how = {held, ((const chars_options *)data_own_options(d))->field, keep_mark};
    data_texts texts = {.bytes = NULL}, val = {.bytes = NULL};
    alphabet a = {.at = calloc(UTF8_CODE_POINTS, sizeof *a.at)};
    const chars *t = d->state;
    scion_status status = SCION_OK;
    if (!a.at)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the data"));
    if (o->path[0])
        TRY(data_read_texts(&texts, o->path, &how, err));
    if (o->path[0] && held[0])
        TRY(data_read_texts(&val, held, &(data_reading){NULL, how.field, keep_mark}, err));
    TRY(choose_symbols(d, vocabulary, &texts, &a, err));
    TRY(set_symbols(d, &a, err));
    if (o->path[0])
        TRY(take_texts(d, &texts, &val, &a, vocabulary != NULL, err));
    else
        snprintf(d->info.description, sizeof d->info.description, "no text, %lld kinds of %s",
                 (long long)d->info.symbols, t->utf8 ? "characters" : "bytes");
    status = data_text_ready(d, d->info.symbols, true, err);
done:
    data_free_texts(&texts);
    data_free_texts(&val);
    free(a.at);
    return status;
}

static int64_t encode_text(const data_set *d, const char *text, int32_t *tokens, int64_t max, scion_error *err)
{
    const chars *t = d->state;
    const size_t n = strlen(text);
    int64_t count = 0;
    for (size_t i = 0; i < n && count < max;) {
        uint32_t symbol;
        const int length = symbol_at(t->utf8, (const uint8_t *)text + i, n - i, &symbol);
        const int64_t token = length > 0 ? token_of(d, symbol) : -1;
        if (token < 0) {
            const bool character = t->utf8 && length > 0;
            char name[symbol_text];
            name_symbol(character, character ? symbol : (uint8_t)text[i], name);
            train_fail(err, SCION_EINVAL, "%s is not in the model's vocabulary (byte %zu of the text)", name, i + 1);
            return -1;
        }
        tokens[count++] = (int32_t)token;
        i += (size_t)length;
    }
    return count;
}

static int decode_token(const data_set *d, int32_t token, char text[DATA_TOKEN_TEXT])
{
    const chars *t = d->state;
    if (token < 0 || token >= d->info.symbols)
        return 0;
    text[0] = (char)t->symbols[token];
    const int length = t->utf8 ? utf8_encode(t->symbols[token], text) : 1;
    text[length] = '\0';
    return length;
}

const data_kind data_kind_chars = {
    .name = "chars",
    .help = "a text, by characters",
    .takes_val = true,
    .state_bytes = sizeof(chars),
    .open = open_chars,
    .encode = encode_text,
    .decode = decode_token,
    .options = options,
    .options_size = sizeof(chars_options),
};
