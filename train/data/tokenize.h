/* Texts to tokens, on all threads. */
#ifndef TRAIN_DATA_TOKENIZE_H
#define TRAIN_DATA_TOKENIZE_H

#include "data/text_files.h"
#include "text/tokenizer.h"

/* Takes tokens in the order of the text. `document` ends with them; -1: more of it follows. */
typedef scion_status data_take_tokens(void *ctx, const int32_t *tokens, int64_t count, int64_t document,
                                      scion_error *err);

/* How texts become tokens. A tokenizer with a separator puts it before each document, as the scripts of llm.c do. One
 * without puts nothing there, and takes the line breaks between records with them. */
typedef struct data_tokenizing {
    const tokenizer *tokenizer;
    int64_t first;     /* document to begin with */
    bool skip_unknown; /* leave out characters without a token, instead of refusing the text */
    int64_t *skipped;  /* counts these; may be NULL */
    /* Says how far the work is, 0 <= share <= 1; called by the calling thread. NULL: not wanted. */
    void (*progress)(void *ctx, double share);
    data_take_tokens *take;
    void *ctx; /* of both */
} data_tokenizing;

/* Encodes documents on all threads. An error names the file and the line. */
scion_status data_tokenize(const data_texts *texts, const data_tokenizing *how, scion_error *err);

#endif
