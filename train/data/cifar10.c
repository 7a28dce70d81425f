/* CIFAR-10, binary version: a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin; records of one
 * byte label and 3 x 32 x 32 bytes, channel by channel. All files have the same number of records (10000 as
 * published): that finds a file that was cut off between two records. */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "data/data_kind.h"

enum { features = 3 * 32 * 32, record = 1 + features, classes = 10, train_files = 5 };

static bool looks(const char *path)
{
    char train[data_path_bytes], test[data_path_bytes];
    return data_path(train, "%s/data_batch_1.bin", path) && data_path(test, "%s/test_batch.bin", path) &&
           data_exists(train) && data_exists(test);
}

/* Maps a file and counts its records. */
static scion_status map_file(data_set *d, const char *path, const uint8_t **bytes, int64_t *count, scion_error *err)
{
    size_t size;
    scion_status status = data_map(d, path, bytes, &size, err);
    if (status != SCION_OK)
        return status;
    if (size % record != 0)
        return data_fail(err, SCION_EINVAL, path,
                         "%zu bytes are no whole number of records of %d: cut off or foreign", size, record);
    *count = (int64_t)(size / record);
    for (int64_t i = 0; i < *count; i++)
        if ((*bytes)[i * record] >= classes)
            return data_fail(err, SCION_EINVAL, path, "label %d of record %lld, expected 0 to %d",
                             (*bytes)[i * record], (long long)i, classes - 1);
    return SCION_OK;
}

/* `files` files into one array of pixels and one of labels. *records: of the files before, 0 if there are none. */
static scion_status read_part(data_set *d, const char *folder, data_part part, int files, int64_t *records,
                              scion_error *err)
{
    const uint8_t *bytes[train_files];
    int64_t count[train_files], total = 0;
    for (int i = 0; i < files; i++) {
        char path[data_path_bytes];
        if (part == DATA_TRAIN ? !data_path(path, "%s/data_batch_%d.bin", folder, i + 1)
                               : !data_path(path, "%s/test_batch.bin", folder))
            return data_fail(err, SCION_EINVAL, folder, "the path is too long");
        scion_status status = map_file(d, path, &bytes[i], &count[i], err);
        if (status != SCION_OK)
            return status;
        if (*records > 0 && count[i] != *records)
            return data_fail(err, SCION_EINVAL, path, "%lld records, but data_batch_1.bin has %lld",
                             (long long)count[i], (long long)*records);
        *records = count[i];
        total += count[i];
    }
    uint8_t *pixels = data_own(d, (size_t)total * features, err);
    int32_t *labels = pixels ? data_own(d, (size_t)total * sizeof *labels, err) : NULL;
    if (!labels)
        return SCION_ENOMEM;
    int64_t at = 0;
    for (int i = 0; i < files; i++)
        for (int64_t k = 0; k < count[i]; k++, at++) {
            labels[at] = bytes[i][k * record];
            memcpy(pixels + at * features, bytes[i] + k * record + 1, features);
        }
    data_images *m = d->state;
    m->part[part].pixels = pixels;
    m->part[part].labels = labels;
    m->part[part].count = total;
    return SCION_OK;
}

static scion_status open_cifar10(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_images *m = d->state = data_own(d, sizeof *m, err);
    int64_t records = 0;
    (void)context;
    if (!m)
        return SCION_ENOMEM;
    *m = (data_images){.channels = 3, .height = 32, .width = 32, .classes = classes};
    if (!o->path[0])
        return train_fail(err, SCION_EINVAL, "no folder of CIFAR-10 is given");
    scion_status status = read_part(d, o->path, DATA_TRAIN, train_files, &records, err);
    if (status == SCION_OK)
        status = read_part(d, o->path, DATA_VAL, 1, &records, err);
    if (status != SCION_OK)
        return status;
    data_images_ready(d);
    snprintf(d->info.description, sizeof d->info.description, "%s, CIFAR-10, %lld images to train, %lld to validate",
             data_tail(o->path, 60), (long long)d->info.units[DATA_TRAIN], (long long)d->info.units[DATA_VAL]);
    return SCION_OK;
}

const data_kind data_kind_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10, binary version",
    .looks = looks,
    .open = open_cifar10,
};
