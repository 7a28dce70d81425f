/* Splitting a text into words, before byte pairs are merged inside each: by GPT-2's pattern, by regular
 * expressions of a tokenizer.json, or by several of them, each of which splits the pieces of the one before.
 *
 * Bytes that are not UTF-8 count as characters that are neither letter, number nor space under GPT-2's pattern.
 * Under others, each run of them is a word of its own. */
#ifndef TRAIN_TEXT_BPE_SPLIT_H
#define TRAIN_TEXT_BPE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

enum { BPE_STAGES = 8 };

/* GPT-2's pattern, as a regular expression. Text that equals it is split by a scanner. */
extern const char bpe_gpt2_pattern[];
/* Length of the first word of a text, n > 0, by GPT-2's pattern. */
size_t bpe_gpt2_word(const uint8_t *text, size_t n);

typedef struct bpe_split bpe_split;

/* Text between two matches of a pattern is a word as well. At most BPE_STAGES patterns, which are copied; none: the
 * text is one word. */
scion_status bpe_split_create(bpe_split **out, const char *const *patterns, int count, scion_error *err);
void bpe_split_free(bpe_split *s);
/* Pattern i, from 0; NULL past the last. */
const char *bpe_split_pattern(const bpe_split *s, int i);

/* A walk over the words of a text. */
typedef struct bpe_walk {
    const bpe_split *split;
    const uint8_t *text;
    size_t n, at;                                /* bytes; end of the last word */
    size_t begins[BPE_STAGES], ends[BPE_STAGES]; /* of the piece of each stage */
    size_t valid_begin, valid_end;               /* of a run of UTF-8, or of bytes that are not */
    bool valid;
    void *match; /* memory of regular expressions */
} bpe_walk;

scion_status bpe_walk_begin(bpe_walk *w, const bpe_split *s, const char *text, size_t n, scion_error *err);
/* The lengths of the next words, at most `max`; *count is 0 at the end of the text. Or an error: a pattern that takes
 * too long. */
scion_status bpe_walk_next(bpe_walk *w, size_t *lengths, int max, int *count, scion_error *err);
void bpe_walk_end(bpe_walk *w);

#endif
