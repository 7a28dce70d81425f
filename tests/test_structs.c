/* Structs grow at their end: a program that was compiled with an older header hands in shorter ones. Every public
 * struct is cut before each of its members that has a default; the call must do what it does with the defaults. What
 * the library writes into a shorter struct stays inside it. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static scion_error err;

enum { CANARY = 0x5A };

#define AT(type, member) offsetof(type, member)

/* ---- What goes in ---------------------------------------------------------------------------------------- */

enum { ROWS = 6, COLS = 5, N = ROWS * COLS };

typedef struct outcome {
    scion_status status;
    float w[N];
    double value;
} outcome;

/* Two steps of an optimizer with these structs. */
static outcome optimize(const scion_param *p, const scion_options *o, const scion_step *s)
{
    static float w[N], g[N];
    outcome out = {SCION_OK, {0}, 0};
    scion_optimizer *opt = NULL;
    rng r = rng_of(3);
    rng_gaussian(&r, N, w);
    rng_gaussian(&r, N, g);
    unsigned char copy[512];
    memcpy(copy, p, p->size); /* the shortest have room for pointers */
    scion_param *q = (scion_param *)(void *)copy;
    q->weight = w;
    q->grad = g;
    out.status = scion_optimizer_create(&opt, o, q, 1, &err);
    for (int k = 0; k < 2 && out.status == SCION_OK; k++)
        out.status = s ? scion_optimizer_step_with(opt, s, &err) : scion_optimizer_step(opt, 0.1, &err);
    memcpy(out.w, w, sizeof w);
    scion_optimizer_free(opt);
    return out;
}

static scion_param good_param(void)
{
    scion_param p;
    scion_param_init(&p);
    p.ndim = 2;
    p.shape[0] = ROWS;
    p.shape[1] = COLS;
    return p;
}

static outcome with_param(const void *p)
{
    return optimize(p, NULL, NULL);
}

static outcome with_options(const void *o)
{
    scion_param p = good_param();
    return optimize(&p, o, NULL);
}

static outcome with_step(const void *s)
{
    scion_param p = good_param();
    return optimize(&p, NULL, s);
}

static outcome with_schedule(const void *s)
{
    outcome out = {scion_schedule_check(s, &err), {0}, scion_schedule_value(s, 3)};
    out.value = isnan(out.value) ? -1 : out.value;
    return out;
}

static float bowl_w[N], bowl_g[N];

static int bowl_gradient_at(void *ctx, int64_t k, uint64_t sample)
{
    (void)ctx, (void)k, (void)sample;
    for (int i = 0; i < N; i++)
        bowl_g[i] += bowl_w[i] - 1;
    return 0;
}

static outcome with_problem(const void *problem)
{
    scion_result result;
    outcome out = {SCION_OK, {0}, 0};
    memset(bowl_w, 0, sizeof bowl_w);
    scion_result_init(&result);
    out.status = scion_minimize(problem, NULL, &result, &err);
    out.value = (double)result.steps + result.mean_fw_gap;
    memcpy(out.w, bowl_w, sizeof bowl_w);
    return out;
}

static const size_t param_cuts[] = {
    AT(scion_param, role),        AT(scion_param, norm),        AT(scion_param, transposed),
    AT(scion_param, radius),      AT(scion_param, lr_scale),    AT(scion_param, weight_decay),
    AT(scion_param, weight_type), AT(scion_param, grad_type),   AT(scion_param, start),
    AT(scion_param, frozen),      AT(scion_param, group),       AT(scion_param, split_axis),
    AT(scion_param, split_count), AT(scion_param, split_sizes), AT(scion_param, grad_prev),
    AT(scion_param, own_first),   AT(scion_param, own_count),   AT(scion_param, states),
    AT(scion_param, state_count), sizeof(scion_param)};
