/* A folder of images: PATH/train/CLASS/... and PATH/val/CLASS/..., like ImageNet, or PATH/CLASS/... alone; then the
 * last val_fraction of each class, in the order of names, is kept for validation. A class has the name of its
 * folder; its images are the files .png, .jpg and .jpeg in it and in its folders, of any size.
 *
 * Only names are kept in memory. A file is decoded when its sample is asked for (in the background: prefetch.c), and
 * a box of it becomes image_size x image_size pixels: drawn at random in training, the middle in evaluation. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int resample;
} folder_options;

static const option options[] = {
    DATA_IMAGE_ROWS,
    OPTION_REAL_ROW(folder_options, crop_min, "crop_min", "0.08", 0.001, 1,
                    "smallest share of an image that training sees; 1: as in evaluation"),
    OPTION_REAL_ROW(folder_options, eval_crop, "eval_crop", "0.875", 0.01, 1,
                    "evaluation sees the middle square: this share of the shorter side", .change = OPTION_FROM_INIT),
    OPTION_CHOICE_ROW(folder_options, resample, "resample", "bilinear", resample_names, "filter that resizes images",
                      .change = OPTION_FROM_INIT),
    OPTION_END,
};

typedef struct folder {
    data_images images;
    data_names files[DATA_PARTS]; /* class by class; paths are relative to the root */
    int64_t others, empty;        /* other files, folders without images */
    int64_t beside;               /* images outside the folder of a class */
    int64_t unread;               /* images in formats that are not read, */
    const char *unread_end;       /* and the end of the name of one */
    int64_t unused;               /* folders beside train/ and val/ */
    bool split;                   /* there is no val/ */
} folder;

/* ---- Names --------------------------------------------------------------------------------------------- */

/* Content of a folder, sorted; paths are relative to the root. */
typedef struct listing {
    data_names images, folders;
    int64_t others;  /* other files */
    int64_t unread;  /* images in formats that are not read, */
    const char *end; /* and the end of the name of one */
} listing;

static void free_listing(listing *l)
{
    data_free_names(&l->images);
    data_free_names(&l->folders);
}

/* Lists root/inside ("": the root). classes: the folders in it are listed, and not entered. Free *l in any case. */
static scion_status list(listing *l, const char *root, const char *inside, bool classes, scion_error *err)
{
    data_names files = {NULL, 0};
    const char *end = NULL;
    *l = (listing){.others = 0};
    scion_status status = data_list(root, inside, NULL, &files, classes ? &l->folders : NULL, err);
    for (int64_t i = 0; status == SCION_OK && i < files.count; i++)
        switch (data_kind_of_file(files.name[i], &end)) {
        case DATA_IMAGE: status = data_add_name(&l->images, files.name[i], err); break;
        case DATA_OTHER_IMAGE:
            l->unread++;
            l->end = end;
            break;
        default: l->others++;
        }
    data_free_names(&files);
    data_sort_names(&l->images);
    data_sort_names(&l->folders);
    return status;
}

static bool has_folder(const char *root, const char *name)
{
    char path[data_path_bytes];
    return data_path(path, "%s/%s", root, name) && file_is_folder(path);
}

/* True if root/train is a part, and not a class of that name: it has folders, and no images beside them. An empty
 * train/ beside val/ is a part, too, whose images are missing. */
static bool has_parts(const char *root)
{
    listing l = {.others = 0};
    const bool parts = has_folder(root, "train") && list(&l, root, "train", true, NULL) == SCION_OK &&
                       l.images.count == 0 && (l.folders.count > 0 || has_folder(root, "val"));
    free_listing(&l);
    return parts;
}

/* True if each of the first few folders that has files has images. One such folder among other files may be the
 * figures of a text. */
static bool detect(const char *path)
{
    enum { max_folders = 8 };
    listing all = {.others = 0};
    int64_t with_images = 0, with_others = 0;
    bool listed = file_is_folder(path) && list(&all, path, has_parts(path) ? "train" : "", true, NULL) == SCION_OK;
    for (int64_t i = 0; listed && i < all.folders.count && i < max_folders; i++) {
        listing l;
        listed = list(&l, path, all.folders.name[i], false, NULL) == SCION_OK;
        with_images += l.images.count + l.unread > 0;
        with_others += l.images.count + l.unread == 0 && l.others > 0;
        free_listing(&l);
    }
    const bool mixed = all.others > 0;
    free_listing(&all);
    return listed && with_others == 0 && with_images > mixed;
}

/* ---- Files of the classes ------------------------------------------------------------------------------ */

static scion_status add_file(folder *f, data_part part, const char *name, int32_t label, scion_error *err)
{
    data_image_part *p = &f->images.part[part];
    int32_t *to = array_append(&p->labels, &p->count, sizeof *to);
    if (!to)
        return train_fail(err, SCION_ENOMEM, "out of memory for the names of images");
    *to = label;
    return data_add_name(&f->files[part], name, err);
}

