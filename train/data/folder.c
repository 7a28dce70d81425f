/* A folder of images: PATH/train/CLASS/... and PATH/val/CLASS/..., like ImageNet, or PATH/CLASS/... alone; then the
 * last val_fraction of each class, in the order of names, is kept for validation. A class has the name of its
 * folder; its images are the files .png, .jpg and .jpeg in it and in its folders, of any size.
 *
 * Only names are kept in memory. A file is decoded when its sample is asked for (in the background: prefetch.c), and
 * a box of it becomes image_size x image_size pixels: drawn at random in training, the middle in evaluation. */
#define _DEFAULT_SOURCE 1 /* DT_DIR */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/file.h"
#include "base/random.h"
#include "util/utf8.h"
#include "data/images.h"
#include "data/paths.h"
#include "data/image_file.h"
#include "data/resample.h"

enum { colours = 3, default_side = 224, attempts = 16 };

/* Mean and standard deviation of ImageNet's training images, in units of 255; commonly used for other photographs,
 * too. */
static const double usual_mean[colours] = {0.485, 0.456, 0.406}, usual_deviation[colours] = {0.229, 0.224, 0.225};

typedef struct folder_options {
    data_image_options image;
    double crop_min, eval_crop;
    char resample[OPTION_NAME];
} folder_options;

static const option options[] = {
    DATA_IMAGE_ROWS,
    OPTION_REAL_ROW(folder_options, crop_min, "crop_min", "0.08", 0.001, 1,
                    "smallest share of an image that training sees; 1: as in evaluation"),
    OPTION_REAL_ROW(folder_options, eval_crop, "eval_crop", "0.875", 0.01, 1,
                    "evaluation sees the middle square: this share of the shorter side", .change = OPTION_FROM_INIT),
    OPTION_ENUM_ROW(folder_options, resample, "resample", "bilinear", resample_name, "filter that resizes images",
                    .change = OPTION_FROM_INIT),
    OPTION_END,
};

/* Files of a part, class by class; names are relative to the root. */
typedef struct image_list {
    data_names files;
    int32_t *label;
    int64_t labels;
    atomic_uchar *bad; /* cannot be read */
} image_list;

typedef struct folder {
    data_images images;
    image_list files[DATA_PARTS];
    int64_t others, empty; /* other files, folders without images */
    int64_t beside;        /* images outside the folder of a class */
    int64_t unused;        /* folders beside train/ and val/ */
    bool split;            /* there is no val/ */
} folder;

/* ---- Names --------------------------------------------------------------------------------------------- */

static bool is_image(const char *name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return true;
    return false;
}

/* True for a folder; links to folders count if they are followed. */
static bool is_folder(const char *path, const struct dirent *e, bool follow)
{
    struct stat s;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return e->d_type == DT_DIR;
    return (follow ? stat(path, &s) : lstat(path, &s)) == 0 && S_ISDIR(s.st_mode);
}

/* Lists root/inside ("": the root): images go to *images, folders to *folders (NULL: they are entered), with paths
 * relative to the root. *others counts the other files. */
static scion_status list(const char *root, const char *inside, data_names *images, data_names *folders,
                         int64_t *others, scion_error *err)
{
    char at[data_path_bytes];
    scion_status status = SCION_OK;
    if (!data_path(at, "%s/%s", root, inside))
        return data_fail(err, SCION_EINVAL, root, "the path of a folder in it is too long");
    DIR *d = opendir(at);
    if (!d)
        return data_fail(err, SCION_EINVAL, at, "cannot open: %s", strerror(errno));
    for (const struct dirent *e; status == SCION_OK && (e = readdir(d)) != NULL;) {
        char path[data_path_bytes], name[data_path_bytes];
        if (e->d_name[0] == '.')
            continue;
        if (!data_path(path, "%s/%s", at, e->d_name) ||
            !data_path(name, "%s%s%s", inside, inside[0] ? "/" : "", e->d_name))
            status = data_fail(err, SCION_EINVAL, at, "the path of a file in it is too long");
        else if (is_folder(path, e, folders != NULL))
            status = folders ? data_add_name(folders, name, err) : list(root, name, images, NULL, others, err);
        else if (is_image(e->d_name))
            status = data_add_name(images, name, err);
        else
            ++*others;
    }
    closedir(d);
    return status;
}

