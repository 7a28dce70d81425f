/* See augment.h. The k-th random number of a sample is number 128 x sample + k of a stream.
 *
 * Flip and translation are airbench's (K. Jordan, "94% on CIFAR-10 in 3.29 seconds"), random erasing that of Zhong
 * et al. (2017), mixup that of Zhang et al. (2018), cutmix that of Yun et al. (2019); the last three with the
 * constants of DeiT's recipe, but drawn for each sample: a data set does not know batches. */
#include "data/augment.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/random.h"

enum { draws = 128 };

/* Draws of a sample: erasing and cropping take four for each attempt. */
enum { DRAW_FLIP, DRAW_DY, DRAW_DX, DRAW_CUTOUT_Y, DRAW_CUTOUT_X, DRAW_ERASE, DRAW_BOX, DRAW_CROP = 64 };

const option data_image_option_rows[] = {DATA_IMAGE_ROWS, OPTION_END};

enum { FLIP_NONE, FLIP_RANDOM, FLIP_ALTERNATE };
const char *const data_flips[] = {
    [FLIP_NONE] = "none", [FLIP_RANDOM] = "random", [FLIP_ALTERNATE] = "alternate", NULL};

/* ---- Drawing ------------------------------------------------------------------------------------------- */

static double draw(uint64_t seed, int64_t number, int64_t k)
{
    return scn_uniform(seed, SCN_STREAM_AUGMENT, (uint64_t)number * draws + (uint64_t)k);
}

static bool draw_flip(int flip, uint64_t seed, int64_t epoch, int64_t sample, int64_t number)
{
    if (flip == FLIP_RANDOM)
        return draw(seed, number, DRAW_FLIP) < 0.5;
    /* Random in the first epoch, then the other way each epoch: after two, every image was seen both ways. */
    return flip == FLIP_ALTERNATE && (scn_uniform(seed, SCN_STREAM_FLIP, (uint64_t)sample) < 0.5) != (epoch % 2 == 1);
}

/* Integer from `low` to `high`, for u in [0, 1). */
static int64_t whole(double u, int64_t low, int64_t high)
{
    return low + (int64_t)(u * (double)(high - low + 1));
}

/* Draws a rectangle of 2 % to a third of the area, with sides in a ratio of 0.3 to 1/0.3: the first of ten that
 * fits. */
static data_box draw_erased(uint64_t seed, int64_t number, int64_t height, int64_t width)
{
    static const double min_area = 0.02, max_area = 1.0 / 3, ratio = 0.3;
    enum { attempts = 10 };
    for (int64_t k = DRAW_BOX; k < DRAW_BOX + 4 * attempts; k += 4) {
        const double area = (min_area + (max_area - min_area) * draw(seed, number, k)) * (double)(height * width);
        const double aspect = exp(log(ratio) * (1 - 2 * draw(seed, number, k + 1)));
        const int64_t h = llround(sqrt(area * aspect)), w = llround(sqrt(area / aspect));
        if (h < 1 || w < 1 || h >= height || w >= width)
            continue;
        const int64_t y = whole(draw(seed, number, k + 2), 0, height - h);
        const int64_t x = whole(draw(seed, number, k + 3), 0, width - w);
        return (data_box){y, x, y + h, x + w};
    }
    return (data_box){0};
}

/* Ten attempts, as in torchvision; then the largest box in the middle that the ratios allow. */
data_box data_draw_crop(double crop_min, uint64_t seed, int64_t height, int64_t width, int64_t number)
{
    static const double ratio = 4.0 / 3;
    enum { attempts = 10 };
    for (int64_t k = DRAW_CROP; k < DRAW_CROP + 4 * attempts; k += 4) {
        const double area = (crop_min + (1 - crop_min) * draw(seed, number, k)) * (double)(height * width);
        const double aspect = exp(log(ratio) * (2 * draw(seed, number, k + 1) - 1));
        const int64_t h = llround(sqrt(area / aspect)), w = llround(sqrt(area * aspect));
        if (h < 1 || w < 1 || h > height || w > width)
            continue;
        const int64_t y = whole(draw(seed, number, k + 2), 0, height - h);
        const int64_t x = whole(draw(seed, number, k + 3), 0, width - w);
        return (data_box){y, x, y + h, x + w};
    }
    const int64_t tall = llround((double)width * ratio), wide = llround((double)height * ratio);
    const int64_t h = scn_min(height, tall), w = scn_min(width, wide);
    const int64_t y = (height - h) / 2, x = (width - w) / 2;
    return (data_box){y, x, y + h, x + w};
}

