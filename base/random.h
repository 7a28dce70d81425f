/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011).
 *
 * A number is a function of (seed, stream, index) and of nothing else, so that results do not depend on
 * the order or on the number of threads and ranks that ask for them. */
#ifndef SCN_RANDOM_H
#define SCN_RANDOM_H

#include <stdint.h>

typedef struct scn_words {
    uint32_t w[4];
} scn_words;

/* 128 random bits number `index` of the stream. */
scn_words scn_philox(uint64_t seed, uint64_t stream, uint64_t index);

/* out[i] = standard normal number first + i of the stream; first must be even. Box-Muller in double. */
void scn_normals(uint64_t seed, uint64_t stream, int64_t first, int64_t n, float *out);

/* Uniform in [0, 1) with 53 bits. */
double scn_uniform(uint64_t seed, uint64_t stream, uint64_t index);

#endif
