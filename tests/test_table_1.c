/* Table 1 of the paper row by row, and the methods that its section 4 relates to uSCG and SCG. Each is written out
 * here in double as its own authors state it, and our rule follows it for several steps; then it is compared with the
 * rule that the paper says it is an instance of. Where both do the same operations, up to powers of two, to the bit.
 *
 * The problem: two matrices and a vector with weights and gradients drawn at random, so that no equality holds for
 * a reason of the problem. */
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Weights of about 1 are rounded once a step at 6e-8; lmos by float32 norms are off by as much. */
static const double tol = 2e-6;
/* The converged polar factor is known to the condition number of its input, at most 20, times some roundings. */
static const double spectral_tol = 2e-5;

enum { PARAMS = 3, STEPS = 10, MAX_ENTRIES = 64 };

static const double rate = 0.05;
static const double radius[PARAMS] = {2, 0.5, 3};
static scion_error err;

/* ---- The problem --------------------------------------------------------------------------------------- */

/* Weights as our rule has them, and the same method by hand. */
typedef struct problem {
    scion_param p[PARAMS];
    int64_t n[PARAMS];
    int count;
    double x[PARAMS][MAX_ENTRIES], d[PARAMS][MAX_ENTRIES]; /* by hand: weights, and what the method remembers */
    double g[PARAMS][MAX_ENTRIES],
        before[PARAMS][MAX_ENTRIES]; /* gradients of the step, and at the previous weights */
    rng r;
} problem;

/* `count` of the three parameters, of plain role: no dimension factors, as in Table 1. */
static void make(problem *q, int count)
{
    static const int64_t shapes[PARAMS][2] = {{6, 9}, {8, 5}, {7, 0}};
    memset(q, 0, sizeof *q);
    q->r = rng_of(1);
    q->count = count;
    for (int i = 0; i < count; i++) {
        q->p[i] = param_of(shapes[i][1] > 0 ? 2 : 1, shapes[i], SCION_NORM_AUTO, SCION_ROLE_PLAIN);
        q->n[i] = elements(&q->p[i]);
        q->p[i].radius = radius[i];
        q->p[i].weight = gaussian(&q->r, q->n[i]);
        q->p[i].grad = floats(q->n[i]);
        q->p[i].grad_prev = floats(q->n[i]);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] = (double)((float *)q->p[i].weight)[e];
    }
}

static void draw(problem *q)
{
    for (int i = 0; i < q->count; i++) {
        rng_gaussian(&q->r, q->n[i], q->p[i].grad);
        rng_gaussian(&q->r, q->n[i], q->p[i].grad_prev);
        for (int64_t e = 0; e < q->n[i]; e++) {
            q->g[i][e] = (double)((float *)q->p[i].grad)[e];
            q->before[i][e] = (double)((float *)q->p[i].grad_prev)[e];
        }
    }
}

static double squares(const problem *q, int i, double (*a)[MAX_ENTRIES])
{
    double sum = 0;
    for (int64_t e = 0; e < q->n[i]; e++)
        sum += a[i][e] * a[i][e];
    return sum;
}

static double norm_of_all(const problem *q, double (*a)[MAX_ENTRIES])
{
    double sum = 0;
    for (int i = 0; i < q->count; i++)
        sum += squares(q, i, a);
    return sqrt(sum);
}

static double sign(double a)
{
    return (a > 0) - (a < 0);
}

/* UV' of matrix i, by LAPACK. */
static double *uv(const problem *q, int i, double (*a)[MAX_ENTRIES])
{
    double *z = doubles(q->n[i]);
    oracle_polar(q->p[i].shape[0], q->p[i].shape[1], a[i], 1e-9, z);
    return z;
}

static double nuclear(const problem *q, int i, double (*a)[MAX_ENTRIES])
{
    const int64_t rows = q->p[i].shape[0], cols = q->p[i].shape[1];
    const double *sigma = singular_values(rows, cols, a[i]);
    double sum = 0;
    for (int64_t k = 0; k < (rows < cols ? rows : cols); k++)
        sum += sigma[k];
    return sum;
}

/* ---- The methods by hand, step k from 1, as their authors have them ------------------------------------- */

