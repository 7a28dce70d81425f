/* Step-size schedules: one row each. */
#ifndef SCN_SCHEDULE_H
#define SCN_SCHEDULE_H

#include "scion.h"

/* NULL: there is no such schedule. */
const char *scn_schedule_name(int kind);

/* Copies a caller's schedule, which may be shorter or longer than ours. */
scion_status scn_schedule_take(scion_schedule *copy, const scion_schedule *s, scion_error *err);

#endif
