/* See mistakes.h. Pairs of classes are listed, not put into a matrix: of a thousand classes most pairs never occur,
 * and of twenty thousand the matrix would be larger than the model. */
#include "record/mistakes.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"
#include "util/atomic_file.h"
#include "util/base64.h"
#include "util/fail.h"
#include "util/path.h"

static const char format[] = "scion-mistakes-1";

/* ---- Collecting -------------------------------------------------------------------------------------------- */

void mistakes_free(mistakes *m)
{
    if (!m)
        return;
    for (int64_t i = 0; m->classes && i < m->class_count; i++)
        free(m->classes[i].name);
    for (int i = 0; i < MISTAKES_WORST; i++)
        free(m->worst[i].pixels);
    free(m->classes);
    free(m->pairs);
    free(m);
}

/* Every how many pixels of an image one is kept. */
static int64_t shrinking(const data_image_info *image)
{
    const int64_t side = image->height > image->width ? image->height : image->width;
    return (side + MISTAKES_SIDE - 1) / MISTAKES_SIDE;
}

/* At least 1: an image of 1 x 1000 pixels is kept, too. */
static int64_t kept_side(int64_t side, int64_t factor)
{
    return side / factor > 0 ? side / factor : 1;
}

scion_status mistakes_create(mistakes **out, const data_info *d, scion_error *err)
{
    const data_image_info *image = d->image;
    mistakes *m = calloc(1, sizeof *m);
    bool fine = m != NULL;
    *out = NULL;
    if (m) {
        m->class_count = image->classes;
        m->height = kept_side(image->height, shrinking(image));
        m->width = kept_side(image->width, shrinking(image));
        m->channels = image->channels < 3 ? 1 : 3;
        m->classes = calloc((size_t)image->classes, sizeof *m->classes);
        fine = m->classes != NULL;
    }
    for (int64_t i = 0; fine && i < image->classes; i++)
        fine = (m->classes[i].name = strdup(image->names[i])) != NULL;
    for (int i = 0; fine && i < MISTAKES_WORST; i++)
        fine = (m->worst[i].pixels = malloc((size_t)(m->height * m->width * m->channels))) != NULL;
    if (!fine) {
        mistakes_free(m);
        return train_fail(err, SCION_ENOMEM, "out of memory for the mistakes of %lld classes",
                          (long long)image->classes);
    }
    *out = m;
    return SCION_OK;
}

/* The pixel of a channel, as a byte again. */
static double byte_at(const data_info *d, const float *pixels, int64_t y, int64_t x, int64_t c)
{
    const data_image_info *image = d->image;
    const int64_t at = d->arrays[d->input].channels_last ? (y * image->width + x) * image->channels + c
                                                         : (c * image->height + y) * image->width + x;
    return (double)pixels[at] / (double)image->scale[c] + (double)image->mean[c];
}

/* An image as bytes; larger ones as means of squares of pixels. */
static void keep_pixels(const mistakes *m, const data_info *d, const float *pixels, uint8_t *to)
{
    const int64_t k = shrinking(d->image);
    for (int64_t i = 0; i < m->height * m->width * m->channels; i++) {
        const int64_t c = i % m->channels, x = i / m->channels % m->width, y = i / m->channels / m->width;
        double sum = 0, count = 0;
        for (int64_t v = y * k; v < (y + 1) * k && v < d->image->height; v++)
            for (int64_t u = x * k; u < (x + 1) * k && u < d->image->width; u++, count++)
                sum += byte_at(d, pixels, v, u, c);
        to[i] = (uint8_t)fmin(fmax(round(sum / count), 0), 255);
    }
}

/* The place of an image among the worst ones, which move down for it; -1: it is not among them. Of equals the first
 * sample is in front. */
static int make_place(mistakes *m, double loss, int64_t sample)
{
    int at = m->worst_count;
    while (at > 0 &&
           (m->worst[at - 1].loss < loss || (m->worst[at - 1].loss == loss && m->worst[at - 1].sample > sample)))
        at--;
    if (at == MISTAKES_WORST)
        return -1;
    const int last = m->worst_count < MISTAKES_WORST ? m->worst_count++ : MISTAKES_WORST - 1;
    uint8_t *pixels = m->worst[last].pixels; /* of the one that leaves, or not used yet */
    memmove(m->worst + at + 1, m->worst + at, (size_t)(last - at) * sizeof *m->worst);
    m->worst[at].pixels = pixels;
    return at;
}

