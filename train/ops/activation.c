/* y = f(x), elementwise;  dx = dy f'(x).
 *
 *     relu          max(z,0)              scaled_relu    sqrt(2) max(z,0)
 *     relu2         max(z,0)^2            scaled_relu2   2 max(z,0)^2
 *     gelu          z Phi(z)              sqrt2_gelu     sqrt(2) z Phi(z)          tanh
 *
 * Phi is the standard normal distribution function itself and not the tanh fit. ScaledReLU keeps the mean square
 * of a symmetric input, E f(z)^2 = E z^2; ScaledReLU^2 is its square (paper, appendix "Scaled ReLU^2"). NaN stays
 * NaN, so that a diverged run is noticed.
 *
 * Every function is arithmetic and selection only, so that the loops vectorise; errors are those of float32
 * rounding, about 2e-7 of the value (and of gelu's left tail, where it is of size e^(-z^2/2), z^2/2 times that). */
#include "ops/ops.h"

#include <stddef.h>
#include <string.h>

#include "ops/parallel.h"

static const float SQRT_2 = 1.41421356237309505f;
static const float SQRT_HALF = 0.70710678118654752f;
static const float INV_SQRT_2PI = 0.39894228040143268f;

/* dz = dy f'(z), or dz += that. */
SCN_INLINE void backward_loop(bool accumulate, float (*grad)(float c, float z), float c, int64_t n, const float *z,
                              const float *dy, float *dz)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        op_put(accumulate, dz + i, dy[i] * grad(c, z[i]));
}

/* ---- max(z,0) ---------------------------------------------------------------------------------------------- */

SCN_CLONES static void relu_forward(float c, int64_t n, const float *z, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = z[i] <= 0 ? 0 : c * z[i];
}

SCN_INLINE float relu_grad(float c, float z)
{
    return z > 0 ? c : 0;
}

SCN_CLONES static void relu_backward(float c, int64_t n, const float *z, const float *dy, bool accumulate, float *dz)
{
    OP_WITH_FLAG(accumulate, backward_loop, relu_grad, c, n, z, dy, dz);
}

/* ---- max(z,0)^2 -------------------------------------------------------------------------------------------- */

SCN_CLONES static void relu2_forward(float c, int64_t n, const float *z, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++) {
        float r = z[i] <= 0 ? 0 : z[i];
        y[i] = c * (r * r);
    }
}

SCN_INLINE float relu2_grad(float c, float z)
{
    return 2 * c * (z <= 0 ? 0 : z);
}

SCN_CLONES static void relu2_backward(float c, int64_t n, const float *z, const float *dy, bool accumulate, float *dz)
{
    OP_WITH_FLAG(accumulate, backward_loop, relu2_grad, c, n, z, dy, dz);
}

/* ---- z Phi(z) ---------------------------------------------------------------------------------------------- */

/* Phi(z), and e^(-z^2/2) into *gaussian. With x = |z|/sqrt(2): Phi(-|z|) = 1/2 e^(-x^2) erfcx(x), where
 * erfcx(x) = e^(x^2) erfc(x) is t times a polynomial of t = 1/(1 + 3x/8) to 5e-8 of it for x <= 10 (minimax). */
SCN_INLINE float normal_cdf(float z, float *gaussian)
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
    *gaussian = op_exp(-0.5f * z * z);
    const float tail = 0.5f * *gaussian * (t * p);
    return z < 0 ? tail : 1.0f - tail;
}

SCN_CLONES static void gelu_forward(float c, int64_t n, const float *z, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++) {
        float gaussian;
        y[i] = c * (z[i] * normal_cdf(z[i], &gaussian));
    }
}

SCN_INLINE float gelu_grad(float c, float z)
{
    float gaussian;
    const float phi = normal_cdf(z, &gaussian);
    return c * (phi + z * (INV_SQRT_2PI * gaussian));
}

SCN_CLONES static void gelu_backward(float c, int64_t n, const float *z, const float *dy, bool accumulate, float *dz)
{
    OP_WITH_FLAG(accumulate, backward_loop, gelu_grad, c, n, z, dy, dz);
}

/* ---- tanh -------------------------------------------------------------------------------------------------- */

