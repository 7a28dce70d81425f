/* The oracle's rules in double precision, each written out as the header states it: Algorithms 1 to 4 of the
 * paper, the methods of its Table 1, and the baselines. k counts steps from 1; mu is the weight decay. */
#include "support.h"

#include <math.h>

oracle_run *oracle_start(const scion_options *o, const scion_param *params, int64_t count)
{
    oracle_run *run = room(sizeof *run);
    run->o = *o;
    run->count = count;
    run->params = room((size_t)count * sizeof *run->params);
    for (int64_t i = 0; i < count; i++) {
        oracle_param *q = &run->params[i];
        q->p = params[i];
        q->n = elements(&params[i]);
        if (q->p.norm == SCION_NORM_AUTO)
            q->p.norm = oracle_route(o->routing, q->p.role, q->p.ndim);
        if (q->p.weight_decay < 0)
            q->p.weight_decay = o->weight_decay;
        q->w = widen(q->n, params[i].weight);
        q->d = doubles(q->n);
        q->m = doubles(q->n);
        q->v = doubles(q->n);
    }
    return run;
}

static double alpha_of(const oracle_run *run)
{
    scion_rule rule = run->o.rule;
    if (rule == SCION_RULE_SIGNSGD || rule == SCION_RULE_NSGD || (run->o.first_full && run->steps == 1))
        return 1;
    return run->o.vanishing ? 1 / sqrt((double)run->steps) : run->o.momentum;
}

static int spectral_steps(const scion_options *o)
{
    if (o->polar == SCION_POLAR_CONVERGED)
        return EXACT;
    return o->polar_steps ? o->polar_steps : 5;
}

/* rho lmo(s) in the norm of the parameter, or in another one. */
static double *lmo_in(const oracle_run *run, const oracle_param *q, scion_norm norm, const double *s)
{
    scion_param p = q->p;
    double *z = doubles(q->n);
    p.norm = norm;
    oracle_lmo(&p, spectral_steps(&run->o), s, z);
    return z;
}

/* w = (1 - lr mu) w + lr z */
static void move(oracle_param *q, double lr, double mu, const double *z)
{
    lr *= q->p.lr_scale;
    for (int64_t i = 0; i < q->n; i++)
        q->w[i] = (1 - lr * mu) * q->w[i] + lr * z[i];
}

static void average(oracle_param *q, double alpha, const double *g)
{
    for (int64_t i = 0; i < q->n; i++)
        q->d[i] = (1 - alpha) * q->d[i] + alpha * g[i];
}

static void accumulate(oracle_param *q, double alpha, const double *g)
{
    for (int64_t i = 0; i < q->n; i++)
        q->d[i] = (1 - alpha) * q->d[i] + g[i];
}

static double *scaled(int64_t n, double a, const double *x)
{
    double *y = doubles(n);
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i];
    return y;
}

