/* SHA-256 (FIPS 180-4): whether a file that came from elsewhere is the one that was meant. */
#ifndef TRAIN_UTIL_SHA256_H
#define TRAIN_UTIL_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "scion.h"

enum { SHA256_TEXT = 65 }; /* 64 hexadecimal digits and a 0 */

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;          /* so far */
    unsigned char block[64]; /* the bytes of a block that is not full yet */
} sha256;

void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const void *bytes, size_t n);
/* In small letters. */
void sha256_end(sha256 *s, char text[SHA256_TEXT]);

/* Of a whole file. */
scion_status sha256_file(const char *path, char text[SHA256_TEXT], scion_error *err);

#endif
