/* scion_minimize: known optima, the iterate that is returned, the calls it makes, reports, stops. */
#include "support.h"

#include <math.h>
#include <string.h>

static scion_error err;

/* ---- Known optima -------------------------------------------------------------------------------------- */

/* Gradient descent with step 1/2 halves the distance each time. */
static void test_quadratic_exactly(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 1);
    scion_options o = bowl_options(SCION_RULE_SGD, 1);
    scion_problem problem = bowl_problem(b, 20, SCION_SCHEDULE_CONSTANT, 0.5);
    scion_result result = {.size = sizeof result};
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    for (int i = 0; i < BOWL_N; i++) /* from 0 the distance is the target; float32 rounds at 6e-8 of it a step */
        check_le(fabs((double)b->x[i] - b->target[i] * (1 - 0x1p-20)), 1e-6 * fabs(b->target[i]));
    assert_int_equal(result.steps, 20);
    assert_int_equal(result.iterate, 21);
    assert_int_equal(b->calls, 20);
}

/* Over the ball of the sign norm, a box, the minimiser is the target clipped to it. The last step sizes bound how
 * far the entries inside still swing: 1/400 of the box. */
static void test_box(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 3); /* a box of 3/d_in = 0.75 */
    scion_options o = bowl_options(SCION_RULE_SCION, 1);
    scion_problem problem = bowl_problem(b, 800, SCION_SCHEDULE_LINEAR, 0.1);
    scion_result result = {.size = sizeof result};
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    for (int i = 0; i < BOWL_N; i++)
        check_le(fabs((double)b->x[i] - fmax(-0.75, fmin(0.75, b->target[i]))), 2 * 0.75 / 400);
    check_le(b->worst_norm, 1 + 1e-5);
}

/* Unconstrained Scion reaches the optimum in every norm. */
static void test_every_norm_reaches_it(void **state)
{
    (void)state;
    for (int norm = SCION_NORM_SPECTRAL; scion_enum_name(SCION_ENUM_NORM, norm); norm++) {
        bowl *b = bowl_make((scion_norm)norm, 1);
        b->p.role = SCION_ROLE_PLAIN;
        scion_options o = bowl_options(SCION_RULE_USCION, 0.5);
        scion_problem problem = bowl_problem(b, 1500, SCION_SCHEDULE_LINEAR, 0.03);
        scion_result result = {.size = sizeof result};
        at("norm %d", norm);
        check_ok(scion_minimize(&problem, &o, &result, &err), &err);
        for (int i = 0; i < BOWL_N; i++)
            check_le(fabs((double)b->x[i] - b->target[i]), 0.02);
    }
}

/* A schedule may be longer than the run: half of a linear decay. Gradient descent with step lr leaves 1 - lr of the
 * distance. */
static void test_schedule_of_its_own_length(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 1);
    scion_options o = bowl_options(SCION_RULE_SGD, 1);
    scion_schedule linear = {.size = sizeof linear, .kind = SCION_SCHEDULE_LINEAR, .peak = 0.5, .n = 8};
    scion_problem problem = bowl_problem(b, 4, SCION_SCHEDULE_CONSTANT, 0.5);
    double left = 1;
    problem.schedule = &linear;
    check_ok(scion_minimize(&problem, &o, NULL, &err), &err);
    for (int k = 0; k < 4; k++)
        left *= 1 - 0.5 * (8 - k) / 8;
    for (int i = 0; i < BOWL_N; i++) /* float32 rounds at 6e-8 a step */
        check_le(fabs((double)b->x[i] - b->target[i] * (1 - left)), 1e-6 * fabs(b->target[i]));
}

/* ---- What is returned and what is called ---------------------------------------------------------------- */

