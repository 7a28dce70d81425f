/* The search space of scion tune: every direction that it leaves out is one in which a run does not change, shown by
 * training along it, and one that it keeps is not. */
#include "tiny.h"

#include "trainer_tests.h"
#include "tune/tune.h"

#define LR 1u
#define FIRST 2u
#define HIDDEN 4u
#define LAST 8u

static unsigned searched(const config *c)
{
    tune_space s;
    scion_error err;
    unsigned axes = 0;
    OK(tune_space_make(&s, c, &err));
    for (int a = 0; a < TUNE_AXES; a++) {
        axes |= s.fixed[a] ? 0u : 1u << a;
        assert_true(s.low[a] <= 0 && s.high[a] >= 0);
        if (s.fixed[a])
            assert_true(s.low[a] == 0 && s.high[a] == 0);
    }
    return axes;
}

static void each_rule_has_its_axes(void **state)
{
    static const struct {
        const char *pairs;
        unsigned axes;
    } cases[] = {
        {TINY_GPT "rule=scion", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=scion tied=1", LR | HIDDEN | LAST},
        {TINY_GPT "rule=scion activation=relu", LR | HIDDEN | LAST},
        {TINY_GPT "rule=scion activation=relu qk_norm=0", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=scion activation=relu2", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=scion activation=relu boundary_init=0", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=mars", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=uscion", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=uscion boundary_init=0", LR | FIRST | LAST},
        {TINY_GPT "rule=uscion boundary_init=0 weight_decay=0.1", LR | FIRST | HIDDEN | LAST},
        {TINY_GPT "rule=almond boundary_init=0", LR | FIRST | LAST},
        {TINY_GPT "rule=ssd boundary_init=0", LR | FIRST | LAST},
        {TINY_GPT "rule=signum", LR | FIRST | LAST},
        {TINY_GPT "rule=signsgd", LR | FIRST | LAST},
        {TINY_GPT "rule=mnsgd", LR | FIRST | LAST},
        {TINY_GPT "rule=nsgd tied=1", LR | LAST},
        {TINY_GPT "rule=muon boundary_init=0", LR | HIDDEN},
        {TINY_GPT "rule=adamw boundary_init=0", LR},
        {TINY_GPT "rule=sgd boundary_init=0", LR},
        {TINY_MLP "rule=scion", LR | FIRST | HIDDEN | LAST},
        {TINY_MLP "rule=scion activation=relu bias=0", LR | LAST},
        {TINY_MLP "rule=scion activation=relu2 bias=0", LR | LAST},
        {TINY_MLP "rule=uscion activation=relu bias=0", LR | LAST},
        {TINY_MLP "rule=ssd activation=relu bias=0", LR | FIRST | HIDDEN | LAST},
        {TINY_MLP "rule=scion activation=relu bias=0 norms=spectral,rms,sign", LR | FIRST | HIDDEN | LAST},
        {TINY_MLP "rule=scion activation=tanh bias=0 layers=2", LR | FIRST | LAST},
        {TINY_MLP "rule=uscion bias=0 layers=2 boundary_init=0", LR | FIRST},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const config c = tiny(cases[i].pairs);
        if (searched(&c) != cases[i].axes)
            fail_msg("%s: axes %x, expected %x", cases[i].pairs, searched(&c), cases[i].axes);
    }
}

/* Validation loss after a few steps, times 2^power along the axes. */
static double loss_of(const char *pairs, tune_point p)
{
    config c = tiny(pairs);
    trainer *t = NULL;
    scion_error err;
    double loss = NAN;
    c.training.steps = 5;
    c.training.threads = 1;
    c = tune_config(&c, &p, 1);
    OK(tiny_create(&t, &c, &err));
    while (t->step < t->steps)
        OK(tiny_step(t, &loss, &err));
    OK(trainer_evaluate(t, 1, &loss, NULL, &err));
    trainer_free(t);
    return loss;
}

/* Factors of two are exact in float32, and so are these laws but for the epsilon of the RMS norm, 2^-23 beside mean
 * squares near 1, which the steps then amplify. */
static const double exact = 1e-6, nearly = 1e-3;

static void what_is_left_out_changes_nothing(void **state)
{
    static const struct {
        const char *pairs;
        tune_point along;
        const double *tolerance;
    } cases[] = {
        {TINY_GPT "rule=scion tied=1", {{0, 2, 0, 0}}, &exact},
        {TINY_GPT "rule=scion activation=relu", {{0, 2, 1, 0}}, &nearly},
        {TINY_GPT "rule=uscion activation=scaled_relu", {{0, 2, 1, 0}}, &nearly},
        {TINY_GPT "rule=uscion boundary_init=0", {{1, -1, -1, -1}}, &exact},
        {TINY_GPT "rule=almond boundary_init=0", {{1, -1, -1, -1}}, &exact},
        {TINY_GPT "rule=ssd boundary_init=0 lr=2^-12", {{2, -1, -1, -1}}, &exact},
        {TINY_GPT "rule=signum lr=2^-12", {{-1, 1, 1, 1}}, &exact},
        {TINY_GPT "rule=signsgd lr=2^-12", {{-1, 1, 1, 1}}, &exact},
        {TINY_GPT "rule=mnsgd lr=2^-8", {{-1, 1, 1, 1}}, &exact},
        {TINY_GPT "rule=muon boundary_init=0 lr=2^-8", {{0, 1, 0, -2}}, &exact},
        {TINY_GPT "rule=adamw boundary_init=0 lr=2^-8", {{0, 2, 1, -1}}, &exact},
        {TINY_MLP "rule=scion activation=relu bias=0", {{0, 1, -2, 1}}, &exact},
        {TINY_MLP "rule=mars activation=relu bias=0", {{0, 1, 1, -2}}, &exact},
        {TINY_MLP "rule=scion activation=relu2 bias=0", {{0, 1, 0, -4}}, &exact},
        {TINY_MLP "rule=scion bias=0 layers=2", {{0, 0, 2, 0}}, &exact},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near(cases[i].pairs, loss_of(cases[i].pairs, cases[i].along), loss_of(cases[i].pairs, (tune_point){{0}}),
             *cases[i].tolerance);
}

static void what_is_searched_changes_the_run(void **state)
{
    static const char *const cases[] = {
        TINY_GPT "rule=scion",
        TINY_GPT "rule=uscion",
        TINY_GPT "rule=uscion boundary_init=0",
        TINY_GPT "rule=signum lr=2^-12",
        TINY_GPT "rule=muon boundary_init=0 lr=2^-8",
        TINY_MLP "rule=scion",
        TINY_MLP "rule=scion activation=relu bias=0",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const config c = tiny(cases[i]);
        const double base = loss_of(cases[i], (tune_point){{0}});
        for (unsigned a = 0; a < TUNE_AXES; a++) {
            tune_point p = {{0}};
            p.power[a] = 1;
            if ((searched(&c) >> a & 1) && fabs(loss_of(cases[i], p) - base) < 1e-5 * base)
                fail_msg("%s: axis %u changes nothing", cases[i], a);
        }
    }
}

/* scion decays by lr, which cannot be above 1; the grid ends there, and a preset beyond is refused. */
static void lr_stays_where_the_rule_takes_it(void **state)
{
    config c = tiny(TINY_GPT "rule=scion lr=2^-2");
    tune_space s;
    scion_error err;
    (void)state;
    OK(tune_space_make(&s, &c, &err));
    assert_int_equal(s.low[TUNE_LR], -4);
    assert_int_equal(s.high[TUNE_LR], 2);
    assert_int_equal(s.max_lr, 2);
    c.training.lr = 2;
    assert_int_equal(tune_space_make(&s, &c, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "lr is 2, expected at most 1"));
    c.training.lr = 0;
    assert_int_equal(tune_space_make(&s, &c, &err), SCION_EINVAL);
    c = tiny(TINY_GPT "rule=adamw weight_decay=0.1 lr=2^-2");
    OK(tune_space_make(&s, &c, &err));
    assert_int_equal(s.high[TUNE_LR], 4);
    assert_int_equal(s.max_lr, 5); /* 8 x 0.1 <= 1 < 16 x 0.1 */
    assert_int_equal(tune_space_size(&s), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_has_its_axes),
        cmocka_unit_test(what_is_left_out_changes_nothing),
        cmocka_unit_test(what_is_searched_changes_the_run),
        cmocka_unit_test(lr_stays_where_the_rule_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
