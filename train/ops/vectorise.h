/* Helpers for loops that vectorise (base/simd.h): writing gradients, an exponential function without branches and
 * calls, and the parts of a softmax. */
#ifndef TRAIN_OPS_VECTORISE_H
#define TRAIN_OPS_VECTORISE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"

/* Gradients are written or added to. A loop over op_put is an SCN_INLINE function whose first argument is the flag;
 * OP_WITH_FLAG calls it with a constant, so that the loop has no branch and does not read what it overwrites. */
SCN_INLINE void op_put(bool accumulate, float *to, float x)
{
    *to = accumulate ? *to + x : x;
}
#define OP_WITH_FLAG(flag, loop, ...) ((flag) ? loop(true, __VA_ARGS__) : loop(false, __VA_ARGS__))

SCN_INLINE float op_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

SCN_INLINE uint32_t op_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x = k ln 2 + r with k whole and |r| <= ln(2)/2. Returns r; *power = 2^k. For |x| <= 88. */
SCN_INLINE float op_exp_reduce(float x, float *power)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, which is then in the low bits */
    const float shifted = x * 1.44269504089f + magic;
    const float k = shifted - magic;
    *power = op_float_of((op_bits_of(shifted) - op_bits_of(magic) + 127u) << 23);
    /* ln 2 in two parts: k times the first, which has 9 bits, is exact */
    return (x - k * 0.693359375f) + k * 2.12194440055e-4f;
}

/* (e^r - 1 - r)/r^2 for |r| <= ln(2)/2: minimax, off by 8e-9/r^2. */
SCN_INLINE float op_exp_rest(float r)
{
    return (((1.392618359e-3f * r + 8.363179053e-3f) * r + 4.166655462e-2f) * r + 0.1666657699f) * r + 0.5f;
}

/* e^x to 1.5e-7 of it for -87 <= x <= 88; beyond, the value at the end of the range. NaN gives NaN. */
SCN_INLINE float op_exp(float x)
{
    float power;
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float r = op_exp_reduce(x, &power);
    return power * ((r * r) * op_exp_rest(r) + r + 1.0f);
}

/* ---- A softmax over one row ---- */

/* Largest of n >= 1 elements; NaN are skipped. */
SCN_INLINE float op_row_max(int64_t n, const float *s)
{
    float top = s[0];
    SCN_SIMD_MAX(top)
    for (int64_t i = 0; i < n; i++)
        top = s[i] > top ? s[i] : top;
    return top;
}

/* e^x for x <= 0, but 0 below -64: such a value is lost beside the 1 that every softmax contains, and further
 * products of it would be denormals, which are slow. */
SCN_INLINE float op_exp_below(float x)
{
    const float e = op_exp(x);
    return x < -64.0f ? 0.0f : e;
}

/* s = e^(s - top), and the sum of that: float32 over runs of 512 elements, double over the runs. */
SCN_INLINE double op_row_exp(int64_t n, float top, float *s)
{
    double total = 0;
    for (int64_t first = 0; first < n; first += 512) {
        const int64_t end = first + 512 < n ? first + 512 : n;
        float sum = 0;
        SCN_SIMD_SUM(sum)
        for (int64_t i = first; i < end; i++) {
            s[i] = op_exp_below(s[i] - top);
            sum += s[i];
        }
        total += (double)sum;
    }
    return total;
}

#endif
