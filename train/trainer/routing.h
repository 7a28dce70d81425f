/* From the model's roles and the configuration to the optimizer's parameters. */
#ifndef TRAIN_TRAINER_ROUTING_H
#define TRAIN_TRAINER_ROUTING_H

#include "config/config.h"
#include "tensor/tape.h"

/* One scion_param per parameter of the tape, in order; params has room for them all. */
scion_status routing_params(const config *c, const tape *t, scion_param *params, scion_error *err);

#endif
