/* Images as files: PNG and JPEG, told apart by their first bytes, whatever they are called. */
#ifndef TRAIN_DATA_IMAGE_FILE_H
#define TRAIN_DATA_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "scion.h"

/* Pixels are bytes (height, width, 3): red, green, blue, as the file has them. Grey becomes three equal channels, 16
 * bits become 8, transparency is left out; colour profiles and gamma are not looked at. */
typedef struct image {
    int64_t width, height;
    uint8_t *pixels; /* freed by image_free */
} image;

/* An image of more pixels, or longer, is refused before memory is taken for it. */
#define IMAGE_MAX_PIXELS ((int64_t)1 << 27)
enum { IMAGE_MAX_SIDE = 65535 };

/* Reads a file. What cannot be read is refused with a sentence that names the file: neither PNG nor JPEG, cut off,
 * damaged, colours of printing (CMYK), too large. Thread-safe. On failure *out is empty. */
scion_status image_read(image *out, const char *path, scion_error *err);
/* The same from memory; `name` is for messages. */
scion_status image_decode(image *out, const void *bytes, size_t n, const char *name, scion_error *err);
void image_free(image *m);

/* Bytes (height, width, depth), of one channel or three, as a PNG file in memory, which the caller frees. */
scion_status image_encode_png(const uint8_t *pixels, int64_t height, int64_t width, int64_t depth, uint8_t **bytes,
                              size_t *n, scion_error *err);

#endif
