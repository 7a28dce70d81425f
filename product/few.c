/* See few.h. */
#include "product/few.h"

#include <stddef.h>

/* Every float32 kernel of kernel.c has one. */
#ifdef __aarch64__
extern const scn_kernel scn_kernel_neon;
scn_few scn_few_neon;
#else
extern const scn_kernel scn_kernel_portable;
scn_few scn_few_portable;
#endif
#ifdef __x86_64__
extern const scn_kernel scn_kernel_avx2, scn_kernel_avx512;
scn_few scn_few_avx2, scn_few_avx512;
#endif

static const struct row {
    const scn_kernel *kernel;
    scn_few *few;
} rows[] = {
#ifdef __x86_64__
    {&scn_kernel_avx512, scn_few_avx512},
    {&scn_kernel_avx2, scn_few_avx2},
#endif
#ifdef __aarch64__
    {&scn_kernel_neon, scn_few_neon},
#else
    {&scn_kernel_portable, scn_few_portable},
#endif
};

scn_few *scn_few_of(const scn_kernel *kernel)
{
    size_t i = 0;
    while (i + 1 < sizeof rows / sizeof *rows && rows[i].kernel != kernel)
        i++;
    return rows[i].few;
}
