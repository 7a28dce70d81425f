/* Names, versions, routing, schedules and what `inspect` tells: known values and formulas. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static scion_error err;

/* ---- Names --------------------------------------------------------------------------------------------- */

/* Every value of every enum has a name, which leads back to it; past the last there is none. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        scion_enum kind;
        const char *some[4];
    } kinds[] = {
        {SCION_ENUM_NORM, {"spectral", "sign", "rms", "max"}},
        {SCION_ENUM_ROLE, {"hidden", "onehot", "output", "plain"}},
        {SCION_ENUM_ROUTING, {"image", "onehot", "shared", "spectral"}},
        {SCION_ENUM_RULE, {"scion", "uscion", "muon", "adamw"}},
        {SCION_ENUM_POLAR, {"quintic", "express", "converged", "cubic"}},
        {SCION_ENUM_SCHEDULE, {"constant", "linear", "cosine", "constant"}},
        {SCION_ENUM_START, {"boundary", "zero", "uniform", "zero"}},
    };
    for (int64_t t = 0; t < COUNT_OF(kinds); t++) {
        const char *name;
        for (int v = 0; (name = scion_enum_name(kinds[t].kind, v)) != NULL; v++) {
            at("kind %d value %d", (int)t, v);
            check(name[0] != '\0');
            assert_int_equal(scion_enum_value(kinds[t].kind, name), v);
        }
        for (int s = 0; s < 4; s++)
            check(scion_enum_value(kinds[t].kind, kinds[t].some[s]) >= 0);
        check(scion_enum_name(kinds[t].kind, -1) == NULL);
        assert_int_equal(scion_enum_value(kinds[t].kind, "no such name"), -1);
        assert_int_equal(scion_enum_value(kinds[t].kind, ""), -1);
        assert_int_equal(scion_enum_value(kinds[t].kind, NULL), -1);
    }
    check(scion_enum_name((scion_enum)99, 0) == NULL);
    assert_int_equal(scion_enum_value((scion_enum)99, "scion"), -1);
    assert_int_equal(scion_enum_value(SCION_ENUM_RULE, "scion"), SCION_RULE_SCION);
    assert_int_equal(scion_enum_value(SCION_ENUM_NORM, "spectral"), SCION_NORM_SPECTRAL);
}

/* The columns of a rule say what an optimizer of that rule does. */
static void test_properties(void **state)
{
    (void)state;
    for (int32_t rule = 0; scion_rule_info(rule); rule++) {
        const scion_rule_properties *about = scion_rule_info(rule);
        scion_options o;
        scion_param p[2] = {matrix_of(4, 3, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
                            matrix_of(4, 3, SCION_NORM_AUTO, SCION_ROLE_OUTPUT)};
        scion_optimizer *opt;
        scion_array array;
        int most = 0;
        for (int i = 0; i < 2; i++) {
            p[i].weight = floats(12);
            p[i].grad = floats(12);
            p[i].grad_prev = about->needs_prev ? floats(12) : NULL;
        }
        at("rule %s", about->name);
        assert_string_equal(about->name, scion_enum_name(SCION_ENUM_RULE, rule));
        assert_int_equal(about->size, sizeof *about);
        check(strlen(about->help) > 10 && scion_rule_info(about->others) != NULL);
        const int32_t flags[] = {about->lmo,   about->averages, about->light, about->needs_prev,
                                 about->sharp, about->bounded,  about->joint};
        for (int64_t k = 0; k < COUNT_OF(flags); k++)
            check(flags[k] == 0 || flags[k] == 1);
        scion_options_init(&o, rule);
        check(o.momentum == about->momentum);
        check_ok(scion_options_check(&o, &err), &err);
        check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
        for (int i = 0; i < 2; i++) {
            int arrays = 0;
            scion_info info;
            scion_info_init(&info);
            scion_array_init(&array);
            while (scion_optimizer_state(opt, i, arrays, &array))
                arrays++;
            most = arrays > most ? arrays : most;
            check_ok(scion_optimizer_inspect(opt, i, 0, &info, &err), &err);
            check(info.rule == rule || info.rule == about->others);
            check(isfinite(info.bound) == (scion_rule_info(info.rule)->bounded != 0));
            check(about->norm == SCION_NORM_AUTO || info.rule != rule || info.norm == about->norm);
        }
        assert_int_equal(most, about->states);
        scion_optimizer_free(opt);
        o.light = 1;
        check((scion_options_check(&o, &err) == SCION_OK) == (about->light != 0));
        o.light = 0;
        o.weight_decay = 0.5;
        check((scion_options_check(&o, &err) == SCION_OK) == (about->weight_decay == 0));
    }
    for (int32_t norm = 1; scion_enum_name(SCION_ENUM_NORM, norm); norm++) {
        const scion_norm_properties *about = scion_norm_info(norm);
        at("norm %d", (int)norm);
        assert_string_equal(about->name, scion_enum_name(SCION_ENUM_NORM, norm));
        check(about->size == sizeof *about && about->help[0] != '\0');
        check((unsigned)about->starts_at_zero <= 1 && (unsigned)about->elementwise <= 1);
        scion_param p = matrix_of(5, 4, (scion_norm)norm, SCION_ROLE_HIDDEN);
        float *x = floats(20), sum = 0;
        check_ok(scion_boundary_init(&p, NULL, 1, x, &err), &err);
        for (int i = 0; i < 20; i++)
            sum += fabsf(x[i]);
        check((sum == 0) == (about->starts_at_zero != 0));
    }
    check(!scion_rule_info(-1) && !scion_norm_info(SCION_NORM_AUTO) && !scion_norm_info(99));
}

/* Properties of rules, norms and schedules are 1 or 0. */
static void test_flags(void **state)
{
    (void)state;
    for (int32_t rule = 0; scion_rule_info(rule); rule++) {
        const scion_rule_properties *r = scion_rule_info(rule);
        const int32_t flags[] = {r->lmo, r->averages, r->light, r->needs_prev, r->sharp, r->bounded, r->joint};
        at("rule %s", r->name);
        for (int64_t i = 0; i < COUNT_OF(flags); i++)
            check(flags[i] == 0 || flags[i] == 1);
    }
    for (int32_t norm = 1; scion_norm_info(norm); norm++) {
        const scion_norm_properties *n = scion_norm_info(norm);
        at("norm %s", n->name);
        check((n->starts_at_zero | n->elementwise) >> 1 == 0);
    }
    for (int32_t kind = 0; scion_schedule_info(kind); kind++) {
        const scion_schedule_properties *s = scion_schedule_info(kind);
        at("schedule %s", s->name);
        check((s->n | s->warmup | s->decay | s->start | s->end) >> 1 == 0);
    }
}

/* Arrays that are not there, or cannot be described. */
static void test_no_state_array(void **state)
{
    (void)state;
    const scion_param p = matrix_of(4, 3, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    scion_array array;
    scion_array_init(&array);
    check(scion_param_state(&p, NULL, 0, &array) == 1 && array.count == 12);
    check(scion_param_state(&p, NULL, -1, &array) == 0);
    check(scion_param_state(&p, NULL, 1, &array) == 0);
    check(scion_param_state(&p, NULL, 0, NULL) == 0);
    check(scion_param_state(NULL, NULL, 0, &array) == 0);
    array.size = 0;
    check(scion_param_state(&p, NULL, 0, &array) == 0);
}

/* Without decay the step size is the peak until the end, and 0 from there on. */
static void test_schedule_without_decay(void **state)
{
    (void)state;
    scion_schedule s = {.size = sizeof s, .kind = SCION_SCHEDULE_CONSTANT_LINEAR, .peak = 0.25, .n = 10};
    check(scion_schedule_value(&s, 0) == 0.25 && scion_schedule_value(&s, 9) == 0.25);
    check(scion_schedule_value(&s, 10) == 0 && scion_schedule_value(&s, 11) == 0);
}

static void test_version_and_status(void **state)
{
    (void)state;
    assert_string_equal(scion_version(), SCION_VERSION);
    for (int s = SCION_OK; s <= SCION_ESTOPPED; s++) {
        const char *text = scion_status_string((scion_status)s);
        check(text != NULL && text[0] != '\0');
        for (int t = SCION_OK; t < s; t++)
            check(strcmp(text, scion_status_string((scion_status)t)) != 0);
    }
    check(scion_status_string((scion_status)99) != NULL);
    check(scion_status_string((scion_status)-1) != NULL);
}

/* ---- Routing ------------------------------------------------------------------------------------------- */

static void test_route(void **state)
{
    (void)state;
    for (int routing = 0; scion_enum_name(SCION_ENUM_ROUTING, routing); routing++)
        for (int role = 0; scion_enum_name(SCION_ENUM_ROLE, role); role++)
            for (int32_t ndim = 1; ndim <= 4; ndim++) {
                scion_param p[2] = {
                    param_of(ndim, (int64_t[]){4, 3, 2, 2}, SCION_NORM_AUTO, (scion_role)role),
                    param_of(ndim, (int64_t[]){4, 3, 2, 2}, SCION_NORM_ROW, (scion_role)role),
                };
                at("routing %d role %d ndim %d", routing, role, (int)ndim);
                scion_options o;
                scion_options_init(&o, SCION_RULE_SCION);
                o.routing = routing;
                scion_param_properties about[2];
                for (int i = 0; i < 2; i++) {
                    scion_param_properties_init(&about[i]);
                    check_ok(scion_param_info(&p[i], &o, &about[i], &err), &err);
                }
                assert_int_equal(about[0].norm, oracle_route((scion_routing)routing, (scion_role)role, ndim));
                assert_int_equal(about[1].norm, SCION_NORM_ROW); /* what is not AUTO stays */
            }
}

/* scion_param_info is what create then does, and inspect tells the factor c of the table. */
static void check_routing(const scion_param *q, rng *r)
{
    scion_info info = {.size = sizeof info};
    scion_param_properties about = {.size = sizeof about};
    scion_optimizer *opt;
    scion_param p = *q;
    int64_t n = elements(&p);
    check_ok(scion_param_info(&p, NULL, &about, &err), &err);
    p.weight = gaussian(r, n);
    p.grad = gaussian(r, n);
    p.name = "this one";
    check_ok(scion_optimizer_create(&opt, NULL, &p, 1, &err), &err);
    check_ok(scion_optimizer_inspect(opt, 0, SCION_INSPECT_NORM | SCION_INSPECT_DUAL, &info, &err), &err);
    assert_string_equal(info.name, "this one");
    assert_int_equal(info.elements, n);
    assert_int_equal(info.rule, SCION_RULE_SCION);
    assert_int_equal(info.norm, p.norm);
    assert_int_equal(info.role, p.role);
    check_rel(info.scale, oracle_scale(&p), 1e-12);
    check_rel(info.radius, p.radius, 0);
    check_rel(info.weight_norm, oracle_norm(&p, widen(n, p.weight)), 1e-5);
    double dual = oracle_dual(&p, widen(n, p.grad)), full = p.radius * dual;
    check_rel(info.grad_dual, dual, 1e-5);
    check_le(fabs(info.fw_gap - (dot(n, p.grad, p.weight) + full)), 1e-5 * full);
    check(info.seconds >= 0);
    assert_int_equal(info.state_bytes, (size_t)n * sizeof(float));
    check(about.elements == info.elements && about.rule == info.rule && about.norm == info.norm);
    check(about.scale == info.scale && about.state_bytes == info.state_bytes && about.states == 1 && about.flops > 0);
    check(about.ranges == (scion_norm_info(p.norm)->elementwise && p.split_count < 2));
    check_ok(scion_optimizer_inspect(opt, 0, 0, &info, &err), &err);
    check(isnan(info.weight_norm) && isnan(info.grad_dual) && isnan(info.fw_gap));
    scion_optimizer_free(opt);
}

static void test_inspect(void **state)
{
    (void)state;
    for_each_case(check_routing);
}

/* Muon leaves to AdamW what is not a hidden or plain matrix. */
static void test_inspect_muon(void **state)
{
    (void)state;
    static const scion_rule want[] = {SCION_RULE_MUON,  SCION_RULE_ADAMW, SCION_RULE_ADAMW, SCION_RULE_ADAMW,
                                      SCION_RULE_ADAMW, SCION_RULE_ADAMW, SCION_RULE_MUON};
    for (int role = 0; role < 7; role++) {
        scion_param p = matrix_of(4, 6, SCION_NORM_AUTO, (scion_role)role);
        scion_info info = {.size = sizeof info};
        scion_options o;
        scion_optimizer *opt;
        p.weight = floats(24);
        p.grad = floats(24);
        scion_options_init(&o, SCION_RULE_MUON);
        at("role %d", role);
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        check_ok(scion_optimizer_inspect(opt, 0, 0, &info, &err), &err);
        assert_int_equal(info.rule, want[role]);
        check(info.seconds >= 0);
        if (want[role] == SCION_RULE_ADAMW)
            check(isinf(info.bound)); /* no promise */
        scion_optimizer_free(opt);
    }
}

/* Without a name a parameter is called by its index. Names are copied. */
static void test_default_name(void **state)
{
    (void)state;
    char name[] = "temporary";
    scion_param p[3];
    scion_info info = {.size = sizeof info};
    scion_optimizer *opt;
    for (int i = 0; i < 3; i++) {
        p[i] = matrix_of(2, 2, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
        p[i].weight = floats(4);
        p[i].grad = floats(4);
    }
    p[0].name = name;
    check_ok(scion_optimizer_create(&opt, NULL, p, 3, &err), &err);
    name[0] = 'T';
    check_ok(scion_optimizer_inspect(opt, 0, 0, &info, &err), &err);
    assert_string_equal(info.name, "temporary");
    check_ok(scion_optimizer_inspect(opt, 2, 0, &info, &err), &err);
    check(strstr(info.name, "param") != NULL && strstr(info.name, "2") != NULL);
    scion_optimizer_free(opt);
}

/* ---- Structs of other sizes ---------------------------------------------------------------------------- */

/* init writes no byte past the size it is told, as a program compiled against a shorter struct would have it. */
static void test_shorter_structs(void **state)
{
    (void)state;
    enum { CANARY = 0x5A };
    union {
        scion_param p;
        scion_options o;
        unsigned char bytes[512];
    } u;
    size_t shorter = offsetof(scion_param, group);
    memset(&u, CANARY, sizeof u);
    scion_param_init_sized(&u.p, shorter);
    assert_int_equal(u.p.size, shorter);
    for (size_t i = shorter; i < sizeof u; i++)
        assert_int_equal(u.bytes[i], CANARY);
    memset(&u, CANARY, sizeof u);
    shorter = offsetof(scion_options, seed);
    scion_options_init_sized(&u.o, shorter, SCION_RULE_SIGNUM);
    assert_int_equal(u.o.size, shorter);
    assert_int_equal(u.o.rule, SCION_RULE_SIGNUM);
    for (size_t i = shorter; i < sizeof u; i++)
        assert_int_equal(u.bytes[i], CANARY);
}

/* Structs that a later version has made longer: arrays of them are walked by their size; members that this version
 * does not know are taken as long as they are zero, and come back as zero. */
static void test_longer_structs(void **state)
{
    (void)state;
    enum { MORE = 40 };
    struct {
        scion_param p;
        unsigned char more[MORE];
    } p[3];
    struct {
        scion_options o;
        unsigned char more[MORE];
    } o;
    struct {
        scion_info i;
        unsigned char more[MORE];
    } info;
    scion_optimizer *opt;
    scion_options_init_sized(&o.o, sizeof o, SCION_RULE_USCION);
    check(o.o.size == sizeof o);
    for (int i = 0; i < 3; i++) {
        scion_param_init_sized(&p[i].p, sizeof *p);
        p[i].p.ndim = 2;
        p[i].p.shape[0] = 2 + i;
        p[i].p.shape[1] = 3;
        p[i].p.role = SCION_ROLE_OUTPUT;
        p[i].p.weight = floats(12);
        p[i].p.grad = floats(12);
    }
    for (int i = 0; i < 3; i++) {
        scion_param_properties about;
        scion_param_properties_init(&about);
        check_ok(scion_param_info(&p[i].p, &o.o, &about, &err), &err);
        assert_int_equal(about.norm, SCION_NORM_SIGN);
    }
    check_ok(scion_optimizer_create(&opt, &o.o, &p[0].p, 3, &err), &err);
    memset(&info, 0x5A, sizeof info);
    info.i.size = sizeof info;
    check_ok(scion_optimizer_inspect(opt, 2, SCION_INSPECT_NORM, &info.i, &err), &err);
    assert_int_equal(info.i.size, sizeof info);
    assert_int_equal(info.i.elements, 12);
    for (int k = 0; k < MORE; k++)
        assert_int_equal(info.more[k], 0);
    scion_optimizer_free(opt);
    /* a member that only a later version knows must not be lost in silence */
    p[1].more[MORE - 1] = 1;
    check_status(scion_optimizer_create(&opt, &o.o, &p[0].p, 3, &err), SCION_EINVAL, &err);
    assert_int_equal(err.param, 1);
    p[1].more[MORE - 1] = 0;
    o.more[3] = 1;
    check_status(scion_optimizer_create(&opt, &o.o, &p[0].p, 3, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "options") != NULL);
}

static void test_defaults(void **state)
{
    (void)state;
    scion_param p;
    scion_options o;
    scion_param_init(&p);
    check(p.size == sizeof p && p.radius == 1 && p.lr_scale == 1 && p.weight_decay < 0);
    check(p.norm == SCION_NORM_AUTO && p.role == SCION_ROLE_HIDDEN && !p.frozen && !p.transposed);
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        scion_options_init(&o, (scion_rule)rule);
        check(o.size == sizeof o && o.rule == rule);
        check(o.momentum > 0 && o.momentum <= 1);
        check(o.eps == 0 && o.polar_eps == 0 && o.polar == SCION_POLAR_QUINTIC && o.polar_steps == 0);
    }
    scion_options_init(&o, SCION_RULE_SCION);
    check(o.momentum == 0.1 && o.muon_multiplier == 0.1);
    check(o.beta1 == 0.9 && o.beta2 == 0.95 && o.adam_eps == 1e-8 && o.adam_lr_scale == 1 && o.clip_norm == 0);
    check(o.weight_decay == 0 && o.routing == SCION_ROUTING_IMAGE && o.rounding == SCION_ROUNDING_STOCHASTIC);
    check(!o.vanishing && !o.first_full && !o.light && !o.threads && !o.seed && !o.allocator);
    check(p.own_first == 0 && p.own_count == -1 && p.weight_type == SCION_F32 && p.start == SCION_START_BOUNDARY);
    scion_step s;
    scion_step_init(&s);
    check(s.lr == 0 && s.momentum == -1 && s.next_momentum == -1 && s.grad_scale == 1 && s.threads == 0);
    static const struct {
        scion_rule rule;
        double momentum, decay;
        int layerwise, nesterov;
    } rules[] = {
        {SCION_RULE_SCION, 0.1, 1, 1, 0}, {SCION_RULE_USCION, 0.1, 0, 1, 0}, {SCION_RULE_ALMOND, 0.1, 0, 1, 0},
        {SCION_RULE_MUON, 0.1, 0, 1, 1},  {SCION_RULE_SIGNSGD, 1, 0, 1, 0},  {SCION_RULE_SIGNUM, 0.1, 0, 1, 0},
        {SCION_RULE_NSGD, 1, 0, 0, 0},    {SCION_RULE_MNSGD, 0.1, 0, 0, 0},  {SCION_RULE_SSD, 1, 0, 0, 0},
        {SCION_RULE_MARS, 0.1, 1, 1, 0},  {SCION_RULE_ADAMW, 1, 0, 1, 0},    {SCION_RULE_SGD, 1, 0, 1, 0},
    };
    for (int64_t t = 0; t < COUNT_OF(rules); t++) {
        scion_options_init(&o, (int32_t)rules[t].rule);
        at("rule %d", (int)rules[t].rule);
        check(o.momentum == rules[t].momentum && o.layerwise == rules[t].layerwise &&
              o.nesterov == rules[t].nesterov);
        check(scion_rule_info((int32_t)rules[t].rule)->weight_decay == rules[t].decay);
    }
}

/* Operations of an lmo. An iteration of m x n, m < n, that restarts after every interval of l steps takes for each
 * 3 m^2 n + (4l - 3) m^3, a cubic one 3 m^2 n + (3l - 3) m^3; other norms take 4 for each entry. */
static void test_flops(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, cols;
        scion_norm norm;
        scion_polar_set set;
        int steps, split;
        double want;
    } cases[] = {
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 0, 2 * 6e3 + (5 + 9) * 1e3}, /* intervals of 2 and 3 */
        {20, 10, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 0, 2 * 6e3 + (5 + 9) * 1e3},
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 3, 0, 6e3 + 9e3},
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 7, 0, 3 * 6e3 + (5 + 5 + 9) * 1e3},
        {10, 10, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 0, 5 * 4e3},         /* a restart every step */
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_EXPRESS, 0, 0, 3 * (6e3 + 5e3)}, /* 3 of 2 */
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_CONVERGED, 0, 0, 12 * (6e3 + 1e3)},
        {10, 20, SCION_NORM_SPECTRAL, SCION_POLAR_CUBIC, 0, 0, 3 * (6e3 + 6e3)},        /* 3 of 3 */
        {10, 40, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 2, 2 * (2 * 6e3 + 14e3)}, /* two of 10 x 20 */
        {255, 300, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 0,
         2 * 3.0 * 255 * 255 * 300 + 14.0 * 255 * 255 * 255},
        {256, 300, SCION_NORM_SPECTRAL, SCION_POLAR_QUINTIC, 0, 0,
         3.0 * 256 * 256 * 300 + 17.0 * 256 * 256 * 256}, /* one interval of 5 */
        {10, 20, SCION_NORM_SIGN, SCION_POLAR_QUINTIC, 0, 0, 800},
        {10, 20, SCION_NORM_ROW, SCION_POLAR_QUINTIC, 0, 2, 800},
    };
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_param p = matrix_of(cases[t].rows, cases[t].cols, cases[t].norm, SCION_ROLE_HIDDEN);
        scion_options o;
        scion_param_properties about;
        scion_options_init(&o, SCION_RULE_SCION);
        scion_param_properties_init(&about);
        o.polar = (int32_t)cases[t].set;
        o.polar_steps = cases[t].steps;
        p.split_axis = 1;
        p.split_count = cases[t].split;
        at("row %lld", (long long)t);
        check_ok(scion_param_info(&p, &o, &about, &err), &err);
        check_rel(about.flops, cases[t].want, 1e-12);
        scion_options_init(&o, SCION_RULE_ADAMW);
        check_ok(scion_param_info(&p, &o, &about, &err), &err);
        check(about.flops == 0 && about.states == 2);
    }
}

