/* See option.h. */
#include "util/option.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/fail.h"
#include "util/number.h"
#include "util/utf8.h"

size_t option_size(const option *o)
{
    static const size_t sizes[] = {
        [OPTION_INT] = sizeof(int64_t),   [OPTION_REAL] = sizeof(double),      [OPTION_BOOL] = sizeof(bool),
        [OPTION_ENUM] = OPTION_NAME,      [OPTION_CHOICE] = sizeof(int),       [OPTION_STRING] = OPTION_TEXT,
        [OPTION_SEED] = sizeof(uint64_t), [OPTION_SPAN] = sizeof(option_span),
    };
    return sizes[o->type];
}

/* Copies `value` without surrounding spaces. False: too long. */
static bool trim(const char *value, char text[OPTION_TEXT])
{
    while (isspace((unsigned char)*value))
        value++;
    size_t length = strlen(value);
    while (length > 0 && isspace((unsigned char)value[length - 1]))
        length--;
    if (length >= OPTION_TEXT)
        return false;
    memcpy(text, value, length);
    text[length] = '\0';
    return true;
}

/* Reason why a text cannot be written to an .ini file or to JSON and read back; NULL: it can. */
static const char *unwritable(const char *text)
{
    if (utf8_bytes(text, strlen(text)) < strlen(text))
        return "is not UTF-8";
    for (const char *s = text; *s; s++) {
        if (iscntrl((unsigned char)*s))
            return "contains a control character";
        if ((*s == ';' || *s == '#') && (s == text || s[-1] == ' '))
            return "contains the start of a comment (';' or '#' after a space)";
    }
    return NULL;
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

static scion_status wrong(const option *o, const char *text, const char *where, const char *expected,
                          scion_error *err)
{
    return train_fail(err, SCION_EINVAL, "%s: %s is \"%.40s\", expected %s", where, o->key, text, expected);
}

static scion_status out_of_range(const option *o, const char *text, const char *where, scion_error *err)
{
    char min[NUMBER_TEXT], max[NUMBER_TEXT];
    number_write(o->min, min);
    number_write(o->max, max);
    if (isinf(o->max))
        return train_fail(err, SCION_EINVAL, "%s: %s is %.40s, expected %s or more", where, o->key, text, min);
    return train_fail(err, SCION_EINVAL, "%s: %s is %.40s, expected %s to %s", where, o->key, text, min, max);
}

static scion_status set_string(char *to, const option *o, const char *text, const char *where, scion_error *err)
{
    const char *fault = unwritable(text);
    if (fault)
        return train_fail(err, SCION_EINVAL, "%s: %s: the value %s", where, o->key, fault);
    memset(to, 0, OPTION_TEXT);
    memcpy(to, text, strlen(text) + 1);
    return SCION_OK;
}

static scion_status set_choice(void *to, const option *o, const char *text, const char *where, scion_error *err)
{
    char names[180];
    const char *name;
    for (int i = 0; (name = option_choice(o, i)) != NULL; i++)
        if (strcmp(name, text) == 0 && strlen(name) < OPTION_NAME) {
            memset(to, 0, option_size(o));
            if (o->type == OPTION_CHOICE)
                memcpy(to, &i, sizeof i);
            else
                memcpy(to, name, strlen(name) + 1);
            return SCION_OK;
        }
    option_choices(o, names, sizeof names);
    return train_fail(err, SCION_EINVAL, "%s: %s is \"%.30s\", expected one of: %s", where, o->key, text, names);
}

static scion_status set_number(void *to, const option *o, const char *text, const char *where, scion_error *err)
{
    const bool is_real = o->type == OPTION_REAL;
    double real = 0;
    int64_t whole = 0;
    if (is_real && o->automatic && strcmp(text, "auto") == 0) {
        memcpy(to, &(double){OPTION_AUTO}, sizeof(double));
        return SCION_OK;
    }
    if (is_real ? !number_real(text, &real) : !number_int(text, &whole))
        return wrong(
            o, text, where,
            is_real ? "a number such as 0.1, 1e-3, 2^-5 or 10k" : "a whole number such as 128, 2^10, 5k or 1m", err);
    real += (double)whole; /* -0 becomes 0 */
    if (!(real >= o->min && real <= o->max))
        return out_of_range(o, text, where, err);
    memcpy(to, is_real ? (const void *)&real : (const void *)&whole, option_size(o));
    return SCION_OK;
}

int64_t option_span_steps(option_span s, int64_t steps)
{
    if (s.of <= 0 || s.value <= 0)
        return (int64_t)s.value;
    return (int64_t)fmax(1, floor(s.value * (double)steps / s.of + 0.5));
}

/* Reads "28%" or "1450/5100". False: neither. */
static bool read_share(const char *text, option_span *s)
{
    char part[OPTION_TEXT];
    const size_t length = strcspn(text, "%/");
    snprintf(part, sizeof part, "%.*s", (int)length, text);
    if (!number_real(part, &s->value))
        return false;
    s->of = 100;
    return text[length] == '%' ? text[length + 1] == '\0'
                               : text[length] == '/' && number_real(text + length + 1, &s->of);
}

static scion_status set_span(void *to, const option *o, const char *text, const char *where, scion_error *err)
{
    option_span s = {0, 0};
    int64_t steps = 0;
    if (!strpbrk(text, "%/")) {
        if (!number_int(text, &steps))
            return wrong(o, text, where, "steps such as 300, or a share of the steps such as 28% or 1/4", err);
        s.value = (double)steps;
        if (!(s.value >= o->min && s.value <= o->max))
            return out_of_range(o, text, where, err);
    } else if (!read_share(text, &s) || !(s.value >= 0 && s.of > 0 && s.value <= s.of)) {
        return wrong(o, text, where, "a share of the steps between 0% and 100%, such as 28% or 1/4", err);
    }
    s.value += 0.0; /* -0 becomes 0 */
    memcpy(to, &s, sizeof s);
    return SCION_OK;
}

static void get_span(const option_span *s, char *text, size_t bytes)
{
    char value[NUMBER_TEXT], of[NUMBER_TEXT];
    number_write(s->value, value);
    number_write(s->of, of);
    if (s->of == 0)
        snprintf(text, bytes, "%.0f", s->value);
    else if (s->of == 100)
        snprintf(text, bytes, "%s%%", value);
    else
        snprintf(text, bytes, "%s/%s", value, of);
}

scion_status option_set(const option *o, void *values, const char *value, const char *where, scion_error *err)
{
    void *to = (char *)values + o->offset;
    char text[OPTION_TEXT];
    if (!trim(value, text))
        return train_fail(err, SCION_EINVAL, "%s: %s: the value is longer than %d bytes", where, o->key,
                          OPTION_TEXT - 1);
    switch (o->type) {
    case OPTION_STRING: return set_string(to, o, text, where, err);
    case OPTION_ENUM:
    case OPTION_CHOICE: return set_choice(to, o, text, where, err);
    case OPTION_BOOL: return read_bool(text, to) ? SCION_OK : wrong(o, text, where, "yes or no", err);
    case OPTION_SEED:
        return number_seed(text, to) ? SCION_OK : wrong(o, text, where, "a whole number from 0 to 2^64-1", err);
    case OPTION_SPAN: return set_span(to, o, text, where, err);
    default: return set_number(to, o, text, where, err);
    }
}

void option_get(const option *o, const void *values, char *text, size_t bytes)
{
    const char *from = (const char *)values + o->offset;
    char number[NUMBER_TEXT];
    switch (o->type) {
    case OPTION_ENUM:
    case OPTION_STRING: snprintf(text, bytes, "%s", from); break;
    case OPTION_CHOICE: snprintf(text, bytes, "%s", o->names[*(const int *)(const void *)from]); break;
    case OPTION_BOOL: snprintf(text, bytes, "%s", *(const bool *)from ? "yes" : "no"); break;
    case OPTION_SEED: snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)(const void *)from); break;
    case OPTION_INT: snprintf(text, bytes, "%lld", (long long)*(const int64_t *)(const void *)from); break;
    case OPTION_SPAN: get_span((const option_span *)(const void *)from, text, bytes); break;
    case OPTION_REAL:
        number_write(*(const double *)(const void *)from, number);
        snprintf(text, bytes, "%s", o->automatic && *(const double *)(const void *)from < 0 ? "auto" : number);
        break;
    }
}

bool option_same(const option *o, const void *a, const void *b)
{
    const char *left = (const char *)a + o->offset, *right = (const char *)b + o->offset;
    switch (o->type) {
    case OPTION_ENUM:
    case OPTION_STRING: return strcmp(left, right) == 0;
    default: return memcmp(left, right, option_size(o)) == 0; /* reals are neither -0 nor NaN */
    }
}

const char *option_choice(const option *o, int i)
{
    return o->choice ? o->choice(i) : o->names ? o->names[i] : NULL;
}

void option_choices(const option *o, char *text, size_t bytes)
{
    const char *name;
    text[0] = '\0';
    for (int i = 0; (name = option_choice(o, i)) != NULL; i++)
        utf8_append(text, bytes, "%s%s", i > 0 ? " " : "", name);
}
