/* A step that callers share: however they divide it, the weights are those of one caller, bit for bit, under every
 * rule. And settings of a step beside lr: momentum, gradient scale, threads. */
#include "support.h"

#include <math.h>
#include <string.h>

static scion_error err;

enum { PARAMS = 7, CALLERS_MAX = 3, LARGE = 3, STEPS = 4 };

static const struct shape {
    const char *name;
    int32_t ndim;
    int64_t shape[4];
    int32_t role, transposed, split;
} shapes[PARAMS] = {
    {"embedding", 2, {50, 12}, SCION_ROLE_ONEHOT, 1, 0}, {"hidden", 2, {20, 16}, SCION_ROLE_HIDDEN, 0, 0},
    {"fused", 2, {30, 10}, SCION_ROLE_HIDDEN, 0, 3},     {"head", 2, {300, 200}, SCION_ROLE_OUTPUT, 0, 0},
    {"bias", 1, {20}, SCION_ROLE_VECTOR, 0, 0},          {"gain", 1, {12}, SCION_ROLE_NORMALIZATION, 0, 0},
    {"conv", 4, {6, 3, 3, 3}, SCION_ROLE_HIDDEN, 0, 0},
};

/* Entries of LARGE that callers own where it can be cut. */
static const int64_t cuts[CALLERS_MAX + 1][CALLERS_MAX + 1] = {
    [1] = {0, 60000}, [2] = {0, SCION_RANGE, 60000}, [3] = {0, SCION_RANGE, 3 * SCION_RANGE, 60000}};

typedef struct caller {
    scion_param p[PARAMS];
    void *states[PARAMS][4];
    int64_t n[PARAMS];
    scion_optimizer *opt;
} caller;

static size_t bytes_of(const caller *c, int i, int64_t n)
{
    return (size_t)n * (c->p[i].weight_type == SCION_BF16 ? 2 : 4);
}

/* True if LARGE can be cut under these options. */
static int can_be_cut(const scion_options *o, const scion_param *params)
{
    scion_param_properties about;
    scion_param_properties_init(&about);
    check_ok(scion_param_info(&params[LARGE], o, &about, &err), &err);
    return about.ranges;
}

/* Normal numbers for parameter i, made once: use 0 for weights, 2k+2 and 2k+3 for the gradients of step k. */
static const float *numbers(int use, int i, int64_t n)
{
    enum { USES = 2 * STEPS + 4, N = 60000 };
    static float made[USES][PARAMS][N];
    static int ready[USES][PARAMS];
    check(use < USES && n <= N);
    if (!ready[use][i]) {
        rng r = rng_of(1000 + (uint64_t)(use * PARAMS + i));
        rng_gaussian(&r, n, made[use][i]);
        ready[use][i] = 1;
    }
    return made[use][i];
}

/* Caller `who` of `callers`: the weights of all, the state of its own. */
static caller *make(const scion_options *o, int who, int callers, int bf16)
{
    caller *c = room(sizeof *c);
    for (int i = 0; i < PARAMS; i++) {
        const struct shape *s = &shapes[i];
        c->p[i] = param_of(s->ndim, s->shape, SCION_NORM_AUTO, (scion_role)s->role);
        c->p[i].name = s->name;
        c->p[i].transposed = s->transposed;
        c->p[i].split_count = s->split;
        c->p[i].radius = 1 + i;
        c->n[i] = elements(&c->p[i]);
        float *w = copy_floats(c->n[i], numbers(0, i, c->n[i]));
        c->p[i].weight_type = bf16 ? SCION_BF16 : SCION_F32;
        c->p[i].weight = bf16 ? (void *)bf16_copy(c->n[i], w) : (void *)w;
        c->p[i].grad = floats(c->n[i]);
        c->p[i].grad_prev = floats(c->n[i]);
        c->p[i].own_count = i % callers == who ? -1 : 0;
    }
    if (can_be_cut(o, c->p)) {
        c->p[LARGE].own_first = cuts[callers][who];
        c->p[LARGE].own_count = cuts[callers][who + 1] - cuts[callers][who];
    }
    check_ok(scion_optimizer_create(&c->opt, o, c->p, PARAMS, &err), &err);
    return c;
}

