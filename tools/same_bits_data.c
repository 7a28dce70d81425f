/* Data for tools/same-bits, which compiles it: a small set of each kind that the program reads, into the folder where
 * it is started.
 *     cifar/     CIFAR-10's binary files
 *     digits/    idx files, 28 x 28 in grey, as MNIST has them
 *     shards/    token shards of llm.c, one of them for validation
 *     photos/    train/CLASS and val/CLASS with PNG and JPEG images of many sizes and forms, and one that is damaged
 * Nothing here is random: an image is a function of its class and its number, a token of its place. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h> /* after stdio.h, whose FILE it uses */
#include <png.h>

enum { max_side = 80 };

static uint32_t noise = 1;

/* A number from 0 to n - 1, by a linear congruential generator (Numerical Recipes'). */
static int draw(int n)
{
    noise = noise * 1664525u + 1013904223u;
    return (int)((noise >> 8) % (uint32_t)n);
}

/* One byte of a picture: waves whose direction and colour the class decides, and noise. */
static uint8_t pixel(int label, int y, int x, int c)
{
    const int wave = (label % 3 + 1) * x * 5 + (label % 4) * y * 7 + c * (label * 23 + 40);
    return (uint8_t)(abs(wave % 320 - 160) + draw(64));
}

/* A file to write; the folders of its name are made. */
static FILE *file(const char *format, ...)
{
    char path[256];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        exit(2);
    }
    return f;
}

static void finish(FILE *f)
{
    if (ferror(f) || fclose(f) != 0) {
        perror("cannot write");
        exit(2);
    }
}

/* ---- Files of many samples --------------------------------------------------------------------------------- */

/* A record: the label, then 32 x 32 bytes of each colour. All files have as many. */
static void write_cifar(void)
{
    enum { files = 6, records = 60, side = 32 };
    for (int k = 0; k < files; k++) {
        FILE *f = k < files - 1 ? file("cifar/data_batch_%d.bin", k + 1) : file("cifar/test_batch.bin");
        for (int i = 0; i < records; i++) {
            const int label = draw(10);
            putc(label, f);
            for (int at = 0; at < 3 * side * side; at++)
                putc(pixel(label, at / side % side, at % side, at / (side * side)), f);
        }
        finish(f);
    }
}

static void put_big_endian(uint32_t n, FILE *f)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        putc((int)(n >> shift & 255), f);
}

static void write_digits(const char *part, int count)
{
    enum { side = 28 };
    FILE *images = file("digits/%s-images-idx3-ubyte", part), *labels = file("digits/%s-labels-idx1-ubyte", part);
    put_big_endian(0x0803, images);
    put_big_endian((uint32_t)count, images);
    put_big_endian(side, images);
    put_big_endian(side, images);
    put_big_endian(0x0801, labels);
    put_big_endian((uint32_t)count, labels);
    for (int i = 0; i < count; i++) {
        const int label = draw(10);
        putc(label, labels);
        for (int at = 0; at < side * side; at++)
            putc(pixel(label, at / side, at % side, 0), images);
    }
    finish(images);
    finish(labels);
}

/* 256 int32 (magic, version, number of tokens), then the tokens as uint16. */
static void write_shard(const char *name, int count, int vocab)
{
    const int32_t header[256] = {20240520, 1, count};
    FILE *f = file("shards/%s.bin", name);
    fwrite(header, sizeof header, 1, f);
    for (int i = 0, token = 0; i < count; i++) {
        token = draw(3) > 0 ? (token * 3 + 1) % vocab : draw(vocab); /* something to learn */
        const uint16_t written = (uint16_t)token;
        fwrite(&written, sizeof written, 1, f);
    }
    finish(f);
}

/* ---- Pictures ---------------------------------------------------------------------------------------------- */

static void write_png(FILE *f, int label, int width, int height, int colour, int depth, bool interlaced)
{
    png_byte samples[max_side][8 * max_side]; /* at most four samples of two bytes */
    png_bytep rows[max_side];
    png_color palette[256];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info)
        exit(2);
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, colour,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)i, (png_byte)(3 * i), (png_byte)(255 - i)};
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 256);
    png_write_info(png, info);
    const int bytes = (int)png_get_rowbytes(png, info), unit = bytes / width;
    for (int y = 0; y < height; y++) {
        for (int at = 0; at < bytes; at++)
            samples[y][at] = pixel(label, y, at / unit, at % unit);
        rows[y] = samples[y];
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

static void write_jpeg(FILE *f, int label, int width, int height, int channels, bool progressive)
{
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors)};
    JSAMPLE samples[3 * max_side];
    JSAMPROW row = samples;
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 85, TRUE);
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        for (int at = 0; at < width * channels; at++)
            samples[at] = pixel(label, y, at / channels, at % channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

/* `count` images of each of four classes, in eight forms, lying and standing, smaller and larger than what a model
 * sees. */
static void write_photos(const char *part, int count)
{
    static const char *const classes[] = {"bark", "brick", "sand", "water"};
    for (int label = 0; label < 4; label++)
        for (int i = 0; i < count; i++) {
            const int width = 20 + draw(max_side - 20), height = 20 + draw(max_side - 20), form = (i + label) % 8;
            FILE *f = file("photos/%s/%s/%02d.%s", part, classes[label], i, form < 5 ? "png" : "jpg");
            switch (form) {
            case 0: write_png(f, label, width, height, PNG_COLOR_TYPE_RGB, 8, false); break;
            case 1: write_png(f, label, width, height, PNG_COLOR_TYPE_GRAY, 8, true); break;
            case 2: write_png(f, label, width, height, PNG_COLOR_TYPE_PALETTE, 8, false); break;
            case 3: write_png(f, label, width, height, PNG_COLOR_TYPE_RGB, 16, false); break;
            case 4: write_png(f, label, width, height, PNG_COLOR_TYPE_RGB_ALPHA, 8, true); break;
            case 5: write_jpeg(f, label, width, height, 3, false); break;
            case 6: write_jpeg(f, label, width, height, 3, true); break;
            default: write_jpeg(f, label, width, height, 1, false); break;
            }
            finish(f);
        }
}

int main(void)
{
    write_cifar();
    write_digits("train", 300);
    write_digits("t10k", 60);
    write_shard("some_train_0", 3000, 60);
    write_shard("some_train_1", 2000, 60);
    write_shard("some_val_0", 1500, 60);
    write_photos("train", 12);
    write_photos("val", 8);
    FILE *damaged = file("photos/train/sand/torn.png"); /* another image takes its place */
    fputs("no image\n", damaged);
    finish(damaged);
    return 0;
}