/* Lists the folders in root/inside, sorted, and counts the images and other files beside them. */
static scion_status list_classes(const char *root, const char *inside, data_names *folders, int64_t *images,
                                 int64_t *others, scion_error *err)
{
    data_names beside = {NULL, 0};
    *others = 0;
    const scion_status status = list(root, inside, &beside, folders, others, err);
    data_sort_names(folders);
    *images = beside.count;
    data_free_names(&beside);
    return status;
}

/* True if root/train is a part, and not a class of that name: it has folders, and no images beside them. An empty
 * train/ beside val/ is a part, too, whose images are missing. */
static bool has_parts(const char *root)
{
    char path[data_path_bytes];
    data_names folders = {NULL, 0};
    int64_t images = 0, others = 0;
    const bool parts = data_path(path, "%s/train", root) && file_is_folder(path) &&
                       list_classes(root, "train", &folders, &images, &others, NULL) == SCION_OK && images == 0 &&
                       (folders.count > 0 || (data_path(path, "%s/val", root) && file_is_folder(path)));
    data_free_names(&folders);
    return parts;
}

/* True if each of the first few folders that has files has images. One such folder among other files may be the
 * figures of a text. */
static bool detect(const char *path)
{
    enum { max_folders = 8 };
    data_names folders = {NULL, 0};
    int64_t beside = 0, others = 0, with_images = 0, with_others = 0;
    bool listed = file_is_folder(path) &&
                  list_classes(path, has_parts(path) ? "train" : "", &folders, &beside, &others, NULL) == SCION_OK;
    for (int64_t i = 0; listed && i < folders.count && i < max_folders; i++) {
        data_names images = {NULL, 0};
        int64_t texts = 0;
        listed = list(path, folders.name[i], &images, NULL, &texts, NULL) == SCION_OK;
        with_images += images.count > 0;
        with_others += images.count == 0 && texts > 0;
        data_free_names(&images);
    }
    data_free_names(&folders);
    return listed && with_others == 0 && with_images > (others > 0);
}

/* ---- Files of the classes ------------------------------------------------------------------------------ */

static scion_status add_file(image_list *l, const char *name, int32_t label, scion_error *err)
{
    int32_t *to = array_append(&l->label, &l->labels, sizeof *to);
    if (!to)
        return train_fail(err, SCION_ENOMEM, "out of memory for the names of images");
    *to = label;
    return data_add_name(&l->files, name, err);
}

/* Name of a class: the last name of its folder. */
static const char *class_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Adds the files of a class to `part`, but the last `share` of them to the validation part. */
static scion_status add_class(data_set *d, const char *inside, data_part part, double share, int32_t label,
                              int64_t *count, scion_error *err)
{
    folder *f = d->state;
    data_names images = {NULL, 0};
    scion_status status = list(d->options.path, inside, &images, NULL, &f->others, err);
    data_sort_names(&images);
    *count = status == SCION_OK ? images.count : 0;
    const int64_t train = images.count - (int64_t)(share * (double)images.count);
    for (int64_t i = 0; status == SCION_OK && i < images.count; i++)
        status = add_file(&f->files[i < train ? part : DATA_VAL], images.name[i], label, err);
    data_free_names(&images);
    return status;
}

static int64_t find_name(const data_image_info *m, const char *name)
{
    for (int64_t i = 0; i < m->classes; i++)
        if (strcmp(m->names[i], name) == 0)
            return i;
    return -1;
}

/* Adds a class to a list with capacity for all. */
static scion_status new_class(data_set *d, const char **to, const char *name, scion_error *err)
{
    data_image_info *m = &((folder *)d->state)->images.about;
    char at[data_path_bytes];
    if (utf8_bytes(name, strlen(name)) < strlen(name) && data_path(at, "%s/%s", d->options.path, name)) /* no JSON */
        return data_fail(err, SCION_EINVAL, at, "the name of this class is not UTF-8: rename the folder");
    char *kept = data_own(d, strlen(name) + 1, err);
    if (!kept)
        return SCION_ENOMEM;
    to[m->classes++] = memcpy(kept, name, strlen(name) + 1);
    return SCION_OK;
}

/* Adds all folders of root/inside. learns: they become the classes; else a folder that is not one of `who`'s classes
 * is refused. */
