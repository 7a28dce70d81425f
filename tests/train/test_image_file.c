/* PNG and JPEG: the pixels that a file has, whatever form they have in it, or a sentence that names the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <png.h>

#include "data/image_file.h"
#include "data_files.h"
#include "image_files.h"

enum { W = 13, H = 9, AREA = W * H }; /* no multiples of the 8 x 8 blocks of JPEG, nor of the passes of PNG */

static image must_decode(image_bytes file)
{
    image m;
    scion_error err = {0};
    if (image_decode(&m, file.at, file.count, "test", &err) != SCION_OK)
        fail_msg("%s", err.message);
    assert_int_equal(m.width, W);
    assert_int_equal(m.height, H);
    free(file.at);
    return m;
}

static void must_refuse_bytes(const void *bytes, size_t n, const char *words)
{
    image m = {.width = 1};
    scion_error err = {0};
    const scion_status status = image_decode(&m, bytes, n, "cat.png", &err);
    if (status == SCION_OK)
        fail_msg("%zu bytes are an image of %d x %d", n, (int)m.width, (int)m.height);
    assert_null(m.pixels);
    assert_int_equal(m.width, 0);
    assert_int_equal(strncmp(err.message, "cat.png: ", 9), 0);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
}

static void fill_noise(uint8_t *samples, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        samples[i] = (uint8_t)files_random(&seed);
}

/* ---- PNG ----------------------------------------------------------------------------------------------- */

/* Sample k of pixel i, as the forms below store it, becomes this channel. */
typedef uint8_t channel_of(const uint8_t *samples, int i, int c);

static uint8_t of_grey(const uint8_t *s, int i, int c)
{
    (void)c;
    return s[i];
}

static uint8_t of_grey_alpha(const uint8_t *s, int i, int c)
{
    (void)c;
    return s[2 * i];
}

static uint8_t of_rgb(const uint8_t *s, int i, int c)
{
    return s[3 * i + c];
}

static uint8_t of_rgba(const uint8_t *s, int i, int c)
{
    return s[4 * i + c];
}

static uint8_t of_rgb_16(const uint8_t *s, int i, int c)
{
    return s[6 * i + 2 * c]; /* the upper byte */
}

static uint8_t of_palette(const uint8_t *s, int i, int c)
{
    return (uint8_t)(s[i] * (c + 1));
}

static uint8_t of_bit(const uint8_t *s, int i, int c)
{
    (void)c;
    return s[i / W * ((W + 7) / 8) + i % W / 8] >> (7 - i % W % 8) & 1 ? 255 : 0;
}

static void every_form_of_png_is_read(void **state)
{
    static const struct {
        int colour, depth;
        channel_of *channel;
    } forms[] = {{PNG_COLOR_TYPE_GRAY, 8, of_grey},   {PNG_COLOR_TYPE_GRAY_ALPHA, 8, of_grey_alpha},
                 {PNG_COLOR_TYPE_RGB, 8, of_rgb},     {PNG_COLOR_TYPE_RGB_ALPHA, 8, of_rgba},
                 {PNG_COLOR_TYPE_RGB, 16, of_rgb_16}, {PNG_COLOR_TYPE_PALETTE, 8, of_palette},
                 {PNG_COLOR_TYPE_GRAY, 1, of_bit}};
    uint8_t samples[6 * AREA];
    (void)state;
    for (size_t f = 0; f < 2 * sizeof forms / sizeof *forms; f++) {
        fill_noise(samples, sizeof samples, files_seed() + f);
        image m = must_decode(make_png(W, H, forms[f / 2].colour, forms[f / 2].depth, f % 2, samples));
        for (int i = 0; i < 3 * AREA; i++)
            assert_int_equal(m.pixels[i], forms[f / 2].channel(samples, i / 3, i % 3));
        image_free(&m);
    }
}

static image_bytes noisy_png(void)
{
    uint8_t samples[3 * AREA];
    fill_noise(samples, sizeof samples, 3);
    return make_png(W, H, PNG_COLOR_TYPE_RGB, 8, false, samples);
}

