/* From settings to a network: the chosen model recorded for batches of such data, the plan of its training, and its
 * parameters as the optimizer wants them, routed by role. */
#ifndef TRAIN_CONFIG_NETWORK_H
#define TRAIN_CONFIG_NETWORK_H

#include "config/config.h"
#include "data/data.h"
#include "models/model.h"
#include "tensor/plan.h"

/* The data must outlive the model. */
scion_status network_record(model *m, const config *c, const data_info *d, int64_t batch, scion_error *err);
plan_options network_plan_options(const config *c, int threads, bool pack);
/* Options of the optimizer, and one scion_param per parameter of the tape, in order, for the caller to free. */
scion_status network_params(const config *c, const tape *t, scion_options *o, scion_param **params, scion_error *err);

#endif
