/* See mistakes.h. Pairs of classes are listed, not put into a matrix: of a thousand classes most pairs never occur,
 * and of twenty thousand the matrix would be larger than the model. */
#include "record/mistakes.h"

#include <errno.h>
#include <fcntl.h>
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
#include "util/utf8.h"

static const char format[] = "scion-mistakes-1";

/* ---- Collecting -------------------------------------------------------------------------------------------- */

void mistakes_free(mistakes *m)
{
    if (!m)
        return;
    for (int64_t i = 0; m->classes && i < m->class_count; i++)
        free(m->classes[i].name);
    for (int i = 0; i < MISTAKES_WORST; i++) {
        free(m->worst[i].pixels);
        free(m->worst[i].file);
    }
    free(m->classes);
    free(m->pairs);
    free(m);
}

/* Reduction factor: side x side pixels become one. */
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

static size_t pixel_bytes(const mistakes *m)
{
    return (size_t)(m->height * m->width * m->channels);
}

scion_status mistakes_create(mistakes **out, const data_info *d, scion_error *err)
{
    const data_image_info *image = d->image;
    mistakes *m = *out = calloc(1, sizeof *m);
    bool fine = m && (m->classes = calloc((size_t)image->classes, sizeof *m->classes)) != NULL;
    if (fine) {
        m->class_count = image->classes;
        m->height = kept_side(image->height, shrinking(image));
        m->width = kept_side(image->width, shrinking(image));
        m->channels = image->channels < 3 ? 1 : 3;
    }
    for (int64_t i = 0; fine && i < image->classes; i++)
        fine = (m->classes[i].name = strdup(image->names[i])) != NULL;
    for (int i = 0; fine && i < MISTAKES_WORST; i++)
        fine = (m->worst[i].pixels = malloc(pixel_bytes(m))) != NULL;
    if (fine)
        return SCION_OK;
    mistakes_free(m);
    *out = NULL;
    return train_fail(err, SCION_ENOMEM, "out of memory for the mistakes of %lld classes", (long long)image->classes);
}

/* The pixel of a channel, as a byte again. */
static double byte_at(const data_info *d, const float *pixels, int64_t y, int64_t x, int64_t c)
{
    const data_image_info *image = d->image;
    const int64_t at = d->arrays[d->input].channels_last ? (y * image->width + x) * image->channels + c
                                                         : (c * image->height + y) * image->width + x;
    return (double)pixels[at] / (double)image->scale[c] + (double)image->mean[c];
}

/* Keeps an image as bytes; larger ones as means of squares of pixels. */
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

/* Makes a place for an image among the worst ones, which move down for it; -1: it is not among them. Of equals the
 * first sample is in front. */
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
        *w = (mistakes_image){sample, target, answer, loss, 1 / sum, w->pixels, NULL};
        keep_pixels(m, d, pixels, w->pixels);
    }
    return true;
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

/* A copy of the name of a file that JSON can hold; NULL: there is none. */
static char *copy_name(const char *name)
{
    char *copy = name ? strdup(name) : NULL;
    if (copy && utf8_bytes(copy, strlen(copy)) < strlen(copy))
        utf8_make_printable(copy);
    return copy;
}

