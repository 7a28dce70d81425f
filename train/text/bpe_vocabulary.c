/* See bpe_vocabulary.h. */
#include "text/bpe_vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/utf8.h"

static const uint32_t no_token = UINT32_MAX;

void bpe_vocabulary_init(bpe_vocabulary *v)
{
    *v = (bpe_vocabulary){.separator = -1};
}

void bpe_vocabulary_free(bpe_vocabulary *v)
{
    for (int i = 0; i < v->pattern_count; i++)
        free(v->patterns[i]);
    free(v->bytes);
    free(v->starts);
    free(v->added);
    free(v->merges);
    free(v->slots);
    bpe_vocabulary_init(v);
}

/* ---- Tokens by their bytes ----------------------------------------------------------------------------- */

/* Slot of the token with these bytes, or the free one in which it belongs. */
static uint32_t *slot_of(const bpe_vocabulary *v, const char *bytes, size_t n)
{
    for (uint64_t h = XXH3_64bits(bytes, n);; h++) {
        uint32_t *slot = &v->slots[h & v->slot_mask];
        size_t length;
        if (*slot == no_token)
            return slot;
        const char *there = bpe_bytes(v, (int32_t)*slot, &length);
        if (length == n && memcmp(there, bytes, n) == 0)
            return slot;
    }
}

int32_t bpe_find(const bpe_vocabulary *v, const char *bytes, size_t n)
{
    const uint32_t found = v->slots && n > 0 ? *slot_of(v, bytes, n) : no_token;
    return found == no_token ? -1 : (int32_t)found;
}

/* Makes capacity for one more token with n bytes. */
static bool reserve(bpe_vocabulary *v, size_t n)
{
    const size_t used = v->size > 0 ? v->starts[v->size] : 0;
    if (used + n > v->byte_capacity) {
        const size_t capacity = 2 * (used + n) + 1024;
        char *bytes = realloc(v->bytes, capacity);
        if (!bytes)
            return false;
        v->bytes = bytes;
        v->byte_capacity = capacity;
    }
    if (v->size < v->capacity)
        return true;
    const size_t capacity = v->capacity > 0 ? 2 * (size_t)v->capacity : 1024, slots = 4 * capacity;
    size_t *starts = realloc(v->starts, (capacity + 1) * sizeof *starts);
    v->starts = starts ? starts : v->starts;
    bool *added = realloc(v->added, capacity * sizeof *added);
    v->added = added ? added : v->added;
    uint32_t *table = malloc(slots * sizeof *table);
    if (!starts || !added || !table) {
        free(table);
        return false;
    }
    free(v->slots);
    v->slots = table;
    v->slot_mask = (uint32_t)slots - 1;
    v->capacity = (int32_t)capacity;
    memset(table, 0xff, slots * sizeof *table);
    for (int32_t i = 0; i < v->size; i++) {
        size_t length;
        const char *bytes = bpe_bytes(v, i, &length);
        if (!v->added[i])
            *slot_of(v, bytes, length) = (uint32_t)i;
    }
    v->starts[0] = 0;
    return true;
}

/* A token's bytes for a message, as far as they fit. */
static const char *token_text(const char *bytes, size_t n, char text[64])
{
    snprintf(text, 64, "%.*s", (int)(n < 40 ? n : 40), bytes);
    utf8_make_printable(text);
    return text;
}

scion_status bpe_add_token(bpe_vocabulary *v, const char *bytes, size_t n, bool added, scion_error *err)
{
    char text[64];
    if (n == 0)
        return train_fail(err, SCION_EINVAL, "token %d is empty", (int)v->size);
    if (v->size == BPE_MAX_TOKENS)
        return train_fail(err, SCION_EINVAL, "the vocabulary has more than %d tokens", (int)BPE_MAX_TOKENS);
    if (!reserve(v, n))
        return train_fail(err, SCION_ENOMEM, "out of memory for the vocabulary");
    uint32_t *slot = added ? NULL : slot_of(v, bytes, n);
    if (slot && *slot != no_token)
        return train_fail(err, SCION_EINVAL, "tokens %u and %d are the same: \"%s\"", (unsigned)*slot, (int)v->size,
                          token_text(bytes, n, text));
    if (slot)
        *slot = (uint32_t)v->size;
    memcpy(v->bytes + v->starts[v->size], bytes, n);
    v->added[v->size] = added;
    v->starts[v->size + 1] = v->starts[v->size] + n;
    v->size++;
    if (!added && n > v->longest)
        v->longest = n;
    return SCION_OK;
}