/* The first of the largest. */
static int64_t likeliest(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        best = logits[k] > logits[best] ? k : best;
    return best;
}

bool mistakes_add(mistakes *m, const data_info *d, int64_t sample, int32_t target, const float *logits,
                  const float *pixels)
{
    const int64_t answer = likeliest(logits, m->class_count);
    const double top = (double)logits[answer];
    double sum = 0;
    m->classes[target].images++;
    if (answer == target) {
        m->classes[target].right++;
        return true;
    }
    mistakes_pair *pair = array_append(&m->pairs, &m->pair_count, sizeof *pair);
    if (!pair)
        return false;
    *pair = (mistakes_pair){target, answer, 1};
    for (int64_t k = 0; k < m->class_count; k++)
        sum += exp((double)logits[k] - top);
    const double loss = log(sum) + top - (double)logits[target];
    const int at = make_place(m, loss, sample);
    if (at >= 0) {
        mistakes_image *w = &m->worst[at];
        *w = (mistakes_image){sample, target, answer, loss, 1 / sum, w->pixels};
        keep_pixels(m, d, pixels, w->pixels);
    }
    return true;
}

static size_t pixel_bytes(const mistakes *m)
{
    return (size_t)(m->height * m->width * m->channels);
}

/* ---- Its order ---- */

static int by_classes(const void *a, const void *b)
{
    const mistakes_pair *x = a, *y = b;
    return x->target != y->target ? (x->target > y->target) - (x->target < y->target)
                                  : (x->answer > y->answer) - (x->answer < y->answer);
}

static int by_images(const void *a, const void *b)
{
    const mistakes_pair *x = a, *y = b;
    return x->images != y->images ? (x->images < y->images) - (x->images > y->images) : by_classes(a, b);
}

void mistakes_end(mistakes *m)
{
    int64_t kept = 0;
    if (m->pair_count == 0)
        return;
    qsort(m->pairs, (size_t)m->pair_count, sizeof *m->pairs, by_classes);
    for (int64_t i = 0; i < m->pair_count; i++)
        if (kept > 0 && by_classes(&m->pairs[kept - 1], &m->pairs[i]) == 0)
            m->pairs[kept - 1].images += m->pairs[i].images;
        else
            m->pairs[kept++] = m->pairs[i];
    qsort(m->pairs, (size_t)kept, sizeof *m->pairs, by_images);
    m->pairs_found = kept;
    m->pair_count = kept < MISTAKES_PAIRS ? kept : MISTAKES_PAIRS;
}

int64_t mistakes_measured(const mistakes *m)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < m->class_count; i++)
        sum += m->classes[i].images;
    return sum;
}

int64_t mistakes_right(const mistakes *m)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < m->class_count; i++)
        sum += m->classes[i].right;
    return sum;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

/* A text; what is not UTF-8 becomes "?". */
static json_t *text_of(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string("?");
}

/* The bytes of an image; NULL: out of memory. */
static json_t *pixels_of(const uint8_t *pixels, size_t n)
{
    char *text = malloc(base64_length(n) + 1);
    if (text)
        base64_encode(pixels, n, text);
    json_t *string = text ? json_string(text) : NULL;
    free(text);
    return string;
}

