/* Checks that need more than one option. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "util/fail.h"
#include "util/utf8.h"

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

/* ---- Schedules ------------------------------------------------------------------------------------------------- */

/* True if a kind of schedule reads the i-th of warmup, decay, lr_start and lr_end. */
static bool schedule_reads(int kind, int i)
{
    const scion_schedule_properties *s = scion_schedule_info(kind);
    const int32_t reads[] = {s->warmup, s->decay, s->start, s->end};
    return reads[i] != 0;
}

/* Reject options the schedule ignores. */
static scion_status check_schedule_reads(const config *c, scion_error *err)
{
    const training_options *t = &c->training;
    static const char *const keys[] = {"warmup", "decay", "lr_start", "lr_end"};
    const bool set[] = {t->warmup.value > 0, t->decay.value > 0, t->lr_start > 0, t->lr_end > 0};
    const int own = scion_enum_value(SCION_ENUM_SCHEDULE, t->schedule);
    for (int i = 0; i < 4; i++) {
        char names[120] = "";
        int readers = 0;
        if (!set[i] || schedule_reads(own, i))
            continue;
        for (int k = 0; scion_enum_name(SCION_ENUM_SCHEDULE, k); k++)
            if (schedule_reads(k, i))
                utf8_append(names, sizeof names, "%s%s", readers++ > 0 ? ", " : "",
                            scion_enum_name(SCION_ENUM_SCHEDULE, k));
        return train_fail(err, SCION_EINVAL, "%s is for schedule%s %s; schedule %s has none", keys[i],
                          readers > 1 ? "s" : "", names, t->schedule);
    }
    if (schedule_reads(own, 1) && t->decay.value <= 0)
        return train_fail(err, SCION_EINVAL,
                          "schedule %s needs decay, the steps of the decay at the end: say decay=28%%, or a number",
                          t->schedule);
    if (t->warmup.of > 0 && t->decay.of > 0 && t->warmup.value / t->warmup.of + t->decay.value / t->decay.of > 1)
        return train_fail(err, SCION_EINVAL,
                          "warmup and decay are shares of the steps, expected at most 100%% together");
    return SCION_OK;
}

