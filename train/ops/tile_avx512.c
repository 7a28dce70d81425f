/* The small products of tile_body.h for AVX-512: 24 of 32 registers hold the tile. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define TILE_VL 16
#define TILE_NV 4
#define TILE_NAME op_tile_avx512
#include "ops/tile_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
