/* See data_files.h. */
#define _XOPEN_SOURCE 700
#include "data_files.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "config/config.h"

static char folder_of_all[FILES_PATH / 2];

int files_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(folder_of_all, sizeof folder_of_all, "%s/scion-data-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    return mkdtemp(folder_of_all) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *walk)
{
    (void)s;
    (void)type;
    (void)walk;
    return remove(path);
}

int files_teardown(void **state)
{
    (void)state;
    return nftw(folder_of_all, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *files_path(const char *name)
{
    static char paths[16][FILES_PATH];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, FILES_PATH, "%s/%s", folder_of_all, name);
    return path;
}

static const char *path_to_write(const char *name)
{
    const char *path = files_path(name);
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        char folder[FILES_PATH];
        snprintf(folder, sizeof folder, "%s/%.*s", folder_of_all, (int)(slash - name), name);
        mkdir(folder, 0700);
    }
    return path;
}

const char *files_write(const char *name, const void *bytes, size_t n)
{
    const char *path = path_to_write(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *files_text(const char *name, const char *text)
{
    return files_write(name, text, strlen(text));
}

const char *files_write_gz(const char *name, const void *bytes, size_t n)
{
    const char *path = path_to_write(name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

size_t files_read(const char *name, void *bytes, size_t max)
{
    FILE *f = fopen(files_path(name), "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, max, f);
    fclose(f);
    return n;
}

/* ---- Formats ------------------------------------------------------------------------------------------- */

size_t shard_bytes(uint8_t *to, int32_t count, int32_t first, int32_t vocab)
{
    const int32_t head[3] = {20240520, 1, count};
    memset(to, 0, SHARD_HEAD);
    memcpy(to, head, sizeof head);
    for (int32_t i = 0; i < count; i++) {
        const uint16_t token = (uint16_t)((first + i) % vocab);
        memcpy(to + SHARD_HEAD + 2 * i, &token, sizeof token);
    }
    return SHARD_HEAD + 2 * (size_t)count;
}

static uint8_t *big_endian(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
    return to + 4;
}

size_t idx_images(uint8_t *to, int count, int height, int width)
{
    uint8_t *out = big_endian(to, 0x0803);
    out = big_endian(out, (uint32_t)count);
    out = big_endian(out, (uint32_t)height);
    out = big_endian(out, (uint32_t)width);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < height * width; k++)
            *out++ = (uint8_t)(7 * i + k);
    return (size_t)(out - to);
}

size_t idx_labels(uint8_t *to, int count, int classes)
{
    uint8_t *out = big_endian(to, 0x0801);
    out = big_endian(out, (uint32_t)count);
    for (int i = 0; i < count; i++)
        *out++ = (uint8_t)(i % classes);
    return (size_t)(out - to);
}

void idx_folder(const char *folder, int train, int val, int height, int width, int classes, int gz)
{
    for (int part = 0; part < 2; part++) {
        const int count = part == 0 ? train : val;
        uint8_t *bytes = malloc((size_t)(16 + count * height * width));
        char name[FILES_PATH / 4];
        assert_non_null(bytes);
        for (int labels = 0; labels < 2; labels++) {
            size_t n = labels ? idx_labels(bytes, count, classes) : idx_images(bytes, count, height, width);
            snprintf(name, sizeof name, "%s/%s-%s-ubyte%s", folder, part == 0 ? "train" : "t10k",
                     labels ? "labels-idx1" : "images-idx3", gz ? ".gz" : "");
            if (gz)
                files_write_gz(name, bytes, n);
            else
                files_write(name, bytes, n);
        }
        free(bytes);
    }
}

void cifar_folder(const char *folder, int records)
{
    uint8_t *bytes = malloc((size_t)records * CIFAR_RECORD);
    char name[FILES_PATH / 4];
    assert_non_null(bytes);
    for (int file = 0; file < 6; file++) {
        for (int r = 0; r < records; r++) {
            const int i = file * records + r;
            uint8_t *out = bytes + (size_t)r * CIFAR_RECORD;
            *out++ = (uint8_t)(i % 10);
            for (int k = 0; k < 3072; k++)
                *out++ = (uint8_t)(k == 0 ? i : k == 1 ? i >> 8 : i + 50 * (k / 1024));
        }
        if (file < 5)
            snprintf(name, sizeof name, "%s/data_batch_%d.bin", folder, file + 1);
        else
            snprintf(name, sizeof name, "%s/test_batch.bin", folder);
        files_write(name, bytes, (size_t)records * CIFAR_RECORD);
    }
    free(bytes);
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

scion_status open_case(data_set **out, const data_case *c, scion_error *err)
{
    const char *const wants[] = {c->wants, NULL};
    const char *v = c->vocabulary;
    const data_context context = {
        .seed = c->seed, .vocabulary = {v ? "chars" : NULL, v, v ? strlen(v) : 0}, .wants = c->wants ? wants : NULL};
    data_options o = {.val_fraction = c->val_fraction, .vocab = c->vocab, .block = c->block > 0 ? c->block : 1};
    snprintf(o.kind, sizeof o.kind, "%s", c->kind ? c->kind : "auto");
    snprintf(o.path, sizeof o.path, "%s", c->path ? c->path : "");
    snprintf(o.val, sizeof o.val, "%s", c->val ? c->val : "");
    return data_open(out, &o, &context, err);
}

scion_status open_pairs(data_set **out, const char *path, const data_context *context, const char *const pairs[],
                        scion_error *err)
{
    config c;
    config_init(&c);
    snprintf(c.data.path, sizeof c.data.path, "%s", path);
    for (int i = 0; pairs[i]; i++)
        assert_int_equal(config_set_pair(&c, pairs[i], err), SCION_OK);
    return data_open(out, &c.data, context, err);
}

const char *vocabulary_of(const data_set *d)
{
    static char *text;
    void *bytes;
    size_t size;
    scion_error err = {0};
    assert_int_equal(tokenizer_save(data_about(d)->tokenizer, &bytes, &size, &err), SCION_OK);
    free(text);
    text = calloc(1, size + 1);
    assert_non_null(text);
    memcpy(text, bytes, size);
    free(bytes);
    return text;
}

int64_t encode_text(const data_set *d, const char *text, int32_t *tokens, scion_error *err)
{
    size_t bad;
    const int64_t count = tokenizer_encode(data_about(d)->tokenizer, text, strlen(text), tokens, &bad, err);
    return bad == strlen(text) ? count : -1;
}

int decode_token(const data_set *d, int32_t token, char text[8])
{
    size_t n;
    const char *bytes = tokenizer_decode(data_about(d)->tokenizer, token, &n);
    assert_true(n < 8);
    if (n > 0)
        memcpy(text, bytes, n);
    text[n] = '\0';
    return (int)n;
}

int64_t batches_in(const data_set *d, data_part part, int64_t batch)
{
    return (data_about(d)->samples[part] + batch - 1) / batch;
}

void must_fill(const data_set *d, data_part part, int64_t index, int64_t batch, void *inputs, int32_t *targets)
{
    void *const arrays[DATA_ARRAYS] = {inputs, targets};
    scion_error err = {0};
    if (data_fill(d, (data_sequence){.part = part}, index * batch, batch, arrays, &err) != SCION_OK)
        fail_msg("%s", err.message);
}

int64_t range_of(const data_set *d)
{
    return data_about(d)->arrays[data_find(data_about(d), "targets")].range;
}

data_set *must_open(const data_case *c)
{
    data_set *d = NULL;
    scion_error err = {0};
    if (open_case(&d, c, &err) != SCION_OK)
        fail_msg("%s", err.message);
    assert_non_null(d);
    return d;
}

void must_refuse(const data_case *c, ...)
{
    data_set *d = NULL;
    scion_error err = {0};
    va_list words;
    scion_status status = open_case(&d, c, &err);
    assert_null(d);
    assert_int_not_equal(status, SCION_OK);
    assert_int_equal(status, err.status);
    assert_in_range(strlen(err.message), 10, sizeof err.message - 2); /* not cut off */
    va_start(words, c);
    for (const char *word = va_arg(words, const char *); word; word = va_arg(words, const char *))
        if (!strstr(err.message, word))
            fail_msg("\"%s\" does not say \"%s\"", err.message, word);
    va_end(words);
}

/* ---- Random numbers: splitmix64 ------------------------------------------------------------------------ */

uint64_t files_seed(void)
{
    static int printed;
    const char *text = getenv("SCION_TEST_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 20250211;
    if (!printed++)
        print_message("seed %llu (SCION_TEST_SEED replaces it)\n", (unsigned long long)seed);
    return seed;
}

uint64_t files_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
