/* The theorems' rates on a function whose constants are known: f(X) = |X - X*|^2 / 2 over 12 x 8 matrices, X* of norm
 * 0.6 rho inside the ball of radius rho, started at 0. Measured is the mean over all iterates, which is what the
 * theorems bound: of the dual norm of the gradient for uSCG, of the Frank-Wolfe gap for SCG.
 *
 *     no noise, constant momentum, step 1/sqrt(n):             n^(-1/2)
 *     Gaussian noise, momentum 1/sqrt(k), step 3/(4 n^(3/4)):  n^(-1/4) or faster
 *
 * examples/rates.c checks the theorems' explicit bounds as well, on a function that is not convex. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/fail.h"
#include "report/page.h"
#include "reproduce/reproduce.h"
#include "run/run_dir.h"

enum { rows = 12, columns = 8, entries = rows * columns, log_first = 6, log_small = 12, log_full = 17, fitted = 5 };

static const double rho = 1, sigma = 0.1, alpha = 0.5;

/* Slopes reach their limits for large n only. */
static const double margin = 0.05;

typedef struct problem {
    float x[entries], g[entries], target[entries];
    double noise;
    uint64_t seed;
} problem;

static int gradient(void *context, int64_t k, uint64_t sample)
{
    problem *p = context;
    float noise[entries];
    (void)k;
    if (p->noise > 0)
        scn_normals(p->seed + sample, 1, 0, entries, noise);
    for (int i = 0; i < entries; i++)
        p->g[i] += p->x[i] - p->target[i] + (p->noise > 0 ? (float)p->noise * noise[i] : 0);
    return 0;
}

static int exact(void *context, int64_t k)
{
    problem *p = context;
    (void)k;
    for (int i = 0; i < entries; i++)
        p->g[i] += p->x[i] - p->target[i];
    return 0;
}

typedef struct setting {
    const char *name;
    scion_norm norm;
    scion_rule rule;
} setting;

static const setting settings[] = {
    {"uSCG, Spectral", SCION_NORM_SPECTRAL, SCION_RULE_USCION},
    {"uSCG, Sign", SCION_NORM_SIGN, SCION_RULE_USCION},
    {"SCG, Spectral", SCION_NORM_SPECTRAL, SCION_RULE_SCION},
    {"SCG, Sign", SCION_NORM_SIGN, SCION_RULE_SCION},
};

enum { setting_count = sizeof settings / sizeof *settings };

/* The mean over x^1..x^n of the dual norm or the gap. */
static scion_status measure(const setting *s, bool noisy, int64_t n, double *value, scion_error *err)
{
    problem p = {.noise = noisy ? sigma : 0, .seed = 7};
    scion_param param;
    scion_options o;
    scion_result result = {.size = sizeof result};
    scion_param_init(&param);
    param.name = "X";
    param.ndim = 2;
    param.shape[0] = rows;
    param.shape[1] = columns;
    param.weight = p.target;
    param.grad = p.g;
    param.norm = s->norm;
    param.role = SCION_ROLE_HIDDEN;
    param.radius = rho;
    scn_normals(11, 0, 0, entries, p.target);
    double norm = 1;
    scion_options_init(&o, s->rule);
    o.momentum = alpha;
    o.first_full = 1; /* alpha_1 = 1, as the theorems have it */
    o.vanishing = noisy;
    o.polar = SCION_POLAR_CONVERGED;
    o.threads = 1;
    scion_status status = scion_norm_value(&param, &o, p.target, &norm, err);
    for (int i = 0; i < entries; i++)
        p.target[i] *= (float)(0.6 * rho / norm);
    param.weight = p.x;
    const scion_schedule schedule = {
        .size = sizeof schedule,
        .kind = noisy ? SCION_SCHEDULE_INV_N34 : SCION_SCHEDULE_INV_SQRT_N,
        .n = n,
        .peak = 1,
    };
    const scion_problem problem_ = {
        .size = sizeof problem_,
        .params = &param,
        .count = 1,
        .ctx = &p,
        .gradient = gradient,
        .exact = exact,
        .steps = n,
        .report_every = 1,
        .schedule = &schedule,
        .seed = 3,
    };
    if (status == SCION_OK)
        status = scion_minimize(&problem_, &o, &result, err);
    const bool unconstrained = scion_rule_info((int32_t)s->rule)->weight_decay == 0;
    *value = unconstrained ? result.mean_dual_norm : result.mean_fw_gap;
    return status;
}

