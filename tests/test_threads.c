/* Threads: two optimizers stepped at the same time give the same bits as each alone; the number of OpenMP threads
 * changes no bit; the free-standing functions may run side by side. Self-contained, so that it can be built with
 * ThreadSanitizer against a library without OpenMP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "scion_advanced.h"

enum { PARAMS = 3, ROWS = 40, COLS = 56, MOST = ROWS * COLS, STEPS = 6, RUNS = 4 };

/* One thread's own data. */
typedef struct job {
    scion_rule rule;
    int32_t threads;
    uint64_t seed;
    int failed;
    float w[PARAMS][MOST], g[PARAMS][MOST], g_prev[PARAMS][MOST];
    unsigned char *state;
    size_t state_bytes;
} job;

/* A linear congruential stream; only its reproducibility matters. */
static float next_value(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(int64_t)(*s >> 33) * 0x1p-30 - 1);
}

static void set_params(job *j, scion_param *p)
{
    static const scion_role role[PARAMS] = {SCION_ROLE_ONEHOT, SCION_ROLE_HIDDEN, SCION_ROLE_OUTPUT};
    for (int i = 0; i < PARAMS; i++) {
        scion_param_init(&p[i]);
        p[i].ndim = 2;
        p[i].shape[0] = ROWS;
        p[i].shape[1] = COLS;
        p[i].role = role[i];
        p[i].weight = j->w[i];
        p[i].grad = j->g[i];
        p[i].grad_prev = j->g_prev[i];
    }
}

/* A life: create, start, steps, norms, save. No assertion here: cmocka's are for the main thread. */
static void *run(void *argument)
{
    job *j = argument;
    scion_param p[PARAMS];
    scion_options o;
    scion_optimizer *opt = NULL;
    scion_info info = {.size = sizeof info};
    uint64_t stream = j->seed;
    set_params(j, p);
    scion_options_init(&o, j->rule);
    o.routing = SCION_ROUTING_ONEHOT;
    o.threads = j->threads;
    int bad = scion_optimizer_create(&opt, &o, p, PARAMS, NULL) || scion_optimizer_init_weights(opt, j->seed, NULL);
    for (int k = 0; k < STEPS && !bad; k++) {
        scion_optimizer_begin(opt);
        for (int i = 0; i < PARAMS; i++)
            for (int e = 0; e < MOST; e++) {
                j->g[i][e] += next_value(&stream);
                j->g_prev[i][e] = next_value(&stream);
            }
        bad = scion_optimizer_step(opt, 0.05, NULL) != SCION_OK;
    }
    for (int i = 0; i < PARAMS && !bad; i++)
        bad = scion_optimizer_inspect(opt, i, SCION_INSPECT_NORM | SCION_INSPECT_DUAL, &info, NULL) != SCION_OK;
    if (!bad) {
        j->state_bytes = scion_optimizer_save_bytes(opt, 0);
        j->state = malloc(j->state_bytes);
        bad = !j->state || scion_optimizer_save(opt, 0, j->state, j->state_bytes, NULL);
    }
    scion_optimizer_free(opt);
    j->failed = bad;
    return NULL;
}

static job *job_of(scion_rule rule, int32_t threads, uint64_t seed)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->rule = rule;
    j->threads = threads;
    j->seed = seed;
    return j;
}

static void check_same(const job *a, const job *b)
{
    assert_int_equal(a->failed, 0);
    assert_int_equal(b->failed, 0);
    assert_memory_equal(a->w, b->w, sizeof a->w);
    assert_int_equal(a->state_bytes, b->state_bytes);
    assert_memory_equal(a->state, b->state, a->state_bytes);
}

static void free_job(job *j)
{
    free(j->state);
    free(j);
}

static void test_two_at_once(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        job *alone[2], *together[2];
        pthread_t thread[2];
        for (int t = 0; t < 2; t++) {
            alone[t] = job_of((scion_rule)rule, 0, 10 + (uint64_t)t);
            together[t] = job_of((scion_rule)rule, 0, 10 + (uint64_t)t);
            run(alone[t]);
        }
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&thread[t], NULL, run, together[t]), 0);
        for (int t = 0; t < 2; t++)
            pthread_join(thread[t], NULL);
        for (int t = 0; t < 2; t++)
            check_same(alone[t], together[t]);
        assert_true(memcmp(alone[0]->w, alone[1]->w, sizeof alone[0]->w) != 0);
        for (int t = 0; t < 2; t++) {
            free_job(alone[t]);
            free_job(together[t]);
        }
    }
}

static void test_thread_count(void **state)
{
    (void)state;
    static const int32_t threads[RUNS] = {1, 1, 2, 0};
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        job *j[RUNS];
        for (int t = 0; t < RUNS; t++) {
            j[t] = job_of((scion_rule)rule, threads[t], 3);
            run(j[t]);
        }
        for (int t = 1; t < RUNS; t++)
            check_same(j[0], j[t]);
        for (int t = 0; t < RUNS; t++)
            free_job(j[t]);
    }
}

/* ---- Free-standing functions --------------------------------------------------------------------------- */

typedef struct call {
    float s[MOST], lmo[MOST], sharp[MOST], start[MOST];
    double norm, dual, gap;
    int failed;
} call;

static void *call_all(void *argument)
{
    call *c = argument;
    scion_param p;
    uint64_t stream = 99;
    scion_param_init(&p);
    p.ndim = 2;
    p.shape[0] = ROWS;
    p.shape[1] = COLS;
    p.norm = SCION_NORM_SPECTRAL;
    for (int e = 0; e < MOST; e++)
        c->s[e] = next_value(&stream);
    c->failed = scion_boundary_init(&p, NULL, 5, c->start, NULL) || scion_lmo(&p, NULL, c->s, c->lmo, NULL) ||
                scion_sharp(&p, NULL, c->s, c->sharp, NULL) || scion_norm_value(&p, NULL, c->s, &c->norm, NULL) ||
                scion_dual_norm(&p, NULL, c->s, &c->dual, NULL) ||
                scion_fw_gap(&p, NULL, c->s, c->start, &c->gap, NULL);
    return NULL;
}

static void test_free_standing(void **state)
{
    (void)state;
    call *c[3];
    pthread_t thread[3];
    for (int t = 0; t < 3; t++) {
        c[t] = calloc(1, sizeof **c);
        assert_non_null(c[t]);
    }
    for (int t = 1; t < 3; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, call_all, c[t]), 0);
    for (int t = 1; t < 3; t++)
        pthread_join(thread[t], NULL);
    call_all(c[0]);
    assert_int_equal(c[0]->failed, 0);
    for (int t = 1; t < 3; t++)
        assert_memory_equal(c[0], c[t], sizeof *c[0]);
    for (int t = 0; t < 3; t++)
        free(c[t]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_thread_count),
        cmocka_unit_test(test_free_standing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