/* The promise of a coefficient set, by its number of steps; bfloat16 adds its rounding. The results keep it. */
static void test_overshoot(void **state)
{
    (void)state;
    static const struct {
        scion_polar_set set;
        int steps;
        double want;
    } cases[] = {
        {SCION_POLAR_QUINTIC, 0, 1.21},   {SCION_POLAR_QUINTIC, 3, 1.21},    {SCION_POLAR_EXPRESS, 0, 1.01},
        {SCION_POLAR_EXPRESS, 6, 1.01},   {SCION_POLAR_EXPRESS, 7, 1.01},    {SCION_POLAR_EXPRESS, 5, 1.13},
        {SCION_POLAR_EXPRESS, 4, 2},      {SCION_POLAR_EXPRESS, 1, 2},       {SCION_POLAR_CONVERGED, 0, 1},
        {SCION_POLAR_CONVERGED, 12, 1},   {SCION_POLAR_CONVERGED, 11, 1.01}, {SCION_POLAR_CONVERGED, 6, 1.01},
        {SCION_POLAR_CONVERGED, 5, 1.13}, {SCION_POLAR_CUBIC, 0, 1},         {SCION_POLAR_CUBIC, 2, 1},
    };
    rng r = rng_of(77);
    for (int64_t t = 0; t < COUNT_OF(cases); t++)
        for (int half = 0; half < 2; half++) {
            scion_param p = matrix_of(6, 8, SCION_NORM_SPECTRAL, SCION_ROLE_PLAIN);
            scion_options o;
            scion_optimizer *opt;
            scion_info info;
            float *x = gaussian(&r, 48), *z = floats(48);
            double norm;
            scion_info_init(&info);
            scion_options_init(&o, SCION_RULE_SCION);
            o.polar = (int32_t)cases[t].set;
            o.polar_steps = cases[t].steps;
            p.weight = half ? (void *)bf16_copy(48, x) : (void *)copy_floats(48, x);
            p.weight_type = half ? SCION_BF16 : SCION_F32;
            p.grad = copy_floats(48, x);
            at("set %d, %d steps", (int)cases[t].set, cases[t].steps);
            check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
            check_ok(scion_optimizer_inspect(opt, 0, 0, &info, &err), &err);
            check_rel(info.overshoot, cases[t].want * (half ? 1.008 : 1), 1e-12);
            check_ok(scion_lmo(&p, &o, x, z, &err), &err);
            check_ok(scion_norm_value(&p, NULL, z, &norm, &err), &err);
            check_le(norm, cases[t].want + 1e-5);
            scion_optimizer_free(opt);
        }
}

