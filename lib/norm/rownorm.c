/* RowNorm: operator norm RMS -> inf.
 *     size = max_i ||row_i||_2,   dual size = sum_i ||row_i||_2,   direction_i = row_i / ||row_i||_2,
 *     c = 1/sqrt(d_in); one-hot input 1.
 * A zero row has no direction: its update is zero. */
#include <math.h>

#include "norm/row_col_norm.h"

static double factor(int role, scn_dims d)
{
    return role == SCION_ROLE_ONEHOT || role == SCION_ROLE_PLAIN ? 1 : 1 / sqrt(d.d_in * d.positions);
}

const scn_norm scn_norm_row = {
    .about = {sizeof(scion_norm_properties), "rownorm", "RMS -> inf: largest row", 0, 0},
    .along_rows = true,
    .factor = factor,
    .granularity = scn_row_col_granularity,
    .size = scn_row_col_size,
    .dual_size = scn_row_col_dual,
    .lmo = scn_row_col_lmo,
    .init = scn_row_col_init,
    .memory = scn_row_col_memory,
};
