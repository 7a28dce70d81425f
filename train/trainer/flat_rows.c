/* The flat arrays of a model (flat.h). */
#include "trainer/flat.h"

const flat_row flat_rows[] = {
    [FLAT_WEIGHTS] = {"weights", LIKE_WEIGHTS, .saved = flat_saved_plain},
    [FLAT_GRADS] = {"gradients", LIKE_GRADS, .wanted = flat_wants_training, .saved = flat_saved_light},
    [FLAT_GRADS_BEFORE] = {"gradients before", LIKE_GRADS, .wanted = flat_wants_grads_before},
    [FLAT_BUFFERS] = {"buffers", LIKE_BUFFERS, .saved = flat_saved_plain},
    [FLAT_BUFFERS_BEFORE] = {"buffers before", LIKE_BUFFERS, .wanted = flat_wants_training},
    {0},
};