/* The gradients of step k, the same for every caller. */
static void backward(caller *c, int k)
{
    scion_optimizer_begin(c->opt);
    for (int i = 0; i < PARAMS; i++) {
        const float *more = numbers(2 + 2 * k, i, c->n[i]);
        float *g = c->p[i].grad;
        for (int64_t e = 0; e < c->n[i]; e++)
            g[e] += more[e];
        memcpy(c->p[i].grad_prev, numbers(3 + 2 * k, i, c->n[i]), (size_t)c->n[i] * sizeof(float));
    }
}

static scion_step step_of(double lr)
{
    scion_step s;
    scion_step_init(&s);
    s.lr = lr;
    return s;
}

static double rate(const scion_options *o, int k)
{
    return (scion_rule_info(o->rule)->sharp ? 1e-4 : 0.05) / (1 + k);
}

/* All callers get the weights from their owners. */
static void exchange(caller **c, int callers)
{
    for (int i = 0; i < PARAMS; i++)
        for (int who = 0; who < callers; who++) {
            const scion_param *p = &c[who]->p[i];
            const int64_t n = p->own_count < 0 ? c[who]->n[i] : p->own_count;
            const size_t at = bytes_of(c[who], i, p->own_first), bytes = bytes_of(c[who], i, n);
            for (int other = 0; other < callers; other++)
                if (other != who)
                    memcpy((char *)c[other]->p[i].weight + at, (const char *)p->weight + at, bytes);
        }
}

static void shared_step(caller **c, int callers, const scion_step *s, int k)
{
    double sums[PARAMS] = {0};
    const int64_t joint = scion_optimizer_joint_count(c[0]->opt);
    check(joint == 0 || joint == PARAMS);
    for (int who = 0; who < callers; who++) {
        double mine[PARAMS];
        backward(c[who], k);
        check_ok(scion_optimizer_check(c[who]->opt, s, &err), &err);
        check_ok(scion_optimizer_joint(c[who]->opt, s, joint ? mine : NULL, &err), &err);
        for (int i = 0; i < joint; i++)
            sums[i] += mine[i];
    }
    for (int who = 0; who < callers; who++) {
        const double *all = joint ? sums : NULL;
        if (who == 0) {
            check_ok(scion_optimizer_part(c[who]->opt, s, all, SCION_ALL, 0, -1, &err), &err);
        } else {
            for (int i = PARAMS - 1; i >= 0; i--)
                check_ok(scion_optimizer_part(c[who]->opt, s, all, i, 0, -1, &err), &err);
        }
        check_ok(scion_optimizer_finish(c[who]->opt, s, &err), &err);
    }
    exchange(c, callers);
}

static void *saved(const caller *c, unsigned flags, size_t *bytes)
{
    *bytes = scion_optimizer_save_bytes(c->opt, flags);
    void *buffer = room(*bytes);
    check_ok(scion_optimizer_save(c->opt, flags, buffer, *bytes, &err), &err);
    return buffer;
}

/* STEPS shared steps against STEPS of one caller; half way the callers take over its saved state. */
static void check_shared(const char *name, const scion_options *o, int callers, int bf16)
{
    caller *one = make(o, 0, 1, bf16), *c[CALLERS_MAX];
    size_t bytes, counters, others;
    for (int who = 0; who < callers; who++)
        c[who] = make(o, who, callers, bf16);
    for (int k = 0; k < STEPS; k++) {
        const scion_step s = step_of(rate(o, k));
        backward(one, k);
        check_ok(scion_optimizer_step_with(one->opt, &s, &err), &err);
        shared_step(c, callers, &s, k);
        for (int who = 0; who < callers; who++)
            for (int i = 0; i < PARAMS; i++) {
                at("%s, %d callers, step %d: %s of caller %d", name, callers, k + 1, one->p[i].name, who);
                check_bits(bytes_of(one, i, one->n[i]), c[who]->p[i].weight, one->p[i].weight);
            }
        const void *all = saved(one, 0, &bytes), *few = saved(one, SCION_WITHOUT_ARRAYS, &counters);
        for (int who = 0; who < callers; who++) {
            at("%s, %d callers, step %d: the state of caller %d", name, callers, k + 1, who);
            const void *mine = saved(c[who], SCION_WITHOUT_ARRAYS, &others);
            assert_int_equal(counters, others);
            check_bits(counters, mine, few); /* every caller counts every parameter */
            if (k == STEPS / 2 - 1)
                check_ok(scion_optimizer_load(c[who]->opt, 0, all, bytes, &err), &err);
        }
    }
    for (int who = 0; who < callers; who++)
        scion_optimizer_free(c[who]->opt);
    scion_optimizer_free(one->opt);
    release(NULL);
}

