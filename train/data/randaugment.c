/* See randaugment.h. Operations and strengths are those of the "increasing" set of DeiT's recipe, in which a higher
 * level is a larger change; pixels are computed as in Pillow. Geometry is interpolated by cubics (a = -1); beyond
 * the border is the mean colour. */
#include "data/randaugment.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "base/random.h"

static uint8_t to_byte(double x)
{
    return x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)lround(x);
}

/* other + factor (x - other). */
static uint8_t blend(double other, double x, double factor)
{
    return to_byte(other + factor * (x - other));
}

/* ---- Tables of 256 bytes, for each channel: from its counts of bytes; they are the identity before ---------- */

static void look_up(randaugment_image *m, int64_t c, const uint8_t table[256])
{
    for (int64_t i = c; i < m->height * m->width * m->channels; i += m->channels)
        m->at[i] = table[m->at[i]];
}

/* Stretches the darkest value to 0 and the brightest to 255. */
static void autocontrast(const int64_t counts[256], double strength, uint8_t table[256])
{
    int64_t low = 0, high = 255;
    (void)strength;
    while (low < 255 && counts[low] == 0)
        low++;
    while (high > 0 && counts[high] == 0)
        high--;
    for (int64_t i = 0; high > low && i < 256; i++) {
        const int64_t x = (i - low) * 255 / (high - low);
        table[i] = (uint8_t)(i < low ? 0 : x > 255 ? 255 : x);
    }
}

/* Makes each brightness about equally frequent. */
static void equalize(const int64_t counts[256], double strength, uint8_t table[256])
{
    int64_t below_last = 0, last = 255;
    (void)strength;
    while (last > 0 && counts[last] == 0)
        last--;
    for (int64_t i = 0; i < last; i++)
        below_last += counts[i];
    const int64_t step = below_last / 255;
    int64_t sum = step / 2;
    for (int64_t i = 0; step > 0 && i < 256; i++) {
        table[i] = (uint8_t)(sum / step > 255 ? 255 : sum / step);
        sum += counts[i];
    }
}

static void invert(const int64_t counts[256], double strength, uint8_t table[256])
{
    (void)counts;
    (void)strength;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(255 - i);
}

/* Keeps the highest bits. */
static void posterize(const int64_t counts[256], double bits, uint8_t table[256])
{
    const int shift = 8 - (int)bits;
    (void)counts;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i >> shift << shift);
}

/* Inverts values from the threshold on. */
static void solarize(const int64_t counts[256], double threshold, uint8_t table[256])
{
    (void)counts;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
}

/* Adds to the darker half. */
static void solarize_add(const int64_t counts[256], double more, uint8_t table[256])
{
    (void)counts;
    for (int i = 0; i < 128; i++)
        table[i] = to_byte(i + more);
}

static void brightness(const int64_t counts[256], double factor, uint8_t table[256])
{
    (void)counts;
    for (int i = 0; i < 256; i++)
        table[i] = blend(0, i, factor);
}

/* ---- Blends ---------------------------------------------------------------------------------------------- */

/* Grey value of a pixel; its first channel, unless there are three. */
static uint8_t grey(const randaugment_image *m, const uint8_t *pixel)
{
    if (m->channels != 3)
        return pixel[0];
    return (uint8_t)((19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2] + 0x8000u) >> 16);
}

static void colour(randaugment_image *m, double factor)
{
    for (int64_t i = 0; i < m->height * m->width; i++) {
        uint8_t *pixel = m->at + i * m->channels;
        const uint8_t other = grey(m, pixel);
        for (int64_t c = 0; c < m->channels; c++)
            pixel[c] = blend(other, pixel[c], factor);
    }
}

/* Blends with the mean grey. */
static void contrast(randaugment_image *m, double factor)
{
    const int64_t area = m->height * m->width;
    uint8_t table[256];
    int64_t sum = 0;
    for (int64_t i = 0; i < area; i++)
        sum += grey(m, m->at + i * m->channels);
    const double mean = floor((double)sum / (double)area + 0.5);
    for (int i = 0; i < 256; i++)
        table[i] = blend(mean, i, factor);
    for (int64_t c = 0; c < m->channels; c++)
        look_up(m, c, table);
}

