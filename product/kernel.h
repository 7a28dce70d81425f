/* The innermost product: a tile C (mr x nr) of A'B with A and B in panels.
 *
 * One source, kernel_tile.h, is compiled for three instruction sets; the CPU chooses. See product.h for
 * why there is a kernel of our own. */
#ifndef SCN_KERNEL_H
#define SCN_KERNEL_H

#include <stdint.h>

typedef struct scn_kernel {
    const char *name;
    int64_t mr, nr; /* rows and columns of a tile; panels are nr wide, and mr divides nr */
    /* c[i*nr + j] (+)= sum over p < k of a[p*nr + i] * b[p*nr + j], i < mr, j < nr; + if accumulate.
     * b and c are aligned to a cache line or to half of one. */
    void (*tile)(int64_t k, const float *a, const float *b, float *c, int accumulate);
} scn_kernel;

extern const scn_kernel scn_kernel_base, scn_kernel_avx2, scn_kernel_avx512;

/* The i-th kernel that this CPU can run, fastest first; NULL past the last. */
const scn_kernel *scn_kernel_at(int i);

#endif
