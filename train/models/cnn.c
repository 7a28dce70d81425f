/* airbench's network for small images (Jordan, 2024), as the paper trains it: with f an activation,
 *     x = f(whitening(image) + bias)        2 x 2 patches made uncorrelated (whitening.h), not trained
 *     three times  x = f(norm(pool(W_1 * x))),  x = f(norm(W_2 * x))        channels C, 4C, 4C
 *     x = pool(x),    loss = cross-entropy of W_L x / logit_divisor
 * W * x are 3 x 3 convolutions without bias that keep the size, pool takes the largest of 2 x 2 pixels, the last one
 * of 3 x 3; norm is batch normalisation with a shift and without a scale. */
#include <stdio.h>
#include <string.h>

#include "models/model.h"
#include "models/whitening.h"
#include "ops/ops.h"

typedef struct cnn_options {
    int64_t width;
    char activation[OPTION_NAME];
    bool whiten_bias, dirac_init;
    int shift_norm; /* RMS, EUCLID */
    double logit_divisor, smoothing;
} cnn_options;

/* Decay of the running statistics, and the epsilons of airbench's layers. */
static const double norm_momentum = 0.6, norm_eps = 1e-12, whitening_eps = 5e-4;

enum { groups = 3, whitening_side = 2, whitening_images = 5000, kernel = 3, last_pool = 3 };
/* The whitening layer takes one pixel, the groups halve the side three times, and last_pool pixels must be left. */
enum { min_side = last_pool * (1 << groups) + 1 };
static const int64_t widths[groups] = {1, 4, 4}; /* times C */

enum { RMS, EUCLID };
static const char *const shift_norm[] = {[RMS] = "rms", [EUCLID] = "euclid", NULL};
static const scion_role shift_role[] = {[RMS] = SCION_ROLE_VECTOR, [EUCLID] = SCION_ROLE_NORMALIZATION};

static const option options[] = {
    MODEL_WIDTH(cnn_options, "channels of the first group"),
    MODEL_ACTIVATION(cnn_options),
    OPTION_BOOL_ROW(cnn_options, whiten_bias, "whiten_bias", "no",
                    "the whitening layer has a bias, trained with radius_first"),
    OPTION_BOOL_ROW(cnn_options, dirac_init, "dirac_init", "no",
                    "the first filters of a convolution start as copies of its input", .change = OPTION_ON_INIT),
    OPTION_CHOICE_ROW(cnn_options, shift_norm, "shift_norm", "rms", shift_norm,
                      "norm of the shifts of batch normalisation", .change = OPTION_ON_INIT),
    OPTION_REAL_ROW(cnn_options, logit_divisor, "logit_divisor", "9", 1e-6, 1e6, "logits are divided by it"),
    MODEL_SMOOTHING(cnn_options),
    OPTION_END,
};

typedef struct cnn {
    tape *t;
    const cnn_options *o;
    const activation *f;
    int group, layer; /* from 0; in the group, from 1 */
} cnn;

/* "groups.0.conv1", "groups.0.norm1.shift". */
static void name_of(const cnn *n, const char *what, const char *part, char name[64])
{
    snprintf(name, 64, "groups.%d.%s%d%s", n->group, what, n->layer, part);
}

static tape_value *convolution(const cnn *n, tape_value *x, int64_t c_in, int64_t c_out)
{
    const int64_t shape[] = {c_out, c_in, kernel, kernel};
    char name[64];
    name_of(n, "conv", "", name);
    return op_convolution(n->t, x, tape_param(n->t, name, SCION_ROLE_HIDDEN, 4, shape), NULL, 1, kernel / 2);
}

/* f(norm(x)). */
static tape_value *normalisation(const cnn *n, tape_value *x, int64_t channels)
{
    char name[64];
    name_of(n, "norm", ".shift", name);
    tape_value *shift = tape_param(n->t, name, shift_role[n->o->shift_norm], 1, &channels);
    name_of(n, "norm", ".mean", name);
    tape_value *mean = tape_buffer(n->t, name, 0, 1, &channels);
    name_of(n, "norm", ".var", name);
    tape_value *var = tape_buffer(n->t, name, 1, 1, &channels);
    return op_batchnorm(n->t, x, NULL, shift, mean, var, n->f, norm_momentum, norm_eps);
}

