/* See utf8.h. */
#include "util/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

int utf8_decode(const char *text, size_t n, uint32_t *code)
{
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *s = (const uint8_t *)text;
    const int length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (length == 0 || (size_t)length > n)
        return 0;
    *code = length == 1 ? s[0] : s[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (s[i] & 0x3fu);
    }
    const bool valid = *code >= min[length] && *code < UTF8_CODE_POINTS && !(*code >= 0xd800 && *code < 0xe000);
    return valid ? length : 0;
}

int utf8_encode(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> length & 0xff) | code);
    return length;
}

int utf8_length(const char *text)
{
    uint32_t code;
    return utf8_decode(text, 4, &code); /* stops at the string's end, which is not a continuation byte */
}

size_t utf8_bytes(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t code;
    for (int length = 1; i < n && length > 0; i += (size_t)length)
        length = utf8_decode(s + i, n - i, &code);
    return i;
}

void utf8_make_printable(char *text)
{
    for (char *s = text; *s;) {
        uint32_t code = 0;
        const int length = utf8_decode(s, 4, &code);
        const bool printable = length > 0 && code >= 0x20 && !(code >= 0x7f && code < 0xa0);
        const int bytes = length > 0 ? length : 1;
        for (int i = 0; i < bytes && !printable; i++)
            s[i] = '?';
        s += bytes;
    }
}

void utf8_append(char *text, size_t bytes, const char *format, ...)
{
    const size_t at = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + at, bytes - at, format, arguments);
    va_end(arguments);
}
