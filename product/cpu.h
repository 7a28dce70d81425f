/* The CPU, and what is known about its bfloat16 instructions. */
#ifndef SCN_CPU_H
#define SCN_CPU_H

#include <stdbool.h>

typedef struct scn_cpu {
    char vendor[13]; /* "GenuineIntel", "AuthenticAMD"; "": not an x86 */
    int family, model;
} scn_cpu;

scn_cpu scn_cpu_here(void);

/* True if products of pairs of bfloat16 (vdpbf16ps) are faster on that CPU than the same in float32. Having the
 * instruction does not say so: on some CPUs it is slower. A table, not a measurement, so that bits do not depend on
 * noise; CPUs that it does not know compute in float32. */
bool scn_cpu_fast_pairs(const scn_cpu *cpu);

/* True if the table contradicts a measurement: `pairs` and `floats` are operations per second on registers alone. */
bool scn_cpu_table_wrong(bool fast_pairs, double pairs, double floats);

#endif
