/* See image_file.h. Both libraries leave a damaged file by a longjmp out of their callbacks. Variables that must
 * survive it are in a struct, `decoder`, that the function with the setjmp does not change in between.
 *
 * A file is read piece by piece, so that its size takes no memory. Decoding takes at most IMAGE_MEMORY bytes in all
 * threads together: an image waits until those before it have left enough. */
#include "data/image_file.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h> /* after stdio.h, whose FILE it uses */
#include <jerror.h>
#include <png.h>

#include "util/fail.h"
#include "data/paths.h"

enum { channels = 3, piece = 1 << 16 };

typedef struct decoder {
    image *out;
    const char *name;
    const uint8_t *next; /* the bytes that are here, and how many of them are left */
    size_t left;
    int file; /* it has `unread` more bytes, from `offset` on; -1: none */
    int64_t offset, unread;
    uint8_t *buffer; /* for a piece of the file */
    int orientation; /* as EXIF counts them, 1 to 8; 0: not found yet */
    char why[96];    /* the library's message */
    bool no_memory;  /* the reason is not the file */
    scion_status status;
    scion_error failure; /* why the file could not be read, if status says so */
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
} decoder;

/* Reads the next piece of the file; false: there is none. Leaves the decoder if it cannot be read. */
static bool refill(decoder *d)
{
    if (d->unread == 0)
        return false;
    const size_t n = d->unread < piece ? (size_t)d->unread : piece;
    d->status = data_read_at(d->file, d->name, d->offset, d->buffer, n, &d->failure);
    if (d->status != SCION_OK)
        longjmp(d->leave, 1);
    d->offset += (int64_t)n;
    d->unread -= (int64_t)n;
    d->next = d->buffer;
    d->left = n;
    return true;
}

/* Reports a damaged file, one that cannot be read, or no memory for it. */
static scion_status fail_by_library(const decoder *d, const char *format, scion_error *err)
{
    if (d->status != SCION_OK)
        return train_fail(err, d->status, "%s", d->failure.message);
    if (d->no_memory)
        return data_fail(err, SCION_ENOMEM, d->name, "out of memory to decode it");
    return data_fail(err, SCION_EINVAL, d->name, "a %s that is cut off or damaged: %s", format, d->why);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t released;
    size_t used;
} budget = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

/* Waits until so many bytes are left, and takes them for an image. */
static void hold(image *m, size_t bytes)
{
    pthread_mutex_lock(&budget.lock);
    while (budget.used > 0 && budget.used + bytes > IMAGE_MEMORY)
        pthread_cond_wait(&budget.released, &budget.lock);
    budget.used += bytes;
    m->held = bytes;
    pthread_mutex_unlock(&budget.lock);
}

static void release(image *m)
{
    if (m->held == 0)
        return;
    pthread_mutex_lock(&budget.lock);
    budget.used -= m->held;
    pthread_cond_broadcast(&budget.released);
    pthread_mutex_unlock(&budget.lock);
}

/* Checks the size of an image and allocates its pixels. `more`: bytes that its decoder takes beside them; `spare`:
 * likewise, unless that is too much. */
static scion_status allocate_pixels(decoder *d, int64_t width, int64_t height, size_t more, bool spare,
                                    scion_error *err)
{
    if (width < 1 || height < 1 || width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE ||
        width > IMAGE_MAX_PIXELS / height)
        return data_fail(err, SCION_EINVAL, d->name, "%lld x %lld pixels, expected at most %lld, and %d on a side",
                         (long long)width, (long long)height, (long long)IMAGE_MAX_PIXELS, IMAGE_MAX_SIDE);
    const size_t pixels = (size_t)(width * height) * channels;
    if (more > IMAGE_MEMORY - pixels)
        return data_fail(err, SCION_EINVAL, d->name,
                         "%lld x %lld pixels take %.0f MB to decode, expected at most %.0f", (long long)width,
                         (long long)height, (double)(pixels + more) / 1e6, IMAGE_MEMORY / 1e6);
    hold(d->out, pixels + (spare && pixels <= IMAGE_MEMORY - pixels ? pixels : more));
    d->out->width = width;
    d->out->height = height;
    d->out->pixels = malloc(pixels);
    return d->out->pixels ? SCION_OK
                          : data_fail(err, SCION_ENOMEM, d->name, "out of memory: %lld x %lld pixels",
                                      (long long)width, (long long)height);
}

/* ---- Orientation --------------------------------------------------------------------------------------- */

static uint32_t number(const uint8_t *at, int bytes, bool big)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[big ? i : bytes - 1 - i];
    return value;
}

