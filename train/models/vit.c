/* Vision transformer as DeiT has it (Touvron et al., 2021; Dosovitskiy et al., 2020), with the paper's changes: with
 * N() a norm over each row,
 *     x = (class token, W_1 patches(image)) + positions
 *     x = x + O attention(Q y, K y, V y),  y = N(x)
 *     x = x + W_3 f(W_2 N(x))                                     f = sqrt(2) GELU, GELU, ...
 *     loss = cross-entropy of W_L N(x_0)
 * for each of `layers` blocks, x_0 the class token's row; or without one (pool=mean) of W_L mean(N(x)). N is the RMS
 * norm without parameters, or layer normalisation with gain and shift. All layers but the last have a bias, if
 * wanted. In training whole branches are left out (stochastic depth, linearly from 0 in the first block to its rate
 * in the last), and elements dropped after the positions, O, f and W_3.
 *
 * After the last block's attention each row depends on itself alone, so with a class token only x_0 is computed: the
 * result is the same.
 *
 * W_1 is a linear layer of images, C x (channels patch^2). With patch_factor=convolution it is declared as the
 * convolution that it also is, kernel and stride patch: the spectral norm then divides by the patch^2 positions and
 * has sqrt(d_out/channels) in place of max(1, sqrt(d_out/d_in)), which makes 1/16 of the step for DeiT (768 x 768).
 *
 * Positions and class token are vectors (RMS norm, radius of the hidden layers). They start as Gaussian numbers of
 * deviation 0.02: at zero, the RMS norm of the class token would have no derivative worth the name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "models/model.h"
#include "ops/ops.h"

typedef struct vit_options {
    int64_t layers, width, head_size, patch;
    double mlp_ratio;
    char activation[OPTION_NAME];
    int norm, pool, patch_factor;
    bool bias, recompute;
    double dropout, stochastic_depth, smoothing;
} vit_options;

/* float32's own epsilon as in gpt.c; layer normalisation as DeiT has it. */
static const double rms_eps = 0x1p-23, layernorm_eps = 1e-6;
static const double start_deviation = 0.02;

typedef struct vit {
    tape *t;
    const vit_options *o;
    const activation *f;
    int64_t block, channels;
    bool last; /* the last block: only the class token is needed after it */
} vit;

/* ---- Choices ------------------------------------------------------------------------------------------- */

enum { RMSNORM, LAYERNORM };
enum { CLASS_TOKEN, MEAN };
enum { LINEAR, CONVOLUTION };
static const char *const norm_names[] = {[RMSNORM] = "rmsnorm", [LAYERNORM] = "layernorm", NULL};
static const char *const pools[] = {[CLASS_TOKEN] = "class", [MEAN] = "mean", NULL};
static const char *const patch_factors[] = {[LINEAR] = "linear", [CONVOLUTION] = "convolution", NULL};

#define REAL(field, ...) OPTION_REAL_ROW(vit_options, field, #field, __VA_ARGS__)
#define CHOICE(field, ...) OPTION_CHOICE_ROW(vit_options, field, #field, __VA_ARGS__)

static const option options[] = {
    MODEL_LAYERS(vit_options, "blocks"),
    MODEL_WIDTH(vit_options, "width of the layers (embedding dimension)"),
    MODEL_HEAD_SIZE(vit_options),
    OPTION_INT_ROW(vit_options, patch, "patch", "4", 1, 4096,
                   "pixels of a side of a patch; divides those of the images"),
    REAL(mlp_ratio, "4", 0.01, 1000, "width between the two layers of a block's MLP, in widths"),
    CHOICE(norm, "rmsnorm", norm_names, "normalisation before each branch; layernorm has gain and shift"),
    MODEL_ACTIVATION(vit_options),
    CHOICE(pool, "class", pools, "the head sees a class token, or the mean of all positions",
           .change = OPTION_ON_INIT),
    CHOICE(patch_factor, "linear", patch_factors,
           "spectral step of the first layer: as a linear layer, or a convolution (1/16 for DeiT)",
           .change = OPTION_ON_INIT),
    MODEL_BIAS(vit_options),
    REAL(dropout, "0", 0, 0.999, "part of the activations that training drops", .change = OPTION_ON_INIT),
    REAL(stochastic_depth, "0", 0, 0.999, "part of the samples that skip the last block's branches in training",
         .change = OPTION_ON_INIT),
    MODEL_SMOOTHING(vit_options),
    MODEL_RECOMPUTE(vit_options),
    OPTION_END,
};

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* Vector `name` of the network; gains start at 1, see start(). */
static tape_value *vector(const vit *v, const char *name, const char *part, scion_role role, int64_t n)
{
    char full[64];
    snprintf(full, sizeof full, "%.50s%.12s", name, part);
    return tape_param(v->t, full, role, 1, &n);
}

