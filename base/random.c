/* See random.h. */
#include "base/random.h"

#include <math.h>

#include "base/simd.h"

/* Round `round` of one draw. */
SCN_INLINE void mix(scn_words *c, uint64_t seed, uint32_t round)
{
    const uint32_t k0 = (uint32_t)seed + round * 0x9E3779B9u, k1 = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    const uint64_t p0 = (uint64_t)0xD2511F53u * c->w[0], p1 = (uint64_t)0xCD9E8D57u * c->w[2];
    const uint32_t a = (uint32_t)(p1 >> 32) ^ c->w[1] ^ k0, b = (uint32_t)(p0 >> 32) ^ c->w[3] ^ k1;
    *c = (scn_words){{a, (uint32_t)p1, b, (uint32_t)p0}};
}

scn_words scn_philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    scn_words c = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    for (uint32_t round = 0; round < 10; round++)
        mix(&c, seed, round);
    return c;
}

enum { lanes = 16 };

/* Draws side by side: the rounds are written out, so that the loop over the draws becomes one of vectors. */
SCN_CLONES static void philox_lanes(uint64_t seed, uint64_t stream, uint64_t first, uint32_t *restrict out)
{
    const uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    const uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32);
    SCN_SIMD
    for (uint32_t i = 0; i < lanes; i++) {
        scn_words c = {{low + i, high + (low + i < low), c2, c3}};
        mix(&c, seed, 0), mix(&c, seed, 1), mix(&c, seed, 2), mix(&c, seed, 3), mix(&c, seed, 4);
        mix(&c, seed, 5), mix(&c, seed, 6), mix(&c, seed, 7), mix(&c, seed, 8), mix(&c, seed, 9);
        out[4 * i] = c.w[0];
        out[4 * i + 1] = c.w[1];
        out[4 * i + 2] = c.w[2];
        out[4 * i + 3] = c.w[3];
    }
}

void scn_philox_run(uint64_t seed, uint64_t stream, uint64_t first, int64_t n, uint32_t *out)
{
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        philox_lanes(seed, stream, first + (uint64_t)i, out + 4 * i);
    for (; i < n; i++) {
        const scn_words r = scn_philox(seed, stream, first + (uint64_t)i);
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = r.w[j];
    }
}

/* The middle of the word's cell in (0, 1), so that the logarithm below is finite. */
static double open_unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

void scn_normals(uint64_t seed, uint64_t stream, int64_t first, int64_t n, float *out)
{
    const double two_pi = 6.283185307179586;
    for (int64_t i = 0; i < n; i += 2) {
        scn_words r = scn_philox(seed, stream, (uint64_t)(first + i) / 2);
        double radius = sqrt(-2 * log(open_unit(r.w[0])));
        double angle = two_pi * open_unit(r.w[1]);
        out[i] = (float)(radius * cos(angle));
        if (i + 1 < n)
            out[i + 1] = (float)(radius * sin(angle));
    }
}

double scn_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    scn_words r = scn_philox(seed, stream, index);
    return (double)((((uint64_t)r.w[1] << 32) | r.w[0]) >> 11) * 0x1p-53;
}

/* A stream far from all others: the upper half of the numbers is used for nothing else. */
static uint64_t far_stream(uint64_t kind, int64_t param, int64_t block, int64_t position)
{
    const scn_words a = scn_philox((uint64_t)param, kind, (uint64_t)block);
    const scn_words b =
        scn_philox((uint64_t)a.w[1] << 32 | a.w[0], (uint64_t)a.w[3] << 32 | a.w[2], (uint64_t)position);
    return (uint64_t)1 << 63 | (uint64_t)b.w[1] << 32 | b.w[0];
}

/* Streams of version 0.1.0 wherever no other use has them: those by position are from 2^28 on, with a few of
 * parameter 0, the others below 2^28. */
uint64_t scn_stream_boundary(int64_t param, int64_t block, int64_t position, bool by_position)
{
    const uint64_t i = (uint64_t)param, k = (uint64_t)block, at = (uint64_t)position;
    if (!by_position)
        return i < 0x1000 && k < 0x1000 ? i << 16 | k : far_stream(0, param, block, 0);
    const uint64_t first = k << 12; /* of parameter 0: must not be one of the enum's */
    const bool free = first < SCN_STREAM_WINDOWS || (first > SCN_STREAM_GENERATE && first < 0x10000);
    const bool old = at < 0x1000 && i < 0x1000 && k < 0x10000 && (i > 0 || (free && (k == 0 || at == 0)));
    return old ? i << 28 | k << 12 | at : far_stream(1, param, block, position);
}

uint64_t scn_stream_uniform(int64_t param)
{
    return param < SCN_STREAM_WINDOWS - SCN_STREAM_UNIFORM ? SCN_STREAM_UNIFORM + (uint64_t)param
                                                           : far_stream(2, param, 0, 0);
}

uint64_t scn_stream_dropped(int64_t result)
{
    return far_stream(3, result, 0, 0);
}

uint64_t scn_stream_rounding(int64_t step, int64_t param)
{
    return ((uint64_t)step << 24) + (uint64_t)param;
}

uint64_t scn_stream_average(int64_t step, int64_t param)
{
    return far_stream(4, param, step, 0);
}

uint64_t scn_stream_addition(int64_t step, int64_t sample, int64_t node, int64_t part)
{
    return far_stream((uint64_t)part << 32 | 5, node, step, sample);
}

uint64_t scn_stream_meeting(int64_t step, int64_t first)
{
    return far_stream(6, first, step, 0);
}
