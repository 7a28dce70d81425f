/* bench_blas.c - which BLAS this is, and its kernels at their best.
 *
 * OpenBLAS chooses its kernels by the CPU's model number. A CPU newer than the library is unknown to it, and then
 * it may fall back to kernels of the SSE age, at a quarter of the speed. It chooses while it is loaded, before
 * main, so a program that finds the kernels older than the CPU's instructions can only set OPENBLAS_CORETYPE and
 * execute itself again.
 *
 * The functions of OpenBLAS and BLIS that are not CBLAS are weak references (under names of our own, since headers
 * differ in their const): with another CBLAS the program links as well, and leaves it alone. */
#include "bench_blas.h"

#include "bench.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char *openblas_corename(void) __asm__("openblas_get_corename") __attribute__((weak));
extern char *openblas_config(void) __asm__("openblas_get_config") __attribute__((weak));
extern void openblas_threads(int threads) __asm__("openblas_set_num_threads") __attribute__((weak));
extern void blis_threads(int64_t threads) __asm__("bli_thread_set_num_threads") __attribute__((weak));
extern char *blis_version(void) __asm__("bli_info_get_version_str") __attribute__((weak));

static const char CORE_VARIABLE[] = "OPENBLAS_CORETYPE";
static const char BEFORE_VARIABLE[] = "SCION_CORE_BEFORE"; /* tells the second run what the first had */
static char core_before[32]; /* the core that OpenBLAS took by itself, if we changed it */

/* Cores of OpenBLAS without AVX2. */
static const char *const OLD_CORES[] = {
    "Katmai", "Coppermine", "Northwood", "Prescott",    "Banias",     "Atom",        "Core2",
    "Penryn", "Dunnington", "Nehalem",   "Sandybridge", "Athlon",     "Opteron",     "Opteron_SSE3",
    "Bobcat", "Barcelona",  "Nano",      "Bulldozer",   "Piledriver", "Steamroller",
};

static bool is_old_core(const char *core)
{
    for (size_t i = 0; i < sizeof OLD_CORES / sizeof OLD_CORES[0]; i++) {
        if (!strcasecmp(core, OLD_CORES[i]))
            return true;
    }
    return false;
}

/* The best core that OpenBLAS 0.3 has for this CPU's instructions; NULL: leave it alone. */
static const char *core_for_cpu(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

static void forget_variables(void)
{
    unsetenv(BEFORE_VARIABLE);
    unsetenv(CORE_VARIABLE);
}

void blas_best_core(char **argv)
{
    const char *better = core_for_cpu(), *before = getenv(BEFORE_VARIABLE);
    if (before) { /* this is the second run: OpenBLAS has read its variable long ago */
        snprintf(core_before, sizeof core_before, "%s", before);
        forget_variables();
        return;
    }
    if (core_before[0] || !openblas_corename || !better || getenv(CORE_VARIABLE) || !is_old_core(openblas_corename()))
        return;
    setenv(BEFORE_VARIABLE, openblas_corename(), 1);
    setenv(CORE_VARIABLE, better, 1);
    execv("/proc/self/exe", argv);
    forget_variables(); /* it did not work: continue as we are */
}

const char *blas_library(void)
{
    static char name[256];
    if (name[0])
        return name;
    if (!openblas_corename || !openblas_config) {
        snprintf(name, sizeof name, "%s%s", blis_version ? "BLIS " : "CBLAS", blis_version ? blis_version() : "");
        return name;
    }
    char product[32] = "OpenBLAS", version[32] = "", chosen[96] = "";
    sscanf(openblas_config(), "%31s %31s", product, version);
    if (core_before[0])
        snprintf(chosen, sizeof chosen, " (chosen by this program; by itself it took %s)", core_before);
    else if (getenv(CORE_VARIABLE))
        snprintf(chosen, sizeof chosen, " (chosen by %s)", CORE_VARIABLE);
    snprintf(name, sizeof name, "%s %s %s%s", product, version, openblas_corename(), chosen);
    return name;
}

void blas_threads(int n)
{
    static int present; /* to set it again is not free */
    if (n == present)
        return;
    present = n;
    omp_set_num_threads(n);
    if (openblas_threads)
        openblas_threads(n);
    else if (blis_threads)
        blis_threads(n);
}
