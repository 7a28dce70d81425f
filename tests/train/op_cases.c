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

static tape_value *images(tape *t, const op_case *c, const op_sizes *s)
{
    return tape_floats(t, "x", 4, (const int64_t[]){s->B, s->T, s->T + (c->oblong ? 2 : 0), s->C});
}

static tape_value *buffer(tape *t, const char *name, int64_t n)
{
    return tape_buffer(t, name, 1, 1, &n);
}

static tape_value *build_factor(tape *t, const op_case *c, const op_sizes *s)
{
    return op_factor(t, rows(t, "x", s, s->C), c->real);
}

static tape_value *build_convolution(tape *t, const op_case *c, const op_sizes *s)
{
    const int64_t shape[] = {s->V, s->C, s->D, s->D + c->oblong};
    return op_convolution(t, images(t, c, s), tape_param(t, "w", SCION_ROLE_HIDDEN, 4, shape),
                          c->flag ? vector(t, "bias", s->V) : NULL, c->stride, c->pad);
}

static tape_value *build_batchnorm(tape *t, const op_case *c, const op_sizes *s)
{
    return op_batchnorm(t, images(t, c, s), c->scaled ? vector(t, "scale", s->C) : NULL,
                        c->flag ? vector(t, "shift", s->C) : NULL, buffer(t, "mean", s->C), buffer(t, "var", s->C),
                        c->function ? activation_find(c->function) : NULL, 0.6, c->real);
}

static tape_value *build_max_pool(tape *t, const op_case *c, const op_sizes *s)
{
    return op_max_pool(t, images(t, c, s), s->D);
}

static tape_value *build_patches(tape *t, const op_case *c, const op_sizes *s)
{
    return op_patches(t, tape_floats(t, "x", 4, (const int64_t[]){s->B, s->T, s->T + (c->oblong ? s->D : 0), s->C}),
                      s->D);
}

static tape_value *build_add_each(tape *t, const op_case *c, const op_sizes *s)
{
    const int64_t shape[] = {s->T, s->C};
    (void)c;
    return op_add_each(t, rows(t, "x", s, s->C), tape_param(t, "positions", SCION_ROLE_VECTOR, 2, shape));
}

static tape_value *build_prepend(tape *t, const op_case *c, const op_sizes *s)
{
    (void)c;
    return op_prepend(t, rows(t, "x", s, s->C), vector(t, "token", s->C));
}

static tape_value *build_pick(tape *t, const op_case *c, const op_sizes *s)
{
    (void)c;
    return op_pick(t, rows(t, "x", s, s->C), s->D);
}

static tape_value *build_mean_positions(tape *t, const op_case *c, const op_sizes *s)
{
    (void)c;
    return op_mean_positions(t, rows(t, "x", s, s->C));
}

static tape_value *build_dropout(tape *t, const op_case *c, const op_sizes *s)
{
    return op_dropout(t, rows(t, "x", s, s->C), c->real);
}

static tape_value *build_drop_samples(tape *t, const op_case *c, const op_sizes *s)
{
    return op_drop_samples(t, rows(t, "x", s, s->C), c->real);
}

/* ---- The table: sizes are {B, T, C, D, V} -------------------------------------------------------------------- */

#define ELEMENTWISE .small = {{1, 1, 1}, {2, 3, 5}, {1, 1, 67}, {3, 7, 16}}, .wide = {4, 64, 257}
#define MATRICES                                                                                                     \
    .bf16 = 8, .small = {{1, 1, 1, 0, 1}, {1, 1, 5, 0, 1}, {2, 3, 7, 0, 5}, {1, 17, 16, 0, 33}, {3, 5, 19, 0, 130}}, \
    .wide = {4, 65, 131, 0, 257}
#define HEADS .small = {{1, 1, 4, 4}, {2, 5, 6, 6}, {2, 7, 12, 4}, {1, 33, 10, 2}, {1, 97, 24, 12}, {1, 130, 4, 2}}
#define CONVOLUTION build_convolution, oracle_convolution, .bf16 = 8
#define SAME_3X3 .stride = 1, .pad = 1, .small = {{1, 1, 1, 3, 1}, {2, 3, 5, 3, 7}, {1, 8, 16, 3, 49}}
#define BATCHNORM \
    build_batchnorm, oracle_batchnorm, .small = {{6, 1, 1}, {2, 2, 5}, {3, 5, 16}, {1, 7, 67}}, .wide = {9, 31, 24}
