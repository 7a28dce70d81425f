/* Characters as tokens: the code points of a UTF-8 text, or the bytes of any other text; a token is the rank of its
 * symbol.
 *
 * Saved, the vocabulary is a string of valid UTF-8: the symbols as code points, strictly ascending. Two special cases
 * are marked by doubled symbols at its start, which that order excludes:
 *     U+FFFD U+FFFD  the symbols are bytes, written as the code points of the same number
 *     U+FFFE U+FFFE  the symbol 0
 * Version 0.2 kept the same string in the metadata of checkpoints. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/utf8.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_row.h"

static const char mark_bytes[] = "\xef\xbf\xbd\xef\xbf\xbd", mark_zero[] = "\xef\xbf\xbe\xef\xbf\xbe";

typedef struct chars {
    bool utf8;
    int32_t *at;  /* for each symbol below `end`: 0: it is none; else 1 + its token */
    uint32_t end; /* 1 + the largest symbol */
    struct {
        char text[4];
        uint32_t length;
    } * symbols; /* for each token */
} chars;

/* Reads the symbol at s, a code point or a byte; returns its length, 0: not UTF-8. */
static int symbol_at(bool utf8, const char *s, size_t n, uint32_t *symbol)
{
    *symbol = (unsigned char)s[0];
    return utf8 ? utf8_decode(s, n, symbol) : 1;
}

/* ---- Vocabulary ---------------------------------------------------------------------------------------- */

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for the vocabulary");
}

static scion_status begin(chars *c, scion_error *err)
{
    c->at = calloc(UTF8_CODE_POINTS, sizeof *c->at);
    return c->at ? SCION_OK : no_memory(err);
}

static void add_symbol(chars *c, uint32_t symbol)
{
    c->at[symbol] = 1;
    c->end = symbol >= c->end ? symbol + 1 : c->end;
}

/* Numbers the symbols. */
static scion_status finish(tokenizer *t, scion_error *err)
{
    chars *c = t->state;
    int32_t count = 0;
    for (uint32_t symbol = 0; symbol < c->end; symbol++)
        if (c->at[symbol])
            c->at[symbol] = ++count;
    c->symbols = calloc((size_t)count, sizeof *c->symbols);
    int32_t *at = realloc(c->at, c->end * sizeof *at);
    if (at)
        c->at = at;
    if (!c->symbols || !at)
        return no_memory(err);
    for (uint32_t symbol = 0; symbol < c->end; symbol++)
        if (c->at[symbol]) {
            char *text = c->symbols[c->at[symbol] - 1].text;
            text[0] = (char)symbol;
            c->symbols[c->at[symbol] - 1].length = c->utf8 ? (uint32_t)utf8_encode(symbol, text) : 1;
        }
    t->size = count;
    t->unit = c->utf8 ? "characters" : "bytes";
    return SCION_OK;
}

static scion_status learn_chars(tokenizer *t, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                                scion_error *err)
{
    chars *c = t->state;
    (void)o;
    RETURN_IF_FAILED(begin(c, err));
    c->utf8 = true;
    for (int64_t i = 0; i < count; i++)
        c->utf8 = c->utf8 && utf8_bytes(texts[i].bytes, texts[i].count) == texts[i].count;
    for (int64_t i = 0; i < count; i++)
        for (size_t k = 0; k < texts[i].count;) {
            uint32_t symbol;
            k += (size_t)symbol_at(c->utf8, texts[i].bytes + k, texts[i].count - k, &symbol);
            add_symbol(c, symbol);
        }
    if (c->end == 0)
        return train_fail(err, SCION_EINVAL, "there are no characters to learn: the text is empty");
    return finish(t, err);
}

/* Steps over a mark at *at; false: it is not there. */
static bool take_mark(const char *text, size_t n, size_t *at, const char *mark)
{
    const size_t length = strlen(mark);
    const bool found = n - *at >= length && memcmp(text + *at, mark, length) == 0;
    *at += found ? length : 0;
    return found;
}

static scion_status open_chars(tokenizer *t, const void *bytes, size_t size, scion_error *err)
{
    chars *c = t->state;
    const char *text = size > 0 ? bytes : "";
    size_t i = 0;
    uint32_t before = 0;
    RETURN_IF_FAILED(begin(c, err));
    c->utf8 = !take_mark(text, size, &i, mark_bytes);
    if (take_mark(text, size, &i, mark_zero))
        add_symbol(c, 0);
    const uint32_t end = c->utf8 ? UTF8_CODE_POINTS : 256;
    for (int length; i < size; i += (size_t)length) {
        uint32_t code = 0;
        length = utf8_decode(text + i, size - i, &code);
        if (length == 0 || code <= before || code >= end)
            return train_fail(err, SCION_ESTATE, "the vocabulary of characters is damaged: %s at byte %zu",
                              length == 0 ? "not UTF-8" : "symbols out of order", i);
        add_symbol(c, code);
        before = code;
    }
    if (c->end == 0)
        return train_fail(err, SCION_ESTATE, "the vocabulary of characters is empty");
    return finish(t, err);
}

