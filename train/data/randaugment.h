/* RandAugment (Cubuk et al., 2020) as in DeiT's recipe ("rand-m9-mstd0.5-inc1"): two operations, each drawn from
 * fifteen and applied with probability 1/2, on the bytes of an image. */
#ifndef TRAIN_DATA_RANDAUGMENT_H
#define TRAIN_DATA_RANDAUGMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { RANDAUGMENT_OPS = 2, RANDAUGMENT_LEVELS = 10 };

/* One operation. */
typedef struct randaugment_op {
    int row;       /* of the table, -1: none */
    double level;  /* strength, 0 to RANDAUGMENT_LEVELS */
    bool negative; /* the other direction, if the operation has two */
} randaugment_op;

/* Name of operation `row`, NULL past the last. */
const char *randaugment_name(int row);

/* Draws the operations of sample `number`: levels are normal with mean `magnitude` and deviation 1/2. False: none. */
bool randaugment_draw(double magnitude, uint64_t seed, int64_t number, randaugment_op ops[RANDAUGMENT_OPS]);

/* Image (height, width, channels). */
typedef struct randaugment_image {
    uint8_t *at, *spare; /* the image, and as many bytes for a copy */
    int64_t height, width, channels;
    const float *fill; /* for each channel: the colour beyond the border */
} randaugment_image;

/* Applies an operation; `at` and `spare` may be exchanged. */
void randaugment_apply(const randaugment_op *op, randaugment_image *m);

#endif
