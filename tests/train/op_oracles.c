/* The operators in double, naively and straight from their definitions in ops.h: nothing is shared with the
 * program but the generator of random numbers. */
#include "op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

void oracle_linear(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    for (int64_t n = 0; n < s->B * s->T; n++)
        for (int64_t o = 0; o < s->V; o++) {
            double sum = c->flag ? in[2][o] : 0;
            for (int64_t i = 0; i < s->C; i++)
                sum += in[0][n * s->C + i] * in[1][o * s->C + i];
            out[n * s->V + o] = sum;
        }
}

void oracle_embedding(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c;
    for (int64_t n = 0; n < s->B * s->T; n++)
        for (int64_t i = 0; i < s->C; i++)
            out[n * s->C + i] = in[1][ints[n] * s->C + i];
}

void oracle_rmsnorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t width = s->D ? s->D : s->C;
    for (int64_t first = 0; first < s->B * s->T * s->C; first += width) {
        double sum = 0;
        for (int64_t i = first; i < first + width; i++)
            sum += in[0][i] * in[0][i];
        for (int64_t i = first; i < first + width; i++)
            out[i] = in[0][i] / sqrt(sum / (double)width + c->real);
    }
}

void oracle_layernorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    for (int64_t n = 0; n < s->B * s->T; n++) {
        const double *x = in[0] + n * s->C;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < s->C; i++)
            mean += x[i] / (double)s->C;
        for (int64_t i = 0; i < s->C; i++)
            var += (x[i] - mean) * (x[i] - mean) / (double)s->C;
        for (int64_t i = 0; i < s->C; i++)
            out[n * s->C + i] = in[1][i] * (x[i] - mean) / sqrt(var + c->real) + (c->flag ? in[2][i] : 0);
    }
}

void oracle_rotary(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    for (int64_t n = 0; n < s->B * s->T; n++)
        for (int64_t h = 0; h < s->C; h += s->D)
            for (int64_t i = 0; i < s->D / 2; i++) {
                const double angle = (double)(n % s->T) * pow(c->real, -2.0 * (double)i / (double)s->D);
                const int64_t u = n * s->C + h + i, v = u + s->D / 2;
                out[u] = in[0][u] * cos(angle) - in[0][v] * sin(angle);
                out[v] = in[0][u] * sin(angle) + in[0][v] * cos(angle);
            }
}

/* One query row of one head: q at `at`, keys and values from `base` on, `seen` of them. */
static void attend(const op_sizes *s, double *const *in, int64_t at, int64_t base, int64_t seen, double *p,
                   double *out)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        p[j] = 0;
        for (int64_t i = 0; i < s->D; i++)
            p[j] += in[0][at + i] * in[1][base + j * s->C + i] / sqrt((double)s->D);
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < seen; j++)
        sum += p[j] = exp(p[j] - top);
    for (int64_t i = 0; i < s->D; i++) {
        out[at + i] = 0;
        for (int64_t j = 0; j < seen; j++)
            out[at + i] += p[j] / sum * in[2][base + j * s->C + i];
    }
}

void oracle_attention(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    double *p = malloc((size_t)s->T * sizeof *p);
    if (!p)
        abort();
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t h = 0; h < s->C; h += s->D)
            for (int64_t t = 0; t < s->T; t++)
                attend(s, in, (b * s->T + t) * s->C + h, b * s->T * s->C + h, c->flag ? t + 1 : s->T, p, out);
    free(p);
}

/* Value and slope of the function without its factor, and the factor. */
static double function(const char *name, double z, double *slope)
{
    const double root = sqrt(2.0);
    if (strcmp(name, "tanh") == 0) {
        *slope = 1 / (cosh(z) * cosh(z));
        return tanh(z);
    }
    if (strstr(name, "gelu")) {
        const double factor = name[0] == 's' ? root : 1, phi = 0.5 * erfc(-z / root);
        *slope = factor * (phi + z * exp(-z * z / 2) / sqrt(2 * 3.14159265358979323846));
        return factor * z * phi;
    }
    const double r = z > 0 ? z : 0, one = z > 0 ? 1 : 0, scaled = name[0] == 's';
    if (strstr(name, "relu2")) {
        *slope = (scaled + 1) * 2 * r;
        return (scaled + 1) * r * r;
    }
    *slope = (scaled > 0 ? root : 1) * one;
    return (scaled > 0 ? root : 1) * r;
}

double oracle_function(const char *name, double z)
{
    double slope;
    return function(name, z, &slope);
}

double oracle_slope(const char *name, double z)
{
    double slope;
    function(name, z, &slope);
    return slope;
}

void oracle_activation(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    for (int64_t i = 0; i < s->B * s->T * s->C; i++)
        out[i] = oracle_function(c->function, in[0][i]);
}

void oracle_add(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c, (void)ints;
    for (int64_t i = 0; i < s->B * s->T * s->C; i++)
        out[i] = in[0][i] + in[1][i];
}

/* out: loss, hits, rows. The target distribution is written out, not folded into the formula. */
void oracle_cross_entropy(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    const op_case layer = {.flag = c->flag};
    const int64_t rows = s->B * s->T, V = s->V;
    double *z = malloc((size_t)(rows * V) * sizeof *z), loss = 0, hits = 0, count = 0;
    if (!z)
        abort();
    oracle_linear(&layer, s, in, NULL, z);
    for (int64_t n = 0; n < rows; n++) {
        const double *row = z + n * V;
        int64_t best = 0;
        double sum = 0;
        if (ints[n] < 0)
            continue;
        for (int64_t j = 1; j < V; j++)
            best = row[j] > row[best] ? j : best;
        for (int64_t j = 0; j < V; j++)
            sum += exp(row[j] - row[best]);
        for (int64_t j = 0; j < V; j++) {
            const double own = c->soft ? in[4][n * V + j] : j == ints[n];
            loss -= ((1 - c->real) * own + c->real / (double)V) * (row[j] - row[best] - log(sum));
        }
        hits += best == ints[n];
        count++;
    }
    out[0] = count > 0 ? loss / count : 0;
    out[1] = hits;
    out[2] = count;
    free(z);
}

