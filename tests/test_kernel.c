/* The innermost products of every row that this CPU can run, against sums in double of what the row rounds its
 * operands to; which instruction set is used; and the transpose.
 *
 * A CPU without AVX-512 does not run those rows, one without bfloat16 instructions not that of avx512bf16. The rows
 * avx2_pairs and portable_pairs have its source, but for one intrinsic: its packing and its loops are tested
 * everywhere. */
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/stream.h"
#include "linalg/vector.h"
#include "product/cpu.h"
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
    for (int i = 0; (kernel = scn_kernel_at(SCION_F32, i)) != NULL; i++)
        for (int64_t m = 1; m < 20; m += 3)
            for (int64_t n = SCN_VECTOR; n <= 7 * SCN_VECTOR; n += SCN_VECTOR)
                for (int k = 0; k < 4; k++)
                    check_small(kernel, k % 2, m, n, 1 + 13 * k, k / 2, &r);
}

/* Row t of all that this CPU can run: float32, then bfloat16; NULL past the last. */
static const scn_kernel *kernel_number(int t)
{
    int floats_only = 0;
    while (scn_kernel_at(SCION_F32, floats_only))
        floats_only++;
    return t < floats_only ? scn_kernel_at(SCION_F32, t) : scn_kernel_at(SCION_BF16, t - floats_only);
}

/* x as the kernel takes it. */
static double taken(const scn_kernel *k, float x)
{
    uint16_t half;
    float value = x;
    if (k->in == SCION_BF16) {
        scn_to_bf16(1, &x, &half);
        scn_from_bf16(1, &half, &value);
    }
    return (double)value;
}

/* Elements of a depth of k, in words of one column of nr. */
static float *words_of(const scn_kernel *kernel, int64_t k, const float *x)
{
    const int64_t nr = kernel->panel_nr, kr = kernel->kr, length = (k + kr - 1) / kr;
    float *out = floats(length * nr);
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < nr; j++) {
            uint16_t half;
            scn_to_bf16(1, x + p * nr + j, &half);
            if (kr == 2)
                memcpy((char *)(out + p / 2 * nr + j) + p % 2 * 2, &half, sizeof half);
            else
                out[p * nr + j] = (float)taken(kernel, x[p * nr + j]);
        }
    return out;
}

static void tiles_of_panels_are_products(void **state)
{
    (void)state;
    rng r = rng_of(4);
    const scn_kernel *kernel;
    for (int t = 0; (kernel = kernel_number(t)) != NULL; t++)
        for (int64_t k = 1; k <= 40; k++) {
            const int64_t mr = kernel->panel_mr, nr = kernel->panel_nr;
            const float *a = gaussian(&r, k * nr), *b = gaussian(&r, k * nr);
            const int accumulate = (int)(k % 2);
            float *c = gaussian(&r, mr * nr);
            double *want = widen(mr * nr, c);
            for (int64_t i = 0; i < mr; i++)
                for (int64_t j = 0; j < nr; j++) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; p++)
                        sum += taken(kernel, a[p * nr + i]) * taken(kernel, b[p * nr + j]);
                    want[i * nr + j] = (accumulate ? want[i * nr + j] : 0) + sum;
                    if (!accumulate)
                        c[i * nr + j] = NAN;
                }
            at("%s, depth %d", kernel->name, (int)k);
            check(mr * nr <= SCN_KERNEL_MAX_TILE && nr <= SCN_KERNEL_MAX_NR && nr % mr == 0);
            kernel->tile((k + kernel->kr - 1) / kernel->kr, words_of(kernel, k, a), words_of(kernel, k, b), c,
                         accumulate);
            check_array(mr * nr, c, want, tolerance);
        }
}

/* An operand with random elements, at their distances; `value` has them in order of rows. */
typedef struct random_operand {
    scn_operand o;
    const float *value;
} random_operand;

static random_operand random_of(rng *r, int64_t rows, int64_t cols, bool transposed, scion_dtype type, int64_t step,
                                int64_t gap)
{
    const int64_t down = transposed ? cols : rows, across = transposed ? rows : cols, ld = across * step + gap;
    float *stored = gaussian(r, down * ld), *value = floats(rows * cols);
    uint16_t *halves = bf16_copy(down * ld, stored);
    if (type == SCION_BF16)
        scn_from_bf16(down * ld, halves, stored);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            value[i * cols + j] = stored[transposed ? j * ld + i * step : i * ld + j * step];
    const void *at = type == SCION_BF16 ? (const void *)halves : stored;
    return (random_operand){{at, type, rows, cols, transposed, ld, step}, value};
}

