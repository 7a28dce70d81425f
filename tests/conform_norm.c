/* Records about one norm: the reference's LMO, and the paper's norm, dual, exact LMO, sharp operator, Frank-Wolfe
 * gap and joint norm.
 *
 * Two vocabularies meet the library's pair of norm and role here: the reference's class names with their options,
 * and the paper's operator norms. Signs differ as well: the reference's lmo is subtracted, the paper's and ours
 * is added. */
#include "conform.h"

#include <math.h>
#include <string.h>

/* Constants that the reference adds to its denominators, and to the Frobenius norm before orthogonalising. */
#define REFERENCE_EPS 1e-8
#define REFERENCE_POLAR_EPS 1e-7

/* Rounds of Newton-Schulz in the reference, where the record does not say. */
#define REFERENCE_STEPS 5

/* Elements of an array: a bound against a mistyped shape, far above any real record. */
#define MOST_ELEMENTS 1e8

#define COUNT(table) (sizeof(table) / sizeof *(table))

typedef struct reference_norm {
    const char *name;
    scion_norm norm;
    bool normalized;        /* default of that option */
    const char *options[4]; /* those that it takes */
} reference_norm;

static const reference_norm REFERENCE[] = {
    {"ColNorm", SCION_NORM_COL, false, {"normalized", "transpose"}},
    {"RowNorm", SCION_NORM_ROW, true, {"normalized", "transpose"}},
    {"Sign", SCION_NORM_SIGN, true, {"normalized"}},
    {"BiasRMS", SCION_NORM_RMS, true, {NULL}},
    {"Spectral", SCION_NORM_SPECTRAL, true, {"max", "normalized", "steps"}},
    {"SpectralConv", SCION_NORM_SPECTRAL, true, {"steps"}},
};

/* Auto, by number of dimensions (a scalar has been made a vector); always with the defaults. */
static const reference_norm AUTO[] = {
    {"BiasRMS", SCION_NORM_RMS, true, {NULL}},
    {"Spectral", SCION_NORM_SPECTRAL, true, {NULL}},
    {"SpectralConv", SCION_NORM_SPECTRAL, true, {NULL}},
    {"SpectralConv", SCION_NORM_SPECTRAL, true, {NULL}},
};

typedef struct paper_norm {
    const char *name;
    scion_norm norm;
    scion_role role;
} paper_norm;

static const paper_norm PAPER[] = {
    {"1->RMS", SCION_NORM_COL, SCION_ROLE_ONEHOT},        {"1->RMS,/d_in", SCION_NORM_COL, SCION_ROLE_HIDDEN},
    {"1->inf", SCION_NORM_SIGN, SCION_ROLE_ONEHOT},       {"1->inf,/d_in", SCION_NORM_SIGN, SCION_ROLE_HIDDEN},
    {"RMS->RMS", SCION_NORM_SPECTRAL, SCION_ROLE_HIDDEN}, {"RMS->RMS,max", SCION_NORM_SPECTRAL, SCION_ROLE_INPUT},
    {"2->RMS", SCION_NORM_SPECTRAL, SCION_ROLE_ONEHOT},   {"S_inf", SCION_NORM_SPECTRAL, SCION_ROLE_PLAIN},
    {"RMS->inf", SCION_NORM_ROW, SCION_ROLE_HIDDEN},      {"2->inf", SCION_NORM_ROW, SCION_ROLE_ONEHOT},
    {"l2", SCION_NORM_EUCLID, SCION_ROLE_NORMALIZATION},  {"RMS", SCION_NORM_RMS, SCION_ROLE_VECTOR},
    {"linf", SCION_NORM_MAX, SCION_ROLE_VECTOR},
};

scion_options conform_options(const conform_case *c, scion_rule rule, scion_polar_set polar)
{
    scion_options o;
    scion_options_init(&o, rule);
    o.polar = polar;
    if (c->eps_sensitive) {
        o.eps = REFERENCE_EPS;
        o.polar_eps = REFERENCE_POLAR_EPS;
    }
    return o;
}

scion_param conform_shape(conform_case *c, const json_t *object, int64_t *count)
{
    scion_param p;
    scion_param_init(&p);
    p.ndim = 1;
    p.shape[0] = 1;
    int64_t ndim;
    const json_t *list = conform_list(c, object, "shape", 0, &ndim);
    if (ndim > 4) {
        conform_fail(c, CONFORM_UNKNOWN, "'shape' has %lld dimensions, known are 0 to 4", (long long)ndim);
        ndim = 0;
    }
    *count = 1;
    for (int64_t i = 0; i < ndim; i++) {
        double side = json_number_value(json_array_get(list, (size_t)i));
        if (!(side >= 1 && side == floor(side) && side * (double)*count <= MOST_ELEMENTS)) {
            conform_fail(c, CONFORM_MALFORMED, "'shape' holds %g, which is no positive integer or too large", side);
            break;
        }
        p.ndim = (int32_t)(i + 1);
        p.shape[i] = (int64_t)side;
        *count *= p.shape[i];
    }
    return p;
}

