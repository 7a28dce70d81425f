/* From the caller's description of a parameter to its blocks, each of which has an lmo of its own. */
#ifndef SCN_LAYOUT_H
#define SCN_LAYOUT_H

#include "norm/norm.h"

typedef struct scn_layout {
    int64_t rows, cols, count; /* as a stored matrix */
    int64_t positions;         /* of a convolution kernel, else 1 */
    int norm, role;            /* AUTO routed */
    bool transposed, vector;   /* vector: of one dimension */
    int split_axis, blocks;
    bool whole; /* every block is one tile and keeps its rows; make leaves it false */
} scn_layout;

/* Checks and routes parameter number `index`. */
scion_status scn_layout_make(scn_layout *out, const scion_param *p, int routing, int64_t index, scion_error *err);

/* Block i. split_sizes is the parameter's. */
scn_block scn_layout_block(const scn_layout *l, const int64_t *split_sizes, int i);

/* Its name in messages: the caller's, or "param" and its number (in a buffer of 32 bytes). */
const char *scn_param_name(const scion_param *p, int64_t index, char *buffer);

#endif