/* Orientation by EXIF data, a TIFF header and its first directory; 1, upright: none, or not as it should be. */
static int orientation_of(const uint8_t *exif, size_t n)
{
    enum { header = 8, entry_bytes = 12, tag = 0x112, type_short = 3 };
    const bool big = n >= header && memcmp(exif, "MM\0*", 4) == 0;
    if (n < header || (!big && memcmp(exif, "II*\0", 4) != 0))
        return 1;
    size_t at = number(exif + 4, 4, big);
    if (at > n - 2)
        return 1;
    const uint32_t entries = number(exif + at, 2, big);
    at += 2;
    for (uint32_t i = 0; i < entries && n - at >= entry_bytes; i++, at += entry_bytes) {
        const uint8_t *e = exif + at;
        const uint32_t value = number(e + 8, 2, big);
        if (number(e, 2, big) == tag)
            return number(e + 2, 2, big) == type_short && number(e + 4, 4, big) == 1 && value >= 1 && value <= 8
                       ? (int)value
                       : 1;
    }
    return 1;
}

static bool swaps_sides(int orientation)
{
    return orientation >= 5;
}

/* Puts row y of a file of width x height pixels where the orientation wants it:
 *     1 as it is, 2 mirrored, 3 turned by 180 degrees, 4 upside down and mirrored,
 *     5 transposed, 6 turned right by 90 degrees, 7 transposed by the other diagonal, 8 turned left by 90 degrees. */
static void put_row(int orientation, int64_t width, int64_t height, int64_t y, const uint8_t *row, uint8_t *pixels)
{
    static const bool from_right[] = {[2] = true, [3] = true, [7] = true, [8] = true},
                      from_below[] = {[3] = true, [4] = true, [6] = true, [7] = true, [8] = false};
    const int64_t b = from_below[orientation] ? height - 1 - y : y;
    for (int64_t x = 0; x < width; x++) {
        const int64_t a = from_right[orientation] ? width - 1 - x : x;
        const int64_t to = swaps_sides(orientation) ? a * height + b : b * width + a;
        memcpy(pixels + to * channels, row + x * channels, channels);
    }
}

/* Turns pixels that are as in the file, with a copy of them. */
static scion_status turn(decoder *d, scion_error *err)
{
    image *m = d->out;
    const int64_t width = m->width, height = m->height;
    const size_t bytes = (size_t)(width * height) * channels;
    if (d->orientation <= 1)
        return SCION_OK;
    if (bytes > IMAGE_MEMORY - bytes)
        return data_fail(err, SCION_EINVAL, d->name, "%lld x %lld pixels are too many to turn as its EXIF data say",
                         (long long)width, (long long)height);
    uint8_t *turned = malloc(bytes);
    if (!turned)
        return data_fail(err, SCION_ENOMEM, d->name, "out of memory to turn it");
    for (int64_t y = 0; y < height; y++)
        put_row(d->orientation, width, height, y, m->pixels + y * width * channels, turned);
    free(m->pixels);
    m->pixels = turned;
    m->width = swaps_sides(d->orientation) ? height : width;
    m->height = swaps_sides(d->orientation) ? width : height;
    return SCION_OK;
}

/* ---- PNG ----------------------------------------------------------------------------------------------- */

static void png_wrong(png_structp png, png_const_charp message)
{
    decoder *d = png_get_error_ptr(png);
    snprintf(d->why, sizeof d->why, "%s", message);
    longjmp(d->leave, 1);
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
    while (n > 0) {
        if (d->left == 0 && !refill(d))
            png_error(png, "it ends too early");
        const size_t some = n < d->left ? n : d->left;
        memcpy(to, d->next, some);
        d->next += some;
        d->left -= some;
        to += some;
        n -= some;
    }
}

/* Converts any colour type to 8 bit RGB. EXIF data may follow the pixels. */
static scion_status png_pixels(decoder *d, png_structp png, png_infop info, scion_error *err)
{
    static const png_byte unused[] = "iCCP\0iTXt\0sPLT\0tEXt\0zTXt"; /* memory without a bound */
    png_bytep exif;
    png_uint_32 exif_bytes;
    if (setjmp(d->leave))
        return fail_by_library(d, "PNG", err);
    png_set_read_fn(png, d, png_more);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, unused, sizeof unused / 5);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
    RETURN_IF_FAILED(allocate_pixels(d, width, height, 0, true, err));
    if (png_get_rowbytes(png, info) != (size_t)width * channels)
        png_error(png, "its rows have another size");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++)
            png_read_row(png, d->out->pixels + y * width * channels, NULL);
    png_read_end(png, info);
    if (png_get_eXIf_1(png, info, &exif_bytes, &exif) != 0)
        d->orientation = orientation_of(exif, exif_bytes);
    return turn(d, err);
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

