/* See bench_cores.h. */
#include "bench_cores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util/json.h"

enum { shown_loops = 10, shown_losses = 3 };
static const double least_share = 0.02; /* of the step's work: loops below it are not shown */

/* The parts in the order of a step, then the step. */
static const regions_part order[] = {REGIONS_FORWARD, REGIONS_BACKWARD, REGIONS_OPTIMIZER, REGIONS_OTHER,
                                     REGIONS_PARTS};
enum { orders = sizeof order / sizeof *order };

static const char *name_of(regions_part part)
{
    return part == REGIONS_PARTS ? "step" : regions_part_names[part];
}

/* "function (file.c:12)". */
static const char *loop_name(const regions_row *row, char text[80])
{
    const char *slash = strrchr(row->file, '/');
    snprintf(text, 80, "%s (%s:%d)", row->function, slash ? slash + 1 : row->file, row->line);
    return text;
}

/* ---- Loops by a quantity, the largest first ------------------------------------------------------------------- */

typedef struct loop {
    const regions_row *row;
    double by;
} loop;

static int larger_first(const void *x, const void *y)
{
    const loop *a = x, *b = y;
    return (a->by < b->by) - (a->by > b->by);
}

/* cores 0: by work; else by the seconds that are lost where the work is not divided evenly among so many. */
static loop *sort_loops(const regions *r, int cores)
{
    const int count = regions_count(r);
    loop *sorted = malloc((size_t)(count + 1) * sizeof *sorted);
    for (int i = 0; sorted && i < count; i++) {
        const regions_row *row = regions_at(r, i);
        sorted[i] = (loop){row, cores > 0 ? row->forecast - row->work / cores : row->work};
    }
    if (sorted)
        qsort(sorted, (size_t)count, sizeof *sorted, larger_first);
    return sorted;
}

/* True of loops that multiply matrices, which are in these files; all others mostly read and write memory. */
static bool multiplies(const regions_row *row)
{
    static const char *const files[] = {"/gemm.c", "/attention.c", "/convolution.c"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *at = strstr(row->file, files[i]);
        if (at && at[strlen(files[i])] == '\0')
            return true;
    }
    return false;
}

bench_products bench_products_of(const regions *r, int steps)
{
    double products = 0;
    for (int i = 0; i < regions_count(r); i++) {
        const regions_row *row = regions_at(r, i);
        if ((row->part == REGIONS_FORWARD || row->part == REGIONS_BACKWARD) && multiplies(row))
            products += row->work;
    }
    const double all = regions_work(r, REGIONS_FORWARD) + regions_work(r, REGIONS_BACKWARD);
    return (bench_products){products / steps, all > 0 ? products / all : 0};
}

static double equal_tasks(const regions_row *row)
{
    return row->longest > 0 ? row->work / row->longest : 0;
}

static void print_loops(const regions *r, int steps)
{
    char text[80];
    loop *sorted = sort_loops(r, 0);
    const double all = regions_work(r, REGIONS_PARTS);
    printf("%-10s %-36s %9s %6s %6s %7s %10s\n", "large loops", "", "one core", "share", "runs", "tasks", "as equal");
    for (int i = 0; sorted && i < regions_count(r) && i < shown_loops && sorted[i].by >= least_share * all; i++) {
        const regions_row *row = sorted[i].row;
        printf("  %-9s %-36s %6.1f ms %5.1f%% %6.0f %7.0f %10.1f\n", name_of(row->part), loop_name(row, text),
               1e3 * row->work / steps, 100 * row->work / all, (double)row->runs / steps,
               (double)row->tasks / (double)row->runs, equal_tasks(row));
    }
    free(sorted);
}

void bench_cores_print(const regions *r, int steps)
{
    printf("%-12s %12s %12s %8s\n", "part", "one core", "serial", "share");
    for (int i = 0; i < orders; i++) {
        const double work = regions_work(r, order[i]), serial = regions_serial(r, order[i]);
        printf("  %-10s %9.1f ms %9.2f ms %7.2f%%\n", name_of(order[i]), 1e3 * work / steps, 1e3 * serial / steps,
               work > 0 ? 100 * serial / work : 0);
    }
    print_loops(r, steps);
}

json_t *bench_cores_json(const regions *r, int steps)
{
    json_t *parts = json_object(), *loops = json_array();
    char text[80];
    for (int i = 0; i < orders; i++)
        json_object_set_new(parts, name_of(order[i]),
                            json_pack("{s:f, s:f}", "one_core_ms", 1e3 * regions_work(r, order[i]) / steps,
                                      "serial_ms", 1e3 * regions_serial(r, order[i]) / steps));
    loop *sorted = sort_loops(r, 0);
    for (int i = 0; sorted && i < regions_count(r); i++) {
        const regions_row *row = sorted[i].row;
        json_array_append_new(loops,
                              json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "part", name_of(row->part), "loop",
                                        loop_name(row, text), "one_core_ms", 1e3 * row->work / steps, "runs",
                                        (double)row->runs / steps, "tasks", (double)row->tasks / (double)row->runs,
                                        "equal_tasks", equal_tasks(row)));
    }
    free(sorted);
    return json_pack("{s:o, s:o}", "parts", parts, "loops", loops);
}

/* ---- Forecast ------------------------------------------------------------------------------------------------- */

void bench_forecast_print(const regions *r, int steps, int cores, double one_core)
{
    char text[80], parts[240] = "", losses[400] = "";
    const double step = regions_forecast(r, REGIONS_PARTS) / steps;
    for (int i = 0; i + 1 < orders; i++)
        snprintf(parts + strlen(parts), sizeof parts - strlen(parts), "%s %.1f ms, ", name_of(order[i]),
                 1e3 * regions_forecast(r, order[i]) / steps);
    cli_fill(stdout, 2, "forecast for %d cores: %sstep %.1f ms, %.1f times one core, efficiency %.0f%%", cores, parts,
             1e3 * step, one_core / step, 100 * one_core / step / cores);
    loop *sorted = sort_loops(r, cores);
    for (int i = 0; sorted && i < regions_count(r) && i < shown_losses; i++)
        snprintf(losses + strlen(losses), sizeof losses - strlen(losses), ", %s %s %.1f ms",
                 name_of(sorted[i].row->part), loop_name(sorted[i].row, text), 1e3 * sorted[i].by / steps);
    cli_fill(stdout, 4, "  lost there: serial time %.1f ms%s",
             1e3 * (1 - 1.0 / cores) * regions_serial(r, REGIONS_PARTS) / steps, losses);
    free(sorted);
}

json_t *bench_forecast_json(const regions *r, int steps, int cores, double one_core)
{
    json_t *out = json_pack("{s:i, s:f}", "cores", cores, "efficiency",
                            one_core * steps / regions_forecast(r, REGIONS_PARTS) / cores);
    char key[32];
    for (int i = 0; i < orders; i++) {
        snprintf(key, sizeof key, "%s_ms", name_of(order[i]));
        json_object_set_new(out, key, json_real(1e3 * regions_forecast(r, order[i]) / steps));
    }
    return out;
}

void bench_forecast_note(void)
{
    cli_fill(
        stdout, 0,
        "A forecast is no measurement: it counts serial time and uneven tasks alone. Memory bandwidth, which all "
        "cores share, is not in it, nor are caches, clock rates and the time to wake threads.");
}
