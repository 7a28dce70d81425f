/* GPT as in the paper's experiments (the modernised nanoGPT): with N() the RMS norm without parameters,
 *     x = table[tokens]
 *     x = x + O attention(R(N(Q y)), R(N(K y)), V y),  y = N(x)     R rotary embedding, N over each head (QK-norm)
 *     x = x + W_2 f(W_1 N(x))                                        f = ScaledReLU^2, sqrt(2) GELU, ...
 *     loss = cross-entropy of W_L N(x)
 * for each of `layers` blocks; separate Q, K, V, O; no biases; hidden width of the MLP 4C. The output matrix
 * is a parameter of its own, or the embedding table again (`tied`; it is then one parameter, with the role of the
 * output). With `zero_init` the projections back into the residual (O, W_2) start at zero. */
#include <math.h>
#include <stdio.h>

#include "util/fail.h"
#include "models/gpt.h"
#include "models/model.h"
#include "ops/ops.h"

static const double norm_eps = 0x1p-23; /* float32's epsilon, as in the reference */

#define BOOL(field, ...) OPTION_BOOL_ROW(gpt_options, field, #field, __VA_ARGS__)

static const option options[] = {
    MODEL_LAYERS(gpt_options, "blocks"),
    MODEL_WIDTH(gpt_options, "width of the layers (embedding dimension)"),
    MODEL_HEAD_SIZE(gpt_options),
    MODEL_ACTIVATION(gpt_options),
    BOOL(tied, "no", "one matrix for the embedding and the output"),
    BOOL(zero_init, "no", "projections back into the residual start at zero", .change = OPTION_ON_INIT),
    OPTION_REAL_ROW(gpt_options, rotary_base, "rotary_base", "10000", 1, INFINITY,
                    "base of the rotary embedding's wavelengths"),
    BOOL(qk_norm, "yes", "RMS norm of queries and keys"),
    MODEL_SMOOTHING(gpt_options),
    MODEL_RECOMPUTE(gpt_options),
    OPTION_END,
};

typedef struct gpt {
    tape *t;
    const gpt_options *o;
    int block;
} gpt;

/* Parameter `name` of the current block. */
static tape_value *weight(const gpt *g, const char *name, int64_t d_out, int64_t d_in)
{
    char full[64];
    const int64_t shape[] = {d_out, d_in};
    snprintf(full, sizeof full, "blocks.%d.%s", g->block, name);
    return tape_param(g->t, full, SCION_ROLE_HIDDEN, 2, shape);
}

/* A projection back into the residual. */
static tape_value *projection(const gpt *g, const char *name, int64_t d_out, int64_t d_in)
{
    tape_value *w = weight(g, name, d_out, d_in);
    if (w)
        w->zero_start = g->o->zero_init;
    return w;
}

/* N and R of queries or keys. */
static tape_value *with_position(const gpt *g, tape_value *x)
{
    if (g->o->qk_norm)
        x = op_rmsnorm(g->t, x, g->o->head_size, norm_eps);
    return op_rotary(g->t, x, g->o->head_size, g->o->rotary_base);
}

static tape_value *attention(const gpt *g, tape_value *x)
{
    const int64_t C = g->o->width;
    tape_value *y = op_rmsnorm(g->t, x, C, norm_eps);
    tape_value *q = with_position(g, op_linear(g->t, y, weight(g, "attn.q", C, C), NULL));
    tape_value *k = with_position(g, op_linear(g->t, y, weight(g, "attn.k", C, C), NULL));
    tape_value *v = op_linear(g->t, y, weight(g, "attn.v", C, C), NULL);
    tape_value *mixed = op_attention(g->t, q, k, v, g->o->head_size, true);
    return op_add(g->t, x, op_linear(g->t, mixed, projection(g, "attn.o", C, C), NULL));
}

static tape_value *feed_forward(const gpt *g, tape_value *x, const activation *f)
{
    const int64_t C = g->o->width;
    tape_value *y = op_rmsnorm(g->t, x, C, norm_eps);
    y = op_activation(g->t, op_linear(g->t, y, weight(g, "mlp.up", 4 * C, C), NULL), f);
    return op_add(g->t, x, op_linear(g->t, y, projection(g, "mlp.down", C, 4 * C), NULL));
}

static scion_status check(const void *from, scion_error *err)
{
    const gpt_options *o = from;
    if (o->head_size % 2 != 0)
        return train_fail(err, SCION_EINVAL, "head_size is %lld, expected an even number (rotary embedding)",
                          (long long)o->head_size);
    return model_check_heads(o->width, o->head_size, err);
}

static void record(model *m, const void *from)
{
    const gpt_options *o = from;
    gpt g = {m->tape, o, 0};
    const activation *f = activation_find(o->activation);
    const data_array *text = model_array(m, "tokens");
    const int64_t table_shape[] = {text->range, o->width};
    tape_value *tokens = model_input(m, "tokens", 0, NULL);
    model_bind_targets(m);
    tape_value *table = tape_param(g.t, "embedding", o->tied ? SCION_ROLE_OUTPUT : SCION_ROLE_ONEHOT, 2, table_shape);
    if (table)
        table->transposed = !o->tied;
    tape_value *x = op_embedding(g.t, tokens, table);
    for (; g.block < o->layers; g.block++) {
        if (o->recompute)
            tape_recompute_begin(g.t);
        x = feed_forward(&g, attention(&g, x), f);
        if (o->recompute)
            tape_recompute_end(g.t);
    }
    tape_value *head = o->tied ? table : tape_param(g.t, "head", SCION_ROLE_OUTPUT, 2, table_shape);
    model_set_loss(m, op_rmsnorm(g.t, x, o->width, norm_eps), head, o->smoothing);
}

/* The embedding of a tied model is its last layer too. */
static const char *norms(const void *from)
{
    return ((const gpt_options *)from)->tied ? "shared" : "onehot";
}

static void radii(const void *from, model_radii *r)
{
    const gpt_options *o = from;
    if (o->tied)
        r->first = "the first layer is the last one (tied)";
    else if (o->qk_norm && activation_find(o->activation)->degree == 1)
        r->first_scale = "only its ratio to the square of radius_hidden matters";
}

/* Counts the matrices, a vocabulary of about a hundred symbols, and attention. */
static double cost(const void *from, int64_t block)
{
    const gpt_options *o = from;
    const double width = (double)o->width, layers = (double)o->layers;
    return (12 * layers * width * width + 130 * width + layers * (double)block * width) * (double)block;
}

const model_row model_gpt = {
    .name = "gpt",
    .help = "decoder-only transformer: rotary embedding, RMS norm, QK-norm",
    .inputs = (const char *const[]){"tokens", "targets", NULL},
    .options = options,
    .options_size = sizeof(gpt_options),
    .check = check,
    .record = record,
    .norms_by = norms,
    .decode = &gpt_decode,
    .radii = radii,
    .proxy_divisor = "head_size",
    .cost = cost,
};
