/* Text at the level of characters. Symbols are the code points of a UTF-8 text, or the bytes of any other file; a
 * token is the place of its symbol in their order. A model's vocabulary fixes them; it may stand alone, without a
 * text, for sampling.
 *
 * The vocabulary is a string of valid UTF-8, for it is kept in the JSON of a checkpoint: the symbols as code points,
 * strictly ascending. What that cannot say is said by doubled symbols at its start, which no such order has:
 *     U+FFFD U+FFFD  the symbols are bytes, written as the code points of the same number
 *     U+FFFE U+FFFE  the symbol 0, which a string cannot hold */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "data/data_kind.h"

enum { mark_bytes = 0xfffd, mark_zero = 0xfffe, mark_length = 3 };

typedef struct chars {
    data_text text;
    uint32_t *symbols; /* code points (or bytes) in order */
    char *vocabulary;
    bool utf8;
} chars;

static bool looks(const char *path)
{
    return !data_is_folder(path);
}

/* ---- UTF-8 --------------------------------------------------------------------------------------------- */

/* Bytes of s before the first that is no UTF-8: n if all are. */
static size_t utf8_bytes(const uint8_t *s, size_t n)
{
    size_t i = 0;
    uint32_t code;
    for (int length = 1; i < n && length > 0; i += (size_t)length)
        length = utf8_decode((const char *)s + i, n - i, &code);
    return i;
}

/* The symbol at s and its length: a code point (0: not UTF-8), or a byte. */
static int symbol_at(bool utf8, const uint8_t *s, size_t n, uint32_t *symbol)
{
    *symbol = s[0];
    return utf8 ? utf8_decode((const char *)s, n, symbol) : 1;
}

/* ---- Vocabulary ---------------------------------------------------------------------------------------- */

/* Which of all code points are symbols: first 1, then the symbol's token + 1; 0: it is none. */
typedef struct alphabet {
    int32_t *at;
    uint32_t end; /* 1 + the largest symbol */
} alphabet;

static void add_symbol(alphabet *a, uint32_t symbol)
{
    a->at[symbol] = 1;
    a->end = symbol >= a->end ? symbol + 1 : a->end;
}

/* Counts out the tokens of an alphabet, takes its symbols as those of d, and writes the vocabulary. */
static scion_status set_symbols(data_set *d, alphabet *a, scion_error *err)
{
    chars *t = d->state;
    int32_t count = 0;
    for (uint32_t c = 0; c < a->end; c++)
        if (a->at[c])
            a->at[c] = ++count;
    t->symbols = data_own(d, (size_t)count * sizeof *t->symbols, err);
    t->vocabulary = t->symbols ? data_own(d, (size_t)count * 4 + 4 * mark_length + 1, err) : NULL;
    if (!t->vocabulary)
        return SCION_ENOMEM;
    char *out = t->vocabulary;
    if (!t->utf8)
        for (int i = 0; i < 2; i++)
            out += utf8_encode(mark_bytes, out);
    if (a->at[0])
        for (int i = 0; i < 2; i++)
            out += utf8_encode(mark_zero, out);
    for (uint32_t c = 0; c < a->end; c++)
        if (a->at[c]) {
            t->symbols[a->at[c] - 1] = c;
            out += c > 0 ? utf8_encode(c, out) : 0;
        }
    d->info.symbols = count;
    d->info.vocabulary = t->vocabulary;
    return SCION_OK;
}

