/* Batch normalisation of rows of C channels, and an optional activation f:
 *
 *     y = f(z),   z = scale h + shift,   h = (x - mean)/sqrt(var + eps)
 *
 * In training, mean and var of each channel are the batch's, var being the mean square of x - mean. In evaluation
 * they are running averages, two buffers, which every micro-batch of training updates:
 *
 *     running = momentum running + (1 - momentum) of the batch,       var there with rows - 1 in its denominator
 *
 * scale and shift are absent or parameters. With dz = dy f'(z), sums over the rows, N of them:
 *
 *     dshift = sum dz,   dscale = sum dz h,   dx = scale/sqrt(var + eps) (dz - dshift/N - h dscale/N)
 *
 * Large images make this memory-bound: the activation is part of the operator, so that neither z nor h is ever in
 * memory, and the backward pass computes dz twice. Sums are taken over pieces of rows, whose bounds depend only on
 * the shape: mean and centred squares of a piece in float32, combined in double. */
#include "ops/ops.h"

#include <math.h>

#include "ops/parallel.h"

/* Inputs. */
enum { X, SCALE, SHIFT, MEAN, VAR };

static const float *data_or_null(const tape_value *v)
{
    return v ? v->data : NULL;
}

static op_pieces pieces_of(const tape_node *n, int threads)
{
    return op_split(threads, op_rows(n->out), op_width(n->out));
}

/* Rows per chunk: what is computed of them stays in the cache until its use. */
enum { block_floats = 2048 };

static int64_t block_rows(int64_t C)
{
    return C < block_floats ? block_floats / C : 1;
}

/* The same in the forward pass, whole vectors: the last bit of an activation depends on its place in a vector, and
 * blocks change none of them so. */
static int64_t forward_rows_of(int64_t C)
{
    int64_t whole = 1;
    while (whole * C % 16 != 0)
        whole *= 2;
    return scn_round_up(block_rows(C), whole);
}

static int64_t block_size(int64_t C)
{
    return forward_rows_of(C) * C;
}

/* ---- Statistics ----------------------------------------------------------------------------------------------- */

/* Means of a piece's channels, and sums of squares around them. */
SCN_CLONES static void piece_moments(int64_t rows, int64_t C, const float *x, float *mean, float *squares)
{
    const float inverse = 1.0f / (float)rows;
    memset(mean, 0, (size_t)C * sizeof *mean);
    memset(squares, 0, (size_t)C * sizeof *squares);
    for (int64_t r = 0; r < rows; r++) {
        SCN_SIMD
        for (int64_t c = 0; c < C; c++)
            mean[c] += x[r * C + c];
    }
    SCN_SIMD
    for (int64_t c = 0; c < C; c++)
        mean[c] *= inverse;
    for (int64_t r = 0; r < rows; r++) {
        SCN_SIMD
        for (int64_t c = 0; c < C; c++)
            squares[c] += (x[r * C + c] - mean[c]) * (x[r * C + c] - mean[c]);
    }
}

/* Mean and variance (with N in its denominator) of channel c, from those of the pieces: m and the sum of squares s of
 * n rows more change M and S of N rows to M + (m - M) n/(N + n) and S + s + (m - M)^2 N n/(N + n). */
static void join_moments(const op_pieces *p, int64_t C, int64_t c, const float *moments, double *mean, double *var)
{
    double N = 0, M = 0, S = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const double n = (double)op_piece_rows(p, i), off = (double)moments[2 * i * C + c] - M;
        M += off * n / (N + n);
        S += (double)moments[(2 * i + 1) * C + c] + off * off * N * n / (N + n);
        N += n;
    }
    *mean = M;
    *var = S / N;
}

static void batch_moments(const tape_node *n, const tape_run *run, float *mean, float *inverse)
{
    const int64_t C = op_width(n->out);
    const op_pieces p = pieces_of(n, run->threads);
    const double N = (double)p.rows, keep = n->reals[0];
    float *moments = run->scratch;
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        piece_moments(op_piece_rows(&p, i), C, n->in[X]->data + i * p.step * C, moments + 2 * i * C,
                      moments + (2 * i + 1) * C);
    for (int64_t c = 0; c < C; c++) {
        double M, V;
        join_moments(&p, C, c, moments, &M, &V);
        mean[c] = (float)M;
        inverse[c] = (float)(1 / sqrt(V + n->reals[1]));
        if (!run->update_buffers)
            continue;
        float *running = n->in[MEAN]->data + c, *running_var = n->in[VAR]->data + c;
        *running = (float)(keep * (double)*running + (1 - keep) * M);
        *running_var = (float)(keep * (double)*running_var + (1 - keep) * V * N / (N > 1 ? N - 1 : 1));
    }
}

