/* The rows of the table of models, one per file. */
#ifndef TRAIN_MODELS_MODELS_H
#define TRAIN_MODELS_MODELS_H

#include "models/model.h"

extern const model_row model_gpt, model_mlp;

#endif
