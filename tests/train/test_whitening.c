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

/* On the images themselves: the mean of w_i p w_j p over all patches p is lambda_i/(lambda_i + eps) for i = j and
 * else 0, and the second half of the filters is the first, negated. Filters are rounded to float32. */
static void filters_make_patches_uncorrelated(void **state)
{
    (void)state;
    enum { images = 60, side = 2, n = 4, filters = 8 };
    const double eps = 1e-3;
    data_options o = {.kind = "synthetic"};
    const data_context context = {.seed = 3, .wants = wants};
    data_set *d;
    scion_error err;
    check_ok(data_open(&d, &o, &context, &err), &err);
    const data_array *image = &data_about(d)->arrays[data_find(data_about(d), "image")];
    const int64_t H = image->shape[0], W = image->shape[1];
    float w[filters * n];
    float *x = floats(images * image->count);
    double sums[n * n] = {0}, count = 0;
    check(whitening_filters(image->shape[2], side) == filters);
    check_ok(whitening_compute(d, images, side, eps, w, &err), &err);
    check_ok(data_fill_plain(d, DATA_TRAIN, 0, images, (void *[DATA_ARRAYS]){x}, &err), &err);
    for (int64_t b = 0; b < images; b++)
        for (int64_t i = 0; i + 1 < H; i++)
            for (int64_t j = 0; j + 1 < W; j++, count++) {
                const float *p = x + (b * H + i) * W + j;
                double y[n] = {0};
                for (int k = 0; k < n; k++)
                    for (int e = 0; e < n; e++)
                        y[k] += (double)w[k * n + e] * (double)p[e / 2 * W + e % 2];
                for (int k = 0; k < n * n; k++)
                    sums[k] += y[k / n] * y[k % n];
            }
    for (int k = 0; k < n * n; k++) {
        at("filters %d and %d", k / n, k % n);
        if (k / n == k % n) /* lambda is about 1: the pixels are standardised */
            check(sums[k] / count > 0.98 && sums[k] / count < 1);
        else
            check_le(fabs(sums[k] / count), 1e-5);
    }
    for (int k = 0; k < n * n; k++)
        check(w[n * n + k] == -w[k]);
    data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(eigenvectors_rebuild_their_matrix),
                                       LAW(filters_make_patches_uncorrelated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
