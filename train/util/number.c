/* See number.h. strtod and similar functions depend on the locale, which the program leaves at "C". */
#include "util/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers up to here are exact in a double. */
static const double exact = 0x1p53;

/* strtod without its spaces, nan and inf; moves *text behind what it read. */
static bool plain(const char **text, double *value)
{
    const char *digits = *text + (**text == '-' || **text == '+');
    char *end;
    if (!isdigit((unsigned char)*digits) && *digits != '.')
        return false;
    *value = strtod(*text, &end);
    if (end == *text)
        return false;
    *text = end;
    return true;
}

bool number_real(const char *text, double *value)
{
    double v, power;
    if (!plain(&text, &v))
        return false;
    if (*text == '^') {
        text++;
        if (!(v > 0) || !plain(&text, &power))
            return false;
        v = pow(v, power);
    }
    if (*text == 'k' || *text == 'K')
        v *= 1e3, text++;
    else if (*text == 'm' || *text == 'M')
        v *= 1e6, text++;
    if (*text != '\0' || !isfinite(v))
        return false;
    *value = v;
    return true;
}

/* Base of an integer: a leading 0 alone does not make it octal. */
static int base_of(const char *text)
{
    text += *text == '-' || *text == '+';
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
}

/* Reads an integer as its sign and its size; exact up to 2^64 - 1. */
static bool whole(const char *text, bool *negative, uint64_t *size)
{
    const bool sign = *text == '-' || *text == '+';
    char *end;
    double real;
    *negative = *text == '-';
    errno = 0;
    *size = strtoull(text + sign, &end, base_of(text));
    if (isdigit((unsigned char)text[sign]) && *end == '\0')
        return errno == 0;
    if (!number_real(text, &real) || real != floor(real) || fabs(real) > exact)
        return false;
    *size = (uint64_t)fabs(real);
    return true;
}

bool number_int(const char *text, int64_t *value)
{
    bool negative;
    uint64_t size;
    if (!whole(text, &negative, &size) || size > (uint64_t)INT64_MAX + negative)
        return false;
    *value = (int64_t)(negative ? 0 - size : size);
    return true;
}

bool number_seed(const char *text, uint64_t *value)
{
    bool negative;
    uint64_t size;
    if (!whole(text, &negative, &size) || (negative && size > 0))
        return false;
    *value = size;
    return true;
}

void number_write(double value, char text[NUMBER_TEXT])
{
    char digits[NUMBER_TEXT] = "";
    const bool whole = fabs(value) < 1e15 && value == floor(value);
    for (int count = whole ? 15 : 1; count <= 17; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    memcpy(text, digits, sizeof digits);
}

const char *number_bytes(double bytes, char text[NUMBER_BYTES_TEXT])
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    enum { last = sizeof unit / sizeof *unit - 1 };
    int i = 0;
    for (; bytes >= 1000 && i < last; i++)
        bytes /= 1000;
    snprintf(text, NUMBER_BYTES_TEXT, i == 0 ? "%.0f %s" : bytes < 1e6 ? "%.1f %s" : "%.1e %s", bytes, unit[i]);
    return text;
}
