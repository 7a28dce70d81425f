/* fashion_data.h - reads Fashion-MNIST as it is published: idx files, gzipped or not.
 *
 * For mlp_fashion.c, whose text it keeps short; everything is static, so that an example stays one
 * translation unit. A file that is missing, truncated or something else ends the program with a sentence
 * that names the file, what was found and what was expected. */
#ifndef FASHION_DATA_H
#define FASHION_DATA_H

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("mlp_fashion: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

static float *floats(int64_t count)
{
    float *memory = calloc((size_t)count, sizeof *memory);
    if (!memory)
        fail(EXIT_FAILED, "out of memory for %lld numbers", (long long)count);
    return memory;
}

struct dataset {
    int64_t count;
    float *pixels;         /* count x PIXELS */
    unsigned char *labels; /* count, each below CLASSES */
};

/* Ends the program if zlib has found fault with the file. */
static void refuse_damaged(gzFile file, const char *path)
{
    int code = Z_OK;
    const char *reason = gzerror(file, &code); /* begins with the path */
    if (code == Z_ERRNO)
        fail(EXIT_FAILED, "%s: cannot be read: %s", path, strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        fail(EXIT_FAILED, "%s: the file is damaged", reason);
}

/* Reads `bytes` bytes, or says how many there were. */
static void read_exactly(gzFile file, const char *path, unsigned char *to, size_t bytes, const char *what)
{
    const size_t portion = 1u << 30; /* zlib counts in int */
    size_t got = 0;
    while (got < bytes) {
        int r = gzread(file, to + got, (unsigned)(bytes - got < portion ? bytes - got : portion));
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    refuse_damaged(file, path);
    if (got < bytes)
        fail(EXIT_FAILED, "%s: truncated: %zu bytes of %s, expected %zu", path, got, what, bytes);
}

static uint32_t big_endian(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* An idx file of bytes: 0, 0, 8, number of dimensions, then each dimension in four bytes, then the bytes.
 * Labels have one dimension, images three. Returns the bytes; *count is the first dimension. */
static unsigned char *read_idx(const char *dir, const char *name, int dims, int64_t *count)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.gz", dir, name) >= (int)sizeof path)
        fail(EXIT_FAILED, "the path of %s is too long", name);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/%s", dir, name);
    gzFile file = gzopen(path, "rb"); /* reads plain files as they are */
    if (!file)
        fail(EXIT_FAILED, "%s(.gz): %s (Debian's package dataset-fashion-mnist has it; or use --data DIR)", path,
             strerror(errno));
    unsigned char head[16] = {0};
    size_t head_bytes = 4 + 4 * (size_t)dims;
    read_exactly(file, path, head, head_bytes, "idx header");
    if (big_endian(head) != 0x0800u + (unsigned)dims)
        fail(EXIT_FAILED, "%s: not an idx file of %s: it begins with %08x, expected %08x", path,
             dims == 1 ? "labels" : "images", big_endian(head), 0x0800u + (unsigned)dims);
    if (dims == 3 && (big_endian(head + 8) != SIDE || big_endian(head + 12) != SIDE))
        fail(EXIT_FAILED, "%s: images of %u x %u pixels, expected %d x %d", path, big_endian(head + 8),
             big_endian(head + 12), SIDE, SIDE);
    *count = big_endian(head + 4);
    if (*count < 1 || *count > 10000000)
        fail(EXIT_FAILED, "%s: claims %lld items, expected 1 to 10 million", path, (long long)*count);
    size_t bytes = (size_t)*count * (dims == 3 ? PIXELS : 1);
    unsigned char *data = malloc(bytes), extra;
    if (!data)
        fail(EXIT_FAILED, "%s: out of memory for %zu bytes", path, bytes);
    read_exactly(file, path, data, bytes, dims == 1 ? "labels" : "pixels");
    if (gzread(file, &extra, 1) > 0) /* also makes zlib compare its checksum */
        fail(EXIT_FAILED, "%s: goes on after the %zu bytes that its header announces", path, bytes);
    refuse_damaged(file, path);
    gzclose(file);
    for (size_t i = 0; dims == 1 && i < bytes; i++)
        if (data[i] >= CLASSES)
            fail(EXIT_FAILED, "%s: label %d at position %zu, expected 0 to %d", path, data[i], i, CLASSES - 1);
    return data;
}

/* Pixels become (p - mean) / deviation with the training set's mean and deviation, so that their root mean
 * square is 1: the input that the dimension factors of the first layer count on. */
static struct dataset read_dataset(const char *dir, const char *images, const char *labels, float scale[2])
{
    struct dataset d = {0};
    int64_t label_count = 0;
    unsigned char *raw = read_idx(dir, images, 3, &d.count);
    d.labels = read_idx(dir, labels, 1, &label_count);
    if (label_count != d.count)
        fail(EXIT_FAILED, "%s: %s has %lld images, but %s has %lld labels", dir, images, (long long)d.count, labels,
             (long long)label_count);
    int64_t total = d.count * PIXELS;
    if (scale[1] <= 0) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < total; i++) {
            sum += raw[i];
            squares += (double)raw[i] * raw[i];
        }
        double mean = sum / (double)total, variance = squares / (double)total - mean * mean;
        scale[0] = (float)mean;
        scale[1] = variance > 0 ? (float)sqrt(variance) : 1;
    }
    d.pixels = floats(total);
    for (int64_t i = 0; i < total; i++)
        d.pixels[i] = ((float)raw[i] - scale[0]) / scale[1];
    free(raw);
    return d;
}

#endif
