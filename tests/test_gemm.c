/* Products of every form, type and plan against sums in double; the same bits with 1, 2, 3 and 7 threads and with B
 * packed beforehand; and that
 * nothing is written beside C and the workspace. The shapes reach every way a plan can go: dots, groups of columns
 * and of depth, local packing, slices. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "product/gemm.h"

/* Entries are Gaussian: a sum of k products is off by about sqrt(k) roundings of size 1, and at most by some times
 * that; relative to the largest entry of C, which is about 4 sqrt(k), a few roundings remain. */
static const double tolerance = 3e-6;
/* C is rounded to 8 bits. */
static const double bf16_tolerance = 5e-3;

static const struct {
    int64_t m, n, k;
    bool local, sliced;
} shapes[] = {
    {1, 1, 1, false, false},     {1, 50, 33, false, false},    {2, 37, 1, false, false},
    {3, 200, 300, false, false}, {4, 5, 7, false, false},      {8, 48, 16, false, false},
    {9, 49, 257, false, false},  {17, 15, 33, false, false},   {33, 100, 600, false, false},
    {65, 96, 256, false, false}, {130, 400, 70, false, false}, {300, 64, 31, false, false},
    {5, 1100, 2100, true, true}, {40, 70, 33000, true, true},  {520, 65, 4100, true, true},
    {6, 6000, 400, true, false},
};

enum { form_count = 2 * 2 * 2 * 2 * 4 };

typedef struct form {
    bool transpose_a, transpose_b, accumulate;
    scion_dtype operands, result, compute;
} form;

static form form_of(int i)
{
    return (form){i & 1,
                  i >> 1 & 1,
                  i >> 2 & 1,
                  i >> 3 & 1 ? SCION_BF16 : SCION_F32,
                  i >> 4 & 1 ? SCION_BF16 : SCION_F32,
                  i >> 5 & 1 ? SCION_BF16 : SCION_F32};
}

/* A matrix of rows x cols, ld apart: as stored, and in double, as it is multiplied. */
typedef struct matrix {
    int64_t ld, count;
    scion_dtype type;
    float *floats;
    uint16_t *halves;
    double *exact;
} matrix;

static matrix stored_of(rng *r, int64_t rows, int64_t cols, int64_t gap, scion_dtype type, scion_dtype compute)
{
    matrix a = {.ld = cols + gap, .count = rows * (cols + gap), .type = type};
    a.floats = gaussian(r, a.count);
    if (type == SCION_BF16) {
        a.halves = room((size_t)a.count * sizeof *a.halves);
        scn_to_bf16(a.count, a.floats, a.halves);
        scn_from_bf16(a.count, a.halves, a.floats);
    }
    float *rounded = copy_floats(a.count, a.floats);
    if (compute == SCION_BF16)
        scn_from_bf16(a.count, bf16_copy(a.count, rounded), rounded);
    a.exact = widen(a.count, rounded);
    return a;
}

static void *stored(const matrix *a)
{
    return a->type == SCION_BF16 ? (void *)a->halves : a->floats;
}

static const float alpha = 0.5f;

/* Twice the row number plus the column: so that a wrong place shows. */
static void epilogue_row(const scn_gemm_epilogue *e, int64_t row, int64_t col, int64_t cols, float *c)
{
    const float *scale = e->context;
    for (int64_t j = 0; j < cols; j++)
        c[j] += *scale * (float)(2 * row + col + j);
}

static double want(const form *f, const matrix *a, const matrix *b, const matrix *c, int64_t k, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += a->exact[f->transpose_a ? p * a->ld + i : i * a->ld + p] *
               b->exact[f->transpose_b ? j * b->ld + p : p * b->ld + j];
    return (f->accumulate ? c->exact[i * c->ld + j] : 0) + (double)alpha * sum;
}

/* The product with `threads` threads into a copy of C; returns it. The workspace is exactly as large as asked for,
 * and its contents do not matter. */
