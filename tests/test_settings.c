/* Changes between steps: radius, step size, decay, momentum, freezing, groups, missing gradients, other
 * memory. Each against the double-precision rules with the same change. And the bounds on the norms of the
 * weights that the rules promise. */
#include "support.h"

#include <math.h>
#include <string.h>

/* Sign, column and RMS norms only: a few roundings of 6e-8 a step, relative to the largest weight. */
static const double tol = 5e-6;

enum { PARAMS = 4 };

static scion_error err;

typedef struct setup {
    scion_param p[PARAMS];
    int64_t n[PARAMS];
    scion_options o;
    scion_optimizer *opt;
    oracle_run *run;
    rng r;
    const float *g[PARAMS];
} setup;

static void start(setup *s, scion_rule rule)
{
    s->r = rng_of(77);
    scion_options_init(&s->o, rule);
    s->o.momentum = 0.2;
    s->p[0] = matrix_of(6, 5, SCION_NORM_COL, SCION_ROLE_HIDDEN);
    s->p[1] = matrix_of(6, 5, SCION_NORM_SIGN, SCION_ROLE_HIDDEN);
    s->p[2] = matrix_of(4, 6, SCION_NORM_ROW, SCION_ROLE_OUTPUT);
    s->p[3] = param_of(1, (int64_t[]){6}, SCION_NORM_RMS, SCION_ROLE_VECTOR);
    for (int i = 0; i < PARAMS; i++) {
        s->n[i] = elements(&s->p[i]);
        s->p[i].weight = gaussian(&s->r, s->n[i]);
        s->p[i].grad = floats(s->n[i]);
        s->p[i].group = i < 2 ? 1 : 2;
    }
}

static void create(setup *s)
{
    s->run = oracle_start(&s->o, s->p, PARAMS);
    check_ok(scion_optimizer_create(&s->opt, &s->o, s->p, PARAMS, &err), &err);
}

/* Steps on fresh gradients; parameter `missing` (or -1) gets none. */
static void steps(setup *s, int count, int missing)
{
    for (int k = 0; k < count; k++) {
        scion_optimizer_begin(s->opt);
        for (int i = 0; i < PARAMS; i++) {
            s->g[i] = gaussian(&s->r, s->n[i]);
            if (i == missing)
                s->g[i] = NULL;
            else
                memcpy(s->p[i].grad, s->g[i], (size_t)s->n[i] * sizeof(float));
        }
        check_ok(scion_optimizer_step(s->opt, 0.1, &err), &err);
        oracle_step(s->run, 0.1, s->g, NULL);
        for (int i = 0; i < PARAMS; i++) {
            at("parameter %d, step %d", i, k);
            check_array(s->n[i], s->p[i].weight, s->run->params[i].w, tol);
        }
    }
}

/* ---- Settings ------------------------------------------------------------------------------------------ */

static void test_radius(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_SCION);
    create(&s);
    steps(&s, 3, -1);
    check_ok(scion_optimizer_set(s.opt, 1, SCION_SET_RADIUS, 7, &err), &err);
    s.run->params[1].p.radius = 7;
    steps(&s, 3, -1);
    check_ok(scion_optimizer_set(s.opt, SCION_ALL, SCION_SET_RADIUS, 0.5, &err), &err);
    for (int i = 0; i < PARAMS; i++)
        s.run->params[i].p.radius = 0.5;
    steps(&s, 3, -1);
    scion_optimizer_free(s.opt);
}

static void test_lr_scale_and_decay(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_USCION);
    s.p[0].lr_scale = 0.25;
    s.p[1].weight_decay = 0.5;
    s.p[2].weight_decay = 0;
    s.o.weight_decay = 0.1;
    create(&s);
    steps(&s, 3, -1);
    check_ok(scion_optimizer_set(s.opt, 2, SCION_SET_LR_SCALE, 2, &err), &err);
    check_ok(scion_optimizer_set(s.opt, 3, SCION_SET_WEIGHT_DECAY, 0.9, &err), &err);
    s.run->params[2].p.lr_scale = 2;
    s.run->params[3].p.weight_decay = 0.9;
    steps(&s, 3, -1);
    scion_optimizer_free(s.opt);
}

