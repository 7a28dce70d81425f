/* Activations and their derivatives.
 *
 *     relu          max(z,0)              scaled_relu    sqrt(2) max(z,0)
 *     relu2         max(z,0)^2            scaled_relu2   2 max(z,0)^2
 *     gelu          z Phi(z)              sqrt2_gelu     sqrt(2) z Phi(z)          tanh
 *
 * Phi is the standard normal distribution function itself and not the tanh fit. ScaledReLU keeps the mean square
 * of a symmetric input, E f(z)^2 = E z^2; ScaledReLU^2 is its square (paper, appendix "Scaled ReLU^2"). NaN comes
 * through as NaN, so that a run that has gone wrong is seen.
 *
 * Every function is arithmetic and selection only, so that the loops vectorise; errors are those of float32
 * rounding, about 2e-7 of the value (and of gelu's left tail, where it is of size e^(-z^2/2), z^2/2 times that). */
#include "ops/activation.h"

#include <stddef.h>
#include <string.h>

#include "ops/vectorise.h"

static const float SQRT_2 = 1.41421356237309505f;
static const float SQRT_HALF = 0.70710678118654752f;
static const float INV_SQRT_2PI = 0.39894228040143268f;

/* ---- max(z,0) ---------------------------------------------------------------------------------------------- */

OP_CLONES static void relu_forward(float c, int64_t n, const float *z, float *y)
{
    OP_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = z[i] <= 0 ? 0 : c * z[i];
}

OP_CLONES static void relu_backward(float c, int64_t n, const float *z, const float *dy, float keep, float *dz)
{
    if (keep == 0) {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] = dy[i] * (z[i] > 0 ? c : 0);
    } else {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] += dy[i] * (z[i] > 0 ? c : 0);
    }
}

/* ---- max(z,0)^2 -------------------------------------------------------------------------------------------- */

OP_CLONES static void relu2_forward(float c, int64_t n, const float *z, float *y)
{
    OP_SIMD
    for (int64_t i = 0; i < n; i++) {
        float r = z[i] <= 0 ? 0 : z[i];
        y[i] = c * (r * r);
    }
}

OP_CLONES static void relu2_backward(float c, int64_t n, const float *z, const float *dy, float keep, float *dz)
{
    if (keep == 0) {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] = dy[i] * (2 * c * (z[i] <= 0 ? 0 : z[i]));
    } else {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] += dy[i] * (2 * c * (z[i] <= 0 ? 0 : z[i]));
    }
}

/* ---- z Phi(z) ---------------------------------------------------------------------------------------------- */

/* Phi(z), and e^(-z^2/2) into *bell. With x = |z|/sqrt(2): Phi(-|z|) = 1/2 e^(-x^2) erfcx(x), where
 * erfcx(x) = e^(x^2) erfc(x) is t times a polynomial of t = 1/(1 + 3x/8) to 5e-8 of it for x <= 10 (minimax). */
OP_INLINE float normal_cdf(float z, float *bell)
{
    const float size = z < 0 ? -z : z;
    const float t = 1.0f / (1.0f + 0.375f * SQRT_HALF * size);
    float p = 0.06251359166f;
    p = p * t - 0.2920552219f;
    p = p * t + 0.4421170711f;
    p = p * t - 0.2404598112f;
    p = p * t + 0.2812898267f;
    p = p * t + 0.1183187331f;
    p = p * t + 0.2061169957f;
    p = p * t + 0.2105389896f;
    p = p * t + 0.2116198395f;
    *bell = op_exp(-0.5f * z * z);
    const float tail = 0.5f * *bell * (t * p);
    return z < 0 ? tail : 1.0f - tail;
}

OP_INLINE float gelu_slope(float z)
{
    float bell;
    const float phi = normal_cdf(z, &bell);
    return phi + z * (INV_SQRT_2PI * bell);
}

OP_CLONES static void gelu_forward(float c, int64_t n, const float *z, float *y)
{
    OP_SIMD
    for (int64_t i = 0; i < n; i++) {
        float bell;
        y[i] = c * (z[i] * normal_cdf(z[i], &bell));
    }
}

OP_CLONES static void gelu_backward(float c, int64_t n, const float *z, const float *dy, float keep, float *dz)
{
    if (keep == 0) {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] = dy[i] * (c * gelu_slope(z[i]));
    } else {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] += dy[i] * (c * gelu_slope(z[i]));
    }
}

/* ---- tanh -------------------------------------------------------------------------------------------------- */

/* With e = e^(2|z|) - 1: e/(e + 2), and the sign of z. e comes from e^r - 1 without cancellation. From 9.1 on the
 * nearest float is 1. */
OP_INLINE float tanh_value(float z)
{
    const float size = z < 0 ? -z : z;
    const float x = 2 * (size > 10.0f ? 10.0f : size);
    float power;
    const float r = op_exp_reduce(x, &power);
    const float e = power * (r + (r * r) * op_exp_rest(r)) + (power - 1.0f);
    const float t = e / (e + 2.0f);
    return z < 0 ? -t : t;
}

OP_INLINE float tanh_slope(float z)
{
    const float t = tanh_value(z);
    return (1 - t) * (1 + t);
}

OP_CLONES static void tanh_forward(float c, int64_t n, const float *z, float *y)
{
    OP_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = c * tanh_value(z[i]);
}

OP_CLONES static void tanh_backward(float c, int64_t n, const float *z, const float *dy, float keep, float *dz)
{
    if (keep == 0) {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] = dy[i] * (c * tanh_slope(z[i]));
    } else {
        OP_SIMD
        for (int64_t i = 0; i < n; i++)
            dz[i] += dy[i] * (c * tanh_slope(z[i]));
    }
}

/* ---- The table --------------------------------------------------------------------------------------------- */

static const activation TABLE[] = {
    {"relu", 1, relu_forward, relu_backward},    {"scaled_relu", SQRT_2, relu_forward, relu_backward},
    {"relu2", 1, relu2_forward, relu2_backward}, {"scaled_relu2", 2, relu2_forward, relu2_backward},
    {"gelu", 1, gelu_forward, gelu_backward},    {"sqrt2_gelu", SQRT_2, gelu_forward, gelu_backward},
    {"tanh", 1, tanh_forward, tanh_backward},
};

const activation *activation_row(int i)
{
    return i >= 0 && (size_t)i < sizeof TABLE / sizeof *TABLE ? &TABLE[i] : NULL;
}

const activation *activation_find(const char *name)
{
    for (int i = 0; activation_row(i); i++)
        if (strcmp(TABLE[i].name, name) == 0)
            return &TABLE[i];
    return NULL;
}

void activation_forward(const activation *f, int64_t n, const float *z, float *y)
{
    f->forward(f->factor, n, z, y);
}

void activation_backward(const activation *f, int64_t n, const float *z, const float *dy, float keep, float *dz)
{
    f->backward(f->factor, n, z, dy, keep, dz);
}