static scion_status save_chars(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    const chars *c = t->state;
    char *text = malloc((size_t)t->size * 4 + sizeof mark_bytes + sizeof mark_zero), *out = text;
    if (!text)
        return no_memory(err);
    if (!c->utf8)
        out = stpcpy(out, mark_bytes);
    if (c->at[0])
        out = stpcpy(out, mark_zero);
    for (uint32_t symbol = 1; symbol < c->end; symbol++)
        out += c->at[symbol] ? utf8_encode(symbol, out) : 0;
    *bytes = text;
    *size = (size_t)(out - text);
    return SCION_OK;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* A symbol in words: the character "z" (U+007A), the character U+0009, the byte 0xE4. */
static const char *name_symbol(bool character, uint32_t symbol, char text[40])
{
    char bytes[5] = "";
    const bool printable = symbol >= ' ' && !(symbol >= 0x7f && symbol < 0xa0) && (character || symbol < 0x7f);
    if (printable)
        bytes[utf8_encode(symbol, bytes)] = '\0';
    if (printable && character)
        snprintf(text, 40, "the character \"%s\" (U+%04X)", bytes, (unsigned)symbol);
    else if (printable)
        snprintf(text, 40, "the character \"%s\"", bytes);
    else
        snprintf(text, 40, character ? "the character U+%04X" : "the byte 0x%02X", (unsigned)symbol);
    return text;
}

static int64_t encode_chars(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad,
                            scion_error *err)
{
    const chars *c = t->state;
    int64_t count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t symbol;
        char name[40];
        const int length = symbol_at(c->utf8, text + i, n - i, &symbol);
        if (length > 0 && symbol < c->end && c->at[symbol]) {
            tokens[count++] = c->at[symbol] - 1;
            i += (size_t)length;
            continue;
        }
        *bad = i;
        if (length == 0)
            train_fail(err, SCION_EINVAL, "%s is not UTF-8, but the vocabulary is",
                       name_symbol(false, (unsigned char)text[i], name));
        else
            train_fail(err, SCION_EINVAL, "%s is not in the vocabulary", name_symbol(c->utf8, symbol, name));
        return count;
    }
    return count;
}

static const char *decode_chars(const tokenizer *t, int32_t token, size_t *n)
{
    const chars *c = t->state;
    *n = c->symbols[token].length;
    return c->symbols[token].text;
}

/* Between characters: before the first byte that does not continue one. */
static size_t cut_chars(const tokenizer *t, const char *text, size_t n)
{
    const chars *c = t->state;
    while (c->utf8 && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static scion_status json_of_chars(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    return tokenizer_json_write_symbols(t, ((const chars *)t->state)->utf8, bytes, size, err);
}

/* Pairs that join the bytes of a character, from its first byte on: at most three of each. Characters are ascending,
 * so that one with the same first bytes stands directly before. */
static bool merge_of_chars(const tokenizer *t, int64_t i, tokenizer_pair *p)
{
    const chars *c = t->state;
    const int64_t k = i / 3;
    const uint32_t n = 1 + (uint32_t)(i % 3);
    if (k >= t->size)
        return false;
    const char *text = c->symbols[k].text;
    const bool known = k > 0 && c->symbols[k - 1].length > n && memcmp(c->symbols[k - 1].text, text, n + 1) == 0;
    *p = (tokenizer_pair){.left = text, .right = text + n};
    if (c->symbols[k].length > n && !known)
        p->left_bytes = n, p->right_bytes = 1;
    return true;
}

static void close_chars(tokenizer *t)
{
    chars *c = t->state;
    free(c->at);
    free(c->symbols);
}

const tokenizer_row tokenizer_chars = {
    .name = "chars",
    .help = "every character of the text is a token; of a text that is not UTF-8, every byte",
    .quick = true,
    .state_bytes = sizeof(chars),
    .learn = learn_chars,
    .open = open_chars,
    .save = save_chars,
    .encode = encode_chars,
    .decode = decode_chars,
    .cut = cut_chars,
    .close = close_chars,
    .json = json_of_chars,
    .merge = merge_of_chars,
};
