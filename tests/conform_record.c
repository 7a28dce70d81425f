/* Reading the fields of a conformance record, and comparing arrays.
 *
 * The measure is the format's own: max|ours - golden| / max|golden| for each array. A golden array of zeros
 * expects zeros exactly, and a number of ours that is not finite is an infinite error. */
#include "conform.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conform_block {
    conform_block *next;
};

/* Block header, padded so that what follows is aligned for any type. */
#define BLOCK_HEADER 16

void *conform_alloc(conform_case *c, int64_t count, size_t size)
{
    char *block = calloc(1, BLOCK_HEADER + (size_t)count * size);
    if (!block) {
        fputs("conform: out of memory\n", stderr);
        exit(1);
    }
    conform_block *head = (void *)block;
    head->next = c->memory;
    c->memory = head;
    return block + BLOCK_HEADER;
}

void conform_release(conform_case *c)
{
    while (c->memory) {
        conform_block *next = c->memory->next;
        free(c->memory);
        c->memory = next;
    }
}

void conform_fail(conform_case *c, conform_verdict verdict, const char *format, ...)
{
    if (c->verdict != CONFORM_PASS)
        return;
    c->verdict = verdict;
    va_list args;
    va_start(args, format);
    vsnprintf(c->message, sizeof c->message, format, args);
    va_end(args);
}

bool conform_ready(const conform_case *c)
{
    return c->verdict == CONFORM_PASS;
}

bool conform_has(const json_t *object, const char *key)
{
    const json_t *field = json_object_get(object, key);
    return field && !json_is_null(field);
}

double conform_number(conform_case *c, const json_t *object, const char *key)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_number(field))
        conform_fail(c, CONFORM_MALFORMED, "'%s' is %s, expected a number", key, field ? "something else" : "absent");
    return json_number_value(field);
}

double conform_number_or(conform_case *c, const json_t *object, const char *key, double value)
{
    return conform_has(object, key) ? conform_number(c, object, key) : value;
}

/* Integers beyond this would not survive the way through a double; nothing in the format comes near. */
#define LARGEST_INTEGER 9007199254740992.0

int64_t conform_integer(conform_case *c, const json_t *object, const char *key)
{
    double value = conform_number(c, object, key);
    if (!(fabs(value) <= LARGEST_INTEGER) || value != floor(value)) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' is %g, expected an integer", key, value);
        return 0;
    }
    return (int64_t)value;
}

int64_t conform_integer_or(conform_case *c, const json_t *object, const char *key, int64_t value)
{
    return conform_has(object, key) ? conform_integer(c, object, key) : value;
}

bool conform_flag_or(conform_case *c, const json_t *object, const char *key, bool value)
{
    if (!conform_has(object, key))
        return value;
    const json_t *field = json_object_get(object, key);
    if (!json_is_boolean(field))
        conform_fail(c, CONFORM_MALFORMED, "'%s' is neither true nor false", key);
    return json_is_true(field);
}

const char *conform_string(conform_case *c, const json_t *object, const char *key)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_string(field)) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' is %s, expected a string", key, field ? "something else" : "absent");
        return "";
    }
    return json_string_value(field);
}

const json_t *conform_list(conform_case *c, const json_t *object, const char *key, int64_t least, int64_t *count)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_array(field)) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' is %s, expected an array", key, field ? "something else" : "absent");
        *count = 0;
        return NULL;
    }
    *count = (int64_t)json_array_size(field);
    if (*count < least)
        conform_fail(c, CONFORM_MALFORMED, "'%s' is empty", key);
    return field;
}

