/* See base64.h. */
#include "util/base64.h"

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

/* -1: no digit. */
static int value_of(char c)
{
    for (int i = 0; i < 64; i++)
        if (digits[i] == c)
            return i;
    return -1;
}

bool base64_decode(const char *text, size_t length, uint8_t *bytes, size_t n)
{
    int value[256];
    uint32_t group = 0;
    if (length != base64_length(n))
        return false;
    for (int i = 0; i < 256; i++)
        value[i] = value_of((char)i);
    for (size_t i = 0; i < length; i++) {
        const size_t byte = i / 4 * 3 + (i % 4 > 0 ? i % 4 - 1 : 0); /* completed by this digit */
        const bool padding = i % 4 > 1 && byte >= n;
        const int v = padding && text[i] == '=' ? 0 : value[(unsigned char)text[i]];
        if (v < 0 || (padding && text[i] != '='))
            return false;
        group = group << 6 | (uint32_t)v;
        if (i % 4 > 0 && byte < n)
            bytes[byte] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    return true;
}
