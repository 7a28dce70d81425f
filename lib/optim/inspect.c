/* What the optimizer knows: routing, norms against bounds, dual norms, memory; and the start of it all. */
#include <math.h>

#include "base/bf16.h"
#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

/* bfloat16 rounds by up to 2^-8 of a value, either way, after the bound was kept. */
static const double bf16_overshoot = 1.008;

float *scn_tensor_floats(const scion_optimizer *opt, const scn_tensor *t, void *array, scion_dtype type, float **copy)
{
    *copy = NULL;
    if (type == SCION_F32)
        return array;
    *copy = scn_alloc(&opt->o.allocator, scn_tensor_bytes(t, SCION_F32));
    if (*copy)
        scn_from_bf16(t->layout.count, array, *copy);
    return *copy;
}

/* Workspace for one use of any of the tensor's blocks. */
static bool borrow(const scion_optimizer *opt, const scn_tensor *t, scn_use use, scn_work *w)
{
    size_t most = 0;
    *w = scn_work_of(&opt->o, opt->threads);
    for (int k = 0; k < t->layout.blocks; k++) {
        size_t bytes = scn_ball_memory(&t->balls[k], use, w);
        most = bytes > most ? bytes : most;
    }
    w->arena = (scn_arena){most > 0 ? scn_alloc(&opt->o.allocator, most) : NULL, 0, most};
    return most == 0 || w->arena.base;
}

static scion_status no_memory(const scn_tensor *t, int64_t i, scion_error *err)
{
    return scn_fail(err, SCION_ENOMEM, i, "%s: out of memory", t->name);
}

static scion_status weight_norm(scion_optimizer *opt, int64_t i, double *value, scion_error *err)
{
    const scn_tensor *t = &opt->tensors[i];
    scion_status status = SCION_ENOMEM;
    float *copy = NULL;
    scn_work w = {0};
    float *x = scn_tensor_floats(opt, t, t->weight, t->weight_type, &copy);
    if (x && borrow(opt, t, SCN_USE_SIZE, &w)) {
        *value = 0;
        for (int k = 0; k < t->layout.blocks; k++)
            *value = fmax(*value, scn_ball_value(&t->balls[k], scn_ball_view(&t->balls[k], x), &w));
        status = SCION_OK;
    }
    scn_free(&opt->o.allocator, w.arena.base);
    scn_free(&opt->o.allocator, copy);
    return status == SCION_OK ? status : no_memory(t, i, err);
}

/* Dual norm of the gradient, and <g, w> + rho dual(g). */
static scion_status gradient_dual(scion_optimizer *opt, int64_t i, double *dual, double *gap, scion_error *err)
{
    const scn_tensor *t = &opt->tensors[i];
    scion_status status = SCION_ENOMEM;
    float *copy_w = NULL, *copy_g = NULL;
    scn_work w = {0};
    float *x = scn_tensor_floats(opt, t, t->weight, t->weight_type, &copy_w);
    float *g = scn_tensor_floats(opt, t, t->grad, t->grad_type, &copy_g);
    if (x && g && borrow(opt, t, SCN_USE_DUAL, &w)) {
        *dual = 0;
        for (int k = 0; k < t->layout.blocks; k++)
            *dual += scn_ball_dual(&t->balls[k], scn_ball_view(&t->balls[k], g), &w);
        *gap = scn_dot(t->layout.count, g, x) + t->radius * *dual;
        status = SCION_OK;
    }
    scn_free(&opt->o.allocator, w.arena.base);
    scn_free(&opt->o.allocator, copy_g);
    scn_free(&opt->o.allocator, copy_w);
    return status == SCION_OK ? status : no_memory(t, i, err);
}

/* What the steps so far, and all later ones, keep the norm below. */
static double bound(const scn_tensor *t)
{
    if (t->rule->entrywise || t->id == SCION_RULE_SSD)
        return INFINITY;
    double so_far = t->start * t->start_norm + t->pushed;
    return t->decay > 0 ? fmax(t->radius / t->decay, so_far) : so_far;
}

static double overshoot(const scion_optimizer *opt, const scn_tensor *t)
{
    const scn_polar_set *set = scn_polar_set_at((int)opt->o.polar);
    double factor = t->layout.norm == SCION_NORM_SPECTRAL ? scn_polar_overshoot(set, opt->o.polar_steps) : 1;
    return t->weight_type == SCION_BF16 ? factor * bf16_overshoot : factor;
}

