/* bench_race.c - interleaved timing, medians, and the small needs of a benchmark.
 *
 * Time drifts on a shared machine: frequency, neighbours, page cache. Two things measured one after the
 * other meet different machines; two things measured in turn meet the same. The order is reversed in every
 * second round, so that neither always finds the other's data in the cache. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A race lasts about this long (ms), within these bounds on its number of rounds. Races whose single round
 * is slower than SLOW_MS get fewer: seven rounds of all GPT-2 would be most of the run. */
static const double BUDGET_MS = 3000, QUICK_BUDGET_MS = 400, SLOW_MS = 2000;
enum { ROUNDS_MIN = 7, ROUNDS_MIN_SLOW = 5, QUICK_ROUNDS_MIN = 3, QUICK_ROUNDS_MIN_SLOW = 1, ROUNDS_MAX = 201 };

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_scion: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_check(scion_status status, const scion_error *err)
{
    if (status)
        bench_die("%s: %s", scion_status_string(status), err->message);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

double bench_time(const bench_entry *e)
{
    double start = now_ms();
    e->run(e->ctx);
    return now_ms() - start;
}

static int rounds_for(const bench_options *o, double round_ms)
{
    if (o->runs)
        return o->runs < BENCH_ROUNDS_MAX ? o->runs : BENCH_ROUNDS_MAX;
    int slow = round_ms > SLOW_MS;
    int least = o->quick ? (slow ? QUICK_ROUNDS_MIN_SLOW : QUICK_ROUNDS_MIN) : (slow ? ROUNDS_MIN_SLOW : ROUNDS_MIN);
    double fit = (o->quick ? QUICK_BUDGET_MS : BUDGET_MS) / round_ms;
    return fit < least ? least : fit > ROUNDS_MAX ? ROUNDS_MAX : (int)fit;
}

void bench_race(const bench_options *o, bench_entry *entries, int count)
{
    double round_ms = 0;
    for (int i = 0; i < count; i++) {
        bench_entry *e = &entries[i];
        e->count = 0;
        if (!e->skip && !(e->warm_ms > 0))
            e->warm_ms = bench_time(e);
        round_ms += e->skip ? 0 : e->warm_ms;
    }
    int rounds = rounds_for(o, round_ms);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < count; i++) {
            bench_entry *e = &entries[r % 2 ? count - 1 - i : i];
            if (!e->skip)
                e->ms[e->count++] = bench_time(e);
        }
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, int count)
{
    double sorted[BENCH_POOL_MAX];
    if (count <= 0)
        return 0;
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double bench_entry_median(const bench_entry *e)
{
    return bench_median(e->ms, e->count);
}

void bench_pool_add(bench_pool *pool, double value)
{
    if (pool->count < BENCH_POOL_MAX)
        pool->value[pool->count++] = value;
}

double bench_pool_median(const bench_pool *pool)
{
    return bench_median(pool->value, pool->count);
}

float *bench_floats(int64_t count)
{
    size_t page = 4096, bytes = ((size_t)count * sizeof(float) + page - 1) / page * page;
    float *x = aligned_alloc(page, bytes);
    if (!x)
        bench_die("out of memory: %.0f MB", (double)bytes * 1e-6);
    return x;
}

/* splitmix64 of seed and index: each number on its own, so that threads can share the work. */
static float uniform(uint64_t seed, int64_t i)
{
    uint64_t h = seed * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    return (float)(int32_t)(uint32_t)(h >> 32) * 0x1p-31f;
}

void bench_fill(float *x, int64_t count, uint64_t seed)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        x[i] = uniform(seed, i);
}

double bench_distance(const float *x, const float *y, double factor, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double gap = fabs(x[i] - factor * y[i]);
        if (!(gap <= worst)) /* a NaN is a distance too */
            worst = isnan(gap) ? INFINITY : gap;
    }
    return worst;
}

double bench_max_abs(const float *x, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        worst = fabs((double)x[i]) > worst ? fabs((double)x[i]) : worst;
    return worst;
}

static void *recycler_alloc(void *ctx, size_t bytes)
{
    bench_recycler *r = ctx;
    int blocks = (int)(sizeof r->block / sizeof r->block[0]), best = -1, empty = -1;
    for (int i = 0; i < blocks; i++) {
        if (!r->block[i].memory)
            empty = i;
        else if (!r->block[i].used && r->block[i].bytes >= bytes &&
                 (best < 0 || r->block[i].bytes < r->block[best].bytes))
            best = i;
    }
    if (best < 0 && empty >= 0) {
        best = empty;
        r->block[best].memory = malloc(bytes ? bytes : 1);
        r->block[best].bytes = bytes;
    }
    if (best < 0 || !r->block[best].memory)
        return NULL;
    r->block[best].used = 1;
    return r->block[best].memory;
}

static void recycler_release(void *ctx, void *memory)
{
    bench_recycler *r = ctx;
    for (size_t i = 0; i < sizeof r->block / sizeof r->block[0]; i++) {
        if (memory && r->block[i].memory == memory)
            r->block[i].used = 0;
    }
}

scion_allocator bench_recycler_allocator(bench_recycler *r)
{
    memset(r, 0, sizeof *r);
    return (scion_allocator){.alloc = recycler_alloc, .free = recycler_release, .ctx = r};
}

void bench_recycler_free(bench_recycler *r)
{
    for (size_t i = 0; i < sizeof r->block / sizeof r->block[0]; i++)
        free(r->block[i].memory);
}
