/* Inspection: routing, norms against bounds, dual norms, memory, state arrays. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "base/bf16.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

/* bfloat16 rounds by up to 2^-8 of a value, either way, after the bound was kept. */
static const double bf16_overshoot = 1.008;

float *scn_tensor_floats(const scion_optimizer *opt, const scn_tensor *t, void *array, int type, float **copy)
{
    *copy = NULL;
    if (type == SCION_F32)
        return array;
    *copy = scn_alloc(opt->o.allocator, scn_stored_bytes(SCION_F32, t->layout.count));
    if (*copy)
        scn_from_bf16(t->layout.count, array, *copy);
    return *copy;
}

bool scn_borrow(const scion_optimizer *opt, const scn_tensor *t, scn_use use, scn_work *w)
{
    size_t max = 0;
    *w = scn_work_of(&opt->o, opt->threads);
    for (int k = 0; k < t->layout.blocks; k++)
        max = scn_max_size(max, scn_block_memory(&t->block[k], use, w));
    const bool own = opt->memory && max <= opt->memory_bytes && !opt->joined;
    w->arena = (scn_arena){own ? opt->memory : max > 0 ? scn_alloc(opt->o.allocator, max) : NULL, 0, max};
    return max == 0 || w->arena.base;
}

void scn_give_back(const scion_optimizer *opt, const scn_work *w)
{
    if (w->arena.base != opt->memory)
        scn_free(opt->o.allocator, w->arena.base);
}

static scion_status no_memory(const scn_tensor *t, int64_t i, scion_error *err)
{
    return scn_fail(err, SCION_ENOMEM, i, "%s: out of memory", t->name);
}

scion_status scn_weight_norm(scion_optimizer *opt, int64_t i, double *value, scion_error *err)
{
    const scn_tensor *t = &opt->tensors[i];
    scion_status status = SCION_ENOMEM;
    *value = 0;
    if (!t->weight)
        return SCION_OK;
    float *copy = NULL;
    scn_work w = {0};
    float *x = scn_tensor_floats(opt, t, t->weight, t->weight_type, &copy);
    if (x && scn_borrow(opt, t, SCN_USE_SIZE, &w)) {
        for (int k = 0; k < t->layout.blocks; k++)
            *value = fmax(*value, scn_block_value(&t->block[k], scn_block_view(&t->block[k], x), &w));
        status = SCION_OK;
    }
    scn_give_back(opt, &w);
    scn_free(opt->o.allocator, copy);
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
    if (x && g && scn_borrow(opt, t, SCN_USE_DUAL, &w)) {
        *dual = 0;
        for (int k = 0; k < t->layout.blocks; k++)
            *dual += scn_block_dual(&t->block[k], scn_block_view(&t->block[k], g), &w);
        *gap = scn_dot(t->layout.count, g, x) + t->radius * *dual;
        status = SCION_OK;
    }
    scn_give_back(opt, &w);
    scn_free(opt->o.allocator, copy_g);
    scn_free(opt->o.allocator, copy_w);
    return status == SCION_OK ? status : no_memory(t, i, err);
}

/* Upper bound of the weight's norm, now and after all later steps. */
static double bound(const scn_tensor *t)
{
    if (!t->rule->about.bounded)
        return INFINITY;
    double so_far = t->start * t->start_norm + t->pushed;
    return t->decay > 0 ? fmax(t->radius / t->decay, so_far) : so_far;
}

static double overshoot(const scion_optimizer *opt, const scn_tensor *t)
{
    const scn_norm *norm = t->block[0].norm;
    const scn_work w = scn_work_of(&opt->o, 1);
    const double factor = norm->overshoot ? norm->overshoot(&w) : 1;
    return t->weight_type == SCION_BF16 ? factor * bf16_overshoot : factor;
}

scion_status scion_optimizer_inspect(scion_optimizer *opt, int64_t i, unsigned what, scion_info *info,
                                     scion_error *err)
{
    if (!opt || !info || i < 0 || i >= opt->count)
        return scn_fail(err, SCION_EINVAL, i, "opt or info is NULL, or there is no parameter %lld", (long long)i);
    if (info->size < offsetof(scion_info, elements))
        return scn_fail(err, SCION_EINVAL, i, "info: size is %zu, expected %zu (scion_info_init sets it)", info->size,
                        sizeof *info);
    const scn_tensor *t = &opt->tensors[i];
    scion_info all = {
        .name = t->name,
        .elements = t->layout.count,
        .rule = t->rule_id,
        .norm = t->layout.norm,
        .role = t->layout.role,
        .scale = t->block[0].c,
        .radius = t->radius,
        .state_bytes = scn_state_bytes(t, &opt->o),
        .seconds = t->seconds,
        .bound = bound(t),
        .overshoot = overshoot(opt, t),
        .weight_norm = NAN,
        .grad_dual = NAN,
        .fw_gap = NAN,
    };
    scion_status status = scn_ok(err);
    if (what & SCION_INSPECT_NORM && t->weight)
        status = scn_weight_norm(opt, i, &all.weight_norm, err);
    if (status == SCION_OK && what & SCION_INSPECT_DUAL && t->grad && t->weight)
        status = gradient_dual(opt, i, &all.grad_dual, &all.fw_gap, err);
    scn_struct_give(info, info->size, &all, sizeof all);
    return status;
}

int scion_optimizer_state(const scion_optimizer *opt, int64_t i, int k, scion_array *array)
{
    if (!opt || i < 0 || i >= opt->count || k < 0 || !array || array->size < offsetof(scion_array, first))
        return 0;
    const scn_tensor *t = &opt->tensors[i];
    const int index = t->own_count > 0 ? scn_state_at(t, &opt->o, k) : -1;
    if (index < 0)
        return 0;
    const scion_array found = scn_state_array(t, index);
    scn_struct_give(array, array->size, &found, sizeof found);
    return 1;
}

int64_t scion_optimizer_count(const scion_optimizer *opt)
{
    return opt ? opt->count : 0;
}

int64_t scion_optimizer_find(const scion_optimizer *opt, const char *name)
{
    for (int64_t i = 0; opt && name && i < opt->count; i++)
        if (strcmp(opt->tensors[i].name, name) == 0)
            return i;
    return -1;
}

size_t scion_optimizer_workspace_bytes(const scion_optimizer *opt)
{
    return opt ? opt->memory_bytes : 0;
}

size_t scion_optimizer_state_bytes(const scion_optimizer *opt)
{
    size_t sum = 0;
    for (int64_t i = 0; opt && i < opt->count; i++)
        sum += scn_state_bytes(&opt->tensors[i], &opt->o);
    return sum;
}
