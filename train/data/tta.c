/* See tta.h. The views are airbench's (K. Jordan, "94% on CIFAR-10 in 3.29 seconds"): the untranslated image and its
 * mirror image together weigh as much as those moved by a pixel up-left and down-right. */
#include "data/tta.h"

#include <string.h>

#include "data/augment.h"

static const tta rows[] = {
    {"none", 1, {{0, 0, false, 1}}},
    {"mirror", 2, {{0, 0, false, 0.5f}, {0, 0, true, 0.5f}}},
    {"translate",
     6,
     {{0, 0, false, 0.25f},
      {0, 0, true, 0.25f},
      {-1, -1, false, 0.125f},
      {-1, -1, true, 0.125f},
      {1, 1, false, 0.125f},
      {1, 1, true, 0.125f}}},
};

enum { row_count = sizeof rows / sizeof *rows };

const char *tta_name(int i)
{
    return i >= 0 && i < row_count ? rows[i].name : NULL;
}

const tta *tta_find(const char *name)
{
    for (int i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return &rows[0];
}

void tta_apply(const tta_view *v, const data_array *a, int64_t count, const float *from, float *to)
{
    /* An array `pixels` is planes of one channel each, an array `image` planes of all channels. */
    const int64_t *shape = a->shape + !a->channels_last, height = shape[0], width = shape[1];
    const int64_t depth = a->channels_last ? shape[2] : 1;
    const int64_t planes = count * a->count / (height * width * depth);
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < height; y++) {
            const float *row = from + (p * height + data_reflected(y + v->dy, height)) * width * depth;
            float *out = to + (p * height + y) * width * depth;
            for (int64_t x = 0; x < width; x++) {
                const int64_t seen = data_reflected((v->mirror ? width - 1 - x : x) + v->dx, width);
                memcpy(out + x * depth, row + seen * depth, (size_t)depth * sizeof *out);
            }
        }
}
