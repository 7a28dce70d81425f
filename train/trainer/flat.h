/* Flat arrays of a model: weights, gradients, buffers, and copies of them. The memory plan, allocation, binding,
 * checkpoint, ranks and validation walk one list of rows; an array more (an average of the weights, say) is a row. */
#ifndef TRAIN_TRAINER_FLAT_H
#define TRAIN_TRAINER_FLAT_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "tensor/tape.h"

/* Layout of an array: element types and offsets as weights, gradients or buffers of the tape have them. */
typedef enum flat_like { LIKE_WEIGHTS, LIKE_GRADS, LIKE_BUFFERS } flat_like;

/* Rows that the trainer itself uses; others follow. */
typedef enum flat_index {
    FLAT_WEIGHTS,
    FLAT_GRADS,
    FLAT_GRADS_BEFORE, /* mars: the gradient at the weights before */
    FLAT_BUFFERS,
    FLAT_BUFFERS_BEFORE, /* as they were before this step */
    FLAT_OWN
} flat_index;

enum { FLATS_MAX = 8 };

typedef struct flat_row {
    const char *name;
    flat_like like;
    bool training;                   /* made only for training */
    bool (*wanted)(const config *c); /* and if this is true; NULL: always */
    const char *saved;               /* prefix of its tensors in a checkpoint; NULL: it is not saved */
    bool light;                      /* saved only with `light` */
    /* Called after each step, with all weights up to date on every rank; steps: taken so far. NULL: nothing to do. */
    void (*after_step)(const config *c, const tape *t, const void *weights, void *array, int64_t steps);
    /* A copy of the weights (LIKE_WEIGHTS) starts as they do. Validated: validations measure it in their place, and a
     * trained model in use (trainer_use) has it in their place. */
    bool validated;
} flat_row;

/* All rows in the order of flat_index, ended by one without a name. A test may bring a table of its own. */
extern const flat_row flat_rows[];

/* Bytes of an array of this layout for a recorded model. */
size_t flat_bytes(const tape *t, flat_like like);
/* Address of a parameter (LIKE_WEIGHTS, LIKE_GRADS) or buffer in such an array, and its type there. */
void *flat_at(void *array, flat_like like, const tape_value *v);
scion_dtype flat_type(flat_like like, const tape_value *v);
/* Allocates zeros, aligned and on large pages where possible; NULL: out of memory. */
void *flat_allocate(size_t bytes);

/* True if the rule needs gradients at the weights before. */
bool flat_wants_grads_before(const config *c);

#endif
