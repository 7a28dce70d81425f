/* Damaged files. Each file of each kind is cut off at every offset, and 2000 times a random byte of it is changed:
 * either the data still open, and then their batches hold tokens of the vocabulary and labels of the classes, or
 * there is a sentence that names a file of the set. With sanitizers: nothing is read outside its memory. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data_files.h"

enum { flips = 2000, most_bytes = 2 * CIFAR_RECORD };

typedef struct victim {
    data_case options;
    const char *file;  /* that is damaged, in the folder of the files */
    const char *named; /* part of every sentence about the set */
} victim;

/* ---- Reading everything -------------------------------------------------------------------------------- */

enum { block = 3 };

static void read_tokens(const data_set *d)
{
    enum { batch = 2 };
    int32_t inputs[batch * block], targets[batch * block];
    for (int part = 0; part < 2; part++) {
        const int64_t batches = batches_in(d, (data_part)part, batch);
        for (int64_t i = 0; i < batches; i++) {
            must_fill(d, (data_part)part, i, batch, inputs, targets);
            for (int k = 0; k < batch * block; k++) {
                assert_true(inputs[k] >= 0 && inputs[k] < range_of(d));
                assert_true(targets[k] >= -(part == DATA_VAL) && targets[k] < range_of(d));
            }
        }
    }
}

static void read_images(const data_set *d)
{
    static float pixels[2 * 3072];
    int32_t labels[2];
    const int64_t features = data_about(d)->arrays[0].count;
    assert_in_range(features, 1, 3072);
    for (int part = 0; part < 2; part++) {
        const int64_t batches = batches_in(d, (data_part)part, 2);
        for (int64_t i = 0; i < batches; i++) {
            must_fill(d, (data_part)part, i, 2, pixels, labels);
            for (int b = 0; b < 2; b++)
                assert_true(labels[b] >= -(part == DATA_VAL) && labels[b] < range_of(d));
            for (int64_t k = 0; k < 2 * features; k++)
                assert_true(isfinite(pixels[k]));
        }
    }
}

/* Opens and reads, or is told why not. Returns whether it opened. */
static int try(const victim *v)
{
    data_set *d = NULL;
    scion_error err = {0};
    const scion_status status = open_case(&d, &v->options, &err);
    if (status == SCION_OK) {
        if (data_find(data_about(d), "tokens") >= 0)
            read_tokens(d);
        else
            read_images(d);
        data_close(d);
        return 1;
    }
    assert_null(d);
    if (!strstr(err.message, v->named) || strlen(err.message) < strlen(v->named) + 8)
        fail_msg("%s damaged: \"%s\"", v->file, err.message);
    return 0;
}

/* ---- Damage -------------------------------------------------------------------------------------------- */

/* Both leave the file as it was, and return how often the data opened. */
static int cut_off(const victim *v, int file, const uint8_t *bytes, size_t n)
{
    int opened = 0;
    for (size_t left = n; left-- > 0;) {
        assert_int_equal(ftruncate(file, (off_t)left), 0);
        opened += try(v);
    }
    assert_int_equal(pwrite(file, bytes, n, 0), n);
    return opened;
}

static int flip(const victim *v, int file, const uint8_t *bytes, size_t n)
{
    uint64_t random = files_seed();
    int opened = 0;
    for (int i = 0; i < flips; i++) {
        /* every second one among the first 16 bytes, where headers are */
        const uint64_t r = files_random(&random), range = i % 2 && n > 16 ? 16 : n;
        const off_t place = (off_t)(r % range);
        const uint8_t byte = (uint8_t)(bytes[place] ^ (1 + (r >> 32) % 255));
        assert_int_equal(pwrite(file, &byte, 1, place), 1);
        opened += try(v);
        assert_int_equal(pwrite(file, bytes + place, 1, place), 1);
    }
    return opened;
}

/* cuts_that_open: how many of the truncations still are files of the kind. */
static void damage(const victim *v, int cuts_that_open)
{
    static uint8_t bytes[most_bytes + 1];
    const size_t n = files_read(v->file, bytes, sizeof bytes);
    const int file = open(files_path(v->file), O_RDWR);
    assert_in_range(n, 1, most_bytes);
    assert_true(file >= 0 && try(v));
    const int cut = cut_off(v, file, bytes, n), changed = flip(v, file, bytes, n);
    assert_true(try(v));
    close(file);
    print_message("%s: opened after %d of %zu cuts, %d of %d flips\n", v->file, cut, n, changed, flips);
    assert_int_equal(cut, cuts_that_open);
}

/* ---- Kinds --------------------------------------------------------------------------------------------- */

static void test_chars(void **state)
{
    const char text[] = "Gr\xc3\xbc\xc3\x9f"
                        "e, \xe2\x82\xac 5\n\xf0\x9f\x8c\xb1 and\na plain last line\n";
    (void)state;
    victim v = {{.kind = "auto", .path = files_text("text.txt", text), .val_fraction = 0.3, .block = block},
                "text.txt",
                "text.txt"};
    damage(&v, sizeof text - 2); /* any text but the empty one is a text, if need be of bytes */
    data_set *d = must_open(&v.options);
    v.options.vocabulary = vocabulary_of(d);
    damage(&v, sizeof text - 2 - 1 - 1 - 2 - 3); /* but those that end inside of a character */
    data_close(d);
}

static void test_tokens(void **state)
{
    uint8_t bytes[SHARD_HEAD + 2 * 33];
    (void)state;
    files_write("tokens/a_val.bin", bytes, shard_bytes(bytes, 12, 0, 100));
    files_write("tokens/a_0.bin", bytes, shard_bytes(bytes, 33, 0, 100));
    const char *folder = files_path("tokens");
    const victim train = {
        {.kind = "tokens", .path = folder, .vocab = 100, .block = block}, "tokens/a_0.bin", "a_0.bin"};
    const victim val = {{.kind = "auto", .path = folder, .block = block}, "tokens/a_val.bin", "a_val.bin"};
    damage(&train, 0);
    damage(&val, 0);
}

static void test_idx(void **state)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    (void)state;
    for (int gz = 0; gz < 2; gz++) {
        const char *folder = gz ? "idx_gz" : "idx";
        idx_folder(folder, 9, 5, 4, 3, 3, gz);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char name[FILES_PATH / 4];
            snprintf(name, sizeof name, "%s/%s%s", folder, names[i], gz ? ".gz" : "");
            const victim v = {{.kind = "idx", .path = files_path(folder)}, name, "-ubyte"};
            damage(&v, 0);
        }
    }
}

static void test_cifar10(void **state)
{
    (void)state;
    cifar_folder("cifar", 2);
    const char *folder = files_path("cifar");
    const victim train = {{.kind = "cifar10", .path = folder}, "cifar/data_batch_3.bin", "data_batch_3.bin"};
    const victim val = {{.kind = "auto", .path = folder}, "cifar/test_batch.bin", "test_batch.bin"};
    damage(&train, 0);
    damage(&val, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chars),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_cifar10),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