/* Every part of the file has a checksum: no byte can be missing or changed. */
static void a_damaged_png_is_refused(void **state)
{
    (void)state;
    image_bytes file = noisy_png();
    for (size_t n = 0; n < file.count; n++)
        must_refuse_bytes(file.at, n, n < 8 ? "neither a PNG nor a JPEG" : "a PNG that is cut off or damaged: ");
    for (size_t i = 0; i < file.count; i++) {
        const uint8_t byte = file.at[i];
        file.at[i] ^= (uint8_t)(1 << i % 8);
        must_refuse_bytes(file.at, file.count, i < 8 ? "neither a PNG nor a JPEG" : "cut off or damaged");
        file.at[i] = byte;
    }
    must_refuse_bytes(file.at, file.count - 1, "it ends too early");
    free(file.at);
}

/* Sets the size in the header of a PNG, with its checksum right. */
static void set_size(image_bytes *file, uint32_t width, uint32_t height)
{
    uint8_t data[13];
    memcpy(data, file->at + 16, sizeof data);
    for (int i = 0; i < 4; i++) {
        data[i] = (uint8_t)(width >> (24 - 8 * i));
        data[4 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    png_chunk(file->at + 8, "IHDR", data, sizeof data);
}

/* Limits of pixels and sides: at a limit the image is read, and ends too early; beyond it no memory is asked for. */
static void a_huge_image_is_refused(void **state)
{
    static const struct {
        uint32_t width, height;
        const char *words;
    } sizes[] = {{65536, 65536, "65536 x 65536 pixels, expected at most 89478485, and 65535 on a side"},
                 {9460, 9460, "9460 x 9460 pixels, expected at most 89478485"},
                 {9459, 9459, "a PNG that is cut off or damaged"},
                 {65536, 1, "65536 x 1 pixels, expected"},
                 {1, 65536, "1 x 65536 pixels, expected"},
                 {65535, 1, "a PNG that is cut off or damaged"}};
    (void)state;
    image_bytes file = noisy_png();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        set_size(&file, sizes[i].width, sizes[i].height);
        must_refuse_bytes(file.at, file.count, sizes[i].words);
    }
    free(file.at);
}

/* Comments and profiles may be large and many: they are not kept. */
static void other_chunks_are_skipped(void **state)
{
    static uint8_t data[1 << 16], chunk[(1 << 16) + 12];
    (void)state;
    image_bytes file = noisy_png();
    memset(data, 'x', sizeof data);
    data[5] = '\0';
    for (int i = 0; i < 20; i++)
        insert_bytes(&file, 33, chunk, png_chunk(chunk, i % 2 ? "tEXt" : "zTXt", data, sizeof data));
    image_bytes plain = noisy_png();
    image with = must_decode(file), without = must_decode(plain);
    assert_memory_equal(with.pixels, without.pixels, 3 * AREA);
    image_free(&with);
    image_free(&without);
}

/* Large images wait for each other: their memory is bounded however many threads decode. */
static atomic_bool arrived;

static void *read_large(void *file)
{
    image m;
    scion_error err = {0};
    const image_bytes *png = file;
    const scion_status status = image_decode(&m, png->at, png->count, "large", &err);
    atomic_store(&arrived, true);
    image_free(&m);
    return status == SCION_OK ? file : NULL;
}

static void large_images_wait_for_each_other(void **state)
{
    enum { side = 7000 };
    uint8_t *bits = calloc(side * side / 8, 1);
    image_bytes file;
    pthread_t thread;
    void *fine = NULL;
    image m, small;
    scion_error err = {0};
    (void)state;
    assert_non_null(bits);
    file = make_png(side, side, PNG_COLOR_TYPE_GRAY, 1, false, bits);
    assert_int_equal(image_decode(&m, file.at, file.count, "large", &err), SCION_OK);
    assert_int_equal(pthread_create(&thread, NULL, read_large, &file), 0);
    small = must_decode(noisy_png()); /* there is room for this one */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    assert_false(atomic_load(&arrived));
    image_free(&m);
    pthread_join(thread, &fine);
    assert_non_null(fine);
    image_free(&small);
    free(file.at);
    free(bits);
}

/* ---- JPEG ---------------------------------------------------------------------------------------------- */

/* At the best quality a coefficient is off by 1/2 at most. Of a block that is flat only the mean counts, 8 times the
 * grey: exact. */
static void flat_grey_is_exact(void **state)
{
    uint8_t samples[AREA];
    (void)state;
    for (int grey = 0; grey < 256; grey += 5) {
        memset(samples, grey, sizeof samples);
        image m = must_decode(make_jpeg(W, H, 1, false, samples));
        for (int i = 0; i < 3 * AREA; i++)
            assert_int_equal(m.pixels[i], grey);
        image_free(&m);
    }
}

/* Noise in colour: 64 coefficients off by up to 1/2, uniform, are a pixel off by 0.29 (deviation), in each of
 * luminance and two chrominances, which are rounded as well (0.29 each): red is Y + 1.4 Cr, off by 0.7, blue Y + 1.77
 * Cb by 0.85. Six deviations are 5. Saturated colours, which conversion would clip, are left out. */
static void colours_come_back(void **state)
{
    enum { most = 5 };
    uint8_t samples[3 * AREA];
    (void)state;
    fill_noise(samples, sizeof samples, files_seed());
    for (size_t i = 0; i < sizeof samples; i++)
        samples[i] = (uint8_t)(64 + samples[i] / 2);
    image m = must_decode(make_jpeg(W, H, 3, false, samples));
    for (int i = 0; i < 3 * AREA; i++)
        assert_in_range(m.pixels[i] - samples[i] + most, 0, 2 * most);
    image again = must_decode(make_jpeg(W, H, 3, true, samples)); /* progressive: the same coefficients */
    assert_memory_equal(m.pixels, again.pixels, sizeof samples);
    image_free(&again);
    image_free(&m);
}

static void a_damaged_jpeg_is_refused(void **state)
{
    uint8_t samples[3 * AREA];
    (void)state;
    fill_noise(samples, sizeof samples, 4);
    for (int progressive = 0; progressive < 2; progressive++) {
        image_bytes file = make_jpeg(W, H, 3, progressive, samples);
        for (size_t n = 0; n < file.count; n++)
            must_refuse_bytes(file.at, n, n < 3 ? "neither a PNG nor a JPEG" : "a JPEG that is cut off or damaged: ");
        free(file.at);
    }
}

/* A JPEG has no checksum: pixels may be others, but memory is never left. */
static void changed_bytes_do_no_harm(void **state)
{
    enum { trials = 3000 };
    uint8_t samples[3 * AREA];
    uint64_t random = files_seed();
    (void)state;
    fill_noise(samples, sizeof samples, 4);
    image_bytes file = make_jpeg(W, H, 3, true, samples);
    for (int i = 0; i < trials; i++) {
        const size_t at = files_random(&random) % file.count;
        const uint8_t byte = file.at[at];
        image m;
        scion_error err = {0};
        file.at[at] = (uint8_t)files_random(&random);
        if (image_decode(&m, file.at, file.count, "cat.jpg", &err) == SCION_OK)
            assert_true(m.pixels && m.width > 0 && m.height > 0);
        else
            assert_int_equal(strncmp(err.message, "cat.jpg: ", 9), 0);
        image_free(&m);
        file.at[at] = byte;
    }
    free(file.at);
}

/* Flat inks are exact, and a colour is the product of ink and key, as both are kept inverted: 255 is no ink. */
static void inks_become_colours(void **state)
{
    static const uint8_t inks[][4] = {{255, 255, 255, 255}, {255, 255, 255, 0}, {0, 0, 0, 255},  {0, 255, 255, 255},
                                      {255, 128, 10, 255},  {200, 100, 50, 77}, {1, 254, 3, 200}};
    uint8_t samples[4 * AREA];
    (void)state;
    for (size_t k = 0; k < sizeof inks / sizeof *inks; k++) {
        for (int i = 0; i < 4 * AREA; i++)
            samples[i] = inks[k][i % 4];
        image m = must_decode(make_jpeg(W, H, 4, k % 2 == 1, samples));
        for (int i = 0; i < 3 * AREA; i++)
            assert_int_equal(m.pixels[i], (inks[k][i % 3] * inks[k][3] + 127) / 255);
        image_free(&m);
        image y = must_decode(make_ycck(W, H, samples)); /* three of them are rounded as YCC: see colours_come_back */
        for (int i = 0; i < 3 * AREA; i++)
            assert_in_range(y.pixels[i] - (inks[k][i % 3] * inks[k][3] + 127) / 255 + 3, 0, 6);
        image_free(&y);
    }
}

/* 64 scans are read, to the pixels of one scan; 190 are refused. Each scan costs the time of the whole image. */
static void scans_are_bounded(void **state)
{
    uint8_t samples[AREA];
    (void)state;
    fill_noise(samples, sizeof samples, 5);
    image one = must_decode(make_jpeg(W, H, 1, false, samples)), many = must_decode(make_scans(W, H, 1, samples));
    assert_memory_equal(one.pixels, many.pixels, 3 * AREA);
    image_free(&one);
    image_free(&many);
    image_bytes bomb = make_scans(W, H, 3, samples);
    must_refuse_bytes(bomb.at, bomb.count, "more than 100 scans");
    free(bomb.at);
}

/* Coefficients of a progressive image are kept: 6 bytes for a pixel beside its 3. */
static void coefficients_count(void **state)
{
    uint8_t samples[3 * AREA] = {0};
    (void)state;
    for (int progressive = 0; progressive < 2; progressive++) {
        image_bytes file = make_jpeg(W, H, 3, progressive, samples);
        size_t at = 2;
        while (file.at[at + 1] != (progressive ? 0xc2 : 0xc0)) /* the frame: height and width are 5 bytes on */
            at += 2 + (size_t)(file.at[at + 2] << 8 | file.at[at + 3]);
        memcpy(file.at + at + 5, (const uint8_t[]){6000 >> 8, 6000 & 255, 6000 >> 8, 6000 & 255}, 4);
        must_refuse_bytes(file.at, file.count,
                          progressive ? "6000 x 6000 pixels take 324 MB to decode, expected at most 268"
                                      : "cut off or damaged");
        free(file.at);
    }
}

/* ---- Orientation --------------------------------------------------------------------------------------- */

/* The standard says at which side of the picture row 0 and column 0 of the file are. */
static const struct {
    char row, column;
} sides[] = {{'t', 'l'}, {'t', 'l'}, {'t', 'r'}, {'b', 'r'}, {'b', 'l'},
             {'l', 't'}, {'r', 't'}, {'r', 'b'}, {'l', 'b'}};

static void set_place(char side, int64_t distance, const image *m, int64_t *y, int64_t *x)
{
    switch (side) {
    case 't': *y = distance; break;
    case 'b': *y = m->height - 1 - distance; break;
    case 'l': *x = distance; break;
    default: *x = m->width - 1 - distance;
    }
}

/* Checks an image against the same one as it is in the file, and frees the file. */
static void must_be_turned(image_bytes file, int orientation, const image *as_stored)
{
    image m;
    scion_error err = {0};
    if (image_decode(&m, file.at, file.count, "turned", &err) != SCION_OK)
        fail_msg("%s", err.message);
    assert_int_equal(m.width, orientation < 5 ? W : H);
    assert_int_equal(m.height, orientation < 5 ? H : W);
    for (int64_t i = 0; i < AREA; i++) {
        int64_t y = -1, x = -1;
        set_place(sides[orientation].row, i / W, &m, &y, &x);
        set_place(sides[orientation].column, i % W, &m, &y, &x);
        assert_memory_equal(m.pixels + 3 * (y * m.width + x), as_stored->pixels + 3 * i, 3);
    }
    image_free(&m);
    free(file.at);
}

static void photos_are_turned_upright(void **state)
{
    uint8_t samples[4 * AREA], exif[EXIF_BYTES];
    (void)state;
    fill_noise(samples, sizeof samples, files_seed());
    image png = must_decode(make_png(W, H, PNG_COLOR_TYPE_RGB, 8, false, samples));
    image jpeg = must_decode(make_jpeg(W, H, 3, false, samples)),
          inks = must_decode(make_jpeg(W, H, 4, false, samples));
    for (int k = 0; k < 8 * 2; k++) {
        const int orientation = 1 + k / 2;
        make_exif(exif, k % 2, orientation);
        for (int way = 0; way < 4; way++) { /* before and after the pixels, interlaced or not */
            image_bytes file = make_png(W, H, PNG_COLOR_TYPE_RGB, 8, way / 2, samples);
            png_add_exif(&file, way % 2, exif, sizeof exif);
            must_be_turned(file, orientation, &png);
        }
        for (int progressive = 0; progressive < 2; progressive++) {
            image_bytes file = make_jpeg(W, H, 3, progressive, samples);
            jpeg_add_exif(&file, exif, sizeof exif);
            must_be_turned(file, orientation, &jpeg);
        }
        image_bytes file = make_jpeg(W, H, 4, false, samples);
        jpeg_add_exif(&file, exif, sizeof exif);
        must_be_turned(file, orientation, &inks);
    }
    image_free(&inks);
    image_free(&jpeg);
    image_free(&png);
}

/* EXIF data that are cut off, contradict themselves or say nonsense leave the picture as it is. */
static void damaged_exif_does_no_harm(void **state)
{
    static const struct {
        int at, byte;
    } changes[] = {{18, 0}, {18, 9},  {19, 1}, {0, 'X'}, {2, 43}, {4, 9},  {4, 24},
                   {4, 25}, {7, 255}, {8, 0},  {10, 0},  {12, 4}, {14, 2}, {17, 1}};
    uint8_t samples[3 * AREA], exif[EXIF_BYTES];
    (void)state;
    fill_noise(samples, sizeof samples, 6);
    image png = must_decode(make_png(W, H, PNG_COLOR_TYPE_RGB, 8, false, samples));
    image jpeg = must_decode(make_jpeg(W, H, 3, false, samples));
    const int cases = (int)(sizeof changes / sizeof *changes);
    for (int k = 0; k < cases + EXIF_BYTES - 4; k++) {
        const size_t n = k < cases ? EXIF_BYTES : (size_t)(k - cases);
        make_exif(exif, false, 6);
        if (k < cases)
            exif[changes[k].at] = (uint8_t)changes[k].byte;
        image_bytes file = make_jpeg(W, H, 3, false, samples);
        jpeg_add_exif(&file, exif, n);
        must_be_turned(file, 1, &jpeg);
        file = make_png(W, H, PNG_COLOR_TYPE_RGB, 8, false, samples);
        png_add_exif(&file, false, exif, n);
        must_be_turned(file, 1, &png);
    }
    make_exif(exif, false, 6);
    exif[8] = exif[9] = 255; /* more entries than there are; the first is right */
    image_bytes file = make_jpeg(W, H, 3, false, samples);
    jpeg_add_exif(&file, exif, sizeof exif);
    must_be_turned(file, 6, &jpeg);
    image_free(&jpeg);
    image_free(&png);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static void files_are_told_by_their_first_bytes(void **state)
{
    image m;
    scion_error err = {0};
    (void)state;
    image_file("mislabelled.jpg", W, H, 1);
    assert_int_equal(image_read(&m, files_path("mislabelled.jpg"), &err), SCION_OK);
    assert_int_equal(m.pixels[3 * (2 * W + 5) + 1], image_pixel(1, 2, 5, 1));
    image_free(&m);
    assert_int_not_equal(image_read(&m, files_text("words.png", "no image"), &err), SCION_OK);
    assert_non_null(strstr(err.message, "words.png: neither a PNG nor a JPEG image"));
    assert_int_not_equal(image_read(&m, files_text("empty.png", ""), &err), SCION_OK);
    assert_non_null(strstr(err.message, "empty.png: the file is empty"));
    assert_int_not_equal(image_read(&m, files_path("nowhere.png"), &err), SCION_OK);
    assert_non_null(strstr(err.message, "nowhere.png: cannot open"));
}

/* Images of other formats are named, so that one knows what to convert. */
static void other_formats_are_named(void **state)
{
    static const struct {
        const char *bytes, *name;
    } formats[] = {{"GIF89a\1\0\1\0\0\0", "an image in format GIF, which is not read"},
                   {"RIFF\x24\0\0\0WEBPVP8 ", "an image in format WebP, which is not read"},
                   {"BM\x46\0\0\0\0\0\0\0\x36\0", "an image in format BMP, which is not read"},
                   {"II*\0\x8\0\0\0\0\0\0\0", "an image in format TIFF, which is not read"},
                   {"MM\0*\0\0\0\x8\0\0\0\0", "an image in format TIFF, which is not read"},
                   {"\0\0\0\x18"
                    "ftypheic",
                    "an image in format HEIC, which is not read"},
                   {"\0\0\0\x1c"
                    "ftypavif",
                    "an image in format AVIF, which is not read"},
                   {"BM is a text", "neither a PNG nor a JPEG"},
                   {"RIFF\x24\0\0\0WAVE", "neither a PNG nor a JPEG"}};
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        must_refuse_bytes(formats[i].bytes, 12, formats[i].name);
}

/* The first bytes tell, and the size is bounded: files of 40 GB take neither memory nor time. */
static void huge_files_are_refused_at_once(void **state)
{
    image m;
    scion_error err = {0};
    const char *path = files_write("sparse.png", "no image", 8);
    (void)state;
    assert_int_equal(truncate(path, (off_t)40 << 30), 0);
    assert_int_equal(image_read(&m, path, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "sparse.png: neither a PNG nor a JPEG image"));
    path = files_write("sparse.jpg", "\xff\xd8\xff\xe0", 4);
    assert_int_equal(truncate(path, (off_t)40 << 30), 0);
    assert_int_equal(image_read(&m, path, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "sparse.jpg: a file of 42950 MB, expected at most 268"));
}

/* A file that was written reads back. */
static void written_pngs_come_back(void **state)
{
    uint8_t pixels[H * W * 3];
    scion_error err = {0};
    (void)state;
    for (int i = 0; i < H * W * 3; i++)
        pixels[i] = (uint8_t)(i * 31 + i / 7);
    for (int depth = 1; depth <= 3; depth += 2) {
        uint8_t *bytes = NULL;
        size_t n = 0;
        image m;
        assert_int_equal(image_encode_png(pixels, H, W, depth, &bytes, &n, &err), SCION_OK);
        assert_int_equal(image_decode(&m, bytes, n, "ours", &err), SCION_OK);
        assert_true(m.height == H && m.width == W);
        for (int i = 0; i < H * W * 3; i++)
            assert_int_equal(m.pixels[i], pixels[depth == 3 ? i : i / 3]);
        image_free(&m);
        free(bytes);
    }
}

/* An image without pixels cannot be written: nothing is left to free. */
static void without_pixels_there_is_no_png(void **state)
{
    uint8_t none = 0, *bytes = &none;
    size_t n = 0;
    scion_error err = {0};
    (void)state;
    assert_int_not_equal(image_encode_png(&none, 0, W, 3, &bytes, &n, &err), SCION_OK);
    assert_null(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_png_is_read),
        cmocka_unit_test(a_damaged_png_is_refused),
        cmocka_unit_test(a_huge_image_is_refused),
        cmocka_unit_test(other_chunks_are_skipped),
        cmocka_unit_test(large_images_wait_for_each_other),
        cmocka_unit_test(flat_grey_is_exact),
        cmocka_unit_test(colours_come_back),
        cmocka_unit_test(a_damaged_jpeg_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(inks_become_colours),
        cmocka_unit_test(scans_are_bounded),
        cmocka_unit_test(coefficients_count),
        cmocka_unit_test(photos_are_turned_upright),
        cmocka_unit_test(damaged_exif_does_no_harm),
        cmocka_unit_test(files_are_told_by_their_first_bytes),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(huge_files_are_refused_at_once),
        cmocka_unit_test(written_pngs_come_back),
        cmocka_unit_test(without_pixels_there_is_no_png),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
