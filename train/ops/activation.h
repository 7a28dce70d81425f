/* Activations: elementwise functions f with their derivatives, one table row each (see activation.c). */
#ifndef TRAIN_OPS_ACTIVATION_H
#define TRAIN_OPS_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct activation {
    const char *name;
    float factor; /* first argument of the two functions below */
    int degree;   /* k of f(a z) = a^k f(z) for a > 0, 0: none */
    /* y = f(z) for n values; y may be z. */
    void (*forward)(float factor, int64_t n, const float *z, float *y);
    /* dz = dy f'(z) for n values, or dz += that; z as given to `forward`. At a kink f' is that of the side where f is
     * constant. dz may be dy if not accumulate. */
    void (*backward)(float factor, int64_t n, const float *z, const float *dy, bool accumulate, float *dz);
    const char *plain; /* name of f/factor in other programs (transformers); NULL: they do not have it */
} activation;

/* Row by name, or NULL. */
const activation *activation_find(const char *name);

/* Row i from 0, or NULL past the last one; its name alone. */
const activation *activation_row(int i);
const char *activation_name(int i);

#endif
