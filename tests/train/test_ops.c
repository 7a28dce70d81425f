/* Every operator, on every case of the table op_cases.c: the result against its definition in double, gradients
 * against central differences of that, and the promises of tape.h and parallel.h about gradients, threads, memory. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "op_cases.h"

/* Float32 rounds to 6e-8 of a value. Sums here have up to 260 terms, so their error is some 16 times that, of the
 * largest terms; functions add a few roundings more. */
static const double FORWARD_TOL = 4e-6;
/* Gradients chain two or three such sums. The differences in double, with a step of 1e-5, are good to 1e-9. */
static const double GRADIENT_TOL = 1e-5;
/* A gradient that cancels to nothing is still a difference of terms of size 1 and more, with their rounding. */
static const double LEAST_SIZE = 0.1;

static void for_each_op_case(void (*law)(const op_case *c, const op_sizes *s, uint64_t seed))
{
    for (int i = 0; op_case_at(i); i++) {
        const op_case *c = op_case_at(i);
        for (int k = 0; c->small[k].B; k++) {
            const op_sizes *s = &c->small[k];
            at("%s B %d T %d C %d D %d V %d", c->name, (int)s->B, (int)s->T, (int)s->C, (int)s->D, (int)s->V);
            law(c, s, run_seed() + (uint64_t)(100 * i + k));
        }
    }
}

static op_fixture *fixture(const op_case *c, const op_sizes *s, int threads, uint64_t seed)
{
    op_fixture *f = op_fixture_create(c, s, threads, seed);
    check(f != NULL);
    return f;
}

static void forward(op_fixture *f)
{
    f->node.op->forward(&f->node, &f->run);
}

/* All inputs in double, and the whole numbers. */
static const int32_t *widened(const op_fixture *f, double **in)
{
    const int32_t *ints = NULL;
    for (int i = 0; i < TAPE_INPUTS; i++) {
        in[i] = f->value[i].data ? widen(f->value[i].count, f->value[i].data) : NULL;
        ints = f->value[i].ints ? f->value[i].ints : ints;
    }
    return ints;
}

/* ---- Forward ----------------------------------------------------------------------------------------------- */

static void check_forward(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f = fixture(c, s, 2, seed);
    double *in[TAPE_INPUTS], *want = doubles(f->out.count);
    const int32_t *ints = widened(f, in);
    c->oracle(c, s, in, ints, want);
    forward(f);
    check_array(f->out.count, f->out.data, want, FORWARD_TOL);
    op_fixture_free(f);
}

static void results_match_definitions(void **state)
{
    (void)state;
    for_each_op_case(check_forward);
}

/* ---- Gradients --------------------------------------------------------------------------------------------- */

/* d/dx of sum(out * weight) with respect to element e of input i. */
static double difference(const op_case *c, const op_sizes *s, const op_fixture *f, double **in, const int32_t *ints,
                         int i, int64_t e, double *out)
{
    const double x = in[i][e], step = 1e-5;
    double side[2];
    for (int k = 0; k < 2; k++) {
        in[i][e] = x + (k ? step : -step);
        c->oracle(c, s, in, ints, out);
        side[k] = 0;
        for (int64_t j = 0; j < f->out.count; j++)
            side[k] += out[j] * (double)f->out.grad[j];
    }
    in[i][e] = x;
    return (side[1] - side[0]) / (2 * step);
}

/* Elements of a large input to compare. */
enum { elements_compared = 40 };

static void check_input(const op_case *c, const op_sizes *s, const op_fixture *f, int i, const float *before, rng *r)
{
    const tape_value *v = &f->value[i];
    const int64_t count = v->count < elements_compared ? v->count : elements_compared;
    double *in[TAPE_INPUTS], *out = doubles(f->out.count), size = LEAST_SIZE, error = 0;
    const int32_t *ints = widened(f, in);
    for (int64_t k = 0; k < count; k++) {
        const int64_t e = count == v->count ? k : (int64_t)(rng_uniform(r) * (double)v->count);
        const double want = difference(c, s, f, in, ints, i, e, out);
        const double got = (double)v->grad[e] - (before ? (double)before[e] : 0);
        const double off = fabs(got - want);
        error = off <= error ? error : off; /* a NaN sticks */
        size = fmax(size, fabs(want));
    }
    if (!(error <= GRADIENT_TOL * size))
        print_error("gradient of input %d (%s) is off by %.3g, values up to %.3g\n", i, v->name, error, size);
    check_le(error, GRADIENT_TOL * size);
}

/* Without accumulation the old content must not matter, so it is NaN. Parameters' gradients are always added to. */
static void check_backward(const op_case *c, const op_sizes *s, uint64_t seed, bool accumulate)
{
    op_fixture *f = fixture(c, s, 2, seed);
    rng r = rng_of(seed);
    float *before[TAPE_INPUTS] = {NULL};
    f->run.loss_scale = 0.5f;
    if (f->out.ndim == 1)
        f->out.grad[0] = 0.5f;
    for (int i = 0; i < TAPE_INPUTS; i++) {
        if (!f->value[i].data)
            continue;
        f->node.accumulate[i] = f->value[i].kind == TAPE_PARAM || accumulate;
        if (!f->node.accumulate[i])
            memset(f->value[i].grad, 0xFF, (size_t)f->value[i].count * sizeof(float));
        else
            before[i] = copy_floats(f->value[i].count, f->value[i].grad);
    }
    op_fixture_train(f);
    for (int i = 0; i < TAPE_INPUTS; i++)
        if (f->node.needs_grad[i])
            check_input(c, s, f, i, before[i], &r);
    op_fixture_free(f);
}

static void check_overwriting(const op_case *c, const op_sizes *s, uint64_t seed)
{
    check_backward(c, s, seed, 0);
}

