/* A flat array in one row of a table that takes the place of flat_rows.c: the mean of the weights after every step so
 * far, which validations measure. Of weights in float32. */
#include "trainer/flat.h"

static void average(const config *c, const tape *t, const void *weights, void *array, int64_t steps)
{
    const float *w = weights;
    float *mean = array;
    (void)c;
    for (int64_t i = 0; i < tape_param_elements(t); i++)
        mean[i] += (w[i] - mean[i]) / (float)steps;
}

const flat_row flat_rows[] = {
    [FLAT_WEIGHTS] = {"weights", LIKE_WEIGHTS, .saved = ""},
    [FLAT_GRADS] = {"gradients", LIKE_GRADS, .training = true, .saved = "optimizer.average.", .light = true},
    [FLAT_GRADS_BEFORE] = {"gradients before", LIKE_GRADS, .training = true, .wanted = flat_wants_grads_before},
    [FLAT_BUFFERS] = {"buffers", LIKE_BUFFERS, .saved = ""},
    [FLAT_BUFFERS_BEFORE] = {"buffers before", LIKE_BUFFERS, .training = true},
    [FLAT_OWN] = {"average of weights", LIKE_WEIGHTS, .training = true, .saved = "average_weights.",
                  .after_step = average, .validated = true},
    {0},
};
