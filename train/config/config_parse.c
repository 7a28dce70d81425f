/* One option from text and to text. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config_parts.h"
#include "base/fail.h"
#include "base/number.h"
#include "base/path.h"

enum { word = 64 }; /* letters that are compared */

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

int config_distance(const char *a, const char *b)
{
    int row[3][word + 1]; /* the row of a letter of a, the one before, and the one before that */
    const int n = least_of((int)strlen(a), word), m = least_of((int)strlen(b), word);
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            const int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            now[j] = least_of(least_of(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = least_of(now[j], earlier[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

/* How far an option is from a key that does not exist. Nearest is one whose key holds the other (batch_size, radius),
 * then one whose help has its words (learning_rate), then the fewest typing errors. */
static int remoteness(const char *key, const config_option *o)
{
    char words[word + 1];
    if (strlen(key) > 2 && strlen(o->key) > 2 && (strstr(o->key, key) || strstr(key, o->key)))
        return -1;
    snprintf(words, sizeof words, "%s", key);
    for (char *s = words; *s; s++)
        *s = *s == '_' || *s == '-' ? ' ' : *s;
    return strlen(words) > 3 && strstr(o->help, words) ? 0 : config_distance(key, o->key);
}

static const char *nearest_key(const char *key)
{
    const config_option *o, *best = config_option_at(0);
    for (int i = 1; (o = config_option_at(i)) != NULL; i++)
        if (remoteness(key, o) < remoteness(key, best))
            best = o;
    return best->key;
}

/* `value` without the spaces around it. False: it is too long for an option. */
static bool trim(const char *value, char text[CONFIG_TEXT])
{
    while (isspace((unsigned char)*value))
        value++;
    size_t length = strlen(value);
    while (length > 0 && isspace((unsigned char)value[length - 1]))
        length--;
    if (length >= CONFIG_TEXT)
        return false;
    memcpy(text, value, length);
    text[length] = '\0';
    return true;
}

/* Length of the UTF-8 character at s, 0: there is none. Overlong forms, surrogates and what lies beyond U+10FFFF
 * are none. */
static size_t utf8_length(const unsigned char *s)
{
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* What keeps a text from being written to an .ini file or to JSON and read back; NULL: nothing. */
static const char *unwritable(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t n; *s != 0; s += n) {
        n = utf8_length(s);
        if (n == 0)
            return "is not UTF-8";
        if (*s < 0x20 || *s == 0x7f)
            return "holds a control character";
        if ((*s == ';' || *s == '#') && (s == (const unsigned char *)text || s[-1] == ' '))
            return "holds what starts a comment in a file (';' or '#' after a space)";
    }
    return NULL;
}

static bool is_one_of(const char *text, const char *choices)
{
    const size_t n = strlen(text);
    for (const char *at = choices; at && n > 0; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, text, n) == 0 && (at[n] == ' ' || at[n] == '\0') && !memchr(text, ' ', n))
            return true;
    }
    return false;
}

static bool read_bool(const char *text, bool *value)
{
    static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "off", "on"};
    for (int i = 0; i < 8; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return true;
        }
    return false;
}

static scion_status out_of_range(const config_option *o, const char *text, const char *where, scion_error *err)
{
    char least[NUMBER_TEXT], most[NUMBER_TEXT];
    number_write(o->least, least);
    number_write(o->most, most);
    if (isinf(o->most))
        return train_fail(err, SCION_EINVAL, "%s: %s is %.40s, expected %s or more", where, o->key, text, least);
    return train_fail(err, SCION_EINVAL, "%s: %s is %.40s, expected %s to %s", where, o->key, text, least, most);
}

static scion_status wrong(const config_option *o, const char *text, const char *where, const char *expected,
                          scion_error *err)
{
    return train_fail(err, SCION_EINVAL, "%s: %s is \"%.40s\", expected %s", where, o->key, text, expected);
}

static scion_status set_text(char *to, const config_option *o, const char *text, const char *where, scion_error *err)
{
    const char *fault = unwritable(text);
    if (o->choices && !is_one_of(text, o->choices))
        return train_fail(err, SCION_EINVAL, "%s: %s is \"%.30s\", expected one of: %s", where, o->key, text,
                          o->choices);
    if (fault)
        return train_fail(err, SCION_EINVAL, "%s: %s: the value %s", where, o->key, fault);
    memcpy(to, text, strlen(text) + 1);
    return SCION_OK;
}

static scion_status set_number(void *to, const config_option *o, const char *text, const char *where,
                               scion_error *err)
{
    double real = 0;
    int64_t whole;
    if (o->type == CONFIG_REAL) {
        if (!number_real(text, &real))
            return wrong(o, text, where, "a number such as 0.1, 1e-3, 2^-5 or 10k", err);
        real += 0.0; /* -0 becomes 0 */
    } else {
        if (!number_int(text, &whole))
            return wrong(o, text, where, "a whole number such as 128, 2^10, 5k or 1m", err);
        real = (double)whole;
    }
    if (!(real >= o->least && real <= o->most))
        return out_of_range(o, text, where, err);
    if (o->type == CONFIG_REAL)
        memcpy(to, &real, sizeof real);
    else
        memcpy(to, &whole, sizeof whole);
    return SCION_OK;
}

static void *field(config *c, const config_option *o)
{
    return (char *)c + o->offset;
}

scion_status config_set(config *c, const char *key, const char *value, const char *where, scion_error *err)
{
    const config_option *o = config_find(key);
    char text[CONFIG_TEXT];
    where = where ? path_end(where) : "configuration";
    if (!o)
        return train_fail(err, SCION_EINVAL, "%s: there is no option \"%.40s\"; did you mean \"%s\"?", where, key,
                          nearest_key(key));
    if (!trim(value, text))
        return train_fail(err, SCION_EINVAL, "%s: %s: the value is longer than %d bytes", where, o->key,
                          CONFIG_TEXT - 1);
    switch (o->type) {
    case CONFIG_STRING: return set_text(field(c, o), o, text, where, err);
    case CONFIG_BOOL: return read_bool(text, field(c, o)) ? SCION_OK : wrong(o, text, where, "yes or no", err);
    case CONFIG_SEED:
        return number_seed(text, field(c, o)) ? SCION_OK
                                              : wrong(o, text, where, "a whole number from 0 to 2^64-1", err);
    default: return set_number(field(c, o), o, text, where, err);
    }
}

/* A preset replaces what was said before it, so that it has to be said first. */
static scion_status set_preset(config *c, const char *name, scion_error *err)
{
    const config_option *o;
    config fresh;
    config_init(&fresh);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (!config_same(c, &fresh, o))
            return train_fail(err, SCION_EINVAL,
                              "command line: preset=%.60s would replace %s; name the preset before anything else",
                              name, o->key);
    return config_preset(c, name, err);
}

scion_status config_set_pair(config *c, const char *pair, scion_error *err)
{
    const char *equal = strchr(pair, '=');
    char key[CONFIG_TEXT];
    if (!equal || equal == pair)
        return train_fail(err, SCION_EINVAL, "command line: \"%.80s\", expected key=value", pair);
    snprintf(key, sizeof key, "%.*s", (int)(equal - pair < CONFIG_TEXT ? equal - pair : CONFIG_TEXT - 1), pair);
    if (strcmp(key, "preset") == 0)
        return set_preset(c, equal + 1, err);
    return config_set(c, key, equal + 1, "command line", err);
}

void config_get(const config *c, const config_option *o, char *text, size_t bytes)
{
    const char *from = (const char *)c + o->offset;
    char number[NUMBER_TEXT];
    switch (o->type) {
    case CONFIG_STRING: snprintf(text, bytes, "%s", from); break;
    case CONFIG_BOOL: snprintf(text, bytes, "%s", *(const bool *)from ? "yes" : "no"); break;
    case CONFIG_SEED: snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)(const void *)from); break;
    case CONFIG_INT: snprintf(text, bytes, "%lld", (long long)*(const int64_t *)(const void *)from); break;
    case CONFIG_REAL:
        number_write(*(const double *)(const void *)from, number);
        snprintf(text, bytes, "%s", number);
        break;
    }
}

bool config_same(const config *a, const config *b, const config_option *o)
{
    const char *left = (const char *)a + o->offset, *right = (const char *)b + o->offset;
    switch (o->type) {
    case CONFIG_STRING: return strcmp(left, right) == 0;
    case CONFIG_BOOL: return *(const bool *)left == *(const bool *)right;
    default: return memcmp(left, right, 8) == 0; /* whole numbers and reals, of which -0 and NaN are refused */
    }
}