typedef struct settings {
    double alpha, mu;
    int k;
} settings;

#define EACH_PARAM(q, i) for (int i = 0; i < (q)->count; i++)
#define EACH(q, i, e) EACH_PARAM(q, i) for (int64_t e = 0; e < (q)->n[i]; e++)

static void ema(problem *q, double alpha)
{
    EACH(q, i, e)
    q->d[i][e] = (1 - alpha) * q->d[i][e] + alpha * q->g[i][e];
}

/* Hazan et al. 2015: x - gamma g/|g|. */
static void normalized_sgd(problem *q, const settings *s)
{
    const double norm = norm_of_all(q, q->g);
    (void)s;
    EACH(q, i, e)
    q->x[i][e] -= rate * radius[i] * q->g[i][e] / norm;
}

/* Cutkosky and Mehta 2020: m = beta m + (1-beta) g, x - gamma m/|m|. */
static void momentum_normalized_sgd(problem *q, const settings *s)
{
    ema(q, s->alpha);
    const double norm = norm_of_all(q, q->d);
    EACH(q, i, e)
    q->x[i][e] -= rate * radius[i] * q->d[i][e] / norm;
}

/* The same with the norm max of |W_l|_F: each layer by its own norm (LARS without its adaptive step size). */
static void layerwise_normalized_sgd(problem *q, const settings *s)
{
    ema(q, s->alpha);
    EACH_PARAM(q, i)
    {
        const double norm = sqrt(squares(q, i, q->d));
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] -= rate * radius[i] * q->d[i][e] / norm;
    }
}

/* Zhao et al. 2020: the average of normalized gradients. */
static void average_of_normalized(problem *q, const settings *s)
{
    const double norm = norm_of_all(q, q->g);
    EACH(q, i, e)
    {
        q->d[i][e] = (1 - s->alpha) * q->d[i][e] - s->alpha * q->g[i][e] / norm;
        q->x[i][e] += rate * radius[i] * q->d[i][e];
    }
}

/* Bernstein et al. 2018, Theorems 1 and 3. */
static void sign_sgd(problem *q, const settings *s)
{
    (void)s;
    EACH(q, i, e)
    q->x[i][e] -= rate * radius[i] * sign(q->g[i][e]);
}

static void signum(problem *q, const settings *s)
{
    ema(q, s->alpha);
    EACH(q, i, e)
    q->x[i][e] -= rate * (radius[i] * sign(q->d[i][e]) + s->mu * q->x[i][e]);
}

/* Jordan et al. 2024: G = g + beta G, x - gamma UV' of G, or of g + beta G with Nesterov's momentum. Weight decay as
 * Liu et al. 2025. */
static void muon_of(problem *q, const settings *s, bool nesterov)
{
    const double beta = 1 - s->alpha;
    EACH(q, i, e)
    q->d[i][e] = q->g[i][e] + beta * q->d[i][e];
    if (nesterov)
        EACH(q, i, e)
    q->g[i][e] += beta * q->d[i][e];
    EACH_PARAM(q, i)
    {
        const double *z = uv(q, i, nesterov ? q->g : q->d);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] -= rate * (radius[i] * z[e] + s->mu * q->x[i][e]);
    }
}

static void muon(problem *q, const settings *s)
{
    muon_of(q, s, false);
}

static void muon_nesterov(problem *q, const settings *s)
{
    muon_of(q, s, true);
}

/* Carlson et al. 2015: x - gamma |g|_* UV', |.|_* the sum of the singular values, for one matrix. For several, in the
 * norm max of |W_l|/rho_l: the dual norm is the sum of rho_l |g_l|_*, and each layer moves by rho_l UV' times it. */
static void spectral_descent(problem *q, const settings *s)
{
    double dual = 0;
    (void)s;
    EACH_PARAM(q, i)
    dual += radius[i] * nuclear(q, i, q->g);
    EACH_PARAM(q, i)
    {
        const double *z = uv(q, i, q->g);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] -= 0.01 * rate * dual * radius[i] * z[e];
    }
}

