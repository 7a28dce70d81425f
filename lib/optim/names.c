/* Names of everything that can be chosen, for files, command lines and messages. */
#include <string.h>

#include "linalg/polar.h"
#include "optim/optimizer.h"

static const char *norm_name(int value)
{
    const scn_norm *n = scn_norm_at(value);
    return n ? n->about.name : value == SCION_NORM_AUTO ? "auto" : NULL;
}

static const char *rule_name(int value)
{
    const scn_rule *r = scn_rule_at(value);
    return r ? r->about.name : NULL;
}

static const char *polar_name(int value)
{
    const scn_polar_set *s = scn_polar_set_at(value);
    return s ? s->name : NULL;
}

static const char *schedule_name(int value)
{
    const scion_schedule_properties *s = scion_schedule_info(value);
    return s ? s->name : NULL;
}

static const char *start_name(int value)
{
    static const char *const names[] = {"boundary", "zero", "uniform"};
    return value >= 0 && (size_t)value < sizeof names / sizeof *names ? names[value] : NULL;
}

static const char *(*const tables[])(int) = {
    [SCION_ENUM_NORM] = norm_name,   [SCION_ENUM_ROLE] = scn_role_name, [SCION_ENUM_ROUTING] = scn_routing_name,
    [SCION_ENUM_RULE] = rule_name,   [SCION_ENUM_POLAR] = polar_name,   [SCION_ENUM_SCHEDULE] = schedule_name,
    [SCION_ENUM_START] = start_name,
};

const char *scion_enum_name(int32_t kind, int32_t value)
{
    size_t i = (size_t)kind;
    return i < sizeof tables / sizeof *tables ? tables[i](value) : NULL;
}

int32_t scion_enum_value(int32_t kind, const char *name)
{
    const char *known;
    for (int32_t value = 0; name && (known = scion_enum_name(kind, value)) != NULL; value++)
        if (strcmp(known, name) == 0)
            return value;
    return -1;
}
