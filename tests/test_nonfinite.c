/* A gradient with NaN or Inf: the step is refused, the parameter is named, and weights, gradients and state keep
 * every bit; the next good step goes on as if nothing had happened. Under every rule, for every parameter. The same
 * for finite numbers so large that the step would not be. */
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

/* half: the weights of the matrices in the middle are bfloat16. */
static run *make_with(const scion_options *o, int half)
{
    static const char *const name[PARAMS] = {"embed", "body", "head", "bias"};
    run *a = room(sizeof *a);
    a->r = rng_of(3);
    a->p[0] = matrix_of(5, 7, SCION_NORM_AUTO, SCION_ROLE_ONEHOT);
    a->p[1] = matrix_of(40, 30, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    a->p[2] = matrix_of(6, 5, SCION_NORM_AUTO, SCION_ROLE_OUTPUT);
    a->p[3] = param_of(1, (int64_t[]){5}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    for (int i = 0; i < PARAMS; i++) {
        a->n[i] = elements(&a->p[i]);
        a->p[i].name = name[i];
        a->p[i].weight = gaussian(&a->r, a->n[i]);
        if (half && (i == 1 || i == 2)) {
            a->p[i].weight = bf16_copy(a->n[i], a->p[i].weight);
            a->p[i].weight_type = SCION_BF16;
        }
        a->p[i].grad = floats(a->n[i]);
        a->p[i].grad_prev = floats(a->n[i]);
    }
    check_ok(scion_optimizer_create(&a->opt, o, a->p, PARAMS, &err), &err);
    return a;
}

static run *make(scion_rule rule, int light)
{
    scion_options o;
    scion_options_init(&o, rule);
    o.light = light;
    return make_with(&o, 0);
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

/* ---- Steps whose result would not be finite ------------------------------------------------------------- */

typedef struct extreme {
    const char *name;
    double lr, grad_scale;
    float grad, weight; /* factors of numbers of about 1, at most float32's largest */
    int bounded;        /* 1: every rule whose step does not grow with the gradient takes it; 2: every rule does */
} extreme;

static float capped(double x, float most)
{
    return (float)fmax(-(double)most, fmin((double)most, x));
}

static void fill(run *a, const extreme *x, int with_weights)
{
    static const float most[] = {3.4e38f, 0x1.fep127f};
    for (int i = 0; i < PARAMS; i++)
        for (int64_t e = 0; e < a->n[i]; e++) {
            const double g = rng_normal(&a->r), w = rng_normal(&a->r), prev = rng_normal(&a->r);
            const int half = a->p[i].weight_type == SCION_BF16;
            ((float *)a->p[i].grad)[e] = e % 5 == 4 ? 0 : capped(g * (double)x->grad, most[0]);
            ((float *)a->p[i].grad_prev)[e] = capped(prev * (double)x->grad, most[0]);
            const float value = capped(w * (double)x->weight, most[half]);
            if (with_weights && half)
                ((uint16_t *)a->p[i].weight)[e] = bf16_nearest(value);
            else if (with_weights)
                ((float *)a->p[i].weight)[e] = value;
        }
}

static size_t bytes_of(const run *a, int i)
{
    return (size_t)a->n[i] * (a->p[i].weight_type == SCION_BF16 ? 2 : 4);
}

static void check_all_finite(const run *a)
{
    for (int i = 0; i < PARAMS; i++) {
        scion_array s;
        scion_array_init(&s);
        for (int64_t e = 0; e < a->n[i]; e++)
            check(isfinite(a->p[i].weight_type == SCION_BF16 ? bf16_value(((uint16_t *)a->p[i].weight)[e])
                                                             : ((float *)a->p[i].weight)[e]));
        check_finite(a->n[i], a->p[i].grad);
        for (int k = 0; scion_optimizer_state(a->opt, i, k, &s); k++)
            for (int64_t e = 0; e < s.count; e++)
                check(isfinite(s.type == SCION_BF16 ? bf16_value(((uint16_t *)s.data)[e]) : ((float *)s.data)[e]));
    }
}

/* Either the step is taken and everything is finite, or it is refused and every bit is as it was. */
static scion_status extreme_step(run *a, const extreme *x)
{
    void *w[PARAMS], *g[PARAMS];
    size_t bytes, bytes_after;
    scion_step s;
    scion_step_init(&s);
    s.lr = x->lr;
    s.grad_scale = x->grad_scale;
    void *state = state_of(a, &bytes);
    for (int i = 0; i < PARAMS; i++) {
        w[i] = memcpy(room(bytes_of(a, i)), a->p[i].weight, bytes_of(a, i));
        g[i] = copy_floats(a->n[i], a->p[i].grad);
    }
    memset(&err, 0, sizeof err);
    const scion_status status = scion_optimizer_step_with(a->opt, &s, &err);
    if (status == SCION_OK) {
        check_all_finite(a);
        return status;
    }
    check(status == SCION_ENONFINITE || status == SCION_EINVAL);
    check(err.param == -1 || strstr(err.message, a->p[err.param].name) != NULL);
    for (int i = 0; i < PARAMS; i++) {
        check_bits(bytes_of(a, i), a->p[i].weight, w[i]);
        check_bits((size_t)a->n[i] * sizeof(float), a->p[i].grad, g[i]);
    }
    void *after = state_of(a, &bytes_after);
    assert_int_equal(bytes, bytes_after);
    check_bits(bytes, after, state);
    return status;
}

static const extreme extremes[] = {
    {"ordinary values", 0.01, 1, 1, 1, 2},
    {"lr 1e308", 1e308, 1, 1, 1, 0},
    {"lr 1e308 and no gradients", 1e308, 1, 0, 1, 0},
    {"lr 1e35", 1e35, 1, 1, 1, 0},
    {"lr 1e35 and tiny gradients", 1e35, 1, 1e-44f, 1, 0},
    {"lr 1e25 and tiny gradients", 1e25, 1, 1e-44f, 1, 0},
    {"grad_scale 1e308", 0.01, 1e308, 1, 1, 0},
    {"grad_scale 1e38", 0.01, 1e38, 1, 1, 0},
    {"grad_scale 1e30", 0.01, 1e30, 1, 1, 1},
    {"grad_scale 1e-300", 0.01, 1e-300, 1, 1, 2},
    {"gradients of 3e38", 0.01, 1, 3e38f, 1, 0},
    {"gradients of 1e37", 0.01, 1, 1e37f, 1, 0},
    {"gradients of 1e30", 0.01, 1, 1e30f, 1, 1},
    {"gradients of 1e19", 0.01, 1, 1e19f, 1, 1},
    {"gradients of 1e16", 0.01, 1, 1e16f, 1, 2},
    {"gradients of 1e-30", 0.01, 1, 1e-30f, 1, 2},
    {"gradients of 1e-44", 0.01, 1, 1e-44f, 1, 2},
    {"weights near the largest float32", 0.01, 1, 1, 3e38f, 2},
    {"weights and gradients near it", 0.5, 1, 1e30f, 3e38f, 1},
    {"everything near it", 1, 1, 3e38f, 3e38f, 0},
};

/* Steps of every kind from a run's first step on, then from a run that has averages, again and again. */
static void check_extremes(const scion_options *o, int half)
{
    const scion_rule_properties *about = scion_rule_info(o->rule);
    for (int64_t t = 0; t < COUNT_OF(extremes); t++)
        for (int before = 0; before < 3; before += 2) {
            const extreme *x = &extremes[t];
            run *a = make_with(o, half);
            for (int k = 0; k < before; k++)
                good_step(a);
            at("rule %s%s%s%s, %s, after %d steps", about->name, o->light ? " light" : "", half ? " bfloat16" : "",
               o->clip_norm > 0 ? " clipped" : "", x->name, before);
            for (int k = 0; k < 4; k++) {
                fill(a, x, k == 0);
                const scion_status status = o->light && x->grad_scale != 1 ? SCION_OK : extreme_step(a, x);
                if (x->bounded == 2 ||
                    (x->bounded == 1 && about->lmo && about->bounded && o->rule != SCION_RULE_MUON))
                    check_ok(status, &err);
            }
            scion_optimizer_free(a->opt);
            release(NULL);
        }
}

static void test_extremes(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++)
        for (int form = 0; form < 5; form++) {
            const scion_rule_properties *about = scion_rule_info(rule);
            scion_options o;
            scion_options_init(&o, rule);
            o.threads = 1;
            o.light = form == 2;
            o.layerwise = form == 3 ? !o.layerwise : o.layerwise;
            o.clip_norm = form == 3 && !about->lmo ? 1 : 0;
            o.adam_eps = form == 4 ? 0 : o.adam_eps;
            o.weight_decay = form == 4 ? about->weight_decay : 0;
            if (form != 2 || about->light)
                check_extremes(&o, form == 1);
        }
}

/* Callers who share a step decide together as one caller alone does, whoever has the large gradients. */
static void check_shared(int32_t rule, const extreme *x)
{
    scion_options o;
    scion_step s;
    scion_optimizer *part;
    scion_options_init(&o, rule);
    o.threads = 1;
    scion_step_init(&s);
    s.lr = x->lr;
    s.grad_scale = x->grad_scale;
    run *a = make_with(&o, 0);
    fill(a, x, 1);
    const scion_status alone = scion_optimizer_check(a->opt, &s, NULL);
    int refused = 0;
    for (int caller = 0; caller < 2; caller++) {
        scion_param p[PARAMS];
        for (int i = 0; i < PARAMS; i++) {
            p[i] = a->p[i];
            if (i % 2 != caller) {
                p[i].own_count = 0;
                p[i].grad = NULL;
            }
        }
        check_ok(scion_optimizer_create(&part, &o, p, PARAMS, &err), &err);
        refused += scion_optimizer_check(part, &s, NULL) != SCION_OK;
        scion_optimizer_free(part);
    }
    at("rule %s, %s", scion_enum_name(SCION_ENUM_RULE, rule), x->name);
    check((refused > 0) == (alone != SCION_OK));
    scion_optimizer_free(a->opt);
    release(NULL);
}

static void test_shared(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++)
        for (int64_t t = 0; t < COUNT_OF(extremes); t++)
            check_shared(rule, &extremes[t]);
}

/* The limits by known values: one or two weights of norm max and factor 1, whose lmo counts as 2. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        scion_rule rule;
        int layerwise, params;
        double lr, momentum;
        float grad, weight;
        scion_status want;
    } cases[] = {
        {"2 lr = 2^96", SCION_RULE_SIGNSGD, 1, 1, 0x1p95, 1, 1, 0, SCION_OK},
        {"2 lr above 2^96", SCION_RULE_SIGNSGD, 1, 1, 0x1.01p95, 1, 1, 0, SCION_ENONFINITE},
        {"from the largest weight", SCION_RULE_SIGNSGD, 1, 1, 0x1p95, 1, -1, 0x1.fffffep127f, SCION_OK},
        {"2 lr of an average of lmos", SCION_RULE_ALMOND, 1, 1, 0x1p95, 1, 1, 0, SCION_ENONFINITE},
        {"half of it", SCION_RULE_ALMOND, 1, 1, 0x1p94, 1, 1, 0, SCION_OK},
        {"2 lr 2 g = 2^96", SCION_RULE_SSD, 1, 1, 1, 1, 0x1p94f, 0, SCION_OK},
        {"2 lr 2 g above 2^96", SCION_RULE_SSD, 1, 1, 1, 1, 0x1.01p94f, 0, SCION_ENONFINITE},
        {"a small gradient counts as 1", SCION_RULE_SSD, 1, 1, 0x1.01p95, 1, 1e-9f, 0, SCION_ENONFINITE},
        {"its own norm, two parameters", SCION_RULE_SSD, 1, 2, 1, 1, 0x1p94f, 0, SCION_OK},
        {"one norm, half of it each", SCION_RULE_SSD, 0, 2, 1, 1, 0x1p93f, 0, SCION_OK},
        {"one norm, more than half", SCION_RULE_SSD, 0, 2, 1, 1, 0x1.01p93f, 0, SCION_ENONFINITE},
        {"the largest bfloat16", SCION_RULE_SCION, 1, 1, 0.1, 1, 0x1.fep127f, 0, SCION_OK},
        {"the largest float32", SCION_RULE_SCION, 1, 1, 0.1, 1, 0x1.fffffep127f, 0, SCION_ENONFINITE},
        {"a tenth of the largest float32", SCION_RULE_SCION, 1, 1, 0.1, 0.1, 0x1.fffffep127f, 0, SCION_OK},
        {"sgd that stays finite", SCION_RULE_SGD, 1, 1, 1, 1, 1e38f, 0, SCION_OK},
        {"sgd away from the largest", SCION_RULE_SGD, 1, 1, 1, 1, 1e38f, 3e38f, SCION_OK},
        {"sgd beyond the largest", SCION_RULE_SGD, 1, 1, 1, 1, -1e38f, 3e38f, SCION_ENONFINITE},
        {"lr that leaves zeros alone", SCION_RULE_SGD, 1, 1, 1e39, 1, 0, 1, SCION_OK},
        {"lr that spoils zeros", SCION_RULE_SGD, 1, 1, 1e308, 1, 0, 1, SCION_ENONFINITE},
        {"a square that fits", SCION_RULE_ADAMW, 1, 1, 1, 1, 8e19f, 0, SCION_OK},
        {"a square that does not", SCION_RULE_ADAMW, 1, 1, 1, 1, 9e19f, 0, SCION_ENONFINITE},
    };
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_param p[2];
        scion_options o;
        scion_optimizer *opt;
        for (int i = 0; i < 2; i++) {
            p[i] = matrix_of(1, 1, SCION_NORM_MAX, SCION_ROLE_PLAIN);
            p[i].weight = floats(1);
            p[i].grad = floats(1);
            *(float *)p[i].weight = cases[t].weight;
            *(float *)p[i].grad = cases[t].grad;
        }
        scion_options_init(&o, cases[t].rule);
        o.layerwise = cases[t].layerwise;
        o.momentum = cases[t].momentum;
        at("%s", cases[t].name);
        check_ok(scion_optimizer_create(&opt, &o, p, cases[t].params, &err), &err);
        check_status(scion_optimizer_step(opt, cases[t].lr, &err), cases[t].want, &err);
        check(isfinite(*(float *)p[0].weight));
        scion_optimizer_free(opt);
    }
}

/* A bound that follows an average does not drift away from it: gradients at the limit are taken for ever. */
static void test_no_drift(void **state)
{
    (void)state;
    static const struct {
        scion_rule rule;
        double momentum;
        float grad;
    } cases[] = {{SCION_RULE_SIGNUM, 1e-8, 0x1.fep127f},
                 {SCION_RULE_MNSGD, 0.1, 0x1.fep127f},
                 {SCION_RULE_SGD, 0.1, 3e37f},
                 {SCION_RULE_ADAMW, 1, 1e19f}};
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_param p = matrix_of(2, 3, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
        scion_options o;
        scion_optimizer *opt;
        float *g = floats(6);
        p.weight = floats(6);
        p.grad = g;
        scion_options_init(&o, cases[t].rule);
        o.momentum = cases[t].momentum;
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        for (int k = 0; k < 3000; k++) {
            for (int i = 0; i < 6; i++)
                g[i] = cases[t].grad;
            at("rule %d, step %d", (int)cases[t].rule, k);
            check_ok(scion_optimizer_step(opt, 1e-6, &err), &err);
        }
        scion_optimizer_free(opt);
    }
}

/* A state array that is not finite is found in the first step, the caller's own too. */
static void test_states(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_SCION, SCION_RULE_MARS, SCION_RULE_ADAMW};
    for (int64_t t = 0; t < COUNT_OF(rules); t++)
        for (int k = 0; k < scion_rule_info((int32_t)rules[t])->states; k++) {
            run *a = make(rules[t], 0);
            scion_array array;
            scion_array_init(&array);
            fill(a, &extremes[0], 0);
            check(scion_optimizer_state(a->opt, 2, k, &array) != 0);
            at("rule %d, array %s", (int)rules[t], array.name);
            ((float *)array.data)[array.count - 1] = k == 0 ? NAN : INFINITY;
            check_status(scion_optimizer_step(a->opt, 0.1, &err), SCION_ENONFINITE, &err);
            assert_int_equal(err.param, 2);
            check(strstr(err.message, "head") != NULL && strstr(err.message, array.name) != NULL);
            ((float *)array.data)[array.count - 1] = 0;
            check_ok(scion_optimizer_step(a->opt, 0.1, &err), &err);
            scion_optimizer_free(a->opt);
            release(NULL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_every_rule), LAW(test_not_stepped_not_checked),
                                       LAW(test_bf16),       LAW(test_weights),
                                       LAW(test_extremes),   LAW(test_shared),
                                       LAW(test_states),     LAW(test_limits),
                                       LAW(test_no_drift)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
