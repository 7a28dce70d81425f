/* Samples, intervals and verdicts against values from tables and by hand; vertices of parabolas that are known. */
#include "tiny.h"

#include "support.h"

#include "util/statistics.h"

static stat_sample sample_of(const double *values, int count)
{
    stat_sample s = {0};
    for (int i = 0; i < count; i++)
        stat_add(&s, values[i]);
    return s;
}

static void samples_have_mean_deviation_and_ends(void **state)
{
    static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    const stat_sample s = sample_of(values, 8), one = sample_of(values, 1);
    (void)state;
    near("mean", s.mean, 5, 1e-15);
    near("deviation", stat_deviation(&s), sqrt(32.0 / 7), 1e-14);
    check(s.low == 2 && s.high == 9 && s.count == 8);
    check(isnan(stat_deviation(&one)) && isnan(stat_mean(&one).error) && stat_mean(&one).value == 2);
}

/* A large offset costs no digits. */
static void far_from_zero_deviations_are_the_same(void **state)
{
    const double near_zero[] = {1, 2, 4}, far[] = {1 + 1e9, 2 + 1e9, 4 + 1e9};
    const stat_sample a = sample_of(near_zero, 3), b = sample_of(far, 3);
    (void)state;
    near("deviation", stat_deviation(&b), stat_deviation(&a), 1e-6);
}

/* The 97.5 % quantiles of tables; above the rows of ours, the expansion. */
static void students_quantiles(void **state)
{
    static const struct {
        int64_t freedom;
        double t;
    } rows[] = {{1, 12.706}, {2, 4.303}, {4, 2.776}, {8, 2.306}, {20, 2.086}, {21, 2.080}, {30, 2.042}, {120, 1.980}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(rows); i++)
        near("t", stat_student(rows[i].freedom), rows[i].t, 6e-4);
    check(isinf(stat_student(0)));
    for (int64_t d = 1; d < 200; d++)
        check(stat_student(d) > stat_student(d + 1));
}

/* Three seeds: mean +- 4.303 s / sqrt(3); two samples of three with a common s: +- 2.776 s sqrt(2/3). */
static void intervals_by_hand(void **state)
{
    static const double a[] = {1, 2, 3}, b[] = {5, 6, 7};
    const stat_sample x = sample_of(a, 3), y = sample_of(b, 3), none = {0};
    stat_pool p = {0, 0};
    (void)state;
    near("error", stat_mean(&x).error, 4.303 / sqrt(3), 1e-12);
    check(isnan(stat_difference(&x, &y, &p).error)); /* an empty pool */
    stat_pool_add(&p, &x);
    stat_pool_add(&p, &y);
    check(p.freedom == 4 && p.squares == 4);
    const stat_estimate e = stat_difference(&x, &y, &p);
    near("difference", e.value, 4, 1e-15);
    near("its error", e.error, 2.776 * sqrt(2.0 / 3), 1e-12);
    check(isnan(stat_difference(&none, &y, &p).value));
}

static void findings_follow_the_interval(void **state)
{
    static const struct {
        stat_estimate e;
        stat_finding finding;
    } cases[] = {
        {{0, 0.5}, STAT_KEPT},        {{0.5, 0.5}, STAT_KEPT},      {{-1, 0}, STAT_KEPT},
        {{0.8, 0.3}, STAT_UNDECIDED}, {{1.2, 0.3}, STAT_UNDECIDED}, {{1.4, 0.3}, STAT_FAILED},
        {{-1.4, 0.3}, STAT_FAILED},   {{0, 2}, STAT_UNDECIDED},     {{0, NAN}, STAT_UNDECIDED},
        {{NAN, 0}, STAT_UNDECIDED},   {{5, NAN}, STAT_UNDECIDED},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        at("%g +- %g", cases[i].e.value, cases[i].e.error);
        check(stat_within(cases[i].e, -1, 1) == cases[i].finding);
    }
    check(stat_within((stat_estimate){3, 1}, 0, INFINITY) == STAT_KEPT);
    check(stat_within((stat_estimate){-3, 1}, 0, INFINITY) == STAT_FAILED);
    check(stat_range_within(-INFINITY, -2, -1, 1) == STAT_FAILED);
    check(stat_range_within(-INFINITY, 0, -1, 1) == STAT_UNDECIDED);
    check(stat_opposite(STAT_KEPT) == STAT_FAILED && stat_opposite(STAT_FAILED) == STAT_KEPT);
    check(stat_opposite(STAT_UNDECIDED) == STAT_UNDECIDED);
    check(strcmp(stat_name(STAT_UNDECIDED), "undecided") == 0);
}

/* On any grid, also an uneven one, the vertex of a parabola is found. */
static void vertices_of_parabolas(void **state)
{
    static const double grids[][5] = {{-6, -5, -4, -3, -2}, {-9, -6, -4.5, -4, 0}};
    (void)state;
    for (int64_t g = 0; g < COUNT_OF(grids); g++)
        for (double top = -4.9; top < -4; top += 0.1) {
            double y[5];
            for (int i = 0; i < 5; i++)
                y[i] = 3 + 0.7 * (grids[g][i] - top) * (grids[g][i] - top);
            const stat_minimum m = stat_lowest(grids[g], y, 5);
            near("x", m.x, top, 1e-12);
            near("y", m.y, 3, 1e-12);
            check(!m.at_edge && m.at > 0 && m.at < 4);
        }
}

/* The ends of a grid, values that are missing (NAN) and diverged ones (INFINITY). */
static void edges_and_gaps(void **state)
{
    static const double x[] = {-3, -2, -1};
    static const struct {
        double y[3];
        int64_t at;
        double best;
        bool at_edge;
    } cases[] = {
        {{1, 2, 3}, 0, -3, true},   {{3, 2, 1}, 2, -1, true},         {{2, 1, NAN}, 1, -2, true},
        {{NAN, 1, 2}, 1, -2, true}, {{2, 1, INFINITY}, 1, -2, false}, {{NAN, 1, NAN}, 1, -2, true},
        {{1, 1, 1}, 0, -3, true},   {{2, 1, 2}, 1, -2, false},        {{INFINITY, INFINITY, 1}, 2, -1, true},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        const stat_minimum m = stat_lowest(x, cases[i].y, 3);
        at("case %lld: %g at %lld", (long long)i, m.x, (long long)m.at);
        check(m.at == cases[i].at && m.x == cases[i].best && m.at_edge == cases[i].at_edge);
    }
    static const double nothing[] = {NAN, INFINITY, NAN};
    check(stat_lowest(x, nothing, 3).at == -1 && stat_lowest(x, nothing, 0).at == -1);
    check(stat_lowest(x, cases[0].y, 1).at_edge);
}

static void slopes_by_least_squares(void **state)
{
    static const double x[] = {1, 2, 4}, line[] = {5, 3, -1}, bent[] = {0, 1, 1};
    (void)state;
    near("line", stat_slope(x, line, 3), -2, 1e-14);
    near("by hand", stat_slope(x, bent, 3), 2.0 / 7, 1e-14);
    check(isnan(stat_slope(x, line, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(samples_have_mean_deviation_and_ends),
        LAW(far_from_zero_deviations_are_the_same),
        LAW(students_quantiles),
        LAW(intervals_by_hand),
        LAW(findings_follow_the_interval),
        LAW(vertices_of_parabolas),
        LAW(edges_and_gaps),
        LAW(slopes_by_least_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