static void spectral_descent_layerwise(problem *q, const settings *s)
{
    (void)s;
    EACH_PARAM(q, i)
    {
        const double *z = uv(q, i, q->g), dual = radius[i] * nuclear(q, i, q->g);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] -= 0.01 * rate * dual * radius[i] * z[e];
    }
}

/* The sign steps of Carlson et al., with the 1-norm of the gradient that SignSGD leaves out. */
static void sign_descent(problem *q, const settings *s)
{
    double dual = 0;
    (void)s;
    EACH(q, i, e)
    dual += radius[i] * fabs(q->g[i][e]);
    EACH(q, i, e)
    q->x[i][e] -= 0.01 * rate * dual * radius[i] * sign(q->g[i][e]);
}

/* Conditional gradient (Frank and Wolfe 1956) over the spectral ball, or stochastic (Mokhtari et al. 2020). */
static void conditional_gradient(problem *q, const settings *s)
{
    ema(q, s->alpha);
    EACH_PARAM(q, i)
    {
        const double *z = uv(q, i, q->d);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] = (1 - rate) * q->x[i][e] - rate * radius[i] * z[e];
    }
}

/* Yuan et al. 2024, algorithm 4: SCG with the STORM estimator d = g + (1-alpha)(d - g at the previous weights). */
static void mars_shampoo(problem *q, const settings *s)
{
    EACH(q, i, e)
    q->d[i][e] = q->g[i][e] + (s->k > 1 ? (1 - s->alpha) * (q->d[i][e] - q->before[i][e]) : 0);
    EACH_PARAM(q, i)
    {
        const double *z = uv(q, i, q->d);
        for (int64_t e = 0; e < q->n[i]; e++)
            q->x[i][e] = (1 - rate) * q->x[i][e] - rate * radius[i] * z[e];
    }
}

/* ---- Our rules ----------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    void (*step)(problem *q, const settings *s); /* by hand */
    scion_rule rule;                             /* our rule of that name */
    scion_rule instance;                         /* what the paper says it is, ... */
    scion_norm norm;                             /* ... in this norm; AUTO: no such claim */
    int params;                                  /* the first so many: matrices only, or all three */
    double alpha, mu;
    int32_t nesterov, layerwise;
    double lr;   /* over `rate` */
    int32_t one; /* the claim is for one parameter: the norm of all as one vector */
} row;

#define RULE(r) SCION_RULE_##r
#define NORM(n) SCION_NORM_##n

static row rows[] = {
    {"Normalized SGD", normalized_sgd, RULE(NSGD), RULE(USCION), NORM(EUCLID), 3, .alpha = 1, .lr = 1, .one = 1},
    {"Momentum Normalized SGD", momentum_normalized_sgd, RULE(MNSGD), RULE(USCION), NORM(EUCLID), 3, .alpha = 0.3,
     .lr = 1, .one = 1},
    {"layerwise Normalized SGD", layerwise_normalized_sgd, RULE(MNSGD), RULE(USCION), NORM(EUCLID), 3, .alpha = 0.3,
     .layerwise = 1, .lr = 1},
    {"SignSGD", sign_sgd, RULE(SIGNSGD), RULE(USCION), NORM(MAX), 3, .alpha = 1, .lr = 1},
    {"Signum", signum, RULE(SIGNUM), RULE(USCION), NORM(MAX), 3, .alpha = 0.3, .lr = 1},
    {"Signum with weight decay", signum, RULE(SIGNUM), RULE(USCION), NORM(MAX), 3, .alpha = 0.3, .mu = 0.25, .lr = 1},
    {"Signum with weight decay 1", signum, RULE(SIGNUM), RULE(SCION), NORM(MAX), 3, .alpha = 0.3, .mu = 1, .lr = 1},
    {"Muon", muon, RULE(MUON), RULE(USCION), NORM(SPECTRAL), 2, .alpha = 0.05, .lr = 1},
    {"Muon, half", muon, RULE(MUON), RULE(USCION), NORM(SPECTRAL), 2, .alpha = 0.5, .lr = 1},
    {"Muon with weight decay", muon, RULE(MUON), RULE(USCION), NORM(SPECTRAL), 2, .alpha = 0.1, .mu = 0.25, .lr = 1},
    {"Muon with weight decay 1", muon, RULE(MUON), RULE(SCION), NORM(SPECTRAL), 2, .alpha = 0.25, .mu = 1, .lr = 1},
    {"Muon with Nesterov's momentum", muon_nesterov, RULE(MUON), 0, NORM(AUTO), 2, .alpha = 0.05, .nesterov = 1,
     .lr = 1},
    {"SSD", spectral_descent, RULE(SSD), 0, NORM(AUTO), 2, .alpha = 1, .lr = 0.01},
    {"SSD of one matrix", spectral_descent, RULE(SSD), 0, NORM(AUTO), 1, .alpha = 1, .lr = 0.01},
    {"SSD, layerwise", spectral_descent_layerwise, RULE(SSD), 0, NORM(AUTO), 2, .alpha = 1, .layerwise = 1,
     .lr = 0.01},
    {"steepest descent in the max norm", sign_descent, RULE(SSD), 0, NORM(MAX), 3, .alpha = 1, .lr = 0.01},
    {"CG", conditional_gradient, RULE(SCION), 0, NORM(AUTO), 2, .alpha = 1, .lr = 1},
    {"SCG", conditional_gradient, RULE(SCION), 0, NORM(AUTO), 2, .alpha = 0.2, .lr = 1},
    {"MARS-Shampoo", mars_shampoo, RULE(MARS), 0, NORM(AUTO), 2, .alpha = 0.2, .lr = 1},
    {"normalized gradients averaged", average_of_normalized, RULE(ALMOND), 0, NORM(EUCLID), 1, .alpha = 0.3, .lr = 1},
};

