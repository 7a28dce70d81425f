/* rates.c - the convergence theorems, run.
 *
 * The paper proves, for a smooth f (possibly non-convex) and unbiased gradients with variance sigma^2, of the
 * iterate drawn uniformly from x^1..x^n:
 *
 *     method  momentum            step           E of             is at most
 *     uSCG    constant alpha      1/sqrt(n)      ||grad f||_*     O(1/sqrt(n) + sigma)
 *     uSCG    alpha_k=1/sqrt(k)   3/(4 n^3/4)    ||grad f||_*     O(1/n^1/4)
 *     SCG     constant alpha      1/sqrt(n)      Frank-Wolfe gap  O(1/sqrt(n) + sigma)
 *     SCG     alpha_k=1/sqrt(k)   3/(4 n^3/4)    Frank-Wolfe gap  O(1/n^1/4)
 *
 * So with constant momentum the measure falls like n^-1/2 without noise and stops at a floor proportional to
 * sigma with it; vanishing momentum goes on at n^-1/4 or faster, through any floor. This program measures
 * all of that under four norms, on the function of bumpy_problem.h, whose constants are known. The radii are
 * such that its minimiser x* has norm 0.6 rho in every ball; runs start at random points 0.3 rho from it.
 *
 * The noise there is rare and one-sided, which is what a floor takes. An lmo keeps the direction of d and
 * forgets its length, so a method with short memory follows the majority of samples, not their mean, and
 * settles where the majority is balanced. Under noise with a symmetric law, such as Gaussian, the two balances
 * agree, and constant momentum does better than its theorem says (see --gaussian).
 *
 * What is promised, and checked (exit status 1 if it fails):
 *   - bound: at every n the mean is below the theorem's right-hand side with its constants, evaluated from
 *     the recursion in its proof (`bound` below). A theorem: it cannot fail unless a method is wrong.
 *   - slope: least squares of log(measure) against log(n) over the last five n is at most -1/2 or -1/4, up to
 *     a margin and twice the standard error over the seeds. O() allows any constant, so no theorem speaks of a
 *     slope over a finite range, but for large n it is how the exponent shows.
 *   - floor: doubled sigma doubles what constant momentum leaves, up to FLOOR_RATIO, and vanishing momentum
 *     ends below it. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <scion.h>

#include "bumpy_problem.h"

#ifdef _OPENMP
#define PARALLEL(text) _Pragma(#text)
#else
#define PARALLEL(text)
#endif

static const double ALPHA = 0.5;

/* Where there is noise, the mean over x^1..x^n is taken at up to REPORTS evenly spaced k: it is off by no more
 * than 1/REPORTS of the measure at x^1, below 1 % of what is left at the largest n. Without noise the iterates
 * end up going round in a cycle, with which an even spacing would fall into step: there every k counts. */
enum { LOG_MAX = 14, SEEDS_MAX = 5, FIT = 5, REPORTS = 2048 };

/* n = 2^log_first .. 2^log_last. The curves reach their exponents from above: for small n, where a step is not
 * small beside the bumps of f, they are flatter. At the full size the last slopes are within 0.04 of them; at
 * the quick one within 0.12. There, too, the 1/sqrt(n) term weighs more in what is taken for the floor, so the
 * noise is stronger. */
static const struct mode {
    int log_first, log_last, seeds;
    double sigma, slope_margin;
} FULL = {6, 14, 5, 0.05, 0.05}, QUICK = {7, 11, 2, 0.1, 0.12};

/* Doubled noise: the floor is 2 times as high, or between these, as the 1/sqrt(n) term adds to both and as f
 * bends. */
static const double FLOOR_RATIO[2] = {1.5, 2.5};

/* ---- The balls --------------------------------------------------------------------------------------- */

