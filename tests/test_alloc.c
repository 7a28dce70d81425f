/* Memory: the N-th allocation fails, for every N, in every function that allocates: the answer is ENOMEM, nothing
 * leaks, and what was there is unharmed. A step allocates nothing. */
#include "support.h"

#include <string.h>

static scion_error err;

enum { PARAMS = 4, MOST = 2000 };

static void make_params(scion_param *p)
{
    static const int64_t sizes[] = {1, 2};
    rng r = rng_of(4);
    p[0] = matrix_of(5, 4, SCION_NORM_AUTO, SCION_ROLE_ONEHOT);
    p[1] = matrix_of(12, 9, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    p[1].split_count = 3;
    p[2] = matrix_of(3, 6, SCION_NORM_AUTO, SCION_ROLE_OUTPUT);
    p[2].split_count = 2;
    p[2].split_sizes = sizes;
    p[3] = param_of(1, (int64_t[]){6}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    for (int i = 0; i < PARAMS; i++) {
        int64_t n = elements(&p[i]);
        p[i].name = i == 2 ? NULL : "named";
        p[i].weight = gaussian(&r, n);
        p[i].grad = gaussian(&r, n);
        p[i].grad_prev = gaussian(&r, n);
    }
}

static scion_options options_of(int rule, meter *m)
{
    scion_options o;
    scion_options_init(&o, (scion_rule)rule);
    m->allocator = meter_allocator(m);
    o.allocator = &m->allocator;
    return o;
}

/* ---- One function at a time: f(p, o) is tried with its N-th allocation failing, until it succeeds --------- */

typedef scion_status (*attempt)(const scion_param *p, const scion_options *o, meter *m);

static void fail_each(const char *name, attempt f, int rule)
{
    scion_param p[PARAMS];
    int64_t n;
    make_params(p);
    for (n = 1; n <= MOST; n++) {
        meter m = {.fail_at = n};
        scion_options o = options_of(rule, &m);
        memset(&err, 0, sizeof err);
        scion_status status = f(p, &o, &m);
        at("%s, rule %d, allocation %lld fails", name, rule, (long long)n);
        assert_int_equal(m.live, 0);
        assert_int_equal(m.bytes, 0);
        if (m.calls < n) { /* it never came to the N-th: this is the run in which all goes well */
            check_ok(status, &err);
            break;
        }
        check_status(status, SCION_ENOMEM, &err);
        check(err.status == SCION_ENOMEM && err.message[0] != '\0');
        check(err.param == -1 || strncmp(err.message, "out of memory", 13) != 0); /* begins with a parameter's name */
    }
    check(n < MOST);
}

static scion_status try_create(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    scion_optimizer *opt = (scion_optimizer *)&err;
    scion_status status = scion_optimizer_create(&opt, o, p, PARAMS, &err);
    check((opt == NULL) == (status != SCION_OK));
    scion_optimizer_free(opt);
    return status;
}

/* The whole life of an optimizer. The first call that fails ends it. */
static scion_status try_life(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    scion_optimizer *opt;
    scion_info info = {.size = sizeof info};
    scion_status status = scion_optimizer_create(&opt, o, p, PARAMS, &err);
    if (!status)
        status = scion_optimizer_init_weights(opt, 1, &err);
    for (int k = 0; k < 2 && !status; k++)
        status = scion_optimizer_step(opt, 0.1, &err);
    if (!status) {
        size_t bytes = scion_optimizer_save_bytes(opt, 0);
        void *buffer = room(bytes);
        status = scion_optimizer_save(opt, 0, buffer, bytes, &err);
        if (!status)
            status = scion_optimizer_load(opt, 0, buffer, bytes, &err);
    }
    if (!status)
        status = scion_optimizer_mark_start(opt, &err);
    for (int64_t i = 0; i < PARAMS && !status; i++)
        status = scion_optimizer_inspect(opt, i, SCION_INSPECT_NORM | SCION_INSPECT_DUAL, &info, &err);
    if (!status && o->rule == SCION_RULE_MARS)
        status = scion_optimizer_previous(opt, &err);
    scion_optimizer_free(opt);
    return status;
}

static void test_optimizer(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        fail_each("create", try_create, rule);
        fail_each("create, init, step, save, load, inspect", try_life, rule);
        release(NULL);
    }
}

static scion_status try_lmo(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    return scion_lmo(&p[1], o, p[1].grad, floats(elements(&p[1])), &err);
}

static scion_status try_norm(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    double value;
    return scion_norm_value(&p[1], o, p[1].grad, &value, &err);
}

static scion_status try_dual(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    double value;
    return scion_dual_norm(&p[1], o, p[1].grad, &value, &err);
}

static scion_status try_sharp(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    return scion_sharp(&p[1], o, p[1].grad, floats(elements(&p[1])), &err);
}

static scion_status try_gap(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    double value;
    return scion_fw_gap(&p[1], o, p[1].grad, p[1].weight, &value, &err);
}

static scion_status try_init(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    return scion_boundary_init(&p[1], o, 1, floats(elements(&p[1])), &err);
}

static scion_status try_polar(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    return scion_polar(12, 9, p[1].grad, floats(108), o, &err);
}

static void test_free_standing(void **state)
{
    (void)state;
    fail_each("lmo", try_lmo, SCION_RULE_SCION);
    fail_each("norm_value", try_norm, SCION_RULE_SCION);
    fail_each("dual_norm", try_dual, SCION_RULE_SCION);
    fail_each("sharp", try_sharp, SCION_RULE_SCION);
    fail_each("fw_gap", try_gap, SCION_RULE_SCION);
    fail_each("boundary_init", try_init, SCION_RULE_SCION);
    fail_each("polar", try_polar, SCION_RULE_SCION);
}

static int zero_gradient(void *ctx, int64_t k, uint64_t sample)
{
    (void)ctx, (void)k, (void)sample;
    return 0;
}

static scion_status try_minimize(const scion_param *p, const scion_options *o, meter *m)
{
    (void)m;
    scion_problem problem = {.size = sizeof problem,
                             .params = p,
                             .count = PARAMS,
                             .gradient = zero_gradient,
                             .steps = 4,
                             .report_every = 1,
                             .uniform = 1};
    scion_result result = {.size = sizeof result};
    const scion_schedule schedule = {.size = sizeof schedule, .peak = 0.1};
    problem.schedule = &schedule;
    return scion_minimize(&problem, o, &result, &err);
}

static void test_minimize(void **state)
{
    (void)state;
    fail_each("minimize", try_minimize, SCION_RULE_SCION);
    fail_each("minimize", try_minimize, SCION_RULE_MARS);
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

static void test_steps_allocate_nothing(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        meter m = {0};
        scion_param p[PARAMS];
        scion_options o = options_of(rule, &m);
        scion_optimizer *opt;
        make_params(p);
        at("rule %s", scion_enum_name(SCION_ENUM_RULE, rule));
        check_ok(scion_optimizer_create(&opt, &o, p, PARAMS, &err), &err);
        int64_t calls = m.calls, bytes = m.bytes;
        for (int k = 0; k < 5; k++) {
            scion_optimizer_begin(opt);
            for (int i = 0; i < PARAMS; i++)
                ((float *)p[i].grad)[k] = 1;
            check_ok(scion_optimizer_step(opt, 0.1, &err), &err);
        }
        assert_int_equal(m.calls, calls);
        /* workspace and state are what create took, up to its own records and alignment */
        size_t planned = scion_optimizer_workspace_bytes(opt) + scion_optimizer_state_bytes(opt);
        check_le((double)planned, (double)bytes);
        check_le((double)bytes, (double)planned + 16384);
        scion_optimizer_free(opt);
        assert_int_equal(m.live, 0);
        release(NULL);
    }
}

/* A refused step, load or create takes nothing either. */
static void test_refusals_leak_nothing(void **state)
{
    (void)state;
    meter m = {0};
    scion_param p[PARAMS];
    scion_options o = options_of(SCION_RULE_SCION, &m);
    scion_optimizer *opt;
    make_params(p);
    p[2].radius = -1;
    check_status(scion_optimizer_create(&opt, &o, p, PARAMS, &err), SCION_EINVAL, &err);
    check(opt == NULL);
    assert_int_equal(m.live, 0);
    p[2].radius = 1;
    check_ok(scion_optimizer_create(&opt, &o, p, PARAMS, &err), &err);
    int64_t live = m.live;
    check_status(scion_optimizer_load(opt, 0, "nonsense", 8, &err), SCION_ESTATE, &err);
    assert_int_equal(m.live, live);
    scion_optimizer_free(opt);
    scion_optimizer_free(NULL);
    assert_int_equal(m.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_optimizer),
        LAW(test_free_standing),
        LAW(test_minimize),
        LAW(test_steps_allocate_nothing),
        LAW(test_refusals_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
