/* Chooses among the instruction sets that this CPU has. */
#include "product/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "product/cpu.h"

/* Every CPU of the kind has these. */
#ifdef __aarch64__
extern const scn_kernel scn_kernel_neon, scn_kernel_neon_rounded, scn_kernel_neon_pairs;
#else
extern const scn_kernel scn_kernel_portable, scn_kernel_portable_rounded, scn_kernel_portable_pairs;
#endif

#ifdef __x86_64__
extern const scn_kernel scn_kernel_avx2, scn_kernel_avx2_rounded, scn_kernel_avx2_pairs, scn_kernel_avx512,
    scn_kernel_avx512_rounded, scn_kernel_avx512bf16;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

static bool always(void)
{
    return true;
}

/* The fastest first; those that only tests want last. */
static const struct row {
    scn_isa isa;
    bool (*usable)(void);
} rows[] = {
#ifdef __x86_64__
    {{"avx512bf16", &scn_kernel_avx512, &scn_kernel_avx512bf16, SCN_ISA_BY_TABLE}, has_avx512bf16},
    {{"avx512", &scn_kernel_avx512, &scn_kernel_avx512_rounded, SCN_ISA_ALWAYS}, has_avx512},
    {{"avx2", &scn_kernel_avx2, &scn_kernel_avx2_rounded, SCN_ISA_ALWAYS}, has_avx2},
#endif
#ifdef __aarch64__
    {{"neon", &scn_kernel_neon, &scn_kernel_neon_rounded, SCN_ISA_ALWAYS}, always},
    {{"neon_pairs", &scn_kernel_neon, &scn_kernel_neon_pairs, SCN_ISA_BY_NAME}, always},
#else
    {{"portable", &scn_kernel_portable, &scn_kernel_portable_rounded, SCN_ISA_ALWAYS}, always},
    {{"portable_pairs", &scn_kernel_portable, &scn_kernel_portable_pairs, SCN_ISA_BY_NAME}, always},
#endif
#ifdef __x86_64__
    {{"avx2_pairs", &scn_kernel_avx2, &scn_kernel_avx2_pairs, SCN_ISA_BY_NAME}, has_avx2},
#endif
};

const scn_isa *scn_isa_at(int i)
{
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (rows[r].usable() && i-- == 0)
            return &rows[r].isa;
    return NULL;
}

const scn_kernel *scn_kernel_at(scion_dtype in, int i)
{
    const scn_isa *isa;
    for (int n = 0; (isa = scn_isa_at(n)) != NULL; n++) {
        /* the others have the float32 kernel of one that is */
        const bool again = in == SCION_F32 && isa->chosen != SCN_ISA_ALWAYS;
        if (!again && i-- == 0)
            return in == SCION_BF16 ? isa->bf16 : isa->f32;
    }
    return NULL;
}

const scn_isa *scn_isa_choose(const char *name, bool fast_pairs)
{
    const scn_isa *isa, *first = NULL;
    for (int i = 0; (isa = scn_isa_at(i)) != NULL; i++) {
        if (name && strcmp(isa->name, name) == 0)
            return isa;
        if (!first && (isa->chosen == SCN_ISA_ALWAYS || (isa->chosen == SCN_ISA_BY_TABLE && fast_pairs)))
            first = isa;
    }
    return first;
}

/* The answer for this process, once somebody has asked: every thread that asks first finds the same one. */
static const scn_isa *_Atomic chosen;

const scn_isa *scn_isa_used(void)
{
    const scn_isa *isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!isa) {
        const scn_cpu cpu = scn_cpu_here();
        isa = scn_isa_choose(getenv("SCION_ISA"), scn_cpu_fast_pairs(&cpu));
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return isa;
}

const scn_kernel *scn_kernel_for(scion_dtype compute)
{
    return compute == SCION_BF16 ? scn_isa_used()->bf16 : scn_isa_used()->f32;
}
