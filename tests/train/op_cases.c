/* The table of op_cases.h, the builders of its rows, and the fixture. */
#include "op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Builders ---------------------------------------------------------------------------------------------- */

static tape_value *rows(tape *t, const char *name, const op_sizes *s, int64_t width)
{
    return tape_floats(t, name, 3, (const int64_t[]){s->B, s->T, width});
}

static tape_value *whole(tape *t, const op_sizes *s)
{
    return tape_ints(t, "whole", 2, (const int64_t[]){s->B, s->T});
}

static tape_value *matrix(tape *t, const op_sizes *s)
{
    return tape_param(t, "w", SCION_ROLE_HIDDEN, 2, (const int64_t[]){s->V, s->C});
}

static tape_value *vector(tape *t, const char *name, int64_t n)
{
    return tape_param(t, name, SCION_ROLE_VECTOR, 1, &n);
}

static tape_value *build_linear(tape *t, const op_case *c, const op_sizes *s)
{
    return op_linear(t, rows(t, "x", s, s->C), matrix(t, s), c->flag ? vector(t, "bias", s->V) : NULL);
}

static tape_value *build_embedding(tape *t, const op_case *c, const op_sizes *s)
{
    (void)c;
    return op_embedding(t, whole(t, s), matrix(t, s));
}

static tape_value *build_rmsnorm(tape *t, const op_case *c, const op_sizes *s)
{
    return op_rmsnorm(t, rows(t, "x", s, s->C), s->D ? s->D : s->C, c->real);
}

static tape_value *build_layernorm(tape *t, const op_case *c, const op_sizes *s)
{
    return op_layernorm(t, rows(t, "x", s, s->C), vector(t, "gain", s->C), c->flag ? vector(t, "shift", s->C) : NULL,
                        c->real);
}

static tape_value *build_rotary(tape *t, const op_case *c, const op_sizes *s)
{
    return op_rotary(t, rows(t, "x", s, s->C), s->D, c->real);
}

static tape_value *build_attention(tape *t, const op_case *c, const op_sizes *s)
{
    return op_attention(t, rows(t, "q", s, s->C), rows(t, "k", s, s->C), rows(t, "v", s, s->C), s->D, c->flag);
}

static tape_value *build_activation(tape *t, const op_case *c, const op_sizes *s)
{
    return op_activation(t, rows(t, "x", s, s->C), activation_find(c->function));
}

static tape_value *build_add(tape *t, const op_case *c, const op_sizes *s)
{
    (void)c;
    return op_add(t, rows(t, "a", s, s->C), rows(t, "b", s, s->C));
}

static tape_value *build_cross_entropy(tape *t, const op_case *c, const op_sizes *s)
{
    return op_cross_entropy(t, rows(t, "x", s, s->C), matrix(t, s), c->flag ? vector(t, "bias", s->V) : NULL,
                            whole(t, s), c->soft ? rows(t, "target_weights", s, s->V) : NULL, c->real);
}

/* ---- The table: sizes are {B, T, C, D, V} -------------------------------------------------------------------- */

#define ELEMENTWISE .small = {{1, 1, 1}, {2, 3, 5}, {1, 1, 67}, {3, 7, 16}}, .wide = {4, 64, 257}
#define MATRICES                                                                                          \
    .small = {{1, 1, 1, 0, 1}, {1, 1, 5, 0, 1}, {2, 3, 7, 0, 5}, {1, 17, 16, 0, 33}, {3, 5, 19, 0, 130}}, \
    .wide = {4, 65, 131, 0, 257}
#define HEADS .small = {{1, 1, 4, 4}, {2, 5, 6, 6}, {2, 7, 12, 4}, {1, 33, 10, 2}, {1, 97, 24, 12}, {1, 130, 4, 2}}
#define MLP_WIDTH .timing = {4, 256, 3072}

