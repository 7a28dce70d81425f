/* bumpy_problem.h - a smooth non-convex function with known constants, and noise for its gradient.
 *
 *     f(x) = mean over i of phi(<a_i, x> - <a_i, x*>),     phi(t) = t^2/16 + (7/16) t^2/(1 + t^2)
 *
 * phi'' lies in [-3/32, 1], phi >= 0 = phi(0): f is not convex, its minimum is 0 at x*. The a_i are two
 * orthonormal bases, so that the mean of a_i a_i' is I/DIM and grad f is 1/DIM-Lipschitz in the 2-norm; from
 * any norm to its dual it is L-Lipschitz with L = mean of ||a_i||_*^2. x is a matrix of ROWS x COLS followed
 * by a vector of COLS.
 *
 * The noise is rare and one-sided: one sample in ten pulls hard in a fixed direction u, the others push back
 * a little, with mean 0 and variance sigma^2. Or it is Gaussian, with the same mean and variance.
 *
 * For rates.c; static, so that an example stays one translation unit. */
#ifndef BUMPY_PROBLEM_H
#define BUMPY_PROBLEM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ROWS = 6, COLS = 4, MATRIX = ROWS * COLS, DIM = MATRIX + COLS, TERMS = 2 * DIM };

/* Standard Gaussian, and uniform in (0,1), of a counter: splitmix64, Box and Muller. */
static double uniform(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double gauss(uint64_t seed, uint64_t counter)
{
    return sqrt(-2 * log(uniform(seed, 2 * counter))) * cos(6.283185307179586 * uniform(seed, 2 * counter + 1));
}

static struct {
    float a[TERMS][DIM], a_transposed[DIM][TERMS], b[TERMS];
    float u[DIM], best[DIM]; /* direction of the noise, x* */
    int gaussian;
} P;

/* A random direction at right angles to `count` orthonormal ones. */
static void unit(float x[DIM], uint64_t seed, float (*others)[DIM], int count)
{
    double y[DIM], square = 0;
    for (int j = 0; j < DIM; j++)
        y[j] = gauss(seed, (uint64_t)j);
    for (int i = 0; i < count; i++) {
        double dot = 0;
        for (int j = 0; j < DIM; j++)
            dot += y[j] * (double)others[i][j];
        for (int j = 0; j < DIM; j++)
            y[j] -= dot * (double)others[i][j];
    }
    for (int j = 0; j < DIM; j++)
        square += y[j] * y[j];
    for (int j = 0; j < DIM; j++)
        x[j] = (float)(y[j] / sqrt(square));
}

static void make_problem(void)
{
    unit(P.u, 1, NULL, 0);
    for (int j = 0; j < DIM; j++)
        P.best[j] = (float)gauss(2, (uint64_t)j);
    for (int i = 0; i < TERMS; i++) { /* two orthonormal bases */
        unit(P.a[i], (uint64_t)(100 + i), P.a + i / DIM * DIM, i % DIM);
        for (int j = 0; j < DIM; j++) {
            P.a_transposed[j][i] = P.a[i][j];
            P.b[i] += P.a[i][j] * P.best[j];
        }
    }
}

/* One run's weights and gradient: the matrix, then the vector. */
struct run {
    float x[DIM], g[DIM];
    double sigma;
    float known[DIM]; /* grad f at x^k: a step asks for it twice, with noise and without */
    int64_t known_k;
};

/* t_i = <a_i, x> - b_i */
static void residuals(const float x[DIM], float t[TERMS])
{
    for (int i = 0; i < TERMS; i++)
        t[i] = -P.b[i];
    for (int j = 0; j < DIM; j++)
        for (int i = 0; i < TERMS; i++)
            t[i] += P.a_transposed[j][i] * x[j];
}

static double value(const float x[DIM])
{
    float t[TERMS];
    double f = 0;
    residuals(x, t);
    for (int i = 0; i < TERMS; i++) {
        double square = (double)t[i] * (double)t[i];
        f += (square + 7 * square / (1 + square)) / 16 / TERMS;
    }
    return f;
}

/* g += grad f(x^k) = mean of phi'(t_i) a_i */
static int exact(void *ctx, int64_t k)
{
    struct run *r = ctx;
    float t[TERMS];
    if (r->known_k != k) {
        r->known_k = k;
        memset(r->known, 0, sizeof r->known);
        residuals(r->x, t);
        for (int i = 0; i < TERMS; i++) {
            float s = 1 + t[i] * t[i], slope = t[i] * (0.125f + 0.875f / (s * s)) / TERMS;
            for (int j = 0; j < DIM; j++)
                r->known[j] += slope * P.a[i][j];
        }
    }
    for (int j = 0; j < DIM; j++)
        r->g[j] += r->known[j];
    return 0;
}

/* The same with noise of mean 0 and E||noise||_2^2 = sigma^2. */
static int noisy(void *ctx, int64_t k, uint64_t sample)
{
    struct run *r = ctx;
    const double rare = 0.1;
    exact(ctx, k);
    if (P.gaussian) {
        for (int j = 0; j < DIM; j++)
            r->g[j] += (float)(r->sigma * gauss(sample, (uint64_t)j) / sqrt(DIM));
    } else {
        double z = ((uniform(sample, 0) < rare) - rare) / sqrt(rare * (1 - rare));
        for (int j = 0; j < DIM; j++)
            r->g[j] += (float)(r->sigma * z) * P.u[j];
    }
    return 0;
}

#endif