scion_status bpe_add_merge(bpe_vocabulary *v, int32_t left, int32_t right, scion_error *err)
{
    char small[256], *both = small, first[64], second[64];
    size_t n, m;
    const char *a = bpe_bytes(v, left, &n), *b = bpe_bytes(v, right, &m);
    if (n + m > sizeof small && !(both = malloc(n + m)))
        return train_fail(err, SCION_ENOMEM, "out of memory for the vocabulary");
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    const int32_t result = bpe_find(v, both, n + m);
    if (both != small)
        free(both);
    if (result < 0)
        return train_fail(err, SCION_EINVAL,
                          "merge %lld is of \"%s\" and \"%s\", but no token of the vocabulary is both together",
                          (long long)v->merge_count + 1, token_text(a, n, first), token_text(b, m, second));
    bpe_merge *merge = array_append(&v->merges, &v->merge_count, sizeof *merge);
    if (!merge)
        return train_fail(err, SCION_ENOMEM, "out of memory for the vocabulary");
    *merge = (bpe_merge){left, right, result};
    return SCION_OK;
}

scion_status bpe_add_pattern(bpe_vocabulary *v, const char *pattern, scion_error *err)
{
    if (v->pattern_count == BPE_STAGES)
        return train_fail(err, SCION_EINVAL, "the text is split by more than %d patterns", (int)BPE_STAGES);
    if (!(v->patterns[v->pattern_count] = strdup(pattern)))
        return train_fail(err, SCION_ENOMEM, "out of memory for the patterns");
    v->pattern_count++;
    return SCION_OK;
}

void bpe_choose_separator(bpe_vocabulary *v)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int32_t i = v->size - 1; i >= 0; i--) {
            size_t n;
            const char *bytes = bpe_bytes(v, i, &n);
            if (n == strlen(names[k]) && memcmp(bytes, names[k], n) == 0) {
                v->separator = i;
                return;
            }
        }
}

/* ---- Bytes as characters ------------------------------------------------------------------------------- */

static bool prints_as_itself(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

uint8_t bpe_byte_at(int i)
{
    const int plain = 0x7e - 0x21 + 1 + 0xac - 0xa1 + 1 + 0xff - 0xae + 1;
    int left = i < plain ? i : i - plain, byte = 0;
    while (prints_as_itself(byte) != (i < plain) || left-- > 0)
        byte++;
    return (uint8_t)byte;
}

/* Others, 0 to 0x20, 0x7f to 0xa0 and 0xad, are U+0100 to U+0143 in their order. */
static uint32_t character_of(int byte)
{
    if (prints_as_itself(byte))
        return (uint32_t)byte;
    return (uint32_t)(byte <= 0x20 ? 0x100 + byte : byte <= 0xa0 ? 0x121 + byte - 0x7f : 0x143);
}

/* -1: the character stands for no byte. */
static int byte_of(uint32_t code)
{
    if (code < 0x100)
        return prints_as_itself((int)code) ? (int)code : -1;
    return code <= 0x120 ? (int)code - 0x100 : code <= 0x142 ? (int)code - 0x121 + 0x7f : code == 0x143 ? 0xad : -1;
}

char *bpe_to_characters(const char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        out += utf8_encode(character_of((uint8_t)bytes[i]), out);
    *out = '\0';
    return out;
}

bool bpe_from_characters(const char *text, size_t n, char *bytes, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int length = utf8_decode(text + i, n - i, &code);
        if (length == 0 || byte_of(code) < 0)
            return false;
        bytes[(*count)++] = (char)byte_of(code);
        i += (size_t)length;
    }
    return true;
}
