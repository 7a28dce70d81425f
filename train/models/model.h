/* Models: each records itself on a tape and declares its parameters with roles; none ever sees an optimizer. One file
 * each, one row in the table of model.c. */
#ifndef TRAIN_MODELS_MODEL_H
#define TRAIN_MODELS_MODEL_H

#include "config/config.h"
#include "tensor/tape.h"

/* What the data gives. */
typedef struct model_shape {
    int64_t batch, block;      /* block: positions, 1 for images */
    int64_t vocab;             /* tokens, else 0 */
    int64_t features, classes; /* images, else 0 */
} model_shape;

/* A recorded model: inputs to fill, loss to read. */
typedef struct model {
    tape *tape;
    tape_value *tokens, *targets; /* gpt: (B, T); mlp: targets are labels (B) */
    tape_value *pixels;           /* mlp: (B, features) */
    tape_value *loss;
} model;

typedef struct model_row {
    const char *name, *help;
    bool tokens; /* wants sequences, else images */
    void (*record)(model *m, const config *c, const model_shape *s);
} model_row;

const model_row *model_at(int i);              /* NULL past the last */
const model_row *model_find(const char *name); /* NULL: none */

/* Records c's model for a shape. Errors name what is wrong with the configuration. */
scion_status model_record(model *m, const config *c, const model_shape *s, scion_error *err);
void model_free(model *m);

#endif