static tape_value *bias(const vit *v, const char *name, int64_t n)
{
    return v->o->bias ? vector(v, name, ".bias", SCION_ROLE_VECTOR, n) : NULL;
}

/* W x + b, W parameter `part` of the current block. */
static tape_value *linear(const vit *v, tape_value *x, const char *part, int64_t d_out, int64_t d_in)
{
    char name[64];
    const int64_t shape[] = {d_out, d_in};
    snprintf(name, sizeof name, "blocks.%lld.%.30s", (long long)v->block, part);
    tape_value *w = tape_param(v->t, name, SCION_ROLE_HIDDEN, 2, shape);
    return op_linear(v->t, x, w, bias(v, name, d_out));
}

/* N(x); the parameters of layer normalisation are named after `name`. */
static tape_value *normalised(const vit *v, tape_value *x, const char *name)
{
    const int64_t C = v->o->width;
    if (v->o->norm == RMSNORM)
        return op_rmsnorm(v->t, x, C, rms_eps);
    tape_value *gain = vector(v, name, ".gain", SCION_ROLE_NORMALIZATION, C);
    return op_layernorm(v->t, x, gain, vector(v, name, ".shift", SCION_ROLE_NORMALIZATION, C), layernorm_eps);
}

static tape_value *block_norm(const vit *v, tape_value *x, int number)
{
    char name[64];
    snprintf(name, sizeof name, "blocks.%lld.norm%d", (long long)v->block, number);
    return normalised(v, x, name);
}

static tape_value *dropped(const vit *v, tape_value *x)
{
    return v->o->dropout > 0 ? op_dropout(v->t, x, v->o->dropout) : x;
}

/* x + branch, which training drops at random. */
static tape_value *residual(const vit *v, tape_value *x, tape_value *branch)
{
    const double depth = v->o->layers > 1 ? (double)v->block / (double)(v->o->layers - 1) : 1;
    const double rate = v->o->stochastic_depth * depth;
    branch = dropped(v, branch);
    return op_add(v->t, x, rate > 0 ? op_drop_samples(v->t, branch, rate) : branch);
}

/* The part of x that the rest of the network needs. */
static tape_value *needed(const vit *v, tape_value *x)
{
    return v->last && v->o->pool == CLASS_TOKEN ? op_pick(v->t, x, 0) : x;
}

static tape_value *attention(const vit *v, tape_value *x)
{
    const int64_t C = v->o->width;
    tape_value *y = block_norm(v, x, 1);
    tape_value *q = linear(v, y, "attn.q", C, C), *k = linear(v, y, "attn.k", C, C);
    tape_value *value = linear(v, y, "attn.v", C, C);
    tape_value *mixed = needed(v, op_attention(v->t, q, k, value, v->o->head_size, false));
    return residual(v, needed(v, x), linear(v, mixed, "attn.o", C, C));
}

static tape_value *feed_forward(const vit *v, tape_value *x)
{
    const int64_t C = v->o->width, wide = llround(v->o->mlp_ratio * (double)C), hidden = wide > 0 ? wide : 1;
    tape_value *y = linear(v, block_norm(v, x, 2), "mlp.up", hidden, C);
    y = dropped(v, op_activation(v->t, y, v->f));
    return residual(v, x, linear(v, y, "mlp.down", C, hidden));
}

