/* Axes and numbers of a report: known places, known ticks, numbers as people write them. */
#include "scratch.h"

#include <math.h>

#include "draw/axis.h"

static void scales_are_what_they_say(void **state)
{
    axis a;
    (void)state;
    axis_fit(&a, AXIS_LINEAR, 0, 10, true, 100, 300, 30);
    check(axis_at(&a, 5) == 200 && axis_at(&a, 0) == 100 && axis_at(&a, 10) == 300);
    axis_fit(&a, AXIS_LOG2, exp2(-8), exp2(-4), true, 0, 400, 30);
    check_rel(axis_at(&a, exp2(-7)), 100, 1e-12);
    axis_fit(&a, AXIS_LOG10, 0.01, 100, true, 400, 0, 30);
    check_rel(axis_at(&a, 0.1), 300, 1e-12);
    check(!axis_holds(AXIS_LOG2, 0) && axis_holds(AXIS_LINEAR, 0) && !axis_holds(AXIS_LINEAR, NAN));
}

static void ticks_are_round(void **state)
{
    static const struct {
        axis_scale scale;
        double low, high;
        const char *labels;
    } cases[] = {
        {AXIS_LINEAR, 0, 10, "0 2 4 6 8 10"},
        {AXIS_LINEAR, 1.5, 3, "1.50 1.75 2.00 2.25 2.50 2.75 3.00"},
        {AXIS_LINEAR, 0, 50000, "0 10k 20k 30k 40k 50k"},
        {AXIS_LINEAR, -1, 1, "-1.0 -0.5 0.0 0.5 1.0"},
        {AXIS_LINEAR, 0.00012, 0.00018, "0.00012 0.00013 0.00014 0.00015 0.00016 0.00017 0.00018"},
        {AXIS_LOG2, 0.0078125, 0.125, "2^-7 2^-6 2^-5 2^-4 2^-3"},
        {AXIS_LOG2, 0.25, 4, "2^-2 2^-1 1 2^1 2^2"},
        {AXIS_LOG2, 64, 1024, "64 128 256 512 1024"},
        {AXIS_LOG10, 0.1, 100, "0.1 1 10 100"},
        {AXIS_LOG10, 1e-5, 1, "10^-5 10^-4 10^-3 10^-2 10^-1 1"},
        {AXIS_LOG10, 1, 10, "1 2 5 10"},
        {AXIS_LOG10, 0.03, 4, "0.03 0.1 0.3 1 3"},
        {AXIS_LOG10, 0.2, 20, "0.3 1 3 10"},
        {AXIS_LOG10, 2, 2.5, "2.0 2.1 2.2 2.3 2.4 2.5"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        char got[256] = "";
        axis a;
        axis_fit(&a, cases[i].scale, cases[i].low, cases[i].high, true, 0, 300, 50);
        for (int k = 0; k < a.count; k++) {
            char text[MARKUP_NUMBER], power[MARKUP_NUMBER];
            axis_label(&a, k, text, power);
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s%s%s", k > 0 ? " " : "", text,
                     power[0] ? "^" : "", power);
        }
        at("%g to %g: \"%s\", expected \"%s\"", cases[i].low, cases[i].high, got, cases[i].labels);
        check(strcmp(got, cases[i].labels) == 0);
    }
}

/* Over all that is shown the ends are numbers that the scale has, and ticks and places lie between them. */
static void the_widest_axes_end(void **state)
{
    static const double ends[][2] = {{1e-300, 1e300}, {1e-300, 1}, {1e-300, 1e-300}, {1, 1e300}, {1e300, 1e300}};
    (void)state;
    for (int scale = AXIS_LINEAR; scale <= AXIS_LOG10; scale++)
        for (int64_t i = 0; i < 2 * COUNT_OF(ends); i++) {
            const double *end = ends[i / 2];
            axis a;
            at("scale %d: %g to %g", scale, end[0], end[1]);
            check(axis_holds((axis_scale)scale, end[0]) && axis_holds((axis_scale)scale, end[1]));
            axis_fit(&a, (axis_scale)scale, end[0], end[1], i % 2 > 0, 0, 300, 50);
            check(isfinite(a.high) && a.low < a.high && (scale == AXIS_LINEAR || a.low > 0) && a.count > 0);
            for (int k = 0; k < a.count; k++)
                check(axis_at(&a, a.ticks[k]) > -1 && axis_at(&a, a.ticks[k]) < 301);
        }
    check(!axis_holds(AXIS_LOG10, 2.3e-308) && !axis_holds(AXIS_LOG2, 1e308) && !axis_holds(AXIS_LINEAR, -1e308));
}

static void numbers_read_well(void **state)
{
    static const struct {
        double value;
        const char *number, *power;
    } cases[] = {
        {0.03125, "0.03125", "2\u207B\u2075"},
        {1e-5, "1\u00B710\u207B\u2075", "1\u00B710\u207B\u2075"},
        {128, "128", "128"},
        {NAN, "\u2013", "\u2013"},
        {INFINITY, "diverged", "diverged"},
        {1.23456789, "1.2346", "1.235"},
        {1.5e7, "1.5\u00B710\u2077", "1.5\u00B710\u2077"},
    };
    char text[MARKUP_NUMBER];
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        at("%g", cases[i].value);
        check(strcmp(markup_number(cases[i].value, 5, text), cases[i].number) == 0);
        check(strcmp(markup_power(cases[i].value, text), cases[i].power) == 0);
    }
    check(strcmp(markup_count(-1234567, text), "-1,234,567") == 0);
    check(strcmp(markup_count(123456, text), "123,456") == 0);
    check(strcmp(markup_duration(3725, text), "1 h 02 min") == 0);
    check(strcmp(markup_bytes(1234567, text), "1.2 MB") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(scales_are_what_they_say),
        LAW(ticks_are_round),
        LAW(the_widest_axes_end),
        LAW(numbers_read_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
