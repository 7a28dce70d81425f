/* A kind of tokenizer: a file with a row, which tokenizer_rows.c lists. */
#ifndef TRAIN_TEXT_TOKENIZER_ROW_H
#define TRAIN_TEXT_TOKENIZER_ROW_H

#include <stdbool.h>

#include "text/tokenizer.h"

/* Functions as those of tokenizer.h, for one kind. */
typedef struct tokenizer_row {
    const char *name, *help;
    /* Learns and encodes as fast as a text is read: from any text in passing, and without a cache. */
    bool quick;
    const char *file;   /* name of the file that it is saved in beside token shards; NULL: tokenizer.NAME */
    size_t state_bytes; /* of t->state, which is zeroed and belongs to t */
    /* learn and open set t->size, t->separator and *t->state. Afterwards, failed or not, close is called once. */
    scion_status (*learn)(tokenizer *t, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                          scion_error *err); /* NULL: nothing to learn, open takes no bytes */
    scion_status (*open)(tokenizer *t, const void *bytes, size_t size, scion_error *err);
    scion_status (*save)(const tokenizer *t, void **bytes, size_t *size, scion_error *err);
    int64_t (*encode)(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad, scion_error *err);
    const char *(*decode)(const tokenizer *t, int32_t token, size_t *n); /* 0 <= token < t->size */
    const char *(*pattern)(const tokenizer *t, int i);                   /* NULL: none */
    size_t (*cut)(const tokenizer *t, const char *text, size_t n);       /* NULL: no such place is known */
    void (*close)(tokenizer *t);                                         /* NULL: nothing to free */
    scion_status (*json)(const tokenizer *t, void **bytes, size_t *size, scion_error *err);
    bool (*is_added)(const tokenizer *t, int32_t token);             /* 0 <= token < t->size; NULL: none is */
    bool (*merge)(const tokenizer *t, int64_t i, tokenizer_pair *p); /* NULL: there are none */
    const char *(*unlike_gpt2)(const tokenizer *t);                  /* NULL: it gives the same tokens */
} tokenizer_row;

struct tokenizer {
    const tokenizer_row *row;
    void *state;
    int64_t size;
    int32_t separator; /* -1 at first */
    const char *unit;  /* "tokens" at first */
    uint64_t hash;     /* set by tokenizer.c */
};

/* All rows, ended by NULL. A test may bring a table of its own. */
extern const tokenizer_row *const tokenizer_rows[];
const tokenizer_row *tokenizer_find_row(const char *name); /* NULL: none */

#endif