/* Muon's AdamW part has a step size of its own: as if these parameters alone had that lr_scale. */
static void test_adam_lr_scale(void **state)
{
    (void)state;
    setup a, b;
    for (int form = 0; form < 2; form++) {
        start(form == 0 ? &a : &b, SCION_RULE_MUON);
        setup *s = form == 0 ? &a : &b;
        s->p[1].norm = SCION_NORM_AUTO; /* the one that Muon takes */
        s->o.weight_decay = 0.1;
        if (form == 0)
            s->o.adam_lr_scale = 0.25;
        for (int i = 0; i < PARAMS; i++)
            s->p[i].lr_scale = form == 1 && i != 1 ? 0.5 * 0.25 : 0.5;
        check_ok(scion_optimizer_create(&s->opt, &s->o, s->p, PARAMS, &err), &err);
        for (int k = 0; k < 5; k++) {
            for (int i = 0; i < PARAMS; i++)
                rng_gaussian(&s->r, s->n[i], s->p[i].grad);
            check_ok(scion_optimizer_step(s->opt, 0.1, &err), &err);
        }
        scion_optimizer_free(s->opt);
    }
    for (int i = 0; i < PARAMS; i++) {
        at("parameter %d", i);
        check_bits((size_t)a.n[i] * sizeof(float), a.p[i].weight, b.p[i].weight);
    }
    a.o.adam_lr_scale = -1;
    check_status(scion_options_check(&a.o, &err), SCION_EINVAL, &err);
}

static void test_momentum(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_USCION);
    create(&s);
    steps(&s, 3, -1);
    check_ok(scion_optimizer_set(s.opt, SCION_ALL, SCION_SET_MOMENTUM, 0.7, &err), &err);
    s.run->o.momentum = 0.7;
    steps(&s, 3, -1);
    scion_optimizer_free(s.opt);
    /* and in the place of vanishing momentum */
    start(&s, SCION_RULE_USCION);
    s.o.vanishing = 1;
    create(&s);
    steps(&s, 3, -1);
    check_ok(scion_optimizer_set(s.opt, SCION_ALL, SCION_SET_MOMENTUM, 0.4, &err), &err);
    s.run->o.vanishing = 0;
    s.run->o.momentum = 0.4;
    steps(&s, 3, -1);
    scion_optimizer_free(s.opt);
}

/* A change of momentum reaches the average that light keeps in the gradient. */
static void test_momentum_of_light(void **state)
{
    (void)state;
    static const double alpha[] = {0.5, 0.05, 1, 0.3};
    for (int vanishing = 0; vanishing < 2; vanishing++) {
        setup s;
        start(&s, SCION_RULE_USCION);
        s.o.vanishing = vanishing;
        s.run = oracle_start(&s.o, s.p, PARAMS);
        s.o.light = 1;
        check_ok(scion_optimizer_create(&s.opt, &s.o, s.p, PARAMS, &err), &err);
        for (int k = 0; k < 8; k++) {
            for (int i = 0; i < PARAMS; i++) {
                float *g = gaussian(&s.r, s.n[i]), *sum = s.p[i].grad;
                s.g[i] = g;
                for (int64_t e = 0; e < s.n[i]; e++)
                    sum[e] += g[e];
            }
            check_ok(scion_optimizer_step(s.opt, 0.1, &err), &err);
            oracle_step(s.run, 0.1, s.g, NULL);
            for (int i = 0; i < PARAMS; i++) {
                at("parameter %d, step %d, vanishing %d", i, k, vanishing);
                check_array(s.n[i], s.p[i].weight, s.run->params[i].w, 4 * tol);
            }
            if (k % 2) { /* between steps, before the next backward pass */
                check_ok(scion_optimizer_set(s.opt, SCION_ALL, SCION_SET_MOMENTUM, alpha[k / 2], &err), &err);
                s.run->o.momentum = alpha[k / 2];
                s.run->o.vanishing = 0;
            }
        }
        scion_optimizer_free(s.opt);
    }
}

