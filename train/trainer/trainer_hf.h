/* Weights, model and tokenizer of a folder of transformers, for `init`. Only networks that this program has are
 * taken: what model_export lists, read backwards. */
#ifndef TRAIN_TRAINER_TRAINER_HF_H
#define TRAIN_TRAINER_TRAINER_HF_H

#include "record/hf_folder.h"
#include "trainer/trainer_struct.h"

/* True if `init` names a folder of transformers and no run. */
bool trainer_hf_is(const char *init);
/* Sets *c to the defaults and the network of the folder. activation: the one that is wanted, if it is the folder's up
 * to a factor, which mlp.down then has less; NULL: the one that the exported run had, else that of config.json.
 * EINVAL: a network that this program does not have. */
scion_status trainer_hf_config(const hf_folder *f, const char *activation, config *c, scion_error *err);
/* Context for data of this model: range and tokenizer. *saved (free it) has the bytes of the tokenizer. Refuses
 * settings of c that name another one. */
scion_status trainer_hf_context(const hf_folder *f, const config *c, data_context *context, void **saved,
                                scion_error *err);
/* Fills the weights. Every tensor of the network must be there in its shape, gains must be ones, and nothing else may
 * be there. */
scion_status trainer_hf_weights(trainer *t, const hf_folder *f, scion_error *err);

#endif
