/* See bf16.h. */
#include "base/bf16.h"

#include <string.h>

#include "base/random.h"
#include "base/simd.h"

/* The upper half of x + add, where `add` lies below it. A NaN keeps its sign and is made quiet: adding to it could
 * carry into infinity or zero, and cutting it could leave infinity. */
SCN_INLINE uint16_t rounded(float x, uint32_t add)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t nan = bits | 0x00400000u, other = bits + add;
    return (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? nan : other) >> 16);
}

SCN_CLONES static void from_bf16_loop(int64_t n, const uint16_t *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

void scn_from_bf16(int64_t n, const uint16_t *from, float *to)
{
    from_bf16_loop(n, from, to);
}

SCN_CLONES static void to_bf16_loop(int64_t n, const float *restrict from, uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        to[i] = rounded(from[i], 0x7fffu + (bits >> 16 & 1u));
    }
}

void scn_to_bf16(int64_t n, const float *from, uint16_t *to)
{
    to_bf16_loop(n, from, to);
}

void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first)
{
    for (int64_t i = 0; i < n; i += 8) {
        const scn_words r = scn_philox(seed, stream, (uint64_t)(first + i) / 8);
        const int64_t end = n - i < 8 ? n - i : 8;
        for (int64_t j = 0; j < end; j++)
            to[i + j] = rounded(from[i + j], r.w[j / 2] >> (j % 2 * 16) & 0xffffu);
    }
}

SCN_CLONES static bool all_finite_bf16_loop(int64_t n, const uint16_t *x)
{
    uint16_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (x[i] & 0x7f80) == 0x7f80;
    return !bad;
}

bool scn_all_finite_bf16(int64_t n, const uint16_t *x)
{
    return all_finite_bf16_loop(n, x);
}
