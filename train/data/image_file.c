/* See image_file.h. Both libraries leave a damaged file by a longjmp out of their callbacks. Variables that must
 * survive it are in a struct, `decoder`, that the function with the setjmp does not change in between. */
#include "data/image_file.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* after stdio.h, whose FILE it uses */
#include <jerror.h>
#include <png.h>

#include "util/fail.h"
#include "data/paths.h"

enum { channels = 3 };

typedef struct decoder {
    image *out;
    const uint8_t *bytes;
    size_t count, at; /* at: bytes read so far */
    const char *name;
    char why[96];   /* the library's message */
    bool no_memory; /* the reason is not the file */
    jmp_buf leave;
} decoder;

/* Checks the size of an image and allocates its pixels. */
static scion_status allocate_pixels(decoder *d, int64_t width, int64_t height, scion_error *err)
{
    if (width < 1 || height < 1 || width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE ||
        width > IMAGE_MAX_PIXELS / height)
        return data_fail(err, SCION_EINVAL, d->name, "%lld x %lld pixels, expected at most %lld, and %d on a side",
                         (long long)width, (long long)height, (long long)IMAGE_MAX_PIXELS, IMAGE_MAX_SIDE);
    d->out->width = width;
    d->out->height = height;
    d->out->pixels = malloc((size_t)(width * height) * channels);
    return d->out->pixels ? SCION_OK
                          : data_fail(err, SCION_ENOMEM, d->name, "out of memory: %lld x %lld pixels",
                                      (long long)width, (long long)height);
}

/* ---- PNG ----------------------------------------------------------------------------------------------- */

static void png_wrong(png_structp png, png_const_charp message)
{
    decoder *d = png_get_error_ptr(png);
    snprintf(d->why, sizeof d->why, "%s", message);
    longjmp(d->leave, 1);
}

/* Reports a damaged file, or no memory for it. */
static scion_status fail_by_library(const decoder *d, const char *format, scion_error *err)
{
    if (d->no_memory)
        return data_fail(err, SCION_ENOMEM, d->name, "out of memory to decode it");
    return data_fail(err, SCION_EINVAL, d->name, "a %s that is cut off or damaged: %s", format, d->why);
}

static png_voidp png_memory(png_structp png, png_alloc_size_t bytes)
{
    decoder *d = png_get_mem_ptr(png);
    void *memory = malloc(bytes);
    d->no_memory = d->no_memory || !memory;
    return memory;
}

static void png_remark(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_more(png_structp png, png_bytep to, size_t n)
{
    decoder *d = png_get_io_ptr(png);
    if (n > d->count - d->at)
        png_error(png, "it ends too early");
    memcpy(to, d->bytes + d->at, n);
    d->at += n;
}

/* Converts any colour type to 8 bit RGB. */
static scion_status png_pixels(decoder *d, png_structp png, png_infop info, scion_error *err)
{
    if (setjmp(d->leave))
        return fail_by_library(d, "PNG", err);
    png_set_read_fn(png, d, png_more);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
    RETURN_IF_FAILED(allocate_pixels(d, width, height, err));
    if (png_get_rowbytes(png, info) != (size_t)width * channels)
        png_error(png, "its rows have another size");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++)
            png_read_row(png, d->out->pixels + y * width * channels, NULL);
    png_read_end(png, NULL);
    return SCION_OK;
}

static scion_status read_png(decoder *d, scion_error *err)
{
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, png_wrong, png_remark, d, png_memory, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const scion_status status =
        info ? png_pixels(d, png, info, err) : data_fail(err, SCION_ENOMEM, d->name, "out of memory");
    png_destroy_read_struct(&png, &info, NULL);
    return status;
}

/* ---- JPEG ---------------------------------------------------------------------------------------------- */

static void jpeg_wrong(j_common_ptr jpeg)
{
    decoder *d = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    d->no_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    jpeg->err->format_message(jpeg, text);
    snprintf(d->why, sizeof d->why, "%.*s", (int)sizeof d->why - 1, text);
    longjmp(d->leave, 1);
}

/* Refuses files with warnings after which the library invents pixels. After others (bytes between segments, say) the
 * image is whole. */
static void jpeg_remark(j_common_ptr jpeg, int level)
{
    static const int made_up[] = {JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_ARITH_BAD_CODE,
                                  JWRN_MUST_RESYNC};
    for (size_t i = 0; level < 0 && i < sizeof made_up / sizeof *made_up; i++)
        if (jpeg->err->msg_code == made_up[i])
            jpeg_wrong(jpeg);
}

static scion_status jpeg_pixels(decoder *d, struct jpeg_decompress_struct *jpeg, scion_error *err)
{
    if (setjmp(d->leave))
        return fail_by_library(d, "JPEG", err);
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, d->bytes, d->count);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components == 4)
        return data_fail(err, SCION_EINVAL, d->name, "a JPEG in CMYK; expected grey or RGB");
    jpeg->out_color_space = JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW; /* the same bits on every machine */
    RETURN_IF_FAILED(allocate_pixels(d, jpeg->image_width, jpeg->image_height, err));
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = d->out->pixels + (int64_t)jpeg->output_scanline * d->out->width * channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return SCION_OK;
}

static scion_status read_jpeg(decoder *d, scion_error *err)
{
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct jpeg = {.err = jpeg_std_error(&errors), .client_data = d};
    errors.error_exit = jpeg_wrong;
    errors.emit_message = jpeg_remark;
    const scion_status status = jpeg_pixels(d, &jpeg, err);
    jpeg_destroy_decompress(&jpeg);
    return status;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

scion_status image_decode(image *out, const void *bytes, size_t n, const char *name, scion_error *err)
{
    decoder d = {.out = out, .bytes = bytes, .count = n, .name = name};
    scion_status status;
    *out = (image){0};
    if (n >= 8 && png_sig_cmp(bytes, 0, 8) == 0)
        status = read_png(&d, err);
    else if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        status = read_jpeg(&d, err);
    else
        status = data_fail(err, SCION_EINVAL, name, "neither a PNG nor a JPEG image");
    if (status != SCION_OK)
        image_free(out);
    return status;
}

scion_status image_read(image *out, const char *path, scion_error *err)
{
    uint8_t *bytes;
    int64_t count;
    *out = (image){0};
    scion_status status = data_read_file(path, &bytes, &count, err);
    if (status == SCION_OK)
        status = image_decode(out, bytes, (size_t)count, path, err);
    free(bytes);
    return status;
}

scion_status image_encode_png(const uint8_t *pixels, int64_t height, int64_t width, int64_t depth, uint8_t **bytes,
                              size_t *n, scion_error *err)
{
    png_image about = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = depth == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(about);
    *bytes = malloc(size);
    const bool fine = *bytes && png_image_write_to_memory(&about, *bytes, &size, 0, pixels, 0, NULL) != 0;
    png_image_free(&about);
    *n = size;
    if (fine)
        return SCION_OK;
    free(*bytes);
    *bytes = NULL;
    return train_fail(err, SCION_ENOMEM, "out of memory for an image of %lld x %lld pixels", (long long)height,
                      (long long)width);
}

void image_free(image *m)
{
    free(m->pixels);
    *m = (image){0};
}
