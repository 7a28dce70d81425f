/* bench_blas.c - the BLAS that the plain version runs on, at its best.
 *
 * OpenBLAS chooses its kernels by the CPU's model number. A CPU newer than the library is unknown to it, and
 * then it may fall back to kernels of the SSE age: a quarter of the speed, and a comparison with it would be
 * flattery. So if the chosen kernels are older than the instructions that the CPU has, the program sets
 * OPENBLAS_CORETYPE and executes itself again, once, and says so. A value set by the user is respected.
 *
 * The functions of OpenBLAS and BLIS are weak references (under names of our own, since headers differ in
 * their const): with another CBLAS the program links as well and calls itself "CBLAS". */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char *openblas_corename(void) __asm__("openblas_get_corename") __attribute__((weak));
extern char *openblas_config(void) __asm__("openblas_get_config") __attribute__((weak));
extern void openblas_threads(int threads) __asm__("openblas_set_num_threads") __attribute__((weak));
extern char *blis_version(void) __asm__("bli_info_get_version_str") __attribute__((weak));
extern void blis_threads(int64_t threads) __asm__("bli_thread_set_num_threads") __attribute__((weak));

static const char CORE_VARIABLE[] = "OPENBLAS_CORETYPE";
static const char GUARD_VARIABLE[] = "SCION_BENCH_CORE_BEFORE"; /* the core that OpenBLAS took by itself */

/* Cores of OpenBLAS without AVX2. */
static const char *const OLD_CORES[] = {
    "Katmai", "Coppermine", "Northwood", "Prescott",    "Banias",     "Atom",        "Core2",
    "Penryn", "Dunnington", "Nehalem",   "Sandybridge", "Athlon",     "Opteron",     "Opteron_SSE3",
    "Bobcat", "Barcelona",  "Nano",      "Bulldozer",   "Piledriver", "Steamroller",
};

static int is_old_core(const char *core)
{
    for (size_t i = 0; i < sizeof OLD_CORES / sizeof OLD_CORES[0]; i++) {
        if (!strcasecmp(core, OLD_CORES[i]))
            return 1;
    }
    return 0;
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

void bench_blas_setup(char **argv)
{
    const char *better = core_for_cpu();
    if (!openblas_corename || !better || getenv(CORE_VARIABLE) || getenv(GUARD_VARIABLE))
        return;
    const char *core = openblas_corename();
    if (!is_old_core(core))
        return;
    fprintf(stderr, "OpenBLAS took its %s kernels on a CPU that can do better: running again with %s=%s\n", core,
            CORE_VARIABLE, better);
    setenv(GUARD_VARIABLE, core, 1);
    setenv(CORE_VARIABLE, better, 1);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "that failed: the plain version runs on the %s kernels\n", core);
    unsetenv(GUARD_VARIABLE);
    unsetenv(CORE_VARIABLE);
}

const char *bench_blas_name(void)
{
    static char name[256];
    if (!openblas_corename || !openblas_config) {
        snprintf(name, sizeof name, "%s%s", blis_version ? "BLIS " : "CBLAS", blis_version ? blis_version() : "");
        return name;
    }
    char product[32] = "OpenBLAS", version[32] = "";
    sscanf(openblas_config(), "%31s %31s", product, version);
    int used = snprintf(name, sizeof name, "%s %s %s", product, version, openblas_corename());
    const char *before = getenv(GUARD_VARIABLE);
    if (before)
        snprintf(name + used, sizeof name - (size_t)used, " (chosen by %s; by itself it took %s)", CORE_VARIABLE,
                 before);
    else if (getenv(CORE_VARIABLE))
        snprintf(name + used, sizeof name - (size_t)used, " (%s=%s set by the user)", CORE_VARIABLE,
                 getenv(CORE_VARIABLE));
    return name;
}

void bench_blas_threads(int threads)
{
    static int present = 0;
    if (threads == present)
        return;
    present = threads;
    if (openblas_threads)
        openblas_threads(threads);
    else if (blis_threads)
        blis_threads(threads);
    else
        omp_set_num_threads(threads);
}

const char *bench_cpu_name(void)
{
    static char name[160] = "unknown";
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, sizeof name, "%.150s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    }
    if (f)
        fclose(f);
    return name;
}
