/* Parts of making a trainer that creating, resuming and opening share. */
#ifndef TRAIN_RUN_TRAINER_PARTS_H
#define TRAIN_RUN_TRAINER_PARTS_H

#include "ops/ops.h"
#include "run/trainer.h"

scion_status trainer_new(trainer **out, const config *c, scion_error *err);
scion_status trainer_open_data(trainer *t, const char *vocabulary, scion_error *err);
scion_status trainer_record(trainer *t, bool training, scion_error *err);
/* Refuses a run that this machine's memory cannot hold; *m is the plan. */
scion_status trainer_check_memory(const trainer *t, trainer_memory *m, scion_error *err);
scion_status trainer_allocate(trainer *t, bool training, scion_error *err);
scion_status trainer_make_optimizer(trainer *t, scion_error *err);

#endif
