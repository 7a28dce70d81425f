/* UTF-8. */
#ifndef TRAIN_UTIL_UTF8_H
#define TRAIN_UTIL_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { UTF8_CODE_POINTS = 0x110000 };

/* Length of the character at s, of which n > 0 bytes are left, and its code point. 0: not UTF-8, which includes
 * overlong forms, surrogates and code points from U+110000 on. */
int utf8_decode(const char *s, size_t n, uint32_t *code);
/* Writes a code point to out[4]; returns its length. */
int utf8_encode(uint32_t code, char *out);
/* Length of the character at the start of a string; 0: not UTF-8. */
int utf8_length(const char *text);
/* Bytes of s before the first that is not UTF-8; n if all are. */
size_t utf8_bytes(const char *s, size_t n);
/* Replaces each byte of control characters (newlines, terminal escapes) and of invalid UTF-8 by '?', so that foreign
 * text can be printed on one line. */
void utf8_make_printable(char *text);

/* Appends to a text in an array of `bytes`, as far as it fits. */
void utf8_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
