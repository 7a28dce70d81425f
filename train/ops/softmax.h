/* Parts of a softmax over one row, for inlining into functions compiled with SCN_CLONES. */
#ifndef TRAIN_OPS_SOFTMAX_H
#define TRAIN_OPS_SOFTMAX_H

#include <math.h>

#include "ops/vectorise.h"

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