/* Blends with the image smoothed by (1 1 1, 1 5 1, 1 1 1)/13, except at the border. */
static void sharpness(randaugment_image *m, double factor)
{
    const int64_t step = m->channels, row = m->width * step;
    memcpy(m->spare, m->at, (size_t)(m->height * row));
    for (int64_t y = 1; y + 1 < m->height; y++)
        for (int64_t i = y * row + step; i < (y + 1) * row - step; i++) {
            int sum = 4 * m->spare[i];
            for (int64_t u = -row; u <= row; u += row)
                sum += m->spare[i + u - step] + m->spare[i + u] + m->spare[i + u + step];
            m->at[i] = blend(to_byte(sum / 13.0), m->spare[i], factor);
        }
}

/* ---- Geometry -------------------------------------------------------------------------------------------- */

static int64_t clamped(int64_t i, int64_t n)
{
    return scn_max(0, scn_min(i, n - 1));
}

/* Weights of the four neighbours of a point at distance t from the second. */
static void cubic(double t, double w[4])
{
    const double a = -1, s = 1 - t;
    w[0] = a * t * s * s;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * s - (a + 3)) * s * s + 1;
    w[3] = a * s * t * t;
}

/* Interpolates the pixel at (y, x), in pixels from the image's corner. */
static void sample_at(const randaugment_image *m, double y, double x, uint8_t *to)
{
    const int64_t i = (int64_t)floor(y - 0.5), j = (int64_t)floor(x - 0.5);
    double v[4], h[4];
    if (y < 0 || x < 0 || y >= (double)m->height || x >= (double)m->width) {
        for (int64_t c = 0; c < m->channels; c++)
            to[c] = to_byte((double)m->fill[c]);
        return;
    }
    cubic(y - 0.5 - (double)i, v);
    cubic(x - 0.5 - (double)j, h);
    for (int64_t c = 0; c < m->channels; c++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 4; l++)
                sum += v[k] * h[l] *
                       m->at[(clamped(i - 1 + k, m->height) * m->width + clamped(j - 1 + l, m->width)) * m->channels +
                             c];
        to[c] = to_byte(sum);
    }
}

/* Pixel (x, y) takes the value at (a x + b y + c, d x + e y + f). */
typedef struct affine {
    double a, b, c, d, e, f;
} affine;

static void transform(randaugment_image *m, affine t)
{
    uint8_t *to = m->spare;
    for (int64_t i = 0; i < m->height; i++)
        for (int64_t j = 0; j < m->width; j++, to += m->channels) {
            const double x = (double)j + 0.5, y = (double)i + 0.5;
            sample_at(m, t.d * x + t.e * y + t.f, t.a * x + t.b * y + t.c, to);
        }
    to = m->spare;
    m->spare = m->at;
    m->at = to;
}

/* Rotates counterclockwise about the centre. */
static void rotate(randaugment_image *m, double degrees)
{
    const double angle = degrees * 3.14159265358979323846 / 180, c = cos(angle), s = sin(angle);
    const double x = (double)m->width / 2, y = (double)m->height / 2;
    transform(m, (affine){c, -s, x - c * x + s * y, s, c, y - s * x - c * y});
}

static void shear_x(randaugment_image *m, double slope)
{
    transform(m, (affine){1, slope, 0, 0, 1, 0});
}

static void shear_y(randaugment_image *m, double slope)
{
    transform(m, (affine){1, 0, 0, slope, 1, 0});
}

static void translate_x(randaugment_image *m, double share)
{
    transform(m, (affine){1, 0, share * (double)m->width, 0, 1, 0});
}

static void translate_y(randaugment_image *m, double share)
{
    transform(m, (affine){1, 0, 0, 0, 1, share * (double)m->height});
}

