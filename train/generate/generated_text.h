/* A text that grows token by token: bytes that are settled, and the end. A stop text ends it, and does not belong to
 * it; it may begin in one token and end in another. */
#ifndef TRAIN_GENERATE_GENERATED_TEXT_H
#define TRAIN_GENERATE_GENERATED_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct generated_text {
    char *bytes; /* ended by a zero byte; NULL as long as there are none */
    size_t length, capacity;
    size_t settled; /* bytes that no token to come can take back: they can be printed */
    bool stopped;   /* at a stop text; length is that of the text before it */
} generated_text;

/* Appends n bytes. stops: texts, ended by NULL, or NULL. False: out of memory. */
bool generated_text_add(generated_text *x, const char *bytes, size_t n, const char *const *stops);
/* No more will come: all bytes are settled. */
void generated_text_end(generated_text *x);
void generated_text_free(generated_text *x);

#endif
