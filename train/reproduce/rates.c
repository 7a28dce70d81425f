/* The theorems' rates on a function whose constants are known: f(X) = |X - X*|^2 / 2 over 12 x 8 matrices, X* of norm
 * 0.6 rho inside the ball of radius rho, started at 0. Measured is the mean over all iterates, which the theorems
 * bound: of the dual norm of the gradient for uSCG, of the Frank-Wolfe gap for SCG.
 *
 *     no noise, constant momentum, step 1/sqrt(n):             n^(-1/2)
 *     Gaussian noise, momentum 1/sqrt(k), step 3/(4 n^(3/4)):  n^(-1/4) or faster */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "scion_advanced.h"
#include "util/fail.h"
#include "util/utf8.h"
#include "draw/page.h"
#include "reproduce/reproduce.h"
#include "record/run_dir.h"

enum { rows = 12, columns = 8, entries = rows * columns, log_first = 6, log_small = 12, log_full = 17, fitted = 5 };

static const double rho = 1, sigma = 0.1, alpha = 0.5;

/* Slopes reach their limits for large n only. */
static const double margin = 0.05;

typedef struct problem {
    float x[entries], g[entries], target[entries];
    double noise;
    uint64_t seed;
} problem;

static int exact(void *context, int64_t k)
{
    problem *p = context;
    (void)k;
    for (int i = 0; i < entries; i++)
        p->g[i] += p->x[i] - p->target[i];
    return 0;
}

