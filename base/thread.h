/* The one place that knows about OpenMP. Without it everything runs on the calling thread. */
#ifndef SCN_THREAD_H
#define SCN_THREAD_H

#include <stdint.h>

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

static inline int scn_thread_index(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* `#pragma omp parallel for` with a chosen schedule and number of threads, or nothing. */
#ifdef _OPENMP
#define SCN_PRAGMA(x) _Pragma(#x)
#define SCN_PARALLEL_FOR(n) SCN_PRAGMA(omp parallel for schedule(dynamic) num_threads(n) if ((n) > 1))
#else
#define SCN_PARALLEL_FOR(n)
#endif

/* Compiles a function once for each instruction set and chooses when the program is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(SCN_NO_CLONES)
#define SCN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SCN_CLONES
#endif

#endif