/* Numbers of parameters, arrays and bytes, and the answers to questions about what is not there. */
static void test_queries(void **state)
{
    (void)state;
    scion_param p[3] = {matrix_of(4, 6, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
                        matrix_of(3, 4, SCION_NORM_AUTO, SCION_ROLE_OUTPUT),
                        param_of(1, (int64_t[]){5}, SCION_NORM_AUTO, SCION_ROLE_VECTOR)};
    static const char *const names[] = {"a", "b", "a"};
    scion_options o;
    scion_optimizer *opt;
    scion_array array;
    scion_array_init(&array);
    for (int i = 0; i < 3; i++) {
        p[i].name = names[i];
        p[i].weight = floats(24);
        p[i].grad = floats(24);
    }
    scion_options_init(&o, SCION_RULE_ADAMW);
    check_ok(scion_optimizer_create(&opt, &o, p, 3, &err), &err);
    assert_int_equal(scion_optimizer_count(opt), 3);
    assert_int_equal(scion_optimizer_find(opt, "a"), 0);
    assert_int_equal(scion_optimizer_find(opt, "b"), 1);
    assert_int_equal(scion_optimizer_find(opt, "c"), -1);
    assert_int_equal(scion_optimizer_find(opt, NULL), -1);
    assert_int_equal(scion_optimizer_find(NULL, "a"), -1);
    assert_int_equal(scion_optimizer_count(NULL), 0);
    assert_int_equal(scion_optimizer_state_bytes(opt), 2 * (24 + 12 + 5) * sizeof(float));
    check(scion_optimizer_state_bytes(NULL) == 0 && scion_optimizer_workspace_bytes(NULL) == 0);
    check(scion_optimizer_state(opt, 2, 1, &array) == 1 && strcmp(array.name, "second") == 0 && array.count == 5);
    check(array.ndim == 1 && array.shape[0] == 5 && array.first == 0 && array.type == SCION_F32 && array.data);
    check(!scion_optimizer_state(opt, 2, 2, &array) && !scion_optimizer_state(opt, 2, -1, &array));
    check(!scion_optimizer_state(opt, 3, 0, &array) && !scion_optimizer_state(opt, -1, 0, &array));
    check(!scion_optimizer_state(NULL, 0, 0, &array) && !scion_optimizer_state(opt, 0, 0, NULL));
    check(scion_param_state(&p[0], &o, 1, &array) == 1 && array.count == 24 && array.ndim == 2 && !array.data);
    check(!scion_param_state(&p[0], &o, 2, &array) && !scion_param_state(&p[0], &o, -1, &array));
    check(!scion_param_state(NULL, &o, 0, &array) && !scion_param_state(&p[0], &o, 0, NULL));
    scion_optimizer_free(opt);
    scion_options_init(&o, SCION_RULE_SCION);
    check_ok(scion_optimizer_create(&opt, &o, p, 3, &err), &err);
    check(scion_optimizer_workspace_bytes(opt) > 0);
    assert_int_equal(scion_optimizer_state_bytes(opt), (24 + 12 + 5) * sizeof(float));
    scion_optimizer_free(opt);
}

/* ---- Schedules ----------------------------------------------------------------------------------------- */

static double value_of(scion_schedule_kind kind, int64_t k)
{
    scion_schedule s = {.size = sizeof s,
                        .kind = (int32_t)kind,
                        .n = 100,
                        .warmup = 10,
                        .decay = 30,
                        .peak = 2,
                        .start = 0.5,
                        .end = 0.25};
    return scion_schedule_value(&s, k);
}

static void test_schedules(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    for (int64_t k = 0; k <= 100; k++) {
        double x = (double)k, warm = 0.5 + 1.5 * x / 10;
        at("k = %lld", (long long)k);
        check_rel(value_of(SCION_SCHEDULE_CONSTANT, k), 2, 0);
        check_le(fabs(value_of(SCION_SCHEDULE_LINEAR, k) - 2 * (1 - x / 100)), 1e-12);
        check_le(fabs(value_of(SCION_SCHEDULE_CONSTANT_LINEAR, k) - (k < 10   ? warm
                                                                     : k < 70 ? 2
                                                                              : 2 * (100 - x) / 30)),
                 1e-12);
        check_rel(value_of(SCION_SCHEDULE_COSINE, k), k < 10 ? warm : 0.25 + 1.75 * (1 + cos(pi * (x - 10) / 90)) / 2,
                  1e-12);
        check_rel(value_of(SCION_SCHEDULE_COSINE_UNSHIFTED, k),
                  k < 10 ? warm : 0.25 + 1.75 * (1 + cos(pi * x / 100)) / 2, 1e-12);
        check_rel(value_of(SCION_SCHEDULE_INV_SQRT_N, k), 0.2, 1e-12);
        check_rel(value_of(SCION_SCHEDULE_INV_N34, k), 2 * 0.75 / pow(100, 0.75), 1e-12);
        check_rel(value_of(SCION_SCHEDULE_INV_SQRT_K, k), 2 / sqrt(x + 1), 1e-12);
    }
}

/* After its last step a schedule stays where it ended: the cosine does not rise, the line does not go below 0. */
static void test_schedules_end(void **state)
{
    (void)state;
    for (int kind = 0; scion_enum_name(SCION_ENUM_SCHEDULE, kind); kind++)
        for (int64_t k = 101; k < 400; k += 13) {
            at("%s, k = %lld", scion_enum_name(SCION_ENUM_SCHEDULE, kind), (long long)k);
            check(value_of((scion_schedule_kind)kind, k) >= 0);
            if (kind != SCION_SCHEDULE_INV_SQRT_K)
                check(value_of((scion_schedule_kind)kind, k) == value_of((scion_schedule_kind)kind, 100));
        }
}

/* A schedule that makes no sense is named: NaN alone would only show in the first step. */
static void test_schedules_are_checked(void **state)
{
    (void)state;
    scion_schedule s;
    scion_schedule_init(&s);
    s.kind = SCION_SCHEDULE_COSINE;
    s.peak = 1;
    check_status(scion_schedule_check(&s, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "cosine") && strstr(err.message, "n is 0"));
    s.n = 10;
    check_ok(scion_schedule_check(&s, &err), &err);
    s.warmup = 10;
    check_status(scion_schedule_check(&s, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "warmup") != NULL);
    s.size = 0;
    check_status(scion_schedule_check(&s, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "size") != NULL);
}

/* Members at the edge of their range: the last that is taken, the first that is refused. */
static void test_schedules_at_the_edge(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        scion_schedule s;
        const char *word; /* NULL: it is taken */
    } cases[] = {
        {"n 1", {.kind = SCION_SCHEDULE_LINEAR, .n = 1, .peak = 1}, NULL},
        {"n 0", {.kind = SCION_SCHEDULE_LINEAR, .n = 0, .peak = 1}, "n is 0"},
        {"no n", {.kind = SCION_SCHEDULE_CONSTANT, .n = 0, .peak = 1}, NULL},
        {"no n of its own", {.kind = SCION_SCHEDULE_INV_SQRT_K, .n = -5, .peak = 1}, NULL},
        {"peak Inf", {.kind = SCION_SCHEDULE_CONSTANT, .peak = INFINITY}, "peak"},
        {"peak NaN", {.kind = SCION_SCHEDULE_CONSTANT, .peak = NAN}, "peak"},
        {"decay n", {.kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 9, .peak = 1, .decay = 9}, NULL},
        {"decay n + 1", {.kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 9, .peak = 1, .decay = 10}, "decay is 10"},
        {"decay -1", {.kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 9, .peak = 1, .decay = -1}, "decay is -1"},
        {"decay that is not read", {.kind = SCION_SCHEDULE_COSINE, .n = 9, .peak = 1, .decay = 10}, NULL},
        {"warmup n - 1", {.kind = SCION_SCHEDULE_COSINE, .n = 9, .peak = 1, .warmup = 8}, NULL},
        {"warmup n", {.kind = SCION_SCHEDULE_COSINE, .n = 9, .peak = 1, .warmup = 9}, "warmup is 9"},
        {"warmup -1", {.kind = SCION_SCHEDULE_COSINE_UNSHIFTED, .n = 9, .peak = 1, .warmup = -1}, "warmup is -1"},
        {"warmup that is not read", {.kind = SCION_SCHEDULE_LINEAR, .n = 9, .peak = 1, .warmup = 10}, NULL},
        {"one kind too many", {.kind = SCION_SCHEDULE_INV_SQRT_K + 1, .n = 9, .peak = 1}, "kind 8"},
        {"kind -1", {.kind = -1, .n = 9, .peak = 1}, "kind -1"},
    };
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_schedule s = cases[t].s;
        s.size = sizeof s;
        at("%s", cases[t].name);
        check_status(scion_schedule_check(&s, &err), cases[t].word ? SCION_EINVAL : SCION_OK, &err);
        check(!cases[t].word || strstr(err.message, cases[t].word) != NULL);
        check((isnan(scion_schedule_value(&s, 0)) != 0) == (cases[t].word != NULL));
    }
    check_status(scion_schedule_check(NULL, &err), SCION_EINVAL, &err);
    const scion_schedule whole = {
        .size = sizeof whole, .kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 4, .peak = 2, .decay = 4};
    const scion_schedule none = {.size = sizeof none, .kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 4, .peak = 2};
    const scion_schedule rises = {
        .size = sizeof rises, .kind = SCION_SCHEDULE_CONSTANT_LINEAR, .n = 9, .peak = 2, .warmup = 2};
    static const double down[] = {2, 1.5, 1, 0.5, 0, 0}, stays[] = {2, 2, 2, 2, 0, 0}, up[] = {0, 1, 2, 2};
    for (int k = 0; k < 6; k++) {
        check(scion_schedule_value(&whole, k) == down[k] && scion_schedule_value(&none, k) == stays[k]);
        check(k > 3 || scion_schedule_value(&rises, k) == up[k]);
    }
}