/* The last iterate is x^(n+1); a uniform one is each of x^1..x^n alike, and the weights are that iterate's. */
static void test_uniform_iterate(void **state)
{
    (void)state;
    enum { STEPS = 5, TRIALS = 2000 };
    int count[STEPS + 2] = {0};
    bowl *b = bowl_make(SCION_NORM_COL, 1);
    scion_options o = bowl_options(SCION_RULE_USCION, 0.5);
    for (int t = 0; t < TRIALS; t++) {
        scion_problem problem = bowl_problem(b, STEPS, SCION_SCHEDULE_CONSTANT, 0.1);
        scion_result result = {.size = sizeof result};
        problem.uniform = 1;
        problem.seed = run_seed() + (uint64_t)t;
        b->calls = 0;
        memset(b->x, 0, sizeof b->x);
        check_ok(scion_minimize(&problem, &o, &result, &err), &err);
        check(result.iterate >= 1 && result.iterate <= STEPS && result.steps == STEPS);
        check_bits(sizeof b->x, b->x, b->seen[result.iterate - 1].x);
        count[result.iterate]++;
    }
    for (int k = 1; k <= STEPS; k++) { /* five standard deviations of a binomial count */
        at("iterate %d was drawn %d times of %d", k, count[k], TRIALS);
        check_le(fabs(count[k] - TRIALS / (double)STEPS), 5 * sqrt(TRIALS * 0.2 * 0.8));
    }
}

/* The same seed gives the same samples and the same result; no sample comes twice. */
static void test_samples(void **state)
{
    (void)state;
    enum { STEPS = 50 };
    scion_options o = bowl_options(SCION_RULE_SCION, 0.1);
    float first[BOWL_N];
    uint64_t samples[STEPS];
    for (int t = 0; t < 3; t++) {
        bowl *b = bowl_make(SCION_NORM_ROW, 1);
        b->sigma = 0.1;
        scion_problem problem = bowl_problem(b, STEPS, SCION_SCHEDULE_CONSTANT, 0.1);
        problem.seed = t == 2 ? 6 : 5;
        check_ok(scion_minimize(&problem, &o, NULL, &err), &err);
        for (int k = 0; k < STEPS; k++) {
            assert_int_equal(b->seen[k].k, k + 1);
            if (t == 1)
                check(samples[k] == b->seen[k].sample);
            samples[k] = b->seen[k].sample;
            for (int j = 0; j < k; j++)
                check(samples[j] != samples[k]);
        }
        if (t == 1)
            check_bits(sizeof first, b->x, first);
        if (t == 2)
            check(memcmp(first, b->x, sizeof first) != 0);
        memcpy(first, b->x, sizeof first);
    }
}

/* MARS: two calls a step with one sample, the second at the weights before the last step. */
static void test_mars_calls(void **state)
{
    (void)state;
    enum { STEPS = 10 };
    bowl *b = bowl_make(SCION_NORM_SIGN, 1);
    b->sigma = 0.1;
    scion_options o = bowl_options(SCION_RULE_MARS, 0.2);
    scion_problem problem = bowl_problem(b, STEPS, SCION_SCHEDULE_CONSTANT, 0.1);
    scion_result result = {.size = sizeof result};
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    /* two calls a step but for the first, in either order: one where the last step was, one where it led */
    const float *present = b->seen[0].x;
    assert_int_equal(b->calls, 2 * STEPS - 1);
    for (int k = 2; k <= STEPS; k++) {
        int64_t c = 2 * k - 3;
        at("step %d", k);
        assert_int_equal(b->seen[c].k, k);
        assert_int_equal(b->seen[c + 1].k, k);
        check(b->seen[c].sample == b->seen[c + 1].sample);
        int first = memcmp(b->seen[c].x, present, sizeof b->x) == 0;
        int second = memcmp(b->seen[c + 1].x, present, sizeof b->x) == 0;
        check(first + second == 1);
        present = first ? b->seen[c + 1].x : b->seen[c].x;
    }
}

