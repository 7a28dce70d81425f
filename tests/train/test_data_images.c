/* Images: every image once in an epoch, in an order that only the seed and the epoch decide, with its own label, of
 * about zero mean and unit RMS. Then synthetic data, which have the same laws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/cifar10.h"
#include "data_files.h"
#include "image_files.h"

/* ---- Which images -------------------------------------------------------------------------------------- */

/* A set of idx images of one pixel 7 i mod 256: with count <= 256 the pixel tells the image. Its value for pixel v is
 * increasing in v, so sorting the values gives the images back. */
static data_set *open_points(int train, int val, int gz, uint64_t seed)
{
    idx_folder(gz ? "points_gz" : "points", train, val, 1, 1, 10, gz);
    const data_case o = {.kind = "auto", .path = files_path(gz ? "points_gz" : "points"), .seed = seed};
    return must_open(&o);
}

/* Number of the image with this value, from the moments of the pixels. */
static int image_of(float value, int train)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < train; i++) {
        const double v = 7 * i % 256;
        sum += v;
        squares += v * v;
    }
    const double mean = sum / train, deviation = sqrt(squares / train - mean * mean);
    const int pixel = (int)lround((double)value * deviation + mean);
    return pixel * 183 % 256; /* 7 * 183 = 1 mod 256 */
}

/* An epoch of any size, in batches that do not divide it, has every image once; the next has another order. */
static void test_epochs(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 5, 16, 17, 63, 100, 256};
    enum { batch = 7, epochs = 3 };
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const int n = counts[c];
        data_set *d = open_points(n, 1, c % 2, 9);
        int order[epochs * 256 + batch] = {0}, at = 0;
        for (int64_t i = 0; at < epochs * n; i++) {
            float pixels[batch];
            int32_t labels[batch];
            must_fill(d, DATA_TRAIN, i, batch, pixels, labels);
            for (int b = 0; b < batch; b++, at++) {
                order[at] = n == 1 ? 0 : image_of(pixels[b], n);
                assert_int_equal(labels[b], order[at] % 10);
            }
        }
        for (int epoch = 0; epoch < epochs; epoch++) {
            int seen[256] = {0};
            for (int i = 0; i < n; i++)
                seen[order[epoch * n + i]]++;
            for (int i = 0; i < n; i++)
                assert_int_equal(seen[i], 1);
        }
        if (n >= 16)
            assert_memory_not_equal(order, order + n, (size_t)n * sizeof *order);
        data_close(d);
    }
}

/* Position i of an epoch is any image equally often: over 4000 epochs of 8 images, each of the 64 pairs has 500
 * expected, deviation 21; five deviations are 105. */
