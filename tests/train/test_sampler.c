/* The sampler: which tokens are kept, how often each is drawn; and stop texts, wherever tokens cut them. */
#include "tiny.h"

#include "base/random.h"
#include "generate/generated_text.h"
#include "generate/sampler.h"

static const uint64_t seed = 20250609;
static const sampler_options plain = {.temperature = 1, .top_p = 1, .repetition = 1};

static float *random_logits(int64_t n, uint64_t stream, float scale)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    scn_normals(seed, stream, 0, n + n % 2, x);
    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
    return x;
}

static const float *ordered;

/* By logit, the largest first; equal ones by index. */
static int in_order(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (ordered[i] != ordered[j])
        return ordered[i] < ordered[j] ? 1 : -1;
    return i - j;
}

static int32_t *sorted(const float *x, int64_t n)
{
    int32_t *order = calloc((size_t)n, sizeof *order);
    assert_non_null(order);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    ordered = x;
    qsort(order, (size_t)n, sizeof *order, in_order);
    return order;
}

static int by_number(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* The sampler keeps the first `count` of the order, and draws one of them. */
static void check_kept(const sampler_options *o, const float *x, int64_t n, const int32_t *order, int64_t count)
{
    sampler *s = sampler_create(o, n);
    assert_non_null(s);
    const int32_t drawn = sampler_draw(s, x, seed, 7);
    int64_t kept;
    const int32_t *got = sampler_kept(s, &kept);
    assert_int_equal(kept, count);
    int32_t *a = malloc((size_t)count * sizeof *a), *b = malloc((size_t)count * sizeof *b);
    assert_true(a && b);
    memcpy(a, got, (size_t)count * sizeof *a);
    memcpy(b, order, (size_t)count * sizeof *b);
    qsort(a, (size_t)count, sizeof *a, by_number);
    qsort(b, (size_t)count, sizeof *b, by_number);
    assert_memory_equal(a, b, (size_t)count * sizeof *a);
    bool among = false;
    for (int64_t i = 0; i < count; i++)
        among = among || a[i] == drawn;
    assert_true(among);
    free(a);
    free(b);
    sampler_free(s);
}

/* Sharp and flat distributions, with many equal logits and without. */
static float *case_logits(int i, int64_t n)
{
    float *x = random_logits(n, (uint64_t)i, i % 3 == 0 ? 20 : i % 3 == 1 ? 1 : 0);
    for (int64_t k = 0; i % 2 && k < n; k++)
        x[k] = rintf(x[k]);
    return x;
}

static void top_k_keeps_the_k_largest(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const int64_t n = 1 + 333 * i;
        float *x = case_logits(i, n);
        int32_t *order = sorted(x, n);
        for (int64_t k = 1; k <= n; k += 1 + k / 2) {
            sampler_options o = plain;
            o.top_k = k;
            check_kept(&o, x, n, order, k);
        }
        free(order);
        free(x);
    }
}

/* As few as have the share p; p is put between the sums, so that rounding decides nothing. */
static void top_p_keeps_the_smallest_set(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const int64_t n = 2 + 200 * i;
        float *x = case_logits(i, n);
        int32_t *order = sorted(x, n);
        double all = 0, before = 0;
        for (int64_t k = 0; k < n; k++)
            all += exp((double)(x[order[k]] - x[order[0]]) / 0.7);
        for (int64_t k = 0; k < n; k++) {
            const double weight = exp((double)(x[order[k]] - x[order[0]]) / 0.7);
            sampler_options o = plain;
            o.temperature = 0.7;
            o.top_p = (before + weight / 2) / all;
            before += weight;
            if (weight > 1e-4 * all && k % 7 == 0)
                check_kept(&o, x, n, order, k + 1);
        }
        sampler_options none = plain;
        none.top_p = 0;
        check_kept(&none, x, n, order, 1);
        free(order);
        free(x);
    }
}

