/* The flat arrays of a model (flat.h). */
#include "trainer/flat.h"

const flat_row flat_rows[] = {
    [FLAT_WEIGHTS] = {"weights", LIKE_WEIGHTS, .saved = ""},
    /* With `light` they hold the average. */
    [FLAT_GRADS] = {"gradients", LIKE_GRADS, .training = true, .saved = "optimizer.average.", .light = true},
    [FLAT_GRADS_BEFORE] = {"gradients before", LIKE_GRADS, .training = true, .wanted = flat_wants_grads_before},
    [FLAT_BUFFERS] = {"buffers", LIKE_BUFFERS, .saved = ""},
    [FLAT_BUFFERS_BEFORE] = {"buffers before", LIKE_BUFFERS, .training = true},
    {0},
};
