/* Before ranks train together: are they of one mind? Each rank compares itself with rank 0; messages say what is
 * different here. The caller lets all agree on the answers (comm_agree), which name the rank. */
#ifndef TRAIN_RANKS_START_CHECK_H
#define TRAIN_RANKS_START_CHECK_H

#include "comm/comm.h"
#include "trainer/trainer.h"

/* The version of the program, and every setting but out and threads, which are a rank's own. */
scion_status start_check_settings(comm *c, const config *settings, scion_error *err);
/* The data as they were read. */
scion_status start_check_data(comm *c, const data_info *data, scion_error *err);
/* The step that a checkpoint is of. */
scion_status start_check_position(comm *c, const trainer *t, scion_error *err);

/* What the first compares: lines "key=value", the version first. The caller frees it; NULL: out of memory. */
char *start_text(const char *version, const config *settings);
/* Whether two of them are the same; EINVAL names the first line that is not. */
scion_status start_compare(const char *first, const char *own, scion_error *err);

#endif
