/* A norm and a rule that the library does not have, each one file and one row: names, properties, the laws that every
 * norm obeys, and training by them. */
#include <math.h>
#include <string.h>

#include "support.h"

static scion_error err;

static int32_t toy_norm, toy_rule, row_rule;

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(scion_enum_name(SCION_ENUM_NORM, toy_norm), "sum");
    assert_string_equal(scion_enum_name(SCION_ENUM_RULE, toy_rule), "lion");
    assert_string_equal(scion_norm_info(toy_norm)->help, "1-norm of all entries");
    assert_int_equal(scion_rule_info(toy_rule)->states, 1);
    assert_null(scion_norm_info(toy_norm + 1));
    assert_string_equal(scion_enum_name(SCION_ENUM_RULE, row_rule), "normuon");
    assert_null(scion_rule_info(row_rule + 1));
}

static float *lmo(const scion_param *p, const float *s)
{
    float *out = floats(elements(p));
    check_ok(scion_lmo(p, NULL, s, out, &err), &err);
    return out;
}

/* <s, lmo(s)> = -rho dual(s), norm(lmo(s)) = rho, lmo(2s) = lmo(s), lmo(0) = 0, and <s, x> <= dual(s) norm(x). */
static void obey_the_laws(const scion_param *p, rng *r)
{
    if (p->norm != toy_norm)
        return;
    const int64_t n = elements(p);
    float *s = gaussian(r, n), *x = gaussian(r, n), *z = lmo(p, s), *twice = floats(n), *zero = floats(n);
    double dual, size, of_x;
    check_ok(scion_dual_norm(p, NULL, s, &dual, &err), &err);
    check_ok(scion_norm_value(p, NULL, z, &size, &err), &err);
    check_ok(scion_norm_value(p, NULL, x, &of_x, &err), &err);
    check_rel(dot(n, s, z), -p->radius * dual, 1e-6);
    check_rel(size, p->radius, 1e-6);
    check(fabs(dot(n, s, x)) <= dual * of_x * (1 + 1e-6));
    for (int64_t i = 0; i < n; i++)
        twice[i] = 2 * s[i];
    check_bits((size_t)n * sizeof *z, lmo(p, twice), z);
    check_bits((size_t)n * sizeof *z, lmo(p, zero), zero);
    check_ok(scion_boundary_init(p, NULL, 7, x, &err), &err);
    check_ok(scion_norm_value(p, NULL, x, &size, &err), &err);
    check_rel(size, p->radius, 1e-6);
}

static void test_laws(void **state)
{
    (void)state;
    for_each_case(obey_the_laws);
}

/* 2 x 3 matrix, loss ||w - 1||^2/2. */
static double train(int32_t rule, int32_t norm, double lr)
{
    float w[6] = {0}, g[6] = {0};
    scion_optimizer *opt = NULL;
    scion_options o;
    scion_param p = matrix_of(2, 3, (scion_norm)norm, SCION_ROLE_PLAIN);
    double loss = 0;
    scion_options_init(&o, rule);
    p.weight = w;
    p.grad = g;
    p.radius = 10;
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    for (int k = 0; k < 600; k++) {
        loss = 0;
        for (int i = 0; i < 6; i++) {
            g[i] = w[i] - 1;
            loss += 0.5 * (double)(g[i] * g[i]);
        }
        check_ok(scion_optimizer_step(opt, lr * (1 - k / 600.0), &err), &err);
    }
    scion_optimizer_free(opt);
    return loss;
}

static void test_training(void **state)
{
    (void)state;
    check(train(toy_rule, SCION_NORM_AUTO, 0.02) < 1e-3);
    check(train(SCION_RULE_SCION, toy_norm, 0.05) < 0.1);
    check(train(row_rule, SCION_NORM_SPECTRAL, 0.005) < 1e-3);
    check(train(SCION_RULE_ADAMW, SCION_NORM_AUTO, 0.02) < 1e-3); /* the others are as before */
}

/* ---- A rule with one number for each row ---- */

enum { ROWS = 6, COLS = 8, N = ROWS * COLS, ROW_STEPS = 5 };

/* The parameters that it is tried on: norms whose tiles are entries, columns, rows and the whole; blocks of rows and
 * of columns. */