static struct ball {
    const char *name;
    int32_t matrix, vector; /* the joint norm is the larger of the two, each over its radius */
    double radius[2];       /* computed: x* has norm 0.6 */
    double lipschitz;       /* of grad f, from the joint norm to its dual */
    double radius_2;        /* largest 2-norm in the joint unit ball; also the largest dual norm of a
                                  vector of 2-norm 1, as for every norm */
} BALLS[] = {
    {"spectral", SCION_NORM_SPECTRAL, SCION_NORM_EUCLID, {1, 1}, 0, 0},
    {"col", SCION_NORM_COL, SCION_NORM_EUCLID, {1, 1}, 0, 0},
    {"sign", SCION_NORM_SIGN, SCION_NORM_MAX, {1, 1}, 0, 0},
    {"euclid", SCION_NORM_EUCLID, SCION_NORM_EUCLID, {1, 1}, 0, 0},
};
enum { BALL_COUNT = sizeof BALLS / sizeof *BALLS };

static void params_of(const struct ball *ball, struct run *r, scion_param p[2])
{
    for (int i = 0; i < 2; i++) {
        scion_param_init(&p[i]);
        p[i].name = i ? "v" : "W";
        p[i].ndim = i ? 1 : 2;
        p[i].shape[0] = i ? COLS : ROWS;
        p[i].shape[1] = i ? 0 : COLS;
        p[i].weight = r->x + (i ? MATRIX : 0);
        p[i].grad = r->g + (i ? MATRIX : 0);
        p[i].norm = i ? ball->vector : ball->matrix;
        p[i].role = SCION_ROLE_PLAIN; /* no dimension factors: the bare norms */
        p[i].radius = ball->radius[i];
    }
}

static void must(scion_status status, const scion_error *err)
{
    if (status) {
        fprintf(stderr, "rates: %s\n", err->message);
        exit(1);
    }
}

/* Radii, L, and the 2-norm of the ball, whose farthest points are the values of the lmo at a generic s. */
static void measure_ball(struct ball *ball)
{
    struct run r = {.sigma = 0};
    scion_param p[2];
    scion_error err;
    scion_options o;
    double norm, dual, square = 0;
    float far[DIM];
    scion_options_init(&o, SCION_RULE_SCION);
    o.polar = SCION_POLAR_CONVERGED;
    o.threads = 1;
    memcpy(r.x, P.best, sizeof r.x);
    params_of(ball, &r, p);
    for (int i = 0; i < 2; i++) {
        float *out = far + (i ? MATRIX : 0);
        must(scion_norm_value(&p[i], &o, p[i].weight, &norm, &err), &err);
        p[i].radius = ball->radius[i] = norm / 0.6;
        must(scion_lmo(&p[i], &o, p[i].weight, out, &err), &err);
    }
    for (int j = 0; j < DIM; j++)
        square += (double)far[j] * (double)far[j];
    ball->radius_2 = sqrt(square);
    ball->lipschitz = 0;
    for (int i = 0; i < TERMS; i++) {
        double joint = 0;
        for (int j = 0; j < 2; j++) {
            must(scion_dual_norm(&p[j], &o, P.a[i] + (j ? MATRIX : 0), &dual, &err), &err);
            joint += ball->radius[j] * dual;
        }
        ball->lipschitz += joint * joint / TERMS;
    }
}

/* ---- Theorem and measurement ------------------------------------------------------------------------- */

struct experiment {
    const struct ball *ball;
    scion_rule rule; /* USCION or SCION */
    int vanishing;
    double sigma;
};

static double step_size(const struct experiment *e, int64_t n)
{
    return e->vanishing ? 0.75 * pow((double)n, -0.75) : 1 / sqrt((double)n);
}

