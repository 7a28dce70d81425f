/* Samples that a validation measures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "trainer_tests.h"

static trainer *make(const char *pairs)
{
    config c;
    char words[512], *rest = NULL;
    trainer *t = NULL;
    scion_error err = {0};
    config_init(&c);
    snprintf(words, sizeof words,
             "data_kind=synthetic width=8 head_size=4 layers=1 block=16 batch=8 steps=2 threads=1 vocab=16 "
             "val_fraction=0.01 %s",
             pairs);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (config_set_pair(&c, word, &err) != SCION_OK)
            fail_msg("%s", err.message);
    if (tiny_create(&t, &c, &err) != SCION_OK)
        fail_msg("%s", err.message);
    return t;
}

/* How many samples, on the way and at the end. 2^20 tokens, a hundredth: 10485, of which 655 windows of 16. */
static void test_sizes(void **state)
{
    static const struct {
        const char *pairs;
        int64_t samples, end;
    } cases[] = {
        {"", 655, 655},
        {"eval_tokens=0", 655, 655},
        {"eval_tokens=1600", 100, 100},
        {"eval_tokens=1", 1, 1},
        {"eval_tokens=1600 eval_batches=3", 24, 24},
        {"eval_batches=3 eval_end=8000", 24, 504}, /* whole batches of 8 */
        {"eval_tokens=1600 eval_end=1m", 100, 655},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trainer *t = make(cases[i].pairs);
        assert_int_equal(trainer_validation_samples(t, false), cases[i].samples);
        assert_int_equal(trainer_validation_samples(t, true), cases[i].end);
        assert_int_equal(trainer_validation_passes(t, false), (cases[i].samples + 7) / 8);
        trainer_free(t);
    }
}

static scion_status validate(trainer *t, double *loss, scion_error *err)
{
    trainer_scores scores;
    const scion_status status = trainer_validate(t, true, NULL, &scores, NULL, err);
    *loss = scores.loss;
    return status;
}

/* Samples of a part are spread over it: as many as wanted, in order, each once, the gaps equal but for one. */
static void test_spread(void **state)
{
    enum { windows = 655, block = 16 };
    trainer *t = make("");
    int32_t all[windows][block], some[8][block], targets[8][block];
    scion_error err = {0};
    (void)state;
    for (int64_t i = 0; i < windows; i++) {
        void *const arrays[DATA_ARRAYS] = {all[i], targets};
        assert_int_equal(data_fill(t->data, (data_sequence){.part = DATA_VAL}, i, 1, arrays, &err), SCION_OK);
    }
    static const int64_t of[] = {1, 7, 100, 654, 655};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        for (int64_t first = 0; first < of[k]; first += 8) {
            void *const arrays[DATA_ARRAYS] = {some, targets};
            assert_int_equal(
                data_fill(t->data, (data_sequence){.part = DATA_VAL, .even = of[k]}, first, 8, arrays, &err),
                SCION_OK);
            for (int64_t i = 0; i < 8; i++)
                if (first + i < of[k])
                    assert_memory_equal(some[i], all[(first + i) * windows / of[k]], sizeof some[i]);
                else
                    assert_int_equal(targets[i][0], -1);
        }
    trainer_free(t);
}

/* A validation on all of the part is that of before; on a part of it, the mean over that part. */
static void test_validation(void **state)
{
    double whole, capped, first, first_tokens;
    scion_error err = {0};
    trainer *t = make("eval_tokens=1m");
    (void)state;
    assert_int_equal(trainer_evaluate(t, 0, &whole, NULL, &err), SCION_OK);
    assert_int_equal(validate(t, &capped, &err), SCION_OK);
    assert_true(whole == capped);
    t->c.run.eval_tokens = 160;
    assert_int_equal(validate(t, &capped, &err), SCION_OK);
    assert_true(capped != whole && fabs(capped - whole) < 0.5 * whole);
    t->c.run.eval_end = 256; /* the first two batches */
    assert_int_equal(validate(t, &first_tokens, &err), SCION_OK);
    assert_int_equal(trainer_evaluate(t, 2, &first, NULL, &err), SCION_OK);
    assert_true(first == first_tokens);
    trainer_free(t);
}

/* The code base of the paper's NanoGPT runs ends on 10,485,760 tokens of validation: so do these presets. */
static void check_nanogpt(void *seen, const char *name, const char *about)
{
    config c;
    scion_error err = {0};
    (void)about;
    if (strncmp(name, "nanogpt-", 8) != 0)
        return;
    config_init(&c);
    if (config_preset(&c, name, &err) != SCION_OK)
        fail_msg("%s", err.message);
    if (c.run.eval_end != 10485760)
        fail_msg("%s ends on %lld tokens", name, (long long)c.run.eval_end);
    ++*(int *)seen;
}

static void test_nanogpt(void **state)
{
    int seen = 0;
    (void)state;
    config_presets(check_nanogpt, &seen);
    assert_int_equal(seen, 20); /* five sizes, four rules */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_nanogpt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