static void test_frozen(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_SCION);
    s.p[2].frozen = 1;
    float *kept = copy_floats(s.n[2], s.p[2].weight);
    create(&s);
    steps(&s, 3, -1);
    check_bits((size_t)s.n[2] * sizeof *kept, s.p[2].weight, kept);
    check_ok(scion_optimizer_set(s.opt, 2, SCION_SET_FROZEN, 0, &err), &err);
    check_ok(scion_optimizer_set(s.opt, 0, SCION_SET_FROZEN, 1, &err), &err);
    s.run->params[2].p.frozen = 0;
    s.run->params[0].p.frozen = 1;
    kept = copy_floats(s.n[0], s.p[0].weight);
    steps(&s, 3, -1);
    check_bits((size_t)s.n[0] * sizeof *kept, s.p[0].weight, kept);
    scion_optimizer_free(s.opt);
}

static void test_groups(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_USCION);
    create(&s);
    check_ok(scion_optimizer_set_group(s.opt, 1, SCION_SET_RADIUS, 4, &err), &err);
    check_ok(scion_optimizer_set_group(s.opt, 2, SCION_SET_LR_SCALE, 0.5, &err), &err);
    for (int i = 0; i < PARAMS; i++) {
        if (i < 2)
            s.run->params[i].p.radius = 4;
        else
            s.run->params[i].p.lr_scale = 0.5;
    }
    steps(&s, 4, -1);
    scion_optimizer_free(s.opt);
}

/* A parameter without a gradient is skipped altogether: no decay, no change of its average. */
static void test_missing_gradient(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_SCION, SCION_RULE_NSGD,  SCION_RULE_MNSGD,
                                       SCION_RULE_SSD,   SCION_RULE_ADAMW, SCION_RULE_SGD};
    for (int64_t t = 0; t < COUNT_OF(rules); t++) {
        setup s;
        start(&s, rules[t]);
        s.o.clip_norm = rules[t] == SCION_RULE_ADAMW || rules[t] == SCION_RULE_SGD ? 1 : 0;
        create(&s);
        steps(&s, 2, -1);
        check_ok(scion_optimizer_bind(s.opt, 1, s.p[1].weight, NULL, NULL, &err), &err);
        float *kept = copy_floats(s.n[1], s.p[1].weight);
        steps(&s, 2, 1);
        check_bits((size_t)s.n[1] * sizeof *kept, s.p[1].weight, kept);
        check_ok(scion_optimizer_bind(s.opt, 1, s.p[1].weight, s.p[1].grad, NULL, &err), &err);
        steps(&s, 2, -1);
        scion_optimizer_free(s.opt);
    }
}

static void test_bind_moves(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_SCION);
    create(&s);
    steps(&s, 2, -1);
    float *old = s.p[0].weight, *kept = copy_floats(s.n[0], old);
    s.p[0].weight = copy_floats(s.n[0], old);
    s.p[0].grad = floats(s.n[0]);
    check_ok(scion_optimizer_bind(s.opt, 0, s.p[0].weight, s.p[0].grad, NULL, &err), &err);
    steps(&s, 2, -1);
    check_bits((size_t)s.n[0] * sizeof *kept, old, kept);
    scion_optimizer_free(s.opt);
}

/* MARS reads the second gradient where bind says, and keeps its place where bind says nothing. */
static void test_bind_moves_the_second_gradient(void **state)
{
    (void)state;
    float *w[2];
    for (int moved = 0; moved < 2; moved++) {
        rng r = rng_of(78);
        scion_param p = matrix_of(6, 5, SCION_NORM_COL, SCION_ROLE_HIDDEN);
        scion_options o;
        scion_optimizer *opt;
        scion_options_init(&o, SCION_RULE_MARS);
        p.weight = w[moved] = gaussian(&r, 30);
        p.grad = gaussian(&r, 30);
        float *prev = p.grad_prev = gaussian(&r, 30);
        check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        if (moved) {
            prev = copy_floats(30, p.grad_prev);
            memset(p.grad_prev, 0, 30 * sizeof(float));
            check_ok(scion_optimizer_bind(opt, 0, p.weight, p.grad, prev, &err), &err);
            check_ok(scion_optimizer_bind(opt, 0, p.weight, p.grad, NULL, &err), &err);
        }
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        scion_optimizer_free(opt);
    }
    check_bits(30 * sizeof(float), w[0], w[1]);
}

