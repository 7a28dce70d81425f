/* The innermost products of every instruction set that this CPU has, against sums in double; which of them is used;
 * and the transpose. */
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/stream.h"
#include "linalg/vector.h"
#include "product/kernel.h"
#include "product/transpose.h"

/* Sums of up to 40 terms of size 1, relative to the largest entry. */
static const double tolerance = 2e-6;

static void check_small(const scn_kernel *kernel, bool transpose, int64_t m, int64_t n, int64_t k, int accumulate,
                        rng *r)
{
    const int64_t lda = (transpose ? m : k) + 3, ldb = n + 5, ldc = n + 1;
    const float *a = gaussian(r, lda * (transpose ? k : m)), *b = gaussian(r, ldb * k), alpha = 0.5f;
    float *c = gaussian(r, ldc * m);
    double *want = widen(ldc * m, c);
    at("%s: %d x %d x %d%s%s", kernel->name, (int)m, (int)n, (int)k, transpose ? ", A transposed" : "",
       accumulate ? ", added" : "");
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)a[transpose ? p * lda + i : i * lda + p] * (double)b[p * ldb + j];
            want[i * ldc + j] = (accumulate ? want[i * ldc + j] : 0) + (double)alpha * sum;
            if (!accumulate)
                c[i * ldc + j] = NAN; /* it must not be read */
        }
    kernel->small(m, n, k, alpha, a, transpose ? 1 : lda, transpose ? lda : 1, b, ldb, accumulate, c, ldc);
    check_array(ldc * m, c, want, tolerance); /* what lies between the rows stays */
}

static void small_products_are_products(void **state)
{
    (void)state;
    rng r = rng_of(3);
    const scn_kernel *kernel;
    for (int i = 0; (kernel = scn_kernel_at(i)) != NULL; i++)
        for (int64_t m = 1; m < 20; m += 3)
            for (int64_t n = SCN_VECTOR; n <= 7 * SCN_VECTOR; n += SCN_VECTOR)
                for (int k = 0; k < 4; k++)
                    check_small(kernel, k % 2, m, n, 1 + 13 * k, k / 2, &r);
}

static void tiles_of_panels_are_products(void **state)
{
    (void)state;
    rng r = rng_of(4);
    const scn_kernel *kernel;
    for (int t = 0; (kernel = scn_kernel_at(t)) != NULL; t++)
        for (int64_t k = 1; k <= 40; k++) {
            const int64_t mr = kernel->mr, nr = kernel->nr;
            const float *a = gaussian(&r, k * nr), *b = gaussian(&r, k * nr);
            const int accumulate = (int)(k % 2);
            float *c = gaussian(&r, mr * nr);
            double *want = widen(mr * nr, c);
            for (int64_t i = 0; i < mr; i++)
                for (int64_t j = 0; j < nr; j++) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; p++)
                        sum += (double)a[p * nr + i] * (double)b[p * nr + j];
                    want[i * nr + j] = (accumulate ? want[i * nr + j] : 0) + sum;
                    if (!accumulate)
                        c[i * nr + j] = NAN;
                }
            at("%s, depth %d", kernel->name, (int)k);
            check(mr * nr <= SCN_KERNEL_MAX_TILE && nr % mr == 0);
            kernel->tile(k, a, b, c, accumulate);
            check_array(mr * nr, c, want, tolerance);
        }
}

/* tests/CMakeLists.txt runs this with SCION_ISA unset and with every name. */
static void the_variable_chooses(void **state)
{
    (void)state;
    const char *wanted = getenv("SCION_ISA");
    const scn_kernel *kernel;
    bool found = false;
    for (int i = 0; (kernel = scn_kernel_at(i)) != NULL; i++) {
        check(scn_kernel_named(kernel->name) == kernel);
        if (wanted && strcmp(kernel->name, wanted) == 0) {
            check(scn_kernel_best() == kernel);
            found = true;
        }
    }
    if (!found)
        check(scn_kernel_best() == scn_kernel_at(0));
    check(scn_kernel_named(NULL) == scn_kernel_at(0));
    check(scn_kernel_named("no such set") == scn_kernel_at(0));
    check(strcmp(scn_kernel_named("portable")->name, "portable") == 0);
}

static void transpose_of_every_shape(void **state)
{
    (void)state;
    rng r = rng_of(5);
    for (int64_t rows = 0; rows < 11; rows++)
        for (int64_t cols = 0; cols < 11; cols++) {
            const int64_t ld = cols + 2, to_ld = rows + 3;
            const float *from = gaussian(&r, 11 * ld);
            float *to = floats(11 * to_ld), *want = floats(11 * to_ld);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++)
                    want[j * to_ld + i] = from[i * ld + j];
            at("%d x %d", (int)rows, (int)cols);
            scn_transpose(to, to_ld, from, ld, rows, cols);
            check_bits((size_t)(11 * to_ld) * sizeof *to, to, want);
        }
}

/* Results that go past the cache have the bits of those that do not, whatever their length and place, and nothing is
 * written beside them. */
static void test_streamed(void **state)
{
    (void)state;
    enum { MOST = 2100, MARGIN = 64 };
    static const int64_t lengths[] = {0, 1, 3, 4, 15, 16, 17, 31, 33, 64, 1023, 1024, 1025, 2049, MOST};
    rng r = rng_of(77);
    const float *x = gaussian(&r, MOST), *f = gaussian(&r, MOST);
    float *got = floats(MOST + 2 * MARGIN), *want = floats(MOST + 2 * MARGIN);
    for (int64_t t = 0; t < COUNT_OF(lengths); t++)
        for (int64_t shift = 0; shift < 17; shift++)
            for (int which = 0; which < 3; which++) {
                const int64_t n = lengths[t];
                for (int64_t i = 0; i < MOST + 2 * MARGIN; i++)
                    got[i] = want[i] = 7;
                float *z = got + MARGIN / 2 + shift, *y = want + MARGIN / 2 + shift;
                at("function %d, %lld numbers, shifted by %lld", which, (long long)n, (long long)shift);
                if (which == 0) {
                    scn_stream(n, 1.5, x, z);
                    scn_axpby(n, 1.5, x, 0, y);
                } else if (which == 1) {
                    scn_sign_stream(n, 1.5, x, z);
                    scn_sign_axpby(n, 1.5, x, 0, y);
                } else {
                    scn_multiply(n, f, x, 0, z, true);
                    scn_multiply(n, f, x, 0, y, false);
                }
                scn_stream_end();
                check_bits((MOST + 2 * MARGIN) * sizeof *got, got, want);
                for (int64_t i = 0; which == 2 && i < n; i++)
                    check(z[i] == f[i] * x[i]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(small_products_are_products),
        LAW(tiles_of_panels_are_products),
        LAW(the_variable_chooses),
        LAW(transpose_of_every_shape),
        LAW(test_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
