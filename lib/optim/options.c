/* Structs of the caller: defaults, and the checks of options. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "optim/optimizer.h"

/* ---- Defaults ---- */

static const scion_param default_param = {
    .size = sizeof default_param, .radius = 1, .lr_scale = 1, .weight_decay = -1, .own_count = -1};
static const scion_step default_step = {
    .size = sizeof default_step, .momentum = -1, .next_momentum = -1, .grad_scale = 1};

static scion_options default_options(int rule)
{
    const scn_rule *row = scn_rule_at(rule);
    return (scion_options){
        .size = sizeof(scion_options),
        .rule = rule,
        .momentum = row ? row->about.momentum : 1,
        .layerwise = row ? row->layerwise : 1,
        .nesterov = row ? row->nesterov : 0,
        .muon_multiplier = 0.1,
        .adam_lr_scale = 1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .adam_eps = 1e-8,
    };
}

void scion_param_init_sized(scion_param *p, size_t size)
{
    scn_struct_give(p, size, &default_param, sizeof default_param);
}

void scion_options_init_sized(scion_options *o, size_t size, int32_t rule)
{
    const scion_options fresh = default_options(rule);
    scn_struct_give(o, size, &fresh, sizeof fresh);
}

void scion_step_init_sized(scion_step *s, size_t size)
{
    scn_struct_give(s, size, &default_step, sizeof default_step);
}

/* The others start as zeros. */
void scion_info_init_sized(scion_info *info, size_t size)
{
    scn_struct_give(info, size, &size, sizeof size);
}

void scion_param_properties_init_sized(scion_param_properties *p, size_t size)
{
    scn_struct_give(p, size, &size, sizeof size);
}

void scion_array_init_sized(scion_array *a, size_t size)
{
    scn_struct_give(a, size, &size, sizeof size);
}

void scion_report_init_sized(scion_report *r, size_t size)
{
    scn_struct_give(r, size, &size, sizeof size);
}

void scion_problem_init_sized(scion_problem *p, size_t size)
{
    scn_struct_give(p, size, &size, sizeof size);
}

void scion_result_init_sized(scion_result *r, size_t size)
{
    scn_struct_give(r, size, &size, sizeof size);
}

/* ---- Options ---- */

/* "scion, uscion, signum": the rules that can keep their average in the gradient. */
static const char *light_rules(char *text, size_t bytes)
{
    const scn_rule *rule;
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; (rule = scn_rule_at(i)) != NULL; i++)
        if (rule->about.light && at < bytes)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at > 0 ? ", " : "", rule->about.name);
    return text;
}

static scion_status check_rule_options(const scion_options *o, const scn_rule *rule, scion_error *err)
{
    char text[100];
    const char *name = rule->about.name;
    if (!(o->momentum > 0 && o->momentum <= 1))
        return scn_fail(err, SCION_EINVAL, -1, "momentum is %g, expected alpha in (0, 1]", o->momentum);
    if (o->light && !rule->about.light)
        return scn_fail(err, SCION_EINVAL, -1,
                        "light: rule %s cannot keep its average in the gradient; these can: %s", name,
                        light_rules(text, sizeof text));
    if (!(o->weight_decay >= 0) || isinf(o->weight_decay))
        return scn_fail(err, SCION_EINVAL, -1, "weight_decay is %g, expected 0 or more", o->weight_decay);
    if (rule->about.weight_decay != 0 && o->weight_decay != 0 && o->weight_decay != rule->about.weight_decay)
        return scn_fail(err, SCION_EINVAL, -1,
                        "weight_decay is %g, but rule %s decays by lr: leave it 0, or take uscion", o->weight_decay,
                        name);
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return scn_fail(err, SCION_EINVAL, -1, "beta1, beta2 are %g, %g, expected [0, 1)", o->beta1, o->beta2);
    if (!(o->adam_lr_scale >= 0) || isinf(o->adam_lr_scale))
        return scn_fail(err, SCION_EINVAL, -1, "adam_lr_scale is %g, expected 0 or more", o->adam_lr_scale);
    if (!(o->adam_eps >= 0) || !(o->clip_norm >= 0) || !(o->muon_multiplier > 0) || isinf(o->muon_multiplier))
        return scn_fail(err, SCION_EINVAL, -1,
                        "adam_eps %g, clip_norm %g, muon_multiplier %g: expected >= 0, >= 0, > 0", o->adam_eps,
                        o->clip_norm, o->muon_multiplier);
    return SCION_OK;
}

