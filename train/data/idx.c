/* Images in idx files, gzipped or not, the format of MNIST and Fashion-MNIST: a folder with
 *     train-images-idx3-ubyte   train-labels-idx1-ubyte   t10k-images-idx3-ubyte   t10k-labels-idx1-ubyte
 * Numbers are big-endian; the magic is 0x0803 for images (count, height, width) and 0x0801 for labels (count). */
#include <stdio.h>

#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "data/images.h"
#include "data/paths.h"

enum { magic_images = 0x0803, magic_labels = 0x0801, max_dims = 3 };

/* Largest expansion by deflate: a header that promises more is refused before memory is allocated. */
enum { max_expansion = 1032 };

static const char *const stems[2] = {"train", "t10k"};

/* Path of a file in a folder; of the gzipped one if only that exists. */
static bool path_of(char path[data_path_bytes], const char *folder, const char *stem, const char *what)
{
    char plain[data_path_bytes];
    if (!data_path(plain, "%s/%s-%s", folder, stem, what))
        return false;
    return (!file_exists(plain) && data_path(path, "%s.gz", plain) && file_exists(path)) ||
           data_path(path, "%s", plain);
}

static bool detect(const char *path)
{
    char images[data_path_bytes];
    return path_of(images, path, stems[DATA_TRAIN], "images-idx3-ubyte") && file_exists(images);
}

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Reads the header: `dims` numbers after the magic. *bytes: size of the data, as a file of `size` bytes can hold. */
static scion_status read_head(gzFile f, const char *path, double size, uint32_t magic, int dims,
                              int64_t shape[max_dims], size_t *bytes, scion_error *err)
{
    uint8_t head[4 + 4 * max_dims];
    double product = 1;
    if (gzfread(head, 4, 1 + (size_t)dims, f) != 1 + (size_t)dims)
        return data_fail(err, SCION_EINVAL, path, "cut off, damaged or too short for an idx header");
    if (big_endian(head) != magic)
        return data_fail(err, SCION_EINVAL, path, "magic 0x%08x, expected 0x%08x: not an idx file of this kind",
                         (unsigned)big_endian(head), (unsigned)magic);
    for (int i = 0; i < dims; i++) {
        shape[i] = big_endian(head + 4 + 4 * i);
        product *= (double)shape[i];
    }
    if (product < 1)
        return data_fail(err, SCION_EINVAL, path, "its header says that there are no data");
    if (product > size * (gzdirect(f) ? 1 : max_expansion))
        return data_fail(err, SCION_EINVAL, path,
                         "cut off or damaged: its header says %.0f bytes of data, more than it has", product);
    *bytes = (size_t)product;
    return SCION_OK;
}

/* Reads a whole idx file with `dims` dimensions into memory of d. */
static scion_status read_idx(data_set *d, const char *path, uint32_t magic, int dims, int64_t shape[max_dims],
                             uint8_t **data, scion_error *err)
{
    size_t bytes = 0;
    uint8_t *memory = NULL, beyond;
    int64_t size;
    gzFile f;
    RETURN_IF_FAILED(data_open_gzip(path, &f, &size, err));
    scion_status status = read_head(f, path, (double)size, magic, dims, shape, &bytes, err);
    if (status == SCION_OK && !(memory = data_own(d, bytes, NULL)))
        status = data_fail(err, SCION_ENOMEM, path, "out of memory: its header says %zu bytes of data", bytes);
    if (status == SCION_OK && gzfread(memory, 1, bytes, f) != bytes)
        status = data_fail(err, SCION_EINVAL, path, "cut off or damaged: expected %zu bytes of data", bytes);
    /* Read one byte more to reach the checksum at the end of a .gz; gzclose then reports a file that is cut off. */
    const int more = status == SCION_OK ? gzread(f, &beyond, 1) : 0;
    const bool whole = gzclose(f) == Z_OK && more >= 0;
    if (more > 0)
        status = data_fail(err, SCION_EINVAL, path, "more data than the %zu bytes that its header says", bytes);
    else if (status == SCION_OK && !whole)
        status = data_fail(err, SCION_EINVAL, path, "cut off or damaged: its checksum is missing or wrong");
    *data = memory;
    return status;
}

