/* See base64.h. */
#include "util/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_length(size_t n)
{
    return (n + 2) / 3 * 4;
}

void base64_encode(const uint8_t *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t second = i + 1 < n ? bytes[i + 1] : 0, third = i + 2 < n ? bytes[i + 2] : 0;
        const uint32_t group = (uint32_t)bytes[i] << 16 | second << 8 | third;
        *text++ = digits[group >> 18];
        *text++ = digits[group >> 12 & 63];
        *text++ = i + 1 < n ? digits[group >> 6 & 63] : '=';
        *text++ = i + 2 < n ? digits[group & 63] : '=';
    }
    *text = '\0';
}

bool base64_decode(const char *text, size_t length, uint8_t *bytes, size_t n)
{
    uint32_t group = 0;
    if (length != base64_length(n))
        return false;
    for (size_t i = 0; i < length; i++) {
        const size_t byte = i / 4 * 3 + (i % 4 > 0 ? i % 4 - 1 : 0); /* completed by this digit */
        const bool padding = i % 4 > 1 && byte >= n;
        const char *digit = text[i] ? strchr(padding ? "=" : digits, text[i]) : NULL;
        if (!digit)
            return false;
        group = group << 6 | (padding ? 0 : (uint32_t)(digit - digits));
        if (i % 4 > 0 && byte < n)
            bytes[byte] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    return true;
}
