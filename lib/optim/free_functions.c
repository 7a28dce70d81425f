/* The free-standing functions: one norm, one array, memory for the call. */
#include <math.h>

#include "base/arith.h"
#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

/* A call: the blocks of one parameter, and memory for what is done with each. */
typedef struct call {
    scion_options o;
    scn_layout layout;
    scn_work work;
    const int64_t *split_sizes;
    double radius;
} call;

static scion_status call_begin(call *c, const scion_param *p, const scion_options *o, unsigned uses, scion_error *err)
{
    if (!p)
        return scn_fail(err, SCION_EINVAL, -1, "p is NULL");
    scion_param full;
    RETURN_IF_FAILED(scn_options_take(&c->o, o, err));
    RETURN_IF_FAILED(scn_param_take(&full, p, 0, err));
    RETURN_IF_FAILED(scn_layout_make(&c->layout, &full, c->o.routing, 0, err));
    c->split_sizes = full.split_sizes;
    c->radius = full.radius;
    c->work = scn_work_of(&c->o, scn_threads(c->o.threads));
    size_t max = 0;
    for (int k = 0; k < c->layout.blocks; k++) {
        scn_block b = scn_layout_block(&c->layout, c->split_sizes, k);
        for (int use = 0; use <= SCN_USE_INIT; use++)
            if (uses >> use & 1)
                max = scn_max_size(max, scn_block_memory(&b, (scn_use)use, &c->work));
    }
    c->work.arena = (scn_arena){max > 0 ? scn_alloc(c->o.allocator, max) : NULL, 0, max};
    if (max > 0 && !c->work.arena.base)
        return scn_fail(err, SCION_ENOMEM, -1, "out of memory: %zu bytes of workspace", max);
    return scn_ok(err);
}

static scion_status call_end(call *c)
{
    scn_free(c->o.allocator, c->work.arena.base);
    return SCION_OK;
}

static scn_mat view(const scn_block *b, const float *array)
{
    return scn_block_view(b, (float *)(uintptr_t)array); /* views have no const twin; nothing writes here */
}

/* out = step lmo(s), block by block. */
static void lmo(const call *c, double step, const float *s, float *out)
{
    for (int k = 0; k < c->layout.blocks; k++) {
        scn_block b = scn_layout_block(&c->layout, c->split_sizes, k);
        scn_block_lmo(&b, view(&b, out), 0, step, view(&b, s), &c->work);
    }
}

scion_status scion_lmo(const scion_param *p, const scion_options *o, const float *s, float *out, scion_error *err)
{
    call c;
    if (!s || !out)
        return scn_fail(err, SCION_EINVAL, -1, "s or out is NULL");
    RETURN_IF_FAILED(call_begin(&c, p, o, 1u << SCN_USE_LMO, err));
    lmo(&c, c.radius, s, out);
    return call_end(&c);
}

scion_status scion_norm_value(const scion_param *p, const scion_options *o, const float *x, double *value,
                              scion_error *err)
{
    call c;
    if (!x || !value)
        return scn_fail(err, SCION_EINVAL, -1, "x or value is NULL");
    RETURN_IF_FAILED(call_begin(&c, p, o, 1u << SCN_USE_SIZE, err));
    *value = 0;
    for (int k = 0; k < c.layout.blocks; k++) {
        scn_block b = scn_layout_block(&c.layout, c.split_sizes, k);
        *value = fmax(*value, scn_block_value(&b, view(&b, x), &c.work));
    }
    return call_end(&c);
}

static double dual(const call *c, const float *s)
{
    double sum = 0;
    for (int k = 0; k < c->layout.blocks; k++) {
        scn_block b = scn_layout_block(&c->layout, c->split_sizes, k);
        sum += scn_block_dual(&b, view(&b, s), &c->work);
    }
    return sum;
}

scion_status scion_dual_norm(const scion_param *p, const scion_options *o, const float *s, double *value,
                             scion_error *err)
{
    call c;
    if (!s || !value)
        return scn_fail(err, SCION_EINVAL, -1, "s or value is NULL");
    RETURN_IF_FAILED(call_begin(&c, p, o, 1u << SCN_USE_DUAL, err));
    *value = dual(&c, s);
    return call_end(&c);
}

scion_status scion_sharp(const scion_param *p, const scion_options *o, const float *s, float *out, scion_error *err)
{
    call c;
    scion_options exact;
    if (!s || !out)
        return scn_fail(err, SCION_EINVAL, -1, "s or out is NULL");
    RETURN_IF_FAILED(scn_options_take(&exact, o, err));
    exact.polar = SCION_POLAR_CONVERGED; /* the lmo is the exact one */
    exact.polar_steps = 0;
    exact.polar_compute = SCION_F32;
    exact.eps = exact.polar_eps = 0;
    RETURN_IF_FAILED(call_begin(&c, p, &exact, 1u << SCN_USE_LMO | 1u << SCN_USE_DUAL, err));
    lmo(&c, -dual(&c, s), s, out);
    return call_end(&c);
}

scion_status scion_fw_gap(const scion_param *p, const scion_options *o, const float *g, const float *x, double *gap,
                          scion_error *err)
{
    call c;
    if (!g || !x || !gap)
        return scn_fail(err, SCION_EINVAL, -1, "g, x or gap is NULL");
    RETURN_IF_FAILED(call_begin(&c, p, o, 1u << SCN_USE_DUAL, err));
    *gap = scn_dot(c.layout.count, g, x) + c.radius * dual(&c, g);
    return call_end(&c);
}

scion_status scion_boundary_init(const scion_param *p, const scion_options *o, uint64_t seed, float *out,
                                 scion_error *err)
{
    call c;
    if (!out)
        return scn_fail(err, SCION_EINVAL, -1, "out is NULL");
    RETURN_IF_FAILED(call_begin(&c, p, o, 1u << SCN_USE_INIT, err));
    for (int k = 0; k < c.layout.blocks; k++) {
        scn_block b = scn_layout_block(&c.layout, c.split_sizes, k);
        scn_block_init(&b, view(&b, out), c.radius, (scn_start){seed, 0, k}, &c.work);
    }
    return call_end(&c);
}

static void plain_matrix(scion_param *p, int64_t rows, int64_t cols)
{
    scion_param_init(p);
    p->ndim = 2;
    p->shape[0] = rows;
    p->shape[1] = cols;
    p->norm = SCION_NORM_SPECTRAL;
    p->role = SCION_ROLE_PLAIN;
}

scion_status scion_polar(int64_t rows, int64_t cols, const float *in, float *out, const scion_options *o,
                         scion_error *err)
{
    scion_param p;
    call c;
    if (!in || !out)
        return scn_fail(err, SCION_EINVAL, -1, "in or out is NULL");
    plain_matrix(&p, rows, cols);
    RETURN_IF_FAILED(call_begin(&c, &p, o, 1u << SCN_USE_LMO, err));
    lmo(&c, -1, in, out);
    return call_end(&c);
}

size_t scion_polar_workspace_bytes(int64_t rows, int64_t cols, const scion_options *o)
{
    scion_param p;
    scion_options options;
    scn_layout l;
    plain_matrix(&p, rows, cols);
    if (scn_options_take(&options, o, NULL) != SCION_OK ||
        scn_layout_make(&l, &p, options.routing, 0, NULL) != SCION_OK)
        return 0;
    const scn_work w = scn_work_of(&options, scn_threads(options.threads));
    const scn_block b = scn_layout_block(&l, NULL, 0);
    return scn_block_memory(&b, SCN_USE_LMO, &w);
}
