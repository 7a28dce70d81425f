/* Optimizers that older versions saved: each is loaded through the public interface, takes two steps, and must have
 * the weights that its own version came to. The files are in tests/old/, and are never written again. */
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "old/0.2.0/old_states.h"

static scion_error err;

/* Other CPUs and later kernels round otherwise: 1e-7 in an entry, some 1e-6 behind the spectral iteration. Weights in
 * bfloat16 are drawn up or down by a number that a last bit can pass: one unit in their last place. */
static const double tolerance = 1e-5, tolerance_bf16 = 0x1p-7;

/* ---- Files --------------------------------------------------------------------------------------------- */

static void *read_whole(const char *name, const char *ending, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/0.2.0/states/%s.%s", SCION_OLD_FILES, name, ending);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s cannot be opened", path);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    void *data = room(*bytes);
    assert_int_equal(fread(data, 1, *bytes, f), *bytes);
    fclose(f);
    return data;
}

/* ---- An optimizer as the one that was saved -------------------------------------------------------------- */

typedef struct run {
    scion_param p[OLD_PARAMS];
    double *after[OLD_PARAMS]; /* the weights that it ends with */
    const float *bounds;
    const void *state;
    size_t state_bytes;
    scion_optimizer *opt;
} run;

static float *weights_of(const run *r, int i)
{
    const int64_t n = old_count(i);
    if (r->p[i].weight_type == SCION_F32)
        return r->p[i].weight;
    float *w = floats(n);
    for (int64_t k = 0; k < n; k++)
        w[k] = bf16_value(((const uint16_t *)r->p[i].weight)[k]);
    return w;
}

/* The next n numbers of a file. */
static const float *next(const float **at, int64_t n)
{
    const float *from = *at;
    *at += n;
    return from;
}

/* Settings that the state carries are left at their defaults here. */
static run *make(const struct old_case *c)
{
    run *r = room(sizeof *r);
    scion_options o;
    size_t bytes;
    const float *file = read_whole(c->name, "weights", &bytes), *at = file;
    r->state = read_whole(c->name, "state", &r->state_bytes);
    scion_options_init(&o, (scion_rule)scion_enum_value(SCION_ENUM_RULE, c->rule));
    o.routing = (scion_routing)scion_enum_value(SCION_ENUM_ROUTING, "onehot");
    o.light = c->light;
    o.vanishing = c->vanishing;
    o.seed = OLD_SEED;
    for (int i = 0; i < OLD_PARAMS; i++) {
        const struct old_param *from = &old_params[i];
        const int64_t n = old_count(i);
        int64_t shape[4];
        for (int k = 0; k < from->ndim; k++)
            shape[k] = from->shape[k];
        const int role = scion_enum_value(SCION_ENUM_ROLE, from->role);
        check(role >= 0);
        scion_param *p = &r->p[i];
        *p = param_of(from->ndim, shape, SCION_NORM_AUTO, (scion_role)role);
        p->name = from->name;
        p->transposed = from->transposed;
        p->split_axis = from->split_axis;
        p->split_count = from->split_count;
        const float *before = next(&at, n);
        p->weight_type = c->bf16 ? SCION_BF16 : SCION_F32;
        p->weight = c->bf16 ? (void *)bf16_copy(n, before) : (void *)copy_floats(n, before);
        p->grad = c->light ? copy_floats(n, next(&at, n)) : floats(n);
        p->grad_prev = floats(n);
        r->after[i] = widen(n, next(&at, n));
    }
    r->bounds = next(&at, OLD_PARAMS);
    assert_int_equal((size_t)(at - file) * sizeof *at, bytes);
    check_ok(scion_optimizer_create(&r->opt, &o, r->p, OLD_PARAMS, &err), &err);
    return r;
}

static void step(run *r, int k)
{
    scion_optimizer_begin(r->opt);
    for (int i = 0; i < OLD_PARAMS; i++) {
        const int64_t n = old_count(i);
        float *g = r->p[i].grad, *more = floats(n);
        old_numbers(k, i, n, more);
        for (int64_t e = 0; e < n; e++)
            g[e] += more[e];
        old_numbers(k + 100, i, n, r->p[i].grad_prev);
    }
    check_ok(scion_optimizer_step(r->opt, old_lr, &err), &err);
}

/* ---- The laws -------------------------------------------------------------------------------------------- */

static void test_old_states_go_on(void **state)
{
    (void)state;
    for (int t = 0; t < OLD_CASES; t++) {
        const struct old_case *c = &old_cases[t];
        run *r = make(c);
        at("%s of 0.2.0", c->name);
        check_ok(scion_optimizer_load(r->opt, 0, r->state, r->state_bytes, &err), &err);
        assert_int_equal(scion_optimizer_steps(r->opt), OLD_STEPS);
        for (int k = OLD_STEPS + 1; k <= OLD_STEPS + OLD_MORE; k++)
            step(r, k);
        for (int i = 0; i < OLD_PARAMS; i++) {
            scion_info info = {.size = sizeof info};
            at("%s of 0.2.0, %s", c->name, old_params[i].name);
            check_array(old_count(i), weights_of(r, i), r->after[i], c->bf16 ? tolerance_bf16 : tolerance);
            check_ok(scion_optimizer_inspect(r->opt, i, 0, &info, &err), &err);
            if (isinf(r->bounds[i]))
                check(isinf(info.bound));
            else
                check_rel(info.bound, (double)r->bounds[i], tolerance);
        }
        scion_optimizer_free(r->opt);
        release(NULL);
    }
}