/* ---- Forward -------------------------------------------------------------------------------------------------- */

/* z of the given rows. scale and shift may be NULL; z may be x. */
SCN_CLONES static void normalise(int64_t rows, int64_t C, const float *x, const float *mean, const float *inverse,
                                 const float *scale, const float *shift, float *z)
{
    for (int64_t r = 0; r < rows; r++, x += C, z += C) {
        SCN_SIMD
        for (int64_t c = 0; c < C; c++)
            z[c] = (x[c] - mean[c]) * inverse[c] * (scale ? scale[c] : 1.0f) + (shift ? shift[c] : 0.0f);
    }
}

/* y of `rows` rows from `first` on. */
static void forward_rows(const tape_node *n, const float *mean, const float *inverse, int64_t first, int64_t rows,
                         float *y)
{
    const int64_t C = op_width(n->out);
    const activation *f = n->fixed;
    normalise(rows, C, n->in[X]->data + first * C, mean, inverse, data_or_null(n->in[SCALE]),
              data_or_null(n->in[SHIFT]), y);
    if (f)
        f->forward(f->factor, rows * C, y, y);
}

/* The result of the rows of a piece, as float32 unless half_only, and as bfloat16 where it is wanted. `block`:
 * block_size floats. */
static void forward_piece(const tape_node *n, const float *mean, const float *inverse, int64_t first, int64_t end,
                          float *block)
{
    const int64_t C = op_width(n->out), step = forward_rows_of(C);
    for (int64_t r = first; r < end; r += step) {
        const int64_t rows = end - r < step ? end - r : step;
        float *y = n->out->half_only ? block : n->out->data + r * C;
        forward_rows(n, mean, inverse, r, rows, y);
        if (n->out->has_half)
            scn_to_bf16(rows * C, y, n->out->half + r * C);
    }
}

static void forward(const tape_node *n, const tape_run *run)
{
    const int64_t C = op_width(n->out);
    const op_pieces p = pieces_of(n, run->threads);
    float *mean = n->saved ? n->saved : run->scratch + 2 * p.count * C, *inverse = mean + C;
    if (run->training)
        batch_moments(n, run, mean, inverse);
    for (int64_t c = 0; !run->training && c < C; c++) {
        mean[c] = n->in[MEAN]->data[c];
        inverse[c] = (float)(1 / sqrt((double)n->in[VAR]->data[c] + n->reals[1]));
    }
    float *blocks = run->scratch + (2 * p.count + 3) * C;
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        forward_piece(n, mean, inverse, i * p.step, i * p.step + op_piece_rows(&p, i),
                      blocks + (p.threads > 1 ? scn_thread_index() : 0) * block_size(C));
}

/* ---- Backward ------------------------------------------------------------------------------------------------- */

/* dz of the given rows, computed in `dz` by way of z; dy itself where there is no activation. */
static const float *gradient_of_z(const tape_node *n, int64_t rows, int64_t at, float *dz)
{
    const int64_t C = op_width(n->out);
    const activation *f = n->fixed;
    const float *dy = n->out->grad + at;
    if (!f)
        return dy;
    normalise(rows, C, n->in[X]->data + at, n->saved, n->saved + C, data_or_null(n->in[SCALE]),
              data_or_null(n->in[SHIFT]), dz);
    f->backward(f->factor, rows * C, dz, dy, false, dz);
    return dz;
}

/* Adds dz and dz h of the given rows to a piece's sums. */
SCN_CLONES static void add_products(int64_t rows, int64_t C, const float *x, const float *mean, const float *inverse,
                                    const float *dz, float *sum, float *product)
{
    for (int64_t r = 0; r < rows; r++, x += C, dz += C) {
        SCN_SIMD
        for (int64_t c = 0; c < C; c++) {
            sum[c] += dz[c];
            product[c] += dz[c] * ((x[c] - mean[c]) * inverse[c]);
        }
    }
}

/* dx = a (dz - b - h d), by channel; or dx += that. */
SCN_INLINE void dx_loop(bool accumulate, int64_t rows, int64_t C, const float *x, const float *mean,
                        const float *inverse, const float *dz, const float *factors, float *dx)
{
    const float *a = factors, *b = a + C, *d = b + C;
    for (int64_t r = 0; r < rows; r++, x += C, dz += C, dx += C) {
        SCN_SIMD
        for (int64_t c = 0; c < C; c++)
            op_put(accumulate, dx + c, a[c] * (dz[c] - b[c] - (x[c] - mean[c]) * inverse[c] * d[c]));
    }
}

SCN_CLONES static void put_dx(int64_t rows, int64_t C, const float *x, const float *mean, const float *inverse,
                              const float *dz, const float *factors, bool accumulate, float *dx)
{
    OP_WITH_FLAG(accumulate, dx_loop, rows, C, x, mean, inverse, dz, factors, dx);
}

