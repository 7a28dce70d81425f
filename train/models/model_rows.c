/* The table of models, in its own file so that tests can link another. */
#include "models/model.h"

extern const model_row model_gpt, model_mlp, model_cnn, model_vit;

const model_row *const model_rows[] = {&model_gpt, &model_mlp, &model_cnn, &model_vit, NULL};
