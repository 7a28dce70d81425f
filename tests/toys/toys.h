/* Declarations that the toys of this folder share. */
#ifndef TESTS_TOYS_H
#define TESTS_TOYS_H

#include "ops/ops.h"

/* x (N, C) minus the mean of its columns; mean (C) and updates (1) are buffers. */
tape_value *toy_center(tape *t, tape_value *x, tape_value *mean, tape_value *updates);

#endif
