/* The saved optimizers of version 0.2.0 in states/: which there are, what they stepped, and with which gradients.
 * Read by write_states.c, which wrote them with that version, and by tests/test_old_states.c, which loads them into
 * the present one. It holds names and numbers and nothing of scion.h, so that it never changes.
 *
 * NAME.state is what scion_optimizer_save wrote after OLD_STEPS steps. NAME.weights is float32, little-endian: for
 * each parameter its weights at that time, with light its gradient buffer at that time, and its weights OLD_MORE
 * steps later; then, for each parameter, the bound on its norm at the end. bfloat16 weights are widened. */
#ifndef OLD_STATES_H
#define OLD_STATES_H

#include <stdint.h>

enum { OLD_STEPS = 3, OLD_MORE = 2, OLD_PARAMS = 6, OLD_SEED = 5 };

static const double old_lr = 0.05;

/* Shapes as stored; roles by name, norms are left to the configuration onehot. */
static const struct old_param {
    const char *name, *role;
    int ndim, shape[4], transposed, split_axis, split_count;
} old_params[OLD_PARAMS] = {
    {"embedding", "onehot", 2, {7, 5}, 1, 0, 0}, {"hidden", "hidden", 2, {6, 4}, 0, 0, 0},
    {"fused", "hidden", 2, {12, 4}, 0, 0, 3},    {"conv", "hidden", 4, {4, 3, 2, 2}, 0, 0, 0},
    {"bias", "vector", 1, {6}, 0, 0, 0},         {"head", "output", 2, {7, 6}, 0, 0, 0},
};

/* What is not said is the rule's default. set: some settings were changed after the first step (write_states.c). */
static const struct old_case {
    const char *name, *rule;
    int light, vanishing, bf16, set;
    double decay;
} old_cases[] = {
    {"scion", "scion", 0, 0, 0, 0, 0},
    {"uscion", "uscion", 0, 0, 0, 0, 0.1},
    {"almond", "almond", 0, 0, 0, 0, 0.1},
    {"muon", "muon", 0, 0, 0, 0, 0.1},
    {"signsgd", "signsgd", 0, 0, 0, 0, 0},
    {"signum", "signum", 0, 0, 0, 0, 0},
    {"nsgd", "nsgd", 0, 0, 0, 0, 0},
    {"mnsgd", "mnsgd", 0, 0, 0, 0, 0},
    {"ssd", "ssd", 0, 0, 0, 0, 0},
    {"mars", "mars", 0, 0, 0, 0, 0},
    {"adamw", "adamw", 0, 0, 0, 0, 0.1},
    {"sgd", "sgd", 0, 0, 0, 0, 0.1},
    {"scion-light", "scion", 1, 0, 0, 0, 0},
    {"uscion-light", "uscion", 1, 0, 0, 0, 0},
    {"signum-light", "signum", 1, 0, 0, 0, 0},
    {"mnsgd-light", "mnsgd", 1, 0, 0, 0, 0},
    {"scion-vanishing", "scion", 0, 1, 0, 0, 0},
    {"uscion-set", "uscion", 0, 0, 0, 1, 0},
    {"scion-bf16", "scion", 0, 0, 1, 0, 0},
    {"mars-bf16", "mars", 0, 0, 1, 0, 0},
    {"adamw-set", "adamw", 0, 0, 0, 1, 0},
};

enum { OLD_CASES = sizeof old_cases / sizeof *old_cases };

static inline int64_t old_count(int param)
{
    int64_t n = 1;
    for (int i = 0; i < old_params[param].ndim; i++)
        n *= old_params[param].shape[i];
    return n;
}

/* Numbers of 16 bits in [-1, 1), a stream for each step and parameter: exact in float32. Step 0 is the weights' start
 * (halved; for bfloat16 cut off), steps from 1 the gradients, and 100 more the gradients at the
 * weights before, which mars takes. */
static inline void old_numbers(int step, int param, int64_t n, float *out)
{
    uint64_t x = (uint64_t)step * 1000 + (uint64_t)param + 1;
    for (int64_t i = -4; i < n; i++) { /* the first numbers of near seeds are alike */
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (i >= 0)
            out[i] = (float)((int)(x >> 48) - 32768) / 32768.0f;
    }
}

#endif
