/* The small products of tile_body.h for AVX2: 12 of 16 registers hold the tile. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define TILE_VL 8
#define TILE_NV 2
#define TILE_NAME op_tile_avx2
#include "ops/tile_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