static void check_adding(const op_case *c, const op_sizes *s, uint64_t seed)
{
    check_backward(c, s, seed, 1);
}

static void gradients_match_differences(void **state)
{
    (void)state;
    for_each_op_case(check_overwriting);
}

static void gradients_are_added_where_kept(void **state)
{
    (void)state;
    for_each_op_case(check_adding);
}

/* ---- Gradients that are not wanted stay as they were ---------------------------------------------------------- */

static void check_wants(const op_case *c, const op_sizes *s, uint64_t seed)
{
    for (int only = 0; only < TAPE_INPUTS; only++) {
        op_fixture *all = fixture(c, s, 1, seed), *one = fixture(c, s, 1, seed);
        op_fixture_train(all);
        for (int i = 0; i < TAPE_INPUTS; i++)
            one->node.needs_grad[i] = one->node.needs_grad[i] && i == only;
        float *before[TAPE_INPUTS] = {NULL};
        for (int i = 0; i < TAPE_INPUTS; i++)
            if (one->value[i].data)
                before[i] = copy_floats(one->value[i].count, one->value[i].grad);
        op_fixture_train(one);
        for (int i = 0; i < TAPE_INPUTS; i++)
            if (one->value[i].data)
                check_bits((size_t)one->value[i].count * sizeof(float), one->value[i].grad,
                           one->node.needs_grad[i] ? all->value[i].grad : before[i]);
        op_fixture_free(all);
        op_fixture_free(one);
    }
}

static void unwanted_gradients_stay(void **state)
{
    (void)state;
    for_each_op_case(check_wants);
}

/* ---- Threads ----------------------------------------------------------------------------------------------- */

static void same(const op_case *c, const op_fixture *a, const op_fixture *b, const char *what)
{
    at("%s, %s", c->name, what);
    for (int i = -1; i < TAPE_INPUTS; i++) {
        const tape_value *u = i < 0 ? &a->out : &a->value[i], *v = i < 0 ? &b->out : &b->value[i];
        const float *x = i < 0 ? u->data : u->grad, *y = i < 0 ? v->data : v->grad;
        if (!x)
            continue;
        check_bits((size_t)u->count * sizeof(float), x, y);
    }
}

static void results_repeat_and_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (int i = 0; op_case_at(i); i++) {
        const op_case *c = op_case_at(i);
        op_fixture *f[4];
        for (int k = 0; k < 4; k++) {
            at("%s", c->name);
            f[k] = fixture(c, &c->wide, k < 2 ? 2 : k == 2 ? 1 : 5, run_seed());
            op_fixture_train(f[k]);
        }
        same(c, f[0], f[1], "two threads twice");
        same(c, f[0], f[2], "two threads and one");
        same(c, f[0], f[3], "two threads and five");
        for (int k = 0; k < 4; k++)
            op_fixture_free(f[k]);
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* The fixture has 16 floats or more behind the requested memory; operators must not write there. */
static void check_room(const op_case *c, const op_sizes *s, uint64_t seed)
{
    (void)seed;
    op_fixture *f = fixture(c, s, 3, seed);
    f->node.saved[f->saved] = 0.25f;
    f->run.scratch[f->scratch] = 0.75f;
    op_fixture_train(f);
    check(f->node.saved[f->saved] == 0.25f);
    check(f->run.scratch[f->scratch] == 0.75f);
    op_fixture_free(f);
}

static void operators_stay_in_their_memory(void **state)
{
    (void)state;
    for_each_op_case(check_room);
}

/* Without memory for backward, as in a plan for inference; and in place. */
static void check_lean(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f = fixture(c, s, 1, seed), *lean = fixture(c, s, 1, seed);
    float *saved = lean->node.saved, *data = lean->out.data;
    const bool in_place = f->node.op->in_place && f->value[0].count == f->out.count;
    lean->node.saved = NULL;
    if (in_place)
        lean->out.data = lean->value[0].data;
    forward(f);
    forward(lean);
    check_bits((size_t)f->out.count * sizeof(float), lean->out.data, f->out.data);
    lean->node.saved = saved;
    lean->out.data = data;
    op_fixture_free(f);
    op_fixture_free(lean);
}

static void inference_gives_the_same_bits(void **state)
{
    (void)state;
    for_each_op_case(check_lean);
}

/* ---- The table --------------------------------------------------------------------------------------------- */

static void every_operator_and_activation_has_a_case(void **state)
{
    (void)state;
    for (int i = 0; op_at(i); i++) {
        bool found = false;
        at("%s", op_at(i)->name);
        for (int k = 0; op_case_at(k) && !found; k++) {
            op_fixture *f = fixture(op_case_at(k), &op_case_at(k)->small[0], 1, 1);
            found = f->node.op == op_at(i);
            op_fixture_free(f);
        }
        check(found || op_at(i)->view); /* a view computes nothing; the tests of plans have its laws */
        for (int k = 0; k < i; k++)
            check(strcmp(op_at(i)->name, op_at(k)->name) != 0);
    }
    for (int i = 0; activation_row(i); i++) {
        bool found = false;
        at("%s", activation_row(i)->name);
        for (int k = 0; op_case_at(k) && !found; k++)
            found = op_case_at(k)->function && strcmp(op_case_at(k)->function, activation_row(i)->name) == 0;
        check(found);
    }
    check(op_at(-1) == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(results_match_definitions),
        LAW(gradients_match_differences),
        LAW(gradients_are_added_where_kept),
        LAW(unwanted_gradients_stay),
        LAW(results_repeat_and_do_not_depend_on_threads),
        LAW(operators_stay_in_their_memory),
        LAW(inference_gives_the_same_bits),
        LAW(every_operator_and_activation_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
