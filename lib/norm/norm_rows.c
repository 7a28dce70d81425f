/* The table of norms. A test may bring a table of its own (tests/toys). */
#include "norm/norm.h"

const scn_norm *const scn_norm_rows[] = {
    [SCION_NORM_AUTO] = NULL,
    [SCION_NORM_SPECTRAL] = &scn_norm_spectral,
    [SCION_NORM_COL] = &scn_norm_col,
    [SCION_NORM_ROW] = &scn_norm_row,
    [SCION_NORM_SIGN] = &scn_norm_sign,
    [SCION_NORM_RMS] = &scn_norm_rms,
    [SCION_NORM_EUCLID] = &scn_norm_euclid,
    [SCION_NORM_MAX] = &scn_norm_max,
};

const int scn_norm_count = sizeof scn_norm_rows / sizeof *scn_norm_rows;
