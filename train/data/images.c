/* See images.h. Pixels are standardised by channel to mean 0 and mean square 1; in training the options change them
 * (augment.h). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/path.h"
#include "data/images.h"
#include "data/paths.h"
#include "data/resample.h"

/* ---- Mean and scale ------------------------------------------------------------------------------------ */

/* Adds n bytes and their squares: integers, so exact in any order; 4096 squares of bytes fit in 32 bits. */
static void add_moments(const uint8_t *x, int64_t n, uint64_t *sum, uint64_t *squares)
{
    enum { run = 4096 };
    for (int64_t i = 0; i < n; i += run) {
        uint32_t s = 0, q = 0;
        for (int64_t k = i; k < n && k < i + run; k++) {
            s += x[k];
            q += (uint32_t)x[k] * x[k];
        }
        *sum += s;
        *squares += q;
    }
}

static void standardise(data_images *m)
{
    data_image_info *about = &m->about;
    const int64_t area = about->height * about->width, count = m->part[DATA_TRAIN].count;
    for (int64_t c = 0; c < about->channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++)
            add_moments(m->part[DATA_TRAIN].pixels + (i * about->channels + c) * area, area, &sum, &squares);
        const double n = (double)count * (double)area, mean = (double)sum / n;
        const double variance = (double)squares / n - mean * mean;
        about->mean[c] = (float)mean;
        about->scale[c] = (float)(variance > 0 ? 1 / sqrt(variance) : 1);
    }
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

void data_place_of(const data_set *d, data_part *part, int64_t *sample)
{
    const data_images *m = d->state;
    if (!d->whole)
        return;
    *part = *sample < m->part[DATA_TRAIN].count ? DATA_TRAIN : DATA_VAL;
    *sample -= *part == DATA_VAL ? m->part[DATA_TRAIN].count : 0;
}

static scion_status get_from_memory(const data_set *d, data_part part, int64_t *sample, int64_t number,
                                    data_pixels *pixels, void **memory, scion_error *err)
{
    const data_images *m = d->state;
    const int64_t area = m->about.height * m->about.width;
    (void)number;
    (void)memory;
    (void)err;
    *pixels = (data_pixels){m->part[part].pixels + *sample * m->about.channels * area, area, m->about.width, 1};
    return SCION_OK;
}

/* Puts an unchanged image, channel by channel, like data_put_image but faster. */
static void put_unchanged(const data_image_info *about, const data_pixels *from, float *to)
{
    const int64_t area = about->height * about->width;
    for (int64_t c = 0; c < about->channels; c++) {
        const uint8_t *restrict x = from->at + c * area;
        float *restrict y = to + c * area;
        const float mean = about->mean[c], scale = about->scale[c];
        for (int64_t k = 0; k < area; k++)
            y[k] = ((float)x[k] - mean) * scale;
    }
}

static bool is_whole(const data_placing *p, const data_image_info *about)
{
    return !p->add && p->weight == 1 && p->box.y0 == 0 && p->box.x0 == 0 && p->box.y1 == about->height &&
           p->box.x1 == about->width;
}

