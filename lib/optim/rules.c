/* The rules. Special cases of the lmo step (the paper's Table 1) are rows, not code. */
#include <math.h>

#include "optim/optimizer.h"

/* Muon: hidden matrices, unless they ask for another norm than its own. */
static bool hidden_matrix(const scn_rule *rule, const scion_param *p)
{
    return p->ndim > 1 && (p->role == SCION_ROLE_HIDDEN || p->role == SCION_ROLE_PLAIN) &&
           (p->norm == SCION_NORM_AUTO || p->norm == rule->about.norm);
}

static double muon_factor(const scion_options *o, int role, const scn_block *b)
{
    return o->muon_multiplier *
           (role == SCION_ROLE_PLAIN ? 1 : sqrt((double)(b->rows > b->cols ? b->rows : b->cols)));
}

#define ABOUT(id, ...) .about = {.size = sizeof(scion_rule_properties), .others = id, __VA_ARGS__}
#define STATES(...) .states = {__VA_ARGS__}

const scn_rule scn_rule_scion = {
    ABOUT(SCION_RULE_SCION, .name = "scion", .help = "w = (1-lr)w + lr rho lmo(d): ||w|| <= rho", .momentum = 0.1,
          .weight_decay = 1, .states = 1, .lmo = 1, .averages = 1, .light = 1, .bounded = 1),
    .average = SCN_AVERAGE_EMA, STATES({"average"}), .layerwise = true};

const scn_rule scn_rule_uscion = {ABOUT(SCION_RULE_USCION, .name = "uscion", .help = "w = (1-lr mu)w + lr rho lmo(d)",
                                        .momentum = 0.1, .states = 1, .lmo = 1, .averages = 1, .light = 1,
                                        .bounded = 1),
                                  .average = SCN_AVERAGE_EMA, STATES({"average"}), .layerwise = true};

const scn_rule scn_rule_almond = {ABOUT(SCION_RULE_ALMOND, .name = "almond", .help = "d averages lmo(g), not g",
                                        .momentum = 0.1, .states = 1, .lmo = 1, .averages = 1, .bounded = 1),
                                  .average = SCN_AVERAGE_LMO, STATES({"average"}), .layerwise = true};

const scn_rule scn_rule_muon = {
    ABOUT(SCION_RULE_ADAMW, .name = "muon",
          .help = "spectral lmo of a heavy-ball average for hidden matrices, AdamW for the rest", .momentum = 0.1,
          .norm = SCION_NORM_SPECTRAL, .states = 2, .lmo = 1, .averages = 1, .bounded = 1),
    .average = SCN_AVERAGE_HEAVY,
    STATES({"average"}),
    .layerwise = true,
    .nesterov = true,
    .takes = hidden_matrix,
    .factor = muon_factor};

const scn_rule scn_rule_signsgd = {ABOUT(SCION_RULE_SIGNSGD, .name = "signsgd",
                                         .help = "w = (1-lr mu)w - lr rho sign(g)", .momentum = 1,
                                         .norm = SCION_NORM_MAX, .lmo = 1, .bounded = 1),
                                   .average = SCN_AVERAGE_NONE, .layerwise = true};

const scn_rule scn_rule_signum = {
    ABOUT(SCION_RULE_SIGNUM, .name = "signum", .help = "w = (1-lr mu)w - lr rho sign(d)", .momentum = 0.1,
          .norm = SCION_NORM_MAX, .states = 1, .lmo = 1, .averages = 1, .light = 1, .bounded = 1),
    .average = SCN_AVERAGE_EMA, STATES({"average"}), .layerwise = true};

const scn_rule scn_rule_nsgd = {ABOUT(SCION_RULE_NSGD, .name = "nsgd",
                                      .help = "w = (1-lr mu)w - lr rho g/||g||, one norm for all parameters",
                                      .momentum = 1, .norm = SCION_NORM_EUCLID, .lmo = 1, .bounded = 1, .joint = 1),
                                .average = SCN_AVERAGE_NONE, .joint = SCN_JOINT_FLAT};

const scn_rule scn_rule_mnsgd = {ABOUT(SCION_RULE_MNSGD, .name = "mnsgd", .help = "nsgd with momentum",
                                       .momentum = 0.1, .norm = SCION_NORM_EUCLID, .states = 1, .lmo = 1,
                                       .averages = 1, .light = 1, .bounded = 1, .joint = 1),
                                 .average = SCN_AVERAGE_EMA, .joint = SCN_JOINT_FLAT, STATES({"average"})};

const scn_rule scn_rule_ssd = {
    ABOUT(SCION_RULE_SSD, .name = "ssd",
          .help = "steepest descent: w = (1-lr mu)w - lr sharp(g), one norm for all parameters", .momentum = 1,
          .lmo = 1, .sharp = 1, .joint = 1),
    .average = SCN_AVERAGE_NONE, .joint = SCN_JOINT_DUAL};

const scn_rule scn_rule_mars = {
    ABOUT(SCION_RULE_MARS, .name = "mars", .help = "scion with the STORM average, which needs two gradients a step",
          .momentum = 0.1, .weight_decay = 1, .states = 2, .lmo = 1, .averages = 1, .needs_prev = 1, .bounded = 1),
    .average = SCN_AVERAGE_STORM, STATES({"average"}, {"previous", .previous = true}), .layerwise = true};

const scn_rule scn_rule_adamw = {
    ABOUT(SCION_RULE_ADAMW, .name = "adamw", .help = "Adam with decoupled weight decay", .momentum = 1, .states = 2),
    STATES({"average"}, {"second"}), .layerwise = true, .entries = scn_adamw, .reach = scn_adamw_reach};

const scn_rule scn_rule_sgd = {ABOUT(SCION_RULE_SGD, .name = "sgd",
                                     .help = "d = (1-alpha)d + g;  w = (1-lr mu)w - lr d", .momentum = 1, .states = 1,
                                     .averages = 1),
                               STATES({"average"}), .layerwise = true, .entries = scn_sgd, .reach = scn_sgd_reach};

const scn_rule *scn_rule_at(int rule)
{
    return rule >= 0 && rule < scn_rule_count ? scn_rule_rows[rule] : NULL;
}

int scn_rule_for(int rule, const scion_param *p)
{
    const scn_rule *row = scn_rule_rows[rule];
    return row->takes && !row->takes(row, p) ? row->about.others : rule;
}

const scion_rule_properties *scion_rule_info(int32_t rule)
{
    const scn_rule *row = scn_rule_at(rule);
    return row ? &row->about : NULL;
}
