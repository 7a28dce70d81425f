/* See routing.h. `norms` is the name of a configuration of scion.h (onehot, image, shared, sign, ...) or three norms
 * "first,hidden,last", for the paper's sweeps over input and output layers; vectors then take RMS. The radius goes by
 * role: first layer, last layer, and everything else hidden; a bias has that of its layer, where radius_vector does
 * not say otherwise. */
#include "trainer/routing.h"

#include <math.h>
#include <string.h>

typedef enum place { FIRST, HIDDEN, LAST, VECTOR } place;

static place layer_of(scion_role role)
{
    if (role == SCION_ROLE_OUTPUT)
        return LAST;
    return role == SCION_ROLE_ONEHOT || role == SCION_ROLE_INPUT ? FIRST : HIDDEN;
}

static place place_of(const tape_value *v)
{
    if (v->ndim == 1 || v->role == SCION_ROLE_VECTOR || v->role == SCION_ROLE_NORMALIZATION)
        return VECTOR;
    return layer_of(v->role);
}

static double radius_of(const optimizer_options *o, const tape_value *v)
{
    const place at = place_of(v), layer = at == VECTOR ? layer_of(v->layer) : at;
    if (at == VECTOR && layer == HIDDEN && o->radius_vector > 0)
        return o->radius_vector;
    return layer == FIRST ? o->radius_first : layer == LAST ? o->radius_last : o->radius_hidden;
}

/* Whether the lmo of a norm is scaled otherwise for dense inputs than for hidden layers (spectral: by
 * max(1, sqrt(d_out/d_in)) instead of sqrt(d_out/d_in)): asked with a matrix of one row. */
static bool has_input_scale(int32_t norm)
{
    const float x[] = {1, 1, 1, 1};
    double value[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        scion_param p;
        scion_param_init(&p);
        p.ndim = 2;
        p.shape[0] = 1;
        p.shape[1] = 4;
        p.norm = norm;
        p.role = i == 0 ? SCION_ROLE_INPUT : SCION_ROLE_HIDDEN;
        scion_norm_value(&p, NULL, x, &value[i], NULL);
    }
    return value[0] != value[1];
}

/* input_scale=plain takes the max(1, ) out again, to show why it is there (appendix "Input radius scaling" of the
 * paper). */
static double input_factor(const scion_param *p)
{
    if (p->role != SCION_ROLE_INPUT || !has_input_scale(p->norm))
        return 1;
    return fmin(1, sqrt((double)p->shape[0] / (double)p->shape[1]));
}

scion_status routing_params(const config *c, const tape *t, scion_param *params, scion_error *err)
{
    const bool plain = strcmp(c->optimizer.input_scale, "plain") == 0;
    int32_t norm[3];
    scion_options o;
    scion_status status = config_norms(c, norm, err);
    if (status == SCION_OK)
        status = config_optimizer(c, &o, err);
    if (status != SCION_OK)
        return status;
    for (int64_t i = 0; i < tape_param_count(t); i++) {
        const tape_value *v = tape_param_at(t, i);
        scion_param *p = &params[i];
        const place at = place_of(v);
        const double radius = radius_of(&c->optimizer, v);
        scion_param_init(p);
        p->name = v->name;
        p->ndim = v->ndim;
        memcpy(p->shape, v->shape, sizeof p->shape);
        p->weight = tape_weights(v);
        p->grad = tape_grads(v);
        p->weight_type = (int32_t)v->weight_type;
        p->grad_type = (int32_t)v->grad_type;
        p->role = (int32_t)v->role;
        p->transposed = v->transposed;
        p->norm = at == VECTOR ? SCION_NORM_AUTO : norm[at];
        scion_param routed = *p;
        if (plain && scion_route(&routed, 1, &o, NULL) == SCION_OK)
            p->radius = radius * input_factor(&routed);
        else
            p->radius = radius;
        if (at == VECTOR && !c->optimizer.decay_vectors)
            p->weight_decay = 0;
        p->group = (int32_t)at;
    }
    return SCION_OK;
}