/* The exchange gives the weights before the last step, and a second one gives the present ones back. A parameter
 * that the last step left alone had the same weights before it. */
static void test_mars_previous(void **state)
{
    (void)state;
    setup s;
    float *now[PARAMS], *before[PARAMS];
    start(&s, SCION_RULE_MARS);
    for (int i = 0; i < PARAMS; i++)
        s.p[i].grad_prev = gaussian(&s.r, s.n[i]);
    check_ok(scion_optimizer_create(&s.opt, &s.o, s.p, PARAMS, &err), &err);
    for (int k = 0; k < 4; k++) {
        if (k == 2)
            check_ok(scion_optimizer_set(s.opt, 0, SCION_SET_FROZEN, 1, &err), &err);
        for (int i = 0; i < PARAMS; i++) {
            before[i] = copy_floats(s.n[i], s.p[i].weight);
            rng_gaussian(&s.r, s.n[i], s.p[i].grad);
        }
        if (k == 0) { /* before the first step it changes nothing */
            check_ok(scion_optimizer_previous(s.opt, &err), &err);
            check_ok(scion_optimizer_previous(s.opt, &err), &err);
        }
        check_ok(scion_optimizer_step(s.opt, 0.1, &err), &err);
        for (int i = 0; i < PARAMS; i++)
            now[i] = copy_floats(s.n[i], s.p[i].weight);
        check_ok(scion_optimizer_previous(s.opt, &err), &err);
        for (int i = 0; i < PARAMS; i++) {
            at("step %d, parameter %d", k, i);
            check_bits((size_t)s.n[i] * sizeof(float), s.p[i].weight, before[i]);
        }
        /* a step from there would be one from the wrong place */
        check_status(scion_optimizer_step(s.opt, 0.1, &err), SCION_EINVAL, &err);
        check_ok(scion_optimizer_previous(s.opt, &err), &err);
        for (int i = 0; i < PARAMS; i++)
            check_bits((size_t)s.n[i] * sizeof(float), s.p[i].weight, now[i]);
    }
    scion_optimizer_free(s.opt);
}

/* ---- Bounds -------------------------------------------------------------------------------------------- */

/* ||w|| <= rho (SCION, MARS), rho/mu (decay), start + rho sum of lr (USCION), at every step, whatever the
 * gradients; times the overshoot of the spectral iteration. inspect says the same. */
static void check_bounds(scion_rule rule, double mu, scion_polar_set set)
{
    scion_options o;
    scion_optimizer *opt;
    scion_param p[3] = {matrix_of(10, 14, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN),
                        matrix_of(8, 10, SCION_NORM_SIGN, SCION_ROLE_OUTPUT),
                        param_of(1, (int64_t[]){10}, SCION_NORM_RMS, SCION_ROLE_VECTOR)};
    rng r = rng_of(5);
    scion_options_init(&o, rule);
    o.weight_decay = mu;
    o.polar = set;
    for (int i = 0; i < 3; i++) {
        p[i].radius = 3 + i;
        p[i].weight = floats(elements(&p[i]));
        p[i].grad = floats(elements(&p[i]));
        p[i].grad_prev = floats(elements(&p[i]));
    }
    check_ok(scion_optimizer_create(&opt, &o, p, 3, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 3, &err), &err);
    double sum = 0;
    for (int k = 0; k < 25; k++) {
        double lr = 0.2;
        sum += lr;
        scion_optimizer_begin(opt);
        for (int i = 0; i < 3; i++)
            rng_gaussian(&r, elements(&p[i]), p[i].grad);
        check_ok(scion_optimizer_step(opt, lr, &err), &err);
        for (int i = 0; i < 3; i++) {
            scion_info info = {.size = sizeof info};
            at("rule %d, step %d, parameter %d", (int)rule, k, i);
            check_ok(scion_optimizer_inspect(opt, i, SCION_INSPECT_NORM, &info, &err), &err);
            double norm = oracle_norm(&p[i], widen(elements(&p[i]), p[i].weight));
            double begin = i < 2 ? p[i].radius : 0; /* matrices start on the boundary, vectors at 0 */
            double bound = rule == SCION_RULE_USCION && mu == 0 ? begin + p[i].radius * sum
                           : mu > 0                             ? p[i].radius / mu
                                                                : p[i].radius;
            static const double of_set[] = {1.21, 1.01, 1, 1};
            double overshoot = i > 0 ? 1 : of_set[set];
            check_le(norm, bound * overshoot * (1 + 1e-5));
            check_rel(info.weight_norm, norm, 1e-5);
            check_rel(info.bound, bound, 1e-5);
            check_rel(info.overshoot, overshoot, 1e-9);
        }
    }
    scion_optimizer_free(opt);
}

