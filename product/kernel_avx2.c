/* 4 x 24 tiles: 12 accumulators of 8 floats, 3 loads, 1 broadcast fill the 16 registers. */
#define SCN_VL 8
#define SCN_MR 4
#define SCN_NV 3
#include "product/kernel_tile.h"

const scn_kernel scn_kernel_avx2 = {"avx2", SCN_MR, nr, tile};
