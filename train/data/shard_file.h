/* Token shards, the .bin files of llm.c and modded-nanogpt: their header, and the tokenizer beside them. */
#ifndef TRAIN_DATA_SHARD_FILE_H
#define TRAIN_DATA_SHARD_FILE_H

#include <stdint.h>

#include "text/tokenizer.h"

enum { SHARD_INTS = 256, SHARD_HEADER = 4 * SHARD_INTS };

typedef struct shard_form {
    int32_t magic, version;
    int width;     /* bytes of a token */
    int64_t vocab; /* where nothing else says it: GPT-2's padded to a multiple of 128, Llama 3's */
} shard_form;

/* The form of a file that begins so, and that with tokens of this width; NULL: none. */
const shard_form *shard_form_of(int32_t magic);
const shard_form *shard_form_wide(int width);
/* Writes a header: magic, version, number of tokens, zeros. */
void shard_header(int32_t head[SHARD_INTS], int width, int64_t count);

/* Opens the tokenizer in the folder of a shard (tokenizer.json, tokenizer.KIND); none: *out is NULL. */
scion_status shard_tokenizer_open(tokenizer **out, const char *shard, scion_error *err);
/* Writes it there. */
scion_status shard_tokenizer_save(const tokenizer *t, const char *shard, scion_error *err);

#endif
