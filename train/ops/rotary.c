/* Rotary position embedding (Su et al., 2021): in each head of size D, the pair (x_i, x_{i + D/2}) at position t is
 * rotated by the angle t base^(-2i/D), so that products of rotated queries and keys depend on differences of
 * positions. Backward rotates by the opposite angle: no data is needed.
 *
 * Sines and cosines are made on the fly in double: by their series for the first of a span of positions, then from
 * position to position by rotation. The span is short and fixed, so the error stays below 1e-14 and results do not
 * depend on the number of threads. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

enum { span = 32 };

/* One thread's tables of sines and cosines, half = D/2 entries each. */
typedef struct rope_table {
    int64_t half;
    double *c, *s, *step_c, *step_s; /* of the angle at this position; of the angle between positions */
    float *cf, *sf;
} rope_table;

static size_t table_floats(int64_t head_size)
{
    return ((size_t)head_size * 5 + 15) / 16 * 16;
}

static rope_table table_at(const tape_node *n, float *memory, int64_t position)
{
    const int64_t half = n->ints[0] / 2;
    double *d = (double *)(void *)memory;
    rope_table a = {half, d, d + half, d + 2 * half, d + 3 * half, memory + 8 * half, memory + 9 * half};
    for (int64_t i = 0; i < half; i++) {
        const double rate = pow(n->reals[0], -(double)i / (double)half), angle = rate * (double)position;
        a.c[i] = cos(angle);
        a.s[i] = sin(angle);
        a.step_c[i] = cos(rate);
        a.step_s[i] = sin(rate);
    }
    return a;
}

/* sign -1: float32 tables for the opposite angle. */
SCN_CLONES static void table_to_float(rope_table *a, float sign)
{
    SCN_SIMD
    for (int64_t i = 0; i < a->half; i++) {
        a->cf[i] = (float)a->c[i];
        a->sf[i] = sign * (float)a->s[i];
    }
}

SCN_CLONES static void table_next(rope_table *a)
{
    SCN_SIMD
    for (int64_t i = 0; i < a->half; i++) {
        const double c = a->c[i], s = a->s[i];
        a->c[i] = c * a->step_c[i] - s * a->step_s[i];
        a->s[i] = s * a->step_c[i] + c * a->step_s[i];
    }
}

/* Rotates all heads of `rows` rows that lie `stride` apart. y may be x if not accumulate. */
SCN_INLINE void rotate_loop(bool accumulate, const rope_table *a, int64_t rows, int64_t stride, int64_t width,
                            const float *x, float *y)
{
    const int64_t half = a->half;
    const float *c = a->cf, *s = a->sf;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = r * stride; h < r * stride + width; h += 2 * half) {
            const float *u = x + h, *v = x + h + half;
            float *yu = y + h, *yv = y + h + half;
            SCN_SIMD
            for (int64_t i = 0; i < half; i++) {
                const float p = u[i], q = v[i];
                op_put(accumulate, yu + i, p * c[i] - q * s[i]);
                op_put(accumulate, yv + i, q * c[i] + p * s[i]);
            }
        }
}

SCN_CLONES static void rotate_rows(const rope_table *a, int64_t rows, int64_t stride, int64_t width, const float *x,
                                   bool accumulate, float *y)
{
    OP_WITH_FLAG(accumulate, rotate_loop, a, rows, stride, width, x, y);
}

/* Rows of one position, as bfloat16 and, unless y is NULL, as float32; `row`: `width` floats. */
static void rotate_rounded(const rope_table *a, int64_t rows, int64_t stride, int64_t width, const float *x, float *y,
                           uint16_t *half, float *row)
{
    for (int64_t r = 0; r < rows; r++) {
        float *to = y ? y + r * stride : row;
        rotate_rows(a, 1, 0, width, x + r * stride, false, to);
        scn_to_bf16(width, to, half + r * stride);
    }
}

/* One thread's memory: its tables, and a row if the result is rounded. */
static size_t thread_floats(const tape_node *n)
{
    return table_floats(n->ints[0]) + (n->out->has_half ? (size_t)scn_round_up(op_width(n->out), 16) : 0);
}

/* half: y rounded to bfloat16, or NULL; y may be NULL then. */
static void rotate(const tape_node *n, const tape_run *run, const float *x, float sign, bool accumulate, float *y,
                   uint16_t *half)
{
    const int64_t batch = n->out->shape[0], time = n->out->shape[1], width = n->out->shape[2];
    const int64_t spans = (time + span - 1) / span;
    const int threads = op_split(run->threads, batch * time, width).threads;
    const size_t floats = thread_floats(n);
    SCN_PARALLEL_FOR_STATIC(threads, k, spans) {
        const int64_t end = (k + 1) * span < time ? (k + 1) * span : time;
        float *own = run->scratch + (size_t)scn_thread_index() * floats;
        rope_table a = table_at(n, own, k * span);
        for (int64_t t = k * span; t < end; t++) {
            table_to_float(&a, sign);
            if (half)
                rotate_rounded(&a, batch, time * width, width, x + t * width, y ? y + t * width : NULL,
                               half + t * width, own + table_floats(n->ints[0]));
            else
                rotate_rows(&a, batch, time * width, width, x + t * width, accumulate, y + t * width);
            table_next(&a);
        }
    }
}

static void forward(const tape_node *n, const tape_run *run)
{
    rotate(n, run, n->in[0]->data, 1, false, n->out->data, n->out->half);
}

static void backward(const tape_node *n, const tape_run *run)
{
    if (n->needs_grad[0])
        rotate(n, run, n->out->grad, -1, n->accumulate[0], n->in[0]->grad, NULL);
}

static size_t scratch(const tape_node *n, int threads)
{
    return (size_t)(threads > 1 ? threads : 1) * thread_floats(n);
}

const tape_op op_rotary_row = {
    .name = "rotary",
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .half_out = true,
    .in_place = true,
};

tape_value *op_rotary(tape *t, tape_value *x, int64_t head_size, double base)
{
    if (!x)
        return NULL;
    if (x->ndim != 3 || head_size < 2 || head_size % 2 != 0 || op_width(x) % head_size != 0 || !(base > 0))
        return tape_fail(t,
                         "rotary: the head size %lld must be even and divide the width %lld of (batch, time, width)",
                         (long long)head_size, (long long)op_width(x));
    return op_record(t, &(tape_node){.op = &op_rotary_row, .in = {x}, .ints = {head_size}, .reals = {base}});
}