/* Counts files of a listing that are left out. */
static void count_others(folder *f, const listing *l)
{
    f->others += l->others;
    f->unread += l->unread;
    f->unread_end = l->end ? l->end : f->unread_end;
}

/* Name of a class: the last name of its folder. */
static const char *class_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Adds the files of a class to `part`, but the last `share` of them to the validation part. */
static scion_status add_class(data_set *d, const char *inside, data_part part, double share, int64_t label,
                              int64_t *count, scion_error *err)
{
    folder *f = d->state;
    listing l;
    scion_status status = list(&l, d->options.path, inside, false, err);
    const int64_t train = l.images.count - (int64_t)(share * (double)l.images.count);
    for (int64_t i = 0; status == SCION_OK && i < l.images.count; i++)
        status = add_file(f, i < train ? part : DATA_VAL, l.images.name[i], (int32_t)label, err);
    *count = l.images.count;
    count_others(f, &l);
    free_listing(&l);
    return status;
}

static int64_t find_name(const data_image_info *m, const char *name)
{
    for (int64_t i = 0; i < m->classes; i++)
        if (strcmp(m->names[i], name) == 0)
            return i;
    return -1;
}

/* Adds all folders of root/inside. learns: they become the classes; else a folder that is not one of `who`'s classes
 * is refused. */
static scion_status add_part(data_set *d, const char *inside, data_part part, double share, bool learns,
                             const char *who, scion_error *err)
{
    folder *f = d->state;
    data_image_info *m = &f->images.about;
    const char *root = d->options.path, **names = NULL;
    listing l;
    char at[data_path_bytes];
    int64_t all = 0;
    scion_status status;
    TRY(list(&l, root, inside, true, err));
    if (learns) {
        m->names = names = data_own(d, (size_t)l.folders.count * sizeof *names, err);
        TRY(names ? SCION_OK : SCION_ENOMEM);
    }
    f->beside += l.images.count;
    count_others(f, &l);
    for (int64_t i = 0; i < l.folders.count; i++) {
        const char *name = class_of(l.folders.name[i]);
        const int64_t label = learns ? m->classes : find_name(m, name);
        int64_t count;
        TRY(add_class(d, l.folders.name[i], part, share, label, &count, err));
        all += count;
        f->empty += count == 0;
        data_path(at, "%s/%s", root, l.folders.name[i]);
        if (count > 0 && label < 0)
            TRY(data_fail(err, SCION_EINVAL, at, "images of a class that %s does not have", who));
        if (count > 0 && learns && utf8_bytes(name, strlen(name)) < strlen(name)) /* no JSON */
            TRY(data_fail(err, SCION_EINVAL, at, "the name of this class is not UTF-8: rename the folder"));
        if (count > 0 && learns) {
            names[m->classes] = data_own_text(d, name, err);
            TRY(names[m->classes++] ? SCION_OK : SCION_ENOMEM);
        }
    }
    data_path(at, "%s%s%s", root, inside[0] ? "/" : "", inside);
    if (all == 0 && f->unread > 0)
        TRY(data_fail(err, SCION_EINVAL, at,
                      "its images are %s, not PNG or JPEG: mogrify -format png FILE ... converts them",
                      f->unread_end));
    if (all == 0)
        TRY(data_fail(err, SCION_EINVAL, at, "no folder in it has PNG or JPEG images, expected one for each class"));
done:
    free_listing(&l);
    return status;
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

/* Decodes one file to the pixels of a sample, in memory that the caller frees. */
static scion_status view(const data_set *d, data_part part, int64_t index, int64_t number, uint8_t **bytes,
                         scion_error *err)
{
    const folder *f = d->state;
    const data_image_info *about = &f->images.about;
    const double crop_min = ((const folder_options *)data_own_options(d))->crop_min;
    char path[data_path_bytes];
    image from = {0};
    if (!data_path(path, "%s/%s", d->options.path, f->files[part].name[index]))
        return data_fail(err, SCION_EINVAL, f->files[part].name[index], "the path is too long");
    RETURN_IF_FAILED(image_read(&from, path, err));
    const data_box box = number >= 0 && crop_min < 1
                             ? data_draw_crop(crop_min, d->seed, from.height, from.width, number)
                             : data_middle(about, &from);
    *bytes = malloc((size_t)(about->height * about->width * about->channels));
    const scion_status status = *bytes ? data_view_image(about, &from, box, *bytes, err)
                                       : data_fail(err, SCION_ENOMEM, path, "out of memory for its pixels");
    image_free(&from);
    return status;
}

/* Draws the image that replaces one that cannot be read, at the k-th attempt. */
static int64_t replacement(const data_set *d, data_part part, int64_t sample, int64_t k)
{
    const folder *f = d->state;
    const scn_words random = scn_philox(d->seed, SCN_STREAM_REPLACE, (uint64_t)(sample * attempts + k));
    return (int64_t)(((uint64_t)random.w[0] << 32 | random.w[1]) % (uint64_t)f->files[part].count);
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
        if (status == DATA_EPASSING)
            return train_fail(err, status, "%s", why.message);
        if (atomic_exchange(&d->bad[part][index], 1) == 0)
            data_warn(d, &why);
        if (number < 0) { /* evaluation counts no image twice */
            *sample = -1;
            return SCION_OK;
        }
    }
    return train_fail(err, SCION_EINVAL, "none of %d images can be read; the last: %.180s", attempts, why.message);
}