static scion_status add_part(data_set *d, const char *inside, data_part part, double share, bool learns,
                             const char *who, scion_error *err)
{
    folder *f = d->state;
    data_image_info *m = &f->images.about;
    const char *root = d->options.path;
    data_names folders = {NULL, 0};
    int64_t beside = 0, others = 0, all = 0;
    char at[data_path_bytes];
    scion_status status = list_classes(root, inside, &folders, &beside, &others, err);
    const char **to = status == SCION_OK && learns ? data_own(d, (size_t)folders.count * sizeof *to, err) : NULL;
    if (to)
        m->names = to;
    f->beside += beside;
    f->others += others;
    for (int64_t i = 0; status == SCION_OK && i < folders.count; i++) {
        const char *name = class_of(folders.name[i]);
        const int64_t known = learns ? m->classes : find_name(m, name);
        int64_t count = 0;
        status = add_class(d, folders.name[i], part, share, (int32_t)(known >= 0 ? known : 0), &count, err);
        all += count;
        f->empty += count == 0;
        if (status == SCION_OK && count > 0 && known < 0 && data_path(at, "%s/%s", root, folders.name[i]))
            status = data_fail(err, SCION_EINVAL, at, "images of a class that %s does not have", who);
        if (status == SCION_OK && count > 0 && learns)
            status = to ? new_class(d, to, name, err) : SCION_ENOMEM;
    }
    data_free_names(&folders);
    if (status == SCION_OK && all == 0 && data_path(at, "%s%s%s", root, inside[0] ? "/" : "", inside))
        status =
            data_fail(err, SCION_EINVAL, at, "no folder in it has PNG or JPEG images, expected one for each class");
    return status;
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

static const folder_options *options_of(const data_set *d)
{
    return data_own_options(d);
}

/* Decodes one file to the pixels of a sample, in memory that the caller frees. */
static scion_status view(const data_set *d, data_part part, int64_t index, int64_t number, uint8_t **bytes,
                         scion_error *err)
{
    const folder *f = d->state;
    const data_image_info *about = &f->images.about;
    const double crop_min = options_of(d)->crop_min;
    char path[data_path_bytes];
    image from = {0};
    if (!data_path(path, "%s/%s", d->options.path, f->files[part].files.name[index]))
        return data_fail(err, SCION_EINVAL, f->files[part].files.name[index], "the path is too long");
    scion_status status = image_read(&from, path, err);
    if (status != SCION_OK)
        return status;
    const data_box box = number >= 0 && crop_min < 1
                             ? data_draw_crop(crop_min, d->seed, from.height, from.width, number)
                             : data_middle(about, &from);
    *bytes = malloc((size_t)(about->height * about->width * about->channels));
    status = *bytes ? data_view_image(about, &from, box, *bytes, err)
                    : data_fail(err, SCION_ENOMEM, path, "out of memory for its pixels");
    image_free(&from);
    return status;
}

/* Draws the image that replaces one that cannot be read, at the k-th attempt. */
static int64_t replacement(const data_set *d, data_part part, int64_t sample, int64_t k)
{
    const folder *f = d->state;
    const scn_words random = scn_philox(d->seed, SCN_STREAM_REPLACE, (uint64_t)(sample * attempts + k));
    return (int64_t)(((uint64_t)random.w[0] << 32 | random.w[1]) % (uint64_t)f->files[part].files.count);
}

static scion_status get(const data_set *d, data_part part, int64_t *sample, int64_t number, data_pixels *pixels,
                        void **memory, scion_error *err)
{
    const folder *f = d->state;
    const int64_t channels = f->images.about.channels, row = f->images.about.width * channels;
    scion_error why;
    for (int64_t k = 0; k < attempts; k++) {
        const int64_t index = k == 0 ? *sample : replacement(d, part, *sample, k);
        uint8_t *bytes = NULL;
        const scion_status status = view(d, part, index, number, &bytes, &why);
        if (status == SCION_OK) {
            *sample = index;
            *memory = bytes;
            *pixels = (data_pixels){bytes, 1, row, channels};
            return SCION_OK;
        }
        free(bytes);
        if (status == SCION_ENOMEM)
            return train_fail(err, status, "%s", why.message);
        if (atomic_exchange(&f->files[part].bad[index], 1) == 0)
            data_warn(d, &why);
        if (number < 0) { /* evaluation counts no image twice */
            *sample = -1;
            return SCION_OK;
        }
    }
    return train_fail(err, SCION_EINVAL, "none of %d images can be read; the last: %.180s", attempts, why.message);
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

static int64_t count_folders(const char *root)
{
    data_names folders = {NULL, 0};
    int64_t images, others;
    list_classes(root, "", &folders, &images, &others, NULL);
    const int64_t count = folders.count;
    data_free_names(&folders);
    return count;
}

static scion_status read_names(data_set *d, const data_options *o, bool known, scion_error *err)
{
    folder *f = d->state;
    const data_image_info *m = &f->images.about;
    const bool parts = has_parts(o->path);
    char val[data_path_bytes];
    f->split = !parts || !data_path(val, "%s/val", o->path) || !file_is_folder(val);
    if (parts)
        f->unused = count_folders(o->path) - 1 - !f->split;
    scion_status status =
        add_part(d, parts ? "train" : "", DATA_TRAIN, f->split ? o->val_fraction : 0, !known, "the model", err);
    if (status == SCION_OK && !known && m->classes < 2)
        return data_fail(err, SCION_EINVAL, o->path, "images of one class, %.40s: there is nothing to learn",
                         m->names[0]);
    if (status == SCION_OK && !f->split)
        status = add_part(d, "val", DATA_VAL, 0, false, known ? "the model" : "train/", err);
    return status;
}

/* Gives the lists to the part that all kinds of images share. */
static scion_status take_files(data_set *d, scion_error *err)
{
    folder *f = d->state;
    for (int part = 0; part < DATA_PARTS; part++) {
        image_list *l = &f->files[part];
        l->bad = data_own(d, (size_t)l->files.count * sizeof *l->bad, err);
        if (!l->bad)
            return SCION_ENOMEM;
        d->bad[part] = l->bad;
        d->bad_count[part] = l->files.count;
        for (int64_t i = 0; i < l->files.count; i++)
            data_hash(d, l->files.name[i], strlen(l->files.name[i]) + 1);
        f->images.part[part].labels = l->label;
        f->images.part[part].count = l->files.count;
    }
    return SCION_OK;
}

static void describe(data_set *d)
{
    const folder *f = d->state;
    const data_image_info *m = &f->images.about;
    snprintf(d->info.description, sizeof d->info.description,
             "%s, %lld classes, %lld images to train, %lld to validate, as %lld x %lld",
             path_tail(d->options.path, 60), (long long)m->classes, (long long)d->info.units[DATA_TRAIN],
             (long long)d->info.units[DATA_VAL], (long long)m->height, (long long)m->width);
    if (!d->whole && f->split)
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s, the last %g %% of each class",
                 path_tail(d->options.path, 70), 100 * d->options.val_fraction);
    else if (!d->whole)
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s/val", path_tail(d->options.path, 100));
    const struct {
        int64_t count;
        const char *one, *many;
    } left_out[] = {{f->empty, "folder without images", "folders without images"},
                    {f->beside, "image in no folder of a class", "images in no folder of a class"},
                    {f->others, "other file", "other files"},
                    {f->unused, "folder beside train/ and val/", "folders beside train/ and val/"}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out && at < sizeof d->info.note; i++)
        if (left_out[i].count > 0)
            at += (size_t)snprintf(d->info.note + at, sizeof d->info.note - at, "%s %lld %s",
                                   at ? "," : "left out:", (long long)left_out[i].count,
                                   left_out[i].count == 1 ? left_out[i].one : left_out[i].many);
}

static scion_status open_folder(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    folder *f = d->state = data_own(d, sizeof *f, err);
    const folder_options *own = options_of(d);
    data_image_info known = {
        .channels = colours, .height = default_side, .crop = own->eval_crop, .resample = own->resample};
    scion_status status = SCION_OK;
    if (!f)
        return SCION_ENOMEM;
    if (!o->path[0] && !context->images)
        return train_fail(err, SCION_EINVAL, "no folder of images is given");
    if (context->images)
        TRY(data_images_read(d, context->images, &known, err));
    f->images.about = known;
    f->images.get = get;
    if (o->path[0]) {
        data_image_info *m = &f->images.about;
        m->height = m->width = own->image.image_size > 0 ? own->image.image_size : known.height;
        for (int c = 0; c < colours; c++) {
            m->mean[c] = (float)(255 * usual_mean[c]);
            m->scale[c] = (float)(1 / (255 * usual_deviation[c]));
        }
        TRY(read_names(d, o, context->images != NULL, err));
    }
    TRY(take_files(d, err));
    TRY(data_images_ready(d, context, err));
    d->background = true;
    describe(d);
done:
    return status;
}

static void close_folder(data_set *d)
{
    folder *f = d->state;
    for (int part = 0; f && part < DATA_PARTS; part++) {
        data_free_names(&f->files[part].files);
        free(f->files[part].label);
    }
}

const data_kind data_kind_folder = {
    .name = "folder",
    .help = "a folder of PNG or JPEG images for each class",
    .images = true,
    .default_for_images = true,
    .detect = detect,
    .open = open_folder,
    .close = close_folder,
    .options = options,
    .options_size = sizeof(folder_options),
};
