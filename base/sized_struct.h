/* Public structs begin with their size and grow at their end. An older program's struct is shorter: missing
 * members take their defaults. A newer program's is longer: members that we do not know must be zero. */
#ifndef SCN_SIZED_STRUCT_H
#define SCN_SIZED_STRUCT_H

#include "base/status.h"

/* Copies a caller's struct over the defaults in `ours`. Refuses one that ends before `min` bytes or has members
 * beyond ours that are not zero; `what` and `param` name it in the message. */
scion_status scn_struct_take(void *ours, size_t our_size, const void *theirs, size_t min, const char *what,
                             int64_t param, scion_error *err);
/* Fills a caller's struct of `size` bytes with as much of ours as it holds, then zeros. Its size stays. NULL: nothing
 * happens. */
void scn_struct_give(void *theirs, size_t size, const void *ours, size_t our_size);

#endif
