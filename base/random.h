/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011).
 *
 * A number is a function of (seed, stream, index) and of nothing else, so that results do not depend on
 * the order or on the number of threads and ranks that ask for them. */
#ifndef SCN_RANDOM_H
#define SCN_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct scn_words {
    uint32_t w[4];
} scn_words;

/* 128 random bits number `index` of the stream. */
scn_words scn_philox(uint64_t seed, uint64_t stream, uint64_t index);

/* The same for n indices from `first` on: four words each, to `out`. */
void scn_philox_run(uint64_t seed, uint64_t stream, uint64_t first, int64_t n, uint32_t *out);

/* out[i] = standard normal number first + i of the stream; first must be even. Box-Muller in double. */
void scn_normals(uint64_t seed, uint64_t stream, int64_t first, int64_t n, float *out);

/* Uniform in [0, 1) with 53 bits. */
double scn_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* Every use of random numbers, in the library and in the program: no two under the same seed share a stream. */
enum {
    SCN_STREAM_TUNE = 0,                   /* + axis: order of trials, under tune's seed */
    SCN_STREAM_GRADIENT = 1,               /* scion_minimize: the draw of each gradient, under the problem's seed, */
    SCN_STREAM_ITERATE = 2,                /* and of the iterate that it returns */
    SCN_STREAM_UNIFORM = 0x1000,           /* + parameter: see scn_stream_uniform */
    SCN_STREAM_WINDOWS = 0x2000,           /* where the samples of a text begin */
    SCN_STREAM_SHUFFLE = 0x3000,           /* order of the samples of an epoch */
    SCN_STREAM_FLIP = 0x3100,              /* which images are mirrored in the first epoch, */
    SCN_STREAM_AUGMENT = 0x3101,           /* changes of each sample, */
    SCN_STREAM_ERASE = 0x3102,             /* the noise in it, */
    SCN_STREAM_MIX = 0x3103,               /* the sample it is mixed with, */
    SCN_STREAM_REPLACE = 0x3104,           /* replacement of a file that cannot be read, */
    SCN_STREAM_RANDAUGMENT = 0x3105,       /* RandAugment's operations, */
    SCN_STREAM_RANDAUGMENT_LEVEL = 0x3106, /* and their strength */
    SCN_STREAM_TEXT = 0x4000,              /* synthetic data */
    SCN_STREAM_NEXT = 0x4001,
    SCN_STREAM_PROTOTYPE = 0x4002,
    SCN_STREAM_LABEL = 0x4003,
    SCN_STREAM_NOISE = 0x4004,
    SCN_STREAM_GENERATE = 0x5000, /* text that a model writes */
};

/* Weights that start on the boundary: a stream for each block, or for each kernel position of each block. */
uint64_t scn_stream_boundary(int64_t param, int64_t block, int64_t position, bool by_position);
/* Weights that start uniform. */
uint64_t scn_stream_uniform(int64_t param);
/* Rounding of bfloat16 weights, and of the averages that `light` leaves (under the optimizer's seed). */
uint64_t scn_stream_rounding(int64_t step, int64_t param);
uint64_t scn_stream_average(int64_t step, int64_t param);
/* Rounding of sums that node `node` of a tape adds to a bfloat16 gradient, in the backward pass over the batch that
 * begins with `sample`; part: counts if it adds several times. */
uint64_t scn_stream_addition(int64_t step, int64_t sample, int64_t node, int64_t part);
/* Rounding of the sum of two parts of a step's gradient in bfloat16, the later of which begins with sequence `first`
 * of the step; 0: for adding the whole to an average. */
uint64_t scn_stream_meeting(int64_t step, int64_t first);
/* Dropout: a stream for each result of an operator. */
uint64_t scn_stream_dropped(int64_t result);

#endif
