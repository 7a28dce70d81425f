/* The baselines, entry by entry:
 *     adamw   m = b1 m + (1-b1)g,  v = b2 v + (1-b2)g^2,  w = (1 - lr mu)w - lr mhat / (sqrt(vhat) + eps),
 *             mhat = m/(1-b1^k), vhat = v/(1-b2^k)      (Loshchilov and Hutter, 2019)
 *     sgd     d = (1-a)d + g,  w = (1 - lr mu)w - lr d
 * with g scaled down where the joint 2-norm of the gradients exceeds clip_norm. */
#include <math.h>

#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

enum { chunk = 1024, chunks_per_task = 16 };

/* Constants of one AdamW step, with the bias corrections folded in. */
typedef struct adam {
    float b1, b2, scale, keep, rate, eps;
    float fix1, fix2; /* 1/(1-b1^k), 1/(1-b2^k) */
} adam;

SCN_CLONES static void adamw_run(int64_t n, const adam *a, const float *restrict g, float *restrict m,
                                 float *restrict v, float *restrict w)
{
    for (int64_t i = 0; i < n; i++) {
        float x = g[i] * a->scale;
        m[i] = a->b1 * m[i] + (1 - a->b1) * x;
        v[i] = a->b2 * v[i] + (1 - a->b2) * x * x;
        w[i] = a->keep * w[i] - a->rate * (m[i] * a->fix1) / (sqrtf(v[i] * a->fix2) + a->eps);
    }
}

/* n <= chunk entries from `first` on. */
static void step_run(scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, double lr, double grad_scale)
{
    float grads[chunk], weights[chunk];
    const float *g = scn_floats(t->grad, t->grad_type, first, n, grads);
    float *w = (float *)t->weight + first;
    const double rate = lr * t->lr_scale, keep = 1 - rate * t->decay;
    if (t->weight_type == SCION_BF16) {
        scn_floats(t->weight, SCION_BF16, first, n, weights);
        w = weights;
    }
    if (t->id == SCION_RULE_ADAMW) {
        const double k = (double)t->steps + 1;
        const adam a = {
            .b1 = (float)opt->o.beta1,
            .b2 = (float)opt->o.beta2,
            .scale = (float)grad_scale,
            .keep = (float)keep,
            .rate = (float)rate,
            .eps = (float)opt->o.adam_eps,
            .fix1 = (float)(1 / (1 - pow(opt->o.beta1, k))),
            .fix2 = (float)(1 / (1 - pow(opt->o.beta2, k))),
        };
        adamw_run(n, &a, g, t->average + first, t->second + first, w);
    } else {
        scn_axpby(n, grad_scale, g, 1 - scn_alpha(opt, t, t->steps + 1), t->average + first);
        scn_axpby(n, -rate, t->average + first, keep, w);
    }
    scn_store_weights(opt, t, first, n, weights);
}

void scn_step_entrywise(scion_optimizer *opt, scn_tensor *t, double lr, double grad_scale)
{
    const int64_t count = t->layout.count, task = chunk * chunks_per_task, tasks = (count + task - 1) / task;
    const int threads = tasks > 1 ? opt->threads : 1;
    SCN_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < tasks; i++)
        for (int64_t first = i * task; first < count && first < (i + 1) * task; first += chunk)
            step_run(opt, t, first, count - first < chunk ? count - first : chunk, lr, grad_scale);
}

static double sum_squares(const scn_tensor *t, int threads)
{
    if (t->grad_type == SCION_F32)
        return scn_sum_squares_mat((scn_mat){t->grad, 1, t->layout.count, t->layout.count}, threads);
    double sum = 0;
    float buffer[chunk];
    for (int64_t first = 0; first < t->layout.count; first += chunk) {
        int64_t n = t->layout.count - first < chunk ? t->layout.count - first : chunk;
        sum += scn_sum_squares(n, scn_floats(t->grad, t->grad_type, first, n, buffer));
    }
    return sum;
}

double scn_clip_factor(const scion_optimizer *opt)
{
    double sum = 0;
    if (!(opt->o.clip_norm > 0))
        return 1;
    for (int64_t i = 0; i < opt->count; i++)
        if (scn_active(&opt->tensors[i]) && opt->tensors[i].rule->entrywise)
            sum += sum_squares(&opt->tensors[i], opt->threads);
    double norm = sqrt(sum);
    return norm > opt->o.clip_norm ? opt->o.clip_norm / norm : 1;
}
