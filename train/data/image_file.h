/* Image files: PNG and JPEG, told apart by their first bytes and not by their names. */
#ifndef TRAIN_DATA_IMAGE_FILE_H
#define TRAIN_DATA_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "scion.h"

/* Pixels are bytes (height, width, 3): red, green, blue, as in the file, turned upright by its EXIF orientation.
 * Grey becomes three equal channels, CMYK (inverted, as Adobe writes it) becomes RGB, 16 bits become 8; transparency,
 * colour profiles and gamma are ignored. */
typedef struct image {
    int64_t width, height;
    uint8_t *pixels; /* freed by image_free */
    size_t held;     /* its part of IMAGE_MEMORY, until then */
} image;

/* Bytes of memory that all images together may take, with what their decoders need; also the largest file. An image
 * that needs more is refused before memory is allocated. One that needs more than is left waits for the others, so a
 * thread that holds an image must not read another large one. */
#define IMAGE_MEMORY ((size_t)1 << 28)
#define IMAGE_MAX_PIXELS ((int64_t)(IMAGE_MEMORY / 3))
enum { IMAGE_MAX_SIDE = 65535 };

/* Reads a file. Refuses, with a sentence that names the file, other formats, cut off or damaged files, and images
 * that are too large or have hundreds of scans. ENOMEM: there is no memory for this one. DATA_EPASSING: the reason is
 * not the file. Thread-safe. On failure *out is empty. */
scion_status image_read(image *out, const char *path, scion_error *err);
/* The same from memory; `name` is for messages. */
scion_status image_decode(image *out, const void *bytes, size_t n, const char *name, scion_error *err);
void image_free(image *m);

/* Encodes bytes (height, width, depth), of one channel or three, as a PNG file in memory, which the caller frees. */
scion_status image_encode_png(const uint8_t *pixels, int64_t height, int64_t width, int64_t depth, uint8_t **bytes,
                              size_t *n, scion_error *err);

#endif
