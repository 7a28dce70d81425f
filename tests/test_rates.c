/* The theorems, in a cheap and robust form, on a smooth non-convex function of 12 variables: the dual norm of the
 * gradient under uSCG and the Frank-Wolfe gap under SCG, averaged over all iterates, against the number of steps and
 * against the theorems' explicit bounds; with constant and with vanishing momentum. `scion reproduce rates` measures
 * the exponents over a longer range. */
#include "support.h"

#include <math.h>

static scion_error err;

static double mean_dual(scion_rule rule, scion_norm norm, double momentum, int vanishing, double sigma, int64_t n,
                        double *gap)
{
    bowl *b = bowl_make(norm, 2);
    scion_options o = bowl_options(rule, momentum);
    scion_result result = {.size = sizeof result};
    b->nonconvex = 1;
    b->sigma = sigma;
    b->p.role = SCION_ROLE_PLAIN;
    o.vanishing = vanishing;
    o.first_full = 1;
    o.polar = SCION_POLAR_CONVERGED; /* the theorems are about the exact lmo */
    scion_problem problem = bowl_problem(b, n, vanishing ? SCION_SCHEDULE_INV_N34 : SCION_SCHEDULE_INV_SQRT_N, 1);
    check_ok(scion_minimize(&problem, &o, &result, &err), &err);
    if (rule == SCION_RULE_SCION) /* feasible at every iterate */
        check_le(b->worst_norm, 1 + 1e-5);
    if (gap)
        *gap = result.mean_fw_gap;
    return result.mean_dual_norm;
}

/* Without noise and with gamma = 1/sqrt(n) the mean dual norm (uSCG) and the mean gap (SCG) fall like n^(-1/2). The
 * slope over a factor 64 in n is asked to be between -0.35 and -0.75: half a decade of constants either way. */
static void test_rate_without_noise(void **state)
{
    (void)state;
    static const scion_norm norms[] = {SCION_NORM_SIGN, SCION_NORM_SPECTRAL, SCION_NORM_COL};
    for (int64_t t = 0; t < COUNT_OF(norms); t++) {
        double gap[2], few = mean_dual(SCION_RULE_USCION, norms[t], 0.5, 0, 0, 64, NULL);
        double many = mean_dual(SCION_RULE_USCION, norms[t], 0.5, 0, 0, 4096, NULL);
        mean_dual(SCION_RULE_SCION, norms[t], 0.5, 0, 0, 64, &gap[0]);
        mean_dual(SCION_RULE_SCION, norms[t], 0.5, 0, 0, 4096, &gap[1]);
        double slope = log(many / few) / log(64), gap_slope = log(gap[1] / gap[0]) / log(64);
        at("norm %d: slopes %.2f and %.2f", (int)norms[t], slope, gap_slope);
        check(slope > -0.75 && slope < -0.35);
        check(gap_slope > -0.75 && gap_slope < -0.35);
    }
}

/* Under skewed noise constant momentum ends in a region that sigma sets; vanishing momentum goes below it. */
static void test_vanishing_beats_the_floor(void **state)
{
    (void)state;
    const double sigma = 0.1;
    double floor_few = mean_dual(SCION_RULE_USCION, SCION_NORM_SIGN, 0.9, 0, sigma, 1024, NULL);
    double floor_many = mean_dual(SCION_RULE_USCION, SCION_NORM_SIGN, 0.9, 0, sigma, 16384, NULL);
    double few = mean_dual(SCION_RULE_USCION, SCION_NORM_SIGN, 1, 1, sigma, 1024, NULL);
    double many = mean_dual(SCION_RULE_USCION, SCION_NORM_SIGN, 1, 1, sigma, 16384, NULL);
    at("constant %.3g then %.3g, vanishing %.3g then %.3g", floor_few, floor_many, few, many);
    check_le(many, 0.8 * few);             /* n^(-1/4) over a factor 16 is a half */
    check_le(many, 0.8 * floor_many);      /* below the floor */
    check_le(0.5 * floor_few, floor_many); /* which does not fall like n^(-1/2), a quarter */
}

/* The right-hand side of the theorems for f = sum of u^2/(1 + u^2), whose gradient has the Lipschitz constant 2 in
 * the 2-norm, in units of the ball, whose farthest point has the 2-norm `reach`. With lambda^k the error of the
 * average and R the longest step over gamma (reach for uSCG, twice that for SCG, whose steps are differences of two
 * points),
 *     E||lambda^1||^2 <= sigma^2,
 *     E||lambda^k||^2 <= (1 - alpha_k/2) E||lambda^{k-1}||^2 + 2 (2 R gamma)^2 / alpha_k + (alpha_k sigma)^2,
 * and with S the mean over k of sqrt(E||lambda^k||^2) and L = 2 reach^2
 *     uSCG:  E||grad f||_* <= (f(x^1) - min f)/(gamma n) + L gamma/2 + 2 reach S
 *     SCG:   E gap         <= (f(x^1) - min f)/(gamma n) + 2 L gamma + 2 reach S */
static double theorem(int constrained, double alpha, int vanishing, double variance, double reach, double start,
                      int64_t n)
{
    const double gamma = vanishing ? 0.75 * pow((double)n, -0.75) : 1 / sqrt((double)n);
    const double move = 2 * (constrained ? 2 : 1) * reach * gamma;
    double error = variance, sum = sqrt(error);
    for (int64_t k = 2; k <= n; k++) {
        const double a = vanishing ? 1 / sqrt((double)k) : alpha;
        error = (1 - a / 2) * error + 2 * move * move / a + a * a * variance;
        sum += sqrt(error);
    }
    return start / (gamma * (double)n) + 2 * reach * reach * gamma * (constrained ? 2 : 0.5) +
           2 * reach * sum / (double)n;
}

/* The bounds hold at every n, with and without noise. */
static void test_bounds(void **state)
{
    (void)state;
    static const struct {
        scion_norm norm;
        double reach; /* 2-norm of the farthest point of the unit ball of 3 x 4 matrices */
    } balls[] = {
        {SCION_NORM_SIGN, 3.4641016151377544}, {SCION_NORM_SPECTRAL, 1.7320508075688772}, {SCION_NORM_COL, 2}};
    for (int64_t t = 0; t < COUNT_OF(balls); t++)
        for (int form = 0; form < 4; form++)
            for (int64_t n = 16; n <= 4096; n *= 4) {
                const int vanishing = form & 1;
                const double sigma = form & 2 ? 0.05 : 0, variance = 9 * sigma * sigma * BOWL_N;
                const bowl *b = bowl_make(balls[t].norm, 2);
                double start = 0, gap;
                for (int i = 0; i < BOWL_N; i++)
                    start += b->target[i] * b->target[i] / (1 + b->target[i] * b->target[i]);
                const double reach = 2 * balls[t].reach;
                at("norm %d, form %d, n = %lld", (int)balls[t].norm, form, (long long)n);
                check_le(mean_dual(SCION_RULE_USCION, balls[t].norm, 0.5, vanishing, sigma, n, NULL),
                         theorem(0, 0.5, vanishing, variance, reach, start, n));
                mean_dual(SCION_RULE_SCION, balls[t].norm, 0.5, vanishing, sigma, n, &gap);
                check_le(gap, theorem(1, 0.5, vanishing, variance, reach, start, n));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_rate_without_noise), LAW(test_vanishing_beats_the_floor),
                                       LAW(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
