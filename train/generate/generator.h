/* Writing text: a recorded model continues sequences of tokens, and remembers the keys and values of every position.
 *
 *     generator *g;
 *     generator_create(&g, &model, SCION_F32, context, sequences, threads, &err);
 *     logits = generator_read(g, 0, count, prompt);                       a prompt, or a part of it
 *     for (;;) logits = generator_write(g, 1, &(int64_t){0}, &token);     a token more
 *
 * The network is the one that the model has recorded on its tape; its operators run in another form (step.h), so that
 * a token costs one pass over the weights. generator_write appends a token to each of several sequences for about
 * the price of one. Logits are those of the tape's forward pass to rounding, but that attention is float32 with
 * compute=bf16 too; their bits depend on the tokens of a sequence and on how they were passed to generator_read, not
 * on other sequences nor on the number of threads.
 *
 * A full context goes on with its second half: when a sequence has `context` tokens, the next one follows the last
 * context / 2 of them, which are read again from position 0; the others are forgotten. */
#ifndef TRAIN_GENERATE_GENERATOR_H
#define TRAIN_GENERATE_GENERATOR_H

#include "models/model.h"

typedef struct generator generator;

/* For up to `sequences` sequences of `context` positions, by up to `threads` threads. The model and its weights must
 * outlive it, and stay as they are; weights may be float32 or bfloat16. compute = SCION_BF16: products with weights
 * round both operands to bfloat16, as in training; float32 weights are rounded here, once, so that a token reads half
 * as much. Attention is float32. EINVAL: the model writes no text, err says why. */
scion_status generator_create(generator **out, const model *m, scion_dtype compute, int64_t context,
                              int64_t sequences, int threads, scion_error *err);
void generator_free(generator *g);

/* Appends `count` >= 1 tokens to a sequence. Returns the logits of the next token (as many as the range of the
 * model's tokens), valid until the next call. */
const float *generator_read(generator *g, int64_t sequence, int64_t count, const int32_t *tokens);
/* Appends tokens[i] to sequences[i], all different, i < count. Returns their logits, one row each. */
const float *generator_write(generator *g, int64_t count, const int64_t *sequences, const int32_t *tokens);

/* Makes `to` a copy of sequence `from`; forgets all tokens of a sequence. */
void generator_copy(generator *g, int64_t from, int64_t to);
void generator_clear(generator *g, int64_t sequence);

/* Tokens of a sequence that are remembered. */
int64_t generator_length(const generator *g, int64_t sequence);
/* Logits of a row. */
int64_t generator_vocab(const generator *g);
/* Bytes that a token reads: the weights, and the keys and values of `length` positions. */
double generator_bytes(const generator *g, int64_t length);

#endif
