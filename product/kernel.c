/* Chooses among the kernels that this CPU can run. */
#include "product/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const scn_kernel scn_kernel_portable;
#ifdef __x86_64__
extern const scn_kernel scn_kernel_avx2, scn_kernel_avx512;
#endif

const scn_kernel *scn_kernel_at(int i)
{
    const scn_kernel *usable[4] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        usable[n++] = &scn_kernel_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        usable[n++] = &scn_kernel_avx2;
#endif
    usable[n++] = &scn_kernel_portable;
    return i < n ? usable[i] : NULL;
}

const scn_kernel *scn_kernel_named(const char *name)
{
    const scn_kernel *k;
    for (int i = 0; name && (k = scn_kernel_at(i)) != NULL; i++)
        if (strcmp(k->name, name) == 0)
            return k;
    return scn_kernel_at(0);
}

/* The answer for this process, once somebody has asked: every thread that asks first finds the same one. */
static const scn_kernel *_Atomic chosen;

const scn_kernel *scn_kernel_best(void)
{
    const scn_kernel *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!k) {
        k = scn_kernel_named(getenv("SCION_ISA"));
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}