static size_t state_bytes(const scn_tensor *t)
{
    size_t arrays = (size_t)(t->average != NULL) + (size_t)(t->second != NULL);
    return arrays * scn_tensor_bytes(t, SCION_F32) + (t->before ? scn_tensor_bytes(t, t->weight_type) : 0);
}

scion_status scion_optimizer_inspect(scion_optimizer *opt, int64_t i, unsigned what, scion_info *info,
                                     scion_error *err)
{
    if (!opt || !info || i < 0 || i >= opt->count)
        return scn_fail(err, SCION_EINVAL, i, "opt or info is NULL, or there is no parameter %lld", (long long)i);
    if (info->size < sizeof *info)
        return scn_fail(err, SCION_EINVAL, i, "info: size is %zu, expected %zu", info->size, sizeof *info);
    const scn_tensor *t = &opt->tensors[i];
    *info = (scion_info){
        .size = info->size,
        .name = t->name,
        .elements = t->layout.count,
        .rule = t->id,
        .norm = t->layout.norm,
        .role = t->layout.role,
        .scale = t->balls[0].c,
        .radius = t->radius,
        .state_bytes = state_bytes(t),
        .seconds = t->seconds,
        .bound = bound(t),
        .overshoot = overshoot(opt, t),
        .weight_norm = NAN,
        .grad_dual = NAN,
        .fw_gap = NAN,
    };
    scion_status status = scn_ok(err);
    if (what & SCION_INSPECT_NORM)
        status = weight_norm(opt, i, &info->weight_norm, err);
    if (status == SCION_OK && what & SCION_INSPECT_DUAL && t->grad)
        status = gradient_dual(opt, i, &info->grad_dual, &info->fw_gap, err);
    return status;
}

scion_status scion_optimizer_mark_start(scion_optimizer *opt, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        double norm = 0;
        scion_status status = weight_norm(opt, i, &norm, err);
        if (status != SCION_OK)
            return status;
        t->start_norm = norm;
        t->start = 1;
        t->pushed = 0;
    }
    return scn_ok(err);
}

static scion_status init_tensor(scion_optimizer *opt, int64_t i, uint64_t seed, scion_error *err)
{
    scn_tensor *t = &opt->tensors[i];
    scion_status status = SCION_ENOMEM;
    float *copy = NULL;
    scn_work w = {0};
    float *x = scn_tensor_floats(opt, t, t->weight, t->weight_type, &copy);
    if (x && borrow(opt, t, SCN_USE_INIT, &w)) {
        for (int k = 0; k < t->layout.blocks; k++) {
            const scn_ball *b = &t->balls[k];
            b->norm->init(b, scn_ball_view(b, x), t->radius, seed, (uint64_t)i << 16 | (uint64_t)k, &w);
        }
        if (copy)
            scn_to_bf16(t->layout.count, copy, t->weight);
        const scion_norm norm = t->layout.norm;
        const bool zero = norm == SCION_NORM_RMS || norm == SCION_NORM_EUCLID || norm == SCION_NORM_MAX;
        const bool slices = norm == SCION_NORM_SPECTRAL && t->layout.positions > 1; /* see spectral.c */
        t->start_norm = zero ? 0 : t->radius * (slices ? sqrt((double)t->layout.positions) : 1);
        t->start = 1;
        t->pushed = 0;
        status = SCION_OK;
    }
    scn_free(&opt->o.allocator, w.arena.base);
    scn_free(&opt->o.allocator, copy);
    return status == SCION_OK ? status : no_memory(t, i, err);
}

scion_status scion_optimizer_init_weights(scion_optimizer *opt, uint64_t seed, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    for (int64_t i = 0; i < opt->count; i++) {
        scion_status status = opt->tensors[i].frozen ? SCION_OK : init_tensor(opt, i, seed, err);
        if (status != SCION_OK)
            return status;
    }
    return scn_ok(err);
}

size_t scion_optimizer_workspace_bytes(const scion_optimizer *opt)
{
    return opt ? opt->memory_bytes : 0;
}

size_t scion_optimizer_state_bytes(const scion_optimizer *opt)
{
    size_t sum = 0;
    for (int64_t i = 0; opt && i < opt->count; i++)
        sum += state_bytes(&opt->tensors[i]);
    return sum;
}