static scion_options options_of(const row *r, scion_rule rule)
{
    scion_options o;
    scion_options_init(&o, rule);
    o.momentum = r->alpha;
    o.weight_decay = rule == SCION_RULE_SCION || rule == SCION_RULE_MARS ? 0 : r->mu; /* those have 1 */
    o.nesterov = r->nesterov;
    o.layerwise = r->layerwise;
    o.muon_multiplier = 1;
    o.routing = SCION_ROUTING_SPECTRAL;
    o.polar = SCION_POLAR_CONVERGED;
    return o;
}

static double tolerance(const row *r)
{
    return r->norm == SCION_NORM_AUTO || r->norm == SCION_NORM_SPECTRAL ? spectral_tol : tol;
}

/* Our rule is the method. */
static void run_method(void **state)
{
    const row *r = *state;
    scion_optimizer *opt;
    scion_options o = options_of(r, r->rule);
    problem q;
    make(&q, r->params);
    EACH_PARAM(&q, i)
    if (r->rule == SCION_RULE_SSD || r->rule == SCION_RULE_ALMOND)
        q.p[i].norm = r->norm; /* the rules that have none of their own */
    check_ok(scion_optimizer_create(&opt, &o, q.p, q.count, &err), &err);
    for (int k = 1; k <= STEPS; k++) {
        const settings s = {.alpha = r->alpha, .mu = r->mu, .k = k};
        draw(&q);
        check_ok(scion_optimizer_step(opt, rate * r->lr, &err), &err);
        r->step(&q, &s);
        EACH_PARAM(&q, i)
        {
            at("%s, step %d, parameter %d", r->name, k, i);
            check_array(q.n[i], q.p[i].weight, q.x[i], tolerance(r));
        }
    }
    scion_optimizer_free(opt);
}

/* And it is the instance that the paper says. Averages and accumulations differ by the factor alpha, which no lmo
 * sees: where alpha is a power of two not a bit differs. */