static void test_shuffle_is_even(void **state)
{
    enum { n = 8, trials = 4000 };
    int seen[n][n] = {{0}};
    (void)state;
    data_set *d = open_points(n, 1, 0, 4);
    for (int64_t epoch = 0; epoch < trials; epoch++) {
        float pixels[n];
        int32_t labels[n];
        must_fill(d, DATA_TRAIN, epoch, n, pixels, labels);
        for (int i = 0; i < n; i++)
            seen[i][labels[i]]++;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            assert_in_range(seen[i][k], 395, 605);
    data_close(d);
}

/* Validation is in order; what is missing in the last batch has label -1 and pixels 0. */
static void test_validation_order(void **state)
{
    enum { n = 11, batch = 4 };
    (void)state;
    data_set *d = open_points(20, n, 0, 1);
    assert_int_equal(data_about(d)->units[DATA_VAL], n);
    assert_int_equal(batches_in(d, DATA_VAL, batch), 3);
    assert_int_equal(batches_in(d, DATA_TRAIN, batch), 5);
    for (int64_t i = 0; i < 3; i++) {
        float pixels[batch];
        int32_t labels[batch];
        must_fill(d, DATA_VAL, i, batch, pixels, labels);
        for (int b = 0; b < batch; b++) {
            const int image = (int)i * batch + b;
            assert_int_equal(labels[b], image < n ? image % 10 : -1);
            if (image < n)
                assert_int_equal(image_of(pixels[b], 20), image);
            else
                assert_true(pixels[b] == 0);
        }
    }
    data_close(d);
}

/* Rows do not depend on the size of the batch, on the data set that is asked, or on what was asked before. */
static void test_determinism(void **state)
{
    enum { n = 30, batch = 5 };
    (void)state;
    data_set *a = open_points(n, 3, 0, 11), *b = open_points(n, 3, 1, 11), *c = open_points(n, 3, 0, 12);
    float all[2 * n], part[batch], other[2 * n];
    int32_t all_labels[2 * n], labels[2 * n];
    must_fill(a, DATA_TRAIN, 0, 2 * n, all, all_labels);
    for (int64_t i = 2 * n / batch - 1; i >= 0; i--) {
        must_fill(b, DATA_TRAIN, i, batch, part, labels);
        assert_memory_equal(part, all + i * batch, sizeof part);
        assert_memory_equal(labels, all_labels + i * batch, sizeof part);
    }
    must_fill(c, DATA_TRAIN, 0, 2 * n, other, labels);
    assert_memory_not_equal(all, other, sizeof all);
    data_close(a);
    data_close(b);
    data_close(c);
}

/* ---- Which values -------------------------------------------------------------------------------------- */

/* Mean 0 and mean square 1 over the training images, by channel, to the rounding of floats: the mean of pixels is off
 * by 2^-17 at most, and here the deviation is at least 4. */
static void must_be_standard(const data_set *d)
{
    const double tolerance = 0x1p-19;
    const data_info *info = data_about(d);
    float *pixels = malloc((size_t)(info->units[DATA_TRAIN] * info->arrays[0].count) * sizeof *pixels);
    int32_t *labels = malloc((size_t)info->units[DATA_TRAIN] * sizeof *labels);
    assert_true(pixels && labels);
    must_fill(d, DATA_TRAIN, 0, info->units[DATA_TRAIN], pixels, labels);
    const data_array *a = &info->arrays[0];
    const int64_t channels = a->shape[0], area = a->shape[1] * a->shape[2];
    assert_string_equal(a->name, "pixels");
    assert_int_equal(a->ndim, 3);
    assert_int_equal(channels * area, a->count);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < info->units[DATA_TRAIN]; i++)
            for (int64_t k = 0; k < area; k++) {
                const double v = (double)pixels[i * a->count + c * area + k];
                sum += v;
                squares += v * v;
            }
        const double n = (double)(info->units[DATA_TRAIN] * area);
        assert_true(fabs(sum / n) < tolerance);
        assert_true(fabs(squares / n - 1) < tolerance);
    }
    for (int64_t i = 0; i < info->units[DATA_TRAIN]; i++)
        assert_in_range(labels[i], 0, range_of(d) - 1);
    free(pixels);
    free(labels);
}

static void test_cifar10(void **state)
{
    enum { records = 3 };
    static float pixels[5 * records][3072];
    int32_t labels[5 * records];
    int seen[5 * records] = {0};
    (void)state;
    cifar_folder("cifar", records);
    const data_case o = {.kind = "auto", .path = files_path("cifar"), .seed = 2};
    data_set *d = must_open(&o);
    const data_info *info = data_about(d);
    assert_int_equal(info->arrays[0].shape[0], 3);
    assert_int_equal(range_of(d), 10);
    assert_string_equal(info->unit, "images");
    assert_int_equal(info->units[DATA_TRAIN], 5 * records);
    assert_int_equal(info->units[DATA_VAL], records);
    must_be_standard(d);
    must_fill(d, DATA_TRAIN, 0, 5 * records, pixels[0], labels);
    /* The first pixel of image i is i, and the last of the same channel too: so they are equal. Sorted by it, the
     * labels are 0, 1, ... */
    for (int i = 0; i < 5 * records; i++) {
        int rank = 0;
        for (int k = 0; k < 5 * records; k++)
            rank += pixels[k][0] < pixels[i][0];
        seen[rank]++;
        assert_int_equal(labels[i], rank % 10);
        assert_true(pixels[i][0] == pixels[i][1023]);
        assert_true(pixels[i][1024] == pixels[i][2047] && pixels[i][2048] == pixels[i][3071]);
    }
    for (int i = 0; i < 5 * records; i++)
        assert_int_equal(seen[i], 1);
    must_fill(d, DATA_VAL, 0, records, pixels[0], labels);
    for (int i = 0; i < records; i++)
        assert_int_equal(labels[i], (5 * records + i) % 10);
    data_close(d);
}