/* ---- The table ------------------------------------------------------------------------------------------- */

/* A level gives the strength base + level/10 range, or base - level/10 range in the other direction; `whole`
 * strengths are rounded towards base. */
static const struct {
    const char *name;
    void (*table)(const int64_t counts[256], double strength, uint8_t table[256]); /* NULL: apply */
    void (*apply)(randaugment_image *m, double strength);
    double base, range;
    bool two_ways, whole;
} rows[] = {
    {"autocontrast", autocontrast, NULL, 0, 0, false, false},
    {"equalize", equalize, NULL, 0, 0, false, false},
    {"invert", invert, NULL, 0, 0, false, false},
    {"rotate", NULL, rotate, 0, 30, true, false},
    {"posterize", posterize, NULL, 4, -4, false, true},
    {"solarize", solarize, NULL, 256, -256, false, true},
    {"solarize_add", solarize_add, NULL, 0, 110, false, true},
    {"color", NULL, colour, 1, 0.9, true, false},
    {"contrast", NULL, contrast, 1, 0.9, true, false},
    {"brightness", brightness, NULL, 1, 0.9, true, false},
    {"sharpness", NULL, sharpness, 1, 0.9, true, false},
    {"shear_x", NULL, shear_x, 0, 0.3, true, false},
    {"shear_y", NULL, shear_y, 0, 0.3, true, false},
    {"translate_x", NULL, translate_x, 0, 0.45, true, false},
    {"translate_y", NULL, translate_y, 0, 0.45, true, false},
};

enum { count = sizeof rows / sizeof *rows };

const char *randaugment_name(int row)
{
    return row >= 0 && row < count ? rows[row].name : NULL;
}

void randaugment_apply(const randaugment_op *op, randaugment_image *m)
{
    if (op->row < 0 || op->row >= count)
        return;
    const double change = op->level / RANDAUGMENT_LEVELS * rows[op->row].range;
    const double moved = rows[op->row].whole ? trunc(change) : change;
    const double strength = rows[op->row].base + (op->negative ? -moved : moved);
    if (rows[op->row].apply)
        rows[op->row].apply(m, strength);
    for (int64_t c = 0; rows[op->row].table && c < m->channels; c++) {
        int64_t counts[256] = {0};
        uint8_t table[256];
        for (int i = 0; i < 256; i++)
            table[i] = (uint8_t)i;
        for (int64_t i = c; i < m->height * m->width * m->channels; i += m->channels)
            counts[m->at[i]]++;
        rows[op->row].table(counts, strength, table);
        look_up(m, c, table);
    }
}

bool randaugment_draw(double magnitude, uint64_t seed, int64_t number, randaugment_op ops[RANDAUGMENT_OPS])
{
    enum { DRAW_WHICH, DRAW_DONE, DRAW_SIGN, draws = 4 };
    static const double deviation = 0.5;
    bool any = false;
    for (int k = 0; k < RANDAUGMENT_OPS; k++) {
        const uint64_t first = ((uint64_t)number * RANDAUGMENT_OPS + (uint64_t)k) * draws;
        const int row = (int)(scn_uniform(seed, SCN_STREAM_RANDAUGMENT, first + DRAW_WHICH) * count);
        float normal[2];
        scn_normals(seed, SCN_STREAM_RANDAUGMENT_LEVEL, (number * RANDAUGMENT_OPS + k) * 2, 2, normal);
        const double level = magnitude + deviation * (double)normal[0];
        ops[k] = (randaugment_op){
            .row = scn_uniform(seed, SCN_STREAM_RANDAUGMENT, first + DRAW_DONE) < 0.5 ? row : -1,
            .level = fmin(fmax(level, 0), RANDAUGMENT_LEVELS),
            .negative = rows[row].two_ways && scn_uniform(seed, SCN_STREAM_RANDAUGMENT, first + DRAW_SIGN) < 0.5,
        };
        any = any || ops[k].row >= 0;
    }
    return any;
}
