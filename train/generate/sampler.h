/* Chooses the next token from logits. With w_i = e^(logit_i / temperature), and tokens ordered by w, the largest
 * first, equal ones by their number:
 *
 *     repetition  logits of tokens that the text has already are divided by it (multiplied, if negative)
 *     top_k       keeps the k first
 *     top_p       keeps as few of the first as have the share p of what is left together
 *     min_p       keeps those with at least p times the first one's w
 *
 * in this order; then one is drawn, each with a probability in proportion to its w, by a random number that is a
 * function of seed and number alone. Nothing is sorted: each of the three cuts, and the draw, is a selection, in time
 * proportional to the vocabulary. */
#ifndef TRAIN_GENERATE_SAMPLER_H
#define TRAIN_GENERATE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "scion.h"

typedef struct sampler_options {
    double temperature; /* 0: always the first token */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    double min_p;       /* 0: all */
    double repetition;  /* 1: no change */
} sampler_options;

typedef struct sampler sampler;

/* NULL: out of memory. */
sampler *sampler_create(const sampler_options *o, int64_t vocab);
void sampler_free(sampler *s);

/* Tokens that the text has, for `repetition`. */
void sampler_saw(sampler *s, int64_t count, const int32_t *tokens);
void sampler_forget(sampler *s);

/* A token; -1: the logits are not finite. */
int32_t sampler_draw(sampler *s, const float *logits, uint64_t seed, uint64_t number);

/* Tokens that the last call chose from, in no order; *kept: their number. For tests. */
const int32_t *sampler_kept(sampler *s, int64_t *kept);

#endif