static int gradient(void *context, int64_t k, uint64_t sample)
{
    problem *p = context;
    float noise[entries] = {0};
    exact(p, k);
    if (p->noise > 0)
        scn_normals(p->seed + sample, 1, 0, entries, noise);
    for (int i = 0; i < entries; i++)
        p->g[i] += (float)p->noise * noise[i];
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

static bool unconstrained(const setting *s)
{
    return scion_rule_info((int32_t)s->rule)->weight_decay == 0;
}

/* The mean over x^1..x^n of the dual norm or the gap. */
static scion_status measure(const setting *s, bool noisy, int64_t seed, int64_t n, double *value, scion_error *err)
{
    problem p = {.noise = noisy ? sigma : 0, .seed = 7 + ((uint64_t)seed << 32)};
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
    *value = unconstrained(s) ? result.mean_dual_norm : result.mean_fw_gap;
    return status;
}

typedef struct curves {
    stat_sample slopes[2][setting_count]; /* a value for each seed; without noise there is one */
    double done, all;                     /* for the progress */
    const reproduce_order *order;
} curves;

static int log_last(const reproduce_order *o)
{
    return o->full ? log_full : log_small;
}

/* One curve and its slope, over the last few n. */
static scion_status measure_curve(curves *c, bool noisy, int i, int64_t seed, stat_sample *values, scion_error *err)
{
    double x[64], y[64];
    scion_status status = SCION_OK;
    const int count = log_last(c->order) - log_first + 1;
    for (int k = 0; status == SCION_OK && k < count; k++) {
        double value;
        x[k] = log_first + k;
        status = measure(&settings[i], noisy, seed, (int64_t)1 << (log_first + k), &value, err);
        y[k] = log2(value);
        stat_add(&values[k], value);
        c->done += exp2(x[k]);
        if (status == SCION_OK && c->order->show && !c->order->show(c->done / c->all))
            status = train_fail(err, SCION_ESTOPPED, "stopped");
    }
    stat_add(&c->slopes[noisy][i], stat_slope(x + count - fitted, y + count - fitted, fitted));
    return status;
}

/* A line of the claimed slope through the first point of the uppermost curve. */
static void draw_guide(figure *f, const char *name, double slope, double from, int last)
{
    const int s = figure_series(f, name, FIGURE_BOUND);
    figure_point(f, s, exp2(log_first), from);
    figure_point(f, s, exp2(last), from * exp2(slope * (last - log_first)));
}

/* Measures and draws. */
static scion_status draw(figure *f, curves *c, bool noisy, scion_error *err)
{
    *f = figure_make(
        noisy ? "rates-noise" : "rates-exact", noisy ? "Noise, vanishing momentum" : "No noise, constant momentum",
        noisy ? "Mean over the iterates of dual norm (uSCG) or Frank-Wolfe gap (SCG); steps 3/(4 n^(3/4)), momentum "
                "1/sqrt(k); mean over the seeds, with whiskers from the lowest to the highest."
              : "Mean over the iterates of dual norm (uSCG) or Frank-Wolfe gap (SCG); steps 1/sqrt(n), momentum 1 in "
                "the first step, then 1/2.");
    const int last = log_last(c->order);
    double top = 0;
    scion_status status = SCION_OK;
    figure_axes(f, "steps n", AXIS_LOG2, "mean dual norm or gap", AXIS_LOG10);
    for (int i = 0; status == SCION_OK && i < setting_count; i++) {
        stat_sample values[64] = {{0}};
        const int series = figure_series(f, settings[i].name, FIGURE_LINE);
        for (int64_t seed = 0; status == SCION_OK && seed < (noisy ? c->order->seeds : 1); seed++)
            status = measure_curve(c, noisy, i, seed, values, err);
        for (int k = 0; k <= last - log_first; k++)
            figure_range(f, series, exp2(log_first + k), values[k].mean, values[k].low, values[k].high);
        top = fmax(top, values[0].mean);
    }
    draw_guide(f, noisy ? "slope -1/4" : "slope -1/2", noisy ? -0.25 : -0.5, top, last);
    return status;
}

/* The slope of a curve. Without noise there is nothing that a seed would change. */
static stat_estimate slope_estimate(const curves *c, bool noisy, int i)
{
    return noisy ? stat_mean(&c->slopes[1][i]) : (stat_estimate){c->slopes[0][i].mean, 0};
}

/* One half of the claim for the rules of one kind: decided by the slowest of their norms. */
static void judge_kind(const curves *c, bool noisy, bool free_, reproduce_judgement *j)
{
    const double claimed = noisy ? -0.25 : -0.5;
    stat_finding finding = STAT_KEPT;
    int slowest = -1;
    for (int i = 0; i < setting_count; i++) {
        const stat_estimate e = slope_estimate(c, noisy, i);
        if (unconstrained(&settings[i]) != free_)
            continue;
        const stat_finding f = stat_within(e, -INFINITY, claimed + margin);
        finding = f == STAT_FAILED || (f == STAT_UNDECIDED && finding == STAT_KEPT) ? f : finding;
        slowest = slowest < 0 || e.value > slope_estimate(c, noisy, slowest).value ? i : slowest;
    }
    const stat_estimate e = slope_estimate(c, noisy, slowest);
    reproduce_part *p = reproduce_add(j, finding, "%s falls like n^(%s)%s",
                                      free_ ? "the dual norm (uSCG)" : "the gap (SCG)", noisy ? "-1/4" : "-1/2",
                                      noisy ? " or faster with noise and vanishing momentum" : " without noise");
    snprintf(p->evidence, sizeof p->evidence, "the slowest (%s) like n^(%.3f", settings[slowest].name, e.value);
    if (noisy && isfinite(e.error))
        utf8_append(p->evidence, sizeof p->evidence, " +- %.3f", e.error);
    utf8_append(p->evidence, sizeof p->evidence, ")%s", noisy && isnan(e.error) ? ", one seed" : "");
}

static void judge(const curves *c, reproduce_judgement *j)
{
    *j = (reproduce_judgement){.count = 0};
    for (int noisy = 0; noisy < 2; noisy++)
        for (int free_ = 1; free_ >= 0; free_--)
            judge_kind(c, noisy, free_, j);
    snprintf(
        j->margin, sizeof j->margin,
        "exponents up to %.2f above the claimed one, which slopes reach for large n only; fitted over the last %d "
        "n; +- is half of a 95%% interval over %lld seeds",
        margin, fitted, (long long)c->order->seeds);
}

static void slope_table(page *p, const curves *c)
{
    page_table(p, NULL, "method|slope without noise|slope with noise|+-", "lrrr");
    for (int i = 0; i < setting_count; i++) {
        const stat_estimate e = slope_estimate(c, true, i);
        page_cell(p, "%s", settings[i].name);
        page_cell(p, "%.3f", c->slopes[0][i].mean);
        page_cell(p, "%.3f", e.value);
        page_cell(p, isfinite(e.error) ? "%.3f" : "\u2013", e.error);
    }
    page_table_end(p);
}

scion_status reproduce_rates(const reproduce_figure *f, const reproduce_order *o, reproduce_judgement *j,
                             scion_error *err)
{
    curves c = {.all = setting_count * (double)(1 + o->seeds) * ldexp(2, log_last(o)), .order = o};
    char path[RUN_PATH];
    snprintf(path, sizeof path, "%s/report.html", o->folder);
    page *p = page_create(path, f->title);
    scion_status status = p ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
    figure figures[2] = {{.id = NULL}};
    for (int noisy = 0; status == SCION_OK && noisy < 2; noisy++)
        status = draw(&figures[noisy], &c, noisy, err);
    if (status == SCION_OK) {
        judge(&c, j);
        reproduce_opening(p, f, o->full, j);
        page_figure(p, figures[0]);
        page_figure(p, figures[1]);
        slope_table(p, &c);
        status = page_write(p, err);
    } else {
        figure_free(&figures[0]);
        figure_free(&figures[1]);
    }
    page_free(p);
    return status;
}