#define POSITIONS \
    .small = {{1, 1, 1}, {2, 3, 5}, {1, 7, 67}, {5, 2, 16}}, .wide = {30, 65, 33}, .timing = {100, 65, 128}
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
    {"attention_causal", build_attention, oracle_attention, .bf16 = 32, .flag = true, HEADS, .wide = {2, 130, 48, 12},
     .timing = {4, 256, 768, 64}},
    {"attention_full", build_attention, oracle_attention, .bf16 = 32, HEADS, .wide = {2, 130, 48, 12},
     .timing = {4, 256, 768, 64}},
    /* as in vision transformers: a class token and 8 x 8 or 14 x 14 patches */
    {"attention_65", build_attention, oracle_attention, .bf16 = 32, .wide = {4, 65, 64, 32},
     .timing = {100, 65, 128, 64}, .small = {{1, 65, 8, 4}, {2, 65, 64, 64}, {1, 64, 32, 32}}},
    {"attention_197", build_attention, oracle_attention, .bf16 = 32, .wide = {2, 197, 64, 32},
     .timing = {16, 197, 768, 64}, .small = {{1, 197, 8, 8}}},
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
    {"factor", build_factor, oracle_factor, .real = 1.0 / 9, ELEMENTWISE, .timing = {4, 256, 768}},
    /* airbench's layers */
    {"conv_2x2_32_3_24", CONVOLUTION, .stride = 1, .timing = {500, 32, 3, 2, 24},
     .small = {{1, 2, 1, 2, 1}, {2, 5, 3, 2, 24}, {3, 4, 7, 2, 5}}, .wide = {20, 32, 3, 2, 24}},
    {"conv_3x3_31_24_64", CONVOLUTION, SAME_3X3, .wide = {5, 31, 24, 3, 64}, .timing = {500, 31, 24, 3, 64}},
    {"conv_3x3_15_64_64", CONVOLUTION, SAME_3X3, .wide = {12, 15, 64, 3, 64}, .timing = {500, 15, 64, 3, 64}},
    {"conv_3x3_15_64_256", CONVOLUTION, SAME_3X3, .wide = {4, 15, 30, 3, 70}, .timing = {500, 15, 64, 3, 256}},
    {"conv_3x3_7_256_256", CONVOLUTION, SAME_3X3, .wide = {30, 7, 33, 3, 40}, .timing = {500, 7, 256, 3, 256}},
    {"conv_3x3_3_256_256", CONVOLUTION, SAME_3X3, .wide = {60, 3, 64, 3, 65}, .timing = {500, 3, 256, 3, 256}},
    {"conv_bias", CONVOLUTION, .flag = true, .stride = 1, .pad = 2, .timing = {500, 15, 64, 5, 64},
     .small = {{1, 1, 1, 3, 1}, {2, 4, 3, 5, 4}, {3, 5, 6, 4, 17}}, .wide = {6, 15, 20, 5, 33}},
    {"conv_oblong", CONVOLUTION, .flag = true, .oblong = true, .stride = 1, .pad = 1, .timing = {500, 15, 64, 2, 64},
     .small = {{1, 1, 1, 2, 1}, {2, 4, 3, 3, 4}, {3, 3, 6, 2, 17}}, .wide = {6, 15, 20, 3, 33}},
    {"conv_stride", CONVOLUTION, .oblong = true, .stride = 2, .pad = 1, .timing = {500, 15, 64, 3, 64},
     .small = {{1, 2, 1, 2, 1}, {2, 5, 3, 3, 4}, {3, 6, 6, 3, 17}, {2, 9, 4, 5, 3}}, .wide = {9, 15, 20, 3, 33}},
    {"conv_patch", CONVOLUTION, .flag = true, .stride = 4, .timing = {500, 32, 3, 4, 192},
     .small = {{1, 4, 1, 4, 1}, {2, 9, 3, 4, 5}, {2, 11, 2, 3, 6}}, .wide = {40, 32, 3, 4, 64}},
    {"batchnorm", BATCHNORM, .scaled = true, .flag = true, .real = 1e-5, .timing = {500, 15, 64}},
    {"batchnorm_plain", BATCHNORM, .real = 1e-12, .timing = {500, 15, 64}},
    {"batchnorm_gelu", BATCHNORM, .flag = true, .function = "gelu", .real = 1e-12, .timing = {500, 15, 64}},
    {"batchnorm_tanh", BATCHNORM, .scaled = true, .function = "tanh", .real = 0.5, .timing = {500, 15, 64}},
    {"max_pool_2", build_max_pool, oracle_max_pool, .timing = {500, 31, 64, 2}, .wide = {9, 31, 24, 2},
     .small = {{1, 2, 1, 2}, {2, 5, 3, 2}, {1, 8, 17, 2}}},
    {"max_pool_3", build_max_pool, oracle_max_pool, .oblong = true, .timing = {500, 3, 256, 3},
     .wide = {9, 31, 24, 3}, .small = {{1, 3, 1, 3}, {2, 7, 3, 3}, {1, 11, 16, 3}}},
    {"patches", build_patches, oracle_patches, .timing = {100, 32, 3, 4}, .wide = {30, 32, 3, 4},
     .small = {{1, 1, 1, 1}, {2, 4, 3, 2}, {1, 6, 5, 3}, {3, 4, 1, 4}}},
    {"patches_oblong", build_patches, oracle_patches, .oblong = true, .timing = {16, 224, 3, 16},
     .wide = {9, 48, 3, 16}, .small = {{2, 4, 3, 2}, {1, 6, 2, 3}}},
    {"add_each", build_add_each, oracle_add_each, POSITIONS},
    {"prepend", build_prepend, oracle_prepend, POSITIONS},
    {"pick", build_pick, oracle_pick, .timing = {100, 65, 128}, .wide = {30, 65, 33, 64},
     .small = {{1, 1, 1}, {2, 3, 5, 1}, {3, 4, 17, 3}}},
    {"mean_positions", build_mean_positions, oracle_mean_positions, POSITIONS},
    {"dropout", build_dropout, oracle_dropout, .real = 0.3, POSITIONS},
    {"dropout_none", build_dropout, oracle_dropout, .real = 0, POSITIONS},
    {"drop_samples", build_drop_samples, oracle_drop_samples, .real = 0.4, POSITIONS},
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

