/* Image files. What is read has pixels, the same ones each time; of these any part becomes any size, and the middle
 * is a part. The first two bytes say which; the rest is the file, of which, for PNG, the checksums are set right:
 * else only the checks of libpng would be reached. */
#include <string.h>
#include <zlib.h>

#include "data/images.h"
#include "data/image_file.h"
#include "data/resample.h"
#include "fuzz.h"

enum { max_side = 24, max_pixels = 1 << 20 };

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Chunks: length, name, data, CRC of name and data. */
static void set_checksums(uint8_t *file, size_t size)
{
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        const size_t length = big_endian(file + at);
        if (length > size - at - 12)
            break;
        const uint32_t sum = (uint32_t)crc32(0, file + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++)
            file[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

static void view(const image *m, int side, int kind)
{
    uint8_t to[max_side * max_side * 3];
    const data_image_info about = {.crop = (double)(1 + kind) / 256};
    const data_box b = data_middle(&about, m);
    fuzz_require(b.y0 >= 0 && b.x0 >= 0 && b.y0 < b.y1 && b.x0 < b.x1 && b.y1 <= m->height && b.x1 <= m->width);
    fuzz_require(resample(m, b, kind % 2, side, 1 + kind % max_side, to));
    const data_box drawn = data_draw_crop(0.08, (uint64_t)kind, m->height, m->width, side);
    fuzz_require(drawn.y0 >= 0 && drawn.x0 >= 0 && drawn.y0 < drawn.y1 && drawn.x0 < drawn.x1 &&
                 drawn.y1 <= m->height && drawn.x1 <= m->width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int side = 1 + fuzz_byte(&in) % max_side, kind = fuzz_byte(&in);
    image m, again;
    scion_error err = {0};
    uint8_t *file = malloc(in.left + 1);
    fuzz_require(file);
    if (in.left > 0)
        memcpy(file, in.at, in.left);
    set_checksums(file, in.left);
    if (image_decode(&m, file, in.left, "image", &err) != SCION_OK) {
        fuzz_require(!m.pixels);
        fuzz_require_sentence(&err);
    } else if (m.width * m.height <= max_pixels) {
        fuzz_require(m.width > 0 && m.height > 0);
        fuzz_require(image_decode(&again, file, in.left, "image", &err) == SCION_OK);
        fuzz_require(again.width == m.width && again.height == m.height);
        fuzz_require(memcmp(again.pixels, m.pixels, (size_t)(m.width * m.height) * 3) == 0);
        view(&m, side, kind);
        image_free(&again);
    }
    image_free(&m);
    free(file);
    return 0;
}
