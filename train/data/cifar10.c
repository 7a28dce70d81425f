/* CIFAR-10, binary version: a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin; records of one
 * byte label and 3 x 32 x 32 bytes, channel by channel. All files must have the same number of records (10000 as
 * published): this finds a file that was cut off between two records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "data/images.h"
#include "data/paths.h"

enum { features = 3 * 32 * 32, record = 1 + features, classes = 10, train_files = 5 };

static const char *const names[classes] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

/* True if one of its files is there: opening then reports the missing ones. */
static bool detect(const char *path)
{
    char train[data_path_bytes], test[data_path_bytes];
    return data_path(train, "%s/data_batch_1.bin", path) && data_path(test, "%s/test_batch.bin", path) &&
           (file_exists(train) || file_exists(test));
}

/* Reads a file and counts its records; *bytes is the caller's to free. */
static scion_status read_file(const char *path, uint8_t **bytes, int64_t *count, scion_error *err)
{
    int64_t size;
    int file;
    *bytes = NULL;
    scion_status status = data_open_file(path, &file, &size, err);
    if (status != SCION_OK)
        return status;
    *count = size / record;
    if (size % record != 0)
        status =
            data_fail(err, SCION_EINVAL, path, "%lld bytes are no whole number of records of %d: cut off or foreign",
                      (long long)size, record);
    else if (!(*bytes = malloc((size_t)size)))
        status = data_fail(err, SCION_ENOMEM, path, "out of memory: %lld bytes", (long long)size);
    else
        status = data_read_at(file, path, 0, *bytes, (size_t)size, err);
    close(file);
    for (int64_t i = 0; status == SCION_OK && i < *count; i++)
        if ((*bytes)[i * record] >= classes)
            status = data_fail(err, SCION_EINVAL, path, "label %d of record %lld, expected 0 to %d",
                               (*bytes)[i * record], (long long)i, classes - 1);
    return status;
}

/* Reads `files` files into one array of pixels and one of labels. *records: those of each file before, 0 if none. */
static scion_status read_part(data_set *d, const char *folder, data_part part, int files, int64_t *records,
                              scion_error *err)
{
    uint8_t *pixels = NULL;
    int32_t *labels = NULL;
    int64_t at = 0;
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < files; i++) {
        char path[data_path_bytes];
        uint8_t *bytes = NULL;
        int64_t count = 0;
        if (part == DATA_TRAIN ? !data_path(path, "%s/data_batch_%d.bin", folder, i + 1)
                               : !data_path(path, "%s/test_batch.bin", folder))
            return data_fail(err, SCION_EINVAL, folder, "the path is too long");
        status = read_file(path, &bytes, &count, err);
        if (status == SCION_OK && *records > 0 && count != *records)
            status = data_fail(err, SCION_EINVAL, path, "%lld records, but data_batch_1.bin has %lld",
                               (long long)count, (long long)*records);
        if (status == SCION_OK && !labels) { /* all files have as many as the first */
            pixels = data_own(d, (size_t)(count * files) * features, err);
            labels = pixels ? data_own(d, (size_t)(count * files) * sizeof *labels, err) : NULL;
            status = labels ? SCION_OK : SCION_ENOMEM;
        }
        *records = count;
        for (int64_t k = 0; status == SCION_OK && k < count; k++, at++) {
            labels[at] = bytes[k * record];
            memcpy(pixels + at * features, bytes + k * record + 1, features);
        }
        free(bytes);
    }
    data_images *m = d->state;
    m->part[part].pixels = pixels;
    m->part[part].labels = labels;
    m->part[part].count = at;
    return status;
}

static scion_status open_cifar10(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_images *m = d->state = data_own(d, sizeof *m, err);
    int64_t records = 0;
    if (!m)
        return SCION_ENOMEM;
    m->about = (data_image_info){.channels = 3, .height = 32, .width = 32, .classes = classes, .names = names};
    if (!o->path[0])
        return train_fail(err, SCION_EINVAL, "no folder of CIFAR-10 is given");
    scion_status status = read_part(d, o->path, DATA_TRAIN, train_files, &records, err);
    if (status == SCION_OK)
        status = read_part(d, o->path, DATA_VAL, 1, &records, err);
    if (status != SCION_OK)
        return status;
    status = data_images_ready(d, context, err);
    snprintf(d->info.description, sizeof d->info.description, "%s, CIFAR-10, %lld images to train, %lld to validate",
             path_tail(o->path, 60), (long long)d->info.units[DATA_TRAIN], (long long)d->info.units[DATA_VAL]);
    return status;
}

const data_kind data_kind_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10, binary version",
    .images = true,
    .detect = detect,
    .open = open_cifar10,
    .options = data_image_option_rows,
    .options_size = sizeof(data_image_options),
};
