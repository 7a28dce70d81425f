/* Records about schedules, boundary initialisation and activations.
 *
 * A start on the boundary is random, so a record names a quantity that every draw must have: several seeds are
 * drawn, and all their quantities compared. Singular values come from one-sided Jacobi in double, which shares
 * nothing with the library and is accurate to rounding at these sizes. */
#include "conform.h"

#include "ops/activation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Draws of each initialisation; their seeds are 1 to this. */
#define SEEDS 5

/* Jacobi stops when no pair of columns has a cosine above this, a few roundings of double. */
#define JACOBI_TOLERANCE 1e-15
#define JACOBI_SWEEPS 60

/* ---- Schedules ---------------------------------------------------------------------------------------------- */

/* Schedules that the format calls by other names than the library does. */
static const struct {
    const char *name;
    int32_t kind;
    int64_t first; /* the k of the first step, 0 in the library */
} SCHEDULES[] = {
    {"constant", SCION_SCHEDULE_CONSTANT, 0},
    {"linear", SCION_SCHEDULE_LINEAR, 0},
    {"constant_linear", SCION_SCHEDULE_CONSTANT_LINEAR, 0},
    {"cosine", SCION_SCHEDULE_COSINE, 0},
    {"cosine_unshifted", SCION_SCHEDULE_COSINE_UNSHIFTED, 0},
    {"alpha_vanishing", SCION_SCHEDULE_INV_SQRT_K, 1},
};

static int32_t find_schedule(conform_case *c, const char *name, int64_t *first)
{
    for (size_t i = 0; i < COUNT(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].name, name) == 0) {
            *first = SCHEDULES[i].first;
            return SCHEDULES[i].kind;
        }
    int32_t kind = scion_enum_value(SCION_ENUM_SCHEDULE, name);
    if (kind < 0)
        conform_fail(c, CONFORM_UNKNOWN, "schedule '%s' is not known", name);
    return kind < 0 ? SCION_SCHEDULE_CONSTANT : kind;
}

void conform_schedule(conform_case *c)
{
    const json_t *record = c->record;
    scion_schedule s = {.size = sizeof s};
    int64_t first = 0;
    s.kind = find_schedule(c, conform_string(c, record, "schedule"), &first);
    s.n = conform_integer_or(c, record, "n", 1);
    s.warmup = conform_integer_or(c, record, "warmup", 0);
    s.decay = conform_integer_or(c, record, "m", 0);
    s.peak = conform_number_or(c, record, "gamma", 1);
    s.start = conform_number_or(c, record, "start", 0);
    s.end = conform_number_or(c, record, "end", 0);
    int64_t points;
    conform_list(c, record, "k", 1, &points);
    const double *k = conform_doubles(c, record, "k", points);
    const double *golden = conform_doubles(c, record, "value", points);
    if (!conform_ready(c))
        return;
    double *ours = conform_alloc(c, points, sizeof *ours);
    for (int64_t i = 0; i < points; i++) {
        if (k[i] != floor(k[i]))
            conform_fail(c, CONFORM_MALFORMED, "'k' holds %g, expected integers", k[i]);
        ours[i] = scion_schedule_value(&s, (int64_t)k[i] - first);
    }
    conform_compare(c, "value", points, ours, golden);
}

/* ---- Boundary initialisation -------------------------------------------------------------------------------- */

/* Turns columns i and j of a (rows x cols, row-major) orthogonal to each other; the cosine that they had. */
static double rotate_columns(double *a, int64_t rows, int64_t cols, int64_t i, int64_t j)
{
    double ii = 0, jj = 0, ij = 0;
    for (int64_t r = 0; r < rows; r++) {
        double x = a[r * cols + i], y = a[r * cols + j];
        ii += x * x;
        jj += y * y;
        ij += x * y;
    }
    if (ij == 0)
        return 0;
    double half = (jj - ii) / (2 * ij);
    double tangent = (half >= 0 ? 1 : -1) / (fabs(half) + hypot(1, half));
    double cosine = 1 / hypot(1, tangent), sine = cosine * tangent;
    for (int64_t r = 0; r < rows; r++) {
        double x = a[r * cols + i], y = a[r * cols + j];
        a[r * cols + i] = cosine * x - sine * y;
        a[r * cols + j] = sine * x + cosine * y;
    }
    return fabs(ij) / sqrt(ii * jj);
}