data_change data_draw_change(const data_image_options *o, uint64_t seed, int64_t height, int64_t width, int64_t epoch,
                             int64_t sample, int64_t number)
{
    data_change a = {.flip = draw_flip(o->flip, seed, epoch, sample, number), .number = number};
    if (o->translate > 0) {
        a.dy = whole(draw(seed, number, DRAW_DY), -o->translate, o->translate);
        a.dx = whole(draw(seed, number, DRAW_DX), -o->translate, o->translate);
    }
    if (o->randaugment > 0)
        a.randaugment = randaugment_draw(o->randaugment, seed, number, a.ops);
    if (o->cutout > 0) {
        const int64_t y = whole(draw(seed, number, DRAW_CUTOUT_Y), 0, height - o->cutout);
        const int64_t x = whole(draw(seed, number, DRAW_CUTOUT_X), 0, width - o->cutout);
        a.cutout = (data_box){y, x, y + o->cutout, x + o->cutout};
    }
    if (o->erase > 0 && draw(seed, number, DRAW_ERASE) < o->erase)
        a.erase = draw_erased(seed, number, height, width);
    return a;
}

/* Joehnk's method: X = U^(1/a) and Y = V^(1/a), if X + Y <= 1, give X/(X + Y); at least half of the pairs do. */
double data_draw_beta(double a, uint64_t seed, uint64_t stream, uint64_t first)
{
    enum { attempts = 60 };
    for (uint64_t k = first; k < first + 2 * attempts; k += 2) {
        const double u = scn_uniform(seed, stream, k), v = scn_uniform(seed, stream, k + 1);
        const double x = pow(u, 1 / a), y = pow(v, 1 / a);
        if (x + y == 0) /* both underflow: one is still far larger */
            return u > v ? 1 : 0;
        if (x + y <= 1)
            return x / (x + y);
    }
    return 0.5;
}

/* Rectangle of `share` of the area and the image's aspect ratio, its centre anywhere, cut off at the border. */
static data_box draw_pasted(double share, double u, double v, int64_t height, int64_t width)
{
    const int64_t h = (int64_t)((double)height * sqrt(share)), w = (int64_t)((double)width * sqrt(share));
    const int64_t y = whole(u, 0, height - 1) - h / 2, x = whole(v, 0, width - 1) - w / 2;
    return (data_box){scn_max(y, 0), scn_max(x, 0), scn_min(y + h, height), scn_min(x + w, width)};
}

static int64_t box_area(data_box b)
{
    return b.y1 > b.y0 && b.x1 > b.x0 ? (b.y1 - b.y0) * (b.x1 - b.x0) : 0;
}

bool data_unchanged(const data_change *a)
{
    return !a->flip && !a->randaugment && a->dy == 0 && a->dx == 0 && box_area(a->cutout) == 0 &&
           box_area(a->erase) == 0;
}

data_mix data_draw_mix(const data_image_options *o, uint64_t seed, int64_t height, int64_t width, int64_t samples,
                       int64_t number)
{
    enum { DRAW_WHICH, DRAW_PARTNER, DRAW_Y, DRAW_X, DRAW_BETA };
    static const int64_t apart = (int64_t)1 << 35; /* above all numbers of samples; their noise fits in 63 bits */
    const uint64_t first = (uint64_t)number * draws;
    const double which = scn_uniform(seed, SCN_STREAM_MIX, first + DRAW_WHICH);
    if (!(o->mixup > 0 || o->cutmix > 0))
        return (data_mix){.weight = 1};
    const bool pastes = o->cutmix > 0 && (!(o->mixup > 0) || which < 0.5);
    data_mix m = {.mixes = true,
                  .partner = whole(scn_uniform(seed, SCN_STREAM_MIX, first + DRAW_PARTNER), 0, samples - 1),
                  .number = number + apart};
    m.weight = data_draw_beta(pastes ? o->cutmix : o->mixup, seed, SCN_STREAM_MIX, first + DRAW_BETA);
    if (pastes) {
        m.box = draw_pasted(1 - m.weight, scn_uniform(seed, SCN_STREAM_MIX, first + DRAW_Y),
                            scn_uniform(seed, SCN_STREAM_MIX, first + DRAW_X), height, width);
        m.weight = 1 - (double)box_area(m.box) / (double)(height * width);
        m.mixes = box_area(m.box) > 0;
    }
    return m;
}