scion_status scn_options_take(scion_options *copy, const scion_options *o, scion_error *err)
{
    if (!o) {
        *copy = default_options(SCION_RULE_SCION);
        return SCION_OK;
    }
    /* the rule's defaults first, for what the caller's struct does not have */
    const size_t min = offsetof(scion_options, routing);
    *copy = default_options(o->size < min ? 0 : o->rule);
    RETURN_IF_FAILED(scn_struct_take(copy, sizeof *copy, o, min, "options", -1, err));
    const scn_rule *rule = scn_rule_at(copy->rule);
    if (!rule)
        return scn_fail(err, SCION_EINVAL, -1, "unknown rule %d", (int)copy->rule);
    if (!scn_routing_name(copy->routing))
        return scn_fail(err, SCION_EINVAL, -1, "unknown routing %d", (int)copy->routing);
    if (!scn_polar_set_at(copy->polar))
        return scn_fail(err, SCION_EINVAL, -1, "polar: unknown coefficient set %d", (int)copy->polar);
    if (copy->polar_steps < 0 || copy->polar_steps > 1000)
        return scn_fail(err, SCION_EINVAL, -1, "polar_steps is %d, expected 0 to 1000", (int)copy->polar_steps);
    if (copy->polar_compute != SCION_F32 && copy->polar_compute != SCION_BF16)
        return scn_fail(err, SCION_EINVAL, -1, "polar_compute: unknown type %d", (int)copy->polar_compute);
    if (copy->polar_compute == SCION_BF16 && scn_polar_set_at(copy->polar)->bf16_interval == 0)
        return scn_fail(err, SCION_EINVAL, -1, "polar_compute is bfloat16, but the set %s computes in float32 only",
                        scn_polar_set_at(copy->polar)->name);
    if (copy->threads < 0 || copy->threads > 4096)
        return scn_fail(err, SCION_EINVAL, -1, "threads is %d, expected 0 to 4096", (int)copy->threads);
    if (!(copy->eps >= 0) || !(copy->polar_eps >= 0) || isinf(copy->eps) || isinf(copy->polar_eps))
        return scn_fail(err, SCION_EINVAL, -1, "eps, polar_eps are %g, %g, expected 0 or more", copy->eps,
                        copy->polar_eps);
    if ((unsigned)copy->rounding > SCION_ROUNDING_NEAREST)
        return scn_fail(err, SCION_EINVAL, -1, "unknown rounding %d", (int)copy->rounding);
    if (copy->allocator && (!copy->allocator->alloc || !copy->allocator->free))
        return scn_fail(err, SCION_EINVAL, -1, "allocator: alloc or free is NULL");
    return check_rule_options(copy, rule, err);
}

scion_status scion_options_check(const scion_options *o, scion_error *err)
{
    scion_options copy;
    RETURN_IF_FAILED(scn_options_take(&copy, o, err));
    return scn_ok(err);
}

scn_work scn_work_of(const scion_options *o, int threads)
{
    return (scn_work){
        .threads = threads,
        .eps = o->eps,
        .polar_eps = o->polar_eps,
        .set = scn_polar_set_at(o->polar),
        .steps = o->polar_steps,
        .polar_compute = (scion_dtype)o->polar_compute,
        .kernel = scn_kernel_for(SCION_F32),
        .polar_kernel = scn_kernel_for((scion_dtype)o->polar_compute),
    };
}

/* ---- Parameters and steps ---- */

scion_status scn_param_take(scion_param *copy, const scion_param *params, int64_t i, scion_error *err)
{
    char what[48];
    snprintf(what, sizeof what, "parameter %lld", (long long)i);
    *copy = default_param;
    return scn_struct_take(copy, sizeof *copy, (const char *)params + (size_t)i * params->size,
                           offsetof(scion_param, role), what, i, err);
}

scion_status scn_step_take(scion_step *copy, const scion_step *s, scion_error *err)
{
    if (!s)
        return scn_fail(err, SCION_EINVAL, -1, "step is NULL");
    *copy = default_step;
    return scn_struct_take(copy, sizeof *copy, s, offsetof(scion_step, momentum), "step", -1, err);
}