json_t *mistakes_json(const mistakes *m, bool pixels)
{
    json_t *classes = json_array(), *pairs = json_array(), *worst = json_array();
    const size_t bytes = pixel_bytes(m);
    int failed = 0; /* json_pack is NULL where memory ran out, and appending that fails */
    for (int64_t i = 0; i < m->class_count; i++)
        failed |= json_array_append_new(classes, json_pack("{s:o,s:I,s:I}", "name", text_of(m->classes[i].name),
                                                           "images", (json_int_t)m->classes[i].images, "right",
                                                           (json_int_t)m->classes[i].right));
    for (int64_t i = 0; i < m->pair_count; i++)
        failed |=
            json_array_append_new(pairs, json_pack("[I,I,I]", (json_int_t)m->pairs[i].target,
                                                   (json_int_t)m->pairs[i].answer, (json_int_t)m->pairs[i].images));
    for (int i = 0; i < m->worst_count; i++) {
        const mistakes_image *w = &m->worst[i];
        json_t *image =
            json_pack("{s:I,s:I,s:I,s:f,s:f}", "sample", (json_int_t)w->sample, "class", (json_int_t)w->target,
                      "answer", (json_int_t)w->answer, "loss", w->loss, "probability", w->probability);
        if (pixels)
            failed |= json_object_set_new(image, "pixels", pixels_of(w->pixels, bytes));
        failed |= json_array_append_new(worst, image);
    }
    json_t *all = json_pack("{s:s,s:I,s:s,s:o,s:o,s:I,s:o,s:[I,I,I],s:o}", "format", format, "step",
                            (json_int_t)m->step, "tta", m->tta, "part", text_of(m->part), "classes", classes, "pairs",
                            (json_int_t)m->pairs_found, "confusion", pairs, "size", (json_int_t)m->height,
                            (json_int_t)m->width, (json_int_t)m->channels, "worst", worst);
    if (failed) {
        json_decref(all);
        return NULL;
    }
    return all;
}

scion_status mistakes_save(const mistakes *m, int folder, const char *path, scion_error *err)
{
    json_t *all = mistakes_json(m, true);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    atomic_file file;
    scion_status status = text ? atomic_begin_in(&file, folder, path, err)
                               : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    if (status == SCION_OK)
        status = atomic_write(&file, text, strlen(text), err);
    if (status == SCION_OK)
        status = atomic_write(&file, "\n", 1, err);
    if (status == SCION_OK)
        status = atomic_commit(&file, err);
    free(text);
    json_decref(all);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------------
 * Each part says by its result whether it is as a writer would have it; the caller has the sentence. */

/* Bytes of a file, and classes, that are read at all. */
enum { largest_file = 1 << 26, most_classes = 1 << 20 };
static const int64_t largest_count = (int64_t)1 << 40;

/* A whole number from `least` to `most`. */
static bool get_whole(const json_t *value, int64_t least, int64_t most, int64_t *to)
{
    *to = json_integer_value(value);
    return json_is_integer(value) && *to >= least && *to <= most;
}

static bool get_real(const json_t *value, double least, double most, double *to)
{
    *to = json_number_value(value);
    return json_is_number(value) && *to >= least && *to <= most;
}

static bool get_classes(mistakes *m, const json_t *list)
{
    const size_t count = json_array_size(list);
    if (count < 1 || count > most_classes || !(m->classes = calloc(count, sizeof *m->classes)))
        return false;
    m->class_count = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        mistakes_class *k = &m->classes[i];
        if (!name || !(k->name = strdup(name)) ||
            !get_whole(json_object_get(one, "images"), 0, largest_count, &k->images) ||
            !get_whole(json_object_get(one, "right"), 0, k->images, &k->right))
            return false;
    }
    return true;
}

/* The pairs are in order and each once; of a class no more images are wrong than it has, and exactly as many if all
 * pairs are here. */
static bool get_pairs(mistakes *m, const json_t *list, const json_t *found)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > MISTAKES_PAIRS || !(m->pairs = calloc(count + 1, sizeof *m->pairs)) ||
        !get_whole(found, (int64_t)count, largest_count, &m->pairs_found))
        return false;
    int64_t *left = calloc((size_t)m->class_count, sizeof *left);
    bool fine = left != NULL;
    for (int64_t i = 0; fine && i < m->class_count; i++)
        left[i] = m->classes[i].images - m->classes[i].right;
    for (size_t i = 0; fine && i < count; i++) {
        const json_t *one = json_array_get(list, i);
        mistakes_pair *p = &m->pairs[i];
        fine = json_array_size(one) == 3 && get_whole(json_array_get(one, 0), 0, m->class_count - 1, &p->target) &&
               get_whole(json_array_get(one, 1), 0, m->class_count - 1, &p->answer) && p->target != p->answer &&
               get_whole(json_array_get(one, 2), 1, left[p->target], &p->images) &&
               (i == 0 || by_images(&m->pairs[i - 1], p) < 0);
        if (fine) /* else its class may be none */
            left[p->target] -= p->images;
    }
    m->pair_count = fine ? (int64_t)count : 0;
    for (int64_t i = 0; fine && m->pair_count == m->pairs_found && i < m->class_count; i++)
        fine = left[i] == 0;
    free(left);
    return fine;
}