static const size_t option_cuts[] = {AT(scion_options, routing),       AT(scion_options, momentum),
                                     AT(scion_options, weight_decay),  AT(scion_options, vanishing),
                                     AT(scion_options, first_full),    AT(scion_options, light),
                                     AT(scion_options, nesterov),      AT(scion_options, layerwise),
                                     AT(scion_options, threads),       AT(scion_options, muon_multiplier),
                                     AT(scion_options, adam_lr_scale), AT(scion_options, beta1),
                                     AT(scion_options, beta2),         AT(scion_options, adam_eps),
                                     AT(scion_options, clip_norm),     AT(scion_options, eps),
                                     AT(scion_options, polar_eps),     AT(scion_options, polar),
                                     AT(scion_options, polar_steps),   AT(scion_options, seed),
                                     AT(scion_options, allocator),     AT(scion_options, rounding),
                                     AT(scion_options, polar_compute), sizeof(scion_options)};
static const size_t step_cuts[] = {AT(scion_step, momentum), AT(scion_step, next_momentum),
                                   AT(scion_step, grad_scale), AT(scion_step, threads), sizeof(scion_step)};
static const size_t schedule_cuts[] = {AT(scion_schedule, reserved), AT(scion_schedule, warmup),
                                       AT(scion_schedule, decay),    AT(scion_schedule, start),
                                       AT(scion_schedule, end),      sizeof(scion_schedule)};
static const size_t problem_cuts[] = {
    AT(scion_problem, ctx),  AT(scion_problem, exact),   AT(scion_problem, report), AT(scion_problem, report_every),
    AT(scion_problem, seed), AT(scion_problem, uniform), sizeof(scion_problem)};

static scion_schedule schedule_of(int kind)
{
    scion_schedule s;
    scion_schedule_init(&s);
    s.kind = kind;
    s.n = 10;
    s.peak = 0.3;
    return s;
}

/* The full struct and its cuts, then two more: too short, and longer with a member that is not known. */
static void check_cuts(const char *name, const void *full, size_t size, const size_t *cut, int64_t count,
                       outcome (*use)(const void *))
{
    unsigned char copy[512];
    at("%s, whole", name);
    const outcome want = use(full);
    check_ok(want.status, &err);
    assert_int_equal(cut[count - 1], size);
    for (int64_t i = 0; i < count; i++) {
        at("%s of %zu bytes", name, cut[i]);
        check(i == 0 || cut[i] > cut[i - 1]);
        memset(copy, CANARY, sizeof copy);
        memcpy(copy, full, cut[i]);
        memcpy(copy, &cut[i], sizeof cut[i]);
        const outcome got = use(copy);
        check_ok(got.status, &err);
        check_bits(sizeof got.w, got.w, want.w);
        check(got.value == want.value);
    }
    size_t other = cut[0] - 1;
    at("%s too short", name);
    memcpy(copy, full, size);
    memcpy(copy, &other, sizeof other);
    check_status(use(copy).status, SCION_EINVAL, &err);
    for (int known = 0; known < 2; known++) {
        other = size + 8;
        at("%s of a later version, its new member %s", name, known ? "zero" : "set");
        memset(copy + size, known ? 0 : 1, 8);
        memcpy(copy, &other, sizeof other);
        check_status(use(copy).status, known ? SCION_OK : SCION_EINVAL, &err);
    }
}

static void test_shorter_structs(void **state)
{
    (void)state;
    scion_param p = good_param();
    check_cuts("param", &p, sizeof p, param_cuts, COUNT_OF(param_cuts), with_param);
    for (int32_t rule = 0; scion_rule_info(rule); rule++) {
        scion_options o;
        if (scion_rule_info(rule)->needs_prev)
            continue;
        scion_options_init(&o, rule);
        check_cuts(scion_rule_info(rule)->name, &o, sizeof o, option_cuts, COUNT_OF(option_cuts), with_options);
    }
    scion_step s;
    scion_step_init(&s);
    s.lr = 0.1;
    check_cuts("step", &s, sizeof s, step_cuts, COUNT_OF(step_cuts), with_step);
    for (int kind = 0; scion_enum_name(SCION_ENUM_SCHEDULE, kind); kind++) {
        scion_schedule schedule = schedule_of(kind);
        check_cuts(scion_enum_name(SCION_ENUM_SCHEDULE, kind), &schedule, sizeof schedule, schedule_cuts,
                   COUNT_OF(schedule_cuts), with_schedule);
    }
    scion_problem problem;
    scion_schedule schedule = schedule_of(SCION_SCHEDULE_LINEAR);
    scion_problem_init(&problem);
    p.weight = bowl_w;
    p.grad = bowl_g;
    problem.params = &p;
    problem.count = 1;
    problem.gradient = bowl_gradient_at;
    problem.schedule = &schedule;
    problem.steps = 10;
    check_cuts("problem", &problem, sizeof problem, problem_cuts, COUNT_OF(problem_cuts), with_problem);
}

