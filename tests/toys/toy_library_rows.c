/* The library's tables with a toy in each, in place of norm_rows.c and rule_rows.c. */
#include "optim/optimizer.h"

extern const scn_norm toy_norm_sum;
extern const scn_rule toy_rule_lion, toy_rule_normuon;

const scn_norm *const scn_norm_rows[] = {
    [SCION_NORM_SPECTRAL] = &scn_norm_spectral, [SCION_NORM_COL] = &scn_norm_col,
    [SCION_NORM_ROW] = &scn_norm_row,           [SCION_NORM_SIGN] = &scn_norm_sign,
    [SCION_NORM_RMS] = &scn_norm_rms,           [SCION_NORM_EUCLID] = &scn_norm_euclid,
    [SCION_NORM_MAX] = &scn_norm_max,           [SCION_NORM_MAX + 1] = &toy_norm_sum,
};
const int scn_norm_count = sizeof scn_norm_rows / sizeof *scn_norm_rows;

const scn_rule *const scn_rule_rows[] = {
    [SCION_RULE_SCION] = &scn_rule_scion,     [SCION_RULE_USCION] = &scn_rule_uscion,
    [SCION_RULE_ALMOND] = &scn_rule_almond,   [SCION_RULE_MUON] = &scn_rule_muon,
    [SCION_RULE_SIGNSGD] = &scn_rule_signsgd, [SCION_RULE_SIGNUM] = &scn_rule_signum,
    [SCION_RULE_NSGD] = &scn_rule_nsgd,       [SCION_RULE_MNSGD] = &scn_rule_mnsgd,
    [SCION_RULE_SSD] = &scn_rule_ssd,         [SCION_RULE_MARS] = &scn_rule_mars,
    [SCION_RULE_ADAMW] = &scn_rule_adamw,     [SCION_RULE_SGD] = &scn_rule_sgd,
    [SCION_RULE_SGD + 1] = &toy_rule_lion,    [SCION_RULE_SGD + 2] = &toy_rule_normuon,
};
const int scn_rule_count = sizeof scn_rule_rows / sizeof *scn_rule_rows;
