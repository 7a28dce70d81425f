/* Records of kind `paper_trajectory`: the paper's methods, with the exact polar factor for spectral norms. */
#include "conform_run.h"

#include <math.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* d = (1-alpha)d + alpha rho lmo(g): ALMOND averages the oracle's answers. */
static void replay_lmo(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    double alpha = conform_alpha_at(r, k);
    float *answer = conform_alloc(c, m->n, sizeof *answer);
    scion_error err;
    if (!conform_call(c, "scion_lmo", scion_lmo(&m->p, &r->o, m->grad, answer, &err), &err))
        return;
    for (int64_t i = 0; i < m->n; i++)
        m->average[i] = (1 - alpha) * m->average[i] + alpha * answer[i];
}

/* G = g + beta G, beta = 1-alpha */
static void replay_sum(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    (void)c;
    (void)k;
    for (int64_t i = 0; i < m->n; i++)
        m->average[i] = (1 - r->alpha) * m->average[i] + m->grad[i];
}

static void replay_adam(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    (void)c;
    (void)k;
    for (int64_t i = 0; i < m->n; i++) {
        double g = m->grad[i];
        m->average[i] = r->o.beta1 * m->average[i] + (1 - r->o.beta1) * g;
        m->square[i] = r->o.beta2 * m->square[i] + (1 - r->o.beta2) * g * g;
    }
}

typedef struct method {
    const char *name;
    scion_rule rule;
    bool normed;           /* its parameters name a norm */
    conform_replay replay; /* NULL: no state */
} method;

static const method METHODS[] = {
    {"uscg", SCION_RULE_USCION, true, conform_replay_average},
    {"scg", SCION_RULE_SCION, true, conform_replay_average},
    {"weight_decay", SCION_RULE_USCION, true, conform_replay_average},
    {"almond", SCION_RULE_ALMOND, true, replay_lmo},
    {"muon", SCION_RULE_MUON, true, replay_sum},
    {"steepest", SCION_RULE_SSD, true, NULL},
    {"nsgd_global", SCION_RULE_MNSGD, false, conform_replay_average},
    {"adamw", SCION_RULE_ADAMW, false, replay_adam},
};

/* alpha: a number, or the string "1/sqrt(k)"; alpha_first: another one for the first step. */
static void read_alpha(conform_case *c, conform_run *r)
{
    r->alpha_first = conform_number_or(c, c->record, "alpha_first", NAN);
    const char *formula = json_string_value(json_object_get(c->record, "alpha"));
    if (!formula)
        r->o.momentum = r->alpha = conform_number(c, c->record, "alpha");
    else if (strcmp(formula, "1/sqrt(k)") == 0)
        r->o.vanishing = 1;
    else
        conform_fail(c, CONFORM_UNKNOWN, "alpha '%s' is not known", formula);
    r->o.first_full = r->alpha_first == 1;
    r->set_alpha = !isnan(r->alpha_first) && r->alpha_first != 1;
}

static void read_method_options(conform_case *c, conform_run *r, const method *way)
{
    const json_t *record = c->record;
    scion_options *o = &r->o;
    bool decay_is_given = strcmp(way->name, "weight_decay") == 0;
    if (way->rule != SCION_RULE_SCION)
        o->weight_decay = decay_is_given ? conform_number(c, record, "mu") : conform_number_or(c, record, "mu", 0);
    switch (way->rule) {
    case SCION_RULE_ADAMW:
        o->weight_decay = conform_number_or(c, record, "weight_decay", 0);
        o->beta1 = conform_number(c, record, "beta1");
        o->beta2 = conform_number(c, record, "beta2");
        o->adam_eps = conform_number(c, record, "eps");
        break;
    case SCION_RULE_MUON:
        o->momentum = r->alpha = 1 - conform_number(c, record, "beta");
        o->nesterov = conform_flag_or(c, record, "nesterov", false);
        o->muon_multiplier = 1; /* the records put the whole factor into rho */
        break;
    case SCION_RULE_SSD:
        o->layerwise = 1; /* sharp(g) = -dual(g) lmo(g) of each parameter alone */
        break;
    default: read_alpha(c, r);
    }
}

/* Norm and radius of a parameter in a paper's method. */
static void read_method_param(conform_case *c, const method *way, const json_t *object, scion_param *p)
{
    p->norm = SCION_NORM_EUCLID;
    p->role = SCION_ROLE_NORMALIZATION;
    if (way->normed)
        conform_paper_norm(c, conform_string(c, object, "norm"), p);
    if (way->rule == SCION_RULE_MUON && (p->norm != SCION_NORM_SPECTRAL || p->role != SCION_ROLE_PLAIN))
        conform_fail(c, CONFORM_UNKNOWN, "muon with another norm than S_inf is not known");
    /* The formula of steepest descent is of the unit ball: no radius enters it. */
    if (way->rule != SCION_RULE_SSD)
        p->radius = conform_number_or(c, object, "rho", conform_number_or(c, c->record, "rho", 1));
}

void conform_paper_trajectory(conform_case *c)
{
    const char *name = conform_string(c, c->record, "method");
    const method *way = NULL;
    for (size_t i = 0; i < COUNT(METHODS); i++)
        if (strcmp(METHODS[i].name, name) == 0)
            way = &METHODS[i];
    if (!way) {
        conform_fail(c, CONFORM_UNKNOWN, "method '%s' is not known", name);
        return;
    }
    conform_run r = {.alpha_first = NAN, .caller_zeroes = true, .replay = way->replay};
    r.o = conform_options(c, way->rule, SCION_POLAR_CONVERGED);
    read_method_options(c, &r, way);
    conform_read_steps(c, &r, "gamma");
    const json_t *params = conform_read_params(c, &r);
    bool adam = way->rule == SCION_RULE_ADAMW;
    for (int64_t i = 0; i < r.count; i++) {
        const json_t *object = json_array_get(params, (size_t)i);
        conform_member *m = &r.members[i];
        m->p = conform_shape(c, object, &m->n);
        read_method_param(c, way, object, &m->p);
        conform_read_member(c, &r, i, object, "x0", "x");
        m->golden_average = conform_optional(c, object, adam ? "m" : "state", m->n);
        m->golden_square = adam ? conform_optional(c, object, "v", m->n) : NULL;
    }
    if (!conform_ready(c) || !conform_run_all(c, &r))
        return;
    for (int64_t i = 0; i < r.count; i++) {
        conform_compare_member(c, &r.members[i], adam ? "m" : "state", r.members[i].average,
                               r.members[i].golden_average);
        conform_compare_member(c, &r.members[i], "v", r.members[i].square, r.members[i].golden_square);
    }
}
