/* Watched loops: their tasks are counted, time outside them is serial, and a forecast divides the tasks as OpenMP
 * would. Nothing here depends on how long anything takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "util/regions.h"

static const double tolerance = 1e-12; /* sums of a few numbers near 1 */

static void tasks_are_divided_as_openmp_would(void **state)
{
    static const struct {
        double seconds[6];
        int64_t tasks;
        int threads;
        double taken, dealt;
    } cases[] = {
        {{1, 1, 1, 1, 1, 1}, 6, 1, 6, 6},
        {{1, 1, 1, 1, 1, 1}, 6, 2, 3, 3},
        {{1, 1, 1, 1, 1, 1}, 6, 4, 2, 2}, /* as three cores would */
        {{1, 1, 1, 1, 1, 1}, 6, 64, 1, 1},
        {{5, 1, 1, 1, 1, 1}, 6, 2, 5, 7}, /* the other thread takes the rest, or its three of them */
        {{1, 1, 1, 1, 1, 5}, 6, 2, 7, 7}, /* the long one begins last */
        {{0, 0, 0, 3, 2, 2}, 6, 3, 3, 4},
        {{1}, 0, 4, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_float_equal(regions_makespan(cases[i].seconds, cases[i].tasks, cases[i].threads, false),
                           cases[i].taken, tolerance);
        assert_float_equal(regions_makespan(cases[i].seconds, cases[i].tasks, cases[i].threads, true), cases[i].dealt,
                           tolerance);
    }
}

static void add(int *sums, int64_t i)
{
    sums[i] += (int)i;
}

/* A loop that asks for `threads` threads. */
static void run_loop(int threads, int64_t tasks, int *sums)
{
    SCN_PARALLEL(threads, i, tasks, add(sums, i));
}

static void loops_are_counted_while_they_are_watched(void **state)
{
    enum { tasks = 100 };
    int sums[tasks] = {0};
    (void)state;
    run_loop(2, tasks, sums); /* not watched */
    regions *r = regions_start(64, 2);
    assert_non_null(r);
    regions_mark(REGIONS_FORWARD);
    for (int k = 0; k < 3; k++)
        run_loop(64, tasks, sums);
    run_loop(1, tasks, sums); /* one thread: no parallel loop */
    regions_mark(REGIONS_BACKWARD);
    SCN_PARALLEL_FOR_STATIC(3, i, 7) {
        sums[i]++;
    }
    regions_stop(r);
    run_loop(2, tasks, sums);
    for (int i = 0; i < tasks; i++)
        assert_int_equal(sums[i], 6 * i + (i < 7));

    assert_int_equal(regions_count(r), 2);
    const regions_row *forward = regions_at(r, 0), *backward = regions_at(r, 1);
    assert_int_equal(forward->part, REGIONS_FORWARD);
    assert_string_equal(forward->function, "run_loop");
    assert_int_equal(forward->runs, 3);
    assert_int_equal(forward->tasks, 3 * tasks);
    assert_int_equal(backward->part, REGIONS_BACKWARD);
    assert_int_equal(backward->tasks, 7);
    for (int i = 0; i < 2; i++) {
        const regions_row *row = regions_at(r, i);
        assert_true(row->longest >= 0 && row->longest <= row->forecast + tolerance);
        assert_true(row->forecast <= row->work + tolerance);
    }
    double work = 0, forecast = 0;
    for (regions_part p = 0; p < REGIONS_PARTS; p++) {
        assert_true(regions_serial(r, p) >= 0);
        assert_true(regions_serial(r, p) <= regions_forecast(r, p) && regions_forecast(r, p) <= regions_work(r, p));
        work += regions_work(r, p);
        forecast += regions_forecast(r, p);
    }
    assert_float_equal(regions_work(r, REGIONS_PARTS), work, tolerance);
    assert_float_equal(regions_forecast(r, REGIONS_PARTS), forecast, tolerance);
    regions_free(r);
    regions_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tasks_are_divided_as_openmp_would),
                                       cmocka_unit_test(loops_are_counted_while_they_are_watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