static void test_bounds(void **state)
{
    (void)state;
    for (int t = 0; scion_enum_name(SCION_ENUM_POLAR, t); t++) {
        check_bounds(SCION_RULE_SCION, 0, (scion_polar_set)t);
        check_bounds(SCION_RULE_MARS, 0, (scion_polar_set)t);
        check_bounds(SCION_RULE_USCION, 0, (scion_polar_set)t);
        check_bounds(SCION_RULE_USCION, 0.5, (scion_polar_set)t);
    }
}

/* A convolution starts with every position of its kernel on the boundary, which the flattened kernel exceeds by up
 * to the root of their number; the bound tells the truth at every step. */
static void test_bound_of_a_kernel(void **state)
{
    (void)state;
    scion_param p = param_of(4, (int64_t[]){4, 6, 3, 2}, SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN);
    scion_optimizer *opt;
    rng r = rng_of(6);
    p.weight = floats(144);
    p.grad = floats(144);
    check_ok(scion_optimizer_create(&opt, NULL, &p, 1, &err), &err);
    check_ok(scion_optimizer_init_weights(opt, 3, &err), &err);
    for (int k = 0; k < 40; k++) {
        scion_info info = {.size = sizeof info};
        at("step %d", k);
        check_ok(scion_optimizer_inspect(opt, 0, SCION_INSPECT_NORM, &info, &err), &err);
        check_rel(info.weight_norm, oracle_norm(&p, widen(144, p.weight)), 1e-5);
        check_le(info.weight_norm, info.bound * info.overshoot * (1 + 1e-5));
        rng_gaussian(&r, 144, p.grad);
        check_ok(scion_optimizer_step(opt, 0.2, &err), &err);
        if (k == 39)
            check_rel(info.bound, 1, 1e-3); /* by then the start is forgotten: 0.8^39 */
    }
    scion_optimizer_free(opt);
}

/* mark_start counts from the weights as they are. */
static void test_mark_start(void **state)
{
    (void)state;
    setup s;
    start(&s, SCION_RULE_USCION);
    create(&s);
    scion_info info = {.size = sizeof info};
    double norm = oracle_norm(&s.p[0], widen(s.n[0], s.p[0].weight));
    check_ok(scion_optimizer_mark_start(s.opt, &err), &err);
    check_ok(scion_optimizer_inspect(s.opt, 0, 0, &info, &err), &err);
    check_rel(info.bound, norm, 1e-5);
    steps(&s, 4, -1);
    check_ok(scion_optimizer_inspect(s.opt, 0, SCION_INSPECT_NORM, &info, &err), &err);
    check_rel(info.bound, norm + 0.4, 1e-5);
    check_le(info.weight_norm, info.bound * (1 + 1e-6));
    scion_optimizer_free(s.opt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_radius),
        LAW(test_lr_scale_and_decay),
        LAW(test_momentum),
        LAW(test_frozen),
        LAW(test_groups),
        LAW(test_missing_gradient),
        LAW(test_bind_moves),
        LAW(test_bind_moves_the_second_gradient),
        LAW(test_mars_previous),
        LAW(test_bounds),
        LAW(test_mark_start),
        LAW(test_bound_of_a_kernel),
        LAW(test_momentum_of_light),
        LAW(test_adam_lr_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