/* W_1 of the image's patches, and its bias. */
static tape_value *embedding(const vit *v, tape_value *image)
{
    const int64_t p = v->o->patch, C = v->o->width, flat[] = {C, v->channels * p * p};
    const int64_t kernel[] = {C, v->channels, p, p};
    const bool linear_layer = v->o->patch_factor == LINEAR;
    tape_value *w = tape_param(v->t, "patch", SCION_ROLE_INPUT, linear_layer ? 2 : 4, linear_layer ? flat : kernel);
    tape_value *b = bias(v, "patch", C);
    if (b)
        b->layer = SCION_ROLE_INPUT;
    return op_linear(v->t, op_patches(v->t, image, p), linear_layer ? w : op_reshape(v->t, w, 2, flat), b);
}

/* Patches with class token and positions. */
static tape_value *tokens(const vit *v, tape_value *image)
{
    tape_value *x = embedding(v, image);
    if (v->o->pool == CLASS_TOKEN)
        x = op_prepend(v->t, x, vector(v, "class_token", "", SCION_ROLE_VECTOR, v->o->width));
    if (!x)
        return NULL;
    const int64_t shape[] = {x->shape[1], v->o->width};
    return dropped(v, op_add_each(v->t, x, tape_param(v->t, "positions", SCION_ROLE_VECTOR, 2, shape)));
}

static scion_status check(const void *from, scion_error *err)
{
    const vit_options *o = from;
    return model_check_heads(o->width, o->head_size, err);
}

static void record(model *m, const void *from)
{
    const vit_options *o = from;
    vit v = {.t = m->tape, .o = o, .f = activation_find(o->activation)};
    v.channels = model_array(m, "image")->shape[2];
    tape_value *x = model_input(m, "image", 0, NULL);
    model_bind_targets(m);
    x = tokens(&v, x);
    for (; v.block < o->layers; v.block++) {
        if (o->recompute)
            tape_recompute_begin(v.t);
        v.last = v.block + 1 == o->layers;
        x = feed_forward(&v, attention(&v, x));
        if (o->recompute)
            tape_recompute_end(v.t);
    }
    x = normalised(&v, x, "norm");
    if (o->pool == MEAN)
        x = op_mean_positions(v.t, x);
    const int64_t shape[] = {model_array(m, "targets")->range, o->width};
    model_set_loss(m, x, tape_param(v.t, "head", SCION_ROLE_OUTPUT, 2, shape), o->smoothing);
}

/* ---- The row ------------------------------------------------------------------------------------------- */

static scion_status start(model *m, const void *from, const data_set *data, uint64_t seed, scion_error *err)
{
    (void)from;
    (void)data;
    (void)err;
    for (int64_t i = 0; i < tape_param_count(m->tape); i++) {
        const tape_value *v = tape_param_at(m->tape, i);
        const bool gain = strstr(v->name, ".gain") != NULL;
        if (!gain && strcmp(v->name, "positions") != 0 && strcmp(v->name, "class_token") != 0)
            continue;
        scn_normals(seed, scn_stream_uniform(i), 0, v->count, v->data);
        for (int64_t k = 0; k < v->count; k++)
            v->data[k] = gain ? 1 : (float)start_deviation * v->data[k];
    }
    return SCION_OK;
}

/* Counts the matrices and attention; images have about 64 patches. */
static double cost(const void *from, int64_t block)
{
    const vit_options *o = from;
    const double width = (double)o->width, layers = (double)o->layers, positions = 64;
    (void)block;
    return layers * width * positions * ((4 + 2 * o->mlp_ratio) * width + 2 * positions);
}

const model_row model_vit = {
    .name = "vit",
    .help = "vision transformer (DeiT)",
    .inputs = (const char *const[]){"image", "targets", NULL},
    .options = options,
    .options_size = sizeof(vit_options),
    .check = check,
    .record = record,
    .start = start,
    .norms = "image",
    .accuracy = true,
    .proxy_divisor = "head_size",
    .cost = cost,
};
