/* Images as files, made for a test. */
#ifndef SCION_TESTS_IMAGE_FILES_H
#define SCION_TESTS_IMAGE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a file; the caller frees them. */
typedef struct image_bytes {
    uint8_t *at;
    size_t count;
} image_bytes;

/* A PNG of samples as they stand in it, row by row: `colour` and `depth` are libpng's, 16 bits are big-endian. A
 * palette has the colours (i, 2 i, 3 i) mod 256. */
image_bytes make_png(int width, int height, int colour, int depth, bool interlaced, const uint8_t *samples);
/* A JPEG of the best quality, its colours not subsampled; channels 1: grey, 3: RGB, 4: CMYK. */
image_bytes make_jpeg(int width, int height, int channels, bool progressive, const uint8_t *samples);
/* The same of CMYK, kept as YCCK. */
image_bytes make_ycck(int width, int height, const uint8_t *samples);
/* A grey progressive one in which each coefficient has `rounds` scans of its own, up to 3, and the mean one. */
image_bytes make_scans(int width, int height, int rounds, const uint8_t *samples);
/* Puts bytes into a file, which moves. */
void insert_bytes(image_bytes *file, size_t at, const void *bytes, size_t n);
/* A chunk of a PNG: length, name, data, checksum. Returns its bytes. */
size_t png_chunk(uint8_t *to, const char *name, const uint8_t *data, size_t n);

/* EXIF data with one entry, the orientation. */
enum { EXIF_BYTES = 26 };
void make_exif(uint8_t exif[EXIF_BYTES], bool big_endian, int orientation);
/* Puts EXIF data into a JPEG, or into a PNG before or after its pixels. */
void jpeg_add_exif(image_bytes *file, const uint8_t *exif, size_t n);
void png_add_exif(image_bytes *file, bool after, const uint8_t *exif, size_t n);

/* A file in the folder of data_files.h: a PNG in RGB. Pixel (y, x) of channel c is image_pixel. */
void image_file(const char *name, int width, int height, int which);
uint8_t image_pixel(int which, int y, int x, int c);

#endif
