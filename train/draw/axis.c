/* See axis.h. */
#include "draw/axis.h"

#include <math.h>

/* Values that an axis can show: margins, differences and products with pixels stay within double. */
static const double smallest = 1e-300, largest = 1e300;

bool axis_holds(axis_scale scale, double value)
{
    return fabs(value) <= largest && (scale == AXIS_LINEAR || value >= smallest);
}

/* A value on the scale, and back. */
static double to_scale(axis_scale scale, double v)
{
    return scale == AXIS_LINEAR ? v : scale == AXIS_LOG2 ? log2(v) : log10(v);
}

static double from_scale(axis_scale scale, double v)
{
    return scale == AXIS_LINEAR ? v : scale == AXIS_LOG2 ? exp2(v) : pow(10, v);
}

double axis_at(const axis *a, double value)
{
    const double low = to_scale(a->scale, a->low), high = to_scale(a->scale, a->high);
    return a->from + (a->to - a->from) * (to_scale(a->scale, value) - low) / (high - low);
}

static void add(axis *a, double value)
{
    const double slack = 1e-9 * fabs(to_scale(a->scale, a->high) - to_scale(a->scale, a->low));
    const double at = to_scale(a->scale, value);
    if (a->count < AXIS_TICKS && at >= to_scale(a->scale, a->low) - slack &&
        at <= to_scale(a->scale, a->high) + slack)
        a->ticks[a->count++] = value;
}

/* Round steps, at most `max_ticks` ticks. */
static void linear_ticks(axis *a, int max_ticks)
{
    static const double nice[] = {1, 2, 2.5, 5, 10};
    const double rough = (a->high - a->low) / max_ticks, power = pow(10, floor(log10(rough)));
    double step = 10 * power;
    for (int i = 4; i >= 0; i--)
        if (nice[i] * power >= rough * (1 - 1e-9))
            step = nice[i] * power;
    a->decimals = 0;
    for (double s = step; a->decimals < 12 && fabs(s - round(s)) > 1e-6; s *= 10)
        a->decimals++;
    a->count = 0;
    for (double k = ceil(a->low / step - 1e-9); k * step <= a->high * (1 + 1e-12) + 1e-9 * step; k++)
        add(a, k == 0 ? 0 : k * step);
}

static void log2_ticks(axis *a, int max_ticks)
{
    const int first = (int)ceil(log2(a->low) - 1e-9), last = (int)floor(log2(a->high) + 1e-9);
    const int every = (last - first) / max_ticks + 1;
    a->count = 0;
    for (int e = first; e <= last; e += every)
        add(a, ldexp(1, e));
}

/* The densest of 1 2 5, 1 3 and 1 in each decade that fits, or every n-th decade. */
static void log10_ticks(axis *a, int max_ticks)
{
    static const struct {
        int count, parts[3];
    } kinds[] = {{3, {1, 2, 5}}, {2, {1, 3}}, {1, {1}}};
    const int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    const double decades = log10(a->high) - log10(a->low);
    int kind = 0;
    while (kind < 2 && kinds[kind].count * decades >= max_ticks)
        kind++;
    const int every = kind < 2 ? 1 : (last - first) / max_ticks + 1;
    a->count = 0;
    for (int e = first; e <= last; e += every)
        for (int k = 0; k < kinds[kind].count; k++)
            add(a, kinds[kind].parts[k] * pow(10, e));
    if (a->count < 3 && decades < 1) /* a small part of a decade is nearly straight */
        linear_ticks(a, max_ticks);
}

void axis_fit(axis *a, axis_scale scale, double low, double high, bool tight, double from, double to, double apart)
{
    int max_ticks = (int)(fabs(to - from) / apart);
    max_ticks = max_ticks < 2 ? 2 : max_ticks > AXIS_TICKS - 1 ? AXIS_TICKS - 1 : max_ticks;
    if (!(low <= high)) {
        low = scale == AXIS_LINEAR ? 0 : 1;
        high = scale == AXIS_LINEAR ? 1 : 8;
    }
    double l = to_scale(scale, low), h = to_scale(scale, high);
    if (h - l < 1e-9 * (1 + fabs(h))) { /* one value */
        const double around = scale == AXIS_LINEAR ? 0.1 * fabs(h) + (h == 0) : 1;
        l -= around;
        h += around;
    } else if (scale == AXIS_LOG2 && h - l < 2) {
        l = floor(l + 1e-9);
        h = ceil(h - 1e-9);
    }
    if (!tight) {
        const double margin = 0.05 * (h - l);
        const bool ground = scale == AXIS_LINEAR && low >= 0 && l - margin < 0; /* not below zero without need */
        l = ground ? 0 : l - margin;
        h += margin;
    }
    l = fmax(l, scale == AXIS_LINEAR ? -largest : to_scale(scale, smallest));
    h = fmin(h, to_scale(scale, largest));
    *a = (axis){.scale = scale, .low = from_scale(scale, l), .high = from_scale(scale, h), .from = from, .to = to};
    if (scale == AXIS_LINEAR)
        linear_ticks(a, max_ticks);
    else if (scale == AXIS_LOG2)
        log2_ticks(a, max_ticks);
    else
        log10_ticks(a, max_ticks);
}

/* 20000 -> 20k, where the label would be long. */
static void plain_label(double value, int decimals, char text[MARKUP_NUMBER])
{
    if (fabs(value) >= 1e6 && fabs(value) < 1e9)
        snprintf(text, MARKUP_NUMBER, "%gM", value / 1e6);
    else if (fabs(value) >= 1e9 || (value != 0 && fabs(value) < 1e-4))
        markup_number(value, 3, text);
    else if (fabs(value) >= 10000 && fmod(value, 100) == 0)
        snprintf(text, MARKUP_NUMBER, "%gk", value / 1e3);
    else
        snprintf(text, MARKUP_NUMBER, "%.*f", decimals, value);
}

void axis_label(const axis *a, int i, char text[MARKUP_NUMBER], char power[MARKUP_NUMBER])
{
    const double value = a->ticks[i];
    power[0] = '\0';
    if (a->scale == AXIS_LOG2 && a->low < 0.75 && value != 1) {
        snprintf(text, MARKUP_NUMBER, "2");
        snprintf(power, MARKUP_NUMBER, "%d", (int)lround(log2(value)));
    } else if (a->scale == AXIS_LOG10 && a->decimals == 0 && (a->low < 1e-3 || a->high > 1e5) && value != 1 &&
               value != 10 && fabs(log10(value) - round(log10(value))) < 1e-9) {
        snprintf(text, MARKUP_NUMBER, "10");
        snprintf(power, MARKUP_NUMBER, "%d", (int)lround(log10(value)));
    } else if (a->scale == AXIS_LINEAR || a->decimals > 0) {
        plain_label(value, a->decimals, text);
    } else if (value >= 10000) {
        plain_label(value, 0, text);
    } else {
        markup_number(value, 4, text);
    }
}
