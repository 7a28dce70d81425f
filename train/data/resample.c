/* Separable resampling, as in Pillow, with a filter as wide as the new pixels: pixel i of n, made from m, has its
 * centre at c = (i + 1/2) m/n, and is sum_k w_k x_k / sum_k w_k with w_k = f((k + 1/2 - c) / s), s = max(1, m/n).
 * Shrinking averages over all pixels; a filter of fixed width would skip some.
 *
 * Weights are fixed-point numbers of 22 bits, and rows are rounded to bytes between the two passes, as in Pillow. The
 * sum of |w| is below 1.5 for both filters: 255 x 1.5 x 2^22 fits in 31 bits. */
#include "data/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

enum { channels = 3, bits = 22 };

static double triangle(double x)
{
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* Keys' cubic convolution, a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5, t = fabs(x);
    if (t < 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

typedef struct filter {
    double radius;
    double (*value)(double x);
} filter;

enum { BILINEAR, BICUBIC };
static const filter filters[] = {[BILINEAR] = {1, triangle}, [BICUBIC] = {2, cubic}};
const char *const resample_names[] = {[BILINEAR] = "bilinear", [BICUBIC] = "bicubic", NULL};

/* Weights of each of n results, for pixels first[i] to first[i] + count[i]. */
typedef struct axis {
    int64_t n, capacity; /* capacity: weights of one result */
    int64_t *first, *count;
    int32_t *weight; /* (n, capacity) */
} axis;

static void free_axis(axis *a)
{
    free(a->first);
    free(a->count);
    free(a->weight);
}

/* Computes the rounded weights of a result, whose sum is 1. */
static void weigh(const filter *f, double middle, double stretch, int64_t first, int64_t count, int32_t *weight)
{
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += f->value(((double)(first + k) + 0.5 - middle) / stretch);
    for (int64_t k = 0; k < count; k++)
        weight[k] = (int32_t)lround(f->value(((double)(first + k) + 0.5 - middle) / stretch) / sum * (1 << bits));
}

/* Makes the weights of n results from m pixels. False: out of memory; free it in any case. */
static bool make_axis(axis *a, const filter *f, int64_t m, int64_t n)
{
    const double step = (double)m / (double)n, stretch = fmax(step, 1), reach = f->radius * stretch;
    a->n = n;
    a->capacity = 2 * (int64_t)ceil(reach) + 1;
    a->first = malloc((size_t)n * sizeof *a->first);
    a->count = malloc((size_t)n * sizeof *a->count);
    a->weight = malloc((size_t)(n * a->capacity) * sizeof *a->weight);
    if (!a->first || !a->count || !a->weight)
        return false;
    for (int64_t i = 0; i < n; i++) {
        const double middle = ((double)i + 0.5) * step;
        const int64_t low = (int64_t)floor(middle - reach + 0.5), high = (int64_t)floor(middle + reach + 0.5);
        a->first[i] = scn_max(low, 0);
        a->count[i] = scn_min(high, m) - a->first[i];
        weigh(f, middle, stretch, a->first[i], a->count[i], a->weight + i * a->capacity);
    }
    return true;
}

static uint8_t rounded(int32_t sum)
{
    const int32_t value = (sum + (1 << (bits - 1))) >> bits;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Resizes one row. */
static void across(const axis *a, const uint8_t *from, uint8_t *to)
{
    for (int64_t i = 0; i < a->n; i++) {
        const uint8_t *x = from + a->first[i] * channels;
        const int32_t *w = a->weight + i * a->capacity;
        int32_t sum[channels] = {0};
        for (int64_t k = 0; k < a->count[i]; k++)
            for (int c = 0; c < channels; c++)
                sum[c] += w[k] * x[k * channels + c];
        for (int c = 0; c < channels; c++)
            to[i * channels + c] = rounded(sum[c]);
    }
}

/* Computes row i of the result from rows of n bytes. */
static void down(const axis *a, int64_t i, const uint8_t *from, int64_t n, int32_t *sums, uint8_t *to)
{
    const int32_t *w = a->weight + i * a->capacity;
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t k = 0; k < a->count[i]; k++) {
        const uint8_t *restrict x = from + (a->first[i] + k) * n;
        for (int64_t j = 0; j < n; j++)
            sums[j] += w[k] * x[j];
    }
    for (int64_t j = 0; j < n; j++)
        to[j] = rounded(sums[j]);
}

bool resample(const image *from, data_box box, int filter_index, int64_t height, int64_t width, uint8_t *to)
{
    const filter *f = &filters[filter_index];
    const int64_t h = box.y1 - box.y0, w = box.x1 - box.x0, row = width * channels;
    axis x = {0}, y = {0};
    uint8_t *rows = malloc((size_t)(h * row)); /* of the new width */
    int32_t *sums = malloc((size_t)row * sizeof *sums);
    const bool fine = rows && sums && make_axis(&x, f, w, width) && make_axis(&y, f, h, height);
    for (int64_t i = 0; fine && i < h; i++)
        across(&x, from->pixels + ((box.y0 + i) * from->width + box.x0) * channels, rows + i * row);
    for (int64_t i = 0; fine && i < height; i++)
        down(&y, i, rows, row, sums, to + i * row);
    free(rows);
    free(sums);
    free_axis(&x);
    free_axis(&y);
    return fine;
}