/* scion_schedule_info tells the truth: a value changes with a member exactly if the schedule reads it. */
static void test_schedules_read(void **state)
{
    (void)state;
    for (int kind = 0; scion_schedule_info(kind); kind++) {
        const scion_schedule_properties *reads = scion_schedule_info(kind);
        const scion_schedule full = {.size = sizeof full,
                                     .kind = kind,
                                     .n = 12,
                                     .peak = 1,
                                     .warmup = 3,
                                     .decay = 3,
                                     .start = 0.25,
                                     .end = 0.125};
        const int32_t said[] = {reads->n, reads->warmup, reads->decay, reads->start, reads->end};
        assert_string_equal(reads->name, scion_enum_name(SCION_ENUM_SCHEDULE, kind));
        for (int i = 0; i < 5; i++) {
            scion_schedule s = full;
            int changed = 0;
            s.n += i == 0;
            s.warmup -= i == 1;
            s.decay -= i == 2;
            s.start *= i == 3 ? 2 : 1;
            s.end *= i == 4 ? 2 : 1;
            for (int64_t k = 0; k <= full.n; k++)
                changed |= scion_schedule_value(&s, k) != scion_schedule_value(&full, k);
            at("%s, member %d", reads->name, i);
            assert_int_equal(changed, said[i] != 0);
        }
    }
    assert_null(scion_schedule_info(-1));
}

