/* The size of a step's change, relative to the weights. */
#include "run/update_size.h"
#include "tiny.h"
#include "trainer_tests.h"

static trainer *make(const char *pairs)
{
    const config c = tiny(pairs);
    trainer *t = NULL;
    scion_error err = {0};
    OK(tiny_create(&t, &c, &err));
    return t;
}

static void multiply(const trainer *t, float factor)
{
    for (int64_t p = 0; p < tape_param_count(t->model.tape); p++) {
        const tape_value *v = tape_param_at(t->model.tape, p);
        for (int64_t i = 0; i < v->count; i++) {
            float x;
            if (v->data) {
                v->data[i] *= factor;
                continue;
            }
            scn_from_bf16(1, v->half + i, &x);
            x *= factor;
            scn_to_bf16(1, &x, v->half + i);
        }
    }
}

/* All weights times 1.25, exact in both types up to a rounding of 2^-9: changed by a quarter; parameters of more
 * entries than are measured as well. */
static void a_known_change(void **state)
{
    static const char *const cases[] = {TINY_GPT "width=128", TINY_GPT "width=128 weights=bf16"};
    run_norm norms[64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        trainer *t = make(cases[i]);
        const int64_t count = tape_param_count(t->model.tape);
        update_size *u = update_size_create(t->model.tape);
        bool large = false;
        assert_true(u && count <= 64);
        update_size_measure(u, norms, count);
        assert_true(isnan(norms[0].update_size)); /* nothing was kept */
        update_size_keep(u);
        multiply(t, 1.25f);
        update_size_measure(u, norms, count);
        for (int64_t p = 0; p < count; p++) {
            large = large || tape_param_at(t->model.tape, p)->count > UPDATE_ENTRIES;
            near(tape_param_at(t->model.tape, p)->name, norms[p].update_size, 0.25, i == 0 ? 1e-6 : 0x1p-8);
        }
        assert_true(large);
        update_size_keep(u);
        update_size_measure(u, norms, count);
        assert_true(norms[0].update_size == 0);
        multiply(t, 0);
        update_size_keep(u);
        update_size_measure(u, norms, count);
        assert_true(isnan(norms[0].update_size)); /* weights of 0 have no scale */
        update_size_free(u);
        trainer_free(t);
    }
    update_size_free(NULL);
}

/* uscion with the sign norm moves every entry by the same: the sample's ratio is that of all entries if all have one
 * size. */
static void a_step_of_known_size(void **state)
{
    trainer *t = make(TINY_GPT "rule=uscion norms=sign lr=0.25 schedule=constant");
    const int64_t count = tape_param_count(t->model.tape);
    update_size *u = update_size_create(t->model.tape);
    run_norm norms[64];
    double loss;
    scion_error err = {0};
    (void)state;
    assert_true(u && count <= 64);
    update_size_keep(
        u); /* weights start as random signs on the boundary: a step is lr of that, or 0 without gradient */
    OK(tiny_step(t, &loss, &err));
    update_size_measure(u, norms, count);
    for (int64_t p = 0; p < count; p++)
        assert_true(norms[p].update_size > 0 && norms[p].update_size <= 0.25 * (1 + 1e-6));
    near("head", norms[count - 1].update_size, 0.25, 1e-6);
    update_size_free(u);
    trainer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_known_change), cmocka_unit_test(a_step_of_known_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
