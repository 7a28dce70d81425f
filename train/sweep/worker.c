/* See worker.h. */
#include "sweep/worker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Heartbeats come every second, but a machine that sleeps or swaps may be late by much. */
static const double longest_silence = 120;
/* The clock of another machine may be ahead by an hour of summer time. A time beyond that is no clock and says
 * nothing about its worker. */
static const double farthest_ahead = 4000;

/* Field 22 of /proc/PID/stat, in clock ticks since boot; 0: there is no such process (or no /proc). */
static unsigned long long start_of(long pid)
{
    char path[64], text[1024];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    const size_t length = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[length] = '\0';
    const char *at = strrchr(text, ')'); /* the name, field 2, may hold anything */
    char state = 'Z';
    if (at)
        sscanf(at + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
               &start);
    return state == 'Z' || state == 'X' ? 0 : start; /* a zombie does no work */
}

static void host_name(char host[64])
{
    if (gethostname(host, 64) != 0)
        snprintf(host, 64, "?");
    host[63] = '\0';
    for (char *s = host; *s; s++)
        if (*s == ' ')
            *s = '_';
}

void worker_name(char name[WORKER_TEXT])
{
    char host[64];
    const long pid = (long)getpid();
    host_name(host);
    snprintf(name, WORKER_TEXT, "%s %ld %llu", host, pid, start_of(pid));
}

bool worker_alive(const char *name, double silence)
{
    char host[64], here[64];
    long pid;
    unsigned long long start;
    host_name(here);
    if (sscanf(name, "%63s %ld %llu", host, &pid, &start) != 3)
        return false;
    if (strcmp(host, here) != 0 || start == 0)
        return silence < longest_silence && silence > -farthest_ahead;
    return start_of(pid) == start;
}
