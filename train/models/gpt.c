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
#include <string.h>

#include "models/model.h"
#include "ops/ops.h"
#include "util/fail.h"

typedef struct gpt_options {
    int64_t layers, width, head_size;
    char activation[OPTION_NAME];
    bool tied;      /* one matrix for embedding and output */
    bool zero_init; /* projections back into the residual start at zero */
    bool qk_norm;
    bool recompute;
    double rotary_base;
    double smoothing; /* label smoothing */
} gpt_options;

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

/* ---- In other programs ---------------------------------------------------------------------------------- */

/* Apertus is this network, with gains in its norms (ones here) and without the factor of an activation, which the
 * matrix behind it takes. Its q and k rotate the same pairs as ours: nothing is permuted. */
typedef struct tensor_name {
    const char *param; /* of a block; NULL: ones, a gain */
    const char *names[MODEL_FORMATS];
    bool per_head; /* ones: as many as a head is wide, not the model */
    bool scaled;   /* takes the activation's factor */
} tensor_name;

static const tensor_name block_names[] = {
    {.names = {"attention_layernorm", "attn_norm"}},
    {.param = "attn.q", .names = {"self_attn.q_proj", "attn_q"}},
    {.param = "attn.k", .names = {"self_attn.k_proj", "attn_k"}},
    {.param = "attn.v", .names = {"self_attn.v_proj", "attn_v"}},
    {.param = "attn.o", .names = {"self_attn.o_proj", "attn_output"}},
    {.names = {"self_attn.q_norm", "attn_q_norm"}, .per_head = true},
    {.names = {"self_attn.k_norm", "attn_k_norm"}, .per_head = true},
    {.names = {"feedforward_layernorm", "ffn_norm"}},
    {.param = "mlp.up", .names = {"mlp.up_proj", "ffn_up"}},
    {.param = "mlp.down", .names = {"mlp.down_proj", "ffn_down"}, .scaled = true},
};

static scion_status list_tensors(const model *m, const gpt_options *o, model_format format, model_outline *out,
                                 scion_error *err)
{
    static const char *const blocks[] = {"model.layers", "blk"},
                             *const tables[] = {"model.embed_tokens", "token_embd"},
                             *const norms_last[] = {"model.norm", "output_norm"},
                             *const heads[] = {"lm_head", "output"};
    const float factor = activation_find(o->activation)->factor;
    model_tensor t = {.param = model_param(m, "embedding"), .factor = 1};
    snprintf(t.name, sizeof t.name, "%s.weight", tables[format]);
    RETURN_IF_FAILED(model_put_tensor(out, &t, err));
    for (int64_t i = 0; i < o->layers; i++)
        for (size_t k = 0; k < sizeof block_names / sizeof *block_names; k++) {
            const tensor_name *n = &block_names[k];
            char ours[64];
            snprintf(ours, sizeof ours, "blocks.%lld.%s", (long long)i, n->param ? n->param : "");
            t = (model_tensor){.param = n->param ? model_param(m, ours) : NULL,
                               .ones = n->per_head ? o->head_size : o->width,
                               .factor = n->scaled ? factor : 1};
            snprintf(t.name, sizeof t.name, "%s.%lld.%s.weight", blocks[format], (long long)i, n->names[format]);
            RETURN_IF_FAILED(model_put_tensor(out, &t, err));
        }
    t = (model_tensor){.ones = o->width, .factor = 1};
    snprintf(t.name, sizeof t.name, "%s.weight", norms_last[format]);
    RETURN_IF_FAILED(model_put_tensor(out, &t, err));
    if (o->tied && format == MODEL_HF) /* said in its settings */
        return SCION_OK;
    t = (model_tensor){.param = model_param(m, o->tied ? "embedding" : "head"), .factor = 1};
    snprintf(t.name, sizeof t.name, "%s.weight", heads[format]);
    return model_put_tensor(out, &t, err);
}

static void list_hf_settings(const model *m, const gpt_options *o, model_outline *out)
{
    const data_array *text = model_array(m, "tokens");
    model_put_int(out, "vocab_size", text->range);
    model_put_int(out, "hidden_size", o->width);
    model_put_int(out, "intermediate_size", 4 * o->width);
    model_put_int(out, "num_hidden_layers", o->layers);
    model_put_int(out, "num_attention_heads", o->width / o->head_size);
    model_put_int(out, "num_key_value_heads", o->width / o->head_size);
    model_put_text(out, "hidden_act", activation_find(o->activation)->plain);
    model_put_int(out, "max_position_embeddings", text->count);
    model_put_real(out, "rms_norm_eps", norm_eps);
    model_put_bool(out, "tie_word_embeddings", o->tied);
    model_put_text(out, "rope_parameters.rope_type", "default");
    model_put_real(out, "rope_parameters.rope_theta", o->rotary_base);
    model_put_bool(out, "attention_bias", false);
    model_put_real(out, "attention_dropout", 0);
}

/* The only activation of this architecture is xIELU: a x^2 + b x for x > 0, else c (e^min(x, eps) - 1 - x) + b x. It
 * is ReLU^2 with a = softplus(alpha_p) = 1, b = 0 and c = softplus(alpha_n) = 0, exactly in float32. */
static void list_gguf_settings(const model *m, const gpt_options *o, model_outline *out)
{
    const data_array *text = model_array(m, "tokens");
    model_put_int(out, "apertus.context_length", text->count);
    model_put_int(out, "apertus.embedding_length", o->width);
    model_put_int(out, "apertus.block_count", o->layers);
    model_put_int(out, "apertus.feed_forward_length", 4 * o->width);
    model_put_int(out, "apertus.attention.head_count", o->width / o->head_size);
    model_put_int(out, "apertus.attention.head_count_kv", o->width / o->head_size);
    model_put_real(out, "apertus.attention.layer_norm_rms_epsilon", norm_eps);
    model_put_int(out, "apertus.rope.dimension_count", o->head_size);
    model_put_real(out, "apertus.rope.freq_base", o->rotary_base);
    model_put_int(out, "apertus.vocab_size", text->range);
    model_put_real(out, "xielu.alpha_p", 0.541324854612918);
    model_put_real(out, "xielu.alpha_n", -1e4);
    model_put_real(out, "xielu.beta", 0);
    model_put_real(out, "xielu.eps", -1e-6);
}

static scion_status list_export(const model *m, const void *from, model_format format, model_outline *out,
                                scion_error *err)
{
    const gpt_options *o = from;
    const char *plain = activation_find(o->activation)->plain;
    if (!o->qk_norm)
        return train_fail(err, SCION_EINVAL,
                          "a model with qk_norm=no cannot be exported: the architecture there always has norms of "
                          "queries and keys; train with qk_norm=yes");
    if (!plain)
        return train_fail(err, SCION_EINVAL,
                          "activation=%s cannot be exported: transformers does not have it; train with scaled_relu2",
                          o->activation);
    if (format == MODEL_GGUF && strcmp(plain, "relu2") != 0)
        return train_fail(err, SCION_EINVAL,
                          "activation=%s cannot be exported to GGUF, where only relu2 and scaled_relu2 can be "
                          "expressed: export with format=hf, or train with activation=scaled_relu2",
                          o->activation);
    if (format == MODEL_HF)
        list_hf_settings(m, o, out);
    else
        list_gguf_settings(m, o, out);
    return list_tensors(m, o, format, out, err);
}

static const model_export elsewhere = {
    .architecture = "apertus", .class_name = "ApertusForCausalLM", .list = list_export};

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
    .writes = true,
    .to = &elsewhere,
    .radii = radii,
    .proxy_divisor = "head_size",
    .cost = cost,
};