static const reference_norm *find_reference(conform_case *c, const char *name, int32_t ndim)
{
    if (strcmp(name, "Auto") == 0)
        return &AUTO[ndim - 1];
    for (size_t i = 0; i < COUNT(REFERENCE); i++)
        if (strcmp(REFERENCE[i].name, name) == 0)
            return &REFERENCE[i];
    conform_fail(c, CONFORM_UNKNOWN, "norm '%s' is not known", name);
    return NULL;
}

static void check_option_names(conform_case *c, const reference_norm *r, const char *norm, const json_t *options)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)options, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < COUNT(r->options) && r->options[i]; i++)
            known = known || strcmp(r->options[i], key) == 0;
        if (!known)
            conform_fail(c, CONFORM_UNKNOWN, "option '%s' of %s is not known", key, norm);
    }
}

void conform_reference_norm(conform_case *c, const char *norm, const json_t *options, scion_param *p, int32_t *steps)
{
    *steps = REFERENCE_STEPS;
    if (!conform_ready(c))
        return;
    const reference_norm *r = find_reference(c, norm, p->ndim);
    if (!r)
        return;
    if (options && !json_is_object(options))
        conform_fail(c, CONFORM_MALFORMED, "'options' is not an object");
    check_option_names(c, r, norm, options);
    bool normalized = conform_flag_or(c, options, "normalized", r->normalized);
    bool at_least_one = conform_flag_or(c, options, "max", false);
    p->norm = r->norm;
    p->transposed = conform_flag_or(c, options, "transpose", false);
    /* Without normalisation the spectral factor is sqrt(d_out), which `max` leaves as it is: never below 1. */
    p->role = !normalized ? SCION_ROLE_ONEHOT : at_least_one ? SCION_ROLE_INPUT : SCION_ROLE_HIDDEN;
    if (r->norm == SCION_NORM_RMS)
        p->role = SCION_ROLE_VECTOR;
    if (r->norm != SCION_NORM_SPECTRAL)
        return;
    int64_t rounds = conform_integer_or(c, options, "steps", REFERENCE_STEPS);
    if (rounds < 1 || rounds > 1000)
        conform_fail(c, CONFORM_UNKNOWN, "%lld 'steps' of Newton-Schulz, known are 1 to 1000", (long long)rounds);
    *steps = (int32_t)rounds;
}

void conform_paper_norm(conform_case *c, const char *norm, scion_param *p)
{
    for (size_t i = 0; i < COUNT(PAPER); i++)
        if (strcmp(PAPER[i].name, norm) == 0) {
            p->norm = PAPER[i].norm;
            p->role = PAPER[i].role;
            return;
        }
    conform_fail(c, CONFORM_UNKNOWN, "norm '%s' is not known", norm);
}

void conform_lmo(conform_case *c)
{
    int64_t n;
    scion_param p = conform_shape(c, c->record, &n);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_QUINTIC);
    conform_reference_norm(c, conform_string(c, c->record, "norm"), json_object_get(c->record, "options"), &p,
                           &o.polar_steps);
    const float *grad = conform_floats(c, c->record, "grad", n);
    const double *golden = conform_doubles(c, c->record, "lmo", n);
    if (!conform_ready(c))
        return;
    float *ours = conform_alloc(c, n, sizeof *ours);
    scion_error err;
    if (!conform_call(c, "scion_lmo", scion_lmo(&p, &o, grad, ours, &err), &err))
        return;
    for (int64_t i = 0; i < n; i++)
        ours[i] = -ours[i];
    conform_compare_floats(c, "lmo", n, ours, golden);
}

/* Shape, norm and radius of a record, or of one of its parameters, in the paper's vocabulary. */
static scion_param paper_param(conform_case *c, const json_t *object, int64_t *n)
{
    scion_param p = conform_shape(c, object, n);
    conform_paper_norm(c, conform_string(c, object, "norm"), &p);
    p.radius = conform_number_or(c, object, "rho", 1);
    return p;
}