static int row_params(scion_param *p, const char **names)
{
    static const scion_norm norms[] = {SCION_NORM_SIGN, SCION_NORM_COL,      SCION_NORM_ROW,
                                       SCION_NORM_RMS,  SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL};
    static const char *all[] = {"sign", "col", "row", "rms", "rows of blocks", "columns of blocks"};
    const int count = (int)COUNT_OF(norms);
    for (int i = 0; i < count; i++) {
        p[i] = matrix_of(ROWS, COLS, norms[i], SCION_ROLE_HIDDEN);
        p[i].name = names[i] = all[i];
        p[i].radius = 0.5 + i;
        p[i].split_axis = i == count - 1;
        p[i].split_count = i >= count - 2 ? 2 : 0;
    }
    return count;
}

static scion_optimizer *row_optimizer(scion_param *p, int count, rng *r, int threads)
{
    scion_options o;
    scion_optimizer *opt = NULL;
    scion_options_init(&o, row_rule);
    o.polar = SCION_POLAR_CONVERGED;
    o.weight_decay = 0.5;
    o.threads = threads;
    for (int i = 0; i < count; i++) {
        p[i].weight = gaussian(r, N);
        p[i].grad = floats(N);
    }
    check_ok(scion_optimizer_create(&opt, &o, p, count, &err), &err);
    return opt;
}

static void row_gradients(scion_param *p, int count, int k)
{
    rng r = rng_of(100 + (uint64_t)k);
    for (int i = 0; i < count; i++)
        memcpy(p[i].grad, gaussian(&r, N), N * sizeof(float));
}

/* A block's rows x cols numbers of z, from `at` on with a distance of COLS, by the formula of toy_row_rule.c. */
static void row_scale(int64_t rows, int64_t cols, double *z, double *v, double *n, double fix)
{
    double before = 0, after = 0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++)
            sum += z[i * COLS + j] * z[i * COLS + j];
        v[i] = 0.95 * v[i] + 0.05 * sum / (double)cols;
        for (int64_t j = 0; j < cols; j++)
            z[i * COLS + j] /= sqrt(fix * v[i]) + 1e-8;
        before += sum;
        after += sum / pow(sqrt(fix * v[i]) + 1e-8, 2);
    }
    *n = 0.95 * *n + 0.05 * before;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            z[i * COLS + j] *= sqrt(fix * *n / after);
}

/* Steps against double precision: the lmo is the oracle's, averages and scaling are written out. */
static void test_row_steps(void **state)
{
    (void)state;
    scion_param p[8];
    const char *names[8];
    double d[8][N] = {{0}}, v[8][2 * ROWS] = {{0}}, n[8][2] = {{0}}, *w[8];
    const int count = row_params(p, names);
    rng r = rng_of(7);
    scion_optimizer *opt = row_optimizer(p, count, &r, 2);
    for (int i = 0; i < count; i++)
        w[i] = widen(N, p[i].weight);
    for (int k = 1; k <= ROW_STEPS; k++) {
        row_gradients(p, count, k);
        for (int i = 0; i < count; i++) {
            const double fix = 1 / (1 - pow(0.95, k));
            const int64_t rows = p[i].split_count && p[i].split_axis == 0 ? ROWS / 2 : ROWS;
            const int64_t cols = p[i].split_count && p[i].split_axis == 1 ? COLS / 2 : COLS;
            double z[N];
            for (int j = 0; j < N; j++)
                d[i][j] = 0.9 * d[i][j] + 0.1 * (double)((float *)p[i].grad)[j];
            oracle_lmo(&p[i], EXACT, d[i], z);
            for (int b = 0; b < (p[i].split_count ? 2 : 1); b++)
                row_scale(rows, cols, z + b * (rows < ROWS ? rows * COLS : cols), v[i] + b * rows, &n[i][b], fix);
            for (int j = 0; j < N; j++) /* z has the radius, to which n is proportional */
                w[i][j] = (1 - 0.1 * 0.5) * w[i][j] + 0.1 * z[j];
        }
        check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        for (int i = 0; i < count; i++) {
            at("%s, step %d", names[i], k);
            check_array(N, p[i].weight, w[i], 2e-5);
        }
    }
    scion_optimizer_free(opt);
}

