/* Decoding ahead gives the same samples as a direct fetch, with any number of threads, in any order, whether or not
 * they were asked for; errors arrive where the sample is used; and a set can be closed while it decodes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/fail.h"
#include "base/random.h"
#include "data/prefetch.h"

enum { features = 12, train = 50, val = 13, classes = 1000, bad = 1000, stream_pixels = 1, stream_labels = 2 };

/* Duration of a fetch, and number of fetches. */
static int delay_us;
static int fetches;
/* The first `meeting` fetches wait for each other: they end only if they run on as many threads. */
static int meeting, met;
static bool alone;

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    __atomic_add_fetch(&fetches, 1, __ATOMIC_RELAXED);
    if (delay_us > 0)
        usleep((useconds_t)delay_us);
    if (meeting > 0 && __atomic_add_fetch(&met, 1, __ATOMIC_SEQ_CST) <= meeting) {
        for (int i = 0; i < 20000 && __atomic_load_n(&met, __ATOMIC_SEQ_CST) < meeting; i++)
            usleep(1000);
        if (__atomic_load_n(&met, __ATOMIC_SEQ_CST) < meeting)
            __atomic_store_n(&alone, true, __ATOMIC_SEQ_CST);
    }
    if (number >= bad)
        return train_fail(err, SCION_EINVAL, "image %lld: damaged", (long long)number);
    for (int k = 0; arrays[0] && k < features; k++) /* of the number too, as augmentation would be */
        ((float *)arrays[0])[k] = (float)scn_uniform(d->seed, stream_pixels + (uint64_t)part * 100,
                                                     (uint64_t)(number * 1000 + sample * features + k));
    if (arrays[1])
        *(int32_t *)arrays[1] = (int32_t)(scn_philox(d->seed, stream_labels, (uint64_t)sample).w[0] % classes);
    return SCION_OK;
}

static scion_status open_slow(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const int64_t shape[] = {3, 2, 2};
    (void)o;
    (void)context;
    (void)err;
    data_add_array(d, "pixels", DATA_FLOAT32, 3, shape, 0);
    data_add_array(d, "targets", DATA_INT32, 0, NULL, classes);
    d->info.units[DATA_TRAIN] = d->info.samples[DATA_TRAIN] = train;
    d->info.units[DATA_VAL] = d->info.samples[DATA_VAL] = val;
    d->fetch = fetch;
    d->background = true;
    return SCION_OK;
}

static int closed;

static void close_slow(data_set *d)
{
    (void)d;
    closed++;
}

static const data_kind slow = {.name = "slow", .no_path = true, .open = open_slow, .close = close_slow};
const data_kind *const data_kinds[] = {&slow, NULL};

static data_set *open_with(int64_t ahead, int workers)
{
    const data_options o = {.kind = "slow", .block = 1};
    const data_context context = {.seed = 5, .ahead = ahead, .workers = workers};
    data_set *d = NULL;
    scion_error err = {0};
    if (data_open(&d, &o, &context, &err) != SCION_OK)
        fail_msg("%s", err.message);
    return d;
}

typedef struct batch {
    float pixels[32 * features];
    int32_t labels[32];
} batch;

static scion_status fill(const data_set *d, data_part part, int64_t first, int64_t count, batch *b, scion_error *err)
{
    void *const arrays[DATA_ARRAYS] = {b->pixels, b->labels};
    return data_fill(d, (data_sequence){.part = part}, first, count, arrays, err);
}

static void must_be_same(const data_set *plain, const data_set *d, data_part part, int64_t first, int64_t count)
{
    batch a = {.labels = {0}}, b = {.labels = {1}};
    assert_int_equal(fill(plain, part, first, count, &a, NULL), SCION_OK);
    assert_int_equal(fill(d, part, first, count, &b, NULL), SCION_OK);
    assert_memory_equal(a.pixels, b.pixels, (size_t)count * features * sizeof(float));
    assert_memory_equal(a.labels, b.labels, (size_t)count * sizeof(int32_t));
}

