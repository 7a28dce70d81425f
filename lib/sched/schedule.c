/* Step sizes of step k of n (k from 0): the schedules of the paper's hyperparameter tables, and the constant
 * ones of its analysis. */
#include "sched/schedule.h"

#include <math.h>
#include <stddef.h>

#include "base/sized_struct.h"

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
    return s->peak / sqrt(k + 1);
}

#define ABOUT(...) .about = {sizeof(scion_schedule_properties), __VA_ARGS__}

/* Columns: name, then whether it reads n, warmup, decay, start, end. */
static const struct {
    scion_schedule_properties about;
    double (*value)(const scion_schedule *s, double k);
} table[] = {
    [SCION_SCHEDULE_CONSTANT] = {ABOUT("constant", 0, 0, 0, 0, 0), constant},
    [SCION_SCHEDULE_LINEAR] = {ABOUT("linear", 1, 0, 0, 0, 0), linear},
    [SCION_SCHEDULE_CONSTANT_LINEAR] = {ABOUT("constant_linear", 1, 1, 1, 1, 0), constant_linear},
    [SCION_SCHEDULE_COSINE] = {ABOUT("cosine", 1, 1, 0, 1, 1), cosine},
    [SCION_SCHEDULE_COSINE_UNSHIFTED] = {ABOUT("cosine_unshifted", 1, 1, 0, 1, 1), cosine_unshifted},
    [SCION_SCHEDULE_INV_SQRT_N] = {ABOUT("inv_sqrt_n", 1, 0, 0, 0, 0), inv_sqrt_n},
    [SCION_SCHEDULE_INV_N34] = {ABOUT("inv_n34", 1, 0, 0, 0, 0), inv_n34},
    [SCION_SCHEDULE_INV_SQRT_K] = {ABOUT("inv_sqrt_k", 0, 0, 0, 0, 0), inv_sqrt_k},
};

enum { kinds = sizeof table / sizeof *table };

const scion_schedule_properties *scion_schedule_info(int32_t kind)
{
    return kind >= 0 && kind < kinds ? &table[kind].about : NULL;
}

static const scion_schedule default_schedule = {.size = sizeof default_schedule};

void scion_schedule_init_sized(scion_schedule *s, size_t size)
{
    scn_struct_give(s, size, &default_schedule, sizeof default_schedule);
}

scion_status scn_schedule_take(scion_schedule *copy, const scion_schedule *s, scion_error *err)
{
    if (!s)
        return scn_fail(err, SCION_EINVAL, -1, "schedule is NULL");
    *copy = default_schedule;
    return scn_struct_take(copy, sizeof *copy, s, offsetof(scion_schedule, reserved), "schedule", -1, err);
}

static scion_status check(const scion_schedule *s, scion_error *err)
{
    const scion_schedule_properties *reads = scion_schedule_info(s->kind);
    if (!reads)
        return scn_fail(err, SCION_EINVAL, -1, "schedule: unknown kind %d", (int)s->kind);
    const char *name = reads->name;
    if (!isfinite(s->peak))
        return scn_fail(err, SCION_EINVAL, -1, "schedule %s: peak is %g", name, s->peak);
    if (reads->n && s->n < 1)
        return scn_fail(err, SCION_EINVAL, -1, "schedule %s: n is %lld, expected at least 1", name, (long long)s->n);
    if (reads->decay && (s->decay < 0 || s->decay > s->n))
        return scn_fail(err, SCION_EINVAL, -1, "schedule %s: decay is %lld, expected 0 to n, which is %lld", name,
                        (long long)s->decay, (long long)s->n);
    if (reads->warmup && (s->warmup < 0 || s->warmup >= s->n))
        return scn_fail(err, SCION_EINVAL, -1,
                        "schedule %s: warmup is %lld, expected 0 or more and below n, which is %lld", name,
                        (long long)s->warmup, (long long)s->n);
    return SCION_OK;
}

scion_status scion_schedule_check(const scion_schedule *s, scion_error *err)
{
    scion_schedule full;
    RETURN_IF_FAILED(scn_schedule_take(&full, s, err));
    RETURN_IF_FAILED(check(&full, err));
    return scn_ok(err);
}

double scion_schedule_value(const scion_schedule *s, int64_t k)
{
    scion_schedule full;
    if (k < 0 || scn_schedule_take(&full, s, NULL) != SCION_OK || check(&full, NULL) != SCION_OK)
        return NAN;
    if (table[full.kind].about.n && k > full.n)
        k = full.n;
    return table[full.kind].value(&full, (double)k);
}
