/* Step-size schedules: one row each. */
#ifndef SCN_SCHEDULE_H
#define SCN_SCHEDULE_H

#include "scion_advanced.h"

/* Copies a caller's schedule, which may be shorter or longer than ours. */
scion_status scn_schedule_take(scion_schedule *copy, const scion_schedule *s, scion_error *err);

#endif