/* Prefetched, not prefetched, half of it, again, out of order, another part between. */
static void what_is_decoded_ahead_is_the_same(void **state)
{
    data_set *plain = open_with(0, 0);
    (void)state;
    assert_null(plain->pool);
    for (int workers = 1; workers <= 4; workers++) {
        data_set *d = open_with(8, workers);
        assert_non_null(d->pool);
        for (int64_t i = 0; i < 40; i++) {
            data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, (i + 1) * 8, 8);
            must_be_same(plain, d, DATA_TRAIN, i * 8, 8);
            if (i % 7 == 0) {
                must_be_same(plain, d, DATA_TRAIN, i * 8, 8);
                data_prefetch(d, (data_sequence){.part = DATA_VAL}, 0,
                              32); /* past its end, and more than was announced */
                must_be_same(plain, d, DATA_VAL, 8, 8);
                must_be_same(plain, d, DATA_TRAIN, 3, 5);
            }
        }
        data_close(d);
    }
    data_close(plain);
}

/* Samples [first, first + 8) of `of` spread over the validation part, or of the training part in its own order. */
static scion_status fill_other(const data_set *d, int64_t of, int64_t first, batch *b)
{
    void *const arrays[DATA_ARRAYS] = {b->pixels, b->labels};
    memset(b, 0, sizeof *b);
    return of > 0 ? data_fill(d, (data_sequence){.part = DATA_VAL, .even = of}, first, 8, arrays, NULL)
                  : data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, first, 8, arrays, NULL);
}

/* Waits until the pool has fetched `count` samples, at most twenty seconds. */
static void wait_for_fetches(int64_t count)
{
    for (int i = 0; i < 20000 && __atomic_load_n(&fetches, __ATOMIC_RELAXED) < count; i++)
        usleep(1000);
}

/* The other sequences are the same with decoding ahead; those that were asked for are fetched once, by the pool. */
static void every_sequence_is_decoded_ahead(void **state)
{
    static const int64_t sizes[] = {0, 1, 5, 8, 12, val};
    data_set *plain = open_with(0, 0), *d = open_with(8, 3);
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int64_t first = 0; first < 16; first += 8) {
            const int64_t of = sizes[k], left = of == 0 || of - first > 8 ? 8 : of > first ? of - first : 0;
            batch a, b;
            assert_int_equal(fill_other(plain, of, first, &a), SCION_OK);
            fetches = 0;
            if (of > 0) {
                data_prefetch(d, (data_sequence){.part = DATA_VAL, .even = of}, first, 8);
                wait_for_fetches(left);
            }
            assert_int_equal(fill_other(d, of, first, &b), SCION_OK);
            assert_int_equal(fetches, left);
            assert_memory_equal(&a, &b, sizeof a);
            must_be_same(plain, d, DATA_VAL, 0, 8); /* other samples of the same numbers */
        }
    data_close(d);
    data_close(plain);
}

/* Nobody has asked for them: several threads decode. */
static void a_fill_uses_all_threads(void **state)
{
    (void)state;
    for (int64_t of = 0; of <= 12; of += 12) {
        data_set *d = open_with(8, 2);
        batch b;
        meeting = 2;
        met = 0;
        alone = false;
        assert_int_equal(fill_other(d, of, 0, &b), SCION_OK);
        assert_true(met >= meeting && !alone);
        meeting = 0;
        data_close(d);
    }
}

/* Validation ends with padding. */
static void the_last_batch_is_padded(void **state)
{
    data_set *d = open_with(8, 2);
    batch b;
    (void)state;
    data_prefetch(d, (data_sequence){.part = DATA_VAL}, 8, 8);
    assert_int_equal(fill(d, DATA_VAL, 8, 8, &b, NULL), SCION_OK);
    for (int i = 0; i < 8; i++)
        assert_true(8 + i < val ? b.labels[i] >= 0 : b.labels[i] == -1 && b.pixels[i * features] == 0);
    data_close(d);
}

