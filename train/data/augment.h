/* Augmentation of training images: shifted, mirrored, covered in part, mixed. The changes of a sample are a pure
 * function of the seed, its number and its image; they do not depend on threads, batches or resuming. */
#ifndef TRAIN_DATA_AUGMENT_H
#define TRAIN_DATA_AUGMENT_H

#include "data/data.h"
#include "data/randaugment.h"

/* Options of every kind of images. A kind with more options begins its struct with these, and its rows with
 * DATA_IMAGE_ROWS. */
typedef struct data_image_options {
    int flip;             /* index into data_flips */
    int64_t translate;    /* largest shift in each direction */
    int64_t cutout;       /* side of a square that is covered */
    double randaugment;   /* magnitude, 0: off */
    double erase;         /* probability of covering a rectangle with noise */
    double mixup, cutmix; /* parameter of their Beta distributions, 0: off */
    int64_t image_size;   /* pixels on each side */
} data_image_options;

extern const char *const data_flips[]; /* ended by NULL */

#define DATA_IMAGE_ROWS                                                                                              \
    OPTION_CHOICE_ROW(data_image_options, flip, "flip", "none", data_flips,                                          \
                      "mirror half of the images; alternate: the other half each epoch"),                            \
        OPTION_INT_ROW(data_image_options, translate, "translate", "0", 0, 1024,                                     \
                       "largest shift in pixels; the border is reflected"),                                          \
        OPTION_INT_ROW(data_image_options, cutout, "cutout", "0", 0, OPTION_MANY,                                    \
                       "side of a square that is covered by zeros"),                                                 \
        OPTION_REAL_ROW(data_image_options, randaugment, "randaugment", "0", 0, RANDAUGMENT_LEVELS,                  \
                        "strength of RandAugment's two operations (DeiT: 9), 0: none"),                              \
        OPTION_REAL_ROW(data_image_options, erase, "erase", "0", 0, 1, "probability of random erasing (by noise)"),  \
        OPTION_REAL_ROW(data_image_options, mixup, "mixup", "0", 0, 1, "blend two images by Beta(mixup, mixup)"),    \
        OPTION_REAL_ROW(data_image_options, cutmix, "cutmix", "0", 0, 1, "paste a part of another image, as mixup"), \
        OPTION_INT_ROW(data_image_options, image_size, "image_size", "0", 0, 4096,                                   \
                       "pixels on each side; 0: as they are; of files: 224")

/* Largest image for `erase`: number x channels x pixels counts random numbers in 63 bits, number < 2^36. */
enum { DATA_ERASE_PIXELS = 1 << 24 };

/* DATA_IMAGE_ROWS alone. */
extern const option data_image_option_rows[];

/* Rows [y0, y1) and columns [x0, x1); may be empty. */
typedef struct data_box {
    int64_t y0, x0, y1, x1;
} data_box;

/* Changes of one image. */
typedef struct data_change {
    bool flip;
    bool randaugment;
    randaugment_op ops[RANDAUGMENT_OPS]; /* after flip and shift, if `randaugment` */
    int64_t dy, dx;                      /* pixel (y, x) shows (y + dy, x + dx), reflected at the border */
    data_box cutout, erase;              /* covered by zeros; by noise */
    int64_t number;                      /* of the noise */
} data_change;

/* Draws the changes of sample `number` in an epoch, which is image `sample` of its part. */
data_change data_draw_change(const data_image_options *o, uint64_t seed, int64_t height, int64_t width, int64_t epoch,
                             int64_t sample, int64_t number);

/* Draws the box of an image of this size that training sees as sample `number` (random resized crop): crop_min to
 * all of its area, sides in a ratio of 3/4 to 4/3, anywhere. */
data_box data_draw_crop(double crop_min, uint64_t seed, int64_t height, int64_t width, int64_t number);

/* Index i of n, reflected at the outermost pixels: -1 becomes 1. i is in (-n, 2 n - 1): one reflection is enough. */
static inline int64_t data_reflected(int64_t i, int64_t n)
{
    const int64_t k = i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
    return k >= 0 && k < n ? k : 0; /* a single pixel has no neighbours */
}

/* True if nothing changes. */
bool data_unchanged(const data_change *a);

/* Strides of an image in bytes: pixel (c, y, x) is at[c channel + y row + x column]. */
typedef struct data_pixels {
    const uint8_t *at;
    int64_t channel, row, column;
} data_pixels;

/* Placing of an image in a sample: in `box`, out = weight x (pixel - mean) scale, or out += that. */
typedef struct data_placing {
    data_box box;
    float weight;
    bool add;
} data_placing;

/* Puts a changed image into a sample: `to` is (height, width, channels) if channels_last, else (channels, height,
 * width). */
void data_put_image(const data_image_info *about, const data_pixels *from, const data_change *change, uint64_t seed,
                    const data_placing *placing, bool channels_last, float *to);

/* Applies flip, shift and RandAugment to the bytes of an image: `bytes` has capacity for two images, and holds the
 * result, which *from then describes. *change keeps the other changes. */
void data_change_bytes(const data_image_info *about, data_pixels *from, data_change *change, uint8_t *bytes);

/* A second image in a sample (mixup, cutmix). */
typedef struct data_mix {
    bool mixes;
    int64_t partner; /* its place in the part */
    int64_t number;  /* of its random changes */
    double weight;   /* of the first image and its class; the second has the rest */
    data_box box;    /* cutmix: of the second image; empty: they are blended */
} data_mix;

data_mix data_draw_mix(const data_image_options *o, uint64_t seed, int64_t height, int64_t width, int64_t samples,
                       int64_t number);

/* Draws a number in [0, 1] from Beta(a, a), 0 < a <= 1, with numbers `first`, first + 1, ... of a stream. */
double data_draw_beta(double a, uint64_t seed, uint64_t stream, uint64_t first);

#endif
