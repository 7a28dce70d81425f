/* Searched values: lr by powers of two from 2^-4 to 2^4 times the preset's, radii from 2^-2 to
 * 2^2, but not along a direction in which nothing changes. With W = rho V, the step
 *
 *     W <- (1 - lr mu) W + lr rho lmo(s)      is      V <- (1 - lr mu) V + lr lmo(s),      lmo(a s) = lmo(s), a > 0
 *
 * so that radii act on a rule of this kind in two ways only: as the factors rho of the layers in the function, and
 * where V starts. Hence
 *
 *   - adamw, sgd: no radii. muon: that of the hidden layers, because its other layers are AdamW's.
 *   - A radius that no layer has: radius_first of a tied gpt, radius_hidden of an mlp of two layers without biases.
 *   - Start without radii (boundary_init=no, or a rule with vectors' norms, which start elsewhere), and mu = 0: W
 *     sees lr rho alone (ssd: lr rho^2), and one radius stays where it is. With mu > 0 lr also sets how fast W
 *     forgets, and with a start on the boundary rho is its size: then lr and rho are two things, and both are
 *     searched.
 *   - Start on the boundary, mlp without biases, activation with f(ax) = a^k f(x): the radii multiply the logits by
 *     one factor, and all gradients of a layer by another: radius_last alone is searched. (ssd, whose step is not
 *     free of the gradient's size, has all of them.)
 *   - Start on the boundary, gpt with QK-norm, two matrices, and k = 1: every block adds to the residual a term of
 *     size radius_hidden^2, the embedding one of radius_first, and the next norm sees their ratio alone: radius_first
 *     stays.
 *
 * Momentum, weight decay and the others are the preset's.
 *
 * Candidates are stratified: along each axis every value comes once before one comes twice, in an order of its own.
 * lr matters most, so even a few candidates cover its whole range. */
#include "tune/tune.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "config/config.h"
#include "util/fail.h"

/* Powers of two to each side of the preset's value. */
static const int reach[TUNE_AXES] = {4, 2, 2, 2};

static const struct {
    const char *key;
    size_t offset;
} axes[TUNE_AXES] = {
    [TUNE_LR] = {"lr", offsetof(config, training.lr)},
    [TUNE_FIRST] = {"radius_first", offsetof(config, optimizer.radius_first)},
    [TUNE_HIDDEN] = {"radius_hidden", offsetof(config, optimizer.radius_hidden)},
    [TUNE_LAST] = {"radius_last", offsetof(config, optimizer.radius_last)},
};

const config_option *tune_option(tune_axis axis)
{
    return config_find(axes[axis].key);
}

static double *value_of(config *c, int axis)
{
    return (double *)(void *)((char *)c + axes[axis].offset);
}

/* ---- The space ----------------------------------------------------------------------------------------- */

/* config_check has passed the name. */
static const scion_rule_properties *rule_of(const config *c)
{
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, c->optimizer.rule));
}

/* True if the rule takes an lmo step in each parameter's own norm. */
static bool uses_norms(const scion_rule_properties *rule)
{
    return rule->lmo && rule->norm == SCION_NORM_AUTO;
}

bool tune_carries(const config *c)
{
    return uses_norms(rule_of(c)) && !rule_of(c)->sharp;
}

/* True if a norm of the configuration does not start on its boundary. */
static bool has_zero_start(const config *c)
{
    char name[CONFIG_TEXT];
    for (const char *at = config_norms_text(c); *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        const scion_norm_properties *norm = scion_norm_info(scion_enum_value(SCION_ENUM_NORM, name));
        if (norm && norm->starts_at_zero)
            return true;
    }
    return false;
}

/* Finds the radii that are not searched, and why. */
static void find_fixed(const config *c, const char *fixed[TUNE_AXES])
{
    const scion_rule_properties *rule = rule_of(c);
    const model_row *row = config_model(c);
    model_radii of_model = {.first = NULL};
    if (!rule->lmo) {
        fixed[TUNE_FIRST] = fixed[TUNE_HIDDEN] = fixed[TUNE_LAST] = "the rule has no radii";
        return;
    }
    if (scion_rule_info(rule->others) != rule) {
        fixed[TUNE_FIRST] = fixed[TUNE_LAST] = "the rule takes hidden layers only";
        return;
    }
    const bool free_start = !c->optimizer.boundary_init || !uses_norms(rule);
    if (row->radii)
        row->radii(config_model_options(c), &of_model);
    fixed[TUNE_FIRST] = of_model.first;
    fixed[TUNE_HIDDEN] = of_model.hidden;
    if (free_start && c->optimizer.weight_decay == 0 && rule->weight_decay == 0) {
        const int one = fixed[TUNE_HIDDEN] ? TUNE_LAST : TUNE_HIDDEN;
        fixed[one] =
            rule->sharp ? "only lr times the squares of the radii matters" : "only lr times the radii matters";
    } else if (!free_start && !rule->sharp && !has_zero_start(c)) {
        if (of_model.first_scale)
            fixed[TUNE_FIRST] = of_model.first_scale;
        if (of_model.hidden_scale)
            fixed[TUNE_HIDDEN] = of_model.hidden_scale;
    }
}