static tape_value *group(cnn *n, tape_value *x, int64_t c_in, int64_t c_out)
{
    n->layer = 1;
    x = normalisation(n, op_max_pool(n->t, convolution(n, x, c_in, c_out), 2), c_out);
    n->layer = 2;
    return normalisation(n, convolution(n, x, c_out, c_out), c_out);
}

static tape_value *whitening(const cnn *n, tape_value *image, int64_t channels)
{
    const int64_t filters = whitening_filters(channels, whitening_side);
    const int64_t shape[] = {filters, channels, whitening_side, whitening_side};
    tape_value *w = tape_buffer(n->t, "whiten", 0, 4, shape);
    tape_value *bias = n->o->whiten_bias ? tape_param(n->t, "whiten.bias", SCION_ROLE_VECTOR, 1, &filters) : NULL;
    if (bias)
        bias->layer = SCION_ROLE_INPUT;
    return op_activation(n->t, op_convolution(n->t, image, w, bias, 1, 0), n->f);
}

static void record(model *m, const void *from)
{
    const cnn_options *o = from;
    cnn n = {.t = m->tape, .o = o, .f = activation_find(o->activation)};
    const data_array *image = model_array(m, "image");
    const int64_t channels = image->shape[2], classes = model_array(m, "targets")->range;
    tape_value *x = model_input(m, "image", 0, NULL);
    model_bind_targets(m);
    if (image->shape[0] < min_side || image->shape[1] < min_side) {
        tape_fail(n.t, "images of %lld x %lld pixels, expected at least %d x %d", (long long)image->shape[0],
                  (long long)image->shape[1], min_side, min_side);
        return;
    }
    x = whitening(&n, x, channels);
    int64_t c = whitening_filters(channels, whitening_side);
    for (; n.group < groups; n.group++) {
        x = group(&n, x, c, widths[n.group] * o->width);
        c = widths[n.group] * o->width;
    }
    x = op_max_pool(n.t, x, last_pool);
    if (!x)
        return;
    const int64_t flat[] = {m->batch, x->count / m->batch}, head_shape[] = {classes, flat[1]};
    x = op_factor(n.t, op_reshape(n.t, x, 2, flat), 1 / o->logit_divisor);
    model_set_loss(m, x, tape_param(n.t, "head", SCION_ROLE_OUTPUT, 2, head_shape), o->smoothing);
}

/* Filter i copies channel i, as far as both exist. */
static void start_dirac(const tape_value *w)
{
    const int64_t taps = w->shape[2] * w->shape[3], size = w->shape[1] * taps;
    for (int64_t i = 0; i < w->shape[0] && i < w->shape[1]; i++) {
        memset(w->data + i * size, 0, (size_t)size * sizeof *w->data);
        w->data[i * size + i * taps + taps / 2] = 1;
    }
}

static scion_status start(model *m, const void *from, const data_set *data, uint64_t seed, scion_error *err)
{
    const cnn_options *o = from;
    (void)seed;
    for (int64_t i = 0; o->dirac_init && i < tape_param_count(m->tape); i++)
        if (tape_param_at(m->tape, i)->ndim == 4)
            start_dirac(tape_param_at(m->tape, i));
    return whitening_compute(data, whitening_images, whitening_side, whitening_eps, tape_buffer_at(m->tape, 0)->data,
                             err);
}

static void radii(const void *from, model_radii *r)
{
    const cnn_options *o = from;
    if (!o->whiten_bias)
        r->first = "the first layer is not trained";
}

/* Counts the convolutions on images of 32 x 32 pixels. */
static double cost(const void *from, int64_t block)
{
    const cnn_options *o = from;
    const double C = (double)o->width;
    (void)block;
    return 961 * 9 * 24 * C + 225 * 9 * 5 * C * C + 49 * 9 * 32 * C * C + 9 * 9 * 16 * C * C;
}

const model_row model_cnn = {
    .name = "cnn",
    .help = "airbench's convolutional network for small images",
    .inputs = (const char *const[]){"image", "targets", NULL},
    .options = options,
    .options_size = sizeof(cnn_options),
    .record = record,
    .start = start,
    .norms = "image",
    .accuracy = true,
    .radii = radii,
    .proxy_min = 16,
    .cost = cost,
};
