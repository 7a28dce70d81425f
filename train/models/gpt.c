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
#include "util/number.h"

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

/* A whole number of config.json; -1: it has none above 0. */
static int64_t whole(const json_t *file, const char *key)
{
    const json_t *value = json_object_get(file, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : -1;
}

static bool is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value);
}

/* The theta of a rotary embedding without scaling; NAN: there is another, or none. Up to version 4 of transformers it
 * has a key of its own. The class's default scales positions, so that a missing one is not ours. */
static double rotary_of(const json_t *file)
{
    const json_t *rope = json_object_get(file, "rope_parameters");
    const json_t *theta = json_object_get(json_is_object(rope) ? rope : file, "rope_theta");
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    const json_t *part = json_object_get(json_is_object(rope) ? rope : file, "partial_rotary_factor");
    const bool plain = json_is_object(rope)
                           ? type && strcmp(type, "default") == 0
                           : is_off(json_object_get(file, "rope_scaling")) && json_object_get(file, "rope_scaling");
    if (!plain || !json_is_number(theta) || !(json_number_value(theta) >= 1) ||
        (part && json_number_value(part) != 1))
        return NAN;
    return json_number_value(theta);
}

static const char *activation_of(const json_t *file, const char *wanted)
{
    const char *name = json_string_value(json_object_get(file, "hidden_act"));
    const activation *f = wanted ? activation_find(wanted) : NULL;
    if (name && f && f->plain && strcmp(f->plain, name) == 0)
        return wanted;
    for (int i = 0; name && (f = activation_row(i)) != NULL; i++)
        if (f->plain && strcmp(f->plain, name) == 0 && f->factor == 1)
            return f->name;
    return NULL;
}

static scion_status unlike(const char *key, const json_t *file, const char *expected, scion_error *err)
{
    const json_t *found = json_object_get(file, key);
    char *text = found ? json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    train_fail(err, SCION_EINVAL, "config.json: %s is %.60s; expected %s", key, text ? text : "missing", expected);
    free(text);
    return SCION_EINVAL;
}

/* Refuses what this network does not have. */
static scion_status check_file(const json_t *file, int64_t width, int64_t heads, scion_error *err)
{
    static const char *const off[] = {"attention_bias", "mlp_bias", "quantization_config", "sliding_window"};
    const json_t *eps = json_object_get(file, "rms_norm_eps"), *tied = json_object_get(file, "tie_word_embeddings");
    const json_t *groups = json_object_get(file, "num_key_value_heads"), *head = json_object_get(file, "head_dim");
    char expected[80];
    if (whole(file, "intermediate_size") % 4 != 0 || whole(file, "intermediate_size") / 4 != width)
        return unlike("intermediate_size", file, "4 times hidden_size", err);
    if (groups && !json_is_null(groups) && whole(file, "num_key_value_heads") != heads)
        return unlike("num_key_value_heads", file, "num_attention_heads: heads that share keys are not possible here",
                      err);
    snprintf(expected, sizeof expected, "hidden_size / num_attention_heads, %lld", (long long)(width / heads));
    if (head && !json_is_null(head) && whole(file, "head_dim") != width / heads)
        return unlike("head_dim", file, expected, err);
    if (!json_is_number(eps) || (float)json_number_value(eps) != (float)norm_eps)
        return unlike("rms_norm_eps", file, "2^-23 = 1.1920929e-07, which all norms here have", err);
    if (tied && !json_is_boolean(tied) && !json_is_null(tied))
        return unlike("tie_word_embeddings", file, "true or false", err);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_off(json_object_get(file, off[i])))
            return unlike(off[i], file, "none: this network has nothing like it", err);
    return SCION_OK;
}

static void choose(model_taken *choices, int *count, const char *key, const char *value)
{
    choices[*count].key = key;
    snprintf(choices[*count].value, sizeof choices->value, "%s", value);
    ++*count;
}

static void choose_number(model_taken *choices, int *count, const char *key, double value)
{
    char text[NUMBER_TEXT];
    number_write(value, text);
    choose(choices, count, key, text);
}

static scion_status take_hf(const json_t *file, const char *wanted, model_taken *choices, int *count,
                            scion_error *err)
{
    const int64_t width = whole(file, "hidden_size"), heads = whole(file, "num_attention_heads");
    const int64_t layers = whole(file, "num_hidden_layers"), block = whole(file, "max_position_embeddings");
    const char *f = activation_of(file, wanted);
    const double theta = rotary_of(file);
    *count = 0;
    if (width < 1 || (double)width > OPTION_MANY)
        return unlike("hidden_size", file, "the width of the layers", err);
    if (heads < 1 || width % heads != 0)
        return unlike("num_attention_heads", file, "a number that divides hidden_size", err);
    if (layers < 1 || layers > MODEL_MAX_LAYERS)
        return unlike("num_hidden_layers", file, "the number of layers, at most 500", err);
    if (block < 1 || (double)block > OPTION_MANY)
        return unlike("max_position_embeddings", file, "the length of the context", err);
    if (!f)
        return unlike("hidden_act", file, "relu2, gelu, relu or tanh", err);
    if (isnan(theta))
        return unlike("rope_parameters", file, "rope_type default with its rope_theta: positions are not scaled here",
                      err);
    RETURN_IF_FAILED(check_file(file, width, heads, err));
    choose_number(choices, count, "layers", (double)layers);
    choose_number(choices, count, "width", (double)width);
    choose_number(choices, count, "head_size", (double)(width / heads));
    choose_number(choices, count, "block", (double)block);
    choose_number(choices, count, "rotary_base", theta);
    choose(choices, count, "activation", f);
    choose(choices, count, "tied", json_is_true(json_object_get(file, "tie_word_embeddings")) ? "yes" : "no");
    choose(choices, count, "qk_norm", "yes");
    return SCION_OK;
}

static const model_export elsewhere = {
    .architecture = "apertus", .class_name = "ApertusForCausalLM", .list = list_export, .take = take_hf};

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
