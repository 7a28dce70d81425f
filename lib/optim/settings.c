/* Changes between steps: settings of parameters and groups, their memory, MARS's exchange. */
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

scion_status scn_check_index(const scion_optimizer *opt, int64_t i, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    if (i < 0 || i >= opt->count)
        return scn_fail(err, SCION_EINVAL, i, "there is no parameter %lld, only 0 to %lld", (long long)i,
                        (long long)opt->count - 1);
    return SCION_OK;
}

const char *scn_setting_expected(const scn_tensor *t, int32_t what, double value)
{
    const scion_rule_properties *about = &t->rule->about;
    const double decay = about->weight_decay;
    switch (what) {
    case SCION_SET_RADIUS: return value > 0 && !isinf(value) ? NULL : "radius > 0";
    case SCION_SET_LR_SCALE: return value >= 0 && !isinf(value) ? NULL : "lr_scale >= 0";
    case SCION_SET_WEIGHT_DECAY:
        if (decay != 0)
            return value == decay ? NULL : "weight_decay 1, as the rule has it";
        return value >= 0 && !isinf(value) ? NULL : "weight_decay >= 0";
    case SCION_SET_MOMENTUM:
        if (value > 0 && value <= 1 && (about->averages || !about->lmo || value == 1))
            return NULL;
        return "momentum in (0, 1], 1 where the rule has none";
    case SCION_SET_FROZEN: return value == 0 || value == 1 ? NULL : "frozen 0 or 1";
    case SCION_SET_STEPS: return value >= 0 && value <= 0x1p53 && value == floor(value) ? NULL : "a number of steps";
    default: return "one of radius, lr_scale, weight_decay, momentum, frozen, steps";
    }
}

static scion_status check_value(const scn_tensor *t, int64_t i, int32_t what, double value, scion_error *err)
{
    if (what < SCION_SET_RADIUS || what > SCION_SET_STEPS)
        return scn_fail(err, SCION_EINVAL, i, "%d is no setting", (int)what);
    const char *expected = scn_setting_expected(t, what, value);
    if (expected)
        return scn_fail(err, SCION_EINVAL, i, "%s: %g, expected %s", t->name, value, expected);
    return SCION_OK;
}

/* A light gradient was shrunk for the alpha that was expected: (1-a)/a of what it was. Makes that right for
 * another alpha. */
static void rescale_light(const scion_optimizer *opt, scn_tensor *t, double expected, double alpha)
{
    if (t->steps == 0 || !t->grad || expected == 1)
        return;
    const double f = (1 - alpha) / alpha / ((1 - expected) / expected);
    const int64_t end = t->own_first + t->own_count;
    for (int64_t first = t->own_first; first < end; first += 1024) {
        float buffer[1024];
        const int64_t n = scn_min(end - first, 1024);
        float *g = t->grad_type == SCION_F32 ? (float *)t->grad + first : buffer;
        scn_floats(t->grad, t->grad_type, first, n, buffer);
        scn_scale(n, f, g);
        scn_store_grads(opt, t, first, n, g);
    }
}

static void apply(scion_optimizer *opt, scn_tensor *t, int32_t what, double value)
{
    switch (what) {
    case SCION_SET_RADIUS: t->radius = value; break;
    case SCION_SET_LR_SCALE: t->lr_scale = value; break;
    case SCION_SET_WEIGHT_DECAY: t->decay = value; break;
    case SCION_SET_MOMENTUM:
        if (opt->o.light)
            rescale_light(opt, t, t->next_alpha > 0 ? t->next_alpha : scn_alpha(opt, t, t->steps + 1), value);
        t->next_alpha = 0;
        t->momentum = value;
        t->vanishing = false;
        break;
    case SCION_SET_FROZEN: t->frozen = value != 0; break;
    case SCION_SET_STEPS: t->steps = (int64_t)value; break;
    }
}

/* Checks all that are chosen before changing any. */
static scion_status set_chosen(scion_optimizer *opt, int64_t only, bool by_group, int32_t group, int32_t what,
                               double value, scion_error *err)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < opt->count; i++) {
            scn_tensor *t = &opt->tensors[i];
            if (by_group ? t->group != group : only != SCION_ALL && only != i)
                continue;
            if (pass == 1) {
                apply(opt, t, what, value);
                continue;
            }
            RETURN_IF_FAILED(check_value(t, i, what, value, err));
        }
    return scn_ok(err);
}

scion_status scion_optimizer_set(scion_optimizer *opt, int64_t i, int32_t what, double value, scion_error *err)
{
    RETURN_IF_FAILED(scn_check_index(opt, i == SCION_ALL ? 0 : i, err));
    RETURN_IF_FAILED(set_chosen(opt, i, false, 0, what, value, err));
    if (i == SCION_ALL && what == SCION_SET_STEPS)
        opt->steps = (int64_t)value;
    return SCION_OK;
}

scion_status scion_optimizer_set_group(scion_optimizer *opt, int32_t group, int32_t what, double value,
                                       scion_error *err)
{
    RETURN_IF_FAILED(scn_check_index(opt, 0, err));
    for (int64_t i = 0; i < opt->count; i++)
        if (opt->tensors[i].group == group)
            return set_chosen(opt, SCION_ALL, true, group, what, value, err);
    return scn_fail(err, SCION_EINVAL, -1, "no parameter is in group %d", (int)group);
}

scion_status scion_optimizer_bind(scion_optimizer *opt, int64_t i, void *weight, void *grad, void *grad_prev,
                                  scion_error *err)
{
    RETURN_IF_FAILED(scn_check_index(opt, i, err));
    scn_tensor *t = &opt->tensors[i];
    if (!weight && t->own_count > 0)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight is NULL", t->name);
    if (grad && t->rule->about.needs_prev && t->own_count > 0 && !grad_prev && !t->grad_prev)
        return scn_fail(err, SCION_EINVAL, i, "%s: rule %s needs grad_prev", t->name, t->rule->about.name);
    RETURN_IF_FAILED(scn_check_pointers(t, t->name, i, weight, grad, grad_prev, err));
    scn_tensor moved = *t;
    moved.weight = weight;
    moved.grad = grad;
    if (grad_prev)
        moved.grad_prev = grad_prev;
    RETURN_IF_FAILED(scn_check_own_memory(&moved, i, err));
    *t = moved;
    return scn_ok(err);
}

static void exchange(unsigned char *a, unsigned char *b, size_t bytes)
{
    unsigned char buffer[4096];
    for (size_t first = 0; first < bytes; first += sizeof buffer) {
        size_t n = bytes - first < sizeof buffer ? bytes - first : sizeof buffer;
        memcpy(buffer, a + first, n);
        memcpy(a + first, b + first, n);
        memcpy(b + first, buffer, n);
    }
}

scion_status scion_optimizer_previous(scion_optimizer *opt, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    const scion_rule_properties *about = scion_rule_info(opt->o.rule);
    if (!about->needs_prev)
        return scn_fail(err, SCION_EINVAL, -1, "rule %s keeps no previous weights", about->name);
    for (int64_t i = 0; opt->steps > 0 && i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        if (scn_previous(t))
            exchange((unsigned char *)t->weight + scn_stored_bytes(t->weight_type, t->own_first), scn_previous(t),
                     scn_stored_bytes(t->weight_type, t->own_count));
    }
    opt->swapped = opt->steps > 0 && !opt->swapped;
    return scn_ok(err);
}
