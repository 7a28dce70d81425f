/* The whitening layer: eigenvectors of symmetric matrices, and filters whose results on the images they came from are
 * uncorrelated. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "models/whitening.h"

/* A = V' diag(values) V, rows of V orthonormal, values in order. Jacobi's rotations are exact to some 1e-15 of the
 * largest eigenvalue. */
static void eigenvectors_rebuild_their_matrix(void **state)
{
    (void)state;
    for (int n = 1; n <= 27; n += 2) {
        rng r = rng_of((uint64_t)n);
        double *a = doubles(n * n), *kept = doubles(n * n), *values = doubles(n), *v = doubles(n * n);
        at("n = %d", n);
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++)
                a[i * n + j] = a[j * n + i] = i == j && n == 5 ? 1 : rng_uniform(&r) - 0.5; /* some equal ones */
        memcpy(kept, a, (size_t)(n * n) * sizeof *a);
        whitening_eigenvectors(n, a, values, v);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0, product = 0;
                for (int k = 0; k < n; k++) {
                    sum += v[k * n + i] * values[k] * v[k * n + j];
                    product += v[i * n + k] * v[j * n + k];
                }
                check_le(fabs(sum - kept[i * n + j]), 1e-12);
                check_le(fabs(product - (i == j)), 1e-12);
            }
        for (int i = 1; i < n; i++)
            check(values[i] <= values[i - 1]);
    }
}

static const char *const wants[] = {"image", NULL};

static data_set *open_images(int64_t image_size)
{
    data_options o = {.kind = "synthetic"};
    const data_context context = {.seed = 3, .wants = wants};
    data_set *d;
    scion_error err;
    const char *name;
    const option *rows;
    size_t offset;
    for (int i = 0; data_kind_options(i, &name, &rows, &offset); i++)
        for (const option *r = rows; strcmp(name, "synthetic") == 0 && r->key; r++)
            if (strcmp(r->key, "image_size") == 0)
                *(int64_t *)(void *)((char *)&o + offset + r->offset) = image_size;
    check_ok(data_open(&d, &o, &context, &err), &err);
    return d;
}

/* Adds the upper triangle of y y', y the first n filters on each patch of side 2 of an image. */
static double add_results(const data_array *image, const float *x, const float *w, int64_t n, double *sums)
{
    const int64_t H = image->shape[0], W = image->shape[1], C = image->shape[2];
    double *y = doubles(n), count = 0;
    for (int64_t i = 0; i + 1 < H; i++)
        for (int64_t j = 0; j + 1 < W; j++, count++) {
            const float *p = x + (i * W + j) * C;
            for (int64_t k = 0; k < n; k++) {
                y[k] = 0;
                for (int64_t e = 0; e < n; e++) /* e: channel, row, column */
                    y[k] += (double)w[k * n + e] * (double)p[(e % 4 / 2 * W + e % 2) * C + e / 4];
            }
            for (int64_t k = 0; k < n; k++)
                for (int64_t e = k; e < n; e++)
                    sums[k * n + e] += y[k] * y[e];
        }
    return count;
}

/* On the images themselves: the mean of w_i p w_j p over all patches p is lambda_i/(lambda_i + eps) for i = j and
 * else 0, and the second half of the filters is the first, negated. Filters are rounded to float32. More images than
 * are in memory at once make no difference: 49 of 168 x 168 pixels in three colours, 300 of 64 x 64. */
static void filters_make_patches_uncorrelated(void **state)
{
    static const struct {
        int64_t size, images;
    } cases[] = {{0, 60}, {64, 301}, {168, 50}};
    const double eps = 1e-3, least = 0.98; /* of lambda/(lambda + eps): lambda is about 1, pixels are standardised */
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        const int64_t images = cases[i].images;
        data_set *d = open_images(cases[i].size);
        const data_array *image = &data_about(d)->arrays[data_find(data_about(d), "image")];
        const int64_t filters = whitening_filters(image->shape[2], 2), n = filters / 2;
        float *w = floats(filters * n), *x = floats(images * image->count);
        double *sums = doubles(n * n), count = 0;
        scion_error err;
        check(n == 4 * image->shape[2] && data_about(d)->samples[DATA_TRAIN] >= images);
        check_ok(whitening_compute(d, images, 2, eps, w, &err), &err);
        check_ok(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, images, (void *[DATA_ARRAYS]){x},
                           &err),
                 &err);
        memset(sums, 0, (size_t)(n * n) * sizeof *sums);
        for (int64_t b = 0; b < images; b++)
            count += add_results(image, x + b * image->count, w, n, sums);
        for (int64_t k = 0; k < n * n; k++) {
            at("size %lld, filters %lld and %lld", (long long)cases[i].size, (long long)(k / n), (long long)(k % n));
            if (k / n == k % n)
                check(sums[k] / count > least && sums[k] / count < 1);
            else if (k / n < k % n)
                check_le(fabs(sums[k] / count), 1e-5);
        }
        for (int64_t k = 0; k < n * n; k++)
            check(w[n * n + k] == -w[k]);
        data_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(eigenvectors_rebuild_their_matrix),
                                       LAW(filters_make_patches_uncorrelated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
