/* GPT one token at a time, with the keys and values of earlier positions kept: for sampling. */
#ifndef TRAIN_MODELS_GPT_DECODE_H
#define TRAIN_MODELS_GPT_DECODE_H

#include "models/gpt.h"
#include "tensor/tape.h"

typedef struct gpt_decoder gpt_decoder;

/* Reads its weights from the parameters of a recorded gpt (which must outlive it). NULL: out of memory. */
gpt_decoder *gpt_decoder_create(const gpt_options *o, const tape *t, int64_t block, int64_t vocab);
void gpt_decoder_free(gpt_decoder *d);

/* Appends a token; logits (vocab) of the next one, valid until the next call. When the context of `block` positions
 * is full, its second half is fed again from position 0 and the rest is forgotten. */
const float *gpt_decoder_step(gpt_decoder *d, int32_t token);

#endif