static void test_idx_values(void **state)
{
    (void)state;
    idx_folder("images", 40, 10, 5, 3, 4, 0);
    const data_case o = {.kind = "idx", .path = files_path("images")};
    data_set *d = must_open(&o);
    assert_int_equal(data_about(d)->arrays[0].shape[1], 5);
    assert_int_equal(data_about(d)->arrays[0].shape[2], 3);
    assert_int_equal(range_of(d), 4);
    must_be_standard(d);
    data_close(d);
    uint8_t grey[16 + 8]; /* all alike: no deviation to divide by */
    idx_images(grey, 2, 2, 2);
    memset(grey + 16, 200, 8);
    idx_folder("grey", 2, 2, 2, 2, 2, 0);
    files_write("grey/train-images-idx3-ubyte", grey, sizeof grey);
    const data_case g = {.kind = "auto", .path = files_path("grey")};
    d = must_open(&g);
    float pixels[8];
    int32_t labels[2];
    must_fill(d, DATA_TRAIN, 0, 2, pixels, labels);
    for (int k = 0; k < 8; k++)
        assert_true(pixels[k] == 0);
    data_close(d);
}

/* ---- Errors -------------------------------------------------------------------------------------------- */

static void test_errors(void **state)
{
    uint8_t bytes[2 * CIFAR_RECORD];
    (void)state;
    data_case o = {.kind = "idx", .path = files_path("wrong")};
    must_refuse(&o, "train-images-idx3-ubyte", "No such file", NULL);
    idx_folder("wrong", 6, 4, 3, 4, 2, 0);
    files_write("wrong/t10k-images-idx3-ubyte", bytes, idx_images(bytes, 4, 4, 3));
    must_refuse(&o, "t10k-images-idx3-ubyte", "4 x 3", "3 x 4", NULL);
    files_write("wrong/t10k-images-idx3-ubyte", bytes, idx_images(bytes, 5, 3, 4));
    must_refuse(&o, "t10k-labels-idx1-ubyte", "4 labels", "5 images", NULL);
    files_write("wrong/t10k-images-idx3-ubyte", bytes, idx_images(bytes, 4, 3, 4));
    files_write("wrong/t10k-labels-idx1-ubyte", bytes, idx_labels(bytes, 4, 3));
    must_refuse(&o, "t10k-labels-idx1-ubyte", "label 2 of image 2", NULL);
    files_write("wrong/t10k-labels-idx1-ubyte", bytes, idx_images(bytes, 4, 1, 1));
    must_refuse(&o, "t10k-labels-idx1-ubyte", "0x00000803", "0x00000801", NULL);
    files_write("wrong/t10k-labels-idx1-ubyte", bytes, idx_labels(bytes, 4, 2) + 1);
    must_refuse(&o, "t10k-labels-idx1-ubyte", "more data than the 4 bytes", NULL);
    idx_images(bytes, 4, 3, 4);
    memset(bytes + 4, 0xff, 12);
    files_write("wrong/train-images-idx3-ubyte", bytes, 64);
    must_refuse(&o, "train-images-idx3-ubyte", "more than it has", NULL);
    files_write_gz("wrong/train-images-idx3-ubyte", bytes, 64); /* gzipped under any name */
    must_refuse(&o, "train-images-idx3-ubyte", "more than it has", NULL);

    o = (data_case){.kind = "cifar10", .path = files_path("wrong_cifar")};
    must_refuse(&o, "data_batch_1.bin", "No such file", NULL);
    cifar_folder("wrong_cifar", 2);
    files_read("wrong_cifar/data_batch_4.bin", bytes, sizeof bytes);
    bytes[CIFAR_RECORD] = 10;
    files_write("wrong_cifar/data_batch_4.bin", bytes, sizeof bytes);
    must_refuse(&o, "data_batch_4.bin", "label 10 of record 1", NULL);
    bytes[CIFAR_RECORD] = 9;
    files_write("wrong_cifar/data_batch_4.bin", bytes, CIFAR_RECORD);
    must_refuse(&o, "data_batch_4.bin", "1 records", "2", NULL);
    files_write("wrong_cifar/data_batch_4.bin", bytes, CIFAR_RECORD + 1);
    must_refuse(&o, "data_batch_4.bin", "3074 bytes", NULL);
    assert_int_equal(remove(files_path("wrong_cifar/data_batch_4.bin")), 0);
    must_refuse(&o, "data_batch_4.bin: cannot open: No such file", NULL);
    o.kind = "auto";
    must_refuse(&o, "data_batch_4.bin: cannot open: No such file", NULL);
}