static void for_each_rule(void (*law)(const char *name, scion_options *o))
{
    for (int32_t rule = 0; scion_rule_info(rule); rule++) {
        const scion_rule_properties *about = scion_rule_info(rule);
        for (int variant = 0; variant < 4; variant++) { /* by default; not layerwise; clipped; light */
            scion_options o;
            scion_options_init(&o, rule);
            if (variant == 1)
                o.layerwise = !o.layerwise;
            if (variant == 2)
                o.clip_norm = 30;
            if (variant == 3) {
                if (!about->light)
                    continue;
                o.light = 1;
            }
            law(about->name, &o);
        }
    }
}

static void shared_by_two_and_three(const char *name, scion_options *o)
{
    check_shared(name, o, 2, 0);
    check_shared(name, o, 3, 0);
    check_shared(name, o, 3, 1);
}

static void test_shared(void **state)
{
    (void)state;
    for_each_rule(shared_by_two_and_three);
}

/* Parameters of others take no memory, and a parameter that is cut only its range. */
static void test_memory_is_shared(void **state)
{
    (void)state;
    scion_options o;
    scion_options_init(&o, SCION_RULE_ADAMW);
    caller *one = make(&o, 0, 1, 0);
    size_t sum = 0;
    for (int who = 0; who < 3; who++) {
        caller *c = make(&o, who, 3, 0);
        scion_array a;
        scion_array_init(&a);
        sum += scion_optimizer_state_bytes(c->opt);
        check(scion_optimizer_state(c->opt, LARGE, 1, &a) && strcmp(a.name, "second") == 0);
        assert_int_equal(a.first, cuts[3][who]);
        assert_int_equal(a.count, cuts[3][who + 1] - cuts[3][who]);
        check(!scion_optimizer_state(c->opt, (who + 1) % 3, 0, &a));
        scion_optimizer_free(c->opt);
    }
    assert_int_equal(sum, scion_optimizer_state_bytes(one->opt));
    scion_optimizer_free(one->opt);
}

/* Before a step all gradients are zero, but those that `light` keeps the average in: of the entries owned here. */
static void test_begin_clears_gradients(void **state)
{
    (void)state;
    for (int light = 0; light < 2; light++)
        for (int who = 0; who < 3; who++) {
            scion_options o;
            scion_options_init(&o, SCION_RULE_SIGNUM);
            o.light = light;
            caller *c = make(&o, who, 3, 0);
            for (int i = 0; i < PARAMS; i++)
                for (int64_t e = 0; e < c->n[i]; e++)
                    ((float *)c->p[i].grad)[e] = 1;
            scion_optimizer_begin(c->opt);
            for (int i = 0; i < PARAMS; i++) {
                const int64_t first = c->p[i].own_first, count = c->p[i].own_count < 0 ? c->n[i] : c->p[i].own_count;
                at("light %d, caller %d, %s", light, who, shapes[i].name);
                for (int64_t e = 0; e < c->n[i]; e++)
                    check(((const float *)c->p[i].grad)[e] == (light && e >= first && e < first + count));
            }
            scion_optimizer_free(c->opt);
            release(NULL);
        }
}