/* Powers of two from `value` up to `limit`, at most 60. */
static int powers_below(double value, double limit)
{
    int power = 0;
    while (power < 60 && ldexp(value, power + 1) <= limit)
        power++;
    return power;
}

scion_status tune_space_make(tune_space *s, const config *c, scion_error *err)
{
    const double fixed_decay = rule_of(c)->weight_decay,
                 decay = fixed_decay > 0 ? fixed_decay : c->optimizer.weight_decay;
    const double lr_limit = decay > 0 ? fmin(1 / decay, tune_option(TUNE_LR)->max) : tune_option(TUNE_LR)->max;
    config copy = *c;
    *s = (tune_space){.max_lr = powers_below(c->training.lr, lr_limit)};
    if (!(c->training.lr > 0))
        return train_fail(err, SCION_EINVAL, "lr is 0, expected the value that the search starts from");
    if (c->training.lr > lr_limit)
        return train_fail(err, SCION_EINVAL,
                          "lr is %g, expected at most %g: rule %s decays the weights by lr times %g", c->training.lr,
                          lr_limit, c->optimizer.rule, decay);
    find_fixed(c, s->fixed);
    for (int a = 0; a < TUNE_AXES; a++) {
        if (s->fixed[a])
            continue;
        const int max = a == TUNE_LR ? s->max_lr : powers_below(*value_of(&copy, a), tune_option((tune_axis)a)->max);
        s->low[a] = -reach[a];
        s->high[a] = max < reach[a] ? max : reach[a];
    }
    return SCION_OK;
}

static int levels(const tune_space *s, int axis)
{
    return s->high[axis] - s->low[axis] + 1;
}

int64_t tune_space_size(const tune_space *s)
{
    int64_t size = 1;
    for (int a = 0; a < TUNE_AXES; a++)
        size *= levels(s, a);
    return size;
}

/* ---- Candidates ---------------------------------------------------------------------------------------- */

/* Element i of an endless sequence of shuffled ranges low..high. */
static int stratified(const tune_space *s, int axis, uint64_t seed, int64_t i)
{
    enum { max_levels = 16 };
    int deck[max_levels];
    const int n = levels(s, axis);
    const uint64_t round = (uint64_t)(i / n);
    for (int k = 0; k < n; k++)
        deck[k] = s->low[axis] + k;
    for (int k = n - 1; k > 0; k--) { /* Fisher-Yates */
        const int other =
            (int)(scn_uniform(seed, SCN_STREAM_TUNE + (uint64_t)axis, round * max_levels + (uint64_t)k) * (k + 1));
        const int kept = deck[k];
        deck[k] = deck[other];
        deck[other] = kept;
    }
    return deck[i % n];
}

static bool add_point(tune_point *points, int64_t *count, const tune_point *p)
{
    for (int64_t i = 0; i < *count; i++)
        if (memcmp(&points[i], p, sizeof *p) == 0)
            return false;
    points[(*count)++] = *p;
    return true;
}

int64_t tune_candidates(const tune_space *s, uint64_t seed, tune_point *points, int64_t count)
{
    enum { draws = 4 * TUNE_MAX_CANDIDATES };
    const tune_point own = {{0}};
    int64_t found = 0;
    if (count > 0)
        add_point(points, &found, &own);
    for (int64_t i = 0; found < count && i < draws; i++) {
        tune_point p;
        for (int a = 0; a < TUNE_AXES; a++)
            p.power[a] = stratified(s, a, seed, i);
        add_point(points, &found, &p);
    }
    /* The points of a small space that were not drawn, in order. */
    for (int64_t i = 0; found < count && i < tune_space_size(s); i++) {
        tune_point p;
        int64_t rest = i;
        for (int a = 0; a < TUNE_AXES; a++) {
            p.power[a] = s->low[a] + (int)(rest % levels(s, a));
            rest /= levels(s, a);
        }
        add_point(points, &found, &p);
    }
    return found;
}

config tune_config(const config *base, const tune_point *p, int64_t share)
{
    config c = *base;
    for (int a = 0; a < TUNE_AXES; a++)
        *value_of(&c, a) = ldexp(*value_of(&c, a), p->power[a]);
    if (c.training.lr_start > 0)
        c.training.lr_start = ldexp(c.training.lr_start, p->power[TUNE_LR]);
    c.training.lr_end = ldexp(c.training.lr_end, p->power[TUNE_LR]);
    c.training.warmup = training_span(c.training.warmup, 1 / (double)share);
    c.training.decay = training_span(c.training.decay, 1 / (double)share);
    if (c.training.steps > 0) {
        c.training.steps = c.training.steps / share > 0 ? c.training.steps / share : 1;
        const scion_schedule s = training_schedule(&c.training, c.training.steps);
        const int64_t rest = c.training.steps - (s.decay > 0 ? s.decay : 1);
        if (s.warmup > rest)
            c.training.warmup = (option_span){.value = (double)rest};
    } else {
        c.training.epochs /= (double)share;
    }
    return c;
}
