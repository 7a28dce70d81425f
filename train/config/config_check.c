/* What no single option can see. What the optimizer takes is the library's to say: it is asked with a parameter of
 * one entry. */
#include <string.h>

#include "config/config_parts.h"
#include "base/fail.h"

static scion_status check_model(const config *c, scion_error *err)
{
    if (strcmp(c->model, "gpt") == 0) {
        if (c->head_size % 2 != 0)
            return train_fail(err, SCION_EINVAL, "head_size is %lld, expected an even number (rotary embedding)",
                              (long long)c->head_size);
        if (c->width % c->head_size != 0)
            return train_fail(err, SCION_EINVAL, "width is %lld, expected a multiple of head_size %lld",
                              (long long)c->width, (long long)c->head_size);
        return SCION_OK;
    }
    if (strcmp(c->model, "mlp") == 0 && c->layers < 2)
        return train_fail(err, SCION_EINVAL, "layers is %lld, expected 2 or more for model mlp",
                          (long long)c->layers);
    if (c->tied || c->zero_init || c->recompute)
        return train_fail(err, SCION_EINVAL, "%s is for model gpt, model %s has none",
                          c->tied        ? "tied"
                          : c->zero_init ? "zero_init"
                                         : "recompute",
                          c->model);
    return SCION_OK;
}

static scion_status check_data(const config *c, scion_error *err)
{
    if (!c->data[0] && strcmp(c->data_kind, "synthetic") != 0)
        return train_fail(err, SCION_EINVAL,
                          "data is not given: data=FILE names what to learn from, data_kind=synthetic makes some up");
    if (c->steps == 0 && !(c->epochs > 0))
        return train_fail(err, SCION_EINVAL, "steps is not given: say steps=N or epochs=N");
    return SCION_OK;
}

/* An option of another schedule would have no effect, which nobody means who sets it. */
static scion_status check_schedule_has(const config *c, scion_error *err)
{
    const bool cosine = strncmp(c->schedule, "cosine", 6) == 0;
    const bool constant_linear = strcmp(c->schedule, "constant_linear") == 0;
    const bool rises = cosine || constant_linear;
    if (constant_linear && c->decay < 1)
        return train_fail(err, SCION_EINVAL,
                          "schedule constant_linear needs decay, the steps of the decay at the end");
    if (!constant_linear && c->decay > 0)
        return train_fail(err, SCION_EINVAL, "decay is for schedule constant_linear, schedule %s has none",
                          c->schedule);
    if (!rises && (c->warmup > 0 || c->lr_start > 0))
        return train_fail(err, SCION_EINVAL, "%s is for schedules cosine and constant_linear, schedule %s has none",
                          c->warmup > 0 ? "warmup" : "lr_start", c->schedule);
    if (!cosine && c->lr_end > 0)
        return train_fail(err, SCION_EINVAL, "lr_end is for schedule cosine, schedule %s has none", c->schedule);
    return SCION_OK;
}

static scion_status check_schedule(const config *c, scion_error *err)
{
    const long long steps = c->steps, warmup = c->warmup, decay = c->decay;
    scion_status status = check_schedule_has(c, err);
    if (status != SCION_OK)
        return status;
    if (steps > 0 && decay > steps)
        return train_fail(err, SCION_EINVAL, "decay is %lld, expected at most steps %lld", decay, steps);
    if (steps > 0 && warmup >= steps)
        return train_fail(err, SCION_EINVAL, "warmup is %lld, expected fewer than steps %lld", warmup, steps);
    if (steps > 0 && warmup + decay > steps)
        return train_fail(err, SCION_EINVAL, "warmup %lld and decay %lld are more than steps %lld", warmup, decay,
                          steps);
    if (c->lr_start > c->lr || c->lr_end > c->lr)
        return train_fail(err, SCION_EINVAL, "%s is %g, expected at most lr %g",
                          c->lr_start > c->lr ? "lr_start" : "lr_end", c->lr_start > c->lr ? c->lr_start : c->lr_end,
                          c->lr);
    return SCION_OK;
}

/* A configuration by name, or three norms "first,hidden,last". */
static scion_status check_norms(const config *c, scion_error *err)
{
    const char *at = c->norms;
    int known = 0, parts = 0;
    if (scion_find(SCION_NAMES_CONFIG, c->norms) >= 0)
        return SCION_OK;
    for (bool more = true; more; parts++) {
        char name[CONFIG_TEXT];
        const size_t length = strcspn(at, ",");
        memcpy(name, at, length);
        name[length] = '\0';
        known += scion_find(SCION_NAMES_NORM, name) > 0; /* 0 is auto */
        more = at[length] == ',';
        at += length + more;
    }
    if (parts == 3 && known == 3)
        return SCION_OK;
    return train_fail(
        err, SCION_EINVAL,
        "norms is \"%.40s\", expected image, onehot, shared, sign, colnorm, rownorm, spectral, or three "
        "norms such as colnorm,spectral,sign",
        c->norms);
}

static scion_status check_optimizer(const config *c, scion_error *err)
{
    const double radius[] = {c->radius_first, c->radius_hidden, c->radius_last};
    static const char *const names[] = {"radius_first", "radius_hidden", "radius_last"};
    float weight = 0, grad = 0, before = 0;
    scion_optimizer *optimizer = NULL;
    scion_options o;
    scion_param p;
    for (int i = 0; i < 3; i++)
        if (!(radius[i] > 0))
            return train_fail(err, SCION_EINVAL, "%s is 0, expected more", names[i]);
    scion_options_init(&o, (scion_rule)scion_find(SCION_NAMES_RULE, c->rule));
    if (c->momentum > 0)
        o.momentum = c->momentum;
    o.vanishing = c->vanishing;
    o.light = c->light;
    o.nesterov = c->nesterov;
    o.weight_decay = c->weight_decay;
    o.muon_multiplier = c->muon_multiplier;
    o.beta1 = c->beta1;
    o.beta2 = c->beta2;
    o.adam_eps = c->adam_eps;
    o.clip_norm = c->clip_norm;
    o.eps = c->eps;
    o.polar_steps = (int32_t)c->polar_steps;
    o.threads = 1;
    scion_param_init(&p);
    p.ndim = 1;
    p.shape[0] = 1;
    p.weight = &weight;
    p.grad = &grad;
    p.grad_prev = &before;
    p.role = SCION_ROLE_VECTOR;
    scion_status status = scion_optimizer_create(&optimizer, &o, &p, 1, err);
    scion_optimizer_free(optimizer);
    return status;
}

scion_status config_check(const config *c, scion_error *err)
{
    scion_status status = check_model(c, err);
    if (status == SCION_OK)
        status = check_data(c, err);
    if (status == SCION_OK)
        status = check_schedule(c, err);
    if (status == SCION_OK)
        status = check_norms(c, err);
    if (status == SCION_OK)
        status = check_optimizer(c, err);
    return status;
}