/* Converts labels to int32. The training part defines the number of classes, the validation part must respect it. */
static scion_status take_labels(data_set *d, data_part part, const uint8_t *bytes, int64_t count, const char *path,
                                scion_error *err)
{
    data_images *m = d->state;
    int32_t *labels = data_own(d, (size_t)count * sizeof *labels, err);
    if (!labels)
        return SCION_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        labels[i] = bytes[i];
        if (part == DATA_TRAIN && labels[i] >= m->about.classes)
            m->about.classes = labels[i] + 1;
        if (part == DATA_VAL && labels[i] >= m->about.classes)
            return data_fail(err, SCION_EINVAL, path, "label %d of image %lld, but the training labels end at %lld",
                             (int)labels[i], (long long)i, (long long)m->about.classes - 1);
    }
    m->part[part].labels = labels;
    m->part[part].count = count;
    return SCION_OK;
}

static scion_status read_part(data_set *d, const char *folder, data_part part, scion_error *err)
{
    char images[data_path_bytes], labels[data_path_bytes];
    int64_t shape[max_dims] = {0}, count[max_dims] = {0};
    data_images *m = d->state;
    uint8_t *bytes = NULL;
    if (!path_of(images, folder, stems[part], "images-idx3-ubyte") ||
        !path_of(labels, folder, stems[part], "labels-idx1-ubyte"))
        return data_fail(err, SCION_EINVAL, folder, "the path is too long");
    RETURN_IF_FAILED(read_idx(d, images, magic_images, 3, shape, &m->part[part].pixels, err));
    RETURN_IF_FAILED(read_idx(d, labels, magic_labels, 1, count, &bytes, err));
    if (shape[0] != count[0])
        return data_fail(err, SCION_EINVAL, labels, "%lld labels for %lld images", (long long)count[0],
                         (long long)shape[0]);
    if (part == DATA_VAL && (shape[1] != m->about.height || shape[2] != m->about.width))
        return data_fail(err, SCION_EINVAL, images, "%lld x %lld pixels, but the training images are %lld x %lld",
                         (long long)shape[1], (long long)shape[2], (long long)m->about.height,
                         (long long)m->about.width);
    m->about.height = shape[1];
    m->about.width = shape[2];
    return take_labels(d, part, bytes, shape[0], labels, err);
}

static int64_t classes_without_images(const data_images *m)
{
    bool seen[UINT8_MAX + 1] = {false};
    int64_t without = 0;
    for (int64_t i = 0; i < m->part[DATA_TRAIN].count; i++)
        seen[m->part[DATA_TRAIN].labels[i]] = true;
    for (int64_t c = 0; c < m->about.classes; c++)
        without += !seen[c];
    return without;
}

static scion_status open_idx(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    data_images *m = d->state;
    m->about.channels = 1;
    RETURN_IF_FAILED(read_part(d, o->path, DATA_TRAIN, err));
    RETURN_IF_FAILED(read_part(d, o->path, DATA_VAL, err));
    const int64_t empty = context->images ? 0 : classes_without_images(m); /* a model may have more classes */
    RETURN_IF_FAILED(data_images_ready(d, context, err));
    snprintf(d->info.description, sizeof d->info.description,
             "%s, %lld classes, %lld images of %lld x %lld to train, %lld to validate", path_tail(o->path, 60),
             (long long)m->about.classes, (long long)d->info.units[DATA_TRAIN], (long long)m->about.height,
             (long long)m->about.width, (long long)d->info.units[DATA_VAL]);
    if (empty > 0)
        snprintf(d->info.note, sizeof d->info.note,
                 "%lld of the %lld classes have no image to train: is a label wrong?", (long long)empty,
                 (long long)m->about.classes);
    return SCION_OK;
}

const data_kind data_kind_idx = {
    .name = "idx",
    .help = "images in the format of MNIST",
    .images = true,
    .detect = detect,
    .state_bytes = sizeof(data_images),
    .open = open_idx,
    .options = data_image_option_rows,
    .options_size = sizeof(data_image_options),
};
