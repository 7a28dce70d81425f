/* The tables of models and kinds of data with a toy in each, in place of model_rows.c and data_kinds.c. */
#include "data/data_kind.h"
#include "models/model.h"

extern const model_row model_gpt, model_mlp, model_linear;
extern const data_kind data_kind_synthetic, data_kind_text, data_kind_dots;

const model_row *const model_rows[] = {&model_gpt, &model_mlp, &model_linear, NULL};
const data_kind *const data_kinds[] = {&data_kind_text, &data_kind_synthetic, &data_kind_dots, NULL};
