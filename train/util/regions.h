/* Time of a training step inside and outside parallel loops (base/thread.h), and a forecast of the step on another
 * number of cores. `scion bench` watches a few steps; nothing is recorded otherwise.
 *
 * The time of each task is measured where it runs, as computing time of its thread. The forecast gives the tasks of
 * each loop to so many cores, as OpenMP would, and adds the time outside loops: Amdahl's law and imbalance. More
 * cores share the bandwidth of the memory, wake more slowly and run at lower clock rates; none of that is in it. */
#ifndef TRAIN_UTIL_REGIONS_H
#define TRAIN_UTIL_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum regions_part {
    REGIONS_OTHER, /* data, sums, checks, bookkeeping */
    REGIONS_FORWARD,
    REGIONS_BACKWARD,
    REGIONS_OPTIMIZER,
    REGIONS_PARTS
} regions_part;

extern const char *const regions_part_names[REGIONS_PARTS];

/* The part of a step that begins here. */
void regions_mark(regions_part part);

/* One loop in one part of the step; times are of all watched steps, in seconds. */
typedef struct regions_row {
    regions_part part;
    const char *file, *function;
    int line;
    int64_t runs, tasks;
    double work;     /* of its tasks, on one core */
    double longest;  /* sum over its runs of their longest task: work / longest is a number of equal tasks */
    double forecast; /* on `cores` cores */
} regions_row;

typedef struct regions regions;

/* Watches all loops from now on; one at a time. cores: those of the forecast, for which the loops were planned;
 * threads: those that run them here. NULL: out of memory. */
regions *regions_start(int cores, int threads);
/* Ends it. The record stays until it is freed; NULL is fine. */
void regions_stop(regions *r);
void regions_free(regions *r);

int regions_count(const regions *r);
const regions_row *regions_at(const regions *r, int i);
/* Seconds outside loops in a part of the steps. */
double regions_serial(const regions *r, regions_part part);
/* Seconds of the steps' part, or with REGIONS_PARTS of all: on one core, and the forecast. */
double regions_work(const regions *r, regions_part part);
double regions_forecast(const regions *r, regions_part part);

/* Time until tasks that take these seconds are done by so many threads, each of which takes the next when it is free,
 * or (dealt) has an equal run of them. */
double regions_makespan(const double *seconds, int64_t tasks, int threads, bool dealt);

#endif
