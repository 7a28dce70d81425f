/* Any machine with vectors of four floats (SSE2, NEON, ...): 8 accumulators for 16 registers, 16 for 32. */
#define SCN_VL 4
#ifdef __aarch64__
#define SCN_MR 8
#else
#define SCN_MR 4
#endif
#define SCN_NV 2
#include "product/kernel_tile.h"

const scn_kernel scn_kernel_base = {"base", SCN_MR, nr, tile};