/* Is the code point doubled at the start of the text? Then steps over both. */
static bool take_mark(const char **text, uint32_t code)
{
    char mark[2 * mark_length];
    utf8_encode(code, mark);
    utf8_encode(code, mark + mark_length);
    const bool found = strncmp(*text, mark, sizeof mark) == 0;
    *text += found ? sizeof mark : 0;
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

/* Place of a symbol in the order, -1: none. */
static int64_t token_of(const data_set *d, uint32_t symbol)
{
    const chars *t = d->state;
    int64_t low = 0, high = d->info.symbols - 1;
    while (low <= high) {
        int64_t middle = (low + high) / 2;
        if (t->symbols[middle] == symbol)
            return middle;
        if (t->symbols[middle] < symbol)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

static void find_symbols(bool utf8, const uint8_t *text, size_t bytes, alphabet *a)
{
    for (size_t i = 0; i < bytes;) {
        uint32_t symbol;
        i += (size_t)symbol_at(utf8, text + i, bytes - i, &symbol);
        add_symbol(a, symbol);
    }
}

static int64_t line_of(const uint8_t *text, size_t place)
{
    int64_t line = 1;
    for (size_t i = 0; i < place; i++)
        line += text[i] == '\n';
    return line;
}

/* The text as tokens, in two parts. */
static scion_status read_text(data_set *d, const data_options *o, const uint8_t *text, size_t bytes,
                              const alphabet *a, scion_error *err)
{
    const chars *t = d->state;
    const int width = data_token_width(d->info.symbols);
    void *tokens = data_own(d, bytes * (size_t)width, err);
    int64_t count = 0;
    if (!tokens)
        return SCION_ENOMEM;
    for (size_t i = 0; i < bytes;) {
        uint32_t symbol;
        const int length = symbol_at(t->utf8, text + i, bytes - i, &symbol);
        if (!a->at[symbol])
            return data_fail(
                err, SCION_EINVAL, o->path, "line %lld has %s%04X, which is not in the model's vocabulary",
                (long long)line_of(text, i), t->utf8 ? "the character U+" : "the byte 0x", (unsigned)symbol);
        data_put_token(tokens, width, count++, (uint32_t)(a->at[symbol] - 1));
        i += (size_t)length;
    }
    scion_status status = data_split(d, tokens, width, count, err);
    snprintf(d->info.description, sizeof d->info.description,
             "%s, %lld %s of %lld kinds, the last %lld for validation", data_tail(o->path, 60), (long long)count,
             t->utf8 ? "characters" : "bytes", (long long)d->info.symbols,
             (long long)t->text.streams[DATA_VAL].total);
    return status;
}

/* Which symbols there are: those of the model's vocabulary if it is given, else those of the text. */
static scion_status choose_symbols(data_set *d, const char *vocabulary, const uint8_t *text, size_t bytes,
                                   alphabet *a, scion_error *err)
{
    chars *t = d->state;
    const size_t good = text ? utf8_bytes(text, bytes) : 0;
    if (!vocabulary) {
        t->utf8 = good == bytes;
        find_symbols(t->utf8, text, bytes, a);
        return SCION_OK;
    }
    scion_status status = read_vocabulary(vocabulary, &t->utf8, a, err);
    if (status == SCION_OK && t->utf8 && good < bytes)
        return data_fail(err, SCION_EINVAL, d->options.path,
                         "line %lld is not UTF-8, but the model's vocabulary is of characters",
                         (long long)line_of(text, good));
    return status;
}

static scion_status open_chars(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const uint8_t *text = NULL;
    size_t bytes = 0;
    scion_status status = SCION_OK;
    chars *t = d->state = data_own(d, sizeof *t, err);
    if (!t)
        return SCION_ENOMEM;
    if (o->path[0])
        status = data_map(d, o->path, &text, &bytes, err);
    else if (!context->vocabulary)
        status = train_fail(err, SCION_EINVAL, "no text is given");
    if (status != SCION_OK)
        return status;
    alphabet a = {calloc(UTF8_CODE_POINTS, sizeof *a.at), 0};
    if (!a.at)
        return train_fail(err, SCION_ENOMEM, "out of memory for the data");
    status = choose_symbols(d, context->vocabulary, text, bytes, &a, err);
    if (status == SCION_OK)
        status = set_symbols(d, &a, err);
    if (status == SCION_OK && text)
        status = read_text(d, o, text, bytes, &a, err);
    else if (status == SCION_OK)
        snprintf(d->info.description, sizeof d->info.description, "no text, %lld kinds of %s",
                 (long long)d->info.symbols, t->utf8 ? "characters" : "bytes");
    free(a.at);
    return status == SCION_OK ? data_text_ready(d, d->info.symbols, true, err) : status;
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
            const bool byte = !t->utf8 || length == 0, print = !byte && symbol >= ' ' && symbol != 0x7f;
            train_fail(err, SCION_EINVAL, "\"%.*s\" (%s%04X, at byte %zu) is not in the model's vocabulary",
                       print ? length : 0, text + i, byte ? "byte 0x" : "U+",
                       byte ? (uint8_t)text[i] : (unsigned)symbol, i);
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

static bool reads(const char *vocabulary)
{
    (void)vocabulary;
    return true;
}

const data_kind data_kind_chars = {
    .name = "chars",
    .help = "a text file, by characters",
    .looks = looks,
    .reads = reads,
    .open = open_chars,
    .encode = encode_text,
    .decode = decode_token,
};
