/* See routing.h. `norms` is the name of a configuration of scion.h (onehot, image, shared, sign, ...) or three norms
 * "first,hidden,last", for the paper's sweeps over input and output layers; vectors then take RMS. The radius goes by
 * role: first layer, last layer, and everything else hidden. */
#include "run/routing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "norm/norm.h"

typedef enum place { FIRST, HIDDEN, LAST, VECTOR } place;

static place place_of(const tape_value *v)
{
    if (v->ndim == 1 || v->role == SCION_ROLE_VECTOR || v->role == SCION_ROLE_NORMALIZATION)
        return VECTOR;
    if (v->role == SCION_ROLE_OUTPUT)
        return LAST;
    return v->role == SCION_ROLE_ONEHOT || v->role == SCION_ROLE_INPUT ? FIRST : HIDDEN;
}

/* "a,b,c" into three norms. */
static scion_status three_norms(const char *text, scion_norm norm[3], scion_error *err)
{
    char name[3][32] = {"", "", ""};
    if (sscanf(text, "%31[^,],%31[^,],%31[^,]", name[0], name[1], name[2]) == 3) {
        int found[3];
        for (int i = 0; i < 3; i++) {
            found[i] = scion_enum_value(SCION_ENUM_NORM, name[i]);
            norm[i] = (scion_norm)found[i];
        }
        if (found[0] > 0 && found[1] > 0 && found[2] > 0)
            return SCION_OK;
    }
    return train_fail(err, SCION_EINVAL,
                      "norms: \"%s\" is neither a configuration (image, onehot, shared, sign, colnorm, rownorm, "
                      "spectral) nor three norms such as colnorm,spectral,sign",
                      text);
}

/* The library scales a spectral layer of dense inputs by max(1, sqrt(d_out/d_in)); input_scale=plain takes the 1 out
 * again, to show why it is there (appendix "Input radius scaling" of the paper). */
static double input_factor(const config *c, const tape_value *v, scion_norm norm)
{
    const int named = scion_enum_value(SCION_ENUM_ROUTING, c->optimizer.norms);
    if (norm == SCION_NORM_AUTO && named >= 0)
        norm = scn_route((scion_routing)named, v->role, v->ndim);
    if (v->role != SCION_ROLE_INPUT || norm != SCION_NORM_SPECTRAL || strcmp(c->optimizer.input_scale, "plain") != 0)
        return 1;
    return fmin(1, sqrt((double)v->shape[0] / (double)v->shape[1]));
}

scion_status routing_params(const config *c, const tape *t, scion_param *params, scion_error *err)
{
    scion_norm norm[3] = {SCION_NORM_AUTO, SCION_NORM_AUTO, SCION_NORM_AUTO};
    const double radius[] = {c->optimizer.radius_first, c->optimizer.radius_hidden, c->optimizer.radius_last,
                             c->optimizer.radius_hidden};
    if (scion_enum_value(SCION_ENUM_ROUTING, c->optimizer.norms) < 0) {
        scion_status status = three_norms(c->optimizer.norms, norm, err);
        if (status != SCION_OK)
            return status;
    }
    for (int64_t i = 0; i < tape_param_count(t); i++) {
        const tape_value *v = tape_param_at(t, i);
        scion_param *p = &params[i];
        place at = place_of(v);
        scion_param_init(p);
        p->name = v->name;
        p->ndim = v->ndim;
        memcpy(p->shape, v->shape, sizeof p->shape);
        p->weight = v->data;
        p->grad = v->grad;
        p->role = (int32_t)v->role;
        p->transposed = v->transposed;
        p->norm = at == VECTOR ? SCION_NORM_AUTO : (int32_t)norm[at];
        p->radius = radius[at] * input_factor(c, v, p->norm);
        p->group = (int32_t)at;
    }
    return SCION_OK;
}