/* Least squares of log2(value) over the last few n. */
static double slope_of(const double *log_value, int count)
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = count - fitted; i < count; i++)
        x += i, y += log_value[i], xx += i * i, xy += i * log_value[i];
    return (fitted * xy - x * y) / (fitted * xx - x * x);
}

typedef struct curves {
    double slope[2][setting_count];
    double done, all; /* for the progress */
    bool (*show)(double share);
} curves;

static scion_status draw(page *p, curves *c, bool noisy, int log_last, scion_error *err)
{
    figure *f = figure_create(
        noisy ? "rates-noise" : "rates-exact", noisy ? "Noise, vanishing momentum" : "No noise, constant momentum",
        noisy ? "Mean over the iterates of dual norm (uSCG) or Frank-Wolfe gap (SCG); steps 3/(4 "
                "n^(3/4)), momentum 1/sqrt(k)."
              : "Mean over the iterates of dual norm (uSCG) or Frank-Wolfe gap (SCG); steps "
                "1/sqrt(n), momentum 1/2.");
    double log_value[64];
    figure_axes(f, "steps n", AXIS_LOG2, "mean dual norm or gap", AXIS_LOG10);
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < setting_count; i++) {
        const int series = figure_series(f, settings[i].name, FIGURE_LINE);
        for (int k = log_first; status == SCION_OK && k <= log_last; k++) {
            double value;
            status = measure(&settings[i], noisy, (int64_t)1 << k, &value, err);
            log_value[k - log_first] = log2(value);
            figure_point(f, series, ldexp(1, k), value);
            c->done += ldexp(1, k);
            if (status == SCION_OK && c->show && !c->show(c->done / c->all))
                status = train_fail(err, SCION_ESTOPPED, "stopped");
        }
        c->slope[noisy][i] = slope_of(log_value, log_last - log_first + 1);
    }
    page_figure(p, f);
    return status;
}

static void judge(const curves *c, reproduce_judgement *j)
{
    double exact_worst = -INFINITY, noisy_worst = -INFINITY;
    for (int i = 0; i < setting_count; i++) {
        exact_worst = fmax(exact_worst, c->slope[0][i]);
        noisy_worst = fmax(noisy_worst, c->slope[1][i]);
    }
    const bool half = exact_worst <= -0.5 + margin, quarter = noisy_worst <= -0.25 + margin;
    j->verdict = half && quarter ? REPRODUCE_YES : half || quarter ? REPRODUCE_PARTLY : REPRODUCE_NO;
    snprintf(
        j->sentence, sizeof j->sentence,
        "the slowest of four methods falls like n^%.3f without noise (claimed: -1/2), and like n^%.3f with noise "
        "and vanishing momentum (claimed: -1/4)",
        exact_worst, noisy_worst);
}

scion_status reproduce_rates(const char *folder, bool full, const char *data, bool (*show)(double share),
                             reproduce_judgement *j, scion_error *err)
{
    static const char *const names[] = {"method", "slope without noise", "slope with noise"};
    const reproduce_figure *f = reproduce_find("rates");
    const int log_last = full ? log_full : log_small;
    curves c = {.all = 2 * setting_count * ldexp(2, log_last), .show = show};
    char path[RUN_PATH];
    (void)data;
    snprintf(path, sizeof path, "%s/report.html", folder);
    page *p = page_create(path, f->title);
    if (!p)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    page_paragraph(p, "Claim: %s.", f->claim);
    scion_status status = draw(p, &c, false, log_last, err);
    if (status == SCION_OK)
        status = draw(p, &c, true, log_last, err);
    if (status == SCION_OK) {
        judge(&c, j);
        page_paragraph(p, "Here: %s (%s).", j->sentence, reproduce_verdict_name(j->verdict));
        page_table(p, NULL, 3, names, "lrr");
        for (int i = 0; i < setting_count; i++) {
            page_cell(p, "%s", settings[i].name);
            page_cell(p, "%.3f", c.slope[0][i]);
            page_cell(p, "%.3f", c.slope[1][i]);
        }
        page_table_end(p);
        status = page_write(p, err);
    }
    page_free(p);
    return status;
}
