/* A gradient with NaN or Inf: the step is refused, the parameter is named, and weights, gradients and state keep
 * every bit; the next good step goes on as if nothing had happened. Under every rule, for every parameter. */
#include "support.h"

#include <math.h>
#include <string.h>

static scion_error err;

enum { PARAMS = 4 };

typedef struct run {
    scion_param p[PARAMS];
    int64_t n[PARAMS];
    scion_optimizer *opt;
    rng r;
} run;

static run *make(scion_rule rule, int light)
{
    static const char *const name[PARAMS] = {"embed", "body", "head", "bias"};
    run *a = room(sizeof *a);
    scion_options o;
    scion_options_init(&o, rule);
    o.light = light;
    a->r = rng_of(3);
    a->p[0] = matrix_of(5, 7, SCION_NORM_AUTO, SCION_ROLE_ONEHOT);
    a->p[1] = matrix_of(40, 30, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    a->p[2] = matrix_of(6, 5, SCION_NORM_AUTO, SCION_ROLE_OUTPUT);
    a->p[3] = param_of(1, (int64_t[]){5}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    for (int i = 0; i < PARAMS; i++) {
        a->n[i] = elements(&a->p[i]);
        a->p[i].name = name[i];
        a->p[i].weight = gaussian(&a->r, a->n[i]);
        a->p[i].grad = floats(a->n[i]);
        a->p[i].grad_prev = floats(a->n[i]);
    }
    check_ok(scion_optimizer_create(&a->opt, &o, a->p, PARAMS, &err), &err);
    return a;
}

static void good_step(run *a)
{
    scion_optimizer_begin(a->opt);
    for (int i = 0; i < PARAMS; i++) {
        rng_gaussian(&a->r, a->n[i], a->p[i].grad);
        rng_gaussian(&a->r, a->n[i], a->p[i].grad_prev);
    }
    check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
}

static void *state_of(const run *a, size_t *bytes)
{
    *bytes = scion_optimizer_save_bytes(a->opt, 0);
    void *buffer = room(*bytes);
    check_ok(scion_optimizer_save(a->opt, 0, buffer, *bytes, &err), &err);
    return buffer;
}

/* Puts `bad` into one entry and steps: everything must be as it was. */
static void bad_step(run *a, int which, int64_t entry, float bad, int in_previous)
{
    float *w[PARAMS], *g[PARAMS];
    size_t bytes, bytes_after;
    void *state = state_of(a, &bytes);
    scion_optimizer_begin(a->opt);
    float *target = in_previous ? a->p[which].grad_prev : a->p[which].grad, kept = target[entry];
    target[entry] = bad;
    for (int i = 0; i < PARAMS; i++) {
        w[i] = copy_floats(a->n[i], a->p[i].weight);
        g[i] = copy_floats(a->n[i], a->p[i].grad);
    }
    memset(&err, 0, sizeof err);
    check_status(scion_optimizer_step(a->opt, 0.1, &err), SCION_ENONFINITE, &err);
    check(err.status == SCION_ENONFINITE);
    assert_int_equal(err.param, which);
    check(strstr(err.message, a->p[which].name) != NULL);
    check_status(scion_optimizer_step(a->opt, 0.1, NULL), SCION_ENONFINITE, NULL);
    for (int i = 0; i < PARAMS; i++) {
        check_bits((size_t)a->n[i] * sizeof(float), a->p[i].weight, w[i]);
        check_bits((size_t)a->n[i] * sizeof(float), a->p[i].grad, g[i]);
    }
    void *after = state_of(a, &bytes_after);
    assert_int_equal(bytes, bytes_after);
    check_bits(bytes, after, state);
    target[entry] = kept;
}

static void check_rule(scion_rule rule, int light)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    run *a = make(rule, light), *b = make(rule, light);
    for (int k = 0; k < 2; k++) {
        good_step(a);
        good_step(b);
    }
    for (int which = 0; which < PARAMS; which++)
        for (int64_t t = 0; t < COUNT_OF(bad); t++) {
            int64_t entry = t == 0 ? 0 : t == 1 ? a->n[which] - 1 : a->n[which] / 2;
            at("rule %s%s, parameter %s, %g in entry %lld", scion_enum_name(SCION_ENUM_RULE, (int)rule),
               light ? " light" : "", a->p[which].name, (double)bad[t], (long long)entry);
            bad_step(a, which, entry, bad[t], 0);
            if (rule == SCION_RULE_MARS)
                bad_step(a, which, entry, bad[t], 1);
        }
    /* b never saw them; light accumulated nothing, so both go on alike */
    for (int k = 0; k < 3; k++) {
        good_step(a);
        good_step(b);
        for (int i = 0; i < PARAMS; i++)
            check_bits((size_t)a->n[i] * sizeof(float), a->p[i].weight, b->p[i].weight);
    }
    assert_int_equal(scion_optimizer_steps(a->opt), 5);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

static void test_every_rule(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        check_rule((scion_rule)rule, 0);
        release(NULL);
    }
    static const scion_rule light[] = {SCION_RULE_SCION, SCION_RULE_USCION, SCION_RULE_SIGNUM, SCION_RULE_MNSGD};
    for (int64_t t = 0; t < COUNT_OF(light); t++) {
        check_rule(light[t], 1);
        release(NULL);
    }
}

/* A frozen parameter and one without a gradient may hold anything. */
static void test_not_stepped_not_checked(void **state)
{
    (void)state;
    run *a = make(SCION_RULE_SCION, 0);
    good_step(a);
    ((float *)a->p[0].grad)[3] = NAN;
    check_ok(scion_optimizer_set(a->opt, 0, SCION_SET_FROZEN, 1, &err), &err);
    check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
    check_ok(scion_optimizer_set(a->opt, 0, SCION_SET_FROZEN, 0, &err), &err);
    check_status(scion_optimizer_step(a->opt, 0.1, &err), SCION_ENONFINITE, &err);
    check_ok(scion_optimizer_bind(a->opt, 0, a->p[0].weight, NULL, NULL, &err), &err);
    check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
    scion_optimizer_free(a->opt);
}

/* bfloat16 gradients are searched as well: its NaN and Inf are those of the upper half of a float32. */
static void test_bf16(void **state)
{
    (void)state;
    static const uint16_t bad[] = {0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF};
    rng r = rng_of(6);
    for (int64_t t = 0; t < COUNT_OF(bad); t++) {
        float *w = gaussian(&r, 35), *kept = copy_floats(35, w);
        uint16_t *g = bf16_copy(35, gaussian(&r, 35));
        scion_param p = matrix_of(5, 7, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
        scion_optimizer *opt;
        p.weight = w;
        p.grad = g;
        p.grad_type = SCION_BF16;
        g[34] = bad[t];
        at("bfloat16 %#x", (unsigned)bad[t]);
        check_ok(scion_optimizer_create(&opt, NULL, &p, 1, &err), &err);
        check_status(scion_optimizer_step(opt, 0.1, &err), SCION_ENONFINITE, &err);
        check_bits(35 * sizeof *w, w, kept);
        g[34] = 0x7F7F; /* the largest finite one is fine */
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        check_finite(35, w);
        scion_optimizer_free(opt);
    }
}

/* A weight that is not finite is found in the first step, and in the first after load; frozen ones are not. */
static void test_weights(void **state)
{
    (void)state;
    run *a = make(SCION_RULE_SCION, 0);
    float *w = a->p[2].weight;
    const float kept = w[7];
    size_t bytes;
    w[7] = NAN;
    for (int i = 0; i < PARAMS; i++)
        rng_gaussian(&a->r, a->n[i], a->p[i].grad);
    check_status(scion_optimizer_step(a->opt, 0.1, &err), SCION_ENONFINITE, &err);
    assert_int_equal(err.param, 2);
    check(strstr(err.message, "head") != NULL && strstr(err.message, "weight") != NULL);
    assert_int_equal(scion_optimizer_steps(a->opt), 0);
    w[7] = kept;
    check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
    void *saved = state_of(a, &bytes);
    check_ok(scion_optimizer_load(a->opt, 0, saved, bytes, &err), &err);
    w[7] = INFINITY;
    check_status(scion_optimizer_step(a->opt, 0.1, &err), SCION_ENONFINITE, &err);
    check_ok(scion_optimizer_set(a->opt, 2, SCION_SET_FROZEN, 1, &err), &err);
    check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
    scion_optimizer_free(a->opt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_every_rule), LAW(test_not_stepped_not_checked), LAW(test_bf16),
                                       LAW(test_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
