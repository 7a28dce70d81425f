/* Names of everything that can be chosen, for files, command lines and messages. */
#include <string.h>

#include "linalg/polar.h"
#include "optim/optimizer.h"
#include "sched/schedule.h"

static const char *norm_name(int value)
{
    const scn_norm *n = scn_norm_at((scion_norm)value);
    return n ? n->name : value == SCION_NORM_AUTO ? "auto" : NULL;
}

static const char *role_name(int value)
{
    static const char *const names[] = {"hidden", "onehot", "input", "output", "vector", "normalization", "plain"};
    return value >= 0 && (size_t)value < sizeof names / sizeof *names ? names[value] : NULL;
}

static const char *config_name(int value)
{
    static const char *const names[] = {"image", "onehot", "shared", "sign", "colnorm", "rownorm", "spectral"};
    return value >= 0 && (size_t)value < sizeof names / sizeof *names ? names[value] : NULL;
}

static const char *rule_name(int value)
{
    const scn_rule *r = scn_rule_at((scion_rule)value);
    return r ? r->name : NULL;
}

static const char *polar_name(int value)
{
    const scn_polar_set *s = scn_polar_set_at(value);
    return s ? s->name : NULL;
}

static const char *(*const tables[])(int) = {
    [SCION_ENUM_NORM] = norm_name, [SCION_ENUM_ROLE] = role_name,   [SCION_ENUM_ROUTING] = config_name,
    [SCION_ENUM_RULE] = rule_name, [SCION_ENUM_POLAR] = polar_name, [SCION_ENUM_SCHEDULE] = scn_schedule_name,
};

const char *scion_enum_name(scion_enum kind, int value)
{
    size_t i = (size_t)kind;
    return i < sizeof tables / sizeof *tables ? tables[i](value) : NULL;
}

int scion_enum_value(scion_enum kind, const char *name)
{
    const char *known;
    for (int value = 0; name && (known = scion_enum_name(kind, value)) != NULL; value++)
        if (strcmp(known, name) == 0)
            return value;
    return -1;
}
