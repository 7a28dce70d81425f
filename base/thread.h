/* Loops shared among threads. The one place that knows about OpenMP; without it everything runs on the calling
 * thread. */
#ifndef SCN_THREAD_H
#define SCN_THREAD_H

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

#ifdef _OPENMP
#define SCN_PARALLEL_OMP(kind, threads) \
    SCN_PRAGMA(omp parallel for schedule(kind) num_threads(threads) if ((threads) > 1))
#else
#define SCN_PARALLEL_OMP(kind, threads) (void)(threads);
#endif

/* SCN_PARALLEL(threads, i, count, call(..., i, ...)) makes the call once for each i from 0 to count - 1, by up to
 * `threads` threads, each of which takes the next i when it is done with one. With one thread it is a plain loop: a
 * parallel region, even of one thread, takes longer than a small problem. */
#define SCN_PARALLEL(threads, i, count, ...)      \
    do {                                          \
        if ((threads) > 1) {                      \
            SCN_PARALLEL_OMP(dynamic, threads)    \
            for (int64_t i = 0; i < (count); i++) \
                __VA_ARGS__;                      \
        } else {                                  \
            for (int64_t i = 0; i < (count); i++) \
                __VA_ARGS__;                      \
        }                                         \
    } while (0)

/* Before a for loop whose iterations are independent. _STATIC deals them out in equal runs beforehand, so that a
 * thread meets the same rows in loop after loop. */
#define SCN_PARALLEL_FOR(threads) SCN_PARALLEL_OMP(dynamic, threads)
#define SCN_PARALLEL_FOR_STATIC(threads) SCN_PARALLEL_OMP(static, threads)

#endif
