/* The vocabulary of a byte pair encoding: tokens, merges in their order, patterns that split a text into words.
 * Made by readers of files and by learning; the encoder is built from it. */
#ifndef TRAIN_TEXT_BPE_VOCABULARY_H
#define TRAIN_TEXT_BPE_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"
#include "text/bpe_split.h"

enum { BPE_MAX_TOKENS = 1 << 20 };

/* Two tokens that become one. Its bytes are theirs. */
typedef struct bpe_merge {
    int32_t left, right, result;
} bpe_merge;

typedef struct bpe_vocabulary {
    char *bytes;    /* of all tokens, one after the other */
    size_t *starts; /* size + 1 */
    bool *added;    /* stands for something that no text has: a separator, say */
    int32_t size;
    size_t longest; /* bytes of the longest token that is not added */
    bpe_merge *merges;
    int64_t merge_count;
    char *patterns[BPE_STAGES];
    int pattern_count;
    bool ignore_merges; /* a word that is a token becomes it, whatever its bytes would be merged to */
    int32_t separator;  /* -1: none */
    uint32_t *slots;    /* tokens by their bytes, open addressing; private */
    uint32_t slot_mask;
    size_t byte_capacity;
    int32_t capacity;
} bpe_vocabulary;

void bpe_vocabulary_init(bpe_vocabulary *v);
void bpe_vocabulary_free(bpe_vocabulary *v);

/* Appends a token, whose number is v->size. Refuses an empty one, one more than BPE_MAX_TOKENS, and one with bytes
 * that another has, unless it is added. */
scion_status bpe_add_token(bpe_vocabulary *v, const char *bytes, size_t n, bool added, scion_error *err);
/* Appends a merge of two tokens. Refuses it if no token has their bytes. */
scion_status bpe_add_merge(bpe_vocabulary *v, int32_t left, int32_t right, scion_error *err);
scion_status bpe_add_pattern(bpe_vocabulary *v, const char *pattern, scion_error *err);
/* Chooses the separator: the first token that is called as those of known vocabularies are. */
void bpe_choose_separator(bpe_vocabulary *v);

/* The token with these bytes that is not added; -1: none. */
int32_t bpe_find(const bpe_vocabulary *v, const char *bytes, size_t n);
static inline const char *bpe_bytes(const bpe_vocabulary *v, int32_t token, size_t *n)
{
    *n = v->starts[token + 1] - v->starts[token];
    return v->bytes + v->starts[token];
}

/* GPT-2 writes bytes as characters: those that can be printed as themselves, others as U+0100 and on.
 * bpe_byte_at: byte number i in the order of these characters, in which GPT-2 numbers its first tokens. */
uint8_t bpe_byte_at(int i);
/* Writes n bytes as such characters, at most 2 n bytes and a 0; returns the end. */
char *bpe_to_characters(const char *bytes, size_t n, char *out);
/* The reverse, at most n bytes; false: a character stands for no byte. */
bool bpe_from_characters(const char *text, size_t n, char *bytes, size_t *count);

#endif
