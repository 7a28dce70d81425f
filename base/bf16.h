/* bfloat16: the upper half of a float32. */
#ifndef SCN_BF16_H
#define SCN_BF16_H

#include <stdbool.h>
#include <stdint.h>

/* Exact. */
void scn_from_bf16(int64_t n, const uint16_t *from, float *to);
/* To nearest, ties to even. NaN stays NaN, here and below. */
void scn_to_bf16(int64_t n, const float *from, uint16_t *to);
/* Up or down at random, so that the mean is right: number first + i of the random stream decides for element i; first
 * is a multiple of 8. */
void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first);

bool scn_all_finite_bf16(int64_t n, const uint16_t *x);

#endif