static const op_case TABLE[] = {
    {"linear", build_linear, oracle_linear, MATRICES, .timing = {4, 256, 768, 0, 768}},
    {"linear_bias", build_linear, oracle_linear, .flag = true, MATRICES, .timing = {4, 256, 768, 0, 3072}},
    {"embedding", build_embedding, oracle_embedding, .timing = {4, 256, 768, 0, 50304}, .wide = {4, 64, 257, 0, 11},
     .small = {{1, 1, 1, 0, 1}, {2, 3, 5, 0, 4}, {3, 8, 33, 0, 7}}},
    {"rmsnorm", build_rmsnorm, oracle_rmsnorm, .real = 1e-6, .timing = {4, 256, 768}, .wide = {4, 64, 257},
     .small = {{1, 1, 2}, {2, 3, 5}, {1, 1, 67}, {3, 7, 16}}},
    {"rmsnorm_heads", build_rmsnorm, oracle_rmsnorm, .real = 0.25, .timing = {4, 256, 768, 64},
     .wide = {4, 64, 192, 24}, .small = {{1, 1, 2, 2}, {2, 3, 6, 3}, {2, 5, 68, 34}}},
    {"layernorm", build_layernorm, oracle_layernorm, .real = 1e-5, .flag = true, .timing = {4, 256, 768},
     .wide = {4, 64, 257}, .small = {{2, 3, 5}, {1, 1, 67}, {5, 7, 16}}},
    {"layernorm_gain", build_layernorm, oracle_layernorm, .real = 0.5, .timing = {4, 256, 768}, .wide = {4, 64, 257},
     .small = {{1, 1, 1}, {1, 1, 2}, {2, 3, 5}, {9, 5, 19}}},
    {"rotary", build_rotary, oracle_rotary, .real = 10000, HEADS, .wide = {3, 70, 192, 24},
     .timing = {4, 256, 768, 64}},
    {"attention_causal", build_attention, oracle_attention, .flag = true, HEADS, .wide = {2, 130, 48, 12},
     .timing = {4, 256, 768, 64}},
    {"attention_full", build_attention, oracle_attention, HEADS, .wide = {2, 130, 48, 12},
     .timing = {4, 256, 768, 64}},
    {"relu", build_activation, oracle_activation, .function = "relu", ELEMENTWISE, MLP_WIDTH},
    {"scaled_relu", build_activation, oracle_activation, .function = "scaled_relu", ELEMENTWISE, MLP_WIDTH},
    {"relu2", build_activation, oracle_activation, .function = "relu2", ELEMENTWISE, MLP_WIDTH},
    {"scaled_relu2", build_activation, oracle_activation, .function = "scaled_relu2", ELEMENTWISE, MLP_WIDTH},
    {"gelu", build_activation, oracle_activation, .function = "gelu", ELEMENTWISE, MLP_WIDTH},
    {"sqrt2_gelu", build_activation, oracle_activation, .function = "sqrt2_gelu", ELEMENTWISE, MLP_WIDTH},
    {"tanh", build_activation, oracle_activation, .function = "tanh", ELEMENTWISE, MLP_WIDTH},
    {"add", build_add, oracle_add, ELEMENTWISE, .timing = {4, 256, 768}},
    {"cross_entropy", build_cross_entropy, oracle_cross_entropy, MATRICES, .timing = {4, 256, 768, 0, 50304}},
    {"cross_entropy_smooth", build_cross_entropy, oracle_cross_entropy, .flag = true, .real = 0.1, MATRICES,
     .timing = {4, 256, 768, 0, 50304}},
    {"cross_entropy_soft", build_cross_entropy, oracle_cross_entropy, .soft = true, MATRICES,
     .timing = {4, 256, 768, 0, 50304}},
    {"cross_entropy_soft_smooth", build_cross_entropy, oracle_cross_entropy, .flag = true, .soft = true, .real = 0.1,
     MATRICES, .timing = {4, 256, 768, 0, 50304}},
};

const op_case *op_case_at(int i)
{
    return i >= 0 && (size_t)i < sizeof TABLE / sizeof *TABLE ? &TABLE[i] : NULL;
}