/* ---- Synthetic ----------------------------------------------------------------------------------------- */

static void test_synthetic_images(void **state)
{
    enum { batch = 16, features = 784 };
    (void)state;
    data_case o = {.kind = "synthetic", .wants = "pixels", .seed = 7};
    data_set *a = must_open(&o), *b = must_open(&o);
    static float x[batch * features], y[batch * features];
    int32_t labels[batch], again[batch];
    must_be_standard(a);
    must_fill(a, DATA_VAL, 3, batch, x, labels);
    must_fill(b, DATA_VAL, 3, batch, y, again);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(labels, again, sizeof labels);
    assert_int_equal(data_about(a)->samples[DATA_TRAIN], 4096);
    data_close(a);
    data_close(b);
}

/* As many large images as 12 MiB hold. */
static void large_synthetic_images_are_fewer(void **state)
{
    static const char *const pairs[] = {"data_kind=synthetic", "image_size=64", NULL};
    static const char *const wants[] = {"pixels", NULL};
    const data_context context = {.seed = 7, .wants = wants};
    data_set *d = NULL;
    scion_error err = {0};
    (void)state;
    if (open_pairs(&d, "", &context, pairs, &err) != SCION_OK)
        fail_msg("%s", err.message);
    assert_int_equal(data_about(d)->samples[DATA_TRAIN], 1024);
    data_close(d);
}

/* The first successor of each symbol follows it seven times of ten, and no symbol has more than four. */
static void test_synthetic_text(void **state)
{
    enum { vocab = 17, batch = 64, block = 256 };
    static int32_t inputs[batch * block], targets[batch * block];
    static int follows[vocab][vocab];
    (void)state;
    data_case o = {.kind = "synthetic", .vocab = vocab, .val_fraction = 0.1, .seed = 7, .block = block};
    data_set *d = must_open(&o);
    assert_int_equal(range_of(d), vocab);
    assert_int_equal(data_about(d)->units[DATA_TRAIN] + data_about(d)->units[DATA_VAL], 1 << 20);
    must_fill(d, DATA_TRAIN, 0, batch, inputs, targets);
    for (int i = 0; i < batch * block; i++) {
        assert_in_range(inputs[i], 0, vocab - 1);
        assert_in_range(targets[i], 0, vocab - 1);
        follows[inputs[i]][targets[i]]++;
    }
    for (int i = 0; i < vocab; i++) {
        int successors = 0, all = 0, largest = 0;
        for (int k = 0; k < vocab; k++) {
            successors += follows[i][k] > 0;
            all += follows[i][k];
            largest = follows[i][k] > largest ? follows[i][k] : largest;
        }
        assert_in_range(successors, 0, 4);
        assert_true(all < 200 || largest > 0.55 * all); /* 0.7 less four deviations and a half of 200 draws */
    }
    data_close(d);
    o.vocab = 1 << 18; /* more than 16 bits */
    d = must_open(&o);
    int32_t largest = 0;
    must_fill(d, DATA_TRAIN, 0, batch, inputs, targets);
    for (int i = 0; i < batch * block; i++)
        largest = inputs[i] > largest ? inputs[i] : largest;
    assert_in_range(largest, 1 << 17, (1 << 18) - 1);
    data_close(d);
}

