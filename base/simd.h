/* Loops at the width of the machine's vectors.
 *
 * SCN_CLONES before a function compiles it for several instruction sets; the best that the CPU has is chosen when the
 * program is loaded. SCN_SIMD before a loop says that its iterations are independent, SCN_SIMD_SUM(s) that besides
 * they add to s in any order; the order is fixed at compile time, so results repeat.
 *
 * Only static functions take SCN_CLONES, and their names are unique in the whole program: clang 14 calls the wrong
 * address where a cloned function is called from another file, and gives each a global symbol NAME.resolver.
 * tools/check-symbols checks both. */
#ifndef SCN_SIMD_H
#define SCN_SIMD_H

/* SCN_NO_CLONES: the runtime of a sanitizer is not ready when the choice is made. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(SCN_NO_CLONES)
#define SCN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SCN_CLONES
#endif

/* The build always has -fopenmp-simd. */
#define SCN_PRAGMA(x) _Pragma(#x)
#define SCN_SIMD SCN_PRAGMA(omp simd)
#define SCN_SIMD_SUM(...) SCN_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define SCN_SIMD_MAX(...) SCN_PRAGMA(omp simd reduction(max : __VA_ARGS__))

/* For parts of functions with SCN_CLONES: they must be inlined to be compiled for its instruction sets. */
#define SCN_INLINE static inline __attribute__((always_inline))

#endif
