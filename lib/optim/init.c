/* The start of weights, and the norm that their bounds are counted from. */
#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "base/random.h"
#include "optim/optimizer.h"

/* Standard deviation of an embedding table that does not start on the boundary. */
static const double embedding_deviation = 0.02;

/* On the boundary of the ball, block by block. */
static scion_status start_boundary(scion_optimizer *opt, int64_t i, uint64_t seed, float *x)
{
    scn_tensor *t = &opt->tensors[i];
    const scn_norm *norm = t->block[0].norm;
    scn_work w;
    if (!scn_borrow(opt, t, SCN_USE_INIT, &w))
        return SCION_ENOMEM;
    for (int k = 0; k < t->layout.blocks; k++) {
        const scn_block *b = &t->block[k];
        scn_block_init(b, scn_block_view(b, x), t->radius, (scn_start){seed, i, k}, &w);
    }
    scn_give_back(opt, &w);
    t->start_norm = norm->about.starts_at_zero ? 0 : t->radius;
    if (norm->start_norm)
        t->start_norm *= norm->start_norm(t->layout.positions);
    return SCION_OK;
}

/* Matrices uniform within 1/sqrt(d_in), an embedding table normal, vectors zero. The norm is measured later. */
static scion_status start_uniform(scion_optimizer *opt, int64_t i, uint64_t seed, float *x)
{
    const scn_tensor *t = &opt->tensors[i];
    const scn_layout *l = &t->layout;
    const bool table = l->role == SCION_ROLE_ONEHOT;
    const uint64_t stream = scn_stream_uniform(i);
    const double reach = 1 / sqrt((double)(l->transposed ? l->rows : l->cols));
    if (l->vector) {
        memset(x, 0, (size_t)l->count * sizeof *x);
        return SCION_OK;
    }
    if (table)
        scn_normals(seed, stream, 0, l->count, x);
    for (int64_t k = 0; k < l->count; k++)
        x[k] = table ? (float)(embedding_deviation * (double)x[k])
                     : (float)(reach * (2 * scn_uniform(seed, stream, (uint64_t)k) - 1));
    return SCION_OK;
}

static scion_status start_zero(scion_optimizer *opt, int64_t i, uint64_t seed, float *x)
{
    (void)seed;
    memset(x, 0, (size_t)opt->tensors[i].layout.count * sizeof *x);
    opt->tensors[i].start_norm = 0;
    return SCION_OK;
}

static const struct {
    scion_status (*start)(scion_optimizer *opt, int64_t i, uint64_t seed, float *x);
    bool measured; /* the norm is not known beforehand */
} starts[] = {
    [SCION_START_BOUNDARY] = {start_boundary, false},
    [SCION_START_ZERO] = {start_zero, false},
    [SCION_START_UNIFORM] = {start_uniform, true},
};

static scion_status mark(scion_optimizer *opt, int64_t i, bool measure, scion_error *err)
{
    scn_tensor *t = &opt->tensors[i];
    double norm = t->start_norm;
    if (measure)
        RETURN_IF_FAILED(scn_weight_norm(opt, i, &norm, err));
    t->start_norm = norm;
    t->start = 1;
    t->pushed = 0;
    return SCION_OK;
}

static scion_status init_tensor(scion_optimizer *opt, int64_t i, uint64_t seed, scion_error *err)
{
    scn_tensor *t = &opt->tensors[i];
    float *copy = NULL;
    float *x = scn_tensor_floats(opt, t, t->weight, t->weight_type, &copy);
    scion_status status = x ? starts[t->start_kind].start(opt, i, seed, x) : SCION_ENOMEM;
    if (status == SCION_OK && copy)
        scn_to_bf16(t->layout.count, copy, t->weight);
    scn_free(opt->o.allocator, copy);
    if (status != SCION_OK)
        return scn_fail(err, status, i, "%s: out of memory", t->name);
    return mark(opt, i, starts[t->start_kind].measured, err);
}

scion_status scion_optimizer_init_weights(scion_optimizer *opt, uint64_t seed, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    for (int64_t i = 0; i < opt->count; i++)
        if (!opt->tensors[i].frozen && opt->tensors[i].weight)
            RETURN_IF_FAILED(init_tensor(opt, i, seed, err));
    return scn_ok(err);
}

scion_status scion_optimizer_mark_start(scion_optimizer *opt, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    for (int64_t i = 0; i < opt->count; i++)
        RETURN_IF_FAILED(mark(opt, i, true, err));
    return scn_ok(err);
}