static float *run(const form *f, const matrix *a, const matrix *b, const matrix *c, int64_t m, int64_t n, int64_t k,
                  int threads, bool pack, const scn_gemm_epilogue *epilogue)
{
    const scn_gemm_shape shape = {m,           n,           k,         f->transpose_a, f->transpose_b,
                                  f->operands, f->operands, f->result, f->compute};
    const scn_gemm g = scn_gemm_plan(&shape, threads);
    const int64_t size = (int64_t)scn_gemm_floats(&g);
    float *workspace = floats(size + 32), *out = copy_floats(c->count, c->floats);
    uint16_t *halves = room((size_t)c->count * sizeof *halves);
    workspace += (16 - (uintptr_t)workspace / sizeof(float) % 16) % 16;
    for (int64_t i = 0; i < size + 1; i++)
        workspace[i] = NAN;
    workspace[size] = 17;
    for (int64_t i = 0; i < m && !f->accumulate; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * c->ld + j] = NAN; /* it must not be read */
    scn_to_bf16(c->count, out, halves);
    const int64_t packed_size = (int64_t)scn_gemm_packed_floats(&g);
    const void *second = stored(b);
    float *packed = floats(packed_size + 1);
    packed[packed_size] = 17;
    pack = pack && packed_size > 0;
    if (pack)
        scn_gemm_pack(&g, second, b->ld, packed);
    scn_gemm_run(&g, stored(a), a->ld, pack ? packed : second, pack ? 0 : b->ld, alpha, f->accumulate,
                 f->result == SCION_BF16 ? (void *)halves : out, c->ld, epilogue, workspace);
    check(packed[packed_size] == 17);
    if (f->result == SCION_BF16)
        scn_from_bf16(c->count, halves, out);
    check(workspace[size] == 17);
    return out;
}

static void check_form(int s, int number, rng *r)
{
    const int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k, gap = s % 3 == 0 ? 0 : 3;
    const form f = form_of(number);
    const matrix a = stored_of(r, f.transpose_a ? k : m, f.transpose_a ? m : k, gap, f.operands, f.compute);
    const matrix b = stored_of(r, f.transpose_b ? n : k, f.transpose_b ? k : n, gap, f.operands, f.compute);
    const matrix c = stored_of(r, m, n, gap, f.result, SCION_F32);
    const float scale = number % 2 ? 0.01f : 0;
    const scn_gemm_epilogue epilogue = {epilogue_row, &scale};
    at("%d x %d x %d, form %d", (int)m, (int)n, (int)k, number);
    float *got = run(&f, &a, &b, &c, m, n, k, 2, false, &epilogue);
    double *expected = widen(c.count, c.floats);
    /* of large products a sample of the elements */
    const int64_t every = m * n * k > 4000000 ? m * n * k / 4000000 : 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t e = i * c.ld + j;
            expected[e] = (i * n + j) % every ? (double)got[e]
                                              : want(&f, &a, &b, &c, k, i, j) + (double)(scale * (float)(2 * i + j));
        }
    check_finite(c.count, got);
    check_array(c.count, got, expected, f.result == SCION_BF16 ? bf16_tolerance : tolerance);
    static const int threads[] = {1, 3, 7};
    for (int t = 0; t < 3; t++)
        check_bits((size_t)c.count * sizeof(float), got, run(&f, &a, &b, &c, m, n, k, threads[t], t == 1, &epilogue));
}

static void products_are_products(void **state)
{
    (void)state;
    rng r = rng_of(11);
    for (int s = 0; s < COUNT_OF(shapes); s++)
        for (int i = 0; i < form_count; i++) {
            /* large ones: each pair of transpositions once, by another type each time */
            if (shapes[s].m * shapes[s].n * shapes[s].k > 4000000 && i / 4 != (i + s) % 16)
                continue;
            check_form(s, i, &r);
            release(state);
        }
}

/* C = A B' with threads and workspace of its own; entries of A and B are float32. */
static float *product_of(int64_t m, int64_t n, int64_t k, scion_dtype compute, const float *a, const float *b)
{
    const scn_gemm_shape shape = {.m = m, .n = n, .k = k, .transpose_b = true, .compute = compute};
    const scn_gemm g = scn_gemm_plan(&shape, 2);
    float *workspace = floats((int64_t)scn_gemm_floats(&g) + 32), *c = floats(m * n);
    workspace += (16 - (uintptr_t)workspace / sizeof(float) % 16) % 16;
    scn_gemm_run(&g, a, k, b, k, 1, false, c, n, NULL, workspace);
    return c;
}

