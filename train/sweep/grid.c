/* See grid.h. Each key=value becomes an axis, a list of values as text that config_set reads; the points are counted
 * like the digits of a number whose last digit is the last axis. */
#include "sweep/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/utf8.h"
#include "util/number.h"

typedef struct axis {
    const config_option *option;
    char (*values)[CONFIG_TEXT];
    int64_t count;
} axis;

/* Separator of the values of a list; 0: the option takes no list. */
static char separator(const config_option *o)
{
    return o->type == OPTION_STRING ? o->list : ',';
}

bool grid_computes(const config_option *o)
{
    return !o->neutral;
}

bool grid_is_axis(const config_option *o, const char *const *axes)
{
    for (; *axes; axes++)
        if (strcmp(o->key, *axes) == 0)
            return true;
    return false;
}

bool grid_same(const config *a, const config *b, const char *const *axes)
{
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (grid_computes(o) && !grid_is_axis(o, axes) && !config_same(a, b, o))
            return false;
    return true;
}

static const config *nth(const config *first, size_t stride, int64_t i)
{
    return (const config *)(const void *)((const char *)first + (size_t)i * stride);
}

bool grid_varies(const config *first, size_t stride, int64_t count, const config_option *o)
{
    for (int64_t i = 1; i < count; i++)
        if (!config_same(first, nth(first, stride, i), o))
            return true;
    return false;
}

/* Splits the classes of n configurations by the values of one more option; returns their number. */
static int64_t split(const config *first, size_t stride, int64_t n, const config_option *o, const int64_t *before,
                     int64_t *after)
{
    int64_t classes = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k < i && !(before[k] == before[i] && config_same(nth(first, stride, k), nth(first, stride, i), o)))
            k++;
        after[i] = k < i ? after[k] : classes++;
    }
    return classes;
}

/* Options in the order in which they name runs: first those that people ask about first. */
static const config_option *naming_option(int i)
{
    static const char *const ahead[] = {"rule", "norms"};
    enum { aheads = sizeof ahead / sizeof *ahead };
    return i < aheads ? config_find(ahead[i]) : config_option_at(i - aheads);
}

int grid_naming(const config *first, size_t stride, int64_t count, const char *const *axes,
                const config_option *options[], int max)
{
    enum { sample = 512 };
    static const char *const none[] = {NULL};
    const int64_t step = 1 + (count - 1) / sample, n = count > 0 ? 1 + (count - 1) / step : 0;
    int64_t class[sample + 1] = {0}, finer[sample + 1], classes = n > 0;
    const config_option *o;
    int found = 0;
    for (int i = 0; classes < n && found < max && (o = naming_option(i)) != NULL; i++) {
        if (!grid_computes(o) || grid_is_axis(o, axes ? axes : none))
            continue;
        const int64_t now = split(first, stride * (size_t)step, n, o, class, finer);
        if (now == classes)
            continue;
        memcpy(class, finer, (size_t)n * sizeof *class);
        classes = now;
        options[found++] = o;
    }
    return found;
}

void grid_label(const config *c, const config_option *const *options, int count, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char value[CONFIG_TEXT];
        grid_pretty(c, options[i], value);
        utf8_append(text, bytes, "%s%s=%.80s", i > 0 ? " " : "", options[i]->key, value);
    }
    utf8_make_printable(text); /* values may come from a foreign file */
}

void grid_name_groups(const config *first, size_t stride, int64_t count, const char *const *axes, char *label,
                      size_t bytes)
{
    enum { max_options = 16 };
    const config_option *options[max_options];
    const int named = count > 0 ? grid_naming(first, stride, count, axes, options, max_options) : 0;
    for (int64_t i = 0; i < count; i++)
        grid_label(nth(first, stride, i), options, named, label + i * (int64_t)stride, bytes);
}

void grid_rate(double lr, char text[CONFIG_TEXT])
{
    int exponent;
    if (lr > 0 && frexp(lr, &exponent) == 0.5)
        snprintf(text, CONFIG_TEXT, "2^%d", exponent - 1);
    else
        number_write(lr, text);
}

void grid_pretty(const config *c, const config_option *o, char text[CONFIG_TEXT])
{
    if (strcmp(o->key, "lr") == 0)
        grid_rate(c->training.lr, text);
    else
        config_get(c, o, text, CONFIG_TEXT);
}