/* Puts an image into a sample; number < 0: unchanged. *sample becomes the image that was used; -1: none. */
static scion_status put(const data_set *d, data_part part, int64_t *sample, int64_t number, int64_t epoch,
                        const data_placing *placing, float *to, scion_error *err)
{
    const data_images *m = d->state;
    const data_image_info *about = &m->about;
    const int64_t height = about->height, width = about->width;
    data_change change = {0};
    data_pixels pixels;
    void *memory = NULL;
    uint8_t *changed = NULL;
    if (number >= 0)
        change = data_draw_change(data_own_options(d), d->seed, height, width, epoch, *sample, number);
    scion_status status;
    TRY(m->get(d, part, sample, number, &pixels, &memory, err));
    if (*sample >= 0 && change.randaugment) {
        changed = malloc((size_t)(2 * height * width * about->channels));
        TRY(changed ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for an image"));
        data_change_bytes(about, &pixels, &change, changed);
    }
    if (*sample < 0)
        memset(to, 0, (size_t)(height * width * about->channels) * sizeof *to);
    else if (!m->channels_last && pixels.column == 1 && is_whole(placing, about) && data_unchanged(&change))
        put_unchanged(about, &pixels, to);
    else
        data_put_image(about, &pixels, &change, d->seed, placing, m->channels_last, to);
done:
    free(changed);
    free(memory);
    return status;
}

/* Writes the targets of a sample that is `weight` of the first class and the rest of the second; -1: ignored. */
static void put_targets(const data_set *d, int32_t first, int32_t second, double weight, void *const arrays[])
{
    int32_t *target = arrays[d->info.targets];
    const int mixed = data_find(&d->info, "target_weights");
    float *weights = mixed >= 0 ? arrays[mixed] : NULL;
    if (target)
        *target = weight >= 0.5 ? first : second;
    for (int64_t k = 0; weights && k < d->info.classes; k++)
        weights[k] = 0;
    if (weights && first >= 0 && second >= 0) {
        weights[first] += (float)weight;
        weights[second] += (float)(1 - weight);
    }
}

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const data_images *m = d->state;
    const int64_t height = m->about.height, width = m->about.width, n = d->info.samples[part];
    const data_box whole = {0, 0, height, width};
    data_mix mix = {.weight = 1};
    data_place_of(d, &part, &sample);
    if (part != DATA_TRAIN || d->whole)
        number = -1;
    if (number >= 0)
        mix = data_draw_mix(data_own_options(d), d->seed, height, width, n, number);
    const bool pastes = mix.box.y1 > mix.box.y0;
    const int64_t epoch = number >= 0 ? number / n : 0;
    const data_placing one = {whole, mix.mixes && !pastes ? (float)mix.weight : 1, false};
    const data_placing other = {pastes ? mix.box : whole, pastes ? 1 : (float)(1 - mix.weight), !pastes};
    scion_status status = SCION_OK;
    float *pixels = arrays[d->info.input];
    if (pixels)
        status = put(d, part, &sample, number, epoch, &one, pixels, err);
    if (pixels && status == SCION_OK && mix.mixes)
        status = put(d, part, &mix.partner, mix.number, epoch, &other, pixels, err);
    const int32_t *labels = m->part[part].labels;
    const int32_t label = sample >= 0 ? labels[sample] : -1;
    put_targets(d, label, mix.mixes ? labels[mix.partner] : label, mix.weight, arrays);
    return status;
}

/* Prefetches an image into the cache: no processor predicts a random order. */
static void hint(const data_set *d, data_part part, int64_t sample)
{
    enum { line = 64 };
    const data_images *m = d->state;
    const int64_t features = m->about.channels * m->about.height * m->about.width;
    data_place_of(d, &part, &sample);
    for (int64_t k = 0; k < features; k += line)
        __builtin_prefetch(m->part[part].pixels + sample * features + k);
}

/* ---- Images of any size -------------------------------------------------------------------------------- */

data_box data_middle(const data_image_info *about, const image *from)
{
    const int64_t shorter = from->width < from->height ? from->width : from->height;
    const int64_t kept = llround(about->crop * (double)shorter), side = kept > 0 ? kept : 1;
    const int64_t y = (from->height - side) / 2, x = (from->width - side) / 2;
    return (data_box){y, x, y + side, x + side};
}

/* Converts to grey with the weights of JPEG; equal colours give that grey. */
static void make_grey(const uint8_t *rgb, int64_t n, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint8_t)((299 * rgb[3 * i] + 587 * rgb[3 * i + 1] + 114 * rgb[3 * i + 2] + 500) / 1000);
}

scion_status data_view_image(const data_image_info *about, const image *from, data_box box, uint8_t *to,
                             scion_error *err)
{
    enum { colours = 3 };
    const int64_t area = about->height * about->width;
    uint8_t *rgb = about->channels == colours ? to : malloc((size_t)area * colours);
    const bool fine = rgb && resample(from, box, about->resample, about->height, about->width, rgb);
    if (fine && about->channels != colours)
        make_grey(rgb, area, to);
    if (rgb != to)
        free(rgb);
    return fine ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for an image");
}

scion_status data_put_file(const data_set *d, const char *path, void *array, scion_error *err)
{
    const data_images *m = d->state;
    const data_image_info *about = d->info.image;
    if (!about || (about->channels != 1 && about->channels != 3))
        return data_fail(err, SCION_EINVAL, path, "an image, but the model learned from other data");
    const int64_t channels = about->channels, height = about->height, width = about->width;
    uint8_t *bytes = malloc((size_t)(height * width * channels));
    image from = {0};
    const data_pixels pixels = {bytes, 1, width * channels, channels};
    const data_placing whole = {{0, 0, height, width}, 1, false};
    scion_status status = SCION_OK;
    if (!bytes)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    TRY(image_read(&from, path, err));
    TRY(data_view_image(about, &from, data_middle(about, &from), bytes, err));
    data_put_image(about, &pixels, &(data_change){0}, d->seed, &whole, m->channels_last, array);
done:
    image_free(&from);
    free(bytes);
    return status;
}