static double inner_product(int64_t n, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

void conform_norm_dual(conform_case *c)
{
    int64_t n;
    scion_param p = paper_param(c, c->record, &n);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_CONVERGED);
    const float *x = conform_floats(c, c->record, "input", n);
    double golden_norm = conform_number(c, c->record, "norm_value");
    double golden_dual = conform_number(c, c->record, "dual_value");
    if (!conform_ready(c))
        return;
    scion_error err;
    double norm = NAN, dual = NAN;
    if (!conform_call(c, "scion_norm_value", scion_norm_value(&p, &o, x, &norm, &err), &err) ||
        !conform_call(c, "scion_dual_norm", scion_dual_norm(&p, &o, x, &dual, &err), &err))
        return;
    conform_compare_value(c, "norm_value", norm, golden_norm);
    conform_compare_value(c, "dual_value", dual, golden_dual);
}

/* Beside the golden array, the two laws that the format states for every oracle: <s,lmo> = -rho dual(s) and
 * norm(lmo) <= rho. */
void conform_exact_lmo(conform_case *c)
{
    int64_t n;
    scion_param p = paper_param(c, c->record, &n);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_CONVERGED);
    const float *s = conform_floats(c, c->record, "input", n);
    const double *golden = conform_doubles(c, c->record, "lmo_added", n);
    if (!conform_ready(c))
        return;
    float *ours = conform_alloc(c, n, sizeof *ours);
    scion_error err;
    double norm = NAN, dual = NAN;
    if (!conform_call(c, "scion_lmo", scion_lmo(&p, &o, s, ours, &err), &err) ||
        !conform_call(c, "scion_norm_value", scion_norm_value(&p, &o, ours, &norm, &err), &err) ||
        !conform_call(c, "scion_dual_norm", scion_dual_norm(&p, &o, s, &dual, &err), &err))
        return;
    conform_compare_floats(c, "lmo_added", n, ours, golden);
    conform_compare_value(c, "<s,lmo> against -rho dual(s)", inner_product(n, s, ours), -p.radius * dual);
    conform_compare_value(c, "norm(lmo) against rho", isfinite(norm) ? fmax(norm, p.radius) : norm, p.radius);
}

void conform_sharp(conform_case *c)
{
    int64_t n;
    scion_param p = paper_param(c, c->record, &n);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_CONVERGED);
    const float *s = conform_floats(c, c->record, "input", n);
    const double *golden = conform_doubles(c, c->record, "sharp", n);
    double golden_dual = conform_number(c, c->record, "dual_value");
    if (!conform_ready(c))
        return;
    float *ours = conform_alloc(c, n, sizeof *ours);
    scion_error err;
    double dual = NAN;
    if (!conform_call(c, "scion_sharp", scion_sharp(&p, &o, s, ours, &err), &err) ||
        !conform_call(c, "scion_dual_norm", scion_dual_norm(&p, &o, s, &dual, &err), &err))
        return;
    conform_compare_floats(c, "sharp", n, ours, golden);
    conform_compare_value(c, "dual_value", dual, golden_dual);
    conform_compare_value(c, "<s,sharp> against dual(s)^2", inner_product(n, s, ours), golden_dual * golden_dual);
}

void conform_fw_gap(conform_case *c)
{
    int64_t n;
    scion_param p = paper_param(c, c->record, &n);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_CONVERGED);
    const float *g = conform_floats(c, c->record, "input", n);
    const float *x = conform_floats(c, c->record, "x", n);
    double golden = conform_number(c, c->record, "gap");
    if (!conform_ready(c))
        return;
    scion_error err;
    double gap = NAN;
    if (conform_call(c, "scion_fw_gap", scion_fw_gap(&p, &o, g, x, &gap, &err), &err))
        conform_compare_value(c, "gap", gap, golden);
}

void conform_joint_norm(conform_case *c)
{
    int64_t count;
    const json_t *params = conform_list(c, c->record, "params", 1, &count);
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_CONVERGED);
    double golden_norm = conform_number(c, c->record, "joint_norm");
    double golden_dual = conform_number(c, c->record, "joint_dual");
    double joint_norm = 0, joint_dual = 0;
    for (int64_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(params, (size_t)i);
        int64_t n;
        scion_param p = paper_param(c, object, &n);
        const float *x = conform_floats(c, object, "input", n);
        if (!conform_ready(c))
            return;
        scion_error err;
        double norm = NAN, dual = NAN;
        if (!conform_call(c, "scion_norm_value", scion_norm_value(&p, &o, x, &norm, &err), &err) ||
            !conform_call(c, "scion_dual_norm", scion_dual_norm(&p, &o, x, &dual, &err), &err))
            return;
        joint_norm = norm / p.radius > joint_norm || isnan(norm) ? norm / p.radius : joint_norm;
        joint_dual += p.radius * dual;
    }
    if (!conform_ready(c))
        return;
    conform_compare_value(c, "joint_norm", joint_norm, golden_norm);
    conform_compare_value(c, "joint_dual", joint_dual, golden_dual);
}