void mistakes_end(mistakes *m, const data_set *d, data_sequence s)
{
    int64_t kept = 0;
    for (int i = 0; i < m->worst_count; i++)
        m->worst[i].file = copy_name(data_file_of(d, s, m->worst[i].sample));
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

mistakes_class mistakes_total(const mistakes *m)
{
    mistakes_class sum = {.name = NULL};
    for (int64_t i = 0; i < m->class_count; i++) {
        sum.images += m->classes[i].images;
        sum.right += m->classes[i].right;
    }
    return sum;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

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
    int failed = 0; /* json_pack is NULL where memory ran out, and appending that fails */
    for (int64_t i = 0; i < m->class_count; i++) {
        const mistakes_class *k = &m->classes[i];
        failed |= json_array_append_new(
            classes, json_pack("{s:o,s:I,s:I}", "name", json_text(k->name), "images", k->images, "right", k->right));
    }
    for (int64_t i = 0; i < m->pair_count; i++) {
        const mistakes_pair *p = &m->pairs[i];
        failed |= json_array_append_new(pairs, json_pack("[I,I,I]", p->target, p->answer, p->images));
    }
    for (int i = 0; i < m->worst_count; i++) {
        const mistakes_image *w = &m->worst[i];
        json_t *image = json_pack("{s:I,s:s*,s:I,s:I,s:f,s:f}", "sample", w->sample, "file", w->file, "class",
                                  w->target, "answer", w->answer, "loss", w->loss, "probability", w->probability);
        if (pixels)
            failed |= json_object_set_new(image, "pixels", pixels_of(w->pixels, pixel_bytes(m)));
        failed |= json_array_append_new(worst, image);
    }
    json_t *all = json_pack("{s:s,s:I,s:s,s:o,s:o,s:I,s:o,s:[I,I,I],s:o}", "format", format, "step", m->step, "tta",
                            m->tta, "part", json_text(m->part), "classes", classes, "pairs", m->pairs_found,
                            "confusion", pairs, "size", m->height, m->width, m->channels, "worst", worst);
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

scion_status mistakes_save(const mistakes *m, int folder, const char *path, scion_error *err)
{
    json_t *all = mistakes_json(m, true);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    const scion_status status = text ? atomic_save(folder, path, text, strlen(text), err)
                                     : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    free(text);
    json_decref(all);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------------
 * The parts return true if they are well-formed; the caller reports the error. */

/* Largest file and number of classes that are read at all. */
enum { file_max = 1 << 26, classes_max = 1 << 20 };
static const json_int_t count_max = (json_int_t)1 << 40;

static bool is_within(json_int_t value, json_int_t min, json_int_t max)
{
    return value >= min && value <= max;
}

/* True if one class can have been taken for the other. */
static bool is_mistake(const mistakes *m, json_int_t target, json_int_t answer)
{
    return is_within(target, 0, m->class_count - 1) && is_within(answer, 0, m->class_count - 1) && target != answer;
}

static bool get_classes(mistakes *m, const json_t *list)
{
    const size_t count = json_array_size(list);
    if (count < 1 || count > classes_max || !(m->classes = calloc(count, sizeof *m->classes)))
        return false;
    m->class_count = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        mistakes_class *k = &m->classes[i];
        const char *name;
        if (json_unpack(json_array_get(list, i), "{s:s,s:I,s:I}", "name", &name, "images", &k->images, "right",
                        &k->right) != 0 ||
            !is_within(k->images, 0, count_max) || !is_within(k->right, 0, k->images) || !(k->name = strdup(name)))
            return false;
    }
    return true;
}

/* Pairs are in order and each occurs once. No more images of a class are wrong than it has, and exactly as many if
 * all pairs are here. */
static bool get_pairs(mistakes *m, json_t *all)
{
    const json_t *list;
    if (json_unpack(all, "{s:I,s:o}", "pairs", &m->pairs_found, "confusion", &list) != 0)
        return false;
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > MISTAKES_PAIRS || !is_within(m->pairs_found, (json_int_t)count, count_max))
        return false;
    int64_t *left = calloc((size_t)m->class_count, sizeof *left);
    m->pairs = calloc(count + 1, sizeof *m->pairs);
    bool fine = left && m->pairs;
    for (int64_t i = 0; fine && i < m->class_count; i++)
        left[i] = m->classes[i].images - m->classes[i].right;
    for (size_t i = 0; fine && i < count; i++) {
        mistakes_pair *p = &m->pairs[i];
        fine = json_unpack(json_array_get(list, i), "[I,I,I!]", &p->target, &p->answer, &p->images) == 0 &&
               is_mistake(m, p->target, p->answer) && is_within(p->images, 1, left[p->target]) &&
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

static bool get_image(const mistakes *m, json_t *one, mistakes_image *w)
{
    const size_t bytes = pixel_bytes(m);
    const char *text, *file = NULL; /* older files have none */
    size_t length;
    w->pixels = malloc(bytes);
    return w->pixels &&
           json_unpack(one, "{s:I,s?s,s:I,s:I,s:F,s:F,s:s%}", "sample", &w->sample, "file", &file, "class",
                       &w->target, "answer", &w->answer, "loss", &w->loss, "probability", &w->probability, "pixels",
                       &text, &length) == 0 &&
           (!file || (w->file = strdup(file)) != NULL) && is_within(w->sample, 0, count_max) &&
           is_mistake(m, w->target, w->answer) && w->loss >= 0 && w->probability >= 0 && w->probability <= 1 &&
           base64_decode(text, length, w->pixels, bytes);
}

static bool get_worst(mistakes *m, json_t *all)
{
    const json_t *list;
    if (json_unpack(all, "{s:[I,I,I!],s:o}", "size", &m->height, &m->width, &m->channels, "worst", &list) != 0)
        return false;
    const size_t count = json_array_size(list);
    bool fine = is_within(m->height, 1, MISTAKES_SIDE) && is_within(m->width, 1, MISTAKES_SIDE) &&
                (m->channels == 1 || m->channels == 3) && json_is_array(list) && count <= MISTAKES_WORST;
    for (size_t i = 0; fine && i < count; i++)
        fine = get_image(m, json_array_get(list, i), &m->worst[i]) &&
               (i == 0 || m->worst[i].loss <= m->worst[i - 1].loss);
    m->worst_count = fine ? (int)count : 0;
    return fine;
}

/* Returns what is wrong; NULL: nothing. */
static const char *get_all(mistakes *m, json_t *all)
{
    const char *kind, *tta, *part = ""; /* older files have no part */
    if (json_unpack(all, "{s:s}", "format", &kind) != 0 || strcmp(kind, format) != 0)
        return "it has no format scion-mistakes-1";
    if (json_unpack(all, "{s:I,s:s,s?s}", "step", &m->step, "tta", &tta, "part", &part) != 0 || m->step < 0 ||
        strlen(tta) >= sizeof m->tta)
        return "its step and tta are not as expected";
    snprintf(m->tta, sizeof m->tta, "%s", tta);
    snprintf(m->part, sizeof m->part, "%s", part);
    if (!get_classes(m, json_object_get(all, "classes")))
        return "expected classes with name, images and right";
    if (!get_pairs(m, all))
        return "its confusion does not fit to its classes";
    return get_worst(m, all) ? NULL : "its worst images are not as expected";
}

scion_status mistakes_read(mistakes **out, const char *path, scion_error *err)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe has no end to wait for */
    struct stat about;
    json_error_t why = {.text = ""};
    *out = NULL;
    if (fd < 0 && errno == ENOENT)
        return SCION_OK;
    if (fd < 0)
        return train_fail(err, SCION_EINVAL, "%s: cannot be read: %s", path_end(path), strerror(errno));
    const bool readable = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= file_max;
    json_t *all = readable ? json_loadfd(fd, JSON_REJECT_DUPLICATES, &why) : NULL;
    close(fd);
    if (!readable)
        return train_fail(err, SCION_ESTATE, "%s: expected a file of at most %d bytes", path_end(path), file_max);
    mistakes *m = calloc(1, sizeof *m);
    const char *fault = !all ? why.text : m ? get_all(m, all) : "out of memory";
    json_decref(all);
    if (!fault) {
        *out = m;
        return SCION_OK;
    }
    mistakes_free(m);
    return train_fail(err, SCION_ESTATE, "%s: not the mistakes of a run: %.100s", path_end(path), fault);
}