/* The smallest part of all: a parameter of one entry. */
static void test_part_of_one_entry(void **state)
{
    (void)state;
    float w[2];
    for (int whole = 0; whole < 2; whole++) {
        float g = 0.5f;
        scion_param p = param_of(1, (const int64_t[]){1}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
        scion_optimizer *opt;
        scion_step s = step_of(0.1);
        w[whole] = 3;
        p.weight = &w[whole];
        p.grad = &g;
        check_ok(scion_optimizer_create(&opt, NULL, &p, 1, &err), &err);
        if (whole) {
            check_ok(scion_optimizer_step_with(opt, &s, &err), &err);
        } else {
            check_ok(scion_optimizer_joint(opt, &s, NULL, &err), &err);
            check_ok(scion_optimizer_part(opt, &s, NULL, 0, 0, 1, &err), &err);
            check_ok(scion_optimizer_finish(opt, &s, &err), &err);
        }
        scion_optimizer_free(opt);
    }
    check(w[0] == w[1] && w[0] < 3);
}

static void test_wrong_shares(void **state)
{
    (void)state;
    static const int64_t wrong[][3] = {/* parameter, own_first, own_count */
                                       {0, 0, 16},
                                       {2, 0, 100},
                                       {LARGE, 1, SCION_RANGE},
                                       {LARGE, 0, SCION_RANGE + 1},
                                       {LARGE, SCION_RANGE, 60000},
                                       {LARGE, -SCION_RANGE, SCION_RANGE},
                                       {LARGE, 65536, SCION_RANGE}};
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    caller *c = make(&o, 0, 1, 0);
    scion_step s = step_of(0.1);
    for (int64_t t = 0; t < COUNT_OF(wrong); t++) {
        scion_param p[PARAMS];
        scion_optimizer *opt;
        memcpy(p, c->p, sizeof p);
        p[wrong[t][0]].own_first = wrong[t][1];
        p[wrong[t][0]].own_count = wrong[t][2];
        at("row %lld", (long long)t);
        check_status(scion_optimizer_create(&opt, &o, p, PARAMS, &err), SCION_EINVAL, &err);
        assert_int_equal(err.param, wrong[t][0]);
    }
    at("phases out of order");
    check_status(scion_optimizer_part(c->opt, &s, NULL, SCION_ALL, 0, -1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_finish(c->opt, &s, &err), SCION_EINVAL, &err);
    check_ok(scion_optimizer_joint(c->opt, &s, NULL, &err), &err);
    at("wrong parts");
    check_status(scion_optimizer_part(c->opt, &s, NULL, PARAMS, 0, -1, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_part(c->opt, &s, NULL, 0, 0, 12, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_part(c->opt, &s, NULL, LARGE, 5, 16, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_part(c->opt, &s, NULL, LARGE, SCION_RANGE, 60000, &err), SCION_EINVAL, &err);
    scion_optimizer_free(c->opt);
    scion_options_init(&o, SCION_RULE_NSGD);
    c = make(&o, 0, 1, 0);
    check_status(scion_optimizer_joint(c->opt, &s, NULL, &err), SCION_EINVAL, &err);
    scion_optimizer_free(c->opt);
}

/* A parameter in ranges, in any order, is the parameter at once. */
static void in_ranges(const char *name, scion_options *o)
{
    caller *a = make(o, 0, 1, 1), *b = make(o, 0, 1, 1);
    double sums[PARAMS];
    if (!can_be_cut(o, a->p)) {
        scion_optimizer_free(a->opt);
        scion_optimizer_free(b->opt);
        return;
    }
    for (int k = 0; k < STEPS; k++) {
        const scion_step s = step_of(rate(o, k));
        backward(a, k);
        backward(b, k);
        check_ok(scion_optimizer_step_with(a->opt, &s, &err), &err);
        check_ok(scion_optimizer_check(b->opt, &s, &err), &err);
        check_ok(scion_optimizer_joint(b->opt, &s, sums, &err), &err);
        for (int part = 2; part >= 0; part--)
            check_ok(
                scion_optimizer_part(b->opt, &s, sums, LARGE, cuts[3][part], cuts[3][part + 1] - cuts[3][part], &err),
                &err);
        for (int i = 0; i < PARAMS; i++)
            if (i != LARGE)
                check_ok(scion_optimizer_part(b->opt, &s, sums, i, 0, -1, &err), &err);
        check_ok(scion_optimizer_finish(b->opt, &s, &err), &err);
        for (int i = 0; i < PARAMS; i++) {
            at("%s, step %d, %s", name, k + 1, a->p[i].name);
            check_bits(bytes_of(a, i, a->n[i]), b->p[i].weight, a->p[i].weight);
        }
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    release(NULL);
}

static void test_ranges(void **state)
{
    (void)state;
    for_each_rule(in_ranges);
}

/* ---- Settings of a step ---------------------------------------------------------------------------------- */

static void compare(const char *what, const char *name, const caller *a, const caller *b, double tol)
{
    for (int i = 0; i < PARAMS; i++) {
        at("%s, %s, %s", what, name, a->p[i].name);
        if (tol > 0)
            check_array(a->n[i], b->p[i].weight, widen(a->n[i], a->p[i].weight), tol);
        else
            check_bits(bytes_of(a, i, a->n[i]), b->p[i].weight, a->p[i].weight);
    }
}

/* grad_scale = 1/4 is the gradient times 1/4, which float32 does exactly; also where eps matters. */
static void scaled(const char *name, scion_options *o)
{
    o->eps = 1e-2;
    o->polar_eps = 1e-1;
    caller *a = make(o, 0, 1, 0), *b = make(o, 0, 1, 0);
    for (int k = 0; k < STEPS; k++) {
        scion_step s = step_of(rate(o, k));
        backward(a, k);
        backward(b, k);
        for (int i = 0; i < PARAMS && !o->light; i++)
            for (int64_t e = 0; e < a->n[i]; e++) {
                ((float *)a->p[i].grad)[e] *= 0.25f;
                ((float *)a->p[i].grad_prev)[e] *= 0.25f;
            }
        check_ok(scion_optimizer_step_with(a->opt, &s, &err), &err);
        s.grad_scale = 0.25;
        s.threads = 1 + k % 2;
        if (o->light) {
            check_status(scion_optimizer_step_with(b->opt, &s, &err), SCION_EINVAL, &err);
            check(strstr(err.message, "grad_scale") != NULL);
            break;
        }
        check_ok(scion_optimizer_step_with(b->opt, &s, &err), &err);
        compare("grad_scale", name, a, b, 0);
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    release(NULL);
}

static void test_grad_scale(void **state)
{
    (void)state;
    for_each_rule(scaled);
}

/* The momentum of a step has the effect of scion_optimizer_set before it. */
static void told_momentum(const char *name, scion_options *o)
{
    static const double alpha[STEPS + 1] = {0.3, 0.1, 0.5, 0.2, 0.4};
    caller *a = make(o, 0, 1, 0), *b = make(o, 0, 1, 0);
    const int averages = scion_rule_info(o->rule)->averages;
    for (int k = 0; k < STEPS; k++) {
        scion_step s = step_of(rate(o, k));
        if (averages)
            check_ok(scion_optimizer_set(a->opt, SCION_ALL, SCION_SET_MOMENTUM, alpha[k], &err), &err);
        backward(a, k);
        backward(b, k);
        check_ok(scion_optimizer_step_with(a->opt, &s, &err), &err);
        s.momentum = alpha[k];
        s.next_momentum = alpha[k + 1];
        check_ok(scion_optimizer_step_with(b->opt, &s, &err), &err);
        compare("momentum", name, a, b, o->light ? 1e-5 : 0);
    }
    if (o->light) { /* the last step had next_momentum 0.4 */
        scion_step s = step_of(0.01);
        backward(b, STEPS);
        s.momentum = 0.3;
        check_status(scion_optimizer_step_with(b->opt, &s, &err), SCION_EINVAL, &err);
        check(strstr(err.message, "next_momentum") != NULL);
        s.momentum = -1;
        check_status(scion_optimizer_step_with(b->opt, &s, &err), SCION_EINVAL, &err);
        s.momentum = 0.4;
        check_ok(scion_optimizer_step_with(b->opt, &s, &err), &err);
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    release(NULL);
}

static void test_momentum(void **state)
{
    (void)state;
    for_each_rule(told_momentum);
}

static void test_wrong_steps(void **state)
{
    (void)state;
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    caller *c = make(&o, 0, 1, 0);
    scion_step good = step_of(0.1), s;
    check_status(scion_optimizer_step_with(c->opt, NULL, &err), SCION_EINVAL, &err);
    s = good, s.lr = NAN;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    s = good, s.momentum = 1.5;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    s = good, s.next_momentum = 0;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    s = good, s.grad_scale = 0;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    s = good, s.grad_scale = INFINITY;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    s = good, s.threads = -1;
    check_status(scion_optimizer_step_with(c->opt, &s, &err), SCION_EINVAL, &err);
    assert_int_equal(scion_optimizer_steps(c->opt), 0);
    scion_optimizer_free(c->opt);
}

/* ---- State arrays ---------------------------------------------------------------------------------------- */

/* Arrays of the caller's are those of the optimizer: the run is the same, and so is one that takes them over. */
static void callers_arrays(const char *name, scion_options *o)
{
    caller *a = make(o, 0, 1, 0), *b = make(o, 0, 1, 0), *c;
    scion_array array;
    size_t bytes;
    scion_array_init(&array);
    scion_optimizer_free(b->opt);
    for (int i = 0; i < PARAMS; i++) {
        b->p[i].states = b->states[i];
        for (; scion_param_state(&b->p[i], o, (int)b->p[i].state_count, &array); b->p[i].state_count++) {
            check(array.data == NULL && array.first == 0 && array.count == b->n[i] && array.ndim == b->p[i].ndim);
            b->states[i][b->p[i].state_count] = floats(array.count);
        }
    }
    check_ok(scion_optimizer_create(&b->opt, o, b->p, PARAMS, &err), &err);
    for (int k = 0; k < STEPS; k++) {
        const scion_step s = step_of(rate(o, k));
        backward(a, k);
        backward(b, k);
        check_ok(scion_optimizer_step_with(a->opt, &s, &err), &err);
        check_ok(scion_optimizer_step_with(b->opt, &s, &err), &err);
    }
    compare("arrays of the caller", name, a, b, 0);
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; scion_optimizer_state(b->opt, i, k, &array); k++) {
            check(array.data == b->states[i][k]);
            assert_int_equal(array.count, b->n[i]);
        }
    /* a third one begins with these arrays and with the counters alone */
    const void *counters = saved(b, SCION_WITHOUT_ARRAYS, &bytes);
    c = room(sizeof *c);
    memcpy(c, b, sizeof *c);
    scion_optimizer_free(b->opt);
    check_ok(scion_optimizer_create(&c->opt, o, c->p, PARAMS, &err), &err);
    check_status(scion_optimizer_load(c->opt, 0, counters, bytes, &err), SCION_ESTATE, &err);
    check(strstr(err.message, "arrays") != NULL);
    check_ok(scion_optimizer_load(c->opt, SCION_WITHOUT_ARRAYS, counters, bytes, &err), &err);
    assert_int_equal(scion_optimizer_steps(c->opt), STEPS);
    const scion_step s = step_of(0.001);
    backward(a, STEPS);
    backward(c, STEPS);
    check_ok(scion_optimizer_step_with(a->opt, &s, &err), &err);
    check_ok(scion_optimizer_step_with(c->opt, &s, &err), &err);
    compare("resumed with the caller's arrays", name, a, c, 0);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(c->opt);
    release(NULL);
}

static void test_callers_arrays(void **state)
{
    (void)state;
    for_each_rule(callers_arrays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_shared),
        LAW(test_memory_is_shared),
        LAW(test_wrong_shares),
        LAW(test_ranges),
        LAW(test_grad_scale),
        LAW(test_momentum),
        LAW(test_wrong_steps),
        LAW(test_callers_arrays),
        LAW(test_begin_clears_gradients),
        LAW(test_part_of_one_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
