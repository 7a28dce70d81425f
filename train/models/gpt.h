/* Options of gpt, for gpt.c and gpt_decode.c. */
#ifndef TRAIN_MODELS_GPT_H
#define TRAIN_MODELS_GPT_H

#include "models/model.h"

typedef struct gpt_options {
    int64_t layers, width, head_size;
    char activation[OPTION_NAME];
    bool tied;      /* one matrix for embedding and output */
    bool zero_init; /* projections back into the residual start at zero */
    bool qk_norm;
    bool recompute;
    double rotary_base;
    double smoothing; /* label smoothing */
} gpt_options;

/* The forward pass for one position at a time, with a cache of the keys and values of earlier positions. When the
 * context is full, its second half is fed again from position 0 and the first half is dropped. */
extern const model_decode gpt_decode;

#endif
