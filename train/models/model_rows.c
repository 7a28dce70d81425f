/* The table of models. It is a file of its own, so that a test can link another. */
#include "models/model.h"

extern const model_row model_gpt, model_mlp, model_cnn, model_vit;

const model_row *const model_rows[] = {&model_gpt, &model_mlp, &model_cnn, &model_vit, NULL};