static void jpeg_nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean jpeg_fill(j_decompress_ptr jpeg)
{
    decoder *d = jpeg->client_data;
    if (!refill(d)) {
        jpeg->err->msg_code = JWRN_JPEG_EOF;
        jpeg_wrong((j_common_ptr)jpeg);
    }
    jpeg->src->next_input_byte = d->next;
    jpeg->src->bytes_in_buffer = d->left;
    return TRUE;
}

static void jpeg_skip(j_decompress_ptr jpeg, long n)
{
    size_t left = n > 0 ? (size_t)n : 0;
    for (; left > jpeg->src->bytes_in_buffer; jpeg_fill(jpeg))
        left -= jpeg->src->bytes_in_buffer;
    jpeg->src->next_input_byte += left;
    jpeg->src->bytes_in_buffer -= left;
}

static uint8_t jpeg_byte(j_decompress_ptr jpeg)
{
    if (jpeg->src->bytes_in_buffer == 0)
        jpeg_fill(jpeg);
    jpeg->src->bytes_in_buffer--;
    return *jpeg->src->next_input_byte++;
}

/* Reads a segment APP1, in which EXIF data may be. Only the first bytes are kept: the first directory is there. */
static boolean jpeg_app1(j_decompress_ptr jpeg)
{
    enum { kept = 4096, mark_bytes = 6 };
    decoder *d = jpeg->client_data;
    uint8_t bytes[kept];
    const int high = jpeg_byte(jpeg), length = high << 8 | jpeg_byte(jpeg), count = length > 2 ? length - 2 : 0;
    const int here = count < kept ? count : kept;
    for (int i = 0; i < here; i++)
        bytes[i] = jpeg_byte(jpeg);
    jpeg_skip(jpeg, count - here);
    if (d->orientation == 0 && here > mark_bytes && memcmp(bytes, "Exif\0", mark_bytes) == 0)
        d->orientation = orientation_of(bytes + mark_bytes, (size_t)(here - mark_bytes));
    return TRUE;
}

/* Stops at more scans than a camera or program writes: each takes time, and few bytes. */
static void jpeg_watch(j_common_ptr jpeg)
{
    enum { max_scans = 100 };
    decoder *d = jpeg->client_data;
    if (((j_decompress_ptr)jpeg)->input_scan_number <= max_scans)
        return;
    snprintf(d->why, sizeof d->why, "more than %d scans", max_scans);
    longjmp(d->leave, 1);
}

/* Bytes of the coefficients, of 2 bytes each, which the library keeps if there are several scans. */
static size_t coefficient_bytes(j_decompress_ptr jpeg)
{
    size_t blocks = 0;
    for (int c = 0; c < jpeg->num_components && jpeg_has_multiple_scans(jpeg); c++)
        blocks += (size_t)jpeg->comp_info[c].width_in_blocks * jpeg->comp_info[c].height_in_blocks;
    return blocks * DCTSIZE2 * sizeof(JCOEF);
}

/* Converts a row of CMYK to RGB, in place. Adobe's programs write inks inverted, and all readers expect it. */
static void inks_to_rgb(uint8_t *row, int64_t width)
{
    for (int64_t x = 0; x < width; x++) {
        const int key = row[4 * x + 3];
        for (int c = 0; c < channels; c++)
            row[channels * x + c] = (uint8_t)((row[4 * x + c] * key + 127) / 255);
    }
}

/* Reads the rows to their places. */
static void jpeg_rows(const decoder *d, j_decompress_ptr jpeg)
{
    const int64_t width = jpeg->image_width, height = jpeg->image_height;
    const bool inks = jpeg->out_color_space == JCS_CMYK;
    const JSAMPARRAY own = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->image_width * 4, 1);
    while (jpeg->output_scanline < jpeg->output_height) {
        const int64_t y = jpeg->output_scanline;
        JSAMPROW row = inks || d->orientation > 1 ? own[0] : d->out->pixels + y * width * channels;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (inks)
            inks_to_rgb(row, width);
        if (row == own[0])
            put_row(d->orientation, width, height, y, row, d->out->pixels);
    }
}

