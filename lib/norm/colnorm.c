/* ColNorm: operator norm 1 -> RMS.
 *     size = max_j ||col_j||_2,   dual size = sum_j ||col_j||_2,   direction_j = col_j / ||col_j||_2,
 *     c = sqrt(d_out)/d_in; one-hot input sqrt(d_out).
 * A zero column has no direction: its update is zero. An embedding table is stored transposed, so that its
 * columns are rows in memory. */
#include <math.h>

#include "norm/row_col_norm.h"

static double factor(int role, scn_dims d)
{
    if (role == SCION_ROLE_PLAIN)
        return 1;
    return role == SCION_ROLE_ONEHOT ? sqrt(d.d_out) : sqrt(d.d_out) / (d.d_in * d.positions);
}

const scn_norm scn_norm_col = {
    .about = {sizeof(scion_norm_properties), "colnorm", "1 -> RMS: largest column", 0, 0},
    .factor = factor,
    .granularity = scn_row_col_granularity,
    .size = scn_row_col_size,
    .dual_size = scn_row_col_dual,
    .lmo = scn_row_col_lmo,
    .init = scn_row_col_init,
    .memory = scn_row_col_memory,
};
