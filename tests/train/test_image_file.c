/* PNG and JPEG: the pixels that a file has, whatever form they have in it, or a sentence that names the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <png.h>
#include <zlib.h>

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

/* A header of 65536 x 65536 pixels, with its checksum right: 12 GB that are never asked for. */
static void a_huge_image_is_refused(void **state)
{
    (void)state;
    image_bytes file = noisy_png();
    memcpy(file.at + 16, (const uint8_t[]){0, 1, 0, 0, 0, 1, 0, 0}, 8);
    const uint32_t sum = (uint32_t)crc32(0, file.at + 12, 17);
    for (int i = 0; i < 4; i++)
        file.at[29 + i] = (uint8_t)(sum >> (24 - 8 * i));
    must_refuse_bytes(file.at, file.count, "65536 x 65536 pixels, expected at most 134217728");
    free(file.at);
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

static void cmyk_is_refused(void **state)
{
    uint8_t samples[4 * AREA] = {0};
    (void)state;
    image_bytes file = make_jpeg(W, H, 4, false, samples);
    must_refuse_bytes(file.at, file.count, "a JPEG in CMYK");
    free(file.at);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_png_is_read),
        cmocka_unit_test(a_damaged_png_is_refused),
        cmocka_unit_test(a_huge_image_is_refused),
        cmocka_unit_test(flat_grey_is_exact),
        cmocka_unit_test(colours_come_back),
        cmocka_unit_test(a_damaged_jpeg_is_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(cmyk_is_refused),
        cmocka_unit_test(files_are_told_by_their_first_bytes),
        cmocka_unit_test(written_pngs_come_back),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
