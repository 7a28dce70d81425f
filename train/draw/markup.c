/* See markup.h. */
#include "draw/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD";

/* True if a character of `bytes` bytes (0: not UTF-8) may stand in a page or a table. */
static bool is_plain(const unsigned char *s, size_t bytes)
{
    const bool none = bytes == 3 && s[0] == 0xEF && s[1] == 0xBF && s[2] >= 0xBE; /* U+FFFE, U+FFFF */
    return bytes > 0 && !none && (*s >= 0x20 || *s == '\n' || *s == '\t') && *s != 0x7F;
}

/* One character, escaped; returns its bytes. */
static size_t write_character(FILE *to, const unsigned char *s)
{
    static const struct {
        char c;
        const char *entity;
    } entities[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    const size_t bytes = (size_t)utf8_length((const char *)s);
    const char *out = NULL;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (*s == (unsigned char)entities[i].c)
            out = entities[i].entity;
    if (!is_plain(s, bytes))
        out = replacement;
    if (out)
        fputs(out, to);
    else
        fwrite(s, 1, bytes, to);
    return bytes > 0 ? bytes : 1;
}

void markup_attribute(FILE *to, const char *text)
{
    while (*text)
        text += write_character(to, (const unsigned char *)text);
}

/* The bytes of "2^-5" at `text`, or 0: it does not begin with a whole power of two. */
static size_t power_length(const char *text)
{
    size_t n = 2;
    if (text[0] != '2' || text[1] != '^')
        return 0;
    n += text[n] == '-';
    const size_t digits = strspn(text + n, "0123456789");
    const char *end = text + n + digits;
    const bool fraction = *end == '.' && strspn(end + 1, "0123456789") > 0;
    return digits > 0 && digits < 5 && !fraction ? n + digits : 0;
}

void markup_text(FILE *to, const char *text)
{
    for (const char *at = text; *at;) {
        const bool begins = at == text || !strchr("0123456789.", at[-1]);
        const size_t power = begins ? power_length(at) : 0;
        const bool percent = at > text && strncmp(at, " %", 2) == 0 && strchr("0123456789", at[-1]);
        char exponent[MARKUP_NUMBER];
        if (power > 0)
            fprintf(to, "2%s", markup_exponent(atoi(at + 2), exponent));
        else if (percent)
            fputs("\u00A0", to);
        at += power > 0 ? power : percent ? 1 : write_character(to, (const unsigned char *)at);
    }
}

void markup_element(FILE *to, const char *text, const char *tag, ...)
{
    char begin[256];
    va_list arguments;
    va_start(arguments, tag);
    vsnprintf(begin, sizeof begin, tag, arguments);
    va_end(arguments);
    fprintf(to, "<%s>", begin);
    markup_text(to, text);
    fprintf(to, "</%.*s>", (int)strcspn(begin, " "), begin);
}

void markup_csv(FILE *to, const char *text)
{
    const char *quote = strpbrk(text, ",\"\n") ? "\"" : "";
    fputs(quote, to);
    if (*text && strchr("=+-@\t", *text)) /* programs would compute it */
        fputc('\'', to);
    while (*text) {
        const size_t bytes = (size_t)utf8_length(text);
        if (*text == '"')
            fputc('"', to);
        if (is_plain((const unsigned char *)text, bytes))
            fwrite(text, 1, bytes, to);
        else
            fputs(replacement, to);
        text += bytes > 0 ? bytes : 1;
    }
    fputs(quote, to);
}

/* ---- Numbers ----------------------------------------------------------------------------------------------- */

const char *markup_exponent(int value, char text[MARKUP_NUMBER])
{
    static const char *const digit[] = {"\u2070", "\u00B9", "\u00B2", "\u00B3", "\u2074",
                                        "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    char plain[16];
    size_t length = 0;
    snprintf(plain, sizeof plain, "%d", value);
    text[0] = '\0';
    for (const char *p = plain; *p && length + 4 < MARKUP_NUMBER; p++) {
        const char *part = *p == '-' ? "\u207B" : digit[*p - '0'];
        memcpy(text + length, part, strlen(part) + 1);
        length += strlen(part);
    }
    return text;
}

const char *markup_number(double value, int digits, char text[MARKUP_NUMBER])
{
    if (isnan(value))
        snprintf(text, MARKUP_NUMBER, "\u2013");
    else if (isinf(value))
        snprintf(text, MARKUP_NUMBER, "diverged");
    else if (value != 0 && (fabs(value) >= 1e7 || fabs(value) < 1e-4)) {
        char exponent[MARKUP_NUMBER], mantissa[MARKUP_NUMBER];
        snprintf(mantissa, sizeof mantissa, "%.*e", digits - 1, value);
        char *e = strchr(mantissa, 'e');
        const int power = atoi(e + 1);
        *e = '\0';
        while (strchr(mantissa, '.') && (e[-1] == '0' || e[-1] == '.')) /* 1.500 is 1.5 */
            *--e = '\0';
        snprintf(text, MARKUP_NUMBER, "%.16s\u00B710%.24s", mantissa, markup_exponent(power, exponent));
    } else if (fabs(value) >= pow(10, digits)) {
        snprintf(text, MARKUP_NUMBER, "%.0f", value);
    } else {
        snprintf(text, MARKUP_NUMBER, "%.*g", digits, value);
    }
    return text;
}

const char *markup_fixed(double value, int decimals, char text[MARKUP_NUMBER])
{
    if (!isfinite(value) || fabs(value) >= 1e15)
        return markup_number(value, 5, text);
    snprintf(text, MARKUP_NUMBER, "%.*f", decimals, value);
    return text;
}

const char *markup_loss(double value, char text[MARKUP_NUMBER])
{
    return fabs(value) >= 0.01 && fabs(value) < 1e5 ? markup_fixed(value, 4, text) : markup_number(value, 5, text);
}

const char *markup_power(double value, char text[MARKUP_NUMBER])
{
    char exponent[MARKUP_NUMBER];
    int whole;
    if (!(value > 0) || isinf(value))
        return markup_number(value, 4, text);
    const double half = 2 * log2(value);
    if (frexp(value, &whole) == 0.5 && value < 1)
        snprintf(text, MARKUP_NUMBER, "2%s", markup_exponent(whole - 1, exponent));
    else if (value < 1 && fabs(half - round(half)) < 1e-9)
        snprintf(text, MARKUP_NUMBER, "2^%.1f", half / 2);
    else
        markup_number(value, 4, text);
    return text;
}

const char *markup_bytes(double bytes, char text[MARKUP_NUMBER])
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    int i = 0;
    if (!isfinite(bytes))
        return markup_number(NAN, 3, text);
    for (; bytes >= 1000 && i < 4; i++)
        bytes /= 1000;
    snprintf(text, MARKUP_NUMBER, i > 0 && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return text;
}

const char *markup_duration(double seconds, char text[MARKUP_NUMBER])
{
    if (!(seconds >= 0) || seconds > 1e12)
        return markup_number(NAN, 3, text);
    const long long s = (long long)(seconds + 0.5);
    if (seconds < 60)
        snprintf(text, MARKUP_NUMBER, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    else if (s < 3600)
        snprintf(text, MARKUP_NUMBER, "%lld min %02lld s", s / 60, s % 60);
    else
        snprintf(text, MARKUP_NUMBER, "%lld h %02lld min", s / 3600, s / 60 % 60);
    return text;
}

const char *markup_count(long long value, char text[MARKUP_NUMBER])
{
    char plain[32];
    const int length = snprintf(plain, sizeof plain, "%lld", value);
    int n = 0;
    for (int i = 0; i < length; i++) {
        if (i > (plain[0] == '-') && (length - i) % 3 == 0)
            text[n++] = ',';
        text[n++] = plain[i];
    }
    text[n] = '\0';
    return text;
}

/* ---- Width of text ----------------------------------------------------------------------------------------- */

/* Fonts differ: these are the widths of a wide one (DejaVu Sans), in classes of letters. */
static double letter(const unsigned char *s)
{
    if (*s >= 0x80)
        return 0.75;
    if (strchr("ijl.,:;'|!", *s))
        return 0.33;
    if (strchr("frtI()[]{}-/ \"", *s))
        return 0.44;
    if (strchr("mwMW@%", *s))
        return 0.98;
    return strchr("ABCDEFGHKNOQRUVX=+<>~_", *s) ? 0.80 : 0.64;
}

double markup_width(const char *text)
{
    double em = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const size_t bytes = (size_t)utf8_length((const char *)s);
        em += letter(s);
        s += bytes > 0 ? bytes : 1;
    }
    return em;
}

void markup_shorten(const char *text, double em, char *cut, size_t bytes)
{
    static const char ellipsis[] = "\u2026";
    const bool whole = markup_width(text) <= em && strlen(text) < bytes;
    double used = whole ? 0 : 0.75;
    size_t n = 0;
    while (text[n]) {
        const size_t next = (size_t)utf8_length(text + n);
        const size_t length = next > 0 ? next : 1;
        used += letter((const unsigned char *)text + n);
        if (!whole && (used > em || n + length + sizeof ellipsis > bytes))
            break;
        n += length;
    }
    memcpy(cut, text, n);
    memcpy(cut + n, whole ? "" : ellipsis, whole ? 1 : sizeof ellipsis);
}