/* With e = e^(2|z|) - 1: e/(e + 2), and the sign of z. e comes from e^r - 1 without cancellation. From 9.1 on the
 * nearest float is 1. */
SCN_INLINE float tanh_value(float z)
{
    const float size = z < 0 ? -z : z;
    const float x = 2 * (size > 10.0f ? 10.0f : size);
    float power;
    const float r = op_exp_reduce(x, &power);
    const float e = power * (r + (r * r) * op_exp_rest(r)) + (power - 1.0f);
    const float t = e / (e + 2.0f);
    return z < 0 ? -t : t;
}

SCN_CLONES static void tanh_forward(float c, int64_t n, const float *z, float *y)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = c * tanh_value(z[i]);
}

SCN_INLINE float tanh_grad(float c, float z)
{
    const float t = tanh_value(z);
    return c * ((1 - t) * (1 + t));
}

SCN_CLONES static void tanh_backward(float c, int64_t n, const float *z, const float *dy, bool accumulate, float *dz)
{
    OP_WITH_FLAG(accumulate, backward_loop, tanh_grad, c, n, z, dy, dz);
}

/* ---- The table --------------------------------------------------------------------------------------------- */

static const activation TABLE[] = {
    {"relu", 1, 1, relu_forward, relu_backward, "relu"},
    {"scaled_relu", SQRT_2, 1, relu_forward, relu_backward, "relu"},
    {"relu2", 1, 2, relu2_forward, relu2_backward, "relu2"},
    {"scaled_relu2", 2, 2, relu2_forward, relu2_backward, "relu2"},
    {"gelu", 1, 0, gelu_forward, gelu_backward, "gelu"},
    {"sqrt2_gelu", SQRT_2, 0, gelu_forward, gelu_backward, "gelu"},
    {"tanh", 1, 0, tanh_forward, tanh_backward, "tanh"},
};

const activation *activation_row(int i)
{
    return i >= 0 && (size_t)i < sizeof TABLE / sizeof *TABLE ? &TABLE[i] : NULL;
}

const char *activation_name(int i)
{
    return activation_row(i) ? activation_row(i)->name : NULL;
}

const activation *activation_find(const char *name)
{
    for (int i = 0; activation_row(i); i++)
        if (strcmp(TABLE[i].name, name) == 0)
            return &TABLE[i];
    return NULL;
}

/* ---- The operator ------------------------------------------------------------------------------------------- */

/* y of n elements as bfloat16 and, unless y is NULL, as float32. */
static void forward_rounded(const activation *f, int64_t n, const float *x, float *y, uint16_t *half)
{
    enum { at_once = 1024 };
    float block[at_once];
    for (int64_t i = 0; i < n; i += at_once) {
        const int64_t count = scn_min(at_once, n - i);
        float *to = y ? y + i : block;
        f->forward(f->factor, count, x + i, to);
        scn_to_bf16(count, to, half + i);
    }
}

static void forward(const tape_node *n, const tape_run *run)
{
    const activation *f = n->fixed;
    const float *x = n->in[0]->data;
    float *y = n->out->data;
    uint16_t *half = n->out->half;
    if (half)
        OP_PIECES(run->threads, n->out->count, 1, at, count,
                  forward_rounded(f, count, x + at, y ? y + at : NULL, half + at));
    else
        OP_PIECES(run->threads, n->out->count, 1, at, count, f->forward(f->factor, count, x + at, y + at));
}

static void backward(const tape_node *n, const tape_run *run)
{
    const activation *f = n->fixed;
    const float *x = n->in[0]->data, *dy = n->out->grad;
    float *dx = n->in[0]->grad;
    if (n->needs_grad[0])
        OP_PIECES(run->threads, n->out->count, 1, at, count,
                  f->backward(f->factor, count, x + at, dy + at, n->accumulate[0], dx + at));
}

const tape_op op_activation_row = {
    .name = "activation",
    .forward = forward,
    .backward = backward,
    .backward_reads = 1 << 0,
    .half_out = true,
    .in_place = true,
};

tape_value *op_activation(tape *t, tape_value *x, const activation *f)
{
    if (!x)
        return NULL;
    if (!f)
        return tape_fail(t, "activation: no function given");
    return op_record(t, &(tape_node){.op = &op_activation_row, .in = {x}, .fixed = f});
}
