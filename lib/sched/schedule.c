/* Step sizes of step k of n (k from 0): the schedules of the paper's hyperparameter tables, and the constant
 * ones of its analysis. */
#include "sched/schedule.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "scion.h"

static double constant(const scion_schedule *s, double k)
{
    (void)k;
    return s->peak;
}

static double linear(const scion_schedule *s, double k)
{
    return s->peak * (1 - k / (double)s->n);
}

/* The rise from start to peak, or -1 after it. */
static double rise(const scion_schedule *s, double k)
{
    return k < (double)s->warmup ? s->start + (s->peak - s->start) * k / (double)s->warmup : -1;
}

static double constant_linear(const scion_schedule *s, double k)
{
    const double n = (double)s->n, m = (double)s->decay, rising = rise(s, k);
    if (rising >= 0)
        return rising;
    if (k < n - m)
        return s->peak;
    return m > 0 ? s->peak * (n - k) / m : 0;
}

static double half_cosine(const scion_schedule *s, double part)
{
    return s->end + (s->peak - s->end) * (1 + cos(3.14159265358979323846 * part)) / 2;
}

static double cosine(const scion_schedule *s, double k)
{
    const double w = (double)s->warmup, rising = rise(s, k);
    return rising >= 0 ? rising : half_cosine(s, (k - w) / ((double)s->n - w));
}

static double cosine_unshifted(const scion_schedule *s, double k)
{
    const double rising = rise(s, k);
    return rising >= 0 ? rising : half_cosine(s, k / (double)s->n);
}

static double inv_sqrt_n(const scion_schedule *s, double k)
{
    (void)k;
    return s->peak / sqrt((double)s->n);
}

static double inv_n34(const scion_schedule *s, double k)
{
    (void)k;
    return s->peak * 0.75 / pow((double)s->n, 0.75);
}

static double inv_sqrt_k(const scion_schedule *s, double k)
{
    return s->peak / sqrt(k);
}

static const struct {
    const char *name;
    double (*value)(const scion_schedule *s, double k);
} table[] = {
    [SCION_SCHEDULE_CONSTANT] = {"constant", constant},
    [SCION_SCHEDULE_LINEAR] = {"linear", linear},
    [SCION_SCHEDULE_CONSTANT_LINEAR] = {"constant_linear", constant_linear},
    [SCION_SCHEDULE_COSINE] = {"cosine", cosine},
    [SCION_SCHEDULE_COSINE_UNSHIFTED] = {"cosine_unshifted", cosine_unshifted},
    [SCION_SCHEDULE_INV_SQRT_N] = {"inv_sqrt_n", inv_sqrt_n},
    [SCION_SCHEDULE_INV_N34] = {"inv_n34", inv_n34},
    [SCION_SCHEDULE_INV_SQRT_K] = {"inv_sqrt_k", inv_sqrt_k},
};

enum { kinds = sizeof table / sizeof *table };

const char *scn_schedule_name(int kind)
{
    return kind >= 0 && kind < kinds ? table[kind].name : NULL;
}

double scion_schedule_value(const scion_schedule *s, int64_t k)
{
    if (!s || s->size < sizeof *s || (unsigned)s->kind >= kinds || k < 0 || !isfinite(s->peak))
        return NAN;
    const scion_schedule_kind kind = s->kind;
    if (kind != SCION_SCHEDULE_CONSTANT && kind != SCION_SCHEDULE_INV_SQRT_K && s->n < 1)
        return NAN;
    if (kind == SCION_SCHEDULE_INV_SQRT_K && k < 1)
        return NAN;
    const bool falls = kind == SCION_SCHEDULE_CONSTANT_LINEAR;
    const bool rises = falls || kind == SCION_SCHEDULE_COSINE || kind == SCION_SCHEDULE_COSINE_UNSHIFTED;
    if (falls && (s->decay < 0 || s->decay > s->n))
        return NAN;
    if (rises && (s->warmup < 0 || s->warmup >= s->n))
        return NAN;
    return table[kind].value(s, (double)k);
}
