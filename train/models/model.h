/* Models: each records itself on a tape and declares its parameters with roles; none ever sees an optimizer, nor
 * options other than its own. One file each, one row in model_rows.c. */
#ifndef TRAIN_MODELS_MODEL_H
#define TRAIN_MODELS_MODEL_H

#include "base/option.h"
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

/* Why a radius need not be searched; NULL: it must. */
typedef struct model_radii {
    const char *first, *hidden; /* no parameter has this radius alone */
    /* While weights start and stay on their balls, another radius, or lr, has the same effect. */
    const char *first_scale, *hidden_scale;
} model_radii;

typedef struct model_row {
    const char *name, *help;
    bool tokens; /* wants sequences, else images */
    /* Options, in a struct of the model's own. A key that other models have too means the same type, default and range
     * there; it is set for all of them. */
    const option *options;
    size_t options_size;
    /* What no single option can see. NULL: nothing to check. */
    scion_status (*check)(const void *options, scion_error *err);
    void (*record)(model *m, const void *options, const model_shape *s);
    /* For tuning: which radii there is no need to search. NULL: all are searched. */
    void (*radii)(const void *options, model_radii *r);
    /* For tuning: the width of a smaller model to tune on. NULL: a quarter of the width. */
    int64_t (*proxy_width)(const void *options);
} model_row;

/* All models, ended by NULL. A test may bring a table of its own. */
extern const model_row *const model_rows[];

const char *model_name(int i); /* NULL past the last */

/* Records a model for a shape. Errors name what is wrong with the options. */
scion_status model_record(model *m, const model_row *row, const void *options, const model_shape *s,
                          scion_error *err);
void model_free(model *m);

#endif