static void run_instance(void **state)
{
    const row *r = *state;
    problem a, b;
    scion_optimizer *ours, *other;
    scion_options o = options_of(r, r->rule), p = options_of(r, r->instance);
    make(&a, r->one ? 1 : r->params);
    make(&b, r->one ? 1 : r->params);
    EACH_PARAM(&b, i)
    b.p[i].norm = r->norm;
    check_ok(scion_optimizer_create(&ours, &o, a.p, a.count, &err), &err);
    check_ok(scion_optimizer_create(&other, &p, b.p, b.count, &err), &err);
    const bool exact = r->norm != SCION_NORM_EUCLID && frexp(r->alpha, &(int){0}) == 0.5;
    for (int k = 1; k <= STEPS; k++) {
        draw(&a);
        draw(&b);
        check_ok(scion_optimizer_step(ours, rate, &err), &err);
        check_ok(scion_optimizer_step(other, rate, &err), &err);
        EACH_PARAM(&a, i)
        {
            at("%s as %s, step %d, parameter %d", r->name, scion_enum_name(SCION_ENUM_RULE, (int)r->instance), k, i);
            check_array(a.n[i], a.p[i].weight, widen(a.n[i], b.p[i].weight), tolerance(r));
            if (exact)
                check_bits((size_t)a.n[i] * sizeof(float), a.p[i].weight, b.p[i].weight);
        }
    }
    scion_optimizer_free(ours);
    scion_optimizer_free(other);
}

/* ---- Further claims ------------------------------------------------------------------------------------- */

/* Muon's hidden layers have the factor sqrt(max(d_in, d_out)): uSCG with that radius. The rule is the same with the
 * iteration that the paper ran in place of the exact factor. */
static void test_muon_of_hidden_layers(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const row r = {.alpha = t == 0 ? 0.25 : 0.1};
        problem a, b;
        scion_optimizer *ours, *other;
        scion_options o = options_of(&r, SCION_RULE_MUON), p = options_of(&r, SCION_RULE_USCION);
        o.polar = p.polar = SCION_POLAR_QUINTIC;
        o.muon_multiplier = 0.1;
        make(&a, 2);
        make(&b, 2);
        EACH_PARAM(&a, i)
        {
            const double d_out = (double)a.p[i].shape[0], d_in = (double)a.p[i].shape[1];
            a.p[i].role = b.p[i].role = SCION_ROLE_HIDDEN;
            b.p[i].radius *= 0.1 * sqrt(fmax(d_in, d_out)) / sqrt(d_out / d_in);
        }
        check_ok(scion_optimizer_create(&ours, &o, a.p, 2, &err), &err);
        check_ok(scion_optimizer_create(&other, &p, b.p, 2, &err), &err);
        for (int k = 1; k <= STEPS; k++) {
            draw(&a);
            draw(&b);
            check_ok(scion_optimizer_step(ours, rate, &err), &err);
            check_ok(scion_optimizer_step(other, rate, &err), &err);
            EACH_PARAM(&a, i)
            {
                at("alpha %g, step %d, matrix %d", r.alpha, k, i);
                check_array(a.n[i], a.p[i].weight, widen(a.n[i], b.p[i].weight), spectral_tol);
            }
        }
        scion_optimizer_free(ours);
        scion_optimizer_free(other);
    }
}

/* Equation "s# = -(1/rho) |s|_* lmo(s)": steepest descent is uSCG without momentum whose step size is multiplied by
 * the dual norm of the gradient; and <s, s#> = |s#|^2 = |s|_*^2 in the joint norm. */
static void test_steepest_descent_is_scaled(void **state)
{
    (void)state;
    const row r = {.alpha = 1};
    problem a, b;
    scion_optimizer *ours, *other;
    scion_options o = options_of(&r, SCION_RULE_SSD), p = options_of(&r, SCION_RULE_USCION);
    make(&a, 3);
    make(&b, 3);
    a.p[2].norm = b.p[2].norm = SCION_NORM_RMS; /* any norms */
    a.p[1].norm = b.p[1].norm = SCION_NORM_COL;
    check_ok(scion_optimizer_create(&ours, &o, a.p, 3, &err), &err);
    check_ok(scion_optimizer_create(&other, &p, b.p, 3, &err), &err);
    for (int k = 1; k <= STEPS; k++) {
        double dual = 0, inner = 0, size = 0;
        float *before[PARAMS], *sharp[PARAMS];
        draw(&a);
        draw(&b);
        EACH_PARAM(&a, i)
        {
            double own;
            scion_param unit = b.p[i];
            unit.norm = i == 0 ? SCION_NORM_SPECTRAL : unit.norm;
            check_ok(scion_dual_norm(&unit, &p, a.p[i].grad, &own, &err), &err);
            dual += radius[i] * own;
            before[i] = copy_floats(a.n[i], a.p[i].weight);
        }
        check_ok(scion_optimizer_step(ours, 0.01, &err), &err);
        check_ok(scion_optimizer_step(other, 0.01 * dual, &err), &err);
        EACH_PARAM(&a, i)
        {
            double norm;
            scion_param unit = b.p[i];
            unit.norm = i == 0 ? SCION_NORM_SPECTRAL : unit.norm;
            at("step %d, parameter %d", k, i);
            check_array(a.n[i], a.p[i].weight, widen(a.n[i], b.p[i].weight), spectral_tol);
            sharp[i] = floats(a.n[i]);
            for (int64_t e = 0; e < a.n[i]; e++)
                sharp[i][e] = (before[i][e] - ((float *)a.p[i].weight)[e]) / 0.01F;
            inner += dot(a.n[i], a.p[i].grad, sharp[i]);
            check_ok(scion_norm_value(&unit, &p, sharp[i], &norm, &err), &err);
            size = fmax(size, norm / radius[i]);
        }
        check_rel(inner, dual * dual, 1e-4); /* the difference of weights is rounded at 6e-8 / 0.01 */
        check_rel(size * size, dual * dual, 1e-3);
    }
    scion_optimizer_free(ours);
    scion_optimizer_free(other);
}