/* top_p counts what top_k has left: the fewest of those that have the share p of their sum. */
static void top_p_is_a_share_of_top_k(void **state)
{
    const float x[] = {logf(4), logf(3), logf(2), logf(1), logf(10)};
    const int32_t order[] = {4, 0, 1, 2, 3};
    sampler_options o = plain;
    (void)state;
    o.top_k = 3; /* 10, 4, 3 */
    o.top_p = 13.9 / 17;
    check_kept(&o, x, 5, order, 2);
    o.top_p = 14.1 / 17;
    check_kept(&o, x, 5, order, 3);
}

static void min_p_compares_with_the_likeliest(void **state)
{
    const float x[] = {logf(4), logf(3), logf(2), logf(1), logf(10)};
    const int32_t order[] = {4, 0, 1, 2, 3};
    sampler_options o = plain;
    (void)state;
    o.min_p = 0.29;
    check_kept(&o, x, 5, order, 3);
    o.min_p = 0.31;
    check_kept(&o, x, 5, order, 2);
    o.min_p = 1;
    check_kept(&o, x, 5, order, 1);
}

/* Tokens of the text so far become less likely, whatever the sign of their logits, until they are forgotten. */
static void repetition_divides_and_multiplies(void **state)
{
    const float x[] = {2, 1.5f, -1, -1.5f};
    sampler_options o = plain;
    o.temperature = 0;
    o.repetition = 2;
    sampler *s = sampler_create(&o, 4);
    (void)state;
    assert_non_null(s);
    assert_int_equal(sampler_draw(s, x, seed, 0), 0);
    sampler_saw(s, 3, (int32_t[]){0, 2, 77});
    assert_int_equal(sampler_draw(s, x, seed, 0), 1); /* 1, 1.5, -2, -1.5 */
    sampler_saw(s, 1, (int32_t[]){1});
    assert_int_equal(sampler_draw(s, x, seed, 0), 0); /* 1, 0.75, ... */
    const float negative[] = {-2, -3.9f, -1.8f, -5};
    assert_int_equal(sampler_draw(s, negative, seed, 0), 2); /* -4, -7.8, -3.6, -5 */
    sampler_forget(s);
    assert_int_equal(sampler_draw(s, x, seed, 0), 0);
    sampler_free(s);
}

/* Chi-square of the counts against the softmax, over tokens that are expected at least ten times. With a fixed seed
 * the value is fixed; 99.9 % of all seeds give less than the bound (Wilson and Hilferty's approximation). */
static void draws_follow_the_softmax(void **state)
{
    enum { n = 300, draws = 60000 };
    (void)state;
    for (int i = 0; i < 4; i++) {
        static const struct {
            double temperature, top_p;
            int64_t top_k;
            float scale;
        } how[] = {{1, 1, 0, 1}, {0.8, 1, 0, 6}, {1, 1, 40, 1}, {1.5, 0.9, 0, 2}};
        sampler_options o = plain;
        float *x = random_logits(n, 50 + (uint64_t)i, how[i].scale);
        double weight[n] = {0}, sum = 0, chi = 0, rest = 0, rest_got = 0;
        int64_t kept, got[n] = {0}, cells = 0;
        o.temperature = how[i].temperature;
        o.top_p = how[i].top_p;
        o.top_k = how[i].top_k;
        sampler *s = sampler_create(&o, n);
        assert_non_null(s);
        for (uint64_t k = 0; k < draws; k++)
            got[sampler_draw(s, x, seed, k)]++;
        const int32_t *tokens = sampler_kept(s, &kept);
        for (int64_t k = 0; k < kept; k++)
            sum += weight[tokens[k]] = exp((double)x[tokens[k]] / o.temperature);
        for (int k = 0; k < n; k++) {
            const double want = draws * weight[k] / sum, off = (double)got[k] - want;
            if (want >= 10) {
                chi += off * off / want;
                cells++;
            } else {
                rest += want;
                rest_got += (double)got[k];
            }
            assert_true(weight[k] > 0 || got[k] == 0);
        }
        if (rest >= 10) {
            chi += (rest_got - rest) * (rest_got - rest) / rest;
            cells++;
        }
        const double f = (double)(cells - 1), root = 1 - 2 / (9 * f) + 3.09 * sqrt(2 / (9 * f));
        if (!(chi < f * root * root * root))
            fail_msg("case %d: chi-square %g of %g degrees of freedom, seed %llu", i, chi, f,
                     (unsigned long long)seed);
        sampler_free(s);
        free(x);
    }
}

