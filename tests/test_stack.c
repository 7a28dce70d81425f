/* The library needs little stack: everything an optimizer does, for every norm and rule, stays within 64 KiB of its
 * caller's. A thread of musl has 128 KiB, part of which is the caller's own. The thread's stack is painted before and
 * looked at after. */
#include "support.h"

#include <pthread.h>
#include <string.h>

enum { STACK = 1 << 20, LIMIT = 64 * 1024, PAINT = 0xa5 };

typedef struct life {
    scion_param p;
    int32_t rule, threads;
    scion_status status;
    scion_error err;
    const unsigned char *start; /* where the stack was when it began */
} life;

/* Create, start, two steps, norms. */
static void *live(void *argument)
{
    life *l = argument;
    scion_options o;
    scion_optimizer *opt = NULL;
    scion_info info;
    l->start = (const unsigned char *)&o;
    scion_options_init(&o, l->rule);
    scion_info_init(&info);
    o.threads = l->threads;
    l->status = scion_optimizer_create(&opt, &o, &l->p, 1, &l->err);
    if (l->status == SCION_OK)
        l->status = scion_optimizer_init_weights(opt, 1, &l->err);
    for (int k = 0; k < 2 && l->status == SCION_OK; k++)
        l->status = scion_optimizer_step(opt, 1e-3, &l->err);
    if (l->status == SCION_OK)
        l->status = scion_optimizer_inspect(opt, 0, SCION_INSPECT_NORM | SCION_INSPECT_DUAL, &info, &l->err);
    scion_optimizer_free(opt);
    return NULL;
}

/* Lives l in a thread of its own. */
static void check_stack(life *l)
{
    static _Alignas(4096) unsigned char stack[STACK];
    pthread_attr_t attr;
    pthread_t thread;
    memset(stack, PAINT, sizeof stack);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstack(&attr, stack, sizeof stack), 0);
    assert_int_equal(pthread_create(&thread, &attr, live, l), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    check_ok(l->status, &l->err);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* frames of a sanitizer are larger */
    const unsigned char *deepest = stack;
    while (*deepest == PAINT)
        deepest++;
    check(l->start > stack && l->start < stack + STACK);
    check_le((double)(l->start - deepest), LIMIT);
#endif
}

static void test_norms(void **state)
{
    (void)state;
    /* One that fits a tile, one whose columns are longer and whose rows are wider than any tile. */
    static const int64_t shapes[][2] = {{40, 56}, {4200, 1100}};
    rng r = rng_of(1);
    float *w = floats(4200 * 1100), *g = floats(4200 * 1100);
    for (int64_t i = 0; i < 4200 * 1100; i++)
        g[i] = (float)(rng_uniform(&r) - 0.5);
    for (int32_t norm = SCION_NORM_AUTO + 1; scion_enum_name(SCION_ENUM_NORM, norm); norm++)
        for (int64_t s = 0; s < COUNT_OF(shapes); s++)
            for (int32_t threads = 1; threads <= 2; threads++) {
                /* the spectral norm's cost grows with the cube */
                const int64_t rows = shapes[s][0], cols = norm == SCION_NORM_SPECTRAL ? 30 : shapes[s][1];
                life l = {.p = matrix_of(rows, cols, (scion_norm)norm, SCION_ROLE_HIDDEN), .threads = threads};
                l.rule = SCION_RULE_SCION;
                l.p.weight = w;
                l.p.grad = g;
                at("norm %s, %d x %d, %d threads", scion_enum_name(SCION_ENUM_NORM, norm), (int)rows, (int)cols,
                   (int)threads);
                check_stack(&l);
            }
}

static void test_rules(void **state)
{
    (void)state;
    enum { ROWS = 72, COLS = 1100 };
    rng r = rng_of(2);
    for (int32_t rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        life l = {.p = matrix_of(ROWS, COLS, SCION_NORM_AUTO, SCION_ROLE_HIDDEN), .rule = rule, .threads = 1};
        l.p.weight = floats(ROWS * COLS);
        l.p.grad = gaussian(&r, ROWS * COLS);
        l.p.grad_prev = gaussian(&r, ROWS * COLS);
        at("rule %s", scion_enum_name(SCION_ENUM_RULE, rule));
        check_stack(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_norms), LAW(test_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
