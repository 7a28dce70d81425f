/* Loops shared among threads. The one place that knows about OpenMP; without it everything runs on the calling
 * thread. */
#ifndef SCN_THREAD_H
#define SCN_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* Threads to use for a request of n (0: as many as OpenMP would take); 1 inside a parallel region. */
static inline int scn_threads(int n)
{
#ifdef _OPENMP
    if (omp_in_parallel())
        return 1;
    return n > 0 ? n : omp_get_max_threads();
#else
    (void)n;
    return 1;
#endif
}

/* Number of the calling thread, from 0, in a loop that more than one thread share. */
static inline int scn_thread_index(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* ---- Watching ------------------------------------------------------------------------------------------------- */

/* A parallel loop. */
typedef struct scn_loop {
    const char *file, *function;
    int line;
    bool dealt;  /* its tasks are dealt out beforehand in equal runs, not taken one by one */
    int threads; /* asked for */
    int64_t tasks;
} scn_loop;

/* A measurement of parallel loops. A program that wants to know what its threads do defines the variable scn_watcher
 * and points it to one of these for a while. The library refers to it weakly and holds no state of its own: where
 * nobody defines it, its address is null. A loop that is not watched costs one test for each task. */
typedef struct scn_watch {
    int max_threads; /* of any loop, whatever it asks for: plans for more cores than there are can be watched */
    /* Before and after a loop that asks for more than one thread, by the thread that meets it. */
    void (*begin)(struct scn_watch *w, const scn_loop *loop);
    void (*end)(struct scn_watch *w);
    /* After task i, by the thread that ran it. */
    void (*task)(struct scn_watch *w, int64_t i, double seconds);
    double (*clock)(void); /* seconds of the calling thread */
} scn_watch;

#ifdef __ELF__
extern scn_watch *scn_watcher __attribute__((weak, visibility("hidden")));
#endif

/* One run of a parallel loop. */
typedef struct scn_region {
    scn_watch *watch; /* NULL: nobody */
    int threads;
    bool open;
} scn_region;

static inline scn_region scn_region_begin(const char *file, const char *function, int line, bool dealt, int threads,
                                          int64_t tasks)
{
    const scn_loop loop = {file, function, line, dealt, threads, tasks};
    scn_region r = {NULL, threads, true};
#ifdef __ELF__
    if (&scn_watcher && scn_watcher && threads > 1) {
        r.watch = scn_watcher;
        r.threads = threads < r.watch->max_threads ? threads : r.watch->max_threads;
        r.watch->begin(r.watch, &loop);
    }
#else
    (void)loop;
#endif
    return r;
}

static inline void scn_region_end(scn_region *r)
{
    r->open = false;
    if (r->watch)
        r->watch->end(r->watch);
}

typedef struct scn_task {
    int64_t index;
    double begin;
    bool open;
} scn_task;

static inline scn_task scn_task_begin(const scn_region *r, int64_t index)
{
    return (scn_task){index, r->watch ? r->watch->clock() : 0, true};
}

static inline void scn_task_end(const scn_region *r, scn_task *t)
{
    t->open = false;
    if (r->watch)
        r->watch->task(r->watch, t->index, r->watch->clock() - t->begin);
}

/* ---- Loops ---------------------------------------------------------------------------------------------------- */

#ifdef _OPENMP
#define SCN_PARALLEL_OMP(kind, threads) \
    SCN_PRAGMA(omp parallel for schedule(kind) num_threads(threads) if ((threads) > 1))
#else
#define SCN_PARALLEL_OMP(kind, threads)
#endif

/* A loop of i from 0 to count - 1; the statement after it is its body, without break. */
#define SCN_PARALLEL_LOOP(kind, dealt, max_threads, i, count)                                            \
    for (scn_region region_ = scn_region_begin(__FILE__, __func__, __LINE__, dealt, max_threads, count); \
         region_.open; scn_region_end(&region_))                                                         \
        SCN_PARALLEL_OMP(kind, region_.threads)                                                          \
    for (int64_t i = 0; i < (count); i++)                                                                \
        for (scn_task task_ = scn_task_begin(&region_, i); task_.open; scn_task_end(&region_, &task_))

/* SCN_PARALLEL_FOR(threads, i, count) { body } runs the body once for each i from 0 to count - 1, in any order, by up
 * to `threads` threads, each of which takes the next i when it is done with one. _STATIC deals them out in equal runs
 * beforehand, so that a thread meets the same rows in loop after loop. */
#define SCN_PARALLEL_FOR(threads, i, count) SCN_PARALLEL_LOOP(dynamic, false, threads, i, count)
#define SCN_PARALLEL_FOR_STATIC(threads, i, count) SCN_PARALLEL_LOOP(static, true, threads, i, count)

/* SCN_PARALLEL(threads, i, count, call(..., i, ...)) makes the call once for each i. With one thread it is a plain
 * loop: a parallel region, even of one thread, takes longer than a small problem. */
#define SCN_PARALLEL(threads, i, count, ...)      \
    do {                                          \
        if ((threads) > 1) {                      \
            SCN_PARALLEL_FOR(threads, i, count)   \
                __VA_ARGS__;                      \
        } else {                                  \
            for (int64_t i = 0; i < (count); i++) \
                __VA_ARGS__;                      \
        }                                         \
    } while (0)

/* SCN_TEAM(threads, part, parts, call(..., part, parts, ...)) makes the call once in each thread of a team of up to
 * `threads`, at the same time: part is the thread's number, parts how many there are. */
#ifdef _OPENMP
#define SCN_TEAM(threads, part, parts, ...)                                           \
    do {                                                                              \
        if ((threads) > 1) {                                                          \
            SCN_PRAGMA(omp parallel num_threads(threads))                             \
            {                                                                         \
                const int part = omp_get_thread_num(), parts = omp_get_num_threads(); \
                __VA_ARGS__;                                                          \
            }                                                                         \
        } else {                                                                      \
            const int part = 0, parts = 1;                                            \
            __VA_ARGS__;                                                              \
        }                                                                             \
    } while (0)
#else
#define SCN_TEAM(threads, part, parts, ...) \
    do {                                    \
        const int part = 0, parts = 1;      \
        (void)(threads);                    \
        __VA_ARGS__;                        \
    } while (0)
#endif

#endif