static scion_status add_value(axis *a, const char *text, scion_error *err)
{
    if (strlen(text) >= CONFIG_TEXT)
        return train_fail(err, SCION_EINVAL, "command line: %s: the value is longer than %d bytes", a->option->key,
                          CONFIG_TEXT - 1);
    if (a->count >= GRID_MAX)
        return train_fail(err, SCION_EINVAL, "command line: %s has more than %d values", a->option->key, GRID_MAX);
    char(*value)[CONFIG_TEXT] = array_append(&a->values, &a->count, sizeof *value);
    if (!value)
        return train_fail(err, SCION_ENOMEM, "out of memory for the grid");
    memcpy(*value, text, strlen(text) + 1);
    return SCION_OK;
}

typedef struct range {
    double first, last, step;
    double base; /* > 0: the values are base^first, base^(first + step), ... */
    bool factor; /* the values are first, first * step, ... */
} range;

/* "2^-5" into base and exponent. */
static bool read_power(const char *text, double *base, double *exponent)
{
    char left[NUMBER_TEXT];
    const char *hat = strchr(text, '^');
    if (!hat || hat - text >= NUMBER_TEXT)
        return false;
    snprintf(left, sizeof left, "%.*s", (int)(hat - text), text);
    return number_real(left, base) && *base > 0 && *base != 1 && number_real(hat + 1, exponent);
}

/* "a..b", "a..b:s" or "a..b:*f". */
static scion_status read_range(range *r, const config_option *o, const char *text, scion_error *err)
{
    char part[CONFIG_TEXT];
    double bases[2];
    snprintf(part, sizeof part, "%s", text);
    char *right = strstr(part, "..");
    *right = '\0';
    right += 2;
    char *step = strchr(right, ':');
    if (step)
        *step++ = '\0';
    *r = (range){.step = 1};
    const bool powers =
        read_power(part, &bases[0], &r->first) && read_power(right, &bases[1], &r->last) && bases[0] == bases[1];
    if (powers && !(step && *step == '*')) {
        r->base = bases[0];
    } else if (!number_real(part, &r->first) || !number_real(right, &r->last)) {
        return train_fail(err, SCION_EINVAL,
                          "command line: %s=%.60s, expected a range of numbers such as 2^-8..2^-2 or 1..3", o->key,
                          text);
    } else if (!step && o->type == OPTION_REAL) {
        return train_fail(err, SCION_EINVAL,
                          "command line: %s=%.60s needs a step: %s..%s:0.1, or :*2 to double each time, or "
                          "powers such as 2^-8..2^-2",
                          o->key, text, part, right);
    }
    if (step) {
        r->factor = *step == '*';
        if (!number_real(step + r->factor, &r->step) || !(r->step > r->factor) || (r->factor && !(r->first > 0)))
            return train_fail(
                err, SCION_EINVAL,
                "command line: %s=%.60s: the step is \"%.20s\", expected a number above 0, or * and one "
                "above 1",
                o->key, text, step);
    }
    if (r->last < r->first)
        return train_fail(err, SCION_EINVAL,
                          "command line: %s=%.60s is empty: a range goes from the smaller to the larger", o->key,
                          text);
    return SCION_OK;
}

static scion_status add_range(axis *a, const char *text, scion_error *err)
{
    range r;
    char value[2 * NUMBER_TEXT + 2], number[NUMBER_TEXT], base[NUMBER_TEXT];
    scion_status status = read_range(&r, a->option, text, err);
    if (status != SCION_OK)
        return status;
    const double steps = r.factor ? log(r.last / r.first) / log(r.step) : (r.last - r.first) / r.step;
    if (!(steps < GRID_MAX))
        return train_fail(err, SCION_EINVAL, "command line: %s=%.60s has more than %d values", a->option->key, text,
                          GRID_MAX);
    const int64_t count = (int64_t)floor(steps * (1 + 1e-12) + 1e-9) + 1; /* 0.1..0.3:0.1 has three */
    number_write(r.base, base);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        const double at = r.factor ? r.first * pow(r.step, (double)i) : r.first + (double)i * r.step;
        /* Twelve digits: 0.30000000000000004 is 0.3. Whole numbers are exact. */
        snprintf(number, sizeof number, at == floor(at) && fabs(at) <= 0x1p53 ? "%.0f" : "%.12g", at);
        if (r.base > 0)
            snprintf(value, sizeof value, "%s^%s", base, number);
        else
            snprintf(value, sizeof value, "%s", number);
        status = add_value(a, value, err);
    }
    return status;
}