static scion_status jpeg_pixels(decoder *d, struct jpeg_decompress_struct *jpeg, scion_error *err)
{
    if (setjmp(d->leave))
        return fail_by_library(d, "JPEG", err);
    jpeg_create_decompress(jpeg);
    jpeg->src = &d->source;
    jpeg->progress = &d->progress;
    jpeg_set_marker_processor(jpeg, JPEG_APP0 + 1, jpeg_app1);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = jpeg->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW; /* the same bits on every machine */
    const bool swapped = swaps_sides(d->orientation);
    RETURN_IF_FAILED(allocate_pixels(d, swapped ? jpeg->image_height : jpeg->image_width,
                                     swapped ? jpeg->image_width : jpeg->image_height, coefficient_bytes(jpeg), false,
                                     err));
    jpeg_start_decompress(jpeg);
    jpeg_rows(d, jpeg);
    jpeg_finish_decompress(jpeg);
    return SCION_OK;
}

static scion_status read_jpeg(decoder *d, scion_error *err)
{
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct jpeg = {.err = jpeg_std_error(&errors), .client_data = d};
    errors.error_exit = jpeg_wrong;
    errors.emit_message = jpeg_remark;
    d->progress.progress_monitor = jpeg_watch;
    d->source = (struct jpeg_source_mgr){.next_input_byte = d->next,
                                         .bytes_in_buffer = d->left,
                                         .init_source = jpeg_nothing,
                                         .fill_input_buffer = jpeg_fill,
                                         .skip_input_data = jpeg_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = jpeg_nothing};
    const scion_status status = jpeg_pixels(d, &jpeg, err);
    jpeg_destroy_decompress(&jpeg);
    return status;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

/* Name of another format of images, by the first bytes of a file; NULL: none that is known. */
static const char *other_format(const uint8_t *bytes, size_t n)
{
    static const struct {
        size_t at, count;
        const char *mark, *name;
    } formats[] = {{0, 4, "GIF8", "GIF"},      {8, 4, "WEBP", "WebP"},    {6, 4, "\0\0\0\0", "BMP"},
                   {0, 4, "II*\0", "TIFF"},    {0, 4, "MM\0*", "TIFF"},   {4, 8, "ftypavif", "AVIF"},
                   {4, 8, "ftypheic", "HEIC"}, {4, 8, "ftypmif1", "HEIC"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i].at + formats[i].count &&
            memcmp(bytes + formats[i].at, formats[i].mark, formats[i].count) == 0 &&
            (formats[i].at != 6 || memcmp(bytes, "BM", 2) == 0)) /* two letters may begin a text */
            return formats[i].name;
    return NULL;
}

/* Decodes what the first bytes, which are here, say. */
static scion_status decode(decoder *d, scion_error *err)
{
    const bool png = d->left >= 8 && png_sig_cmp(d->next, 0, 8) == 0;
    const bool jpeg = d->left >= 3 && memcmp(d->next, "\xff\xd8\xff", 3) == 0;
    const char *other = other_format(d->next, d->left);
    if (other)
        return data_fail(err, SCION_EINVAL, d->name,
                         "an image in format %s, which is not read: convert it to PNG or JPEG", other);
    if (!png && !jpeg)
        return data_fail(err, SCION_EINVAL, d->name, "neither a PNG nor a JPEG image");
    if (d->unread > (int64_t)IMAGE_MEMORY)
        return data_fail(err, SCION_EINVAL, d->name, "a file of %.0f MB, expected at most %.0f",
                         (double)d->unread / 1e6, IMAGE_MEMORY / 1e6);
    return png ? read_png(d, err) : read_jpeg(d, err);
}

scion_status image_decode(image *out, const void *bytes, size_t n, const char *name, scion_error *err)
{
    decoder d = {.out = out, .name = name, .next = bytes, .left = n, .file = -1};
    *out = (image){0};
    const scion_status status = decode(&d, err);
    if (status != SCION_OK)
        image_free(out);
    return status;
}

static scion_status decode_file(decoder *d, scion_error *err)
{
    d->buffer = malloc(piece);
    if (!d->buffer)
        return data_fail(err, SCION_ENOMEM, d->name, "out of memory to read it");
    if (setjmp(d->leave))
        return fail_by_library(d, "file", err);
    refill(d);
    return decode(d, err);
}

scion_status image_read(image *out, const char *path, scion_error *err)
{
    decoder d = {.out = out, .name = path};
    *out = (image){0};
    RETURN_IF_FAILED(data_open_file(path, &d.file, &d.unread, err));
    const scion_status status = decode_file(&d, err);
    if (status != SCION_OK)
        image_free(out);
    free(d.buffer);
    close(d.file);
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
    release(m);
    *m = (image){0};
}