/* The list of states has the shapes, a saved optimizer continues bit for bit, with any number of threads. */
static void test_row_states(void **state)
{
    (void)state;
    scion_param p[8], q[8];
    const char *names[8];
    const int count = row_params(p, names);
    rng r = rng_of(7), same = rng_of(7);
    memcpy(q, p, sizeof q);
    scion_optimizer *a = row_optimizer(p, count, &r, 1), *b = row_optimizer(q, count, &same, 2);
    scion_array array;
    scion_array_init(&array);
    for (int i = 0; i < count; i++) {
        at("%s", names[i]);
        check(scion_optimizer_state(a, i, 0, &array) && array.ndim == 2 && array.shape[1] == COLS &&
              array.count == N);
        check(scion_optimizer_state(a, i, 1, &array) && strcmp(array.name, "rows") == 0 && array.ndim == 1);
        assert_int_equal(array.shape[0], i == count - 1 ? 2 * ROWS : ROWS);
        assert_int_equal(array.count, array.shape[0]);
        check(scion_optimizer_state(a, i, 2, &array) && array.shape[0] == (p[i].split_count ? 2 : 1));
        check(!scion_optimizer_state(a, i, 3, &array));
    }
    for (int k = 1; k <= 3; k++) {
        row_gradients(p, count, k);
        check_ok(scion_optimizer_step(a, 0.1, &err), &err);
    }
    const size_t bytes = scion_optimizer_save_bytes(a, 0);
    void *saved = room(bytes);
    check_ok(scion_optimizer_save(a, 0, saved, bytes, &err), &err);
    check_ok(scion_optimizer_load(b, 0, saved, bytes, &err), &err);
    for (int i = 0; i < count; i++)
        memcpy(q[i].weight, p[i].weight, N * sizeof(float));
    row_gradients(p, count, 4);
    row_gradients(q, count, 4);
    check_ok(scion_optimizer_step(a, 0.1, &err), &err);
    check_ok(scion_optimizer_step(b, 0.1, &err), &err);
    for (int i = 0; i < count; i++)
        check_bits(N * sizeof(float), p[i].weight, q[i].weight);
    scion_optimizer_free(a);
    scion_optimizer_free(b);
}

/* Two callers who own whole parameters take the step of one; ranges are refused, however large the parameter. */
static void test_row_sharing(void **state)
{
    (void)state;
    scion_param p[8], q[2][8], large = matrix_of(512, 512, SCION_NORM_SIGN, SCION_ROLE_HIDDEN);
    const char *names[8];
    const int count = row_params(p, names);
    scion_optimizer *one, *two[2];
    scion_options o;
    scion_param_properties about;
    scion_step s;
    rng r = rng_of(7);
    one = row_optimizer(p, count, &r, 1);
    for (int c = 0; c < 2; c++) {
        rng same = rng_of(7);
        row_params(q[c], names);
        for (int i = 0; i < count; i++)
            q[c][i].own_count = i % 2 == c ? -1 : 0;
        two[c] = row_optimizer(q[c], count, &same, 1);
    }
    scion_step_init(&s);
    s.lr = 0.1;
    for (int k = 1; k <= 3; k++) {
        row_gradients(p, count, k);
        check_ok(scion_optimizer_step(one, 0.1, &err), &err);
        for (int c = 0; c < 2; c++) {
            row_gradients(q[c], count, k);
            check_ok(scion_optimizer_step_with(two[c], &s, &err), &err);
        }
    }
    for (int i = 0; i < count; i++)
        check_bits(N * sizeof(float), p[i].weight, q[i % 2][i].weight);
    scion_param_properties_init(&about);
    scion_options_init(&o, row_rule);
    check_ok(scion_param_info(&large, &o, &about, &err), &err);
    check(!about.ranges && about.states == 3);
    assert_int_equal(about.state_bytes, 4 * (512 * 512 + 512 + 1));
    large.own_count = SCION_RANGE;
    check_status(scion_param_info(&large, &o, &about, &err), SCION_EINVAL, &err);
    scion_optimizer_free(one);
    scion_optimizer_free(two[0]);
    scion_optimizer_free(two[1]);
}

int main(void)
{
    toy_norm = scion_enum_value(SCION_ENUM_NORM, "sum");
    toy_rule = scion_enum_value(SCION_ENUM_RULE, "lion");
    row_rule = scion_enum_value(SCION_ENUM_RULE, "normuon");
    const struct CMUnitTest tests[] = {LAW(test_names),     LAW(test_laws),       LAW(test_training),
                                       LAW(test_row_steps), LAW(test_row_states), LAW(test_row_sharing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