static void test_reports(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 2);
    scion_options o = bowl_options(SCION_RULE_SCION, 0.3);
    scion_problem problem = bowl_problem(b, 12, SCION_SCHEDULE_LINEAR, 0.3);
    scion_report last = {.size = sizeof last};
    scion_result result = {.size = sizeof result, .last = &last};
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    assert_int_equal(b->reports, 12);
    double dual_sum = 0, gap_sum = 0;
    for (int k = 0; k < 12; k++) {
        float g[BOWL_N] = {0};
        memcpy(b->x, b->seen[k].x, sizeof b->x);
        bowl_gradient(b, g, 0, 0);
        double dual = 2 * oracle_dual(&b->p, widen(BOWL_N, g));
        at("report %d", k);
        assert_int_equal(b->report[k].k, k + 1);
        check_rel(b->report[k].lr, 0.3 * (1 - k / 12.0), 1e-12);
        check_rel(b->report[k].momentum, 0.3, 1e-12);
        check_rel(b->report[k].dual_norm, dual, 1e-5);
        check_le(fabs(b->report[k].fw_gap - (dual + dot(BOWL_N, g, b->x))), 1e-5 * dual);
        dual_sum += b->report[k].dual_norm;
        gap_sum += b->report[k].fw_gap;
    }
    check_rel(result.mean_dual_norm, dual_sum / 12, 1e-9);
    check_rel(result.mean_fw_gap, gap_sum / 12, 1e-9);
    assert_int_equal(last.k, 12);
    /* every third step from the first on, and the last; or the last one alone */
    static const int64_t want[] = {1, 4, 7, 10, 12};
    b = bowl_make(SCION_NORM_SIGN, 2);
    problem.report_every = 3;
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    assert_int_equal(b->reports, COUNT_OF(want));
    for (int k = 0; k < COUNT_OF(want); k++)
        assert_int_equal(b->report[k].k, want[k]);
    b = bowl_make(SCION_NORM_SIGN, 2);
    problem.report_every = 0;
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    assert_int_equal(b->reports, 1);
    assert_int_equal(last.k, 12);
    check_rel(result.mean_dual_norm, last.dual_norm, 1e-12);
}

/* first_full is the analysis: the average starts at the first gradient, alpha_1 = 1, and is constant from then on.
 * Vanishing momentum has alpha_1 = 1 by itself. */
static void test_first_momentum(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        bowl *b = bowl_make(SCION_NORM_EUCLID, 2);
        b->p.role = SCION_ROLE_PLAIN;
        scion_options o = bowl_options(SCION_RULE_USCION, 0.25);
        scion_problem problem = bowl_problem(b, 12, SCION_SCHEDULE_CONSTANT, 0.1);
        double d[BOWL_N] = {0}, norm, x[BOWL_N];
        o.first_full = form > 0;
        o.vanishing = form == 2;
        check_ok(scion_minimize(&problem, &o, NULL, &err), &err);
        for (int k = 1; k < 12; k++) {
            const double a = form == 2 ? 1 / sqrt(k) : form == 1 && k == 1 ? 1 : 0.25;
            float g[BOWL_N] = {0};
            at("form %d, step %d", form, k);
            check_rel(b->report[k - 1].momentum, a, 1e-12);
            memcpy(b->x, b->seen[k - 1].x, sizeof b->x);
            bowl_gradient(b, g, 0, 0);
            norm = 0;
            for (int i = 0; i < BOWL_N; i++) {
                d[i] = (1 - a) * d[i] + a * (double)g[i];
                norm += d[i] * d[i];
            }
            for (int i = 0; i < BOWL_N; i++)
                x[i] = (double)b->x[i] - 0.1 * 2 * d[i] / sqrt(norm);
            check_array(BOWL_N, b->seen[k].x, x, 1e-5);
        }
    }
}

/* Reports are of the gradient, wherever the rule keeps its average. */
static void test_reports_of_light(void **state)
{
    (void)state;
    scion_report plain[12];
    for (int form = 0; form < 4; form++) { /* with an exact gradient for the reports, then without */
        int light = form % 2;
        bowl *b = bowl_make(SCION_NORM_COL, 2);
        b->sigma = form < 2 ? 0.1 : 0;
        scion_options o = bowl_options(SCION_RULE_SCION, 0.3);
        scion_problem problem = bowl_problem(b, 12, SCION_SCHEDULE_CONSTANT, 0.1);
        o.light = light;
        check_ok(scion_minimize(&problem, &o, NULL, &err), &err);
        for (int k = 0; k < 12 && light; k++) {
            at("form %d, report %d", form, k);
            check_rel(b->report[k].dual_norm, plain[k].dual_norm, 1e-4);
        }
        memcpy(plain, b->report, sizeof plain);
    }
}

/* A gradient that is not finite ends the run, with the weights as of then. */
static int broken_gradient(void *ctx, int64_t k, uint64_t sample)
{
    bowl *b = ctx;
    (void)sample;
    b->g[0] = k == 4 ? NAN : 1;
    return 0;
}

