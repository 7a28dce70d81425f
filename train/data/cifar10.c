/* CIFAR-10, binary version: a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin; records of one
 * byte label and 3 x 32 x 32 bytes, channel by channel. All files must have the same number of records (10000 as
 * published): this finds a file that was cut off between two records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Reads a file, counts its records and checks their labels; *bytes is the caller's to free. */
static scion_status read_records(const char *path, uint8_t **bytes, int64_t *count, scion_error *err)
{
    int64_t size;
    const scion_status status = data_read_file(path, bytes, &size, err);
    if (status != SCION_OK)
        return status;
    if (size % record != 0)
        return data_fail(err, SCION_EINVAL, path,
                         "%lld bytes are no whole number of records of %d: cut off or foreign", (long long)size,
                         record);
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
    scion_status status;
    m->about = (data_image_info){.channels = 3, .height = 32, .width = 32, .classes = classes, .names = names};
    for (int i = 0; i <= train_files; i++) {
        char name[32] = "test_batch", path[data_path_bytes];
        if (i < train_files)
            snprintf(name, sizeof name, "data_batch_%d", i + 1);
        if (!data_path(path, "%s/%s.bin", o->path, name))
            return data_fail(err, SCION_EINVAL, o->path, "the path is too long");
        if (i < train_files)
            TRY(add_file(d, path, DATA_TRAIN, train_files, &records, err));
        else
            TRY(add_file(d, path, DATA_VAL, 1, &records, err));
    }
    TRY(data_images_ready(d, context, err));
    snprintf(d->info.description, sizeof d->info.description, "%s, CIFAR-10, %lld images to train, %lld to validate",
             path_tail(o->path, 60), (long long)d->info.units[DATA_TRAIN], (long long)d->info.units[DATA_VAL]);
done:
    return status;
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
