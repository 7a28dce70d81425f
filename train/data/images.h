/* Images of all kinds: description, augmentation, samples. */
#ifndef TRAIN_DATA_IMAGES_H
#define TRAIN_DATA_IMAGES_H

#include "data/augment.h"
#include "data/data_kind.h"
#include "data/image_file.h"

/* Images of a part. In memory, pixels are bytes, channel by channel. */
typedef struct data_image_part {
    uint8_t *pixels; /* NULL: not in memory */
    int32_t *labels;
    int64_t count;
} data_image_part;

/* The state of a kind of images starts with this. */
typedef struct data_images {
    data_image_info about;
    data_image_part part[DATA_PARTS];
    bool channels_last; /* `image` is wanted, not `pixels` */
    /* Gives the bytes of an image; *memory, if set, is freed afterwards. `number` as in data_fetch. An image that
     * cannot be read may be replaced by another (*sample), or left out (*sample is -1, and there are no bytes). A
     * kind whose images are not in memory sets it, mean and scale before data_images_ready. */
    scion_status (*get)(const data_set *d, data_part part, int64_t *sample, int64_t number, data_pixels *pixels,
                        void **memory, scion_error *err);
} data_images;

/* Describes the images, once part[].count, labels and pixels, and sizes and classes in `about` are set; names NULL:
 * classes are called by their numbers. Means and scales come from the training images, if they are in memory. The
 * kind's options start with data_image_options. */
scion_status data_images_ready(data_set *d, const data_context *context, scion_error *err);
/* Finds a sample of a whole set, in which the training images come first; of other sets it is as it is. */
void data_place_of(const data_set *d, data_part *part, int64_t *sample);
/* Resamples a box of an image to the size and channels of `about`: to is (height, width, channels). */
scion_status data_view_image(const data_image_info *about, const image *from, data_box box, uint8_t *to,
                             scion_error *err);
/* The box that evaluation sees. */
data_box data_middle(const data_image_info *about, const image *from);
/* Reads data_info.images; names belong to d. */
scion_status data_images_read(data_set *d, const char *text, data_image_info *m, scion_error *err);

#endif