static void test_senseless_schedules(void **state)
{
    (void)state;
    scion_schedule good = {.size = sizeof good, .kind = SCION_SCHEDULE_LINEAR, .n = 10, .peak = 1}, s;
    check(isnan(scion_schedule_value(NULL, 0)));
    s = good, s.kind = (scion_schedule_kind)99;
    check(isnan(scion_schedule_value(&s, 0)));
    s = good, s.n = 0;
    check(isnan(scion_schedule_value(&s, 0)));
    s = good, s.size = 0;
    check(isnan(scion_schedule_value(&s, 0)));
    s = good, s.kind = SCION_SCHEDULE_INV_SQRT_N, s.n = -3;
    check(isnan(scion_schedule_value(&s, 0)));
    s = good, s.kind = SCION_SCHEDULE_COSINE, s.warmup = -1;
    check(isnan(scion_schedule_value(&s, 0)));
    s = good, s.kind = SCION_SCHEDULE_CONSTANT_LINEAR, s.decay = -1;
    check(isnan(scion_schedule_value(&s, 0)));
    check(isnan(scion_schedule_value(&good, -1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_names),
        LAW(test_properties),
        LAW(test_flags),
        LAW(test_no_state_array),
        LAW(test_schedule_without_decay),
        LAW(test_version_and_status),
        LAW(test_route),
        LAW(test_inspect),
        LAW(test_inspect_muon),
        LAW(test_default_name),
        LAW(test_shorter_structs),
        LAW(test_longer_structs),
        LAW(test_defaults),
        LAW(test_schedules),
        LAW(test_senseless_schedules),
        LAW(test_schedules_end),
        LAW(test_schedules_are_checked),
        LAW(test_schedules_read),
        LAW(test_schedules_at_the_edge),
        LAW(test_flops),
        LAW(test_overshoot),
        LAW(test_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
