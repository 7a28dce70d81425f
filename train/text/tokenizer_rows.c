/* The table of tokenizers. A file of its own, so that tests can link another table. */
#include "text/tokenizer_row.h"

extern const tokenizer_row tokenizer_chars, tokenizer_bytes, tokenizer_bpe;

const tokenizer_row *const tokenizer_rows[] = {&tokenizer_chars, &tokenizer_bytes, &tokenizer_bpe, NULL};