/* Memory of so many floats, in which nothing is a number, and one more that must stay as it is. */
static float *marked(size_t n)
{
    float *x = floats((int64_t)n + 1);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    x[n] = 17;
    return x;
}

/* Packs b in four pieces, cut in the depth and after the first strip. */
static void pack_in_pieces(const scn_kernel *k, scn_packed to, scn_operand b)
{
    const int64_t p = b.rows > k->kr ? k->kr : 0, j = b.cols > k->nr ? k->nr : 0;
    for (int piece = 0; piece < 4; piece++) {
        const int64_t row = piece % 2 ? p : 0, col = piece / 2 ? j : 0;
        const scn_operand from =
            scn_operand_part(b, row, col, piece % 2 ? b.rows - p : p, piece / 2 ? b.cols - j : j);
        const scn_packed at = scn_packed_part(to, row, col);
        k->pack_b(&at, &from);
    }
}

/* form: bits 0 and 1 transpose, 2 and 3 store in bfloat16, 4 adds, 5 reads A where it is if the kernel can, 6 leaves
 * gaps between elements. */
static void check_packed(const scn_kernel *k, int64_t m, int64_t n, int64_t depth, int form, rng *r)
{
    const int64_t ldc = n + 3, step = form & 64 ? 3 : 1;
    const random_operand a =
        random_of(r, m, depth, form & 1, form & 4 ? SCION_BF16 : SCION_F32, step, 1 + (depth + n) % 2);
    const random_operand b = random_of(r, depth, n, form & 2, form & 8 ? SCION_BF16 : SCION_F32, step, 5 + m % 2);
    const size_t a_floats = k->a_floats(m, depth), b_floats = k->b_floats(n, depth);
    float *left = marked(a_floats), *right = marked(b_floats), *c = gaussian(r, m * ldc);
    double *want = widen(m * ldc, c);
    const int accumulate = form >> 4 & 1;
    at("%s: %d x %d x %d, form %d", k->name, (int)m, (int)n, (int)depth, form);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < depth; p++)
                sum += taken(k, a.value[i * depth + p]) * taken(k, b.value[p * n + j]);
            want[i * ldc + j] = (accumulate ? want[i * ldc + j] : 0) + 0.5 * sum;
            if (!accumulate)
                c[i * ldc + j] = NAN;
        }
    const scn_packed in_place = scn_packed_in_place(&a.o), packed = scn_packed_of(left, depth, m);
    const scn_packed to = scn_packed_of(right, depth, n);
    const bool direct = form & 32 && k->reads(&a.o);
    if (!direct)
        k->pack_a(&packed, &a.o);
    pack_in_pieces(k, to, b.o);
    /* the depth in two sums, as callers cut it */
    const int64_t first = depth > k->kr ? k->kr : depth;
    const scn_packed whole_a = direct ? in_place : packed;
    k->multiply(m, n, first, 0.5f, &whole_a, &to, accumulate, c, ldc);
    const scn_packed rest_a = scn_packed_part(whole_a, first, 0), rest_b = scn_packed_part(to, first, 0);
    if (depth > first)
        k->multiply(m, n, depth - first, 0.5f, &rest_a, &rest_b, 1, c, ldc);
    check_array(m * ldc, c, want, tolerance);
    check(left[a_floats] == 17 && right[b_floats] == 17);
}

/* Sizes around those of tiles, strips, vectors, words and chunks. */
static void packed_products_are_products(void **state)
{
    rng r = rng_of(6);
    const scn_kernel *k;
    static const int64_t depths[] = {1, 2, 3, 7, 16, 17, 63, 64, 65, 131};
    for (int t = 0; (k = kernel_number(t)) != NULL; t++) {
        const int64_t ms[] = {1, k->mr - 1, k->mr, k->mr + 1, 2 * k->mr + 3};
        const int64_t ns[] = {1, k->vl, k->vl + 1, k->nr - 1, k->nr, k->nr + 1, 3 * k->nr + k->vl + 1};
        int form = 0;
        for (int64_t i = 0; i < COUNT_OF(ms); i++)
            for (int64_t j = 0; j < COUNT_OF(ns); j++)
                for (int64_t d = 0; d < COUNT_OF(depths); d++, form += 37) /* all of them, in no order */
                    check_packed(k, ms[i], ns[j], depths[d], form % 128, &r);
        release(state);
    }
}

/* The odd element of a pair is added first, as vdpbf16ps does: (1 + 2^-30) - 1 is 0 in float32, (1 - 1) + 2^-30 is
 * not. */