/* The right-hand side of the theorems, in units of the joint ball (rho = 1). With lambda^k = d^k - grad f(x^k)
 * the error of the average and R the longest step over gamma in the 2-norm (radius_2 for uSCG, twice that for
 * SCG, whose steps are differences of two points), the error lemma is
 *     E||lambda^1||^2 <= sigma^2,
 *     E||lambda^k||^2 <= (1 - alpha_k/2) E||lambda^{k-1}||^2 + 2 (L_2 R gamma)^2 / alpha_k + (alpha_k sigma)^2,
 * and summing the descent of f over the steps gives, with S the mean over k of sqrt(E||lambda^k||^2),
 *     uSCG:  E||grad f||_* <= (f(x^1) - min f)/(gamma n) + L gamma/2 + 2 radius_2 S
 *     SCG:   E gap         <= (f(x^1) - min f)/(gamma n) + 2 L gamma + 2 radius_2 S */
static double bound(const struct experiment *e, int64_t n, double start)
{
    int constrained = e->rule == SCION_RULE_SCION;
    double gamma = step_size(e, n), reach = e->ball->radius_2 * (constrained ? 2 : 1) * gamma / DIM;
    double error = e->sigma * e->sigma, sum = sqrt(error);
    for (int64_t k = 2; k <= n; k++) {
        double alpha = e->vanishing ? 1 / sqrt((double)k) : ALPHA;
        error = (1 - alpha / 2) * error + 2 * reach * reach / alpha + alpha * alpha * e->sigma * e->sigma;
        sum += sqrt(error);
    }
    return start / (gamma * (double)n) + e->ball->lipschitz * gamma * (constrained ? 2 : 0.5) +
           2 * e->ball->radius_2 * sum / (double)n;
}

/* One run of n steps: the mean of the measure over x^1..x^n, and f(x^1). */
static double measure(const struct experiment *e, int64_t n, uint64_t seed, double *start)
{
    struct run r = {.sigma = e->sigma};
    scion_param p[2];
    scion_error err;
    scion_options o;
    scion_options_init(&o, e->rule);
    o.momentum = ALPHA;
    o.vanishing = e->vanishing;
    o.first_full = 1;
    o.polar = SCION_POLAR_CONVERGED; /* the analysis takes the lmo as exact */
    o.threads = 1;                   /* the seeds share the cores */
    params_of(e->ball, &r, p);
    for (int j = 0; j < DIM; j++)
        r.x[j] = (float)gauss(1000 + seed, (uint64_t)j);
    for (int i = 0; i < 2; i++) {
        double norm;
        float *x = p[i].weight, *best = P.best + (i ? MATRIX : 0);
        must(scion_norm_value(&p[i], &o, x, &norm, &err), &err);
        for (int j = 0; j < (i ? COLS : MATRIX); j++)
            x[j] = best[j] + x[j] * (float)(0.3 * p[i].radius / norm);
    }
    *start = value(r.x);
    scion_schedule schedule;
    scion_schedule_init(&schedule);
    schedule.kind = e->vanishing ? SCION_SCHEDULE_INV_N34 : SCION_SCHEDULE_INV_SQRT_N;
    schedule.peak = 1;
    scion_problem problem;
    scion_problem_init(&problem);
    problem.params = p, problem.count = 2, problem.ctx = &r;
    problem.schedule = &schedule;
    problem.gradient = noisy;
    problem.exact = exact;
    problem.steps = n;
    problem.report_every = e->sigma > 0 && n > REPORTS ? n / REPORTS : 1;
    problem.seed = seed;
    scion_result result;
    scion_result_init(&result);
    must(scion_minimize(&problem, &o, &result, &err), &err);
    return e->rule == SCION_RULE_SCION ? result.mean_fw_gap : result.mean_dual_norm;
}

/* Means over the seeds, by log2(n), and the slope over the last FIT of them. */
struct curve {
    double mean[LOG_MAX + 1], bound[LOG_MAX + 1];
    double slope, slope_error;
    int within; /* every mean is below its bound */
};

