/* Every rule against its double-precision version, on a small network that has every role: 12 steps, all
 * weights compared after each. Then the equalities between rules that the paper states. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Elementwise norms: a few roundings of 6e-8 a step, 12 steps, relative to the largest weight. */
static const double flat_tol = 5e-6;
/* With the spectral norm each step adds lr times the error of a quintic iteration, 3e-5 for Gaussian gradients
 * (test_polar.c); and d, rounded at 6e-8, moves its small singular values by up to 485 times that. */
static const double spectral_tol = 1e-4;

enum { PARAMS = 8, STEPS = 12 };

static scion_error err;

/* ---- The network --------------------------------------------------------------------------------------- */

typedef struct network {
    scion_param p[PARAMS];
    int64_t n[PARAMS];
    float *g[PARAMS], *g_prev[PARAMS]; /* this step's, apart from the buffers that the optimizer sees */
    rng r;
} network;

static void make_network(network *net, uint64_t stream)
{
    static const double radius[PARAMS] = {1, 3, 2, 3, 10, 1, 0.5, 1.5};
    static const char *const name[PARAMS] = {"embed", "hidden", "conv", "qkv", "head", "bias", "gain", "plain"};
    net->r = rng_of(stream);
    net->p[0] = matrix_of(9, 4, SCION_NORM_AUTO, SCION_ROLE_ONEHOT);
    net->p[0].transposed = 1;
    net->p[1] = matrix_of(12, 8, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    net->p[2] = param_of(4, (int64_t[]){6, 2, 3, 2}, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    net->p[3] = matrix_of(12, 6, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    net->p[3].split_count = 3;
    net->p[4] = matrix_of(5, 8, SCION_NORM_AUTO, SCION_ROLE_OUTPUT);
    net->p[5] = param_of(1, (int64_t[]){8}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    net->p[6] = param_of(1, (int64_t[]){7}, SCION_NORM_AUTO, SCION_ROLE_NORMALIZATION);
    net->p[7] = matrix_of(6, 10, SCION_NORM_AUTO, SCION_ROLE_PLAIN);
    for (int i = 0; i < PARAMS; i++) {
        scion_param *p = &net->p[i];
        net->n[i] = elements(p);
        p->name = name[i];
        p->radius = radius[i];
        p->weight = gaussian(&net->r, net->n[i]);
        p->grad = floats(net->n[i]);
        p->grad_prev = floats(net->n[i]);
        net->g[i] = floats(net->n[i]);
        net->g_prev[i] = floats(net->n[i]);
    }
}

/* The same weights in memory of their own, the same gradients to come. */
static network copy_network(const network *from)
{
    network net = *from;
    for (int i = 0; i < PARAMS; i++) {
        net.p[i].weight = copy_floats(net.n[i], from->p[i].weight);
        net.p[i].grad = copy_floats(net.n[i], from->p[i].grad);
        net.p[i].grad_prev = floats(net.n[i]);
        net.g[i] = floats(net.n[i]);
        net.g_prev[i] = floats(net.n[i]);
    }
    return net;
}

static void draw_gradients(network *net)
{
    for (int i = 0; i < PARAMS; i++) {
        rng_gaussian(&net->r, net->n[i], net->g[i]);
        rng_gaussian(&net->r, net->n[i], net->g_prev[i]);
    }
}

/* As a trainer does it: begin, then backpropagation adds. */
static void backward(network *net, scion_optimizer *opt)
{
    scion_optimizer_begin(opt);
    for (int i = 0; i < PARAMS; i++) {
        float *grad = net->p[i].grad, *prev = net->p[i].grad_prev;
        for (int64_t e = 0; e < net->n[i]; e++)
            grad[e] += net->g[i][e];
        memcpy(prev, net->g_prev[i], (size_t)net->n[i] * sizeof *prev);
    }
}

/* ---- Every rule ---------------------------------------------------------------------------------------- */

typedef struct rule_row {
    const char *name;
    scion_rule rule;
    double momentum, weight_decay, clip_norm;
    int32_t vanishing, first_full, nesterov, layerwise, light;
    scion_routing routing;
} rule_row;

static rule_row rows[] = {
    {"scion", SCION_RULE_SCION, .momentum = 0.1, .routing = SCION_ROUTING_ONEHOT},
    {"scion, image", SCION_RULE_SCION, .momentum = 0.5, .routing = SCION_ROUTING_IMAGE},
    {"scion, shared", SCION_RULE_SCION, .momentum = 0.3, .routing = SCION_ROUTING_SHARED},
    {"scion, sign", SCION_RULE_SCION, .momentum = 0.1, .routing = SCION_ROUTING_SIGN},
    {"scion, col", SCION_RULE_SCION, .momentum = 0.1, .routing = SCION_ROUTING_COL},
    {"scion, row", SCION_RULE_SCION, .momentum = 0.1, .routing = SCION_ROUTING_ROW},
    {"scion, spectral", SCION_RULE_SCION, .momentum = 0.1, .routing = SCION_ROUTING_SPECTRAL},
    {"scion, alpha 1", SCION_RULE_SCION, .momentum = 1, .routing = SCION_ROUTING_ONEHOT},
    {"scion, vanishing", SCION_RULE_SCION, .momentum = 0.1, .vanishing = 1, .routing = SCION_ROUTING_ONEHOT},
    {"scion, first step full", SCION_RULE_SCION, .momentum = 0.1, .first_full = 1, .routing = SCION_ROUTING_ONEHOT},
    {"scion, light", SCION_RULE_SCION, .momentum = 0.1, .light = 1, .routing = SCION_ROUTING_ONEHOT},
    {"uscion", SCION_RULE_USCION, .momentum = 0.1, .routing = SCION_ROUTING_ONEHOT},
    {"uscion, vanishing", SCION_RULE_USCION, .momentum = 0.1, .vanishing = 1, .routing = SCION_ROUTING_SHARED},
    {"uscion, decay", SCION_RULE_USCION, .momentum = 0.1, .weight_decay = 0.3, .routing = SCION_ROUTING_ONEHOT},
    {"uscion, light", SCION_RULE_USCION, .momentum = 0.2, .light = 1, .routing = SCION_ROUTING_IMAGE},
    {"uscion, light, decay", SCION_RULE_USCION, .momentum = 0.2, .light = 1, .weight_decay = 0.5},
    {"almond", SCION_RULE_ALMOND, .momentum = 0.3, .routing = SCION_ROUTING_ONEHOT},
    {"almond, decay", SCION_RULE_ALMOND, .momentum = 0.3, .weight_decay = 0.2, .routing = SCION_ROUTING_SIGN},
    {"muon, Nesterov", SCION_RULE_MUON, .momentum = 0.1, .nesterov = 1, .weight_decay = 0.1},
    {"muon, plain", SCION_RULE_MUON, .momentum = 0.05, .nesterov = 0},
    {"signsgd", SCION_RULE_SIGNSGD, .momentum = 0.1},
    {"signum", SCION_RULE_SIGNUM, .momentum = 0.1, .weight_decay = 0.1},
    {"signum, light", SCION_RULE_SIGNUM, .momentum = 0.1, .light = 1},
    {"nsgd", SCION_RULE_NSGD, .momentum = 0.1},
    {"nsgd, layerwise", SCION_RULE_NSGD, .momentum = 0.1, .layerwise = 1},
    {"mnsgd", SCION_RULE_MNSGD, .momentum = 0.1, .weight_decay = 0.1},
    {"mnsgd, layerwise", SCION_RULE_MNSGD, .momentum = 0.1, .layerwise = 1},
    {"mnsgd, light", SCION_RULE_MNSGD, .momentum = 0.1, .light = 1},
    {"mnsgd, layerwise, light", SCION_RULE_MNSGD, .momentum = 0.1, .layerwise = 1, .light = 1},
    {"ssd, layerwise", SCION_RULE_SSD, .momentum = 1, .layerwise = 1, .routing = SCION_ROUTING_ONEHOT},
    {"ssd, joint", SCION_RULE_SSD, .momentum = 1, .weight_decay = 0.1, .routing = SCION_ROUTING_ONEHOT},
    {"mars", SCION_RULE_MARS, .momentum = 0.1, .routing = SCION_ROUTING_ONEHOT},
    {"mars, sign", SCION_RULE_MARS, .momentum = 0.3, .routing = SCION_ROUTING_SIGN},
    {"adamw", SCION_RULE_ADAMW, .momentum = 0.1, .weight_decay = 0.1},
    {"adamw, clipped", SCION_RULE_ADAMW, .momentum = 0.1, .weight_decay = 0.1, .clip_norm = 1.5},
    {"adamw, clip out of reach", SCION_RULE_ADAMW, .momentum = 0.1, .clip_norm = 1e6},
    {"sgd", SCION_RULE_SGD, .momentum = 1},
    {"sgd, momentum", SCION_RULE_SGD, .momentum = 0.1, .weight_decay = 0.1},
    {"sgd, vanishing", SCION_RULE_SGD, .momentum = 0.1, .vanishing = 1},
    {"muon, vanishing", SCION_RULE_MUON, .momentum = 0.1, .vanishing = 1},
    {"almond, vanishing", SCION_RULE_ALMOND, .momentum = 0.1, .vanishing = 1},
    {"sgd, momentum, clipped", SCION_RULE_SGD, .momentum = 0.1, .clip_norm = 2},
};

static scion_options options_of(const rule_row *row)
{
    scion_options o;
    scion_options_init(&o, row->rule);
    o.momentum = row->momentum;
    o.weight_decay = row->weight_decay;
    o.clip_norm = row->clip_norm;
    o.vanishing = row->vanishing;
    o.first_full = row->first_full;
    o.nesterov = row->nesterov;
    o.layerwise = row->layerwise;
    o.light = row->light;
    o.routing = row->routing;
    if (row->rule == SCION_RULE_SSD)
        o.polar = SCION_POLAR_CONVERGED; /* so that lmo and dual are the exact ones */
    return o;
}

static double rate(const rule_row *row, int k)
{
    double lr = row->rule == SCION_RULE_SSD ? 1e-4 : row->rule == SCION_RULE_ADAMW ? 1e-2 : 0.05;
    return lr * (1 - 0.5 * k / STEPS);
}

static void compare(const network *net, const oracle_run *run, const rule_row *row, int k)
{
    for (int i = 0; i < PARAMS; i++) {
        int spectral = run->params[i].p.norm == SCION_NORM_SPECTRAL || row->rule == SCION_RULE_MUON ||
                       row->rule == SCION_RULE_SSD; /* whose joint dual takes in the spectral ones */
        at("%s, step %d, %s", row->name, k + 1, net->p[i].name);
        check_array(net->n[i], net->p[i].weight, run->params[i].w, spectral ? spectral_tol : flat_tol);
    }
}

static void run_row(void **state)
{
    const rule_row *row = *state;
    scion_options o = options_of(row);
    scion_optimizer *opt;
    network net;
    make_network(&net, 1);
    oracle_run *run = oracle_start(&o, net.p, PARAMS);
    at("%s", row->name);
    check_ok(scion_optimizer_create(&opt, &o, net.p, PARAMS, &err), &err);
    for (int k = 0; k < STEPS; k++) {
        double lr = rate(row, k);
        float *before[PARAMS];
        draw_gradients(&net);
        backward(&net, opt);
        for (int i = 0; i < PARAMS; i++)
            before[i] = copy_floats(net.n[i], net.p[i].grad);
        check_ok(scion_optimizer_step(opt, lr, &err), &err);
        oracle_step(run, lr, (const float *const *)net.g, (const float *const *)net.g_prev);
        compare(&net, run, row, k);
        for (int i = 0; i < PARAMS; i++) { /* light leaves (1-alpha)G in the gradient; the others leave it alone */
            double *want = widen(net.n[i], before[i]), keep = row->light ? 1 - row->momentum : 1;
            for (int64_t e = 0; e < net.n[i]; e++)
                want[e] *= keep;
            check_array(net.n[i], net.p[i].grad, want, row->light ? 1e-6 : 0);
        }
    }
    assert_int_equal(scion_optimizer_steps(opt), STEPS);
    scion_optimizer_free(opt);
}

/* ---- Equalities ---------------------------------------------------------------------------------------- */

/* Two runs on the same gradients, b's step sizes times `ratio`; their weights must agree. */
static void check_same_run(const char *name, network *a, const scion_options *oa, network *b, const scion_options *ob,
                           double ratio, double tol)
{
    scion_optimizer *opt_a, *opt_b;
    check_ok(scion_optimizer_create(&opt_a, oa, a->p, PARAMS, &err), &err);
    check_ok(scion_optimizer_create(&opt_b, ob, b->p, PARAMS, &err), &err);
    for (int k = 0; k < STEPS; k++) {
        draw_gradients(a);
        draw_gradients(b);
        backward(a, opt_a);
        backward(b, opt_b);
        check_ok(scion_optimizer_step(opt_a, 0.1, &err), &err);
        check_ok(scion_optimizer_step(opt_b, 0.1 * ratio, &err), &err);
        for (int i = 0; i < PARAMS; i++) {
            at("%s, step %d, %s", name, k + 1, a->p[i].name);
            check_array(a->n[i], b->p[i].weight, widen(a->n[i], a->p[i].weight), tol);
        }
    }
    scion_optimizer_free(opt_a);
    scion_optimizer_free(opt_b);
}

/* "one with a larger radius rho/mu with a stepsize chosen as gamma mu" */
static void test_decay_is_a_larger_ball(void **state)
{
    (void)state;
    const double mu = 0.25;
    scion_options oa, ob;
    network a, b;
    scion_options_init(&oa, SCION_RULE_USCION);
    scion_options_init(&ob, SCION_RULE_SCION);
    oa.weight_decay = mu;
    oa.momentum = ob.momentum = 0.1;
    make_network(&a, 2);
    b = copy_network(&a);
    for (int i = 0; i < PARAMS; i++)
        b.p[i].radius /= mu;
    check_same_run("decay", &a, &oa, &b, &ob, mu, flat_tol);
}

/* The gradient buffer holds d over the alpha of the step, also where alpha changes from step to step. */
static void test_light_is_plain(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_SCION, SCION_RULE_USCION, SCION_RULE_SIGNUM, SCION_RULE_MNSGD};
    for (int64_t t = 0; t < COUNT_OF(rules); t++)
        for (int form = 0; form < 3; form++) {
            char name[64];
            scion_options oa, ob;
            network a, b;
            scion_options_init(&oa, rules[t]);
            oa.momentum = 0.1;
            oa.vanishing = form == 1;
            oa.first_full = form == 2;
            ob = oa;
            ob.light = 1;
            make_network(&a, 3);
            b = copy_network(&a);
            snprintf(name, sizeof name, "light %s, form %d", scion_enum_name(SCION_ENUM_RULE, (int)rules[t]), form);
            check_same_run(name, &a, &oa, &b, &ob, 1, spectral_tol);
        }
}

/* Signum is uscion with the max norm, layerwise MNSGD with the 2-norm; decay of one parameter alone. */
static void test_table_1(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_SIGNUM, SCION_RULE_MNSGD};
    for (int64_t t = 0; t < COUNT_OF(rules); t++) {
        scion_options oa, ob;
        network a, b;
        scion_options_init(&oa, rules[t]);
        scion_options_init(&ob, SCION_RULE_USCION);
        oa.momentum = ob.momentum = 0.2;
        oa.layerwise = 1;
        make_network(&a, 4);
        a.p[1].weight_decay = 0.5;
        b = copy_network(&a);
        for (int i = 0; i < PARAMS; i++)
            b.p[i].norm = t == 0 ? SCION_NORM_MAX : SCION_NORM_EUCLID;
        check_same_run(scion_enum_name(SCION_ENUM_RULE, (int)rules[t]), &a, &oa, &b, &ob, 1, flat_tol);
    }
}

/* AdamW with eps = 0 moves an entry by lr in its first step, and one whose gradient is 0, or so small that its square
 * is, not at all; with decay, the latter only decays. */
static void test_adamw_without_eps(void **state)
{
    (void)state;
    enum { N = 37 };
    float w[N], g[N];
    for (int i = 0; i < N; i++) {
        w[i] = 1;
        g[i] = i % 3 == 0 ? 0.0F : i % 3 == 1 ? 2.0F : 1e-30F;
    }
    scion_param p = param_of(1, (int64_t[]){N}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    p.weight = w;
    p.grad = g;
    scion_options o;
    scion_options_init(&o, SCION_RULE_ADAMW);
    o.adam_eps = 0;
    o.weight_decay = 0.5;
    scion_optimizer *opt;
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    check_ok(scion_optimizer_step(opt, 0.25, &err), &err);
    for (int i = 0; i < N; i++) {
        at("entry %d with gradient %g", i, (double)g[i]);
        check_rel((double)w[i], i % 3 == 1 ? 0.875 - 0.25 : 0.875, 1e-6);
    }
    scion_optimizer_free(opt);
}

/* Clipping is for parameters without an lmo: under Muon, gradients of hidden matrices do not count; under Scion there
 * is no joint sum to share. */
static void test_clipping_leaves_the_lmo_alone(void **state)
{
    (void)state;
    float bias[2][8];
    for (int large = 0; large < 2; large++) {
        scion_param p[2] = {matrix_of(8, 8, SCION_NORM_AUTO, SCION_ROLE_HIDDEN),
                            param_of(1, (const int64_t[]){8}, SCION_NORM_AUTO, SCION_ROLE_VECTOR)};
        scion_options o;
        scion_optimizer *opt;
        rng r = rng_of(31);
        for (int i = 0; i < 2; i++) {
            const int64_t n = elements(&p[i]);
            p[i].weight = gaussian(&r, n);
            p[i].grad = gaussian(&r, n);
            for (int64_t e = 0; large && i == 0 && e < n; e++)
                ((float *)p[i].grad)[e] *= 1024;
        }
        scion_options_init(&o, SCION_RULE_MUON);
        o.clip_norm = 10; /* above the norm of the bias's gradient */
        o.adam_eps = 1;   /* else the first step of AdamW does not depend on the size of its gradient */
        check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        memcpy(bias[large], p[1].weight, sizeof bias[large]);
        scion_optimizer_free(opt);
        scion_options_init(&o, SCION_RULE_SCION);
        o.clip_norm = 10;
        check_ok(scion_optimizer_create(&opt, &o, p, 2, &err), &err);
        assert_int_equal(scion_optimizer_joint_count(opt), 0);
        scion_optimizer_free(opt);
    }
    check_bits(sizeof bias[0], bias[0], bias[1]);
}

int main(void)
{
    enum { others = 5 };
    struct CMUnitTest tests[sizeof rows / sizeof *rows + others] = {
        LAW(test_decay_is_a_larger_ball), LAW(test_light_is_plain), LAW(test_table_1), LAW(test_adamw_without_eps),
        LAW(test_clipping_leaves_the_lmo_alone)};
    for (int64_t i = 0; i < COUNT_OF(rows); i++)
        tests[i + others] = (struct CMUnitTest){rows[i].name, run_row, NULL, release, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
