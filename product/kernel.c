/* Which kernels this CPU runs. */
#include "product/kernel.h"

#include <stddef.h>

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
    usable[n++] = &scn_kernel_base;
    return i < n ? usable[i] : NULL;
}
