/* See clock.h. */
#define _POSIX_C_SOURCE 200809L
#include "util/clock.h"

#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clock_thread(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