/* The comparison sees that a state matters: without it the weights are others, but for the rules whose steps are
 * functions of the gradient alone. */
static void test_states_matter(void **state)
{
    (void)state;
    static const char *const stateless[] = {"signsgd", "nsgd", "ssd"};
    for (int t = 0; t < OLD_CASES; t++) {
        const struct old_case *c = &old_cases[t];
        run *r = make(c);
        double worst = 0;
        bool kept = c->light;
        for (int64_t k = 0; k < COUNT_OF(stateless); k++)
            kept = kept || strcmp(c->rule, stateless[k]) == 0;
        for (int k = OLD_STEPS + 1; k <= OLD_STEPS + OLD_MORE; k++)
            step(r, k);
        for (int i = 0; i < OLD_PARAMS; i++)
            worst = fmax(worst, array_error(old_count(i), weights_of(r, i), r->after[i]));
        at("%s of 0.2.0 without its state: %g", c->name, worst);
        check(kept || worst > (c->bf16 ? tolerance_bf16 : tolerance));
        scion_optimizer_free(r->opt);
        release(NULL);
    }
}

/* The old form is checked as the present one is: a changed byte anywhere is refused. */
static void test_damaged_old_states(void **state)
{
    (void)state;
    for (int t = 0; t < OLD_CASES; t++) {
        run *r = make(&old_cases[t]);
        unsigned char *copy = room(r->state_bytes);
        for (size_t k = 0; k < r->state_bytes; k += 1 + k / 64) {
            memcpy(copy, r->state, r->state_bytes);
            copy[k] ^= 0x10;
            at("%s of 0.2.0, byte %zu changed", old_cases[t].name, k);
            check_status(scion_optimizer_load(r->opt, 0, copy, r->state_bytes, &err), SCION_ESTATE, &err);
        }
        at("%s of 0.2.0, cut off", old_cases[t].name);
        check_status(scion_optimizer_load(r->opt, 0, r->state, r->state_bytes - 1, &err), SCION_ESTATE, &err);
        scion_optimizer_free(r->opt);
        release(NULL);
    }
}

/* As docs/file-formats.md has it. */
static void seal(unsigned char *state, size_t bytes)
{
    const size_t head = 32, n = bytes - head;
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, state + head + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    memcpy(state + 24, &h, sizeof h);
}

/* Nor are values taken that could not be set: in the first parameter a radius, and the steps of the optimizer. */
static void test_old_values_out_of_range(void **state)
{
    (void)state;
    const size_t steps = 32 + 8 + 3 * 8; /* in a record, after rule, light, count */
    const size_t radius = 32 + 7 * 8 + 8 + 8 + strlen(old_params[0].name) + 5 * 8; /* after the name and its shape */
    static const double wrong[] = {NAN, -5, INFINITY, 0};
    const int64_t many = INT64_MAX;
    for (int t = 0; t < OLD_CASES; t++) {
        run *r = make(&old_cases[t]);
        unsigned char *copy = room(r->state_bytes);
        for (int64_t k = 0; k < COUNT_OF(wrong); k++) {
            memcpy(copy, r->state, r->state_bytes);
            memcpy(copy + radius, &wrong[k], sizeof wrong[k]);
            seal(copy, r->state_bytes);
            at("%s of 0.2.0, radius %g", old_cases[t].name, wrong[k]);
            check_status(scion_optimizer_load(r->opt, 0, copy, r->state_bytes, &err), SCION_ESTATE, &err);
            check(strstr(err.message, "radius") != NULL);
        }
        memcpy(copy, r->state, r->state_bytes);
        memcpy(copy + steps, &many, sizeof many);
        seal(copy, r->state_bytes);
        at("%s of 0.2.0, too many steps", old_cases[t].name);
        check_status(scion_optimizer_load(r->opt, 0, copy, r->state_bytes, &err), SCION_ESTATE, &err);
        check(strstr(err.message, "steps") != NULL);
        assert_int_equal(scion_optimizer_steps(r->opt), 0);
        scion_optimizer_free(r->opt);
        release(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_old_states_go_on),
        LAW(test_states_matter),
        LAW(test_damaged_old_states),
        LAW(test_old_values_out_of_range),
    };
    /* States are in the byte order of the machine that saved them. */
    const uint16_t one = 1;
    if (*(const unsigned char *)&one != 1)
        return puts("skipped: the files are little-endian"), 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
