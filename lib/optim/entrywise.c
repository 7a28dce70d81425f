/* The baselines, entry by entry:
 *     adamw   m = b1 m + (1-b1)g,  v = b2 v + (1-b2)g^2,  w = (1 - lr mu)w - lr mhat / (sqrt(vhat) + eps),
 *             mhat = m/(1-b1^k), vhat = v/(1-b2^k)      (Loshchilov and Hutter, 2019)
 *             where the denominator is 0 (eps = 0, no gradient yet or one whose square is 0) it only decays
 *     sgd     d = (1-a)d + g,  w = (1 - lr mu)w - lr d
 * with g scaled down where the joint 2-norm of the gradients exceeds clip_norm. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

enum { chunk = 1024, task_entries = SCION_RANGE }; /* ranges are whole tasks: the bits do not depend on them */

/* Constants of one AdamW step, with the bias corrections folded in. */
typedef struct adam {
    float b1, b2, scale, beta, rate, eps;
    float fix1, fix2; /* 1/(1-b1^k), 1/(1-b2^k) */
} adam;

SCN_CLONES static void adamw_run(int64_t n, const adam *a, const float *restrict g, float *restrict m,
                                 float *restrict v, float *restrict w)
{
    for (int64_t i = 0; i < n; i++) {
        float x = g[i] * a->scale;
        m[i] = a->b1 * m[i] + (1 - a->b1) * x;
        v[i] = a->b2 * v[i] + (1 - a->b2) * x * x;
        float below = sqrtf(v[i] * a->fix2) + a->eps;
        below = below == 0 ? INFINITY : below; /* no branch around the division: the loop stays a vector one */
        w[i] = a->beta * w[i] - a->rate * (m[i] * a->fix1) / below;
    }
}

void scn_adamw(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w)
{
    const adam a = {
        .b1 = (float)e->o->beta1,
        .b2 = (float)e->o->beta2,
        .scale = (float)e->grad_scale,
        .beta = (float)e->beta,
        .rate = (float)e->rate,
        .eps = (float)e->o->adam_eps,
        .fix1 = (float)(1 / (1 - pow(e->o->beta1, e->k))),
        .fix2 = (float)(1 / (1 - pow(e->o->beta2, e->k))),
    };
    adamw_run(n, &a, g, state[0], state[1], w);
}

void scn_sgd(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w)
{
    scn_axpby(n, e->grad_scale, g, 1 - e->alpha, state[0]);
    scn_axpby(n, -e->rate, state[0], e->beta, w);
}

/* Bounds of |m| and of rate mhat / (sqrt(vhat) + eps), where below it are at least sqrt(2^-149) or eps: a v that is
 * not 0 is no less than the smallest float32. The square of a gradient above 2^62 is left to the trial. */
double scn_adamw_reach(const scn_entries *e, double g, double *average)
{
    *average = g <= 0x1p62 ? fmax(*average, g) : INFINITY;
    const double above = e->rate / (1 - pow(e->o->beta1, e->k)) * *average;
    return above / fmin(1, fmax((double)(float)e->o->adam_eps, 0x1p-75));
}

double scn_sgd_reach(const scn_entries *e, double g, double *average)
{
    *average = (1 - e->alpha) * *average + g;
    return e->rate * *average;
}

/* Copies n entries from `first` on of a state array; NULL: the rule has no such array. */
static float *copy_state(const scn_tensor *t, int k, int64_t first, int64_t n, float *to)
{
    if (!t->state[k])
        return NULL;
    memcpy(to, (const float *)t->state[k] + (first - t->own_first), (size_t)n * sizeof *to);
    return to;
}

double scn_try_entries(const scn_tensor *t, const scn_entries *e)
{
    double largest = 0;
    float grads[chunk], weights[chunk], states[SCN_STATES_MAX][chunk], *state[SCN_STATES_MAX];
    const int64_t end = t->own_first + t->own_count;
    for (int64_t first = t->own_first; first < end; first += chunk) {
        const int64_t n = scn_min(end - first, chunk);
        const float *g = scn_floats(t->grad, t->grad_type, first, n, grads);
        const float *w = scn_floats(t->weight, t->weight_type, first, n, weights);
        if (w != weights)
            memcpy(weights, w, (size_t)n * sizeof *w);
        for (int k = 0; k < SCN_STATES_MAX; k++)
            state[k] = copy_state(t, k, first, n, states[k]);
        t->rule->entries(e, n, g, state, weights);
        bool good = scn_largest(n, weights) <= 0x1.fep127f; /* the largest bfloat16, so that rounding has room */
        for (int k = 0; k < SCN_STATES_MAX; k++) {
            const float here = state[k] ? scn_largest(n, state[k]) : 0;
            good = good && here <= FLT_MAX;
            largest = k == 0 ? fmax(largest, (double)here) : largest;
        }
        if (!good)
            return INFINITY;
    }
    return largest;
}

/* n <= chunk entries from `first` on. */
static void step_run(const scion_optimizer *opt, scn_tensor *t, const scn_entries *e, int64_t first, int64_t n)
{
    float grads[chunk], weights[chunk], *state[SCN_STATES_MAX];
    const float *g = scn_floats(t->grad, t->grad_type, first, n, grads);
    const int64_t at = first - t->own_first;
    float *w = (float *)t->weight + first;
    if (t->weight_type == SCION_BF16) {
        scn_floats(t->weight, SCION_BF16, first, n, weights);
        w = weights;
    }
    for (int k = 0; k < SCN_STATES_MAX; k++)
        state[k] = t->state[k] ? (float *)t->state[k] + at : NULL;
    t->rule->entries(e, n, g, state, w);
    scn_store_weights(opt, t, first, n, weights);
}

static void step_task(scion_optimizer *opt, scn_tensor *t, const scn_entries *e, int64_t first, int64_t end)
{
    for (int64_t at = first; at < end && at < first + task_entries; at += chunk)
        step_run(opt, t, e, at, scn_min(end - at, chunk));
}

void scn_step_entries(scion_optimizer *opt, scn_tensor *t, const scn_entries *e, int64_t first, int64_t n,
                      int threads)
{
    const int64_t end = first + n, tasks = scn_pieces(n, task_entries);
    threads = tasks > 1 ? threads : 1;
    SCN_PARALLEL(threads, i, tasks, step_task(opt, t, e, first + i * task_entries, end));
}

double scn_grad_squares(const scn_tensor *t, int threads)
{
    const int64_t end = t->own_first + t->own_count;
    if (t->grad_type == SCION_F32)
        return scn_sum_squares_mat((scn_mat){(float *)t->grad + t->own_first, 1, t->own_count, t->own_count},
                                   threads);
    double sum = 0;
    float buffer[chunk];
    for (int64_t first = t->own_first; first < end; first += chunk) {
        const int64_t n = scn_min(end - first, chunk);
        sum += scn_sum_squares(n, scn_floats(t->grad, t->grad_type, first, n, buffer));
    }
    return sum;
}
