/* Every operator, on every case of the table op_cases.c: the result against its definition in double, gradients
 * against central differences of that, and the promises of tape.h and parallel.h about gradients, threads, memory.
 * Operators with products again in bfloat16, and what that is: float32 arithmetic on rounded operands. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op_cases.h"
#include "product/kernel.h"

/* Float32 rounds to 6e-8 of a value. Sums here have up to 260 terms, so their error is some 16 times that, of the
 * largest terms; functions add a few roundings more. */
static const double FORWARD_TOL = 4e-6;
/* Gradients chain two or three such sums. The differences in double, with a step of 1e-5, are good to 1e-9. */
static const double GRADIENT_TOL = 1e-5;
/* In bfloat16 each operand of a product is off by 2^-9 of itself at most, 0.58 of that on average: the terms of a sum
 * by 0.8 2^-9 on average, with either sign, and so is the sum, of its own typical size. The largest error of some
 * hundred elements is four or five times the average, and the largest element, by which it is measured, at least its
 * typical size: 8 units (column bf16) are on the safe side. Gradients of a loss, and of attention, chain two or three
 * products; attention's scores, up to 5, are exponents, where an error counts as often as the score is large. */
static const double BF16_UNIT = 0x1p-9;
/* A gradient that cancels to nothing is still a difference of terms of size 1 and more, with their rounding. */
static const double LEAST_SIZE = 0.1;
/* So is any result in bfloat16; the terms are products of two Gaussian numbers. */
static const double LEAST_SIZE_BF16 = 1;

/* The passes: float32, then bfloat16 for the operators whose products it concerns. */
static scion_dtype computing = SCION_F32;

static double tolerance(const op_case *c, double of_float32)
{
    return computing == SCION_BF16 ? c->bf16 * BF16_UNIT : of_float32;
}

static double least_size(void)
{
    return computing == SCION_BF16 ? LEAST_SIZE_BF16 : LEAST_SIZE;
}

static bool concerned(const op_case *c)
{
    return computing == SCION_F32 || c->bf16 > 0;
}

static void for_each_op_case(void (*law)(const op_case *c, const op_sizes *s, uint64_t seed))
{
    for (int i = 0; op_case_at(i); i++) {
        const op_case *c = op_case_at(i);
        for (int k = 0; c->small[k].B && concerned(c); k++) {
            const op_sizes *s = &c->small[k];
            at("%s B %d T %d C %d D %d V %d", c->name, (int)s->B, (int)s->T, (int)s->C, (int)s->D, (int)s->V);
            law(c, s, run_seed() + (uint64_t)(100 * i + k));
        }
    }
}

static op_fixture *fixture(const op_case *c, const op_sizes *s, int threads, uint64_t seed)
{
    op_fixture *f = computing == SCION_BF16 ? op_fixture_rounded(c, s, threads, seed, OP_HALVES_NONE)
                                            : op_fixture_create(c, s, threads, seed);
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

static void check_near(const char *what, int64_t n, const float *got, const double *want, double tol)
{
    double error = 0, size = LEAST_SIZE_BF16;
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - want[i]);
        error = off <= error ? error : off; /* a NaN sticks */
        size = fmax(size, fabs(want[i]));
    }
    if (!(error <= tol * size))
        print_error("%s is off by %.3g, values up to %.3g\n", what, error, size);
    check_le(error, tol * size);
}

/* ---- Forward ----------------------------------------------------------------------------------------------- */