/* ---- Pixels -------------------------------------------------------------------------------------------- */

/* Part of row y, columns [x, x + count), that b covers: *n columns from the returned one on, relative to x. */
static int64_t covered(data_box b, int64_t y, int64_t x, int64_t count, int64_t *n)
{
    const int64_t from = scn_max(b.x0 - x, 0), to = scn_min(b.x1 - x, count);
    *n = y >= b.y0 && y < b.y1 && to > from ? to - from : 0;
    return from;
}

enum { chunk = 128 }; /* pixels at a time */

/* Column of `from` that column x of the changed image shows. */
static int64_t column_of(const data_image_info *about, const data_pixels *from, const data_change *a, int64_t x)
{
    const int64_t i = data_reflected(x + a->dx, about->width);
    return (a->flip ? about->width - 1 - i : i) * from->column;
}

void data_change_bytes(const data_image_info *about, data_pixels *from, data_change *change, uint8_t *bytes)
{
    const int64_t height = about->height, width = about->width, channels = about->channels;
    randaugment_image m = {bytes, bytes + height * width * channels, height, width, channels, about->mean};
    uint8_t *to = bytes;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++)
                *to++ = from->at[c * from->channel + data_reflected(y + change->dy, height) * from->row +
                                 column_of(about, from, change, x)];
    for (int k = 0; k < RANDAUGMENT_OPS; k++)
        randaugment_apply(&change->ops[k], &m);
    *from = (data_pixels){m.at, 1, width * channels, channels};
    *change = (data_change){.cutout = change->cutout, .erase = change->erase, .number = change->number};
}

/* Computes `count` changed pixels of channel c from (y, x) on. */
static void take(const data_image_info *about, const data_pixels *from, const data_change *a, uint64_t seed,
                 int64_t c, int64_t y, int64_t x, const int64_t *columns, int64_t count, float *value)
{
    const uint8_t *row = from->at + c * from->channel + data_reflected(y + a->dy, about->height) * from->row;
    const float mean = about->mean[c], scale = about->scale[c];
    int64_t n;
    for (int64_t k = 0; k < count; k++)
        value[k] = ((float)row[columns[k]] - mean) * scale;
    int64_t at = covered(a->cutout, y, x, count, &n);
    for (int64_t k = at; k < at + n; k++)
        value[k] = 0;
    at = covered(a->erase, y, x, count, &n);
    if (n > 0) { /* scn_normals starts at an even number */
        const int64_t area = (about->height * about->width + 1) / 2 * 2, place = c * area + y * about->width + x + at;
        float noise[chunk + 2];
        scn_normals(seed, SCN_STREAM_ERASE, a->number * DATA_CHANNELS * area + place / 2 * 2, (n + 2) / 2 * 2, noise);
        memcpy(value + at, noise + place % 2, (size_t)n * sizeof *value);
    }
}

void data_put_image(const data_image_info *about, const data_pixels *from, const data_change *change, uint64_t seed,
                    const data_placing *placing, bool channels_last, float *to)
{
    const int64_t area = about->height * about->width, step = channels_last ? about->channels : 1;
    const data_box b = placing->box;
    const float weight = placing->weight;
    for (int64_t x = b.x0; x < b.x1; x += chunk) {
        const int64_t count = scn_min(b.x1 - x, chunk);
        int64_t columns[chunk];
        for (int64_t k = 0; k < count; k++)
            columns[k] = column_of(about, from, change, x + k);
        for (int64_t y = b.y0; y < b.y1; y++)
            for (int64_t c = 0; c < about->channels; c++) {
                float value[chunk];
                take(about, from, change, seed, c, y, x, columns, count, value);
                float *out = to + (channels_last ? c : c * area) + (y * about->width + x) * step;
                if (placing->add)
                    for (int64_t k = 0; k < count; k++)
                        out[k * step] += weight * value[k];
                else
                    for (int64_t k = 0; k < count; k++)
                        out[k * step] = weight * value[k];
            }
    }
}