/* Singular values of a matrix with rows >= cols, which is overwritten. */
static void singular_values(double *a, int64_t rows, int64_t cols, double *values)
{
    for (int sweep = 0; sweep < JACOBI_SWEEPS; sweep++) {
        double largest = 0;
        for (int64_t i = 0; i < cols; i++)
            for (int64_t j = i + 1; j < cols; j++)
                largest = fmax(largest, rotate_columns(a, rows, cols, i, j));
        if (largest <= JACOBI_TOLERANCE)
            break;
    }
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += a[r * cols + j] * a[r * cols + j];
        values[j] = sqrt(sum);
    }
}

/* The stored array as a matrix: rows, cols, and the number of kernel positions that cols holds. */
typedef struct layout {
    int64_t rows, cols, positions;
} layout;

/* A quantity writes its values, at most one per entry of the array, and returns how many there are. */
typedef int64_t (*quantity_of)(conform_case *c, layout l, const float *x, double *values);

/* Singular values of the rows x cols matrix of every `stride`-th entry of x. */
static int64_t spectrum(conform_case *c, int64_t rows, int64_t cols, int64_t stride, const float *x, double *values)
{
    double *a = conform_alloc(c, rows * cols, sizeof *a);
    bool wide = cols > rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            a[wide ? j * rows + i : i * cols + j] = x[(i * cols + j) * stride];
    singular_values(a, wide ? cols : rows, wide ? rows : cols, values);
    return wide ? rows : cols;
}

static int64_t all_singular(conform_case *c, layout l, const float *x, double *values)
{
    return spectrum(c, l.rows, l.cols, 1, x, values);
}

static int64_t slice_singular(conform_case *c, layout l, const float *x, double *values)
{
    int64_t count = 0;
    for (int64_t q = 0; q < l.positions; q++)
        count += spectrum(c, l.rows, l.cols / l.positions, l.positions, x + q, values + count);
    return count;
}

static int64_t column_norms(conform_case *c, layout l, const float *x, double *values)
{
    (void)c;
    for (int64_t j = 0; j < l.cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < l.rows; i++)
            sum += (double)x[i * l.cols + j] * (double)x[i * l.cols + j];
        values[j] = sqrt(sum);
    }
    return l.cols;
}

static int64_t row_norms(conform_case *c, layout l, const float *x, double *values)
{
    (void)c;
    for (int64_t i = 0; i < l.rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < l.cols; j++)
            sum += (double)x[i * l.cols + j] * (double)x[i * l.cols + j];
        values[i] = sqrt(sum);
    }
    return l.rows;
}

static int64_t magnitudes(conform_case *c, layout l, const float *x, double *values)
{
    (void)c;
    for (int64_t i = 0; i < l.rows * l.cols; i++)
        values[i] = fabs((double)x[i]);
    return l.rows * l.cols;
}

static const struct {
    const char *name;
    quantity_of values;
} QUANTITIES[] = {
    {"every singular value", all_singular},
    {"every singular value of every d_out x d_in kernel slice", slice_singular},
    {"2-norm of every column", column_norms},
    {"2-norm of every row", row_norms},
    {"absolute value of every entry", magnitudes},
};

/* A quantity may carry a remark in parentheses, which is not part of its name. */
static quantity_of find_quantity(conform_case *c, const char *name)
{
    const char *remark = strstr(name, " (");
    size_t length = remark ? (size_t)(remark - name) : strlen(name);
    for (size_t i = 0; i < COUNT(QUANTITIES); i++)
        if (strlen(QUANTITIES[i].name) == length && strncmp(QUANTITIES[i].name, name, length) == 0)
            return QUANTITIES[i].values;
    conform_fail(c, CONFORM_UNKNOWN, "quantity '%s' is not known", name);
    return NULL;
}

