/* Learns a vocabulary of byte pairs. */
#ifndef TRAIN_TEXT_BPE_LEARN_H
#define TRAIN_TEXT_BPE_LEARN_H

#include "text/bpe_vocabulary.h"
#include "text/tokenizer.h"

enum { BPE_LEAST_TOKENS = 257 }; /* the bytes and the separator */

/* Fills an empty vocabulary, which the caller frees in any case: the 256 bytes, one token for each merge,
 * "<|endoftext|>". It has fewer tokens than o->vocab if no pair of tokens occurs twice any more. The number of
 * threads changes nothing. */
scion_status bpe_learn(bpe_vocabulary *v, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                       scion_error *err);

#endif
