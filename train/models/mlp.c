/* MLP: y_0 = pixels,  y_l = f(W_l y_{l-1} + b_l) for l < layers,  loss = cross-entropy of W_L y_{L-1}; `layers`
 * counts the weight matrices. The last layer has no bias, as in the paper. */
#include <stdio.h>

#include "util/fail.h"
#include "models/model.h"
#include "ops/ops.h"

typedef struct mlp_options {
    int64_t layers, width;
    char activation[OPTION_NAME];
    bool bias;
    int bias_radius;  /* LAYER, HIDDEN */
    double smoothing; /* label smoothing */
} mlp_options;

enum { LAYER, HIDDEN };
static const char *const bias_radius[] = {[LAYER] = "layer", [HIDDEN] = "hidden", NULL};

static const option options[] = {
    MODEL_LAYERS(mlp_options, "weight matrices"),
    MODEL_WIDTH(mlp_options, "width of the layers (embedding dimension)"),
    MODEL_ACTIVATION(mlp_options),
    MODEL_BIAS(mlp_options),
    OPTION_CHOICE_ROW(mlp_options, bias_radius, "bias_radius", "layer", bias_radius,
                      "biases have the radius of their layer, or that of the hidden layers", .origin = "hidden",
                      .change = OPTION_ON_INIT),
    MODEL_SMOOTHING(mlp_options),
    OPTION_END,
};

static tape_value *weight(tape *t, int64_t layer, scion_role role, int64_t d_out, int64_t d_in)
{
    char name[64];
    const int64_t shape[] = {d_out, d_in};
    snprintf(name, sizeof name, "layers.%lld.weight", (long long)layer);
    return tape_param(t, name, role, 2, shape);
}

static tape_value *bias(tape *t, int64_t layer, scion_role layer_role, int64_t d_out)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%lld.bias", (long long)layer);
    tape_value *b = tape_param(t, name, SCION_ROLE_VECTOR, 1, &d_out);
    if (b)
        b->layer = layer_role;
    return b;
}

static scion_status check(const void *from, scion_error *err)
{
    const mlp_options *o = from;
    if (o->layers < 2)
        return train_fail(err, SCION_EINVAL, "layers is %lld, expected 2 or more for model mlp",
                          (long long)o->layers);
    return SCION_OK;
}

static void record(model *m, const void *from)
{
    const mlp_options *o = from;
    tape *t = m->tape;
    const activation *f = activation_find(o->activation);
    const data_array *pixels = model_array(m, "pixels");
    const int64_t flat[] = {m->batch, pixels->count};
    tape_value *x = model_input(m, "pixels", 2, flat);
    model_bind_targets(m);
    int64_t d_in = pixels->count;
    for (int64_t layer = 0; layer < o->layers - 1; layer++) {
        const scion_role role = layer == 0 ? SCION_ROLE_INPUT : SCION_ROLE_HIDDEN;
        tape_value *w = weight(t, layer, role, o->width, d_in);
        tape_value *b = o->bias ? bias(t, layer, o->bias_radius == LAYER ? role : SCION_ROLE_HIDDEN, o->width) : NULL;
        x = op_activation(t, op_linear(t, x, w, b), f);
        d_in = o->width;
    }
    tape_value *w = weight(t, o->layers - 1, SCION_ROLE_OUTPUT, model_array(m, "targets")->range, d_in);
    model_set_loss(m, x, w, o->smoothing);
}

static void radii(const void *from, model_radii *r)
{
    const mlp_options *o = from;
    if ((!o->bias || o->bias_radius == LAYER) && o->layers == 2)
        r->hidden = "no layer has it";
    if (!o->bias && activation_find(o->activation)->degree > 0)
        r->first_scale = r->hidden_scale = "only the product of the radii matters";
}

/* Counts the matrices; images have about 800 pixels. */
static double cost(const void *from, int64_t block)
{
    const mlp_options *o = from;
    const double width = (double)o->width;
    (void)block;
    return 800 * width + (double)o->layers * width * width;
}

const model_row model_mlp = {
    .name = "mlp",
    .help = "fully connected layers on images",
    .inputs = (const char *const[]){"pixels", "targets", NULL},
    .options = options,
    .options_size = sizeof(mlp_options),
    .check = check,
    .record = record,
    .norms = "image",
    .accuracy = true,
    .radii = radii,
    .proxy_min = 64,
    .cost = cost,
};
