/* Image files. What is read has pixels, the same ones each time; of these any part becomes any size, and the middle
 * is a part. With an EXIF orientation in front of its own, it is the same image turned. The first two bytes say
 * which; the rest is the file, of which, for PNG, the checksums are set right: else only the checks of libpng would
 * be reached. */
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

/* Puts EXIF data into a copy of a file that was read, before all others: after the first marker of a JPEG, after the
 * header of a PNG. The caller frees it. */
static uint8_t *with_orientation(const uint8_t *file, size_t *size, int orientation)
{
    enum { exif = 26, png_head = 33 };
    const bool png = file[0] == 0x89;
    const size_t at = png ? png_head : 2, more = png ? 12 + exif : 10 + exif;
    const uint8_t tiff[exif] = {'M', 'M',  0, 42, 0, 0, 0, 8, 0, 1,
                                1,   0x12, 0, 3,  0, 0, 0, 1, 0, (uint8_t)orientation};
    uint8_t *all = malloc(*size + more);
    fuzz_require(all && *size >= at);
    memcpy(all, file, at);
    memcpy(all + at,
           png ? "\0\0\0\x1a"
                 "eXIf"
               : "\xff\xe1\0\x22"
                 "Exif",
           8);
    memcpy(all + at + 8, "\0\0", 2);
    memcpy(all + at + (png ? 8 : 10), tiff, exif);
    memcpy(all + at + more, file + at, *size - at);
    *size += more;
    set_checksums(all, png ? *size : 0);
    return all;
}

/* Sides change places from 5 on, and the first pixel of the file goes to the corner that the orientation names. */
static void turn(const uint8_t *file, size_t size, int orientation)
{
    static const bool right[] = {[2] = true, [3] = true, [6] = true, [7] = true, [8] = false},
                      below[] = {[3] = true, [4] = true, [7] = true, [8] = true};
    size_t sizes[2] = {size, size};
    image upright, turned;
    scion_error err = {0};
    uint8_t *plain = with_orientation(file, &sizes[0], 1), *other = with_orientation(file, &sizes[1], orientation);
    fuzz_require(image_decode(&upright, plain, sizes[0], "image", &err) == SCION_OK);
    fuzz_require(image_decode(&turned, other, sizes[1], "image", &err) == SCION_OK);
    fuzz_require((orientation < 5 ? turned.width : turned.height) == upright.width);
    fuzz_require((orientation < 5 ? turned.height : turned.width) == upright.height);
    const int64_t y = below[orientation] ? turned.height - 1 : 0, x = right[orientation] ? turned.width - 1 : 0;
    fuzz_require(memcmp(turned.pixels + 3 * (y * turned.width + x), upright.pixels, 3) == 0);
    image_free(&upright);
    image_free(&turned);
    free(plain);
    free(other);
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
        turn(file, in.left, 1 + kind % 8);
        image_free(&again);
    }
    image_free(&m);
    free(file);
    return 0;
}
