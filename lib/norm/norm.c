/* Looking up norms, and the table of routings. */
#include "norm/norm.h"

/* Norms of the places in a network. */
static const struct {
    const char *name;
    int first, hidden, last, vector;
} routings[] = {
    [SCION_ROUTING_IMAGE] = {"image", SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
    [SCION_ROUTING_ONEHOT] = {"onehot", SCION_NORM_COL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
    [SCION_ROUTING_SHARED] = {"shared", SCION_NORM_SIGN, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
    [SCION_ROUTING_SIGN] = {"sign", SCION_NORM_SIGN, SCION_NORM_SIGN, SCION_NORM_SIGN, SCION_NORM_MAX},
    [SCION_ROUTING_COL] = {"colnorm", SCION_NORM_COL, SCION_NORM_COL, SCION_NORM_COL, SCION_NORM_RMS},
    [SCION_ROUTING_ROW] = {"rownorm", SCION_NORM_ROW, SCION_NORM_ROW, SCION_NORM_ROW, SCION_NORM_RMS},
    [SCION_ROUTING_SPECTRAL] = {"spectral", SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL,
                                SCION_NORM_RMS},
};

static const char *const roles[] = {
    [SCION_ROLE_HIDDEN] = "hidden", [SCION_ROLE_ONEHOT] = "onehot", [SCION_ROLE_INPUT] = "input",
    [SCION_ROLE_OUTPUT] = "output", [SCION_ROLE_VECTOR] = "vector", [SCION_ROLE_NORMALIZATION] = "normalization",
    [SCION_ROLE_PLAIN] = "plain",
};

const scn_norm *scn_norm_at(int norm)
{
    return norm >= 0 && norm < scn_norm_count ? scn_norm_rows[norm] : NULL;
}

const char *scn_routing_name(int routing)
{
    size_t i = (size_t)routing;
    return i < sizeof routings / sizeof *routings ? routings[i].name : NULL;
}

const char *scn_role_name(int role)
{
    size_t i = (size_t)role;
    return i < sizeof roles / sizeof *roles ? roles[i] : NULL;
}

int scn_route(int routing, int role, int32_t ndim)
{
    if (role == SCION_ROLE_NORMALIZATION)
        return SCION_NORM_EUCLID;
    if (role == SCION_ROLE_VECTOR || ndim == 1)
        return routings[routing].vector;
    if (role == SCION_ROLE_OUTPUT)
        return routings[routing].last;
    const bool first = role == SCION_ROLE_ONEHOT || role == SCION_ROLE_INPUT;
    return first ? routings[routing].first : routings[routing].hidden;
}

const scion_norm_properties *scion_norm_info(int32_t norm)
{
    const scn_norm *row = scn_norm_at(norm);
    return row ? &row->about : NULL;
}