/* ---- Images ------------------------------------------------------------------------------------------------ */

static int64_t image_width(const op_case *c, const op_sizes *s)
{
    return s->T + (c->oblong ? 2 : 0);
}

void oracle_factor(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    for (int64_t i = 0; i < s->B * s->T * s->C; i++)
        out[i] = c->real * in[0][i];
}

/* Channel `o` of the result at row i and column j of image b. */
static double convolve(const op_case *c, const op_sizes *s, double *const *in, int64_t b, int64_t i, int64_t j,
                       int64_t o)
{
    const int64_t H = s->T, W = image_width(c, s), kh = s->D, kw = s->D + c->oblong;
    double sum = c->flag ? in[2][o] : 0;
    for (int64_t u = 0; u < kh; u++)
        for (int64_t v = 0; v < kw; v++) {
            const int64_t y = i * c->stride + u - c->pad, x = j * c->stride + v - c->pad;
            for (int64_t k = 0; k < s->C && y >= 0 && y < H && x >= 0 && x < W; k++)
                sum += in[1][((o * s->C + k) * kh + u) * kw + v] * in[0][((b * H + y) * W + x) * s->C + k];
        }
    return sum;
}

void oracle_convolution(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t kw = s->D + c->oblong, W = image_width(c, s);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i <= (s->T + 2 * c->pad - s->D) / c->stride; i++)
            for (int64_t j = 0; j <= (W + 2 * c->pad - kw) / c->stride; j++)
                for (int64_t o = 0; o < s->V; o++)
                    *out++ = convolve(c, s, in, b, i, j, o);
}

void oracle_batchnorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t rows = s->B * s->T * s->T;
    for (int64_t k = 0; k < s->C; k++) {
        double mean = 0, var = 0;
        for (int64_t r = 0; r < rows; r++)
            mean += in[0][r * s->C + k] / (double)rows;
        for (int64_t r = 0; r < rows; r++)
            var += (in[0][r * s->C + k] - mean) * (in[0][r * s->C + k] - mean) / (double)rows;
        for (int64_t r = 0; r < rows; r++) {
            const double h = (in[0][r * s->C + k] - mean) / sqrt(var + c->real);
            const double z = (c->scaled ? in[1][k] : 1) * h + (c->flag ? in[2][k] : 0);
            out[r * s->C + k] = c->function ? oracle_function(c->function, z) : z;
        }
    }
}

void oracle_max_pool(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t H = s->T, W = image_width(c, s);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < H / s->D; i++)
            for (int64_t j = 0; j < W / s->D; j++)
                for (int64_t k = 0; k < s->C; k++) {
                    double top = -INFINITY;
                    for (int64_t u = 0; u < s->D * s->D; u++)
                        top = fmax(top, in[0][((b * H + i * s->D + u / s->D) * W + j * s->D + u % s->D) * s->C + k]);
                    *out++ = top;
                }
}

void oracle_patches(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t H = s->T, p = s->D, W = H + (c->oblong ? p : 0);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < H / p; i++)
            for (int64_t j = 0; j < W / p; j++)
                for (int64_t k = 0; k < s->C; k++)
                    for (int64_t u = 0; u < p; u++)
                        for (int64_t v = 0; v < p; v++)
                            *out++ = in[0][((b * H + i * p + u) * W + j * p + v) * s->C + k];
}

/* ---- Positions --------------------------------------------------------------------------------------------- */

void oracle_add_each(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c, (void)ints;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t k = 0; k < s->T * s->C; k++)
            *out++ = in[0][b * s->T * s->C + k] + in[1][k];
}

void oracle_prepend(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c, (void)ints;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t t = 0; t <= s->T; t++)
            for (int64_t i = 0; i < s->C; i++)
                *out++ = t == 0 ? in[1][i] : in[0][(b * s->T + t - 1) * s->C + i];
}

void oracle_pick(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c, (void)ints;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < s->C; i++)
            *out++ = in[0][(b * s->T + s->D) * s->C + i];
}

void oracle_mean_positions(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)c, (void)ints;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < s->C; i++) {
            out[b * s->C + i] = 0;
            for (int64_t t = 0; t < s->T; t++)
                out[b * s->C + i] += in[0][(b * s->T + t) * s->C + i] / (double)s->T;
        }
}

/* In a fixture the seed is 0, samples count from 0, and the result is the tape's value number 1. */
enum { fixture_result = 1 };

void oracle_dropout(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t own = s->T * s->C;
    const double rate = round(c->real * 65536) / 65536;
    for (int64_t i = 0; i < s->B * own; i++) {
        const uint64_t block = (uint64_t)(i / own * ((own + 7) / 8) + i % own / 8);
        const scn_words r = scn_philox(0, scn_stream_dropped(fixture_result), block);
        const int64_t lane = i % own % 8;
        const double drawn = (double)(r.w[lane / 2] >> (lane % 2 ? 16 : 0) & 0xFFFF) / 65536;
        out[i] = drawn < rate ? 0 : in[0][i] / (1 - rate);
    }
}

void oracle_drop_samples(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out)
{
    (void)ints;
    const int64_t own = s->T * s->C;
    for (int64_t i = 0; i < s->B * own; i++) {
        const double drawn = scn_uniform(0, scn_stream_dropped(fixture_result), (uint64_t)(i / own));
        out[i] = drawn < c->real ? 0 : in[0][i] / (1 - c->real);
    }
}
