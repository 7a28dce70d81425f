/* The table of rules. A test may bring a table of its own (tests/toys). */
#include "optim/optimizer.h"

const scn_rule *const scn_rule_rows[] = {
    [SCION_RULE_SCION] = &scn_rule_scion,     [SCION_RULE_USCION] = &scn_rule_uscion,
    [SCION_RULE_ALMOND] = &scn_rule_almond,   [SCION_RULE_MUON] = &scn_rule_muon,
    [SCION_RULE_SIGNSGD] = &scn_rule_signsgd, [SCION_RULE_SIGNUM] = &scn_rule_signum,
    [SCION_RULE_NSGD] = &scn_rule_nsgd,       [SCION_RULE_MNSGD] = &scn_rule_mnsgd,
    [SCION_RULE_SSD] = &scn_rule_ssd,         [SCION_RULE_MARS] = &scn_rule_mars,
    [SCION_RULE_ADAMW] = &scn_rule_adamw,     [SCION_RULE_SGD] = &scn_rule_sgd,
};

const int scn_rule_count = sizeof scn_rule_rows / sizeof *scn_rule_rows;