static void logits_that_are_not_finite_are_refused(void **state)
{
    sampler *s = sampler_create(&plain, 3);
    (void)state;
    assert_non_null(s);
    assert_int_equal(sampler_draw(s, (float[]){0, NAN, 1}, seed, 0), -1);
    assert_int_equal(sampler_draw(s, (float[]){0, INFINITY, 1}, seed, 0), -1);
    assert_int_equal(sampler_draw(s, (float[]){-INFINITY, 2, 1}, seed, 0), -1);
    assert_in_range(sampler_draw(s, (float[]){-3e38f, 3e38f, 1}, seed, 0), 0, 2);
    sampler_free(s);
    for (int at = 0; at < 40; at++) { /* wherever it is */
        float x[40] = {0};
        s = sampler_create(&plain, 40);
        assert_non_null(s);
        x[at] = at % 2 ? NAN : -INFINITY;
        assert_int_equal(sampler_draw(s, x, seed, 0), -1);
        sampler_free(s);
    }
    sampler_free(NULL);
}

/* ---- Stop texts ----------------------------------------------------------------------------------------------- */

/* The text in tokens of `size` bytes: ends before the first stop text, and nothing is settled that the end takes
 * back. */
static void check_stop(const char *text, const char *const *stops, const char *want, bool stopped)
{
    for (size_t size = 1; size <= strlen(text); size++) {
        generated_text x = {.bytes = NULL};
        for (size_t at = 0; at < strlen(text) && !x.stopped; at += size) {
            const size_t left = strlen(text) - at;
            assert_true(generated_text_add(&x, text + at, left < size ? left : size, stops));
            assert_true(x.settled <= strlen(want));
        }
        generated_text_end(&x);
        assert_int_equal(x.stopped, stopped);
        assert_int_equal(x.settled, x.length);
        assert_string_equal(x.bytes, want);
        generated_text_free(&x);
    }
}

static void a_stop_text_ends_wherever_tokens_cut_it(void **state)
{
    (void)state;
    check_stop("one two three", (const char *const[]){"two", NULL}, "one ", true);
    check_stop("aaab", (const char *const[]){"aab", NULL}, "a", true);
    check_stop("ROMEO: hey\n\nJULIET: ho", (const char *const[]){"JULIET:", "\n\n", NULL}, "ROMEO: hey", true);
    check_stop("abcab", (const char *const[]){"abd", "cabx", NULL}, "abcab", false);
    check_stop("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x99\x82 end", NULL,
               "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x99\x82 end", false);
    check_stop("\xe2\x82\xac\xc3\xaf", (const char *const[]){"\xc3\xaf", NULL}, "\xe2\x82\xac", true);
    check_stop("xyz", (const char *const[]){"x", NULL}, "", true);
}

/* Characters are printed whole. */
static void half_a_character_is_not_settled(void **state)
{
    generated_text x = {.bytes = NULL};
    (void)state;
    assert_true(generated_text_add(&x, "a\xe2\x82", 3, NULL));
    assert_int_equal(x.settled, 1);
    assert_true(generated_text_add(&x, "\xac", 1, NULL));
    assert_int_equal(x.settled, 4);
    generated_text_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_k_keeps_the_k_largest),
        cmocka_unit_test(top_p_keeps_the_smallest_set),
        cmocka_unit_test(top_p_is_a_share_of_top_k),
        cmocka_unit_test(min_p_compares_with_the_likeliest),
        cmocka_unit_test(repetition_divides_and_multiplies),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(logits_that_are_not_finite_are_refused),
        cmocka_unit_test(a_stop_text_ends_wherever_tokens_cut_it),
        cmocka_unit_test(half_a_character_is_not_settled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
