/* Loops at the width of the machine's vectors.
 *
 * SCN_CLONES before a function compiles it for several instruction sets; the best that the CPU has is chosen when the
 * program is loaded. SCN_SIMD before a loop says that its iterations are independent, SCN_SIMD_SUM(s) that besides
 * they add to s in any order; the order is fixed at compile time, so results repeat.
 *
 * clang 14 implements target_clones with two flaws, which make two rules: a function that other files call is
 * declared with SCN_CLONED in its header (else they call a symbol that does not exist), and the names of static
 * functions with SCN_CLONES are unique in the whole program (each makes a global symbol NAME.resolver). Who breaks a
 * rule meets an error of the linker in the build with clang. */
#ifndef SCN_SIMD_H
#define SCN_SIMD_H

/* SCN_NO_CLONES: the runtime of a sanitizer is not ready when the choice is made. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(SCN_NO_CLONES)
#if !defined(__clang__)
#define SCN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#elif __has_attribute(target_clones)
#define SCN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define SCN_CLONED SCN_CLONES
#endif
#endif
#ifndef SCN_CLONES
#define SCN_CLONES
#endif
#ifndef SCN_CLONED
#define SCN_CLONED
#endif

/* The build always has -fopenmp-simd. */
#define SCN_PRAGMA(x) _Pragma(#x)
#define SCN_SIMD SCN_PRAGMA(omp simd)
#define SCN_SIMD_SUM(...) SCN_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define SCN_SIMD_MAX(...) SCN_PRAGMA(omp simd reduction(max : __VA_ARGS__))

/* For parts of functions with SCN_CLONES: they must be inlined to be compiled for its instruction sets. */
#define SCN_INLINE static inline __attribute__((always_inline))

#endif
