/* Bytes as text: base64 (RFC 4648), with padding and without line breaks. */
#ifndef TRAIN_UTIL_BASE64_H
#define TRAIN_UTIL_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters of n bytes, without the 0 at their end. */
size_t base64_length(size_t n);
/* Writes them, and a 0. */
void base64_encode(const uint8_t *bytes, size_t n, char *text);
/* The n bytes that a text of `length` characters stands for; false: it stands for another number of bytes, or is no
 * base64. */
bool base64_decode(const char *text, size_t length, uint8_t *bytes, size_t n);

#endif
