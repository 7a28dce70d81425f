/* Writes states/ with the library of version 0.2.0, which it is linked with; it is no part of the build.
 *     cc -O2 -I DIR/include write_states.c DIR/build/libscion.a -fopenmp -lm -o write_states && ./write_states states
 * where DIR is version 0.2.0, built. old_states.h says what is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <scion.h>

#include "old_states.h"

static scion_error err;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, err.message);
        exit(1);
    }
}

static uint16_t narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float widen(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void write_weights(FILE *f, const scion_param *p, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        const float x =
            p->weight_type == SCION_BF16 ? widen(((const uint16_t *)p->weight)[k]) : ((const float *)p->weight)[k];
        fwrite(&x, sizeof x, 1, f);
    }
}

static void make(const struct old_case *c, scion_param *params, scion_optimizer **opt)
{
    scion_options o;
    scion_options_init(&o, scion_enum_value(SCION_ENUM_RULE, c->rule));
    o.routing = SCION_ROUTING_ONEHOT;
    o.light = c->light;
    o.vanishing = c->vanishing;
    o.weight_decay = c->decay;
    o.seed = OLD_SEED;
    for (int i = 0; i < OLD_PARAMS; i++) {
        const struct old_param *from = &old_params[i];
        const int64_t n = old_count(i);
        scion_param *p = &params[i];
        scion_param_init(p);
        p->name = from->name;
        p->role = scion_enum_value(SCION_ENUM_ROLE, from->role);
        p->ndim = from->ndim;
        for (int k = 0; k < from->ndim; k++)
            p->shape[k] = from->shape[k];
        p->transposed = from->transposed;
        p->split_axis = from->split_axis;
        p->split_count = from->split_count;
        float *w = calloc((size_t)n, sizeof *w);
        old_numbers(0, i, n, w);
        for (int64_t k = 0; k < n; k++)
            w[k] /= 2;
        p->weight = w;
        if (c->bf16) {
            uint16_t *h = calloc((size_t)n, sizeof *h);
            for (int64_t k = 0; k < n; k++)
                h[k] = narrow(w[k]);
            p->weight = h;
            p->weight_type = SCION_BF16;
        }
        p->grad = calloc((size_t)n, sizeof(float));
        p->grad_prev = calloc((size_t)n, sizeof(float));
    }
    must(scion_optimizer_create(opt, &o, params, OLD_PARAMS, &err) == SCION_OK, "create");
    must(scion_optimizer_mark_start(*opt, &err) == SCION_OK, "mark_start");
}

static void step(int k, const scion_param *params, scion_optimizer *opt)
{
    float g[256];
    scion_optimizer_begin(opt);
    for (int i = 0; i < OLD_PARAMS; i++) {
        old_numbers(k, i, old_count(i), g);
        for (int64_t e = 0; e < old_count(i); e++)
            ((float *)params[i].grad)[e] += g[e];
        old_numbers(k + 100, i, old_count(i), params[i].grad_prev);
    }
    must(scion_optimizer_step(opt, old_lr, &err) == SCION_OK, "step");
}

/* Each setting on a parameter of its own. */
static void set(scion_optimizer *opt)
{
    must(scion_optimizer_set(opt, 0, SCION_SET_RADIUS, 2, &err) == SCION_OK, "radius");
    must(scion_optimizer_set(opt, 1, SCION_SET_LR_SCALE, 0.5, &err) == SCION_OK, "lr_scale");
    must(scion_optimizer_set(opt, 2, SCION_SET_WEIGHT_DECAY, 0.25, &err) == SCION_OK, "weight_decay");
    must(scion_optimizer_set(opt, 3, SCION_SET_MOMENTUM, 0.3, &err) == SCION_OK, "momentum");
    must(scion_optimizer_set(opt, 4, SCION_SET_FROZEN, 1, &err) == SCION_OK, "frozen");
}

static void write_case(const struct old_case *c, const char *folder)
{
    char path[4096];
    scion_param params[OLD_PARAMS];
    scion_optimizer *opt;
    FILE *states, *parts[3];
    make(c, params, &opt);
    for (int k = 1; k <= OLD_STEPS; k++) {
        step(k, params, opt);
        if (k == 1 && c->set)
            set(opt);
    }
    const size_t bytes = scion_optimizer_save_bytes(opt, 0);
    void *state = malloc(bytes);
    must(scion_optimizer_save(opt, 0, state, bytes, &err) == SCION_OK, "save");
    snprintf(path, sizeof path, "%s/%s.state", folder, c->name);
    states = fopen(path, "wb");
    must(states && fwrite(state, 1, bytes, states) == bytes && fclose(states) == 0, path);

    /* before, gradients and after are written apart, then woven together parameter by parameter */
    for (int t = 0; t < 3; t++)
        must((parts[t] = tmpfile()) != NULL, "a temporary file");
    for (int i = 0; i < OLD_PARAMS; i++) {
        write_weights(parts[0], &params[i], old_count(i));
        fwrite(params[i].grad, sizeof(float), (size_t)old_count(i), parts[1]);
    }
    for (int k = OLD_STEPS + 1; k <= OLD_STEPS + OLD_MORE; k++)
        step(k, params, opt);
    for (int i = 0; i < OLD_PARAMS; i++)
        write_weights(parts[2], &params[i], old_count(i));
    for (int t = 0; t < 3; t++)
        rewind(parts[t]);
    snprintf(path, sizeof path, "%s/%s.weights", folder, c->name);
    FILE *out = fopen(path, "wb");
    must(out != NULL, path);
    for (int i = 0; i < OLD_PARAMS; i++)
        for (int t = 0; t < 3; t++) {
            float x[256];
            const size_t n = (size_t)old_count(i);
            must(fread(x, sizeof *x, n, parts[t]) == n, "a temporary file");
            if (t != 1 || c->light)
                fwrite(x, sizeof *x, n, out);
        }
    for (int i = 0; i < OLD_PARAMS; i++) {
        scion_info info = {.size = sizeof info};
        must(scion_optimizer_inspect(opt, i, 0, &info, &err) == SCION_OK, "inspect");
        const float bound = (float)info.bound;
        fwrite(&bound, sizeof bound, 1, out);
    }
    must(fclose(out) == 0, path);
    scion_optimizer_free(opt); /* the arrays are left to the end of the process */
}

int main(int argc, char **argv)
{
    if (argc != 2 || strcmp(scion_version(), "0.2.0") != 0) {
        fprintf(stderr, "usage: write_states FOLDER, with the library of version 0.2.0 (this is %s)\n",
                scion_version());
        return 1;
    }
    for (int i = 0; i < OLD_CASES; i++)
        write_case(&old_cases[i], argv[1]);
    return 0;
}
