/* Base64 (RFC 4648), with padding and without line breaks. */
#ifndef TRAIN_UTIL_BASE64_H
#define TRAIN_UTIL_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of characters that encode n bytes, without the final 0. */
size_t base64_length(size_t n);
/* Writes those characters and a 0. */
void base64_encode(const uint8_t *bytes, size_t n, char *text);
/* Decodes `length` characters to n bytes; false: they encode another number of bytes, or are not base64. */
bool base64_decode(const char *text, size_t length, uint8_t *bytes, size_t n);

#endif