/* The classical methods take one norm of all parameters, and so does steepest descent: by default. */
static void test_joint_by_default(void **state)
{
    (void)state;
    for (int rule = 0; scion_rule_info(rule); rule++) {
        const bool joint = rule == SCION_RULE_NSGD || rule == SCION_RULE_MNSGD || rule == SCION_RULE_SSD;
        scion_options o;
        scion_options_init(&o, rule);
        at("%s", scion_rule_info(rule)->name);
        check(scion_rule_info(rule)->joint == joint && o.layerwise == !joint);
    }
}

/* Continuous greedy: from 0 with step size 1/n, uSCG ends at the mean of its lmos, inside the ball. */
static void test_continuous_greedy(void **state)
{
    (void)state;
    const row r = {.alpha = 0.3};
    problem q;
    scion_optimizer *opt;
    scion_options o = options_of(&r, SCION_RULE_USCION);
    make(&q, 2);
    memset(q.x, 0, sizeof q.x);
    EACH_PARAM(&q, i)
    memset(q.p[i].weight, 0, (size_t)q.n[i] * sizeof(float));
    check_ok(scion_optimizer_create(&opt, &o, q.p, 2, &err), &err);
    for (int k = 1; k <= STEPS; k++) {
        draw(&q);
        check_ok(scion_optimizer_step(opt, 1.0 / STEPS, &err), &err);
        ema(&q, r.alpha);
        EACH_PARAM(&q, i)
        {
            const double *z = uv(&q, i, q.d);
            for (int64_t e = 0; e < q.n[i]; e++)
                q.x[i][e] -= radius[i] * z[e] / STEPS;
        }
    }
    EACH_PARAM(&q, i)
    {
        at("matrix %d", i);
        check_array(q.n[i], q.p[i].weight, q.x[i], spectral_tol);
        check_le(singular_values(q.p[i].shape[0], q.p[i].shape[1], q.x[i])[0], radius[i] * (1 + 1e-9));
    }
    scion_optimizer_free(opt);
}

int main(void)
{
    enum { others = 4 };
    struct CMUnitTest tests[others + 2 * sizeof rows / sizeof *rows] = {
        LAW(test_muon_of_hidden_layers), LAW(test_steepest_descent_is_scaled), LAW(test_continuous_greedy),
        LAW(test_joint_by_default)};
    int64_t count = others;
    for (int64_t i = 0; i < COUNT_OF(rows); i++) {
        tests[count++] = (struct CMUnitTest){rows[i].name, run_method, NULL, release, &rows[i]};
        if (rows[i].norm != SCION_NORM_AUTO && rows[i].rule != SCION_RULE_SSD && rows[i].rule != SCION_RULE_ALMOND)
            tests[count++] = (struct CMUnitTest){rows[i].name, run_instance, NULL, release, &rows[i]};
    }
    return _cmocka_run_group_tests("table_1", tests, (size_t)count, NULL, NULL);
}
