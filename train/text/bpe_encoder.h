/* Encodes text by a vocabulary of byte pairs. */
#ifndef TRAIN_TEXT_BPE_ENCODER_H
#define TRAIN_TEXT_BPE_ENCODER_H

#include "text/bpe_vocabulary.h"

typedef struct bpe_encoder bpe_encoder;

/* The vocabulary must outlive the encoder. Refuses one in which a byte has no token. */
scion_status bpe_encoder_create(bpe_encoder **out, const bpe_vocabulary *v, scion_error *err);
void bpe_encoder_free(bpe_encoder *e);
/* As tokenizer_encode. *steps (may be NULL): bytes and pairs that were looked at, a measure of work that does not
 * depend on the machine. */
int64_t bpe_encode(const bpe_encoder *e, const char *text, size_t n, int32_t *tokens, size_t *bad, int64_t *steps,
                   scion_error *err);

#endif