static void test_broken_gradient(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 1);
    scion_options o = bowl_options(SCION_RULE_SCION, 1);
    scion_problem problem = bowl_problem(b, 12, SCION_SCHEDULE_CONSTANT, 0.5);
    scion_result result = {.size = sizeof result};
    problem.gradient = broken_gradient;
    problem.report_every = 0;
    check_status(scion_minimize(&problem, &o, &result, &err), SCION_ENONFINITE, &err);
    assert_int_equal(result.steps, 3);
    check_rel((double)b->x[0], -0.25 * (1 - 0.125), 1e-6); /* (1/2)^3 of the way to the corner is left */
}

/* Stopped in step 4 by whichever callback, the weights are x^4: those of a run of three steps. */
static void test_stops(void **state)
{
    (void)state;
    scion_options o = bowl_options(SCION_RULE_SCION, 0.3);
    float three[BOWL_N];
    for (int who = -1; who < 3; who++) {
        bowl *b = bowl_make(SCION_NORM_SIGN, 2);
        b->sigma = 0.1;
        b->stop_gradient = who == 0 ? 4 : 0;
        b->stop_exact = who == 1 ? 4 : 0;
        b->stop_report = who == 2 ? 4 : 0;
        scion_problem problem = bowl_problem(b, who < 0 ? 3 : 12, SCION_SCHEDULE_CONSTANT, 0.1);
        scion_result result = {.size = sizeof result};
        at("callback %d", who);
        memset(&err, 0, sizeof err);
        scion_status status = scion_minimize(&problem, &o, &result, &err);
        assert_int_equal(result.steps, 3);
        assert_int_equal(result.iterate, 4);
        if (who < 0) {
            check_ok(status, &err);
            memcpy(three, b->x, sizeof three);
        } else {
            check_status(status, SCION_ESTOPPED, &err);
            check(err.status == SCION_ESTOPPED && err.message[0] != '\0');
            check_bits(sizeof three, b->x, three);
        }
    }
}

static void test_wrong_problems(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_SIGN, 2);
    scion_options o = bowl_options(SCION_RULE_SCION, 0.3);
    scion_problem good = bowl_problem(b, 12, SCION_SCHEDULE_CONSTANT, 0.1), bad;
    check_status(scion_minimize(NULL, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.size = 0;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.gradient = NULL;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.params = NULL;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.steps = -1;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.steps = 0;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.count = 0;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.report_every = -1;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    scion_result result = {.size = 1};
    check_status(scion_minimize(&good, &o, &result, &err), SCION_EINVAL, &err);
    scion_param p = b->p;
    bad = good, bad.params = &p;
    p.radius = -1;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    p = b->p, p.grad = NULL;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    scion_schedule wrong = *good.schedule;
    wrong.kind = 99;
    bad = good, bad.schedule = &wrong;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    bad = good, bad.schedule = NULL;
    check_status(scion_minimize(&bad, &o, NULL, &err), SCION_EINVAL, &err);
    check(err.message[0] != '\0');
}

/* A schedule that makes no sense is refused before anything is computed. */
static void test_wrong_schedule(void **state)
{
    (void)state;
    bowl *b = bowl_make(SCION_NORM_COL, 1);
    scion_options o = bowl_options(SCION_RULE_SCION, 1);
    scion_problem problem = bowl_problem(b, 12, SCION_SCHEDULE_CONSTANT, 0.1);
    scion_schedule wrong = {.size = sizeof wrong, .kind = SCION_SCHEDULE_COSINE, .peak = 0.1, .warmup = 12};
    problem.schedule = &wrong;
    check_status(scion_minimize(&problem, &o, NULL, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "schedule cosine: warmup is 12") != NULL);
    assert_int_equal(b->calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_quadratic_exactly),
        LAW(test_schedule_of_its_own_length),
        LAW(test_wrong_schedule),
        LAW(test_box),
        LAW(test_every_norm_reaches_it),
        LAW(test_uniform_iterate),
        LAW(test_samples),
        LAW(test_mars_calls),
        LAW(test_reports),
        LAW(test_first_momentum),
        LAW(test_stops),
        LAW(test_reports_of_light),
        LAW(test_wrong_problems),
        LAW(test_broken_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
