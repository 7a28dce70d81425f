/* What no single option can see. */
#include <string.h>

#include "config/config_parts.h"
#include "base/fail.h"

static scion_status check_model(const config *c, scion_error *err)
{
    const model_row *row = config_model(c);
    char owner[80];
    const char *foreign = config_foreign_option(c, owner, sizeof owner);
    if (foreign)
        return train_fail(err, SCION_EINVAL, "%s is for %s, model %s has none", foreign, owner, row->name);
    return row->check ? row->check(config_model_options(c), err) : SCION_OK;
}

static scion_status check_data(const config *c, scion_error *err)
{
    if (!c->data.path[0] && data_needs_path(c->data.kind))
        return train_fail(err, SCION_EINVAL,
                          "data is not given: data=FILE names what to learn from, data_kind=synthetic needs no file");
    if (c->training.steps == 0 && !(c->training.epochs > 0))
        return train_fail(err, SCION_EINVAL, "steps is not given: say steps=N or epochs=N");
    return SCION_OK;
}

/* Reject options the schedule ignores. */
static scion_status check_schedule_has(const config *c, scion_error *err)
{
    const bool cosine = strncmp(c->training.schedule, "cosine", 6) == 0;
    const bool constant_linear = strcmp(c->training.schedule, "constant_linear") == 0;
    const bool rises = cosine || constant_linear;
    if (constant_linear && c->training.decay < 1)
        return train_fail(err, SCION_EINVAL,
                          "schedule constant_linear needs decay, the steps of the decay at the end");
    if (!constant_linear && c->training.decay > 0)
        return train_fail(err, SCION_EINVAL, "decay is for schedule constant_linear, schedule %s has none",
                          c->training.schedule);
    if (!rises && (c->training.warmup > 0 || c->training.lr_start > 0))
        return train_fail(err, SCION_EINVAL, "%s is for schedules cosine and constant_linear, schedule %s has none",
                          c->training.warmup > 0 ? "warmup" : "lr_start", c->training.schedule);
    if (!cosine && c->training.lr_end > 0)
        return train_fail(err, SCION_EINVAL, "lr_end is for schedule cosine, schedule %s has none",
                          c->training.schedule);
    return SCION_OK;
}

static scion_status check_schedule(const config *c, scion_error *err)
{
    const long long steps = c->training.steps, warmup = c->training.warmup, decay = c->training.decay;
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
    if (c->training.lr_start > c->training.lr || c->training.lr_end > c->training.lr)
        return train_fail(err, SCION_EINVAL, "%s is %g, expected at most lr %g",
                          c->training.lr_start > c->training.lr ? "lr_start" : "lr_end",
                          c->training.lr_start > c->training.lr ? c->training.lr_start : c->training.lr_end,
                          c->training.lr);
    return SCION_OK;
}

/* A configuration by name, or three norms "first,hidden,last". */
static scion_status check_norms(const config *c, scion_error *err)
{
    const char *at = c->optimizer.norms;
    int known = 0, parts = 0;
    if (scion_enum_value(SCION_ENUM_ROUTING, c->optimizer.norms) >= 0)
        return SCION_OK;
    for (bool more = true; more; parts++) {
        char name[CONFIG_TEXT];
        const size_t length = strcspn(at, ",");
        memcpy(name, at, length);
        name[length] = '\0';
        known += scion_enum_value(SCION_ENUM_NORM, name) > 0; /* 0 is auto */
        more = at[length] == ',';
        at += length + more;
    }
    if (parts == 3 && known == 3)
        return SCION_OK;
    return train_fail(
        err, SCION_EINVAL,
        "norms is \"%.40s\", expected image, onehot, shared, sign, colnorm, rownorm, spectral, or three "
        "norms such as colnorm,spectral,sign",
        c->optimizer.norms);
}

static scion_status check_radii(const config *c, scion_error *err)
{
    const double radius[] = {c->optimizer.radius_first, c->optimizer.radius_hidden, c->optimizer.radius_last};
    static const char *const names[] = {"radius_first", "radius_hidden", "radius_last"};
    for (int i = 0; i < 3; i++)
        if (!(radius[i] > 0))
            return train_fail(err, SCION_EINVAL, "%s is 0, expected more", names[i]);
    return SCION_OK;
}

scion_status config_optimizer(const config *c, scion_options *o, scion_error *err)
{
    const optimizer_options *from = &c->optimizer;
    const int rule = scion_enum_value(SCION_ENUM_RULE, from->rule),
              polar = scion_enum_value(SCION_ENUM_POLAR, from->polar),
              routing = scion_enum_value(SCION_ENUM_ROUTING, from->norms);
    if (rule < 0 || polar < 0)
        return train_fail(err, SCION_EINVAL, "there is no %s %s", rule < 0 ? "rule" : "coefficient set",
                          rule < 0 ? from->rule : from->polar);
    scion_options_init(o, (scion_rule)rule);
    o->routing = routing >= 0 ? routing : SCION_ROUTING_IMAGE;
    if (from->momentum > 0)
        o->momentum = from->momentum;
    o->vanishing = from->vanishing;
    o->light = from->light;
    o->nesterov = from->nesterov;
    o->weight_decay = from->weight_decay;
    o->muon_multiplier = from->muon_multiplier;
    o->beta1 = from->beta1;
    o->beta2 = from->beta2;
    o->adam_eps = from->adam_eps;
    o->clip_norm = from->clip_norm;
    o->eps = from->eps;
    o->polar_eps = from->eps > 0 ? 10 * from->eps : 0; /* the reference's pair is 1e-8 and 1e-7 */
    o->polar = polar;
    o->polar_steps = (int32_t)from->polar_steps;
    o->threads = (int32_t)c->training.threads;
    o->seed = c->training.seed;
    return SCION_OK;
}

/* What the optimizer takes is the library's to say. */
static scion_status check_optimizer(const config *c, scion_error *err)
{
    scion_options o;
    scion_status status = config_optimizer(c, &o, err);
    return status == SCION_OK ? scion_options_check(&o, err) : status;
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
        status = check_radii(c, err);
    if (status == SCION_OK)
        status = check_optimizer(c, err);
    return status;
}