/* The rows of a PNG become the records of a file, with the labels from the place of the file in the JSON array. */
static void cifar10_is_made_from_png(void **state)
{
    enum { records = 2, pixels = 1024, labels = 40000 + records };
    static char json[2 * labels + 2];
    scion_error err = {0};
    (void)state;
    cifar_folder("as_bin", records);
    json[0] = '[';
    for (int i = 0; i < labels; i++)
        memcpy(json + 1 + 2 * i, i + 1 < labels ? "0," : "0]", 2);
    for (int file = 0; file < 6; file++) {
        uint8_t bin[records * CIFAR_RECORD], png[records * pixels * 3];
        char name[64];
        snprintf(name, sizeof name, file < 5 ? "as_bin/data_batch_%d.bin" : "as_bin/test_batch.bin", file + 1);
        files_read(name, bin, sizeof bin);
        for (int i = 0; i < records; i++) {
            json[1 + 2 * (10000 * (file % 5) + i)] = (char)('0' + bin[i * CIFAR_RECORD]);
            for (int k = 0; k < 3 * pixels; k++)
                png[(i * pixels + k % pixels) * 3 + k / pixels] = bin[i * CIFAR_RECORD + 1 + k];
        }
        const image_bytes made = make_png(pixels, records, 2, 8, false, png);
        snprintf(name, sizeof name, file < 5 ? "as_png/data_batch_%d.png" : "as_png/test_batch.png", file + 1);
        files_write(name, made.at, made.count);
        free(made.at);
        if (file >= 4) /* after the training files; after the test file, whose labels begin at 0 */
            files_write(file == 4 ? "as_png/train_lables.json" : "as_png/test_lables.json", json, 2 * labels + 1);
    }
    files_text("from_png/empty", "");
    if (cifar10_from_png(files_path("as_png"), files_path("from_png"), &err) != SCION_OK)
        fail_msg("%s", err.message);
    for (int file = 0; file < 6; file++) {
        uint8_t a[records * CIFAR_RECORD + 1], b[records * CIFAR_RECORD + 1];
        char name[2][64];
        for (int k = 0; k < 2; k++)
            snprintf(name[k], sizeof name[k], file < 5 ? "%s/data_batch_%d.bin" : "%s/test_batch.bin",
                     k ? "from_png" : "as_bin", file + 1);
        assert_int_equal(files_read(name[0], a, sizeof a), files_read(name[1], b, sizeof b));
        assert_memory_equal(a, b, records * CIFAR_RECORD);
    }
    assert_int_equal(cifar10_from_png(files_path("as_bin"), files_path("from_png"), &err), SCION_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(cifar10_is_made_from_png),
        cmocka_unit_test(test_shuffle_is_even),
        cmocka_unit_test(test_validation_order),
        cmocka_unit_test(test_determinism),
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_idx_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_synthetic_images),
        cmocka_unit_test(test_synthetic_text),
        cmocka_unit_test(large_synthetic_images_are_fewer),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
