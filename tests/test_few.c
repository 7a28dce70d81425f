/* A matrix times few vectors, for every instruction set that this CPU has, against sums in double; and the bits of an
 * element, which do not depend on how many others are computed with it. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "product/few.h"

/* Sums of up to 3000 terms of size 1 in vectors, relative to the largest entry. */
static const double tolerance = 4e-6;

static void check_few(const scn_kernel *kernel, scion_dtype type, int64_t m, int64_t n, int64_t k, int accumulate,
                      rng *r)
{
    const int64_t ldx = k + 3, ldw = k + 2, ldy = n + 1;
    const float *x = gaussian(r, ldx * m), *b = gaussian(r, ldw * n);
    uint16_t *half = calloc((size_t)(ldw * n), sizeof *half);
    float *w = calloc((size_t)(ldw * n), sizeof *w), *y = gaussian(r, ldy * m), one;
    double *want = widen(ldy * m, y);
    check(half && w);
    at("%s: %d x %d x %d%s%s", kernel->name, (int)m, (int)n, (int)k, type == SCION_BF16 ? ", bfloat16" : "",
       accumulate ? ", added" : "");
    memcpy(w, b, (size_t)(ldw * n) * sizeof *w);
    if (type == SCION_BF16) {
        scn_to_bf16(ldw * n, b, half);
        scn_from_bf16(ldw * n, half, w);
    }
    float *before = gaussian(r, ldy * m);
    memcpy(before, y, (size_t)(ldy * m) * sizeof *y);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)x[i * ldx + p] * (double)w[j * ldw + p];
            want[i * ldy + j] = (accumulate ? want[i * ldy + j] : 0) + sum;
            if (!accumulate)
                y[i * ldy + j] = NAN; /* it must not be read */
        }
    const void *from = type == SCION_BF16 ? (const void *)half : w;
    scn_few *few = scn_few_of(kernel);
    few(m, n, k, x, ldx, from, type, ldw, accumulate, y, ldy);
    check_array(ldy * m, y, want, tolerance); /* what lies between the rows stays */
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            one = before[i * ldy + j];
            few(1, 1, k, x + i * ldx, ldx, (const char *)from + scn_stored_bytes(type, j * ldw), type, ldw,
                accumulate, &one, 1);
            check_bits(sizeof one, &one, &y[i * ldy + j]);
        }
    free(half);
    free(w);
}

static void few_vectors_are_products(void **state)
{
    (void)state;
    rng r = rng_of(5);
    const scn_kernel *kernel;
    for (int i = 0; (kernel = scn_kernel_at(SCION_F32, i)) != NULL; i++)
        for (int64_t m = 1; m <= 9; m++)
            for (int64_t n = 1; n <= 26; n += 5)
                for (int64_t k = 1; k <= 131; k += 26)
                    for (int form = 0; form < 4; form++)
                        check_few(kernel, form % 2 ? SCION_BF16 : SCION_F32, m, n, k, form / 2, &r);
    for (int i = 0; (kernel = scn_kernel_at(SCION_F32, i)) != NULL; i++)
        for (int64_t m = 1; m <= 5; m += 4)
            for (int64_t k = 760; k < 3000; k += 743) /* one block and several */
                check_few(kernel, k % 2 ? SCION_BF16 : SCION_F32, m, 13, k, 1, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(few_vectors_are_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