scion_status config_check_schedule(const config *c, scion_error *err)
{
    const scion_schedule s = training_schedule(&c->training, c->training.steps);
    const long long steps = c->training.steps, warmup = s.warmup, decay = s.decay;
    scion_status status = check_schedule_reads(c, err);
    if (status != SCION_OK)
        return status;
    if (steps > 0 && decay > steps)
        return train_fail(err, SCION_EINVAL,
                          "decay is %lld, expected at most steps %lld: decay=28%% is a share of the steps", decay,
                          steps);
    if (steps > 0 && warmup >= steps)
        return train_fail(err, SCION_EINVAL,
                          "warmup is %lld, expected fewer than steps %lld: warmup=5%% is a share of the steps",
                          warmup, steps);
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

/* ---- Optimizer ------------------------------------------------------------------------------------------------- */

const char *config_norms_text(const config *c)
{
    const config_option *o = config_find("norms");
    return strcmp(c->optimizer.norms, "auto") == 0 ? o->derive(c) : c->optimizer.norms;
}

scion_status config_norms(const config *c, int32_t norm[3], scion_error *err)
{
    const char *norms = config_norms_text(c);
    char name[3][OPTION_NAME] = {"", "", ""}, routings[160] = "", end;
    norm[0] = norm[1] = norm[2] = SCION_NORM_AUTO;
    if (scion_enum_value(SCION_ENUM_ROUTING, norms) >= 0)
        return SCION_OK;
    bool known = sscanf(norms, "%31[^,],%31[^,],%31[^,]%c", name[0], name[1], name[2], &end) == 3;
    for (int i = 0; known && i < 3; i++) {
        norm[i] = scion_enum_value(SCION_ENUM_NORM, name[i]);
        known = norm[i] > SCION_NORM_AUTO;
    }
    if (known)
        return SCION_OK;
    for (int i = 0; scion_enum_name(SCION_ENUM_ROUTING, i); i++)
        utf8_append(routings, sizeof routings, "%s, ", scion_enum_name(SCION_ENUM_ROUTING, i));
    return train_fail(err, SCION_EINVAL,
                      "norms is \"%.40s\", expected auto, %sor three norms such as colnorm,spectral,sign", norms,
                      routings);
}

static scion_status check_radii(const config *c, scion_error *err)
{
    const double radius[] = {c->optimizer.radius_first, c->optimizer.radius_hidden, c->optimizer.radius_last};
    static const char *const names[] = {"radius_first", "radius_hidden", "radius_last"};
    for (int i = 0; i < 3; i++)
        if (!(radius[i] > 0))
            return train_fail(err, SCION_EINVAL, "%s is 0, expected a positive number", names[i]);
    return SCION_OK;
}

/* `auto`: as the other products, if the library takes that with this set of coefficients. */
scion_dtype config_polar_compute(const config *c)
{
    scion_options o;
    if (c->optimizer.polar_compute != POLAR_COMPUTE_AUTO)
        return (scion_dtype)c->optimizer.polar_compute;
    if ((scion_dtype)c->training.compute == SCION_F32)
        return SCION_F32;
    scion_options_init(&o, SCION_RULE_SCION);
    o.polar = scion_enum_value(SCION_ENUM_POLAR, c->optimizer.polar);
    o.polar_compute = SCION_BF16;
    return scion_options_check(&o, NULL) == SCION_OK ? SCION_BF16 : SCION_F32;
}

scion_status config_optimizer(const config *c, scion_options *o, scion_error *err)
{
    const optimizer_options *from = &c->optimizer;
    const int rule = scion_enum_value(SCION_ENUM_RULE, from->rule),
              polar = scion_enum_value(SCION_ENUM_POLAR, from->polar),
              routing = scion_enum_value(SCION_ENUM_ROUTING, config_norms_text(c));
    if (rule < 0 || polar < 0)
        return train_fail(err, SCION_EINVAL, "there is no %s %s", rule < 0 ? "rule" : "coefficient set",
                          rule < 0 ? from->rule : from->polar);
    scion_options_init(o, rule);
    o->routing = routing >= 0 ? routing : SCION_ROUTING_IMAGE;
    if (from->momentum > 0)
        o->momentum = from->momentum;
    o->vanishing = from->vanishing;
    o->first_full = from->first_full;
    o->light = from->light;
    if (scion_rule_info(rule)->joint)
        o->layerwise = from->layerwise;
    o->nesterov = from->nesterov;
    o->weight_decay = from->weight_decay;
    o->muon_multiplier = from->muon_multiplier;
    if (from->adam_lr > 0)
        o->adam_lr_scale = from->adam_lr / c->training.lr;
    o->beta1 = from->beta1;
    o->beta2 = from->beta2;
    o->adam_eps = from->adam_eps;
    o->clip_norm = from->clip_norm;
    o->eps = from->eps;
    o->polar_eps = from->eps > 0 ? 10 * from->eps : 0; /* the reference's pair is 1e-8 and 1e-7 */
    o->polar = polar;
    o->polar_steps = (int32_t)from->polar_steps;
    o->polar_compute = (int32_t)config_polar_compute(c);
    o->threads = (int32_t)c->training.threads;
    o->seed = c->training.seed;
    o->rounding = c->training.rounding;
    return SCION_OK;
}

/* Reject options the rule ignores. */
static scion_status check_rule_reads(const config *c, const scion_options *o, scion_error *err)
{
    const scion_rule_properties *rule = scion_rule_info(o->rule);
    if (c->optimizer.layerwise && !rule->joint)
        return train_fail(err, SCION_EINVAL, "layerwise has no effect: rule %s has no joint norm of all layers",
                          rule->name);
    if (!c->optimizer.decay_vectors && rule->weight_decay != 0)
        return train_fail(err, SCION_EINVAL, "decay_vectors=no has no effect: rule %s always decays by lr",
                          rule->name);
    if (c->optimizer.first_full && !rule->averages)
        return train_fail(err, SCION_EINVAL, "first_full has no effect: rule %s keeps no average", rule->name);
    if (c->optimizer.adam_lr > 0 && rule->others == o->rule)
        return train_fail(err, SCION_EINVAL, "adam_lr has no effect: rule %s has no AdamW part", rule->name);
    if (c->optimizer.adam_lr > 0 && !(c->training.lr > 0))
        return train_fail(err, SCION_EINVAL, "adam_lr is %g, but lr is 0", c->optimizer.adam_lr);
    return SCION_OK;
}

/* The library checks its own options. */
static scion_status check_optimizer(const config *c, scion_error *err)
{
    scion_options o;
    scion_status status = config_optimizer(c, &o, err);
    if (status == SCION_OK)
        status = check_rule_reads(c, &o, err);
    return status == SCION_OK ? scion_options_check(&o, err) : status;
}

scion_status config_check_lr(const config *c, scion_error *err)
{
    const training_options *t = &c->training;
    const scion_rule_properties *rule = scion_rule_info(scion_enum_value(SCION_ENUM_RULE, c->optimizer.rule));
    const double peak = fmax(t->lr, fmax(t->lr_start, t->lr_end));
    if (rule->weight_decay > 0 && peak * rule->weight_decay > 1)
        return train_fail(err, SCION_EINVAL, "lr=%g, expected at most %g: rule %s multiplies weights by 1 - lr", peak,
                          1 / rule->weight_decay, rule->name);
    if (rule->weight_decay == 0 && rule->others == scion_enum_value(SCION_ENUM_RULE, rule->name) &&
        peak * c->optimizer.weight_decay > 1)
        return train_fail(err, SCION_EINVAL, "lr=%g times weight_decay=%g is more than 1", peak,
                          c->optimizer.weight_decay);
    return SCION_OK;
}

scion_status config_check(const config *c, scion_error *err)
{
    int32_t norm[3];
    scion_status status;
    TRY(check_model(c, err));
    TRY(check_data(c, err));
    TRY(config_check_schedule(c, err));
    TRY(config_norms(c, norm, err));
    TRY(check_radii(c, err));
    TRY(check_optimizer(c, err));
done:
    return status;
}
