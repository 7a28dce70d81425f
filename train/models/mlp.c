/* MLP: y_0 = pixels,  y_l = f(W_l y_{l-1} + b_l) for l < layers,  loss = cross-entropy of W_L y_{L-1}; `layers`
 * counts the weight matrices. The last layer has no bias, as in the paper. */
#include <stdio.h>

#include "models/models.h"
#include "ops/ops.h"

static tape_value *weight(tape *t, int64_t layer, scion_role role, int64_t d_out, int64_t d_in)
{
    char name[64];
    const int64_t shape[] = {d_out, d_in};
    snprintf(name, sizeof name, "layers.%lld.weight", (long long)layer);
    return tape_param(t, name, role, 2, shape);
}

static tape_value *bias(tape *t, int64_t layer, int64_t d_out)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%lld.bias", (long long)layer);
    tape_value *b = tape_param(t, name, SCION_ROLE_VECTOR, 1, &d_out);
    return b;
}

static void record(model *m, const config *c, const model_shape *s)
{
    tape *t = m->tape;
    const activation *f = activation_find(c->model.activation);
    const int64_t pixels[] = {s->batch, s->features};
    if (!f)
        tape_fail(t, "there is no activation %s", c->model.activation);
    if (c->model.layers < 2)
        tape_fail(t, "layers is %lld, expected 2 or more", (long long)c->model.layers);
    if (tape_failed(t))
        return;
    m->pixels = tape_floats(t, "pixels", 2, pixels);
    m->targets = tape_ints(t, "labels", 1, &s->batch);
    tape_value *x = m->pixels;
    int64_t d_in = s->features;
    for (int64_t layer = 0; layer < c->model.layers - 1; layer++) {
        tape_value *w = weight(t, layer, layer == 0 ? SCION_ROLE_INPUT : SCION_ROLE_HIDDEN, c->model.width, d_in);
        tape_value *b = c->model.bias ? bias(t, layer, c->model.width) : NULL;
        x = op_activation(t, op_linear(t, x, w, b), f);
        d_in = c->model.width;
    }
    tape_value *w = weight(t, c->model.layers - 1, SCION_ROLE_OUTPUT, s->classes, d_in);
    m->loss = op_cross_entropy(t, x, w, NULL, m->targets, c->model.smoothing);
}

const model_row model_mlp = {"mlp", "fully connected layers on images", false, record};
