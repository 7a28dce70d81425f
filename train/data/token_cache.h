/* A cache of tokenised texts: files HASH.bin in $XDG_CACHE_HOME/scion/tokens (~/.cache/scion/tokens). Each is a token
 * shard (tokens.c) that holds its key and checksum in the unused part of its header. Empty files *.lock are held by
 * processes that tokenise. The folder may be removed at any time. */
#ifndef TRAIN_DATA_TOKEN_CACHE_H
#define TRAIN_DATA_TOKEN_CACHE_H

#include "data/text_files.h"
#include "text/tokenizer.h"

/* Hash of the tokens that a tokenizer makes of texts: of their bytes, the bounds of documents, and the tokenizer. */
uint64_t token_cache_key(const data_texts *texts, const tokenizer *t);
/* Reads tokens of 2 or 4 bytes each into memory that the caller frees. False: not there, or damaged,
 * and *tokens is NULL. */
bool token_cache_read(uint64_t key, int width, void **tokens, int64_t *count);
/* Takes the right to make the tokens of a key. While another process on this machine has it, waits until that process
 * has kept its tokens, or has ended: ranks and workers that start together tokenise a text once. Then look into the
 * cache again. Negative: nothing was taken, and the caller goes on without it. */
int token_cache_claim(uint64_t key);
void token_cache_release(int claim); /* < 0: nothing to do */
/* Keeps tokens, if that is possible: a full disk, say, is no error. */
void token_cache_write(uint64_t key, int width, const void *tokens, int64_t count);

#endif