/* Words that follow the norm's name in these records, and the option that each stands for. */
static const struct {
    const char *word, *option;
    bool value;
} MODIFIERS[] = {
    {"normalized", "normalized", true},
    {"unnormalized", "normalized", false},
    {"1-hot", "normalized", false},
    {"transpose", "transpose", true},
    {"max", "max", true},
};

/* Norm and role of "ColNorm", "Spectral max", "ColNorm transpose" and so on. */
static void read_init_norm(conform_case *c, scion_param *p)
{
    const char *text = conform_string(c, c->record, "norm");
    char words[128];
    snprintf(words, sizeof words, "%s", text);
    const char *norm = strtok(words, " ");
    json_t *options = json_object();
    for (const char *word = strtok(NULL, " "); word; word = strtok(NULL, " ")) {
        size_t i = 0;
        while (i < COUNT(MODIFIERS) && strcmp(MODIFIERS[i].word, word) != 0)
            i++;
        if (i < COUNT(MODIFIERS))
            json_object_set_new(options, MODIFIERS[i].option, json_boolean(MODIFIERS[i].value));
        else
            conform_fail(c, CONFORM_UNKNOWN, "norm '%s' is not known", text);
    }
    int32_t steps;
    conform_reference_norm(c, norm ? norm : "", options, p, &steps);
    json_decref(options);
}

void conform_init_property(conform_case *c)
{
    int64_t n;
    scion_param p = conform_shape(c, c->record, &n);
    read_init_norm(c, &p);
    p.radius = conform_number_or(c, c->record, "rho", 1);
    quantity_of quantity = find_quantity(c, conform_string(c, c->record, "quantity"));
    double value = conform_number(c, c->record, "value");
    scion_options o = conform_options(c, SCION_RULE_SCION, SCION_POLAR_QUINTIC);
    if (!conform_ready(c))
        return;
    layout l = {.rows = p.shape[0], .cols = n / p.shape[0], .positions = 1};
    for (int32_t i = 2; i < p.ndim; i++)
        l.positions *= p.shape[i];
    float *x = conform_alloc(c, n, sizeof *x);
    double *ours = conform_alloc(c, n, sizeof *ours), *golden = conform_alloc(c, n, sizeof *golden);
    for (int64_t i = 0; i < n; i++)
        golden[i] = value;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        scion_error err;
        if (!conform_call(c, "scion_boundary_init", scion_boundary_init(&p, &o, seed, x, &err), &err))
            return;
        char label[64];
        snprintf(label, sizeof label, "quantity of seed %d", (int)seed);
        conform_compare(c, label, quantity(c, l, x, ours), ours, golden);
    }
}

/* ---- Activations -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *row;
} ACTIVATIONS[] = {
    {"ReLU", "relu"}, {"ScaledReLU", "scaled_relu"}, {"ReLU2", "relu2"}, {"ScaledReLU2", "scaled_relu2"},
    {"GELU", "gelu"}, {"ScaledGELU", "sqrt2_gelu"},  {"Tanh", "tanh"},
};

/* The record's name says which: "activation_ScaledReLU", perhaps with a suffix after another underscore. */
static const activation *find_activation(conform_case *c)
{
    static const char PREFIX[] = "activation_";
    const char *name = strncmp(c->name, PREFIX, sizeof PREFIX - 1) == 0 ? c->name + sizeof PREFIX - 1 : c->name;
    size_t length = strcspn(name, "_");
    for (size_t i = 0; i < COUNT(ACTIVATIONS); i++)
        if (strlen(ACTIVATIONS[i].name) == length && strncmp(ACTIVATIONS[i].name, name, length) == 0)
            return activation_find(ACTIVATIONS[i].row);
    conform_fail(c, CONFORM_UNKNOWN, "activation '%s' is not known", name);
    return NULL;
}

void conform_activation(conform_case *c)
{
    const activation *f = find_activation(c);
    int64_t n;
    conform_list(c, c->record, "z", 1, &n);
    const float *z = conform_floats(c, c->record, "z", n);
    const double *golden = conform_doubles(c, c->record, "value", n);
    if (!conform_ready(c))
        return;
    float *ours = conform_alloc(c, n, sizeof *ours);
    f->forward(f->factor, n, z, ours);
    conform_compare_floats(c, "value", n, ours, golden);
}