static void pairs_have_their_order(void **state)
{
    (void)state;
    const scn_kernel *k;
    for (int t = 0; (k = scn_kernel_at(SCION_BF16, t)) != NULL; t++) {
        const float a[] = {1, 1, 1, 1}, b[] = {1, 0, -1, 0x1p-30f};
        const scn_operand x = {a, SCION_F32, 1, 4, false, 4, 1}, y = {b, SCION_F32, 4, 1, false, 1, 1};
        const scn_packed left = scn_packed_of(floats((int64_t)k->a_floats(1, 4)), 4, 1);
        const scn_packed right = scn_packed_of(floats((int64_t)k->b_floats(1, 4)), 4, 1);
        float c = NAN;
        k->pack_a(&left, &x);
        k->pack_b(&right, &y);
        k->multiply(1, 1, 4, 1, &left, &right, 0, &c, 1);
        at("%s", k->name);
        check(c == (k->kr == 2 ? 0 : 0x1p-30f));
    }
}

/* tests/CMakeLists.txt runs this with SCION_ISA unset and with every name. */
static void the_variable_chooses(void **state)
{
    (void)state;
    const char *wanted = getenv("SCION_ISA");
    const scn_cpu cpu = scn_cpu_here();
    const bool fast = scn_cpu_fast_pairs(&cpu);
    const scn_isa *isa;
    bool found = false;
    for (int i = 0; (isa = scn_isa_at(i)) != NULL; i++) {
        check(scn_isa_choose(isa->name, false) == isa && scn_isa_choose(isa->name, true) == isa);
        check(isa->f32->in == SCION_F32 && isa->f32->kr == 1 && isa->bf16->in == SCION_BF16);
        found = found || (wanted && strcmp(isa->name, wanted) == 0 && scn_isa_used() == isa);
    }
    check(found || scn_isa_used() == scn_isa_choose(NULL, fast));
    check(scn_isa_used() == scn_isa_used());
    check(scn_kernel_for(SCION_F32) == scn_isa_used()->f32 && scn_kernel_for(SCION_BF16) == scn_isa_used()->bf16);
    check(scn_isa_choose("no such set", fast) == scn_isa_choose(NULL, fast));
    check(scn_isa_choose(NULL, false)->chosen == SCN_ISA_ALWAYS &&
          scn_isa_choose(NULL, true)->chosen != SCN_ISA_BY_NAME);
    check(scn_isa_choose(NULL, false)->bf16->kr == 1); /* a CPU that is not known computes in float32 */
#ifdef __aarch64__
    const char *base = "neon";
#else
    const char *base = "portable";
#endif
    check(strcmp(scn_isa_choose(base, true)->name, base) == 0);
}

static void the_table_knows_cpus(void **state)
{
    (void)state;
    static const struct {
        scn_cpu cpu;
        bool fast_pairs;
    } cases[] = {
        {{"AuthenticAMD", 0x19, 0x11}, true},  /* Zen 4 */
        {{"AuthenticAMD", 0x19, 0x61}, true},  /* Zen 4 */
        {{"AuthenticAMD", 0x1a, 0x02}, true},  /* Zen 5 */
        {{"AuthenticAMD", 0x1a, 0x44}, true},  /* Zen 5 */
        {{"AuthenticAMD", 0x19, 0x21}, false}, /* Zen 3 has no such instruction */
        {{"AuthenticAMD", 0x1a, 0x50}, false}, /* not known */
        {{"GenuineIntel", 6, 0x55}, false},    /* Cooper Lake */
        {{"GenuineIntel", 6, 0x8f}, false},    /* Sapphire Rapids */
        {{"GenuineIntel", 6, 0xcf}, false},    /* Emerald Rapids */
        {{"GenuineIntel", 0x19, 0x11}, false}, {{"", 0, 0}, false},
    };
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        at("%s %x %x", cases[i].cpu.vendor, cases[i].cpu.family, cases[i].cpu.model);
        check(scn_cpu_fast_pairs(&cases[i].cpu) == cases[i].fast_pairs);
    }
    check(scn_cpu_table_wrong(true, 100, 200) && scn_cpu_table_wrong(false, 400, 200));
    check(!scn_cpu_table_wrong(true, 400, 200) && !scn_cpu_table_wrong(false, 100, 200));
    check(!scn_cpu_table_wrong(true, 220, 200) && !scn_cpu_table_wrong(false, 220, 200)); /* noise */
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
    const char *wanted = getenv("SCION_ISA");
    if (wanted && *wanted && strcmp(scn_isa_used()->name, wanted) != 0)
        return 77; /* this CPU lacks it */
    const struct CMUnitTest tests[] = {
        LAW(small_products_are_products),  LAW(tiles_of_panels_are_products),
        LAW(packed_products_are_products), LAW(pairs_have_their_order),
        LAW(the_variable_chooses),         LAW(the_table_knows_cpus),
        LAW(transpose_of_every_shape),     LAW(test_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