/* Slope of log2(y) against log2(n), by least squares. */
static double fit(const double *y, int first, int last)
{
    double mx = 0, my = 0, xx = 0, xy = 0, count = last - first + 1;
    for (int l = first; l <= last; l++) {
        mx += l / count;
        my += log2(y[l]) / count;
    }
    for (int l = first; l <= last; l++) {
        xx += (l - mx) * (l - mx);
        xy += (l - mx) * (log2(y[l]) - my);
    }
    return xy / xx;
}

static struct curve run_curve(const struct experiment *e, const struct mode *mode, int log_first, FILE *csv)
{
    struct curve c = {.within = 1};
    double all[SEEDS_MAX][LOG_MAX + 1], sum = 0, squares = 0, seeds = mode->seeds;
    const char *method = scion_enum_name(SCION_ENUM_RULE, (int)e->rule);
    for (int l = log_first; l <= mode->log_last; l++) {
        int64_t n = (int64_t)1 << l;
        double first[SEEDS_MAX], start = 0;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r%s, %s, n = %lld ...\033[K", e->ball->name, method, (long long)n);
        PARALLEL(omp parallel for schedule(dynamic))
        for (int s = 0; s < mode->seeds; s++)
            all[s][l] = measure(e, n, (uint64_t)s + 1, &first[s]);
        for (int s = 0; s < mode->seeds; s++) {
            c.mean[l] += all[s][l] / seeds;
            start += first[s] / seeds;
        }
        c.bound[l] = bound(e, n, start);
        c.within &= c.mean[l] <= c.bound[l];
        if (csv)
            fprintf(csv, "%s,%s,%s,%g,%lld,%.9g,%.9g\n", e->ball->name, method,
                    e->vanishing ? "vanishing" : "constant", e->sigma, (long long)n, c.mean[l], c.bound[l]);
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    int fit_first = mode->log_last - FIT + 1;
    if (log_first > fit_first)
        return c; /* too few points for a slope */
    c.slope = fit(c.mean, fit_first, mode->log_last);
    for (int s = 0; s < mode->seeds; s++) {
        double slope = fit(all[s], fit_first, mode->log_last);
        sum += slope;
        squares += slope * slope;
    }
    double variance = (squares - sum * sum / seeds) / (seeds - 1);
    c.slope_error = variance > 0 ? sqrt(variance / seeds) : 0;
    return c;
}

/* ---- Tables ------------------------------------------------------------------------------------------ */

static int broken;

static const char *verdict(int kept)
{
    broken |= !kept;
    return kept ? "kept" : "BROKEN";
}

static void slope_table(const struct mode *mode, int vanishing, FILE *csv, struct curve curves[BALL_COUNT][2])
{
    double promise = vanishing ? -0.25 : -0.5;
    int first = mode->log_first, last = mode->log_last;
    printf("\n%s\n%-9s %-7s %-9s %9s %9s   %6s +- %5s   %5s   %5s\n",
           vanishing ? "vanishing momentum 1/sqrt(k), step 3/(4 n^3/4), with noise"
                     : "constant momentum, step 1/sqrt(n), no noise",
           "norm", "method", "measure", "first n", "last n", "slope", "error", "paper", "bound");
    for (int b = 0; b < BALL_COUNT; b++)
        for (int constrained = 0; constrained < 2; constrained++) {
            struct experiment e = {&BALLS[b], constrained ? SCION_RULE_SCION : SCION_RULE_USCION, vanishing,
                                   vanishing ? mode->sigma : 0};
            struct curve c = run_curve(&e, mode, first, csv);
            int kept = c.within && c.slope - 2 * c.slope_error <= promise + mode->slope_margin;
            printf("%-9s %-7s %-9s %9.4f %9.4f   %6.3f +- %5.3f   %5.2f   %5.1f   %s\n", e.ball->name,
                   constrained ? "SCG" : "uSCG", constrained ? "gap" : "dual norm", c.mean[first], c.mean[last],
                   c.slope, c.slope_error, promise, c.bound[last] / c.mean[last], verdict(kept));
            fflush(stdout);
            curves[b][constrained] = c;
        }
}

static void floor_table(const struct mode *mode, FILE *csv, struct curve vanishing[BALL_COUNT][2])
{
    int last = mode->log_last, first = csv ? mode->log_first : last; /* the file shows how the curves flatten */
    printf("\nconstant momentum, step 1/sqrt(n), with noise: the floor at n = %lld\n", 1LL << last);
    printf("%-9s %-7s %11s %11s %7s   %18s\n", "norm", "method", "sigma", "2 sigma", "ratio", "vanishing, sigma");
    for (int b = 0; b < BALL_COUNT; b++)
        for (int constrained = 0; constrained < 2; constrained++) {
            struct experiment e = {&BALLS[b], constrained ? SCION_RULE_SCION : SCION_RULE_USCION, 0, mode->sigma};
            struct curve once = run_curve(&e, mode, first, csv);
            e.sigma *= 2;
            struct curve twice = run_curve(&e, mode, first, csv);
            double ratio = twice.mean[last] / once.mean[last], below = vanishing[b][constrained].mean[last];
            int kept = once.within && twice.within;
            if (!P.gaussian) /* a floor is what the other noise is made for */
                kept = kept && ratio >= FLOOR_RATIO[0] && ratio <= FLOOR_RATIO[1] && below < once.mean[last];
            printf("%-9s %-7s %11.4f %11.4f %7.2f   %18.4f   %s\n", e.ball->name, constrained ? "SCG" : "uSCG",
                   once.mean[last], twice.mean[last], ratio, below, verdict(kept));
            fflush(stdout);
        }
}

static void usage(FILE *to)
{
    fputs("rates: measures the convergence rates of uSCG and SCG beside what the paper proves\n\n"
          "  --quick      up to n = 2^11 with 2 seeds; without it 2^14 with 5\n"
          "  --gaussian   symmetric noise, under which constant momentum has no floor\n"
          "  --csv FILE   also writes every point: norm,method,momentum,sigma,n,mean,bound\n",
          to);
}

int main(int argc, char **argv)
{
    const struct mode *mode = &FULL;
    struct curve noise_free[BALL_COUNT][2], vanishing[BALL_COUNT][2];
    FILE *csv = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            usage(stdout);
            return 0;
        } else if (!strcmp(argv[i], "--quick")) {
            mode = &QUICK;
        } else if (!strcmp(argv[i], "--gaussian")) {
            P.gaussian = 1;
        } else if (!strcmp(argv[i], "--csv") && i + 1 < argc && !csv) {
            if (!(csv = fopen(argv[++i], "w"))) {
                fprintf(stderr, "rates: cannot write %s: %s\n", argv[i], strerror(errno));
                return 1;
            }
            fputs("norm,method,momentum,sigma,n,mean,bound\n", csv);
        } else {
            fprintf(stderr, "rates: cannot make sense of %s\n\n", argv[i]);
            usage(stderr);
            return 2;
        }
    }
    make_problem();
    for (int b = 0; b < BALL_COUNT; b++)
        measure_ball(&BALLS[b]);
    printf("n = 2^%d .. 2^%d, %d seeds, %s noise of sigma = %g, constant momentum alpha = %g\n"
           "slope: of log(measure) against log(n) over the last %d n, and its standard error over the seeds\n"
           "bound: the right-hand side of the theorem over what was measured, at the last n\n",
           mode->log_first, mode->log_last, mode->seeds, P.gaussian ? "Gaussian" : "one-sided", mode->sigma, ALPHA,
           FIT);
    slope_table(mode, 0, csv, noise_free);
    slope_table(mode, 1, csv, vanishing);
    floor_table(mode, csv, vanishing);
    if (csv && fclose(csv)) {
        fprintf(stderr, "rates: the CSV file is incomplete: %s\n", strerror(errno));
        return 1;
    }
    puts(broken ? "\nA promise is broken." : "\nEvery promise is kept.");
    return broken;
}
