/* Allocation: recording and planning allocate, and each of their allocations may fail; a step allocates nothing.
 *
 * glibc lets a program replace malloc, so this one counts the calls of the whole process. A sanitizer has replaced
 * malloc already: under one, and with another C library, these tests are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train_support_tape.h"

static int64_t calls, live, fail_at; /* fail_at: the call, from 1, that returns NULL; 0: none */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTING 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *memory);

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

static bool refuse(void)
{
    return ++calls == fail_at;
}

void *malloc(size_t bytes)
{
    return refuse() ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return refuse() ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes)
{
    if (refuse())
        return NULL;
    void *more = __libc_realloc(memory, bytes);
    live += more && !memory;
    return more;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return refuse() ? NULL : counted(__libc_memalign(align, bytes));
}

void free(void *memory)
{
    live -= memory != NULL;
    __libc_free(memory);
}
#else
#define COUNTING 0
#endif

static const tape_run training = {.threads = 1, .loss_scale = 1};

static void test_steps_allocate_nothing(void **unused)
{
    (void)unused;
    if (!COUNTING)
        skip();
    static float w[1000], g[1000];
    uint64_t state = toy_seed();
    tape *t = tape_create();
    tape_value *loss = toy_network(t, &state, 40, true);
    tape_plan *p;
    const plan_options how = {.mode = PLAN_TRAINING, .threads = 1, .bf16 = true};
    assert_int_equal(plan_make(&p, t, loss, &how, NULL), SCION_OK);
    assert_int_equal(plan_commit(p, NULL, NULL), SCION_OK);
    assert_true(tape_param_elements(t) <= 1000);
    tape_bind(t, w, g, NULL);
    int64_t before = calls;
    for (int step = 0; step < 3; step++) {
        plan_forward(p, &training);
        plan_backward(p, &training);
    }
    plan_first_nonfinite(p, &training);
    assert_int_equal(calls, before);
    assert_true(before > 0);
    plan_free(p);
    tape_free(t);
}

/* Each allocation fails in turn: an error, no crash, nothing leaked. (qsort may allocate, and does without.) */
static void test_each_allocation_fails(void **unused)
{
    (void)unused;
    if (!COUNTING)
        skip();
    int64_t errors = 0;
    for (int64_t n = 1;; n++) {
        scion_error err = {0};
        int64_t live_before = live;
        calls = 0;
        fail_at = n;
        tape *t = tape_create();
        /* more than 64 values and nodes: the lists grow */
        tape_value *x = toy(t, &toy_scale, toy_param(t, "w", 5), NULL, 1, 0);
        tape_recompute_begin(t);
        for (int i = 0; i < 66; i++)
            x = toy(t, &toy_cube_here, x, NULL, 1, 0);
        tape_recompute_end(t);
        tape_value *loss = toy_energy(t, x);
        tape_plan *p;
        const plan_options how = {.mode = PLAN_TRAINING, .threads = 1, .bf16 = true};
        scion_status status = plan_make(&p, t, loss, &how, &err);
        if (!status)
            status = plan_commit(p, NULL, &err);
        fail_at = 0;
        plan_free(p);
        tape_free(t);
        assert_int_equal(live, live_before);
        if (calls < n)
            break; /* none failed this time */
        assert_true(status == SCION_ENOMEM ? strstr(err.message, "memory") != NULL : status == SCION_OK);
        errors += status == SCION_ENOMEM;
    }
    assert_in_range(errors, calls - 1, calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
