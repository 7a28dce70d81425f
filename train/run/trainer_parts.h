/* What the files of a trainer share (trainer.c, trainer_make.c, trainer_evaluate.c, trainer_files.c); nobody else
 * includes it. */
#ifndef TRAIN_RUN_TRAINER_PARTS_H
#define TRAIN_RUN_TRAINER_PARTS_H

#include "data/tta.h"
#include "run/trainer.h"

/* ---- Making one, in this order ---- */
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

/* ---- Its settings ---- */
const scion_rule_properties *trainer_rule(const trainer *t);
const tta *trainer_tta(const trainer *t);
double trainer_lr_at(const training_options *o, int64_t steps, int64_t step);

/* ---- Batches ---- */
/* Where a plan wants the arrays of a batch. */
void trainer_find_inputs(const trainer *t, const tape_plan *p, void *arrays[DATA_ARRAYS]);
/* Batch `index` of a part into a plan's inputs; the next one is decoded meanwhile, if it must be. */
scion_status trainer_fill(const trainer *t, const tape_plan *p, data_part part, int64_t index, scion_error *err);
/* Whether somebody wants it to stop. */
bool trainer_stopped(const trainer *t);

/* ---- Finite or not ---- */
/* The first of n values that is not finite, by its name; NULL: all are. */
const char *trainer_find_nonfinite(tape_value *(*value)(const tape *t, int64_t i), const tape *t, int64_t n);
const char *trainer_nonfinite_buffer(const trainer *t);

#endif