/* The names of a problem's schedule and parameters go by their own sizes. */
static void test_structs_inside(void **state)
{
    (void)state;
    scion_param p[2] = {good_param(), good_param()};
    scion_options o;
    scion_optimizer *opt;
    unsigned char two[2][AT(scion_param, own_first)]; /* an array of shorter ones */
    const size_t size = sizeof *two;
    static float w[2][N], g[2][N];
    for (int i = 0; i < 2; i++) {
        p[i].weight = w[i];
        p[i].grad = g[i];
        p[i].role = i ? SCION_ROLE_OUTPUT : SCION_ROLE_HIDDEN;
        memcpy(two[i], &p[i], size);
        memcpy(two[i], &size, sizeof size);
    }
    scion_options_init(&o, SCION_RULE_SCION);
    check_ok(scion_optimizer_create(&opt, &o, (const scion_param *)(const void *)two, 2, &err), &err);
    scion_info info;
    scion_info_init(&info);
    check_ok(scion_optimizer_inspect(opt, 1, 0, &info, &err), &err);
    assert_int_equal(info.norm, SCION_NORM_SIGN);
    scion_optimizer_free(opt);
}

/* ---- What comes out -------------------------------------------------------------------------------------- */

static scion_optimizer *out_opt;

static scion_status inspect(void *info)
{
    return scion_optimizer_inspect(out_opt, 0, SCION_INSPECT_NORM | SCION_INSPECT_DUAL, info, &err);
}

static scion_status get_array(void *array)
{
    return scion_optimizer_state(out_opt, 0, 0, array) ? SCION_OK : SCION_EINVAL;
}

static scion_status get_about(void *about)
{
    const scion_param p = good_param();
    return scion_param_info(&p, NULL, about, &err);
}

static scion_status minimize_into(scion_result *result)
{
    scion_param p = good_param();
    scion_schedule schedule = schedule_of(SCION_SCHEDULE_LINEAR);
    scion_problem problem;
    scion_problem_init(&problem);
    p.weight = bowl_w;
    p.grad = bowl_g;
    problem.params = &p;
    problem.count = 1;
    problem.gradient = bowl_gradient_at;
    problem.schedule = &schedule;
    problem.steps = 4;
    memset(bowl_w, 0, sizeof bowl_w);
    return scion_minimize(&problem, NULL, result, &err);
}

static scion_status get_result(void *result)
{
    return minimize_into(result);
}

static scion_status get_report(void *report)
{
    scion_result result;
    scion_result_init(&result);
    result.last = report;
    return minimize_into(&result);
}

static const size_t info_cuts[] = {AT(scion_info, elements),    AT(scion_info, rule),      AT(scion_info, norm),
                                   AT(scion_info, role),        AT(scion_info, scale),     AT(scion_info, radius),
                                   AT(scion_info, state_bytes), AT(scion_info, bound),     AT(scion_info, overshoot),
                                   AT(scion_info, weight_norm), AT(scion_info, grad_dual), AT(scion_info, fw_gap),
                                   sizeof(scion_info)};
static const size_t array_cuts[] = {AT(scion_array, first), AT(scion_array, count), AT(scion_array, type),
                                    AT(scion_array, ndim),  AT(scion_array, shape), sizeof(scion_array)};