/* A product in bfloat16 is the float32 product of rounded operands: to the bit where it is computed in float32 words;
 * else in another order of the sum, and with bits that do not depend on the operands being rounded beforehand.
 * Operands of 1e-30 and 1e30 neither vanish nor overflow. */
static void bf16_is_float32_of_rounded(void **state)
{
    static const double scales[][2] = {{1, 1}, {1e-30, 1}, {1, 1e30}, {1e-30, 1e30}, {1e30, 1e-30}};
    const bool words_are_floats = scn_kernel_for(SCION_BF16)->kr == 1;
    rng r = rng_of(13);
    for (int s = 0; s < COUNT_OF(shapes); s++)
        for (int t = 0; t < COUNT_OF(scales); t++) {
            const int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
            if (m * n * k > 4000000 && t != s % COUNT_OF(scales))
                continue;
            float *a = gaussian(&r, m * k), *b = gaussian(&r, n * k), *ra = floats(m * k), *rb = floats(n * k);
            for (int64_t i = 0; i < m * k; i++)
                a[i] = (float)((double)a[i] * scales[t][0]);
            for (int64_t i = 0; i < n * k; i++)
                b[i] = (float)((double)b[i] * scales[t][1]);
            scn_from_bf16(m * k, bf16_copy(m * k, a), ra);
            scn_from_bf16(n * k, bf16_copy(n * k, b), rb);
            at("%d x %d x %d, scales %g %g", (int)m, (int)n, (int)k, scales[t][0], scales[t][1]);
            const float *got = product_of(m, n, k, SCION_BF16, a, b), *want = product_of(m, n, k, SCION_F32, ra, rb);
            check_bits((size_t)(m * n) * sizeof *got, got, product_of(m, n, k, SCION_BF16, ra, rb));
            if (words_are_floats)
                check_bits((size_t)(m * n) * sizeof *got, got, want);
            check_array(m * n, got, widen(m * n, want), tolerance);
            check_finite(m * n, got);
            check(got[0] != 0);
            release(state);
        }
}

/* NaN and infinity stay what they are, and touch no other row or column. */
static void bf16_keeps_nan(void **state)
{
    (void)state;
    enum { m = 9, n = 50, k = 33 };
    rng r = rng_of(14);
    float *a = gaussian(&r, m * k), *b = gaussian(&r, n * k);
    const uint32_t quiet_to_infinity = 0x7f800001u; /* cut to 16 bits it would be infinity */
    memcpy(a + 4 * k + 32, &quiet_to_infinity, sizeof *a);
    b[7 * k + 3] = INFINITY;
    const float *c = product_of(m, n, k, SCION_BF16, a, b);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            at("row %d, column %d", (int)i, (int)j);
            check(i == 4 ? isnan(c[i * n + j]) : j == 7 ? isinf(c[i * n + j]) : isfinite(c[i * n + j]));
        }
}

/* A bfloat16 C that is added to, rounded at random: one of the two neighbours of the sum in float32, on average
 * that sum (within five standard deviations), the same bits with any number of threads, and others from another
 * stream. */
