/* See whitening.h. The second moment is summed in double, image by image in slices of the images that do not depend
 * on the number of threads; 16 MiB of images, or one, are in memory at once. Its eigenvectors come from Jacobi
 * rotations: 12 x 12 for colours and patches of 2 x 2. */
#include "models/whitening.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/fail.h"

int64_t whitening_filters(int64_t channels, int64_t side)
{
    return 2 * channels * side * side;
}

/* ---- The second moment ---------------------------------------------------------------------------------------- */

typedef struct patches {
    int64_t channels, height, width, side, size; /* size: elements of a patch */
} patches;

/* Adds the products of all patches of an image; sums are size x size, of which the upper triangle is filled. */
static void add_image(const patches *p, const float *image, double *patch, double *sums)
{
    for (int64_t y = 0; y + p->side <= p->height; y++)
        for (int64_t x = 0; x + p->side <= p->width; x++) {
            int64_t k = 0;
            for (int64_t c = 0; c < p->channels; c++)
                for (int64_t u = 0; u < p->side; u++)
                    for (int64_t v = 0; v < p->side; v++)
                        patch[k++] = (double)image[((y + u) * p->width + x + v) * p->channels + c];
            for (int64_t i = 0; i < p->size; i++)
                for (int64_t j = i; j < p->size; j++)
                    sums[i * p->size + j] += patch[i] * patch[j];
        }
}

/* Images in memory at once, and images per slice of the sums. Both depend only on the size of the images: the sums
 * are the same with any number of threads. */
typedef struct pieces {
    int64_t images, slice;
} pieces;

static pieces pieces_of(const data_array *image)
{
    enum { max_bytes = 16 << 20, slice_images = 50 };
    const int64_t fit = max_bytes / (image->count * (int64_t)sizeof(float));
    if (fit < slice_images)
        return (pieces){scn_max(fit, 1), 1};
    return (pieces){fit / slice_images * slice_images, slice_images};
}

/* Sums of each slice of `count` images; `sums` holds all slices, each followed by a patch. */
static void add_slices(const patches *p, int64_t count, int64_t slice, const float *images, double *sums)
{
    const int64_t slices = scn_pieces(count, slice), stride = p->size * (p->size + 1);
    const int64_t pixels = p->channels * p->height * p->width;
    const int threads = scn_threads(0);
    memset(sums, 0, (size_t)(slices * stride) * sizeof *sums);
    SCN_PARALLEL_FOR(threads, s, slices)
        for (int64_t i = s * slice; i < count && i < (s + 1) * slice; i++)
            add_image(p, images + i * pixels, sums + s * stride + p->size * p->size, sums + s * stride);
}

/* The sum over the first `count` training images, piece by piece; m is zero. */
static scion_status add_pieces(const patches *p, const data_set *d, int64_t count, double *m, scion_error *err)
{
    const data_info *info = data_about(d);
    const int at = data_find(info, "image");
    const pieces cut = pieces_of(&info->arrays[at]);
    const int64_t n = p->size, stride = n * (n + 1), images = scn_min(cut.images, count);
    void *arrays[DATA_ARRAYS] = {NULL};
    float *some = malloc((size_t)(images * info->arrays[at].count) * sizeof *some);
    double *sums = malloc((size_t)(scn_pieces(images, cut.slice) * stride) * sizeof *sums);
    scion_status status = SCION_OK;
    if (!some || !sums)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for %lld images", (long long)images));
    arrays[at] = some;
    for (int64_t first = 0; first < count; first += images) {
        const int64_t now = scn_min(count - first, images);
        TRY(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, first, now, arrays, err));
        add_slices(p, now, cut.slice, some, sums);
        for (int64_t s = 0; s < scn_pieces(now, cut.slice); s++)
            for (int64_t i = 0; i < n * n; i++)
                m[i] += sums[s * stride + i];
    }
done:
    free(some);
    free(sums);
    return status;
}

/* ---- Eigenvectors --------------------------------------------------------------------------------------------- */

/* Rotates rows (and columns, where `both`) i and j of an n x n matrix by the angle with cosine c and sine s. */
static void rotate(int64_t n, double *a, int64_t i, int64_t j, double c, double s, bool both)
{
    for (int64_t k = 0; k < n; k++) {
        const double x = a[i * n + k], y = a[j * n + k];
        a[i * n + k] = c * x - s * y;
        a[j * n + k] = s * x + c * y;
    }
    for (int64_t k = 0; both && k < n; k++) {
        const double x = a[k * n + i], y = a[k * n + j];
        a[k * n + i] = c * x - s * y;
        a[k * n + j] = s * x + c * y;
    }
}

/* Makes element (i, j) zero. */
static void annihilate(int64_t n, double *a, double *vectors, int64_t i, int64_t j)
{
    const double theta = (a[j * n + j] - a[i * n + i]) / (2 * a[i * n + j]);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1);
    rotate(n, a, i, j, c, t * c, true);
    rotate(n, vectors, i, j, c, t * c, false);
    a[i * n + j] = a[j * n + i] = 0;
}

static void swap(double *x, double *y)
{
    const double z = *x;
    *x = *y;
    *y = z;
}

void whitening_eigenvectors(int64_t n, double *a, double *values, double *vectors)
{
    enum { sweeps = 40 }; /* it converges quadratically: about eight are needed */
    for (int64_t i = 0; i < n * n; i++)
        vectors[i] = i / n == i % n;
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++)
                if (fabs(a[i * n + j]) > 1e-300)
                    annihilate(n, a, vectors, i, j);
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] > values[i]) {
                swap(&values[i], &values[j]);
                for (int64_t k = 0; k < n; k++)
                    swap(&vectors[i * n + k], &vectors[j * n + k]);
            }
}

/* ---- The layer ------------------------------------------------------------------------------------------------- */

scion_status whitening_compute(const data_set *d, int64_t images, int64_t side, double eps, float *w,
                               scion_error *err)
{
    const data_info *info = data_about(d);
    const data_array *image = &info->arrays[data_find(info, "image")];
    const int64_t count = scn_min(images, info->samples[DATA_TRAIN]);
    const patches p = {image->shape[2], image->shape[0], image->shape[1], side, image->shape[2] * side * side};
    const double patch_count = (double)count * (double)((p.height - side + 1) * (p.width - side + 1));
    const int64_t n = p.size;
    double *m = calloc((size_t)(2 * n * n + n), sizeof *m);
    scion_status status = SCION_OK;
    if (!m)
        return train_fail(err, SCION_ENOMEM, "out of memory for the whitening layer");
    double *vectors = m + n * n, *values = vectors + n * n;
    TRY(add_pieces(&p, d, count, m, err));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++)
            m[j * n + i] = m[i * n + j] /= patch_count;
    whitening_eigenvectors(n, m, values, vectors);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            w[i * n + k] = (float)(vectors[i * n + k] / sqrt(fmax(values[i], 0) + eps));
            w[(n + i) * n + k] = -w[i * n + k];
        }
done:
    free(m);
    return status;
}