static uint16_t *halves_of(int64_t n)
{
    return (uint16_t *)(void *)floats_of((size_t)(n + 1) / 2);
}

/* Arrays of bfloat16 beside those of float32, or in place of the result's. */
static bool furnish_halves(op_fixture *f, op_halves halves)
{
    for (int i = 0; i < f->node.inputs; i++) {
        tape_value *v = &f->value[i];
        if (f->node.in[i] && (f->node.op->operands >> i & 1) && v->kind == TAPE_FLOATS) {
            v->has_half = true;
            v->half = halves_of(v->count);
            if (!v->half)
                return false;
        }
    }
    const bool reads_out = f->node.op->backward_reads & ~f->node.op->float_reads & TAPE_READS_OUT;
    f->out.has_half = f->node.op->half_out;
    f->out.half_only = f->out.has_half && halves == OP_HALVES_ONLY && !reads_out;
    f->out.half = f->out.has_half ? halves_of(f->out.count) : NULL;
    return !f->out.has_half || f->out.half;
}

void op_fixture_round(op_fixture *f)
{
    for (int i = 0; i < TAPE_INPUTS; i++)
        if (f->value[i].has_half)
            scn_to_bf16(f->value[i].count, f->value[i].data, f->value[i].half);
}

static op_fixture *make(const op_case *c, const op_sizes *s, int threads, uint64_t seed, scion_dtype compute,
                        op_halves halves)
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
    f->node.compute = compute;
    f->run = (tape_run){.threads = threads, .training = true, .loss_scale = 1};
    for (int i = 0; i < f->node.inputs; i++) {
        if (!f->node.in[i])
            continue;
        f->value[i] = *f->node.in[i];
        f->node.in[i] = &f->value[i];
        const tape_kind kind = f->value[i].kind;
        f->node.needs_grad[i] =
            kind != TAPE_INTS && kind != TAPE_BUFFER && strcmp(f->value[i].name, "target_weights") != 0;
        f->node.accumulate[i] = 1;
        if (!furnish(&f->value[i], s->V, f->out.ndim == 1, &state))
            goto failed;
    }
    if (halves != OP_HALVES_NONE && !furnish_halves(f, halves))
        goto failed;
    op_fixture_round(f);
    f->saved = f->node.op->saved ? f->node.op->saved(&f->node) : 0;
    f->scratch = f->node.op->scratch ? f->node.op->scratch(&f->node, threads) : 0;
    f->node.saved = floats_of(f->saved);
    f->run.scratch = floats_of(f->scratch);
    if (!furnish(&f->out, 0, false, &state) || !f->node.saved || !f->run.scratch)
        goto failed;
    memset(f->run.scratch, 0xFF, f->scratch * sizeof(float)); /* NaN: nobody has written it yet */
    if (f->out.half_only) {
        free(f->out.data);
        f->out.data = NULL;
    }
    seed_loss(f);
    return f;
failed:
    op_fixture_free(f);
    return NULL;
}

op_fixture *op_fixture_create(const op_case *c, const op_sizes *s, int threads, uint64_t seed)
{
    return make(c, s, threads, seed, SCION_F32, OP_HALVES_NONE);
}

op_fixture *op_fixture_rounded(const op_case *c, const op_sizes *s, int threads, uint64_t seed, op_halves halves)
{
    return make(c, s, threads, seed, SCION_BF16, halves);
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
        free(f->value[i].half);
    }
    free(f->out.data);
    free(f->out.half);
    free(f->out.grad);
    free(f->node.saved);
    free(f->run.scratch);
    tape_free(f->tape);
    free(f);
}
