/* quadratic.c - least squares over a spectral ball, the shortest use of scion_minimize.
 *
 *     minimise  f(X) = 1/2 ||A X - B||_F^2    over the matrices X with largest singular value at most 1
 *
 * With alpha = 1 and no noise, rule SCION is the Frank-Wolfe method: it never leaves the ball and needs no
 * projection. B is A times a matrix with singular values from 4 to 1.5, so the solution lies on the boundary.
 * f is convex, so the Frank-Wolfe gap that is printed is at least f(X) - min f: it says how far there is to go. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <scion_advanced.h>

enum { ROWS = 20, D_OUT = 8, D_IN = 6, STEPS = 100 };

static float A[ROWS][D_OUT], B[ROWS][D_IN], X[D_OUT][D_IN], G[D_OUT][D_IN];

/* R = A X - B */
static double residual(double R[ROWS][D_IN])
{
    double f = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < D_IN; j++) {
            R[i][j] = -(double)B[i][j];
            for (int p = 0; p < D_OUT; p++)
                R[i][j] += (double)A[i][p] * (double)X[p][j];
            f += R[i][j] * R[i][j] / 2;
        }
    return f;
}

/* G += A' R, the gradient of f at X */
static int gradient(void *ctx, int64_t k, uint64_t sample)
{
    (void)ctx, (void)k, (void)sample;
    double R[ROWS][D_IN];
    residual(R);
    for (int p = 0; p < D_OUT; p++)
        for (int j = 0; j < D_IN; j++)
            for (int i = 0; i < ROWS; i++)
                G[p][j] += (float)((double)A[i][p] * R[i][j]);
    return 0;
}

static int report(void *ctx, const scion_report *r)
{
    (void)ctx;
    double R[ROWS][D_IN];
    printf("%6lld  %12.6f  %12.6f\n", (long long)r->k, residual(R), r->fw_gap);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int help = !strcmp(argv[1], "--help");
        fputs("quadratic: minimises ||A X - B||^2 over a spectral ball and prints the gap; takes no arguments\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    for (int i = 0; i < ROWS; i++)
        for (int p = 0; p < D_OUT; p++)
            A[i][p] = sinf((float)(1 + 7 * i + 3 * p * p)) / 2;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < D_IN; j++)
            B[i][j] = (4 - 0.5f * (float)j) * A[i][j]; /* A diag(4, 3.5, 3, ...) */

    scion_param p;
    scion_param_init(&p);
    p.name = "X", p.ndim = 2, p.shape[0] = D_OUT, p.shape[1] = D_IN, p.weight = X, p.grad = G;
    p.norm = SCION_NORM_SPECTRAL, p.role = SCION_ROLE_PLAIN, p.radius = 1;

    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.momentum = 1, o.polar = SCION_POLAR_CONVERGED, o.threads = 1;

    scion_schedule constant;
    scion_schedule_init(&constant);
    constant.kind = SCION_SCHEDULE_CONSTANT, constant.peak = 0.1;

    scion_problem problem;
    scion_problem_init(&problem);
    problem.params = &p, problem.count = 1, problem.gradient = gradient, problem.report = report;
    problem.steps = STEPS, problem.report_every = STEPS / 10, problem.schedule = &constant;

    scion_result result;
    scion_result_init(&result);
    scion_error err;
    double norm = 0, R[ROWS][D_IN];
    puts("  step          f(X)  Frank-Wolfe gap");
    if (scion_minimize(&problem, &o, &result, &err) || scion_norm_value(&p, &o, &X[0][0], &norm, &err)) {
        fprintf(stderr, "quadratic: %s\n", err.message);
        return 1;
    }
    printf("f(X) = %.6f, largest singular value of X = %.6f\n", residual(R), norm);
    return 0;
}
