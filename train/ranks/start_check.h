/* Checks that all ranks have the same settings, data and checkpoint before they train together. Each rank compares
 * itself with rank 0; messages name the difference. The caller lets all agree on the answers (comm_agree),
 * which name the rank. */
#ifndef TRAIN_RANKS_START_CHECK_H
#define TRAIN_RANKS_START_CHECK_H

#include "comm/comm.h"
#include "config/config.h"

/* The version of the program, the kernels of matrix products, and every setting but out and threads, which are a
 * rank's own. Sums of different kernels differ in their last bits: the result would depend on which rank made
 * them. */
scion_status start_check_settings(comm *c, const config *settings, scion_error *err);
/* The data as they were read. */
scion_status start_check_data(comm *c, const data_info *data, scion_error *err);
/* The step of a checkpoint, and the micro-batches of the next one that it has. */
scion_status start_check_position(comm *c, int64_t step, int64_t micro, scion_error *err);

/* Version, kernels and settings as lines of text. The caller frees it; NULL: out of memory. */
char *start_text(const char *version, const char *kernels, const config *settings);
/* Compares two such texts; EINVAL names the first line that differs. */
scion_status start_compare(const char *first, const char *own, scion_error *err);

#endif
