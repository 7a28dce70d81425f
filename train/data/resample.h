/* Resizing images. */
#ifndef TRAIN_DATA_RESAMPLE_H
#define TRAIN_DATA_RESAMPLE_H

#include <stdbool.h>

#include "data/augment.h"
#include "data/image_file.h"

/* Names of the filters, "bilinear" first, ended by NULL. */
extern const char *const resample_names[];

/* Resizes the pixels in `box`, which is inside the image and not empty, to height x width: to is (height, width, 3).
 * Pixels outside the box are not used. Integer arithmetic: the same bits on every machine. A box of height x width is
 * copied. False: out of memory. */
bool resample(const image *from, data_box box, int filter, int64_t height, int64_t width, uint8_t *to);

#endif