static void rounding_is_fair(void **state)
{
    (void)state;
    enum { streams = 1000 };
    static const int64_t sizes[][3] = {{9, 49, 257}, {3, 40, 33000}, {130, 30, 70}};
    rng r = rng_of(12);
    for (int s = 0; s < COUNT_OF(sizes); s++) {
        const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], count = m * n;
        const scn_gemm_shape plain = {m, n, k, true, false, SCION_F32, SCION_F32, SCION_F32, SCION_F32};
        scn_gemm_shape shape = plain;
        shape.c = SCION_BF16;
        scn_gemm full = scn_gemm_plan(&plain, 2), half[2] = {scn_gemm_plan(&shape, 1), scn_gemm_plan(&shape, 5)};
        float *a = gaussian(&r, m * k), *b = gaussian(&r, k * n), *c = gaussian(&r, count), value;
        uint16_t *start = bf16_copy(count, c), *got[3];
        double *mean = doubles(count);
        const size_t floats_needed = scn_gemm_floats(&full) + scn_gemm_floats(&half[1]);
        float *workspace = floats((int64_t)floats_needed + 32);
        workspace += (16 - (uintptr_t)workspace / sizeof(float) % 16) % 16;
        scn_from_bf16(count, start, c);
        scn_gemm_run(&full, a, m, b, n, 1, true, c, n, NULL, workspace);
        for (int i = 0; i < 3; i++)
            got[i] = room((size_t)count * sizeof *got[i]);
        at("%d x %d x %d", (int)m, (int)n, (int)k);
        for (int stream = 0; stream < streams; stream++) {
            for (int i = 0; i < (stream == 0 ? 3 : 1); i++) {
                memcpy(got[i], start, (size_t)count * sizeof *start);
                half[i % 2].rounding = scn_rounding_by(9, (uint64_t)(i < 2 ? stream : 7));
                scn_gemm_run(&half[i % 2], a, m, b, n, 1, true, got[i], n, NULL, workspace);
            }
            if (stream == 0) {
                check_bits((size_t)count * sizeof *start, got[0], got[1]);
                check(memcmp(got[0], got[2], (size_t)count * sizeof *start) != 0);
            }
            for (int64_t e = 0; e < count; e++) {
                scn_from_bf16(1, got[0] + e, &value);
                mean[e] += (double)value / streams;
                /* a spacing, and what two orders of a sum of k terms may differ by */
                check_le(fabs((double)value - (double)c[e]), fabs((double)c[e]) * 0x1p-7 + 1e-6 * sqrt((double)k));
            }
        }
        for (int64_t e = 0; e < count; e++)
            check_le(fabs(mean[e] - (double)c[e]),
                     5 * 0.5 * fabs((double)c[e]) * 0x1p-7 / sqrt(streams) + 1e-6 * sqrt((double)k));
    }
}

/* The shapes go the ways that they are there for, with the widest kernel; and memory does not grow as threads are
 * taken away. */
static void plans_go_every_way(void **state)
{
    (void)state;
    const scn_kernel *kernel = scn_kernel_for(SCION_F32);
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        const scn_gemm_shape shape = {.m = shapes[s].m, .n = shapes[s].n, .k = shapes[s].k, .transpose_a = true};
        const scn_gemm g = scn_gemm_plan(&shape, 4);
        at("%s, %d x %d x %d", kernel->name, (int)shape.m, (int)shape.n, (int)shape.k);
        check(g.local == shapes[s].local);
        check((g.slices > 1) == shapes[s].sliced);
        scn_gemm_shape half = shape;
        half.c = SCION_BF16;
        check(scn_gemm_plan(&half, 4).slices == g.slices);
        size_t most = 0;
        for (int threads = 1; threads < 9; threads++) {
            const scn_gemm fewer = scn_gemm_plan(&shape, threads);
            check(scn_gemm_floats(&fewer) >= most);
            most = scn_gemm_floats(&fewer);
            check(fewer.slices == g.slices && fewer.depth == g.depth && fewer.group_depth == g.group_depth);
        }
    }
}

/* A depth of nothing is a sum of nothing; no rows or columns are no work. */
static void nothing_is_zero(void **state)
{
    (void)state;
    float c[6] = {1, 2, 3, 4, 5, 6};
    for (int k = 0; k < 3; k++) {
        const scn_gemm_shape shape = {.m = k == 1 ? 0 : 2, .n = k == 2 ? 0 : 2, .k = 0};
        const scn_gemm g = scn_gemm_plan(&shape, 2);
        check(scn_gemm_floats(&g) == 0);
        scn_gemm_run(&g, NULL, 0, NULL, 2, 1, true, c, 3, NULL, NULL);
        check(c[0] == 1 && c[4] == 5);
    }
    const scn_gemm g = scn_gemm_plan(&(scn_gemm_shape){.m = 2, .n = 2, .k = 0}, 2);
    scn_gemm_run(&g, NULL, 0, NULL, 2, 1, false, c, 3, NULL, NULL);
    check(c[0] == 0 && c[1] == 0 && c[2] == 3 && c[3] == 0 && c[4] == 0 && c[5] == 6);
}

int main(void)
{
    const char *wanted = getenv("SCION_ISA");
    if (wanted && *wanted && strcmp(scn_isa_used()->name, wanted) != 0)
        return 77; /* this CPU lacks it */
    const struct CMUnitTest tests[] = {LAW(products_are_products), LAW(bf16_is_float32_of_rounded),
                                       LAW(bf16_keeps_nan),        LAW(rounding_is_fair),
                                       LAW(plans_go_every_way),    LAW(nothing_is_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
