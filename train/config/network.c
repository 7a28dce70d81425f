/* See network.h. `norms` is the name of a configuration of scion.h (onehot, image, shared, sign, ...) or three norms
 * "first,hidden,last", for the paper's sweeps over input and output layers; vectors then take RMS. The radius goes by
 * role: first layer, last layer, and everything else hidden; a bias has that of its layer, where radius_vector does
 * not say otherwise. */
#include "config/network.h"

#include <stdlib.h>
#include <string.h>

#include "util/fail.h"

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

/* input_scale=plain scales a first layer as a hidden one: without the max(1, ) of the spectral norm, to show why it
 * is there (appendix "Input radius scaling" of the paper). */
static double plain_factor(const scion_param *p, const scion_options *o)
{
    scion_param hidden = *p;
    scion_param_properties own, other;
    scion_param_properties_init(&own);
    scion_param_properties_init(&other);
    hidden.role = SCION_ROLE_HIDDEN;
    if (p->role != SCION_ROLE_INPUT || scion_param_info(p, o, &own, NULL) != SCION_OK)
        return 1;
    hidden.norm = own.norm;
    return scion_param_info(&hidden, o, &other, NULL) == SCION_OK ? other.scale / own.scale : 1;
}

/* Fills in the parameters, whose options are o. */
static scion_status route(const config *c, const tape *t, const scion_options *o, scion_param *params,
                          scion_error *err)
{
    const bool plain = c->optimizer.input_scale == INPUT_SCALE_PLAIN;
    int32_t norm[3];
    const scion_status status = config_norms(c, norm, err);
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(t); i++) {
        const tape_value *v = tape_param_at(t, i);
        scion_param *p = &params[i];
        const place at = place_of(v);
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
        p->radius = radius_of(&c->optimizer, v) * (plain ? plain_factor(p, o) : 1);
        if (at == VECTOR && !c->optimizer.decay_vectors)
            p->weight_decay = 0;
        p->group = (int32_t)at;
    }
    return status;
}

scion_status network_params(const config *c, const tape *t, scion_options *o, scion_param **params, scion_error *err)
{
    scion_status status;
    *params = calloc((size_t)tape_param_count(t) + 1, sizeof **params);
    TRY(*params ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the optimizer"));
    TRY(config_optimizer(c, o, err));
    TRY(route(c, t, o, *params, err));
done:
    if (status != SCION_OK) {
        free(*params);
        *params = NULL;
    }
    return status;
}

scion_status network_record(model *m, const config *c, const data_info *d, int64_t batch, scion_error *err)
{
    const scion_status status = model_record(m, config_model(c), config_model_options(c), d, batch, err);
    if (status == SCION_OK)
        tape_store(m->tape, (scion_dtype)c->training.weights, (scion_dtype)c->training.grads);
    return status;
}

plan_options network_plan_options(const config *c, int threads, bool pack)
{
    return (plan_options){.mode = PLAN_TRAINING,
                          .threads = threads,
                          .pack = pack,
                          .bf16 = (scion_dtype)c->training.activations == SCION_BF16,
                          .compute = (scion_dtype)c->training.compute};
}
