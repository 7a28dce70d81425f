/* Tokenizers by name, and those of checkpoints. */
#ifndef TRAIN_RECORD_RUN_TOKENIZER_H
#define TRAIN_RECORD_RUN_TOKENIZER_H

#include "data/data.h"
#include "record/checkpoint.h"

/* The tokenizer that a checkpoint has, as long as it is open. Up to 0.2, characters alone, in the metadata. */
data_vocabulary run_vocabulary(const checkpoint *file);

/* Opens a tokenizer by its name: a kind that need not learn (bytes), gpt2 (what `scion data get gpt2-bpe` brought), a
 * run or a checkpoint, or what tokenizer_open_path takes. On an error *out is NULL. */
scion_status run_tokenizer_open(tokenizer **out, const char *name, scion_error *err);

#endif