static const char *file_of(const data_set *d, data_part part, int64_t sample)
{
    const folder *f = d->state;
    data_place_of(d, &part, &sample);
    return f->files[part].name[sample];
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

static scion_status read_names(data_set *d, const data_options *o, bool known, scion_error *err)
{
    folder *f = d->state;
    const data_image_info *m = &f->images.about;
    const bool parts = has_parts(o->path);
    listing l = {.others = 0};
    f->split = !parts || !has_folder(o->path, "val");
    if (parts && list(&l, o->path, "", true, NULL) == SCION_OK)
        f->unused = l.folders.count - 1 - !f->split;
    free_listing(&l);
    RETURN_IF_FAILED(
        add_part(d, parts ? "train" : "", DATA_TRAIN, f->split ? o->val_fraction : 0, !known, "the model", err));
    if (!known && m->classes < 2)
        return data_fail(err, SCION_EINVAL, o->path, "all images are of one class, %.40s: there is nothing to learn",
                         m->names[0]);
    if (!f->split)
        RETURN_IF_FAILED(add_part(d, "val", DATA_VAL, 0, false, known ? "the model" : "train/", err));
    return SCION_OK;
}

/* Hashes the names of the files, and allocates their marks. */
static scion_status take_files(data_set *d, scion_error *err)
{
    const folder *f = d->state;
    for (int part = 0; part < DATA_PARTS; part++) {
        const data_names *files = &f->files[part];
        d->bad[part] = data_own(d, (size_t)files->count * sizeof *d->bad[part], err);
        if (!d->bad[part])
            return SCION_ENOMEM;
        d->bad_count[part] = files->count;
        for (int64_t i = 0; i < files->count; i++)
            data_hash(d, files->name[i], strlen(files->name[i]) + 1);
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
    if (f->unread > 0)
        utf8_append(
            d->info.note, sizeof d->info.note,
            "left out: %lld image%s in formats that are not read (%s, say; mogrify -format png FILE ... converts)",
            (long long)f->unread, f->unread == 1 ? "" : "s", f->unread_end);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (left_out[i].count > 0)
            utf8_append(d->info.note, sizeof d->info.note, "%s %lld %s",
                        d->info.note[0] ? "," : "left out:", (long long)left_out[i].count,
                        left_out[i].count == 1 ? left_out[i].one : left_out[i].many);
}

static scion_status open_folder(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    folder *f = d->state;
    const folder_options *own = data_own_options(d);
    data_image_info known = {
        .channels = colours, .height = default_side, .crop = own->eval_crop, .resample = own->resample};
    if (context->images)
        RETURN_IF_FAILED(data_images_read(d, context->images, &known, err));
    f->images.about = known;
    f->images.get = get;
    if (o->path[0]) {
        data_image_info *m = &f->images.about;
        m->height = m->width = own->image.image_size > 0 ? own->image.image_size : known.height;
        for (int c = 0; c < colours; c++) {
            m->mean[c] = (float)(255 * usual_mean[c]);
            m->scale[c] = (float)(1 / (255 * usual_deviation[c]));
        }
        RETURN_IF_FAILED(read_names(d, o, context->images != NULL, err));
    }
    RETURN_IF_FAILED(take_files(d, err));
    RETURN_IF_FAILED(data_images_ready(d, context, err));
    d->file = file_of;
    d->background = true;
    d->decode_bytes = IMAGE_MEMORY;
    describe(d);
    return SCION_OK;
}

static void close_folder(data_set *d)
{
    folder *f = d->state;
    for (int part = 0; part < DATA_PARTS; part++) {
        data_free_names(&f->files[part]);
        free(f->images.part[part].labels);
    }
}

const data_kind data_kind_folder = {
    .name = "folder",
    .help = "a folder of PNG or JPEG images for each class",
    .images = true,
    .default_for_images = true,
    .detect = detect,
    .state_bytes = sizeof(folder),
    .open = open_folder,
    .close = close_folder,
    .options = options,
    .options_size = sizeof(folder_options),
};
