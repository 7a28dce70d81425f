/* Making a trainer: data, model, plans, memory, optimizer, in this order. trainer_files.c makes them new or from
 * files, forecast.c goes as far as the plans, trainer_ranks.c records the model in other sizes. */
#ifndef TRAIN_TRAINER_TRAINER_MAKE_H
#define TRAIN_TRAINER_TRAINER_MAKE_H

#include "trainer/trainer.h"

scion_status trainer_new(trainer **out, const config *c, scion_error *err);
/* *special: what is special about these data, else all zero. */
scion_status trainer_open_data(trainer *t, const data_context *special, scion_error *err);
/* Records the model and plans its runs; nothing large is allocated. */
scion_status trainer_record(trainer *t, bool training, scion_error *err);
/* The same model with micro-batches of another size, and the plan of its training steps. */
scion_status trainer_record_size(const trainer *t, int64_t batch, model *m, tape_plan **plan, scion_error *err);
/* Refuses a run that there is no memory for. */
scion_status trainer_check_memory(trainer *t, scion_error *err);
scion_status trainer_allocate(trainer *t, bool training, scion_error *err);
scion_status trainer_make_optimizer(trainer *t, scion_error *err);
/* The estimate of the optimizer's share of the memory becomes what it is. */
void trainer_count_optimizer(trainer *t);

/* An array of `needed` bytes for a whole model, zero; NULL: out of memory. */
float *trainer_flat_array(size_t needed);

#endif
