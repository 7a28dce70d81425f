/* Test-time augmentation: a model sees several views of an image, and the mean of its logits decides. */
#ifndef TRAIN_DATA_TTA_H
#define TRAIN_DATA_TTA_H

#include "data/data.h"

/* The image moved by (dy, dx) with its border reflected, then mirrored or not; weights sum to 1. */
typedef struct tta_view {
    int dy, dx;
    bool mirror;
    float weight;
} tta_view;

typedef struct tta {
    const char *name;
    int count;
    tta_view views[6]; /* the first is the image as it is */
} tta;

const char *tta_name(int i); /* "none" first; NULL past the last */
const tta *tta_find(const char *name);

/* Writes a view of `count` images of an array `pixels` or `image`. */
void tta_apply(const tta_view *v, const data_array *a, int64_t count, const float *from, float *to);

#endif
