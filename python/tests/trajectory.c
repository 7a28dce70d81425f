/* Trajectories of the C library, for test_trajectory.py, which takes the same steps through Python.
 *     trajectory RULE float32|bfloat16 STEPS > WEIGHTS
 * Weights and gradients come from splitmix64, as multiples of 2^-23 (bfloat16: their upper halves), so that both
 * sides have the same. Written are the weights of all parameters after the last step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scion_advanced.h"

enum { PARAMS = 6, MOST = 2048 };

static uint64_t splitmix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Numbers of a stream, each in [-1, 1). */
static void fill(void *array, int32_t type, int64_t n, uint64_t stream)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = splitmix((stream << 32) + (uint64_t)i) >> 40;
        const float value = (float)((int64_t)bits - (1 << 23)) * 0x1p-23f;
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        if (type == SCION_BF16)
            ((uint16_t *)array)[i] = (uint16_t)(word >> 16);
        else
            ((float *)array)[i] = value;
    }
}

int main(int argc, char **argv)
{
    static const struct {
        int32_t ndim;
        int64_t shape[4];
        int32_t role, transposed, split;
        double radius;
    } rows[PARAMS] = {
        {2, {50, 16}, SCION_ROLE_ONEHOT, 1, 0, 1},     {2, {32, 16}, SCION_ROLE_HIDDEN, 0, 0, 3},
        {4, {8, 4, 3, 3}, SCION_ROLE_HIDDEN, 0, 0, 2}, {1, {32}, SCION_ROLE_VECTOR, 0, 0, 1},
        {2, {24, 8}, SCION_ROLE_HIDDEN, 0, 3, 1},      {2, {50, 32}, SCION_ROLE_OUTPUT, 0, 0, 10},
    };
    static _Alignas(16) unsigned char weights[PARAMS][MOST * 4], grads[PARAMS][MOST * 4];
    if (argc != 4)
        return 2;
    const int32_t rule = scion_enum_value(SCION_ENUM_RULE, argv[1]);
    const int32_t type = strcmp(argv[2], "bfloat16") == 0 ? SCION_BF16 : SCION_F32;
    const int steps = atoi(argv[3]);
    scion_param params[PARAMS];
    int64_t counts[PARAMS];
    for (int i = 0; i < PARAMS; i++) {
        scion_param *p = &params[i];
        scion_param_init(p);
        counts[i] = 1;
        p->ndim = rows[i].ndim;
        for (int k = 0; k < p->ndim; k++)
            counts[i] *= p->shape[k] = rows[i].shape[k];
        p->role = rows[i].role;
        p->transposed = rows[i].transposed;
        p->split_count = rows[i].split;
        p->radius = rows[i].radius;
        p->weight_type = p->grad_type = type;
        p->weight = weights[i];
        p->grad = grads[i];
        fill(weights[i], type, counts[i], (uint64_t)i);
    }
    scion_options o;
    scion_options_init(&o, rule);
    o.routing = SCION_ROUTING_ONEHOT;
    o.seed = 7;
    scion_optimizer *opt = NULL;
    scion_error err;
    scion_status status = scion_optimizer_create(&opt, &o, params, PARAMS, &err);
    for (int k = 0; k < steps && status == SCION_OK; k++) {
        for (int i = 0; i < PARAMS; i++)
            fill(grads[i], type, counts[i], (uint64_t)(100 * (k + 1) + i));
        status = scion_optimizer_step(opt, 0.05 * (1 - (double)k / steps), &err);
    }
    if (status != SCION_OK)
        fprintf(stderr, "%s\n", err.message);
    for (int i = 0; i < PARAMS; i++)
        fwrite(weights[i], type == SCION_BF16 ? 2 : 4, (size_t)counts[i], stdout);
    scion_optimizer_free(opt);
    return status != SCION_OK;
}
