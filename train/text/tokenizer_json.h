/* tokenizer.json, the file of Hugging Face's tokenizers, for vocabularies of byte pairs. docs/tokenizers.md says
 * which of them are taken. */
#ifndef TRAIN_TEXT_TOKENIZER_JSON_H
#define TRAIN_TEXT_TOKENIZER_JSON_H

#include "text/bpe_vocabulary.h"
#include "text/tokenizer.h"

/* Reads one into an empty vocabulary, which the caller frees in any case. */
scion_status tokenizer_json_read(bpe_vocabulary *v, const void *bytes, size_t size, scion_error *err);
/* The caller frees *bytes. */
scion_status tokenizer_json_write(const bpe_vocabulary *v, void **bytes, size_t *size, scion_error *err);
/* The same for a tokenizer whose tokens are characters (utf8), found one by one, or single bytes. A text with another
 * character is refused by readers of the first, as it is here; EINVAL: it has the character U+0000. */
scion_status tokenizer_json_write_symbols(const tokenizer *t, bool utf8, void **bytes, size_t *size,
                                          scion_error *err);
/* The reverse for characters: *text (free it) becomes the bytes of a saved tokenizer `chars`, in *size; NULL: the
 * file is not one of characters. EINVAL: it is, but its characters are not numbered by their code points from 0 on.
 * */
scion_status tokenizer_json_read_symbols(const void *bytes, size_t size, char **text, size_t *text_size,
                                         scion_error *err);
/* Joins encoder.json, which has the numbers of all tokens, and vocab.bpe, which has a merge in each line, to a
 * tokenizer.json with GPT-2's pattern. */
scion_status tokenizer_json_join(const char *encoder, size_t encoder_size, const char *merges, size_t merges_size,
                                 void **bytes, size_t *size, scion_error *err);

#endif
