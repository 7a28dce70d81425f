/* Threads that go through one piece of work together, and wait for each other on the way. */
#ifndef TRAIN_GENERATE_TEAM_H
#define TRAIN_GENERATE_TEAM_H

#include <sched.h>
#include <stdatomic.h>

#include "base/thread.h"

/* TEAM_RUN(threads, part, parts, call(..., part, parts, ...)) makes the call once in each thread of a team of up to
 * `threads`, at the same time: part is the thread's number, parts how many there are. */
#ifdef _OPENMP
#define TEAM_RUN(threads, part, parts, ...)                                           \
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
#define TEAM_RUN(threads, part, parts, ...) \
    do {                                    \
        const int part = 0, parts = 1;      \
        (void)(threads);                    \
        __VA_ARGS__;                        \
    } while (0)
#endif

/* A place where the threads of a team wait for each other: all zeros at first. OpenMP's own lets threads sleep after
 * a few microseconds, and waking them takes longer than a token's matrices do; here they give way to others, but stay
 * awake. */
typedef struct team_meeting {
    atomic_int arrived, round;
} team_meeting;

static inline void team_meet(team_meeting *m, int threads)
{
    enum { spins = 1000 }; /* some 20 microseconds */
    if (threads < 2)
        return;
    const int round = atomic_load_explicit(&m->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel) == threads - 1) {
        atomic_store_explicit(&m->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&m->round, round + 1, memory_order_release);
        return;
    }
    for (int i = 0; atomic_load_explicit(&m->round, memory_order_acquire) == round; i++) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        if (i >= spins)
            sched_yield();
    }
}

#endif