/* ---- Description --------------------------------------------------------------------------------------- */

static json_t *floats(const float *x, int64_t n)
{
    json_t *all = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(all, json_real((double)x[i]));
    return all;
}

/* Writes {"size": [height, width, channels], "mean": [...], "scale": [...], "classes": ["cat", ...], "crop": 0.875,
 * "resample": "bicubic"}; the last two unless they are 1 and bilinear. */
static scion_status describe(data_set *d, scion_error *err)
{
    const data_image_info *m = d->info.image;
    json_t *names = json_array();
    int failed = 0;
    for (int64_t i = 0; i < m->classes; i++)
        failed |= json_array_append_new(names, json_string(m->names[i]));
    json_t *all =
        json_pack("{s:[I,I,I],s:o,s:o,s:o,s:o*,s:s*}", "size", (json_int_t)m->height, (json_int_t)m->width,
                  (json_int_t)m->channels, "mean", floats(m->mean, m->channels), "scale",
                  floats(m->scale, m->channels), "classes", names, "crop", m->crop != 1 ? json_real(m->crop) : NULL,
                  "resample", m->resample != 0 ? resample_names[m->resample] : NULL);
    char *text = all && !failed ? json_dumps(all, JSON_COMPACT) : NULL;
    d->info.images = text ? data_own_text(d, text, err) : NULL;
    free(text);
    json_decref(all);
    return d->info.images ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the data");
}

/* Reads an array of n numbers. */
static bool read_floats(const json_t *all, float *x, int64_t n)
{
    bool fine = (int64_t)json_array_size(all) == n;
    for (int64_t i = 0; fine && i < n; i++) {
        const json_t *value = json_array_get(all, (size_t)i);
        x[i] = (float)json_number_value(value);
        fine = json_is_number(value) && isfinite(x[i]);
    }
    return fine;
}

static bool read_names(data_set *d, const json_t *all, data_image_info *m, scion_error *err)
{
    m->classes = (int64_t)json_array_size(all);
    const char **names = data_own(d, (size_t)m->classes * sizeof *names, err);
    bool fine = names && m->classes > 0;
    m->names = names;
    for (int64_t i = 0; fine && i < m->classes; i++) {
        const char *name = json_string_value(json_array_get(all, (size_t)i));
        names[i] = name ? data_own_text(d, name, err) : NULL;
        fine = names[i] != NULL;
    }
    return fine;
}

scion_status data_images_read(data_set *d, const char *text, data_image_info *m, scion_error *err)
{
    json_t *all = json_loads(text, 0, NULL), *mean, *scale, *names;
    json_int_t height, width, channels;
    const char *filter = resample_names[0];
    *m = (data_image_info){.crop = 1};
    bool fine =
        all && json_unpack(all, "{s:[I,I,I],s:o,s:o,s:o,s?F,s?s}", "size", &height, &width, &channels, "mean", &mean,
                           "scale", &scale, "classes", &names, "crop", &m->crop, "resample", &filter) == 0;
    while (fine && resample_names[m->resample] && strcmp(resample_names[m->resample], filter) != 0)
        m->resample++;
    fine = fine && resample_names[m->resample] && m->crop > 0 && m->crop <= 1 && height > 0 && height <= INT32_MAX &&
           width > 0 && width <= INT32_MAX && channels > 0 && channels <= DATA_CHANNELS;
    if (fine) {
        m->height = height;
        m->width = width;
        m->channels = channels;
        fine = read_floats(mean, m->mean, channels) && read_floats(scale, m->scale, channels) &&
               read_names(d, names, m, err);
    }
    json_decref(all);
    return fine ? SCION_OK : train_fail(err, SCION_ESTATE, "the description of the model's images cannot be read");
}

/* Takes mean, scale and classes from the images that a model learned from. */
static scion_status adopt(data_set *d, data_image_info *m, const char *text, scion_error *err)
{
    data_image_info from;
    RETURN_IF_FAILED(data_images_read(d, text, &from, err));
    if (m->height != from.height || m->width != from.width || m->channels != from.channels)
        return data_fail(err, SCION_EINVAL, d->options.path,
                         "%lld x %lld pixels, %lld channels, but the model learned from %lld x %lld, %lld",
                         (long long)m->height, (long long)m->width, (long long)m->channels, (long long)from.height,
                         (long long)from.width, (long long)from.channels);
    if (m->classes > from.classes)
        return data_fail(err, SCION_EINVAL, d->options.path, "labels up to %lld, but the model knows %lld classes",
                         (long long)m->classes - 1, (long long)from.classes);
    *m = from;
    return SCION_OK;
}

