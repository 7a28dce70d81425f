/* See image_files.h. */
#include "image_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include "data_files.h"

static void append(png_structp png, png_bytep bytes, size_t n)
{
    image_bytes *to = png_get_io_ptr(png);
    uint8_t *all = realloc(to->at, to->count + n);
    assert_non_null(all);
    memcpy(all + to->count, bytes, n);
    *to = (image_bytes){all, to->count + n};
}

static void flush(png_structp png)
{
    (void)png;
}

image_bytes make_png(int width, int height, int colour, int depth, bool interlaced, const uint8_t *samples)
{
    image_bytes out = {NULL, 0};
    png_color palette[256];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_bytep *rows = calloc((size_t)height, sizeof *rows);
    assert_true(png && info && rows);
    png_set_write_fn(png, &out, append, flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, colour,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)i, (png_byte)(2 * i), (png_byte)(3 * i)};
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 1 << depth);
    png_write_info(png, info);
    for (int y = 0; y < height; y++)
        rows[y] = (png_bytep)samples + (size_t)y * png_get_rowbytes(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    return out;
}

/* Scans of one coefficient each, after that of the means: bits from above, then one bit more in each round. */
static int list_scans(jpeg_scan_info *scans, int rounds)
{
    int count = 0;
    scans[count++] = (jpeg_scan_info){.comps_in_scan = 1};
    for (int round = 0; round < rounds; round++)
        for (int k = 1; k < DCTSIZE2; k++)
            scans[count++] = (jpeg_scan_info){.comps_in_scan = 1,
                                              .Ss = k,
                                              .Se = k,
                                              .Ah = round == 0 ? 0 : rounds - round,
                                              .Al = rounds - 1 - round};
    return count;
}

static image_bytes write_jpeg(int width, int height, int channels, bool ycck, bool progressive, int rounds,
                              const uint8_t *samples)
{
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors)};
    jpeg_scan_info scans[1 + 3 * DCTSIZE2];
    unsigned char *memory = NULL;
    unsigned long count = 0;
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &count);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    if (ycck)
        jpeg_set_colorspace(&jpeg, JCS_YCCK);
    jpeg_set_quality(&jpeg, 100, TRUE);
    for (int c = 0; c < jpeg.num_components; c++)
        jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
    if (progressive)
        jpeg_simple_progression(&jpeg);
    if (rounds > 0) {
        jpeg.num_scans = list_scans(scans, rounds);
        jpeg.scan_info = scans;
    }
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)samples + (size_t)jpeg.next_scanline * (size_t)(width * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return (image_bytes){memory, count};
}

image_bytes make_jpeg(int width, int height, int channels, bool progressive, const uint8_t *samples)
{
    return write_jpeg(width, height, channels, false, progressive, 0, samples);
}

image_bytes make_ycck(int width, int height, const uint8_t *samples)
{
    return write_jpeg(width, height, 4, true, false, 0, samples);
}

image_bytes make_scans(int width, int height, int rounds, const uint8_t *samples)
{
    return write_jpeg(width, height, 1, false, true, rounds, samples);
}

void insert_bytes(image_bytes *file, size_t at, const void *bytes, size_t n)
{
    uint8_t *all = realloc(file->at, file->count + n);
    assert_non_null(all);
    memmove(all + at + n, all + at, file->count - at);
    memcpy(all + at, bytes, n);
    *file = (image_bytes){all, file->count + n};
}

static void put_big(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

size_t png_chunk(uint8_t *to, const char *name, const uint8_t *data, size_t n)
{
    put_big(to, (uint32_t)n);
    memcpy(to + 4, name, 4);
    memcpy(to + 8, data, n);
    put_big(to + 8 + n, (uint32_t)crc32(0, to + 4, (uInt)n + 4));
    return n + 12;
}

void make_exif(uint8_t exif[EXIF_BYTES], bool big_endian, int orientation)
{
    static const uint8_t big[EXIF_BYTES] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1},
                         little[EXIF_BYTES] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1};
    memcpy(exif, big_endian ? big : little, EXIF_BYTES);
    exif[big_endian ? 19 : 18] = (uint8_t)orientation;
}

void jpeg_add_exif(image_bytes *file, const uint8_t *exif, size_t n)
{
    const uint8_t head[] = {0xff, 0xe1, (uint8_t)((n + 8) >> 8), (uint8_t)(n + 8), 'E', 'x', 'i', 'f', 0, 0};
    insert_bytes(file, 2, head, sizeof head);
    if (n > 0)
        insert_bytes(file, 2 + sizeof head, exif, n);
}

void png_add_exif(image_bytes *file, bool after, const uint8_t *exif, size_t n)
{
    enum { head = 8 + 12 + 13, end = 12 };
    uint8_t chunk[256];
    assert_true(n + 12 <= sizeof chunk);
    insert_bytes(file, after ? file->count - end : head, chunk, png_chunk(chunk, "eXIf", exif, n));
}

uint8_t image_pixel(int which, int y, int x, int c)
{
    return (uint8_t)(40 * which + 5 * y + 3 * x + 70 * c);
}

void image_file(const char *name, int width, int height, int which)
{
    uint8_t *pixels = malloc((size_t)(width * height) * 3);
    assert_non_null(pixels);
    for (int i = 0; i < width * height * 3; i++)
        pixels[i] = image_pixel(which, i / 3 / width, i / 3 % width, i % 3);
    const image_bytes png = make_png(width, height, PNG_COLOR_TYPE_RGB, 8, false, pixels);
    files_write(name, png.at, png.count);
    free(png.at);
    free(pixels);
}
