/* gemm against sums in double precision, for every form; and that blas_library names something. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/blas.h"
#include "tensor/gemm.h"

enum { MAX = 40 };

/* m, n, k; rows are stored `gap` further apart than they are long. */
static const int64_t SHAPES[][4] = {{1, 1, 1, 0}, {3, 5, 7, 0}, {17, 4, 33, 3}, {32, 32, 32, 0}, {2, 37, 1, 5}};

/* Entries are within [-1, 1], alpha is 0.5: a sum of k products is off by at most k rounding errors of its terms,
 * twice that for the scaling and the addition to C. */
static double tolerance(int64_t k)
{
    return 2 * (double)(k + 2) * FLT_EPSILON;
}

static float entry(int64_t i)
{
    return (float)((i * 7919 + 104729) % 2003) / 1001 - 1;
}

static void try_form(const int64_t *shape, bool transpose_a, bool transpose_b, float beta)
{
    static float a[MAX * MAX * 2], b[MAX * MAX * 2], c[MAX * MAX * 2];
    int64_t m = shape[0], n = shape[1], k = shape[2], gap = shape[3];
    int64_t lda = (transpose_a ? m : k) + gap, ldb = (transpose_b ? k : n) + gap, ldc = n + gap;
    for (int64_t i = 0; i < MAX * MAX * 2; i++) {
        a[i] = entry(i);
        b[i] = entry(i + 5000);
        c[i] = beta == 0 ? NAN : entry(i + 9000); /* beta 0 does not read C */
    }
    gemm(transpose_a, transpose_b, m, n, k, 0.5f, a, lda, b, ldb, beta, c, ldc);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < ldc; j++) {
            double before = beta == 0 ? 0 : entry(i * ldc + j + 9000), sum = 0;
            for (int64_t l = 0; l < k && j < n; l++)
                sum +=
                    (double)a[transpose_a ? l * lda + i : i * lda + l] * b[transpose_b ? j * ldb + l : l * ldb + j];
            float got = c[i * ldc + j];
            if (j < n)
                assert_true(fabs(got - (beta * before + 0.5 * sum)) <= tolerance(k));
            else /* the gap between rows is left alone */
                assert_true(beta == 0 ? isnan(got) : got == (float)before);
        }
    }
}

static void test_forms(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
        for (int form = 0; form < 12; form++)
            try_form(SHAPES[s], form & 1, form >> 1 & 1, (float)(form / 4) / 2);
    }
}

static void test_library(void **unused)
{
    (void)unused;
    assert_true(blas_library()[0]);
    assert_ptr_equal(blas_library(), blas_library());
}

/* The BLAS counts in 32 bits. */
static void test_sizes(void **unused)
{
    (void)unused;
    assert_true(gemm_fits(INT32_MAX, 1, 1) && gemm_fits(1, INT32_MAX, INT32_MAX));
    assert_false(gemm_fits((int64_t)INT32_MAX + 1, 1, 1));
    assert_false(gemm_fits(1, (int64_t)1 << 40, 1));
    assert_false(gemm_fits(1, 1, (int64_t)1 << 31));
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_best_core(argv);
    blas_best_core(argv); /* a second call changes nothing */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_library),
                                       cmocka_unit_test(test_sizes)};
    print_message("%s\n", blas_library());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