const op_case *op_case_find(const char *name)
{
    for (int i = 0; op_case_at(i); i++)
        if (strcmp(TABLE[i].name, name) == 0)
            return &TABLE[i];
    return NULL;
}

/* ---- The fixture ------------------------------------------------------------------------------------------- */

/* splitmix64; uniform in (0,1) */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static void fill(float *x, int64_t n, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        const double radius = sqrt(-2 * log(uniform(state)));
        x[i] = (float)(radius * cos(6.283185307179586 * uniform(state)));
        if (fabsf(x[i]) < 1e-3f)
            x[i] = 1e-3f;
    }
}

static float *floats_of(size_t n)
{
    return aligned_alloc(64, (n + 16) / 16 * 64);
}

/* Memory of one value, filled. V: whole numbers lie below it; targets may be negative. */
static bool furnish(tape_value *v, int64_t V, bool targets, uint64_t *state)
{
    if (v->kind == TAPE_INTS) {
        v->ints = malloc((size_t)v->count * sizeof *v->ints);
        for (int64_t i = 0; v->ints && i < v->count; i++) {
            v->ints[i] = (int32_t)(uniform(state) * (double)V);
            if (targets && i > 0 && uniform(state) < 0.125)
                v->ints[i] = -1;
        }
        return v->ints;
    }
    v->data = floats_of((size_t)v->count);
    v->grad = floats_of((size_t)v->count);
    if (!v->data || !v->grad)
        return false;
    fill(v->data, v->count, state);
    fill(v->grad, v->count, state);
    return true;
}

/* A loss, known by its one dimension, gets the gradient 1 in its first element, as the tape gives it. */
static void seed_loss(op_fixture *f)
{
    if (f->out.ndim != 1)
        return;
    memset(f->out.grad, 0, (size_t)f->out.count * sizeof(float));
    f->out.grad[0] = 1;
}

op_fixture *op_fixture_create(const op_case *c, const op_sizes *s, int threads, uint64_t seed)
{
    op_fixture *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    uint64_t state = seed;
    f->tape = tape_create();
    if (!f->tape || !c->build(f->tape, c, s))
        goto failed;
    f->node = *tape_node_at(f->tape, 0);
    f->out = *f->node.out;
    f->node.out = &f->out;
    f->run = (tape_run){.threads = threads, .training = true, .loss_scale = 1};
    for (int i = 0; i < f->node.inputs; i++) {
        if (!f->node.in[i])
            continue;
        f->value[i] = *f->node.in[i];
        f->node.in[i] = &f->value[i];
        f->node.needs_grad[i] = f->value[i].kind != TAPE_INTS && strcmp(f->value[i].name, "target_weights") != 0;
        f->node.accumulate[i] = 1;
        if (!furnish(&f->value[i], s->V, f->out.ndim == 1, &state))
            goto failed;
    }
    f->saved = f->node.op->saved ? f->node.op->saved(&f->node) : 0;
    f->scratch = f->node.op->scratch ? f->node.op->scratch(&f->node, threads) : 0;
    f->node.saved = floats_of(f->saved);
    f->run.scratch = floats_of(f->scratch);
    if (!furnish(&f->out, 0, false, &state) || !f->node.saved || !f->run.scratch)
        goto failed;
    seed_loss(f);
    return f;
failed:
    op_fixture_free(f);
    return NULL;
}

void op_fixture_train(op_fixture *f)
{
    const tape_op *op = f->node.op;
    if (op->forward_backward) {
        op->forward_backward(&f->node, &f->run);
        return;
    }
    op->forward(&f->node, &f->run);
    op->backward(&f->node, &f->run);
}

void op_fixture_free(op_fixture *f)
{
    if (!f)
        return;
    for (int i = 0; i < TAPE_INPUTS; i++) {
        free(f->value[i].data);
        free(f->value[i].grad);
        free(f->value[i].ints);
    }
    free(f->out.data);
    free(f->out.grad);
    free(f->node.saved);
    free(f->run.scratch);
    tape_free(f->tape);
    free(f);
}