static void check_forward(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f = fixture(c, s, 2, seed);
    double *in[TAPE_INPUTS], *want = doubles(f->out.count);
    const int32_t *ints = widened(f, in);
    c->oracle(c, s, in, ints, want);
    forward(f);
    if (computing == SCION_BF16)
        check_near("result", f->out.count, f->out.data, want, tolerance(c, 0));
    else
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
static double difference(const op_case *c, const op_sizes *s, const op_fixture *f, const float *dy, double **in,
                         const int32_t *ints, int i, int64_t e, double *out)
{
    const double x = in[i][e], step = 1e-5;
    double side[2];
    for (int k = 0; k < 2; k++) {
        in[i][e] = x + (k ? step : -step);
        c->oracle(c, s, in, ints, out);
        side[k] = 0;
        for (int64_t j = 0; j < f->out.count; j++)
            side[k] += out[j] * (double)dy[j];
    }
    in[i][e] = x;
    return (side[1] - side[0]) / (2 * step);
}

/* Elements of a large input to compare. */
enum { elements_compared = 40 };

static void check_input(const op_case *c, const op_sizes *s, const op_fixture *f, const float *dy, int i,
                        const float *before, rng *r)
{
    const tape_value *v = &f->value[i];
    const int64_t count = v->count < elements_compared ? v->count : elements_compared;
    double *in[TAPE_INPUTS], *out = doubles(f->out.count), size = least_size(), error = 0;
    const int32_t *ints = widened(f, in);
    for (int64_t k = 0; k < count; k++) {
        const int64_t e = count == v->count ? k : (int64_t)(rng_uniform(r) * (double)v->count);
        const double want = difference(c, s, f, dy, in, ints, i, e, out);
        const double got = (double)v->grad[e] - (before ? (double)before[e] : 0);
        const double off = fabs(got - want);
        error = off <= error ? error : off; /* a NaN sticks */
        size = fmax(size, fabs(want));
    }
    const double most = tolerance(c, GRADIENT_TOL) * size;
    if (!(error <= most))
        print_error("gradient of input %d (%s) is off by %.3g, values up to %.3g\n", i, v->name, error, size);
    check_le(error, most);
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
    const float *dy = copy_floats(f->out.count, f->out.grad);
    op_fixture_train(f);
    for (int i = 0; i < TAPE_INPUTS; i++)
        if (f->node.needs_grad[i])
            check_input(c, s, f, dy, i, before[i], &r);
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
        if (!concerned(c))
            continue;
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

/* ---- In bfloat16 --------------------------------------------------------------------------------------------- */

static void every_law_holds_in_bfloat16(void **state)
{
    static void (*const laws[])(void **) = {results_match_definitions,
                                            gradients_match_differences,
                                            gradients_are_added_where_kept,
                                            unwanted_gradients_stay,
                                            results_repeat_and_do_not_depend_on_threads,
                                            operators_stay_in_their_memory,
                                            inference_gives_the_same_bits};
    computing = SCION_BF16;
    for (int64_t i = 0; i < COUNT_OF(laws); i++)
        laws[i](state);
    computing = SCION_F32;
}

/* Replaces floats by their nearest bfloat16. */
static void round_floats(int64_t n, float *x)
{
    uint16_t *half = room((size_t)n * sizeof *half);
    scn_to_bf16(n, x, half);
    scn_from_bf16(n, half, x);
}

/* Rounds all operands that the operator does not compute itself, the gradient of its result among them. */
static op_fixture *with_rounded_operands(op_fixture *f)
{
    for (int i = 0; i < TAPE_INPUTS; i++)
        if (f->value[i].data && (f->node.op->operands >> i & 1 || i == f->node.op->matrix))
            round_floats(f->value[i].count, f->value[i].data);
    if (!f->node.op->forward_backward)
        round_floats(f->out.count, f->out.grad);
    op_fixture_round(f);
    return f;
}

/* On operands that are bfloat16 already, layers are float32's to its rounding. Attention and the loss round operands
 * that they compute (P and dS, and dz): the result is then off by 2^-9 of those, a convex combination of values or a
 * sum of terms with either sign; the loss itself is float32's. */
static void check_rounded_operands(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f = with_rounded_operands(op_fixture_create(c, s, 2, seed)),
               *r = with_rounded_operands(op_fixture_rounded(c, s, 2, seed, OP_HALVES_NONE));
    const bool attends = f->node.op == &op_attention_row, loses = f->node.op->forward_backward != NULL;
    op_fixture_train(f);
    op_fixture_train(r);
    check_near("result", f->out.count, r->out.data, widen(f->out.count, f->out.data),
               attends ? BF16_UNIT : FORWARD_TOL);
    for (int i = 0; i < TAPE_INPUTS; i++)
        if (f->node.needs_grad[i])
            check_near(f->value[i].name, f->value[i].count, r->value[i].grad,
                       widen(f->value[i].count, f->value[i].grad),
                       attends          ? 4 * BF16_UNIT
                       : loses && i < 2 ? 2 * BF16_UNIT
                                        : GRADIENT_TOL);
    op_fixture_free(f);
    op_fixture_free(r);
}

/* Operands that are rounded before, as a plan has them, and while they are packed give the same bits; and the result
 * as bfloat16 is the result rounded, whether there is float32 beside it or not. */
static void check_halves(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f[3];
    for (int k = 0; k < 3; k++)
        f[k] = op_fixture_rounded(c, s, 2, seed, (op_halves)k);
    for (int k = 0; k < 3; k++)
        op_fixture_train(f[k]);
    for (int k = 1; k < 3; k++) {
        if (k == 1)
            check_bits((size_t)f[0]->out.count * sizeof(float), f[1]->out.data, f[0]->out.data);
        for (int i = 0; i < TAPE_INPUTS; i++)
            if (f[0]->value[i].grad)
                check_bits((size_t)f[0]->value[i].count * sizeof(float), f[k]->value[i].grad, f[0]->value[i].grad);
        if (!f[k]->out.has_half)
            continue;
        uint16_t *want = room((size_t)f[0]->out.count * sizeof *want);
        scn_to_bf16(f[0]->out.count, f[0]->out.data, want);
        check_bits((size_t)f[0]->out.count * sizeof *want, f[k]->out.half, want);
    }
    for (int k = 0; k < 3; k++)
        op_fixture_free(f[k]);
}

static void check_operands(const op_case *c, const op_sizes *s, uint64_t seed)
{
    op_fixture *f = op_fixture_create(c, s, 1, seed);
    const bool products = f->node.op->operands != 0, halves = f->node.op->half_out;
    op_fixture_free(f);
    check(products == (c->bf16 > 0));
    if (products)
        check_rounded_operands(c, s, seed);
    if (products || halves)
        check_halves(c, s, seed);
}

static void products_are_float32_on_rounded_operands(void **state)
{
    (void)state;
    for_each_op_case(check_operands);
}

static void scale_floats(int64_t n, float factor, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* bfloat16 has the exponents of float32: an input times 2^100 (1.3e30) with the other times 2^-100 gives the same
 * bits, and gradients scale, but for the rounding of what becomes denormal. Nothing vanishes or overflows that would
 * not in float32. */
static void tiny_and_huge_numbers_stay(void **state)
{
    static const float scales[] = {0x1p100f, 0x1p-100f};
    (void)state;
    for (int i = 0; op_case_at(i); i++) {
        const op_case *c = op_case_at(i);
        const op_sizes *s = &c->small[c->small[1].B ? 1 : 0];
        for (int k = 0; k < 4 && c->bf16 > 0; k++) {
            op_fixture *f = op_fixture_rounded(c, s, 1, run_seed(), OP_HALVES_BOTH),
                       *g = op_fixture_rounded(c, s, 1, run_seed(), OP_HALVES_BOTH);
            const bool inputs = k < 2;
            const float scale = scales[k % 2];
            const int one = 0, other = 1;
            float factor[TAPE_INPUTS] = {1, 1, 1, 1, 1}; /* of the gradients */
            at("%s, %s times %g", c->name, inputs ? "an input" : "the gradient", (double)scale);
            for (int n = 0; n < TAPE_INPUTS; n++) {
                f->node.accumulate[n] = g->node.accumulate[n] = false;
                factor[n] = inputs ? 1 : scale;
            }
            if (inputs) {
                scale_floats(g->value[one].count, scale, g->value[one].data);
                scale_floats(g->value[other].count, 1 / scale, g->value[other].data);
                op_fixture_round(g);
                factor[one] = 1 / scale;
                factor[other] = scale;
            } else if (f->node.op->forward_backward) {
                g->run.loss_scale = scale;
            } else {
                scale_floats(g->out.count, scale, g->out.grad);
            }
            for (int n = 0; n < TAPE_INPUTS; n++) /* parameters' gradients are added to by a loss */
                for (int64_t e = 0; f->value[n].grad && e < f->value[n].count; e++)
                    f->value[n].grad[e] = g->value[n].grad[e] = 0;
            op_fixture_train(f);
            op_fixture_train(g);
            check_bits((size_t)f->out.count * sizeof(float), g->out.data, f->out.data);
            for (int n = 0; n < TAPE_INPUTS; n++) {
                if (!f->node.needs_grad[n])
                    continue;
                scale_floats(g->value[n].count, 1 / factor[n], g->value[n].grad);
                check_near(f->value[n].name, f->value[n].count, g->value[n].grad,
                           widen(f->value[n].count, f->value[n].grad), FORWARD_TOL);
            }
            op_fixture_free(f);
            op_fixture_free(g);
        }
    }
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
    const char *isa = getenv("SCION_ISA");
    if (isa && *isa && strcmp(scn_isa_used()->name, isa) != 0)
        return 77; /* this CPU lacks it */
    const struct CMUnitTest tests[] = {
        LAW(results_match_definitions),
        LAW(gradients_match_differences),
        LAW(gradients_are_added_where_kept),
        LAW(unwanted_gradients_stay),
        LAW(results_repeat_and_do_not_depend_on_threads),
        LAW(operators_stay_in_their_memory),
        LAW(inference_gives_the_same_bits),
        LAW(every_law_holds_in_bfloat16),
        LAW(products_are_float32_on_rounded_operands),
        LAW(tiny_and_huge_numbers_stay),
        LAW(every_operator_and_activation_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
