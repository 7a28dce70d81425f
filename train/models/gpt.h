/* Options of gpt, for gpt.c and gpt_decode.c. */
#ifndef TRAIN_MODELS_GPT_H
#define TRAIN_MODELS_GPT_H

#include "base/option.h"

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

#endif
