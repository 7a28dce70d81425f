/* A norm and a rule that the library does not have, each one file and one row: names, properties, the laws that every
 * norm obeys, and training by them. */
#include <math.h>

#include "support.h"

static scion_error err;

static int32_t toy_norm, toy_rule;

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(scion_enum_name(SCION_ENUM_NORM, toy_norm), "sum");
    assert_string_equal(scion_enum_name(SCION_ENUM_RULE, toy_rule), "lion");
    assert_string_equal(scion_norm_info(toy_norm)->help, "1-norm of all entries");
    assert_int_equal(scion_rule_info(toy_rule)->states, 1);
    assert_null(scion_norm_info(toy_norm + 1));
    assert_null(scion_rule_info(toy_rule + 1));
}

static float *lmo(const scion_param *p, const float *s)
{
    float *out = floats(elements(p));
    check_ok(scion_lmo(p, NULL, s, out, &err), &err);
    return out;
}

/* <s, lmo(s)> = -rho dual(s), norm(lmo(s)) = rho, lmo(2s) = lmo(s), lmo(0) = 0, and <s, x> <= dual(s) norm(x). */
static void obey_the_laws(const scion_param *p, rng *r)
{
    if (p->norm != toy_norm)
        return;
    const int64_t n = elements(p);
    float *s = gaussian(r, n), *x = gaussian(r, n), *z = lmo(p, s), *twice = floats(n), *zero = floats(n);
    double dual, size, of_x;
    check_ok(scion_dual_norm(p, NULL, s, &dual, &err), &err);
    check_ok(scion_norm_value(p, NULL, z, &size, &err), &err);
    check_ok(scion_norm_value(p, NULL, x, &of_x, &err), &err);
    check_rel(dot(n, s, z), -p->radius * dual, 1e-6);
    check_rel(size, p->radius, 1e-6);
    check(fabs(dot(n, s, x)) <= dual * of_x * (1 + 1e-6));
    for (int64_t i = 0; i < n; i++)
        twice[i] = 2 * s[i];
    check_bits((size_t)n * sizeof *z, lmo(p, twice), z);
    check_bits((size_t)n * sizeof *z, lmo(p, zero), zero);
    check_ok(scion_boundary_init(p, NULL, 7, x, &err), &err);
    check_ok(scion_norm_value(p, NULL, x, &size, &err), &err);
    check_rel(size, p->radius, 1e-6);
}

static void test_laws(void **state)
{
    (void)state;
    for_each_case(obey_the_laws);
}

/* 2 x 3 matrix, loss ||w - 1||^2/2. */
static double train(int32_t rule, int32_t norm, double lr)
{
    float w[6] = {0}, g[6] = {0};
    scion_optimizer *opt = NULL;
    scion_options o;
    scion_param p = matrix_of(2, 3, (scion_norm)norm, SCION_ROLE_PLAIN);
    double loss = 0;
    scion_options_init(&o, rule);
    p.weight = w;
    p.grad = g;
    p.radius = 10;
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    for (int k = 0; k < 600; k++) {
        loss = 0;
        for (int i = 0; i < 6; i++) {
            g[i] = w[i] - 1;
            loss += 0.5 * (double)(g[i] * g[i]);
        }
        check_ok(scion_optimizer_step(opt, lr * (1 - k / 600.0), &err), &err);
    }
    scion_optimizer_free(opt);
    return loss;
}

static void test_training(void **state)
{
    (void)state;
    check(train(toy_rule, SCION_NORM_AUTO, 0.02) < 1e-3);
    check(train(SCION_RULE_SCION, toy_norm, 0.05) < 0.1);
    check(train(SCION_RULE_ADAMW, SCION_NORM_AUTO, 0.02) < 1e-3); /* the others are as before */
}

int main(void)
{
    toy_norm = scion_enum_value(SCION_ENUM_NORM, "sum");
    toy_rule = scion_enum_value(SCION_ENUM_RULE, "lion");
    const struct CMUnitTest tests[] = {LAW(test_names), LAW(test_laws), LAW(test_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