static scion_status make_axis(axis *a, const char *pair, scion_error *err)
{
    const char *equal = strchr(pair, '=');
    char key[64];
    if (!equal || equal == pair)
        return train_fail(err, SCION_EINVAL, "command line: \"%.80s\", expected key=value", pair);
    snprintf(key, sizeof key, "%.*s", (int)(equal - pair < 63 ? equal - pair : 63), pair);
    a->option = config_find(key);
    if (!a->option) {
        config any;
        config_init(&any);
        return config_set(&any, key, "", "command line", err);
    }
    if (strcmp(key, "preset") == 0)
        return train_fail(err, SCION_EINVAL, "command line: presets are not swept with preset=; name each of them");
    const option_type type = a->option->type;
    const char between[] = {separator(a->option), '\0'};
    if (between[0] == '\0')
        return add_value(a, equal + 1, err);
    const bool numbers = type == OPTION_INT || type == OPTION_REAL || type == OPTION_SEED || type == OPTION_SPAN;
    scion_status status = SCION_OK;
    for (const char *at = equal; status == SCION_OK && *at;) {
        char value[CONFIG_TEXT];
        const size_t length = strcspn(++at, between);
        if (length == 0)
            return train_fail(err, SCION_EINVAL, "command line: %.80s: a value is missing", pair);
        if (length >= CONFIG_TEXT)
            return train_fail(err, SCION_EINVAL, "command line: %s: a value is too long", key);
        snprintf(value, sizeof value, "%.*s", (int)length, at);
        status = numbers && strstr(value, "..") ? add_range(a, value, err) : add_value(a, value, err);
        at += length;
    }
    return status;
}

/* The second axis of one key would undo the first. */
static scion_status check_axes(const axis *axes, int count, scion_error *err)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (axes[i].option == axes[k].option)
                return train_fail(err, SCION_EINVAL, "command line: %s is given twice", axes[i].option->key);
    return SCION_OK;
}

static scion_status fill_point(config *c, const axis *axes, int count, int64_t index, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = count - 1; status == SCION_OK && i >= 0; index /= axes[i--].count)
        status = config_set(c, axes[i].option->key, axes[i].values[index % axes[i].count], "command line", err);
    return status == SCION_OK ? config_check(c, err) : status;
}

scion_status grid_make(grid *g, const config *base, const char *const *pairs, int count, scion_error *err)
{
    axis *axes = calloc((size_t)count + 1, sizeof *axes);
    scion_status status = SCION_OK;
    double points = 1;
    *g = (grid){NULL, 0};
    if (!axes)
        return train_fail(err, SCION_ENOMEM, "out of memory for the grid");
    for (int i = 0; i < count; i++) {
        TRY(make_axis(&axes[i], pairs[i], err));
        points *= (double)axes[i].count;
    }
    TRY(check_axes(axes, count, err));
    if (points > GRID_MAX)
        TRY(train_fail(err, SCION_EINVAL, "command line: the grid has %.0f points, at most %d are possible", points,
                       GRID_MAX));
    g->points = malloc((size_t)points * sizeof *g->points);
    if (!g->points)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for a grid of %.0f points", points));
    g->count = (int64_t)points;
    for (int64_t i = 0; i < g->count; i++) {
        g->points[i] = *base;
        TRY(fill_point(&g->points[i], axes, count, i, err));
    }
done:
    for (int i = 0; i < count; i++)
        free(axes[i].values);
    free(axes);
    return status;
}

scion_status grid_add(grid *g, const char *preset, const char *const *pairs, int count, scion_error *err)
{
    grid more = {NULL, 0};
    config base, *points;
    scion_status status = SCION_OK;
    config_init(&base);
    if (preset)
        TRY(config_preset(&base, preset, err));
    base.run.out[0] = '\0';
    TRY(config_make_way(&base, pairs, count, err));
    TRY(grid_make(&more, &base, pairs, count, err));
    points = realloc(g->points, (size_t)(g->count + more.count) * sizeof *points);
    if (!points)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for a grid of %lld points", (long long)more.count));
    memcpy(points + g->count, more.points, (size_t)more.count * sizeof *points);
    g->points = points;
    g->count += more.count;
done:
    grid_free(&more);
    return status;
}

void grid_free(grid *g)
{
    free(g->points);
    *g = (grid){NULL, 0};
}
