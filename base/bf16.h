/* bfloat16: the upper half of a float32. */
#ifndef SCN_BF16_H
#define SCN_BF16_H

#include <stdbool.h>
#include <string.h>

#include "base/simd.h"
#include "scion.h"

/* Bytes of n entries of a scion_dtype. */
static inline size_t scn_stored_bytes(int32_t type, int64_t n)
{
    return (size_t)n * (type == SCION_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* Rounding of sums to bfloat16: to nearest (all zero), or up and down at random (scn_rounding_by). */
typedef struct scn_rounding {
    bool random;
    uint64_t key;
} scn_rounding;

/* The bits of x + add, where `add` lies in their lower half. A NaN keeps its sign and is made quiet: adding to it
 * could carry into infinity or zero, and cutting it could leave infinity. */
SCN_INLINE uint32_t scn_bf16_sum(float x, uint32_t add)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t nan = bits | 0x00400000u, other = bits + add;
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : other;
}

/* The float32 bits of x rounded to bfloat16, to nearest, ties to even: the lower half is zero. */
SCN_INLINE uint32_t scn_bf16_nearest(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return scn_bf16_sum(x, 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
}

/* Exact. */
void scn_from_bf16(int64_t n, const uint16_t *from, float *to);
/* to += from. */
void scn_add_bf16(int64_t n, const uint16_t *from, float *to);
/* To nearest, ties to even. NaN stays NaN, here and below. */
void scn_to_bf16(int64_t n, const float *from, uint16_t *to);
/* Up or down at random, so that the mean is right: number first + i of the random stream decides for element i. */
void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first);
/* Random rounding by a hash of the element and of a key drawn from (seed, stream): a quarter of the cost of Philox,
 * for sums that are rounded as soon as they are made (a gradient of weights over 256 rows takes two nanoseconds an
 * element, and Philox one). */
scn_rounding scn_rounding_by(uint64_t seed, uint64_t stream);
/* Rounds as `how` says; from[0] is element number `first` of the whole array. */
void scn_to_bf16_by(const scn_rounding *how, int64_t n, const float *from, uint16_t *to, int64_t first);

/* Largest |x|, or INFINITY if one is Inf or NaN; 0 of nothing. */
float scn_largest_bf16(int64_t n, const uint16_t *x);
static inline bool scn_all_finite_bf16(int64_t n, const uint16_t *x)
{
    return scn_largest_bf16(n, x) <= 0x1.fep127f; /* the largest bfloat16 */
}

#endif