static const size_t about_cuts[] = {AT(scion_param_properties, elements), AT(scion_param_properties, norm),
                                    AT(scion_param_properties, ranges), sizeof(scion_param_properties)};
static const size_t result_cuts[] = {AT(scion_result, iterate), AT(scion_result, mean_dual_norm),
                                     AT(scion_result, mean_fw_gap), AT(scion_result, last), sizeof(scion_result)};
static const size_t report_cuts[] = {AT(scion_report, lr), AT(scion_report, momentum), AT(scion_report, dual_norm),
                                     AT(scion_report, fw_gap), sizeof(scion_report)};

/* A shorter struct gets the first bytes of the whole one, and nothing behind it is touched. */
static void check_written(const char *name, const size_t *cut, int64_t count, scion_status (*fill)(void *))
{
    unsigned char whole[256] = {0}, part[256];
    const size_t size = cut[count - 1];
    memcpy(whole, &size, sizeof size);
    at("%s, whole", name);
    check_ok(fill(whole), &err);
    for (int64_t i = 0; i < count; i++) {
        at("%s of %zu bytes", name, cut[i]);
        memset(part, 0, cut[i]);
        memset(part + cut[i], CANARY, sizeof part - cut[i]);
        memcpy(part, &cut[i], sizeof cut[i]);
        check_ok(fill(part), &err);
        check_bits(cut[i] - sizeof size, part + sizeof size, whole + sizeof size);
        assert_int_equal(*(size_t *)(void *)part, cut[i]);
        for (size_t k = cut[i]; k < sizeof part; k++)
            assert_int_equal(part[k], CANARY);
    }
}

static void test_written_structs(void **state)
{
    (void)state;
    scion_param p = good_param();
    rng r = rng_of(5);
    p.weight = gaussian(&r, N);
    p.grad = gaussian(&r, N);
    check_ok(scion_optimizer_create(&out_opt, NULL, &p, 1, &err), &err);
    check_written("info", info_cuts, COUNT_OF(info_cuts), inspect);
    check_written("array", array_cuts, COUNT_OF(array_cuts), get_array);
    check_written("param properties", about_cuts, COUNT_OF(about_cuts), get_about);
    check_written("result", result_cuts, COUNT_OF(result_cuts), get_result);
    check_written("report", report_cuts, COUNT_OF(report_cuts), get_report);
    scion_optimizer_free(out_opt);
}

/* Every struct is initialised in the same way: its size, its defaults, and zeros beyond what the library knows. */
static void test_init(void **state)
{
    (void)state;
    unsigned char bytes[512];
#define INIT(type, name, ...)                                               \
    do {                                                                    \
        const size_t size = sizeof(type) + 16;                              \
        memset(bytes, CANARY, sizeof bytes);                                \
        scion_##name##_init_sized((type *)(void *)bytes, size __VA_ARGS__); \
        at(#type);                                                          \
        assert_int_equal(*(size_t *)(void *)bytes, size);                   \
        for (size_t i = sizeof(type); i < size; i++)                        \
            assert_int_equal(bytes[i], 0);                                  \
        assert_int_equal(bytes[size], CANARY);                              \
        scion_##name##_init_sized(NULL, size __VA_ARGS__);                  \
    } while (0)
#define RULE , SCION_RULE_SCION
    INIT(scion_param, param, );
    INIT(scion_options, options, RULE);
    INIT(scion_step, step, );
    INIT(scion_info, info, );
    INIT(scion_array, array, );
    INIT(scion_param_properties, param_properties, );
    INIT(scion_schedule, schedule, );
    INIT(scion_report, report, );
    INIT(scion_problem, problem, );
    INIT(scion_result, result, );
}

/* The version in numbers is the version in letters. */
static void test_version(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(SCION_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(SCION_VERSION_NUMBER, 10000 * major + 100 * minor + patch);
    check(strcmp(scion_version(), SCION_VERSION) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_shorter_structs), LAW(test_structs_inside), LAW(test_written_structs), LAW(test_init),
        LAW(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
