/* A small problem with a known optimum, and the callbacks that scion_minimize runs it by. */
#include "support.h"

#include <math.h>
#include <string.h>

void bowl_gradient(const bowl *b, float *g, double sigma, uint64_t sample)
{
    rng r = {.state = sample};
    for (int i = 0; i < BOWL_N; i++) {
        double t = (double)b->x[i] - b->target[i], q = 1 + t * t;
        double noise = rng_uniform(&r) < 0.1 ? 9 * sigma : -sigma;
        g[i] += (float)((b->nonconvex ? 2 * t / (q * q) : t) + noise);
    }
}

static int gradient(void *ctx, int64_t k, uint64_t sample)
{
    bowl *b = ctx;
    if (b->calls < BOWL_CALLS) {
        b->seen[b->calls].k = k;
        b->seen[b->calls].sample = sample;
        memcpy(b->seen[b->calls].x, b->x, sizeof b->x);
    }
    b->calls++;
    b->worst_norm = fmax(b->worst_norm, oracle_norm(&b->p, widen(BOWL_N, b->x)) / b->p.radius);
    bowl_gradient(b, b->g, b->sigma, sample);
    if (b->calls % 64 == 0)
        release(NULL);
    return b->calls == b->stop_gradient;
}

static int exact(void *ctx, int64_t k)
{
    bowl *b = ctx;
    (void)k;
    b->exacts++;
    bowl_gradient(b, b->g, 0, 0);
    return b->exacts == b->stop_exact;
}

static int report(void *ctx, const scion_report *r)
{
    bowl *b = ctx;
    if (b->reports < BOWL_CALLS)
        b->report[b->reports] = *r;
    b->reports++;
    return b->reports == b->stop_report;
}

static bowl storage;
static scion_schedule schedule; /* of the last problem */

bowl *bowl_make(scion_norm norm, double radius)
{
    bowl *b = &storage;
    rng r = rng_of(8);
    memset(b, 0, sizeof *b);
    b->p = matrix_of(BOWL_ROWS, BOWL_COLS, norm, SCION_ROLE_HIDDEN);
    b->p.radius = radius;
    b->p.weight = b->x;
    b->p.grad = b->g;
    b->p.grad_prev = b->g_prev;
    for (int i = 0; i < BOWL_N; i++)
        b->target[i] = rng_normal(&r);
    return b;
}

scion_problem bowl_problem(bowl *b, int64_t steps, scion_schedule_kind kind, double peak)
{
    scion_problem problem = {.size = sizeof problem,
                             .params = &b->p,
                             .count = 1,
                             .ctx = b,
                             .gradient = gradient,
                             .report = report,
                             .steps = steps,
                             .report_every = 1,
                             .seed = run_seed()};
    schedule = (scion_schedule){.size = sizeof schedule, .kind = (int32_t)kind, .peak = peak};
    problem.schedule = &schedule;
    if (b->sigma > 0)
        problem.exact = exact;
    return problem;
}

scion_options bowl_options(scion_rule rule, double momentum)
{
    scion_options o;
    scion_options_init(&o, rule);
    o.momentum = momentum;
    o.threads = 1;
    return o;
}
