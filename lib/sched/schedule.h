/* Step-size schedules: one row each. */
#ifndef SCN_SCHEDULE_H
#define SCN_SCHEDULE_H

/* NULL: there is no such schedule. */
const char *scn_schedule_name(int kind);

#endif