/* An array that is not wanted is not written. */
static void arrays_may_be_left_out(void **state)
{
    data_set *d = open_with(8, 2);
    int32_t labels[8], again[8];
    void *const arrays[DATA_ARRAYS] = {NULL, labels};
    (void)state;
    data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, 0, 8);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, 8, arrays, NULL), SCION_OK);
    for (int64_t i = 0; i < 8; i++) {
        void *one[DATA_ARRAYS] = {NULL, &again[i]};
        assert_int_equal(data_fetch_one(d, (data_sequence){.part = DATA_TRAIN}, i, one, NULL), SCION_OK);
    }
    assert_memory_equal(labels, again, sizeof labels);
    data_close(d);
}

static void an_error_arrives_with_its_sample(void **state)
{
    data_set *d = open_with(8, 2);
    batch b;
    scion_error err = {0};
    (void)state;
    data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, bad - 4, 8);
    assert_int_equal(fill(d, DATA_TRAIN, bad - 4, 4, &b, &err), SCION_OK);
    assert_int_equal(fill(d, DATA_TRAIN, bad - 1, 4, &b, &err), SCION_EINVAL);
    assert_string_equal(err.message, "image 1000: damaged");
    usleep(20000); /* now it comes from the background */
    assert_int_equal(fill(d, DATA_TRAIN, bad, 1, &b, &err), SCION_EINVAL);
    assert_string_equal(err.message, "image 1000: damaged");
    data_close(d);
}

/* The batch that was asked for is decoded while the caller does something else; its fill then fetches nothing. */
static void decoding_is_hidden(void **state)
{
    enum { batches = 10 };
    data_set *d = open_with(8, 2);
    batch b;
    (void)state;
    fetches = 0;
    assert_int_equal(fill(d, DATA_TRAIN, 0, 8, &b, NULL), SCION_OK);
    for (int64_t i = 1; i < batches; i++) {
        data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, i * 8, 8);
        wait_for_fetches(8 * (i + 1));
        assert_int_equal(fill(d, DATA_TRAIN, i * 8, 8, &b, NULL), SCION_OK);
        assert_int_equal(fetches, 8 * (i + 1));
    }
    data_close(d);
}

typedef struct caller {
    const data_set *d, *plain;
    int64_t first;
} caller;

static void *call(void *context)
{
    const caller *c = context;
    for (int64_t i = 0; i < 60; i++) {
        data_prefetch(c->d, (data_sequence){.part = i % 5 == 0 ? DATA_VAL : DATA_TRAIN}, c->first + i * 4, 8);
        must_be_same(c->plain, c->d, DATA_TRAIN, c->first + i * 4, 4);
        must_be_same(c->plain, c->d, DATA_VAL, i % 3 * 4, 4);
    }
    return NULL;
}

/* Many threads fill from one set and ask for overlapping samples. */
static void threads_share_a_set(void **state)
{
    enum { threads = 4 };
    data_set *d = open_with(8, 3), *plain = open_with(0, 0);
    pthread_t running[threads];
    caller c[threads];
    (void)state;
    for (int i = 0; i < threads; i++) {
        c[i] = (caller){d, plain, i * 6};
        assert_int_equal(pthread_create(&running[i], NULL, call, &c[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    data_close(d);
    data_close(plain);
}

static void a_set_closes_while_it_decodes(void **state)
{
    (void)state;
    delay_us = 3000;
    closed = 0;
    for (int i = 0; i < 20; i++) {
        data_set *d = open_with(16, 3);
        data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, 0, 16);
        if (i % 2)
            usleep(1500);
        data_close(d);
    }
    assert_int_equal(closed, 20);
    delay_us = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_decoded_ahead_is_the_same),
        cmocka_unit_test(every_sequence_is_decoded_ahead),
        cmocka_unit_test(a_fill_uses_all_threads),
        cmocka_unit_test(the_last_batch_is_padded),
        cmocka_unit_test(arrays_may_be_left_out),
        cmocka_unit_test(an_error_arrives_with_its_sample),
        cmocka_unit_test(decoding_is_hidden),
        cmocka_unit_test(threads_share_a_set),
        cmocka_unit_test(a_set_closes_while_it_decodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