/* The numbers of an array of exactly `count`; NULL, with the reason in the case, when it is anything else. */
static double *read_numbers(conform_case *c, const json_t *array, const char *key, int64_t count)
{
    if (!conform_ready(c))
        return NULL;
    if (!json_is_array(array)) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' is not an array of numbers", key);
        return NULL;
    }
    if ((int64_t)json_array_size(array) != count) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' has %zu values, expected %lld", key, json_array_size(array),
                     (long long)count);
        return NULL;
    }
    double *values = conform_alloc(c, count, sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(array, (size_t)i);
        if (!json_is_number(element)) {
            conform_fail(c, CONFORM_MALFORMED, "'%s' holds something that is not a number at index %lld", key,
                         (long long)i);
            return NULL;
        }
        values[i] = json_number_value(element);
    }
    return values;
}

static float *narrow(conform_case *c, const char *key, const double *values, int64_t count)
{
    if (!values)
        return NULL;
    float *out = conform_alloc(c, count, sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)values[i];
        if (!isfinite(out[i]))
            conform_fail(c, CONFORM_MALFORMED, "'%s' holds %g, which is no float32", key, values[i]);
    }
    return conform_ready(c) ? out : NULL;
}

static const json_t *element_at(conform_case *c, const json_t *object, const char *key, int64_t k)
{
    int64_t length;
    const json_t *list = conform_list(c, object, key, 1, &length);
    if (k >= length) {
        conform_fail(c, CONFORM_MALFORMED, "'%s' has %lld entries, fewer than the steps", key, (long long)length);
        return NULL;
    }
    const json_t *element = json_array_get(list, (size_t)k);
    return json_is_null(element) ? NULL : element;
}

double *conform_doubles(conform_case *c, const json_t *object, const char *key, int64_t count)
{
    return read_numbers(c, json_object_get(object, key), key, count);
}

float *conform_floats(conform_case *c, const json_t *object, const char *key, int64_t count)
{
    return narrow(c, key, conform_doubles(c, object, key, count), count);
}

double *conform_doubles_at(conform_case *c, const json_t *object, const char *key, int64_t k, int64_t count)
{
    const json_t *element = element_at(c, object, key, k);
    return element ? read_numbers(c, element, key, count) : NULL;
}

float *conform_floats_at(conform_case *c, const json_t *object, const char *key, int64_t k, int64_t count)
{
    return narrow(c, key, conform_doubles_at(c, object, key, k, count), count);
}

void conform_compare(conform_case *c, const char *array, int64_t n, const double *ours, const double *golden)
{
    if (c->verdict > CONFORM_DIFFERS)
        return;
    double largest = 0, scale = 0;
    int64_t where = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = isfinite(ours[i]) ? fabs(ours[i] - golden[i]) : INFINITY;
        scale = fmax(scale, fabs(golden[i]));
        if (error > largest) {
            largest = error;
            where = i;
        }
    }
    double relative = largest == 0 ? 0 : scale > 0 ? largest / scale : INFINITY;
    double excess = relative == 0 ? 0 : relative / c->tol;
    if (relative <= c->tol || excess <= c->worst)
        return;
    c->worst = excess;
    c->verdict = CONFORM_DIFFERS;
    snprintf(c->message, sizeof c->message,
             "%s: largest error %.3g, tolerance %.3g (index %lld: %.9g, expected %.9g)", array, relative, c->tol,
             (long long)where, ours[where], golden[where]);
}

void conform_compare_floats(conform_case *c, const char *array, int64_t n, const float *ours, const double *golden)
{
    double *wide = conform_alloc(c, n, sizeof *wide);
    for (int64_t i = 0; i < n; i++)
        wide[i] = ours[i];
    conform_compare(c, array, n, wide, golden);
}

void conform_compare_value(conform_case *c, const char *array, double ours, double golden)
{
    conform_compare(c, array, 1, &ours, &golden);
}

bool conform_call(conform_case *c, const char *function, scion_status status, const scion_error *err)
{
    if (status == SCION_OK)
        return true;
    conform_fail(c, CONFORM_DIFFERS, "%s: %s (%s)", function, err->message, scion_status_string(status));
    c->worst = INFINITY;
    return false;
}