/* One pass over a piece: its sums or, with factors, its part of dx. */
static void backward_piece(const tape_node *n, const op_pieces *p, int64_t i, float *dz, float *sums,
                           const float *factors)
{
    const int64_t C = op_width(n->out), step = block_rows(C), end = i * p->step + op_piece_rows(p, i);
    const float *mean = n->saved, *inverse = mean + C;
    if (!factors)
        memset(sums, 0, (size_t)(2 * C) * sizeof *sums);
    for (int64_t r = i * p->step; r < end; r += step) {
        const int64_t rows = end - r < step ? end - r : step, at = r * C;
        const float *x = n->in[X]->data + at, *from = gradient_of_z(n, rows, at, dz);
        if (factors)
            put_dx(rows, C, x, mean, inverse, from, factors, n->accumulate[X], n->in[X]->grad + at);
        else
            add_products(rows, C, x, mean, inverse, from, sums, sums + C);
    }
}

static void backward_pass(const tape_node *n, const tape_run *run, float *sums, float *blocks, const float *factors)
{
    const int64_t C = op_width(n->out);
    const op_pieces p = pieces_of(n, run->threads);
    SCN_PARALLEL_FOR_STATIC(p.threads, i, p.count)
        backward_piece(n, &p, i, blocks + (p.threads > 1 ? scn_thread_index() : 0) * block_size(C), sums + 2 * i * C,
                       factors);
}

static void put_sum(const tape_node *n, int input, int64_t c, double sum)
{
    if (n->in[input] && n->needs_grad[input])
        op_put(n->accumulate[input], n->in[input]->grad + c, (float)sum);
}

/* Adds up the pieces' sums: gradients of scale and shift, and the factors of dx. */
static void join_sums(const tape_node *n, const op_pieces *p, const float *sums, float *factors)
{
    const int64_t C = op_width(n->out);
    const double N = (double)p->rows;
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, product = 0;
        for (int64_t i = 0; i < p->count; i++) {
            sum += (double)sums[2 * i * C + c];
            product += (double)sums[(2 * i + 1) * C + c];
        }
        put_sum(n, SHIFT, c, sum);
        put_sum(n, SCALE, c, product);
        factors[c] = n->saved[C + c] * (n->in[SCALE] ? n->in[SCALE]->data[c] : 1.0f);
        factors[C + c] = (float)(sum / N);
        factors[2 * C + c] = (float)(product / N);
    }
}

static void backward(const tape_node *n, const tape_run *run)
{
    const int64_t C = op_width(n->out);
    const op_pieces p = pieces_of(n, run->threads);
    float *sums = run->scratch, *factors = sums + 2 * p.count * C, *blocks = factors + 3 * C;
    backward_pass(n, run, sums, blocks, NULL);
    join_sums(n, &p, sums, factors);
    if (n->needs_grad[X])
        backward_pass(n, run, sums, blocks, factors);
}

static size_t saved(const tape_node *n)
{
    return (size_t)(2 * op_width(n->out));
}

static size_t scratch(const tape_node *n, int threads)
{
    const int64_t C = op_width(n->out);
    const op_pieces p = pieces_of(n, threads);
    return (size_t)(2 * p.count * C + 3 * C + p.threads * block_size(C));
}

const tape_op op_batchnorm_row = {
    .name = "batchnorm",
    .forward = forward,
    .backward = backward,
    .saved = saved,
    .scratch = scratch,
    .backward_reads = 1 << X | 1 << SCALE | 1 << SHIFT,
    .half_out = true,
    .in_place = true,
};

tape_value *op_batchnorm(tape *t, tape_value *x, tape_value *scale, tape_value *shift, tape_value *mean,
                         tape_value *var, const activation *f, double momentum, double eps)
{
    if (!x || !mean || !var)
        return NULL;
    const int64_t C = op_width(x);
    if ((scale && scale->count != C) || (shift && shift->count != C) || mean->count != C || var->count != C ||
        mean->kind != TAPE_BUFFER || var->kind != TAPE_BUFFER)
        return tape_fail(
            t,
            "batchnorm: scale and shift, and the buffers %s and %s, must have one element for each of %lld "
            "channels",
            mean->name, var->name, (long long)C);
    mean->running = var->running = true;
    mean->decay = var->decay = momentum;
    return op_record(t, &(tape_node){.op = &op_batchnorm_row,
                                     .in = {[X] = x, [SCALE] = scale, [SHIFT] = shift, [MEAN] = mean, [VAR] = var},
                                     .reals = {momentum, eps},
                                     .fixed = f});
}
