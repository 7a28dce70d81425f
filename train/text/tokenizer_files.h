/* Vocabularies from files other than tokenizer.json, for tokenizer_open_path and for tests. */
#ifndef TRAIN_TEXT_TOKENIZER_FILES_H
#define TRAIN_TEXT_TOKENIZER_FILES_H

#include "text/bpe_vocabulary.h"

/* Reads a tiktoken file into an empty vocabulary, which the caller frees in any case. */
scion_status tokenizer_read_tiktoken(bpe_vocabulary *v, const char *bytes, size_t size, scion_error *err);

#endif
