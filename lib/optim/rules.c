/* The table of rules. Special cases of the lmo step (the paper's Table 1) are rows, not code. */
#include <string.h>

#include "optim/optimizer.h"

static const scn_rule rules[] = {
    /* name       average             norm             alpha decay  light  layerwise states entrywise */
    [SCION_RULE_SCION] = {"scion", SCN_AVERAGE_EMA, SCION_NORM_AUTO, 0.1, 1, true, true, 1, false},
    [SCION_RULE_USCION] = {"uscion", SCN_AVERAGE_EMA, SCION_NORM_AUTO, 0.1, 0, true, true, 1, false},
    [SCION_RULE_ALMOND] = {"almond", SCN_AVERAGE_LMO, SCION_NORM_AUTO, 0.1, 0, false, true, 1, false},
    [SCION_RULE_MUON] = {"muon", SCN_AVERAGE_HEAVY, SCION_NORM_SPECTRAL, 0.1, 0, false, true, 1, false},
    [SCION_RULE_SIGNSGD] = {"signsgd", SCN_AVERAGE_NONE, SCION_NORM_MAX, 1, 0, false, true, 0, false},
    [SCION_RULE_SIGNUM] = {"signum", SCN_AVERAGE_EMA, SCION_NORM_MAX, 0.1, 0, true, true, 1, false},
    [SCION_RULE_NSGD] = {"nsgd", SCN_AVERAGE_NONE, SCION_NORM_EUCLID, 1, 0, false, false, 0, false},
    [SCION_RULE_MNSGD] = {"mnsgd", SCN_AVERAGE_EMA, SCION_NORM_EUCLID, 0.1, 0, true, false, 1, false},
    [SCION_RULE_SSD] = {"ssd", SCN_AVERAGE_NONE, SCION_NORM_AUTO, 1, 0, false, true, 0, false},
    [SCION_RULE_MARS] = {"mars", SCN_AVERAGE_STORM, SCION_NORM_AUTO, 0.1, 1, false, true, 1, false},
    [SCION_RULE_ADAMW] = {"adamw", SCN_AVERAGE_NONE, SCION_NORM_AUTO, 1, 0, false, true, 2, true},
    [SCION_RULE_SGD] = {"sgd", SCN_AVERAGE_NONE, SCION_NORM_AUTO, 1, 0, false, true, 1, true},
};

const scn_rule *scn_rule_at(scion_rule rule)
{
    size_t i = (size_t)rule;
    return i < sizeof rules / sizeof *rules ? &rules[i] : NULL;
}

void scion_options_init_sized(scion_options *o, size_t size, scion_rule rule)
{
    const scn_rule *row = scn_rule_at(rule);
    scion_options fresh = {
        .size = size,
        .rule = rule,
        .momentum = row ? row->alpha : 1,
        .layerwise = row ? row->layerwise : 1,
        .nesterov = rule == SCION_RULE_MUON,
        .muon_multiplier = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .adam_eps = 1e-8,
    };
    memcpy(o, &fresh, size < sizeof fresh ? size : sizeof fresh);
}
