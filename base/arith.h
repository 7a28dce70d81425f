/* Integer arithmetic for dimensions. */
#ifndef SCN_ARITH_H
#define SCN_ARITH_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t scn_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t scn_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t scn_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Number of pieces of `size` that cover n. */
static inline int64_t scn_pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* n rounded up to a multiple of `unit`. */
static inline int64_t scn_round_up(int64_t n, int64_t unit)
{
    return scn_pieces(n, unit) * unit;
}

#endif