static double sum_of_squares(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

static int active(const oracle_param *q)
{
    return !q->p.frozen && !q->skipped;
}

static void step_adamw(const oracle_run *run, oracle_param *q, double lr, const double *g)
{
    double b1 = run->o.beta1, b2 = run->o.beta2, k = (double)++q->steps, *z = doubles(q->n);
    for (int64_t i = 0; i < q->n; i++) {
        q->m[i] = b1 * q->m[i] + (1 - b1) * g[i];
        q->v[i] = b2 * q->v[i] + (1 - b2) * g[i] * g[i];
        double m = q->m[i] / (1 - pow(b1, k)), v = q->v[i] / (1 - pow(b2, k));
        z[i] = -m / (sqrt(v) + run->o.adam_eps);
    }
    move(q, lr, q->p.weight_decay, z);
}

static void step_muon(const oracle_run *run, oracle_param *q, double lr, double alpha, const double *g)
{
    int hidden = q->p.role == SCION_ROLE_HIDDEN, plain = q->p.role == SCION_ROLE_PLAIN;
    if (q->p.ndim < 2 || !(hidden || plain)) {
        step_adamw(run, q, lr, g);
        return;
    }
    accumulate(q, alpha, g);
    double *s = scaled(q->n, 1, q->d);
    for (int64_t i = 0; i < q->n && run->o.nesterov; i++)
        s[i] = g[i] + (1 - alpha) * q->d[i];
    oracle_param bare = *q;
    bare.p.role = SCION_ROLE_PLAIN; /* -rho U V' */
    int64_t rows, cols;             /* of a block; the oracle knows equal blocks only */
    oracle_block(&q->p, &rows, &cols);
    double size = hidden ? sqrt((double)(rows > cols ? rows : cols)) : 1;
    move(q, lr, q->p.weight_decay,
         scaled(q->n, size * run->o.muon_multiplier, lmo_in(run, &bare, SCION_NORM_SPECTRAL, s)));
}

/* The sum over all parameters of rho dual(g), and the 2-norm of a set of vectors taken as one. */
static double joint_dual(const oracle_run *run, double *const *g)
{
    double sum = 0;
    for (int64_t i = 0; i < run->count; i++)
        if (active(&run->params[i]))
            sum += run->params[i].p.radius * oracle_dual(&run->params[i].p, g[i]);
    return sum;
}

static double joint_norm2(const oracle_run *run, double *const *x)
{
    double sum = 0;
    for (int64_t i = 0; i < run->count; i++)
        if (active(&run->params[i]))
            sum += sum_of_squares(run->params[i].n, x[i]);
    return sqrt(sum);
}

/* Rules of one parameter at a time. */
static void step_one(const oracle_run *run, oracle_param *q, double lr, const double *g, const double *g_prev)
{
    double alpha = alpha_of(run), mu = q->p.weight_decay;
    scion_norm norm = q->p.norm;
    switch (run->o.rule) {
    case SCION_RULE_MARS: /* STORM starts at the first gradient: there is no previous one */
        for (int64_t i = 0; i < q->n; i++)
            q->d[i] = g[i] + (q->steps > 0 ? (1 - alpha) * (q->d[i] - g_prev[i]) : 0);
        q->steps++;
        move(q, lr, 1, lmo_in(run, q, norm, q->d));
        break;
    case SCION_RULE_ALMOND:
        average(q, alpha, lmo_in(run, q, norm, g));
        move(q, lr, mu, q->d);
        break;
    case SCION_RULE_MUON: step_muon(run, q, lr, alpha, g); break;
    case SCION_RULE_ADAMW: step_adamw(run, q, lr, g); break;
    case SCION_RULE_SGD:
        accumulate(q, alpha, g);
        move(q, lr, mu, scaled(q->n, -1, q->d));
        break;
    case SCION_RULE_SIGNSGD:
    case SCION_RULE_SIGNUM:
        norm = SCION_NORM_MAX;
        average(q, alpha, g);
        move(q, lr, mu, lmo_in(run, q, norm, q->d));
        break;
    default: /* SCION, USCION, and layerwise NSGD and MNSGD */
        if (run->o.rule == SCION_RULE_NSGD || run->o.rule == SCION_RULE_MNSGD)
            norm = SCION_NORM_EUCLID;
        average(q, alpha, g);
        move(q, lr, run->o.rule == SCION_RULE_SCION ? 1 : mu, lmo_in(run, q, norm, q->d));
    }
}

/* NSGD and MNSGD with one 2-norm for all: w -= lr rho d / ||d||. */
static void step_flat(oracle_run *run, double lr, double *const *g)
{
    double **d = room((size_t)run->count * sizeof *d);
    for (int64_t i = 0; i < run->count; i++) {
        if (active(&run->params[i]))
            average(&run->params[i], alpha_of(run), g[i]);
        d[i] = run->params[i].d;
    }
    double size = joint_norm2(run, d);
    for (int64_t i = 0; i < run->count; i++) {
        oracle_param *q = &run->params[i];
        if (active(q))
            move(q, lr, q->p.weight_decay, scaled(q->n, size > 0 ? -q->p.radius / size : 0, d[i]));
    }
}

/* sharp(g) = -rho dual lmo_rho(g), with the dual of the parameter times rho, or that of all together. */
static void step_ssd(oracle_run *run, double lr, double *const *g)
{
    double joint = joint_dual(run, g);
    for (int64_t i = 0; i < run->count; i++) {
        oracle_param *q = &run->params[i];
        if (!active(q))
            continue;
        double dual = run->o.layerwise ? q->p.radius * oracle_dual(&q->p, g[i]) : joint;
        move(q, lr, q->p.weight_decay, scaled(q->n, dual, lmo_in(run, q, q->p.norm, g[i])));
    }
}

void oracle_step(oracle_run *run, double lr, const float *const *g, const float *const *g_prev)
{
    scion_rule rule = run->o.rule;
    double **wide = room((size_t)run->count * sizeof *wide);
    run->steps++;
    for (int64_t i = 0; i < run->count; i++) {
        run->params[i].skipped = g[i] == NULL;
        if (g[i])
            wide[i] = widen(run->params[i].n, g[i]);
    }
    if ((rule == SCION_RULE_ADAMW || rule == SCION_RULE_SGD) && run->o.clip_norm > 0) {
        double size = joint_norm2(run, wide);
        for (int64_t i = 0; i < run->count && size > run->o.clip_norm; i++)
            if (active(&run->params[i]))
                wide[i] = scaled(run->params[i].n, run->o.clip_norm / size, wide[i]);
    }
    if ((rule == SCION_RULE_NSGD || rule == SCION_RULE_MNSGD) && !run->o.layerwise) {
        step_flat(run, lr, wide);
        return;
    }
    if (rule == SCION_RULE_SSD) {
        step_ssd(run, lr, wide);
        return;
    }
    for (int64_t i = 0; i < run->count; i++)
        if (active(&run->params[i]))
            step_one(run, &run->params[i], lr, wide[i],
                     g_prev && g_prev[i] ? widen(run->params[i].n, g_prev[i]) : NULL);
}