/* Names the classes by their numbers, unless the kind has names. */
static scion_status name_classes(data_set *d, data_image_info *m, scion_error *err)
{
    if (m->names)
        return SCION_OK;
    const char **names = data_own(d, (size_t)m->classes * sizeof *names, err);
    for (int64_t i = 0; names && i < m->classes; i++) {
        char number[12];
        snprintf(number, sizeof number, "%d", (int)i);
        names[i] = data_own_text(d, number, err);
        if (!names[i])
            return SCION_ENOMEM;
    }
    m->names = names;
    return names ? SCION_OK : SCION_ENOMEM;
}

/* Refuses options that images of this size do not allow. */
static scion_status check_options(const data_set *d, const data_image_info *m, scion_error *err)
{
    const data_image_options *o = data_own_options(d);
    const int64_t side = m->height < m->width ? m->height : m->width;
    if (o->image_size > 0 && (m->height != o->image_size || m->width != o->image_size))
        return train_fail(
            err, SCION_EINVAL,
            "image_size is %lld, but these images have %lld x %lld pixels: image_size=0 takes them as they are",
            (long long)o->image_size, (long long)m->height, (long long)m->width);
    if (o->translate >= side || o->cutout > side)
        return train_fail(err, SCION_EINVAL, "%s is %lld, but the images have %lld x %lld pixels",
                          o->translate >= side ? "translate" : "cutout",
                          (long long)(o->translate >= side ? o->translate : o->cutout), (long long)m->height,
                          (long long)m->width);
    if (o->erase > 0 && m->height * m->width > DATA_ERASE_PIXELS)
        return train_fail(err, SCION_EINVAL, "erase is for images of up to %lld pixels, these have %lld x %lld",
                          (long long)DATA_ERASE_PIXELS, (long long)m->height, (long long)m->width);
    return SCION_OK;
}

static void add_arrays(data_set *d, const data_images *m)
{
    const data_image_info *a = &m->about;
    const data_image_options *o = data_own_options(d);
    const int64_t first[] = {a->channels, a->height, a->width}, last[] = {a->height, a->width, a->channels};
    data_add_array(d, m->channels_last ? "image" : "pixels", DATA_FLOAT32, 3, m->channels_last ? last : first, 0);
    data_add_array(d, "targets", DATA_INT32, 0, NULL, a->classes);
    if (o->mixup > 0 || o->cutmix > 0)
        data_add_array(d, "target_weights", DATA_FLOAT32, 1, &a->classes, 0);
}

static void hash_images(data_set *d, const data_images *m)
{
    const int64_t features = m->about.channels * m->about.height * m->about.width;
    for (int part = 0; part < DATA_PARTS; part++) {
        if (m->part[part].pixels)
            data_hash(d, m->part[part].pixels, (size_t)(m->part[part].count * features));
        data_hash(d, m->part[part].labels, (size_t)m->part[part].count * sizeof *m->part[part].labels);
    }
}

scion_status data_images_ready(data_set *d, const data_context *context, scion_error *err)
{
    data_images *m = d->state;
    m->channels_last = context->wants && data_content_of(context->wants[0])->channels_last;
    m->about.crop = m->about.crop > 0 ? m->about.crop : 1;
    if (!m->get) {
        m->get = get_from_memory;
        d->hint = hint;
        standardise(m);
    }
    RETURN_IF_FAILED(check_options(d, &m->about, err));
    if (context->images)
        RETURN_IF_FAILED(adopt(d, &m->about, context->images, err));
    RETURN_IF_FAILED(name_classes(d, &m->about, err));
    d->info.image = &m->about;
    d->info.classes = m->about.classes;
    RETURN_IF_FAILED(describe(d, err));
    add_arrays(d, m);
    hash_images(d, m);
    d->info.sample_units = 1;
    for (int part = 0; part < DATA_PARTS; part++)
        d->info.units[d->whole ? DATA_VAL : part] += m->part[part].count;
    for (int part = 0; part < DATA_PARTS; part++)
        d->info.samples[part] = d->info.units[part];
    snprintf(d->info.held_out, sizeof d->info.held_out, "%s, %s images",
             d->options.path[0] ? path_tail(d->options.path, 90) : d->kind->name, d->whole ? "all" : "the test");
    d->fetch = fetch;
    d->order = DATA_SHUFFLED;
    return SCION_OK;
}
