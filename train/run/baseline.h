/* A recorded loss to compare with. It is shown only beside runs that it compares with: `baseline_of` says what it was
 * measured on, as words key=value. Each option must have the value of the record, `data` is the hash of its data
 * (data_info.hash, 16 digits), and `rule` is the record's own, which must be another than the run's. */
#ifndef TRAIN_RUN_BASELINE_H
#define TRAIN_RUN_BASELINE_H

#include "config/config.h"

/* The recorded loss, or NAN: there is none for this run. */
double baseline_for(const config *c, const data_info *data);

#endif
