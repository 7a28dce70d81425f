/* plain_update.c - the elementwise lmos and the optimizer steps as a textbook writes them.
 *
 * One loop for each line of the algorithm, threaded and vectorisable, over arrays that exist beforehand. The
 * gradient is not checked for NaN, which the library does. AdamW is the usual single loop. */
#include "bench.h"

#include <math.h>

static int64_t size_of(const plain_param *p)
{
    return p->rows * p->cols;
}

void plain_lmo_sign(const plain_param *p, const float *s, float *z)
{
    float c = (float)p->factor;
#pragma omp parallel for simd schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < size_of(p); i++)
        z[i] = s[i] > 0 ? -c : s[i] < 0 ? c : 0;
}

static double sum_of_squares(const float *x, int64_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < count; j++)
        sum += (double)x[j] * (double)x[j];
    return sum;
}

static float inverse_norm(double factor, double squares)
{
    return squares > 0 ? (float)(-factor / sqrt(squares)) : 0;
}

void plain_lmo_rows(const plain_param *p, const float *s, float *z)
{
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < p->rows; i++) {
        const float *row = s + i * p->cols;
        float f = inverse_norm(p->factor, sum_of_squares(row, p->cols));
#pragma omp simd
        for (int64_t j = 0; j < p->cols; j++)
            z[i * p->cols + j] = f * row[j];
    }
}

void plain_lmo_cols(const plain_param *p, const float *s, float *z)
{
    int64_t n = p->cols;
    double squares[n];
    float f[n];
    for (int64_t j = 0; j < n; j++)
        squares[j] = 0;
#pragma omp parallel for schedule(static) num_threads(p->threads) reduction(+ : squares[:n])
    for (int64_t i = 0; i < p->rows; i++) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            squares[j] += (double)s[i * n + j] * (double)s[i * n + j];
    }
    for (int64_t j = 0; j < n; j++)
        f[j] = inverse_norm(p->factor, squares[j]);
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < p->rows; i++) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            z[i * n + j] = f[j] * s[i * n + j];
    }
}

void plain_lmo_rms(const plain_param *p, const float *s, float *z)
{
    double squares = 0;
#pragma omp parallel for schedule(static) num_threads(p->threads) reduction(+ : squares)
    for (int64_t i = 0; i < p->rows; i++)
        squares += sum_of_squares(s + i * p->cols, p->cols);
    float f = inverse_norm(p->factor, squares);
#pragma omp parallel for simd schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < size_of(p); i++)
        z[i] = f * s[i];
}

/* y = a y + b x */
static void axpby(const plain_param *p, float *y, double a, const float *x, double b)
{
    float fa = (float)a, fb = (float)b;
#pragma omp parallel for simd schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < size_of(p); i++)
        y[i] = fa * y[i] + fb * x[i];
}

void plain_scion(plain_param *p, void (*lmo)(const plain_param *, const float *, float *))
{
    axpby(p, p->d, 1 - p->alpha, p->g, p->alpha);
    lmo(p, p->d, p->z);
    axpby(p, p->w, 1 - p->lr, p->z, p->lr);
}

void plain_light(plain_param *p, void (*lmo)(const plain_param *, const float *, float *))
{
    float keep = (float)(1 - p->alpha), *g = p->g;
    lmo(p, g, p->z);
    axpby(p, p->w, 1 - p->lr, p->z, p->lr);
#pragma omp parallel for simd schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < size_of(p); i++)
        g[i] *= keep;
}

void plain_adamw(plain_param *p)
{
    p->k++;
    float b1 = (float)p->beta1, b2 = (float)p->beta2, eps = (float)p->eps;
    float rate = (float)(p->lr / (1 - pow(p->beta1, (double)p->k)));
    float root = (float)(1 / sqrt(1 - pow(p->beta2, (double)p->k)));
    float *w = p->w, *m = p->d, *v = p->v;
    const float *g = p->g;
#pragma omp parallel for simd schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < size_of(p); i++) {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
        w[i] -= rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
}
