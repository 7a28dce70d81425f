/* See statistics.h. */
#include "util/statistics.h"

#include <math.h>
#include <stdio.h>

void stat_add(stat_sample *s, double value)
{
    const double off = value - s->mean;
    s->low = s->count == 0 ? value : fmin(s->low, value);
    s->high = s->count == 0 ? value : fmax(s->high, value);
    s->count++;
    s->mean += off / (double)s->count;
    s->squares += off * (value - s->mean);
}

double stat_deviation(const stat_sample *s)
{
    return s->count > 1 ? sqrt(s->squares / (double)(s->count - 1)) : NAN;
}

const char *stat_text(const stat_sample *s, char text[32])
{
    const double deviation = stat_deviation(s);
    if (isnan(deviation))
        snprintf(text, 32, "%.4f", s->mean);
    else
        snprintf(text, 32, "%.4f(%.0f)", s->mean, fmin(1e4 * deviation, 1e9));
    return text;
}

void stat_pool_add(stat_pool *p, const stat_sample *s)
{
    if (s->count > 1) {
        p->squares += s->squares;
        p->freedom += s->count - 1;
    }
}

double stat_student(int64_t freedom)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                   2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    enum { rows = sizeof table / sizeof *table };
    if (freedom < 1)
        return INFINITY;
    const double d = (double)freedom;
    /* The first terms of the expansion around the normal distribution, right to 0.001 from 20 on. */
    return freedom <= rows ? table[freedom - 1] : 1.95996 + 2.37227 / d + 2.82250 / (d * d);
}

double stat_error(const stat_pool *p, double inverse)
{
    return p->freedom > 0 ? stat_student(p->freedom) * sqrt(p->squares / (double)p->freedom * inverse) : NAN;
}

stat_estimate stat_mean(const stat_sample *s)
{
    stat_pool p = {0, 0};
    stat_pool_add(&p, s);
    return (stat_estimate){s->count > 0 ? s->mean : NAN, stat_error(&p, 1 / (double)s->count)};
}

stat_estimate stat_difference(const stat_sample *a, const stat_sample *b, const stat_pool *p)
{
    if (a->count == 0 || b->count == 0)
        return (stat_estimate){NAN, NAN};
    return (stat_estimate){b->mean - a->mean, stat_error(p, 1 / (double)a->count + 1 / (double)b->count)};
}

/* ---- Verdicts ------------------------------------------------------------------------------------------------- */

const char *stat_name(stat_finding f)
{
    static const char *const names[] = {"kept", "failed", "undecided"};
    return names[f];
}

stat_finding stat_range_within(double low, double high, double min, double max)
{
    if (low >= min && high <= max)
        return STAT_KEPT;
    return high < min || low > max ? STAT_FAILED : STAT_UNDECIDED; /* NAN compares false */
}

stat_finding stat_within(stat_estimate e, double min, double max)
{
    return stat_range_within(e.value - e.error, e.value + e.error, min, max);
}

stat_finding stat_opposite(stat_finding f)
{
    return f == STAT_KEPT ? STAT_FAILED : f == STAT_FAILED ? STAT_KEPT : STAT_UNDECIDED;
}

/* ---- Curves --------------------------------------------------------------------------------------------------- */

/* Newton's form y = y0 + d (x - x0) + c (x - x0)(x - x1), whose derivative is 0 at the vertex. */
static void parabola(const double x[3], const double y[3], stat_minimum *m)
{
    const double d = (y[1] - y[0]) / (x[1] - x[0]);
    const double c = ((y[2] - y[1]) / (x[2] - x[1]) - d) / (x[2] - x[0]);
    if (!(c > 0)) /* all three are equal */
        return;
    m->x = (x[0] + x[1]) / 2 - d / (2 * c);
    m->y = y[0] + d * (m->x - x[0]) + c * (m->x - x[0]) * (m->x - x[1]);
}

stat_minimum stat_lowest(const double *x, const double *y, int64_t count)
{
    stat_minimum m = {.at = -1, .x = NAN, .y = NAN};
    for (int64_t i = 0; i < count; i++)
        if (isfinite(y[i]) && (m.at < 0 || y[i] < y[m.at]))
            m.at = i;
    if (m.at < 0)
        return m;
    m.x = x[m.at];
    m.y = y[m.at];
    m.at_edge = m.at == 0 || m.at == count - 1 || isnan(y[m.at - 1]) || isnan(y[m.at + 1]);
    if (!m.at_edge && isfinite(y[m.at - 1]) && isfinite(y[m.at + 1]))
        parabola(x + m.at - 1, y + m.at - 1, &m);
    return m;
}

double stat_slope(const double *x, const double *y, int64_t count)
{
    const double n = (double)count;
    double sx = 0, sy = 0, xx = 0, xy = 0;
    for (int64_t i = 0; i < count; i++) {
        sx += x[i];
        sy += y[i];
        xx += x[i] * x[i];
        xy += x[i] * y[i];
    }
    return count >= 2 ? (n * xy - sx * sy) / (n * xx - sx * sx) : NAN;
}
