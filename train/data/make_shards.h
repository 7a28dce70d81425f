/* Texts to token shards: `scion data tokenize`.
 *
 * Shards are tokens_val_000000.bin, tokens_train_000001.bin, ... in the folder `out`, with the tokenizer beside them.
 * The first documents are for validation. Each shard appears when it is whole; tokenize.json says how far the work is
 * and from which files, so that the same call goes on after it was killed. */
#ifndef TRAIN_DATA_MAKE_SHARDS_H
#define TRAIN_DATA_MAKE_SHARDS_H

#include "data/data.h"

typedef struct make_shards_options {
    const char *const *inputs; /* files and folders, as data_read_texts takes them */
    int input_count;
    const char *out, *field;
    const tokenizer *tokenizer;
    int64_t shard_tokens; /* of a shard but the last */
    int64_t val_tokens;   /* for validation, to the end of a document, but at most twice as many; < 0: a twentieth of
                             the files' bytes / 4, at most 10 million */
    void (*progress)(void *ctx, const char *what, double share); /* NULL: not wanted */
    void *ctx;
} make_shards_options;

typedef struct make_shards_result {
    int64_t shards, tokens[DATA_PARTS]; /* all, with those of earlier calls */
    int64_t found;                      /* shards of earlier calls */
    int64_t others;                     /* files that are no text */
} make_shards_result;

/* Refuses a folder with shards of other texts or settings, and files that change. */
scion_status make_shards(const make_shards_options *o, make_shards_result *result, scion_error *err);

#endif