static bool get_image(const mistakes *m, const json_t *one, mistakes_image *w)
{
    const size_t bytes = pixel_bytes(m);
    const json_t *pixels = json_object_get(one, "pixels");
    w->pixels = malloc(bytes);
    return w->pixels && get_whole(json_object_get(one, "sample"), 0, largest_count, &w->sample) &&
           get_whole(json_object_get(one, "class"), 0, m->class_count - 1, &w->target) &&
           get_whole(json_object_get(one, "answer"), 0, m->class_count - 1, &w->answer) && w->target != w->answer &&
           get_real(json_object_get(one, "loss"), 0, DBL_MAX, &w->loss) &&
           get_real(json_object_get(one, "probability"), 0, 1, &w->probability) && json_is_string(pixels) &&
           base64_decode(json_string_value(pixels), json_string_length(pixels), w->pixels, bytes);
}

static bool get_worst(mistakes *m, const json_t *size, const json_t *list)
{
    const size_t count = json_array_size(list);
    bool fine = json_array_size(size) == 3 && get_whole(json_array_get(size, 0), 1, MISTAKES_SIDE, &m->height) &&
                get_whole(json_array_get(size, 1), 1, MISTAKES_SIDE, &m->width) &&
                get_whole(json_array_get(size, 2), 1, 3, &m->channels) && m->channels != 2 && json_is_array(list) &&
                count <= MISTAKES_WORST;
    for (size_t i = 0; fine && i < count; i++)
        fine = get_image(m, json_array_get(list, i), &m->worst[i]) &&
               (i == 0 || m->worst[i].loss <= m->worst[i - 1].loss);
    m->worst_count = fine ? (int)count : 0;
    return fine;
}

/* What is wrong; NULL: nothing. */
static const char *get_all(mistakes *m, const json_t *all)
{
    const char *kind = json_string_value(json_object_get(all, "format"));
    const char *tta = json_string_value(json_object_get(all, "tta"));
    const char *part = json_string_value(json_object_get(all, "part")); /* older files have none */
    if (!kind || strcmp(kind, format) != 0)
        return "it has no format scion-mistakes-1";
    if (!tta || strlen(tta) >= sizeof m->tta || !get_whole(json_object_get(all, "step"), 0, INT64_MAX, &m->step))
        return "its step and tta are not as expected";
    memcpy(m->tta, tta, strlen(tta) + 1);
    snprintf(m->part, sizeof m->part, "%s", part ? part : "");
    if (!get_classes(m, json_object_get(all, "classes")))
        return "expected classes with name, images and right";
    if (!get_pairs(m, json_object_get(all, "confusion"), json_object_get(all, "pairs")))
        return "its confusion does not fit to its classes";
    if (!get_worst(m, json_object_get(all, "size"), json_object_get(all, "worst")))
        return "its worst images are not as expected";
    return NULL;
}

scion_status mistakes_read(mistakes **out, const char *path, scion_error *err)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe has no end to wait for */
    struct stat about;
    json_error_t why = {.text = ""};
    scion_status status = SCION_OK;
    *out = NULL;
    if (fd < 0)
        return errno == ENOENT
                   ? SCION_OK
                   : train_fail(err, SCION_EINVAL, "%s: cannot be read: %s", path_end(path), strerror(errno));
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > largest_file) {
        close(fd);
        return train_fail(err, SCION_ESTATE, "%s: expected a file of at most %d bytes", path_end(path), largest_file);
    }
    json_t *all = json_loadfd(fd, JSON_REJECT_DUPLICATES, &why);
    mistakes *m = calloc(1, sizeof *m);
    close(fd);
    const char *wrong = !all ? why.text : m ? get_all(m, all) : "out of memory";
    if (wrong)
        status = train_fail(err, SCION_ESTATE, "%s: not the mistakes of a run: %.100s", path_end(path), wrong);
    json_decref(all);
    if (status == SCION_OK)
        *out = m;
    else
        mistakes_free(m);
    return status;
}
