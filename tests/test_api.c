/* Wrong input is refused before anything happens: EINVAL, and a sentence that names the parameter or the
 * option. One table of wrong parameters, one of wrong options, then calls with wrong arguments. */
#include "support.h"

#include <math.h>
#include <string.h>

static scion_error err;

static float memory[4][64];
/* Split sizes of 6 rows, all wrong: the last ones add up to 6 only if the sum overflows. */
static const int64_t sizes[][5] = {{3, 2}, {6, 0}, {7, -1}, {1, 0}, {INT64_MAX, INT64_MAX, 8}};

static void good_params(scion_param *p)
{
    memset(memory, 0, sizeof memory);
    p[0] = matrix_of(4, 5, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    p[1] = matrix_of(6, 8, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    p[0].name = "innocent";
    p[1].name = "culprit";
    p[0].weight = memory[0];
    p[0].grad = memory[1];
    p[1].weight = memory[2];
    p[1].grad = memory[3];
}

/* A wrong struct is a good one with a few fields changed. */
typedef struct change {
    size_t offset;
    enum { UNCHANGED, BYTES, INT32, INT64, DOUBLE, POINTER } type; /* BYTES is a size_t */
    double value;
} change;

static void apply(void *whole, const change *c)
{
    unsigned char *at_field = (unsigned char *)whole + c->offset;
    switch (c->type) {
    case UNCHANGED: break;
    case BYTES: *(size_t *)(void *)at_field = (size_t)c->value; break;
    case INT32: *(int32_t *)(void *)at_field = (int32_t)c->value; break;
    case INT64: *(int64_t *)(void *)at_field = (int64_t)c->value; break;
    case DOUBLE: *(double *)(void *)at_field = c->value; break;
    case POINTER: *(const void **)(void *)at_field = c->value < 0 ? NULL : sizes[(int)c->value]; break;
    }
}

/* ---- Parameters ---------------------------------------------------------------------------------------- */

#define P(field) offsetof(scion_param, field)

typedef struct wrong_param {
    const char *name;
    change change[5];
    int optimizer_only; /* a field that the free-standing functions do not look at */
} wrong_param;

static const wrong_param wrong_params[] = {
    {"no size", .change = {{P(size), BYTES, 0}}},
    {"size too small", .change = {{P(size), BYTES, 8}}},
    {"0 dimensions", .change = {{P(ndim), INT32, 0}}},
    {"5 dimensions", .change = {{P(ndim), INT32, 5}}},
    {"-2 dimensions", .change = {{P(ndim), INT32, -2}}},
    {"an empty dimension", .change = {{P(shape[1]), INT64, 0}}},
    {"a negative dimension", .change = {{P(shape[0]), INT64, -6}}},
    {"more elements than a machine has", .change = {{P(shape[0]), INT64, 0x1p40}, {P(shape[1]), INT64, 0x1p40}}},
    {"no weight", .change = {{P(weight), POINTER, -1}}, .optimizer_only = 1},
    {"no weight of one entry", .change = {{P(ndim), INT32, 1}, {P(shape[0]), INT64, 1}, {P(weight), POINTER, -1}},
     .optimizer_only = 1},
    {"unknown weight type", .change = {{P(weight_type), INT32, 7}}, .optimizer_only = 1},
    {"unknown gradient type", .change = {{P(grad_type), INT32, -1}}, .optimizer_only = 1},
    {"unknown norm", .change = {{P(norm), INT32, 99}}},
    {"unknown role", .change = {{P(role), INT32, 99}}},
    {"radius 0", .change = {{P(radius), DOUBLE, 0}}},
    {"radius -1", .change = {{P(radius), DOUBLE, -1}}},
    {"radius NaN", .change = {{P(radius), DOUBLE, NAN}}},
    {"radius Inf", .change = {{P(radius), DOUBLE, INFINITY}}},
    {"lr_scale NaN", .change = {{P(lr_scale), DOUBLE, NAN}}, .optimizer_only = 1},
    {"lr_scale negative", .change = {{P(lr_scale), DOUBLE, -0.5}}, .optimizer_only = 1},
    {"weight_decay NaN", .change = {{P(weight_decay), DOUBLE, NAN}}, .optimizer_only = 1},
    {"weight_decay 0.5 for scion", .change = {{P(weight_decay), DOUBLE, 0.5}}, .optimizer_only = 1},
    {"a negative split", .change = {{P(split_count), INT32, -1}}},
    {"6 rows in 4 blocks", .change = {{P(split_count), INT32, 4}}},
    {"6 rows in 7 blocks", .change = {{P(split_count), INT32, 7}}},
    {"split along a third axis", .change = {{P(split_count), INT32, 2}, {P(split_axis), INT32, 2}}},
    {"blocks that do not add up", .change = {{P(split_count), INT32, 2}, {P(split_sizes), POINTER, 0}}},
    {"an empty block", .change = {{P(split_count), INT32, 2}, {P(split_sizes), POINTER, 1}}},
    {"a negative block", .change = {{P(split_count), INT32, 2}, {P(split_sizes), POINTER, 2}}},
    {"blocks whose sum overflows", .change = {{P(split_count), INT32, 3}, {P(split_sizes), POINTER, 4}}},
    {"weight_decay Inf", .change = {{P(weight_decay), DOUBLE, INFINITY}}, .optimizer_only = 1},
    {"lr_scale Inf", .change = {{P(lr_scale), DOUBLE, INFINITY}}, .optimizer_only = 1},
    {"unknown start", .change = {{P(start), INT32, 3}}, .optimizer_only = 1},
    {"start -1", .change = {{P(start), INT32, -1}}, .optimizer_only = 1},
    {"norm -1", .change = {{P(norm), INT32, -1}}},
    {"one norm too many", .change = {{P(norm), INT32, SCION_NORM_MAX + 1}}},
    {"role -1", .change = {{P(role), INT32, -1}}},
    {"one role too many", .change = {{P(role), INT32, SCION_ROLE_PLAIN + 1}}},
    {"unknown weight type 2", .change = {{P(weight_type), INT32, 2}}, .optimizer_only = 1},
    {"unknown gradient type 2", .change = {{P(grad_type), INT32, 2}}, .optimizer_only = 1},
    {"-1 states", .change = {{P(state_count), INT64, -1}}, .optimizer_only = 1},
    {"a state without an array", .change = {{P(state_count), INT64, 1}}, .optimizer_only = 1},
    {"a negative split axis", .change = {{P(split_count), INT32, 2}, {P(split_axis), INT32, -1}}},
    {"8 columns in 9 blocks", .change = {{P(split_count), INT32, 9}, {P(split_axis), INT32, 1}}},
    {"8 columns in 3 blocks", .change = {{P(split_count), INT32, 3}, {P(split_axis), INT32, 1}}},
    {"owned from -1 on", .change = {{P(own_first), INT64, -16384}, {P(own_count), INT64, 48}}, .optimizer_only = 1},
    {"one more owned than there is", .change = {{P(own_count), INT64, 49}}, .optimizer_only = 1},
    {"a split convolution",
     .change = {{P(ndim), INT32, 3}, {P(shape[1]), INT64, 2}, {P(shape[2]), INT64, 4}, {P(split_count), INT32, 2}}},
    {"a transposed convolution",
     .change = {{P(ndim), INT32, 3}, {P(shape[1]), INT64, 2}, {P(shape[2]), INT64, 4}, {P(transposed), INT32, 1}}},
};

static void spoil_param(scion_param *p, const wrong_param *w)
{
    for (int i = 0; i < 5; i++)
        apply(p, &w->change[i]);
}

static void test_wrong_parameters(void **state)
{
    (void)state;
    for (int64_t t = 0; t < COUNT_OF(wrong_params); t++) {
        scion_param p[2];
        scion_optimizer *opt = (scion_optimizer *)&err;
        good_params(p);
        spoil_param(&p[1], &wrong_params[t]);
        memset(&err, 0, sizeof err);
        at("%s", wrong_params[t].name);
        check_status(scion_optimizer_create(&opt, NULL, p, 2, &err), SCION_EINVAL, &err);
        check(opt == NULL);
        check(err.status == SCION_EINVAL);
        assert_int_equal(err.param, 1);
        if (p[1].size == sizeof p[1]) /* else the name is out of reach */
            check(strstr(err.message, "culprit") != NULL);
        check(strlen(err.message) > 10 && strlen(err.message) < sizeof err.message);
        check_status(scion_optimizer_create(&opt, NULL, p, 2, NULL), SCION_EINVAL, NULL);
    }
}

/* The same shapes, norms, radii and splits are refused by the free-standing functions. */
static void test_wrong_parameters_free_standing(void **state)
{
    (void)state;
    float x[64] = {0}, y[64] = {0};
    double value;
    for (int64_t t = 0; t < COUNT_OF(wrong_params); t++) {
        scion_param p[2];
        if (wrong_params[t].optimizer_only)
            continue;
        good_params(p);
        spoil_param(&p[1], &wrong_params[t]);
        at("%s", wrong_params[t].name);
        check_status(scion_lmo(&p[1], NULL, x, y, &err), SCION_EINVAL, &err);
        check_status(scion_norm_value(&p[1], NULL, x, &value, &err), SCION_EINVAL, &err);
        check_status(scion_dual_norm(&p[1], NULL, x, &value, &err), SCION_EINVAL, &err);
        check_status(scion_sharp(&p[1], NULL, x, y, &err), SCION_EINVAL, &err);
        check_status(scion_fw_gap(&p[1], NULL, x, y, &value, &err), SCION_EINVAL, &err);
        check_status(scion_boundary_init(&p[1], NULL, 1, y, &err), SCION_EINVAL, &err);
        check(err.message[0] != '\0');
    }
}

/* Sizes of blocks whose sum is right only if it overflows: no size alone exceeds the length. */
static void test_split_of_a_huge_vector(void **state)
{
    (void)state;
    const int64_t length = 4000000000000000000, rest = 2446744073709551616; /* 5 length + rest = 2^64 + length */
    const int64_t wrong[6] = {length, length, length, length, length, rest}, right[2] = {length - 1, 1};
    scion_param p = param_of(1, &length, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    scion_param_properties about;
    scion_param_properties_init(&about);
    check_ok(scion_param_info(&p, NULL, &about, &err), &err);
    assert_int_equal(about.elements, length);
    p.split_count = 2;
    p.split_sizes = right;
    check_ok(scion_param_info(&p, NULL, &about, &err), &err);
    p.split_count = 6;
    p.split_sizes = wrong;
    check_status(scion_param_info(&p, NULL, &about, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "split_sizes[1]") != NULL);
}

/* ---- Options ------------------------------------------------------------------------------------------- */

#define O(field) offsetof(scion_options, field)

typedef struct wrong_option {
    const char *word; /* what the sentence must mention */
    scion_rule rule;
    change change;
} wrong_option;

static const wrong_option wrong_options[] = {
    {"size", SCION_RULE_SCION, {O(size), BYTES, 0}},
    {"size", SCION_RULE_SCION, {O(size), BYTES, 8}},
    {"rule", SCION_RULE_SCION, {O(rule), INT32, 99}},
    {"rule", SCION_RULE_SCION, {O(rule), INT32, -1}},
    {"routing", SCION_RULE_SCION, {O(routing), INT32, 99}},
    {"polar", SCION_RULE_SCION, {O(polar), INT32, 99}},
    {"momentum", SCION_RULE_SCION, {O(momentum), DOUBLE, 0}},
    {"momentum", SCION_RULE_USCION, {O(momentum), DOUBLE, 1.01}},
    {"momentum", SCION_RULE_MUON, {O(momentum), DOUBLE, -0.1}},
    {"momentum", SCION_RULE_SGD, {O(momentum), DOUBLE, NAN}},
    {"eps", SCION_RULE_SCION, {O(eps), DOUBLE, -1e-8}},
    {"polar_eps", SCION_RULE_SCION, {O(polar_eps), DOUBLE, NAN}},
    {"polar_steps", SCION_RULE_SCION, {O(polar_steps), INT32, -1}},
    {"polar_compute", SCION_RULE_SCION, {O(polar_compute), INT32, 2}},
    {"polar_compute", SCION_RULE_SCION, {O(polar_compute), INT32, -1}},
    {"polar_steps", SCION_RULE_SCION, {O(polar_steps), INT32, 1000000}},
    {"threads", SCION_RULE_SCION, {O(threads), INT32, -2}},
    {"alloc", SCION_RULE_SCION, {O(allocator), POINTER, 3}}, /* without its free */
    {"weight_decay", SCION_RULE_SCION, {O(weight_decay), DOUBLE, 0.5}},
    {"weight_decay", SCION_RULE_MARS, {O(weight_decay), DOUBLE, 0.5}},
    {"weight_decay", SCION_RULE_USCION, {O(weight_decay), DOUBLE, NAN}},
    {"weight_decay", SCION_RULE_USCION, {O(weight_decay), DOUBLE, -0.1}},
    {"light", SCION_RULE_ALMOND, {O(light), INT32, 1}},
    {"light", SCION_RULE_MUON, {O(light), INT32, 1}},
    {"light", SCION_RULE_SSD, {O(light), INT32, 1}},
    {"light", SCION_RULE_MARS, {O(light), INT32, 1}},
    {"light", SCION_RULE_ADAMW, {O(light), INT32, 1}},
    {"light", SCION_RULE_SGD, {O(light), INT32, 1}},
    {"beta1", SCION_RULE_ADAMW, {O(beta1), DOUBLE, 1}},
    {"beta2", SCION_RULE_ADAMW, {O(beta2), DOUBLE, -0.1}},
    {"adam_eps", SCION_RULE_ADAMW, {O(adam_eps), DOUBLE, -1}},
    {"clip_norm", SCION_RULE_SGD, {O(clip_norm), DOUBLE, -1}},
    {"muon_multiplier", SCION_RULE_MUON, {O(muon_multiplier), DOUBLE, NAN}},
    {"muon_multiplier", SCION_RULE_MUON, {O(muon_multiplier), DOUBLE, 0}},
    {"muon_multiplier", SCION_RULE_MUON, {O(muon_multiplier), DOUBLE, INFINITY}},
    {"beta1", SCION_RULE_ADAMW, {O(beta1), DOUBLE, -0.1}},
    {"beta1", SCION_RULE_ADAMW, {O(beta2), DOUBLE, 1}},
    {"beta1", SCION_RULE_ADAMW, {O(beta1), DOUBLE, NAN}},
    {"adam_eps", SCION_RULE_ADAMW, {O(adam_eps), DOUBLE, NAN}},
    {"clip_norm", SCION_RULE_SGD, {O(clip_norm), DOUBLE, NAN}},
    {"adam_lr_scale", SCION_RULE_MUON, {O(adam_lr_scale), DOUBLE, -0.1}},
    {"adam_lr_scale", SCION_RULE_MUON, {O(adam_lr_scale), DOUBLE, INFINITY}},
    {"adam_lr_scale", SCION_RULE_MUON, {O(adam_lr_scale), DOUBLE, NAN}},
    {"weight_decay", SCION_RULE_USCION, {O(weight_decay), DOUBLE, INFINITY}},
    {"eps", SCION_RULE_SCION, {O(eps), DOUBLE, INFINITY}},
    {"eps", SCION_RULE_SCION, {O(eps), DOUBLE, NAN}},
    {"polar_eps", SCION_RULE_SCION, {O(polar_eps), DOUBLE, INFINITY}},
    {"polar_eps", SCION_RULE_SCION, {O(polar_eps), DOUBLE, -1e-8}},
    {"polar_steps", SCION_RULE_SCION, {O(polar_steps), INT32, 1001}},
    {"threads", SCION_RULE_SCION, {O(threads), INT32, -1}},
    {"threads", SCION_RULE_SCION, {O(threads), INT32, 4097}},
    {"routing", SCION_RULE_SCION, {O(routing), INT32, -1}},
    {"routing", SCION_RULE_SCION, {O(routing), INT32, SCION_ROUTING_SPECTRAL + 1}},
    {"polar", SCION_RULE_SCION, {O(polar), INT32, -1}},
    {"polar", SCION_RULE_SCION, {O(polar), INT32, SCION_POLAR_CUBIC + 1}},
    {"rule", SCION_RULE_SCION, {O(rule), INT32, SCION_RULE_SGD + 1}},
    {"rounding", SCION_RULE_SCION, {O(rounding), INT32, SCION_ROUNDING_NEAREST + 1}},
    {"rounding", SCION_RULE_SCION, {O(rounding), INT32, -1}},
    {"light", SCION_RULE_SIGNSGD, {O(light), INT32, 1}},
    {"scion, uscion, signum, mnsgd", SCION_RULE_SGD, {O(light), INT32, 1}},
};

/* The last values that are allowed. */
static const wrong_option right_options[] = {
    {"momentum", SCION_RULE_SCION, {O(momentum), DOUBLE, 1}},
    {"momentum", SCION_RULE_SCION, {O(momentum), DOUBLE, 1e-300}},
    {"weight_decay", SCION_RULE_SCION, {O(weight_decay), DOUBLE, 1}},
    {"weight_decay", SCION_RULE_SCION, {O(weight_decay), DOUBLE, 0}},
    {"weight_decay", SCION_RULE_USCION, {O(weight_decay), DOUBLE, 0}},
    {"weight_decay", SCION_RULE_USCION, {O(weight_decay), DOUBLE, 3}},
    {"beta1", SCION_RULE_ADAMW, {O(beta1), DOUBLE, 0}},
    {"beta2", SCION_RULE_ADAMW, {O(beta2), DOUBLE, 0}},
    {"adam_eps", SCION_RULE_ADAMW, {O(adam_eps), DOUBLE, 0}},
    {"adam_lr_scale", SCION_RULE_MUON, {O(adam_lr_scale), DOUBLE, 0}},
    {"eps", SCION_RULE_SCION, {O(eps), DOUBLE, 0}},
    {"polar_steps", SCION_RULE_SCION, {O(polar_steps), INT32, 1000}},
    {"polar_steps", SCION_RULE_SCION, {O(polar_steps), INT32, 1}},
    {"polar_compute", SCION_RULE_SCION, {O(polar_compute), INT32, SCION_BF16}},
    {"threads", SCION_RULE_SCION, {O(threads), INT32, 4096}},
    {"routing", SCION_RULE_SCION, {O(routing), INT32, SCION_ROUTING_SPECTRAL}},
    {"polar", SCION_RULE_SCION, {O(polar), INT32, SCION_POLAR_CUBIC}},
    {"rounding", SCION_RULE_SCION, {O(rounding), INT32, SCION_ROUNDING_NEAREST}},
};

static void test_values_at_the_edge(void **state)
{
    (void)state;
    for (int64_t t = 0; t < COUNT_OF(right_options); t++) {
        scion_options o;
        scion_options_init(&o, right_options[t].rule);
        apply(&o, &right_options[t].change);
        at("option %s, row %lld", right_options[t].word, (long long)t);
        check_ok(scion_options_check(&o, &err), &err);
    }
    check_ok(scion_options_check(NULL, &err), &err);
}

/* Values that scion_optimizer_set takes and refuses, by rule; a refusal names the parameter and what was expected. */
static void test_settings_at_the_edge(void **state)
{
    (void)state;
    static const struct {
        scion_rule rule;
        scion_setting what;
        double value;
        const char *expected; /* NULL: it is taken */
    } cases[] = {
        {SCION_RULE_SCION, SCION_SET_RADIUS, 1e-300, NULL},
        {SCION_RULE_SCION, SCION_SET_RADIUS, 0, "radius > 0"},
        {SCION_RULE_SCION, SCION_SET_RADIUS, INFINITY, "radius > 0"},
        {SCION_RULE_SCION, SCION_SET_RADIUS, NAN, "radius > 0"},
        {SCION_RULE_SCION, SCION_SET_LR_SCALE, 0, NULL},
        {SCION_RULE_SCION, SCION_SET_LR_SCALE, INFINITY, "lr_scale >= 0"},
        {SCION_RULE_SCION, SCION_SET_LR_SCALE, -1e-9, "lr_scale >= 0"},
        {SCION_RULE_SCION, SCION_SET_LR_SCALE, NAN, "lr_scale >= 0"},
        {SCION_RULE_SCION, SCION_SET_WEIGHT_DECAY, 1, NULL},
        {SCION_RULE_SCION, SCION_SET_WEIGHT_DECAY, 0, "weight_decay 1"},
        {SCION_RULE_SCION, SCION_SET_WEIGHT_DECAY, 2, "weight_decay 1"},
        {SCION_RULE_USCION, SCION_SET_WEIGHT_DECAY, 0, NULL},
        {SCION_RULE_USCION, SCION_SET_WEIGHT_DECAY, 2, NULL},
        {SCION_RULE_USCION, SCION_SET_WEIGHT_DECAY, -1e-9, "weight_decay >= 0"},
        {SCION_RULE_USCION, SCION_SET_WEIGHT_DECAY, INFINITY, "weight_decay >= 0"},
        {SCION_RULE_USCION, SCION_SET_MOMENTUM, 1, NULL},
        {SCION_RULE_USCION, SCION_SET_MOMENTUM, 1e-300, NULL},
        {SCION_RULE_USCION, SCION_SET_MOMENTUM, 0, "momentum in (0, 1]"},
        {SCION_RULE_USCION, SCION_SET_MOMENTUM, 1.0001, "momentum in (0, 1]"},
        {SCION_RULE_SIGNSGD, SCION_SET_MOMENTUM, 1, NULL},
        {SCION_RULE_SIGNSGD, SCION_SET_MOMENTUM, 0.5, "1 where the rule has none"},
        {SCION_RULE_SGD, SCION_SET_MOMENTUM, 0.5, NULL},
        {SCION_RULE_ADAMW, SCION_SET_MOMENTUM, 0.5, NULL},
        {SCION_RULE_SCION, SCION_SET_FROZEN, 1, NULL},
        {SCION_RULE_SCION, SCION_SET_FROZEN, 0, NULL},
        {SCION_RULE_SCION, SCION_SET_FROZEN, 0.5, "frozen 0 or 1"},
        {SCION_RULE_SCION, SCION_SET_FROZEN, -1, "frozen 0 or 1"},
        {SCION_RULE_SCION, SCION_SET_STEPS, 0x1p53, NULL},
        {SCION_RULE_SCION, SCION_SET_STEPS, 1.5, "a number of steps"},
        {SCION_RULE_SCION, SCION_SET_STEPS, -1, "a number of steps"},
        {SCION_RULE_SCION, SCION_SET_STEPS, NAN, "a number of steps"},
        {SCION_RULE_SCION, (scion_setting)(SCION_SET_STEPS + 1), 1, "no setting"},
        {SCION_RULE_SCION, (scion_setting)-1, 1, "no setting"},
    };
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_param p[2];
        scion_options o;
        scion_optimizer *opt;
        good_params(p);
        scion_options_init(&o, cases[t].rule);
        check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
        at("rule %d, setting %d = %g", (int)cases[t].rule, (int)cases[t].what, cases[t].value);
        memset(&err, 0, sizeof err);
        check_status(scion_optimizer_set(opt, 1, (int32_t)cases[t].what, cases[t].value, &err),
                     cases[t].expected ? SCION_EINVAL : SCION_OK, &err);
        check(!cases[t].expected || (err.param == 1 && strstr(err.message, cases[t].expected) != NULL));
        check_status(scion_optimizer_set_group(opt, 0, (int32_t)cases[t].what, cases[t].value, &err),
                     cases[t].expected ? SCION_EINVAL : SCION_OK, &err);
        scion_optimizer_free(opt);
    }
}

static void test_wrong_options(void **state)
{
    (void)state;
    for (int64_t t = 0; t < COUNT_OF(wrong_options); t++) {
        scion_param p[2];
        scion_options o;
        scion_optimizer *opt = (scion_optimizer *)&err;
        good_params(p);
        scion_options_init(&o, wrong_options[t].rule);
        p[0].grad_prev = p[1].grad_prev = memory[0];
        apply(&o, &wrong_options[t].change);
        memset(&err, 0, sizeof err);
        at("option %s, row %lld", wrong_options[t].word, (long long)t);
        check_status(scion_optimizer_create(&opt, &o, p, 2, &err), SCION_EINVAL, &err);
        check(opt == NULL);
        assert_int_equal(err.param, -1);
        if (!strstr(err.message, wrong_options[t].word))
            print_error("message: %s\n", err.message);
        check(strstr(err.message, wrong_options[t].word) != NULL);
    }
}

/* ---- Arguments ----------------------------------------------------------------------------------------- */

static void test_wrong_arguments(void **state)
{
    (void)state;
    scion_param p[2];
    scion_optimizer *opt;
    float x[64] = {0}, y[64] = {0};
    double value;
    good_params(p);
    check_status(scion_optimizer_create(NULL, NULL, p, 2, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_create(&opt, NULL, NULL, 2, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_create(&opt, NULL, p, 0, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_create(&opt, NULL, p, -1, &err), SCION_EINVAL, &err);
    check(opt == NULL);
    check_status(scion_lmo(NULL, NULL, x, y, &err), SCION_EINVAL, &err);
    check_status(scion_lmo(p, NULL, NULL, y, &err), SCION_EINVAL, &err);
    check_status(scion_lmo(p, NULL, x, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_norm_value(p, NULL, NULL, &value, &err), SCION_EINVAL, &err);
    check_status(scion_norm_value(p, NULL, x, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_dual_norm(p, NULL, NULL, &value, &err), SCION_EINVAL, &err);
    check_status(scion_dual_norm(p, NULL, x, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_sharp(p, NULL, x, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_fw_gap(p, NULL, x, NULL, &value, &err), SCION_EINVAL, &err);
    check_status(scion_fw_gap(p, NULL, x, y, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_boundary_init(p, NULL, 1, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_polar(0, 4, x, y, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_polar(4, -1, x, y, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_polar(4, 4, NULL, y, NULL, &err), SCION_EINVAL, &err);
    check_status(scion_polar(4, 4, x, NULL, NULL, &err), SCION_EINVAL, &err);
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    scion_param_properties about = {.size = 0};
    check_status(scion_param_info(p, &o, &about, &err), SCION_EINVAL, &err);
    scion_param_properties_init(&about);
    check_status(scion_param_info(NULL, &o, &about, &err), SCION_EINVAL, &err);
    o.routing = 99;
    check_status(scion_param_info(p, &o, &about, &err), SCION_EINVAL, &err);
    check(err.message[0] != '\0');
}

static void test_wrong_calls(void **state)
{
    (void)state;
    static const double bad_lr[] = {NAN, INFINITY, -0.1};
    scion_param p[2];
    scion_optimizer *opt;
    scion_info info = {.size = sizeof info};
    good_params(p);
    check_ok(scion_optimizer_create(&opt, NULL, p, 2, &err), &err);
    check(err.status == SCION_OK);
    for (int64_t t = 0; t < COUNT_OF(bad_lr); t++) {
        at("lr %g", bad_lr[t]);
        check_status(scion_optimizer_step(opt, bad_lr[t], &err), SCION_EINVAL, &err);
        check(err.message[0] != '\0');
    }
    at("(1-lr)w with lr above 1 leaves the ball");
    check_status(scion_optimizer_step(opt, 1.5, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "innocent") != NULL);
    check(strstr(err.message, "lr is 1.5, expected at most 1") != NULL && !strstr(err.message, "weight decay"));
    check_ok(scion_optimizer_step(opt, 1, &err), &err);
    scion_optimizer_free(opt);
    scion_options decays;
    scion_options_init(&decays, SCION_RULE_USCION);
    decays.weight_decay = 0.5;
    check_ok(scion_optimizer_create(&opt, &decays, p, 2, &err), &err);
    check_ok(scion_optimizer_step(opt, 2, &err), &err);
    check_status(scion_optimizer_step(opt, 2.5, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "lr 2.5 times weight decay 0.5") != NULL);
    scion_optimizer_free(opt);
    check_ok(scion_optimizer_create(&opt, NULL, p, 2, &err), &err);
    at("wrong calls");
    check_status(scion_optimizer_step(NULL, 0.1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_bind(NULL, 0, memory[0], memory[1], NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_inspect(NULL, 0, 0, &info, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_mark_start(NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_init_weights(NULL, 1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(NULL, 0, SCION_SET_RADIUS, 1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_previous(NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_save(NULL, 0, memory, 1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_load(NULL, 0, memory, 1, &err), SCION_EINVAL, &err);
    check(scion_optimizer_save_bytes(NULL, 0) == 0 && scion_optimizer_steps(NULL) == 0);
    assert_int_equal(scion_optimizer_steps(opt), 0);
    check_status(scion_optimizer_bind(opt, 2, memory[0], memory[1], NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_bind(opt, -1, memory[0], memory[1], NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_bind(opt, 0, NULL, memory[1], NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_inspect(opt, 2, 0, &info, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_inspect(opt, 0, 0, NULL, &err), SCION_EINVAL, &err);
    info.size = 0;
    check_status(scion_optimizer_inspect(opt, 0, 0, &info, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_previous(opt, &err), SCION_EINVAL, &err); /* MARS only */
    check_status(scion_optimizer_set(opt, 5, SCION_SET_RADIUS, 1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, SCION_SET_RADIUS, 0, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, SCION_SET_RADIUS, NAN, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, SCION_SET_LR_SCALE, -1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, SCION_SET_WEIGHT_DECAY, NAN, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, SCION_ALL, SCION_SET_MOMENTUM, 0, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, SCION_ALL, SCION_SET_MOMENTUM, 1.5, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, SCION_SET_FROZEN, 2, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set(opt, 0, (scion_setting)99, 1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_set_group(opt, 12345, SCION_SET_RADIUS, 1, &err), SCION_EINVAL, &err);
    check(err.message[0] != '\0');
    scion_optimizer_free(opt);
}

static int no_gradient(void *ctx, int64_t k, uint64_t sample)
{
    (void)ctx;
    (void)k;
    (void)sample;
    return 1;
}

#define NO_PARAM(call)                   \
    do {                                 \
        err.param = 7;                   \
        check((call) != SCION_OK);       \
        assert_int_equal(err.param, -1); \
        check(err.message[0] != '\0');   \
    } while (0)

/* The fault of no parameter has the number -1, not that of the first one. */
static void test_errors_of_no_parameter(void **state)
{
    (void)state;
    scion_param p[2];
    scion_optimizer *opt, *light;
    scion_options o;
    scion_step s;
    scion_schedule constant = {.size = sizeof constant, .kind = SCION_SCHEDULE_CONSTANT, .peak = 0.1, .n = 3};
    scion_problem problem = {
        .size = sizeof problem, .params = p, .count = 2, .gradient = no_gradient, .schedule = &constant, .steps = 3};
    float x[64] = {0};
    double value;
    unsigned char state_bytes[4096];
    good_params(p);
    check_ok(scion_optimizer_create(&opt, NULL, p, 2, &err), &err);
    scion_options_init(&o, SCION_RULE_SCION);
    o.light = 1;
    check_ok(scion_optimizer_create(&light, &o, p, 2, &err), &err);
    at("create");
    NO_PARAM(scion_optimizer_create(NULL, NULL, p, 2, &err));
    NO_PARAM(scion_optimizer_create(&(scion_optimizer *){NULL}, NULL, p, 0, &err));
    NO_PARAM(scion_optimizer_create(&(scion_optimizer *){NULL}, NULL, p, INT64_MAX, &err));
    at("free-standing functions");
    NO_PARAM(scion_lmo(NULL, NULL, x, x, &err));
    NO_PARAM(scion_lmo(p, NULL, NULL, x, &err));
    NO_PARAM(scion_norm_value(p, NULL, NULL, &value, &err));
    NO_PARAM(scion_dual_norm(p, NULL, NULL, &value, &err));
    NO_PARAM(scion_sharp(p, NULL, NULL, x, &err));
    NO_PARAM(scion_fw_gap(p, NULL, x, NULL, &value, &err));
    NO_PARAM(scion_boundary_init(p, NULL, 1, NULL, &err));
    NO_PARAM(scion_polar(4, 4, NULL, x, NULL, &err));
    NO_PARAM(scion_param_info(NULL, NULL, &(scion_param_properties){.size = sizeof(scion_param_properties)}, &err));
    NO_PARAM(scion_param_info(p, NULL, NULL, &err));
    at("an optimizer");
    NO_PARAM(scion_optimizer_set(NULL, 0, SCION_SET_RADIUS, 1, &err));
    NO_PARAM(scion_optimizer_set_group(opt, 12345, SCION_SET_RADIUS, 1, &err));
    NO_PARAM(scion_optimizer_previous(NULL, &err));
    NO_PARAM(scion_optimizer_previous(opt, &err));
    NO_PARAM(scion_optimizer_init_weights(NULL, 1, &err));
    NO_PARAM(scion_optimizer_mark_start(NULL, &err));
    at("a step");
    NO_PARAM(scion_optimizer_step(NULL, 0.1, &err));
    NO_PARAM(scion_optimizer_step(opt, NAN, &err));
    NO_PARAM(scion_optimizer_step_with(opt, NULL, &err));
    scion_step_init(&s);
    s.lr = 0.1;
    NO_PARAM(scion_optimizer_finish(opt, &s, &err));
    s.grad_scale = 2;
    NO_PARAM(scion_optimizer_step_with(light, &s, &err));
    s.grad_scale = 0;
    NO_PARAM(scion_optimizer_step_with(opt, &s, &err));
    scion_step_init(&s);
    s.threads = -1;
    NO_PARAM(scion_optimizer_step_with(opt, &s, &err));
    scion_step_init(&s);
    s.momentum = 2;
    NO_PARAM(scion_optimizer_step_with(opt, &s, &err));
    at("a state");
    const size_t bytes = scion_optimizer_save_bytes(opt, 0);
    check(bytes > 64 && bytes <= sizeof state_bytes);
    NO_PARAM(scion_optimizer_save(NULL, 0, state_bytes, bytes, &err));
    NO_PARAM(scion_optimizer_save(opt, 0, state_bytes, bytes - 1, &err));
    check_ok(scion_optimizer_save(opt, 0, state_bytes, bytes, &err), &err);
    NO_PARAM(scion_optimizer_load(NULL, 0, state_bytes, bytes, &err));
    NO_PARAM(scion_optimizer_load(opt, 0, state_bytes, bytes - 1, &err));
    static const size_t damage[] = {0, 8, 40}; /* in the mark, the version, and what the checksum covers */
    for (int64_t i = 0; i < COUNT_OF(damage); i++) {
        state_bytes[damage[i]] ^= 0x55;
        NO_PARAM(scion_optimizer_load(opt, 0, state_bytes, bytes, &err));
        state_bytes[damage[i]] ^= 0x55;
    }
    at("schedules and minimisation");
    NO_PARAM(scion_schedule_check(NULL, &err));
    NO_PARAM(scion_minimize(NULL, NULL, NULL, &err));
    NO_PARAM(scion_minimize(&problem, NULL, NULL, &err)); /* stopped by no_gradient */
    problem.steps = 0;
    NO_PARAM(scion_minimize(&problem, NULL, NULL, &err));
    problem.steps = 3;
    problem.gradient = NULL;
    NO_PARAM(scion_minimize(&problem, NULL, NULL, &err));
    constant.peak = NAN;
    NO_PARAM(scion_schedule_check(&constant, &err));
    constant.kind = 99;
    NO_PARAM(scion_schedule_check(&constant, &err));
    for (int32_t kind = 0; scion_schedule_info(kind); kind++) {
        const scion_schedule_properties *reads = scion_schedule_info(kind);
        scion_schedule good = {.size = sizeof good, .kind = kind, .peak = 1, .n = 10}, wrong = good;
        at("schedule %s", reads->name);
        check_ok(scion_schedule_check(&good, &err), &err);
        wrong.n = 0;
        if (reads->n)
            NO_PARAM(scion_schedule_check(&wrong, &err));
        wrong = good;
        wrong.warmup = 10;
        if (reads->warmup)
            NO_PARAM(scion_schedule_check(&wrong, &err));
        wrong = good;
        wrong.decay = 11;
        if (reads->decay)
            NO_PARAM(scion_schedule_check(&wrong, &err));
    }
    scion_optimizer_free(opt);
    scion_optimizer_free(light);
}

/* A function that takes one parameter names number 0; where previous weights are in place, none is at fault. */
static void test_numbers_of_parameters(void **state)
{
    (void)state;
    scion_param p[2];
    scion_param_properties about;
    scion_options o;
    scion_optimizer *opt;
    float x[64] = {0};
    good_params(p);
    p[1].radius = -1;
    scion_param_properties_init(&about);
    err.param = 7;
    check_status(scion_param_info(&p[1], NULL, &about, &err), SCION_EINVAL, &err);
    assert_int_equal(err.param, 0);
    err.param = 7;
    check_status(scion_lmo(&p[1], NULL, x, x, &err), SCION_EINVAL, &err);
    assert_int_equal(err.param, 0);
    good_params(p);
    p[0].grad_prev = floats(20);
    p[1].grad_prev = floats(48);
    scion_options_init(&o, SCION_RULE_MARS);
    check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
    check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
    check_ok(scion_optimizer_previous(opt, &err), &err);
    NO_PARAM(scion_optimizer_step(opt, 0.1, &err));
    check(strstr(err.message, "scion_optimizer_previous") != NULL);
    check_status(scion_optimizer_set(opt, 1, 99, 1, &err), SCION_EINVAL, &err);
    assert_int_equal(err.param, 1);
    assert_string_equal(err.message, "99 is no setting");
    scion_optimizer_free(opt);
}

/* MARS needs somewhere to find the second gradient. */
static void test_mars_needs_grad_prev(void **state)
{
    (void)state;
    scion_param p[2];
    scion_options o;
    scion_optimizer *opt;
    good_params(p);
    scion_options_init(&o, SCION_RULE_MARS);
    p[0].grad_prev = memory[1] + 20;
    check_status(scion_optimizer_create(&opt, &o, p, 2, &err), SCION_EINVAL, &err);
    assert_int_equal(err.param, 1);
    check(strstr(err.message, "culprit") != NULL);
    check(strstr(err.message, "grad_prev") != NULL);
    /* without a gradient it is skipped, and cannot be given one later */
    p[1].grad = NULL;
    check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
    check_status(scion_optimizer_bind(opt, 1, memory[2], memory[3], NULL, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "grad_prev") != NULL);
    scion_optimizer_free(opt);
}

/* Arrays that overlap or are not aligned; those that only touch are fine. */
static void test_memory(void **state)
{
    (void)state;
    unsigned char *const bytes = (unsigned char *)memory[3];
    const struct {
        const char *name;
        void *weight, *grad, *average;
        scion_status want;
    } cases[] = {
        {"as it should be", memory[2], memory[3], NULL, SCION_OK},
        {"grad behind weight", memory[2], memory[2] + 48, NULL, SCION_OK},
        {"grad is weight", memory[2], memory[2], NULL, SCION_EINVAL},
        {"grad overlaps weight", memory[2], memory[2] + 47, NULL, SCION_EINVAL},
        {"weight of another", memory[0], memory[3], NULL, SCION_EINVAL},
        {"end of another's gradient", memory[1] + 19, memory[3], NULL, SCION_EINVAL},
        {"behind another's gradient", memory[1] + 20, memory[3], NULL, SCION_OK},
        {"average in the gradient", memory[2], memory[3], memory[3], SCION_EINVAL},
        {"odd weight", bytes + 1, memory[1] + 20, NULL, SCION_EINVAL},
        {"odd gradient", memory[2], bytes + 2, NULL, SCION_EINVAL},
        {"odd average", memory[1] + 20, memory[3], (unsigned char *)memory[2] + 3, SCION_EINVAL},
    };
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_param p[2];
        scion_optimizer *opt;
        good_params(p);
        p[1].weight = cases[t].weight;
        p[1].grad = cases[t].grad;
        p[1].states = (void *const *)&cases[t].average;
        p[1].state_count = 1;
        at("%s", cases[t].name);
        check_status(scion_optimizer_create(&opt, NULL, p, 2, &err), cases[t].want, &err);
        if (cases[t].want != SCION_OK) {
            assert_int_equal(err.param, 1);
            check(strstr(err.message, "culprit") != NULL);
        }
        scion_optimizer_free(opt);
    }
    scion_param p[2];
    scion_optimizer *opt;
    good_params(p);
    at("bind");
    check_ok(scion_optimizer_create(&opt, NULL, p, 2, &err), &err);
    check_status(scion_optimizer_bind(opt, 1, memory[2], memory[2], NULL, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_bind(opt, 1, memory[2], bytes + 1, NULL, &err), SCION_EINVAL, &err);
    for (int shift = -47; shift < 48; shift += 47 - 5) { /* grad begins before, within or behind the weight */
        memset(&err, 0, sizeof err);
        check_status(scion_optimizer_bind(opt, 1, memory[2], memory[2] + shift, NULL, &err), SCION_EINVAL, &err);
        assert_int_equal(err.param, 1);
        check(strstr(err.message, "overlaps") != NULL && strstr(err.message, "culprit") != NULL);
    }
    check_ok(scion_optimizer_bind(opt, 1, memory[2], memory[2] - 48, NULL, &err), &err);
    check_ok(scion_optimizer_bind(opt, 1, memory[2], memory[2] + 48, NULL, &err), &err);
    check_ok(scion_optimizer_bind(opt, 1, memory[2], memory[3], NULL, &err), &err);
    scion_optimizer_free(opt);
    for (int shift = 40; shift < 63; shift++) {
        at("2^%d + 1 parameters", shift);
        const scion_status status = scion_optimizer_create(&opt, NULL, p, ((int64_t)1 << shift) + 1, &err);
        check(status == SCION_EINVAL || status == SCION_ENOMEM);
        check(opt == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_wrong_parameters),
        LAW(test_wrong_parameters_free_standing),
        LAW(test_wrong_options),
        LAW(test_wrong_arguments),
        LAW(test_wrong_calls),
        LAW(test_mars_needs_grad_prev),
        LAW(test_memory),
        LAW(test_split_of_a_huge_vector),
        LAW(test_values_at_the_edge),
        LAW(test_settings_at_the_edge),
        LAW(test_errors_of_no_parameter),
        LAW(test_numbers_of_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
