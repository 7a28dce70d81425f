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

image_bytes make_jpeg(int width, int height, int channels, bool progressive, const uint8_t *samples)
{
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors)};
    unsigned char *memory = NULL;
    unsigned long count = 0;
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &count);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    for (int c = 0; c < jpeg.num_components; c++)
        jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)samples + (size_t)jpeg.next_scanline * (size_t)(width * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return (image_bytes){memory, count};
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
