/* Activations: elementwise functions f with their derivatives, one table row each (see activation.c).
 *
 * A row is found by name and then applied to whole arrays. All functions are pure and thread-safe. */
#ifndef TRAIN_OPS_ACTIVATION_H
#define TRAIN_OPS_ACTIVATION_H

#include <stdint.h>

typedef struct activation {
    const char *name;
    float factor; /* in front of the function that the two below compute */
    void (*forward)(float factor, int64_t n, const float *z, float *y);
    void (*backward)(float factor, int64_t n, const float *z, const float *dy, float keep, float *dz);
} activation;

/* The row of that name, or NULL. */
const activation *activation_find(const char *name);

/* Row i from 0, or NULL past the last one, so that a loop can list them all. */
const activation *activation_row(int i);

/* y = f(z) for n values; y may be z. */
void activation_forward(const activation *f, int64_t n, const float *z, float *y);

/* dz = keep dz + dy f'(z) for n values, keep 0 (dz is not read) or 1, z what `forward` was given. At a kink f' is
 * that of the side where f is constant. dz may be dy if keep is 0. */
void activation_backward(const activation *f, int64_t n, const float *z, const float *dy, float keep, float *dz);

#endif
