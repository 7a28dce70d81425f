/* See regions.h. */
#include "util/regions.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/clock.h"

const char *const regions_part_names[REGIONS_PARTS] = {"other", "forward", "backward", "optimizer"};

enum { max_rows = 512, max_cores = 4096 };

struct regions {
    scn_watch watch; /* first: the loops know nothing else */
    int cores;
    regions_part part;
    double last; /* clock of the calling thread where the time outside loops goes on */
    double serial[REGIONS_PARTS];
    regions_row row[max_rows];
    int rows;
    scn_loop loop;         /* the present one */
    double *task;          /* seconds of its tasks */
    int64_t task_capacity; /* tasks beyond it are not counted: out of memory */
};

scn_watch *scn_watcher;

/* ---- Forecast ------------------------------------------------------------------------------------------------- */

double regions_makespan(const double *seconds, int64_t tasks, int threads, bool dealt)
{
    double busy[max_cores] = {0}, last = 0;
    const int count = (int)scn_max(1, scn_min(threads, max_cores));
    const int64_t each = tasks / count, more = tasks % count; /* the first `more` threads have one more */
    for (int64_t i = 0; i < tasks; i++) {
        int64_t taken = 0;
        if (dealt)
            taken = i < more * (each + 1) ? i / (each + 1) : more + (i - more * (each + 1)) / each;
        for (int64_t k = 1; !dealt && k < count && busy[taken] > 0; k++)
            if (busy[k] < busy[taken])
                taken = k;
        busy[taken] += seconds[i];
        last = last < busy[taken] ? busy[taken] : last;
    }
    return last;
}

/* ---- Watching ------------------------------------------------------------------------------------------------- */

/* Adds the time since the last call, which was spent outside loops, to its part. */
static void count_serial(regions *r)
{
    const double now = clock_thread();
    r->serial[r->part] += now - r->last;
    r->last = now;
}

static void begin_loop(scn_watch *w, const scn_loop *loop)
{
    regions *r = (regions *)(void *)w;
    count_serial(r);
    r->loop = *loop;
    if (loop->tasks > r->task_capacity) {
        double *more = realloc(r->task, (size_t)loop->tasks * sizeof *more);
        if (more) {
            r->task = more;
            r->task_capacity = loop->tasks;
        }
    }
    r->loop.tasks = scn_min(loop->tasks, r->task_capacity);
}

static void end_task(scn_watch *w, int64_t i, double seconds)
{
    regions *r = (regions *)(void *)w;
    if (i < r->task_capacity)
        r->task[i] = seconds;
}

/* The row of the present loop; all that do not fit are counted in the last one. */
static regions_row *find_row(regions *r)
{
    for (int i = 0; i < r->rows; i++) {
        regions_row *row = &r->row[i];
        if (row->part == r->part && row->line == r->loop.line && strcmp(row->file, r->loop.file) == 0)
            return row;
    }
    if (r->rows == max_rows)
        return &r->row[max_rows - 1];
    r->row[r->rows] =
        (regions_row){.part = r->part, .file = r->loop.file, .function = r->loop.function, .line = r->loop.line};
    return &r->row[r->rows++];
}

static void end_loop(scn_watch *w)
{
    regions *r = (regions *)(void *)w;
    regions_row *row = find_row(r);
    double longest = 0;
    for (int64_t i = 0; i < r->loop.tasks; i++) {
        row->work += r->task[i];
        longest = longest < r->task[i] ? r->task[i] : longest;
    }
    row->runs++;
    row->tasks += r->loop.tasks;
    row->longest += longest;
    row->forecast += regions_makespan(r->task, r->loop.tasks, (int)scn_min(r->loop.threads, r->cores), r->loop.dealt);
    r->last = clock_thread(); /* this record is no part of the step */
}

void regions_mark(regions_part part)
{
    regions *r = (regions *)(void *)scn_watcher;
    if (!r)
        return;
    count_serial(r);
    r->part = part;
}

regions *regions_start(int cores, int threads)
{
    regions *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->watch = (scn_watch){threads, begin_loop, end_loop, end_task, clock_thread};
    r->cores = cores;
    r->last = clock_thread();
    scn_watcher = &r->watch;
    return r;
}

void regions_stop(regions *r)
{
    if (!r || scn_watcher != &r->watch)
        return;
    count_serial(r);
    scn_watcher = NULL;
}

void regions_free(regions *r)
{
    if (!r)
        return;
    regions_stop(r);
    free(r->task);
    free(r);
}

/* ---- The record ----------------------------------------------------------------------------------------------- */

int regions_count(const regions *r)
{
    return r->rows;
}

const regions_row *regions_at(const regions *r, int i)
{
    return &r->row[i];
}

double regions_serial(const regions *r, regions_part part)
{
    double sum = 0;
    for (int p = 0; p < REGIONS_PARTS; p++)
        sum += part == REGIONS_PARTS || (int)part == p ? r->serial[p] : 0;
    return sum;
}

static double add_rows(const regions *r, regions_part part, bool forecast)
{
    double sum = regions_serial(r, part);
    for (int i = 0; i < r->rows; i++)
        if (part == REGIONS_PARTS || r->row[i].part == part)
            sum += forecast ? r->row[i].forecast : r->row[i].work;
    return sum;
}

double regions_work(const regions *r, regions_part part)
{
    return add_rows(r, part, false);
}

double regions_forecast(const regions *r, regions_part part)
{
    return add_rows(r, part, true);
}
