/* 16 x 16 tiles: 16 accumulators of 16 floats. A square tile wastes least on the diagonal of a triangle. */
#define SCN_VL 16
#define SCN_MR 16
#define SCN_NV 1
#include "product/kernel_tile.h"

const scn_kernel scn_kernel_avx512 = {"avx512", SCN_MR, nr, tile};
