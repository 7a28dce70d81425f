/* Polar factor by composition of odd quintics (cubics where c = 0),
 *     X <- aX + bAX + cA^2 X,   A = XX',   X_0 = G / ||G||_F  or  G / ||GG'||_F^(1/2),
 * which moves every singular value to about 1 and leaves the singular vectors alone.
 *
 * With R = XX' all the matrices that multiply X are polynomials of R: they are symmetric, they commute, and
 * R itself can be carried through the iteration ("Gram form"), for m <= n:
 *     P = aI + bR + cR^2,   Q <- QP,   R <- PRP,      and X is only multiplied at the end, X <- QX.
 * Per step that is four symmetric products of m^3 operations instead of 4 m^2 n + 2 m^3.
 *
 * Rounding leaves R with tiny negative eigenvalues, which grow by about a^2 a step; restarting (X <- QX,
 * R <- XX') clears them. A restart after every step is the symmetric form 3 m^2 n + m^3 per step: the same
 * cost as Gram for m = n and ten times more accurate, so that is what square matrices take. One loop does
 * both: a run is a list of intervals between restarts, each a Gram iteration that ends in X <- QX. */
#include "linalg/polar.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "linalg/vector.h"

/* Jordan's quintic (2024), as the paper ran it. */
static const double quintic[][3] = {{3.4445, -4.7750, 2.0315}};

/* Polar Express (Amsel, Persson, Musco and Gower, 2025): each quintic is the best one for the interval that
 * the steps before it leave of [1e-3, 1]; then the quintic of third order. Just outside its interval such
 * a composition explodes (from 1.0001 it reaches 9000 in five steps), so rounding must be kept away from the
 * edge: hence the safety factor. With 1.01, singular values from 1e-3 to 1.005 reach 0.994 to 1.002 in six
 * steps, and from 1e-4 they are 1 to seven digits in twelve. */
static const double express[][3] = {
    {8.28721201814563, -23.595886519098837, 17.300387312530933},
    {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
    {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
    {3.3184196573706015, -2.488488024314874, 0.51004894012372},
    {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
    {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
    {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
    {1.875, -1.25, 0.375},
};

/* The Newton iteration (Lakic, 1998), as the authors' CIFAR-10 script runs it: nine steps from the Schatten 4-norm,
 * which is nearer to the largest singular value than the Frobenius norm is. It never passes 1, and with a = 1.5 it
 * needs no restart: what rounding leaves in R grows by 2.25 a step. */
static const double cubic[][3] = {{1.5, -0.5, 0}};

static const scn_polar_set sets[] = {
    {"quintic", 5, 5, 2, 1.21, 1, false, 1, quintic},
    {"express", 6, 2, 0, 1.01, 1.01, false, 8, express},
    {"converged", 12, 1, 0, 1, 1.01, false, 8, express},
    {"cubic", 9, 9, 0, 1, 1, true, 1, cubic},
};

const scn_polar_set *scn_polar_set_at(int set)
{
    return set >= 0 && (size_t)set < sizeof sets / sizeof *sets ? &sets[set] : NULL;
}

double scn_polar_overshoot(const scn_polar_set *set, int steps)
{
    if (steps == 0 || steps >= set->default_steps || set->listed == 1)
        return set->overshoot;
    return steps > 5 ? 1.01 : steps == 5 ? 1.13 : 2; /* the first steps of Polar Express swing as far as 2 */
}

/* For G of low rank, Q still multiplies the null directions by a^5 = 485, and its rounding shows: 2e-3 to 4e-3 of
 * the result for ranks 1 to 4, where a restart leaves 1e-4 or less. Small matrices are cheap: they restart. */
enum { small = 256, small_interval = 3 };

scn_polar_plan scn_polar_plan_make(const scn_polar_set *set, int steps, scion_dtype compute, int64_t rows,
                                   int64_t cols)
{
    scn_polar_plan plan = {.set = set, .steps = steps > 0 ? steps : set->default_steps, .compute = compute};
    plan.m = rows < cols ? rows : cols;
    plan.n = rows < cols ? cols : rows;
    plan.restart_interval = plan.m == plan.n ? 1 : compute == SCION_BF16 ? set->bf16_interval : set->restart_interval;
    if (plan.m < small && plan.restart_interval > small_interval)
        plan.restart_interval = small_interval;
    return plan;
}

/* Number of intervals, and the length of number i: as equal as possible. The longer ones come last; in bfloat16
 * first, where what rounding leaves in R is largest at the start of an interval with large singular values. */
static int intervals(const scn_polar_plan *plan)
{
    return (plan->steps + plan->restart_interval - 1) / plan->restart_interval;
}

static int interval_length(const scn_polar_plan *plan, int i)
{
    int count = intervals(plan);
    const int longer = plan->steps % count;
    return plan->steps / count + (plan->compute == SCION_BF16 ? i < longer : i >= count - longer);
}

double scn_polar_flops(const scn_polar_plan *plan)
{
    double m = (double)plan->m, n = (double)plan->n, total = 0;
    const int squares = plan->set->step[0][2] != 0; /* R^2, one product a step */
    for (int i = 0; i < intervals(plan); i++)
        total += 3 * m * m * n + ((3 + squares) * interval_length(plan, i) - 3) * m * m * m;
    return total;
}

scn_polar_work scn_polar_work_take(scn_arena *arena, const scn_polar_plan *plan, const scn_kernel *kernel,
                                   int threads)
{
    const int64_t m = plan->m, n = plan->n;
    scn_polar_work w = {.engine = scn_engine_take(arena, kernel, threads)};
    w.r = scn_panels_take(arena, kernel, m, m);
    w.p = scn_panels_take(arena, kernel, m, m);
    if (plan->restart_interval > 1) {
        w.q = scn_panels_take(arena, kernel, m, m);
        w.s = scn_panels_take(arena, kernel, m, m);
    }
    w.tall = scn_panels_take(arena, kernel, n, m);
    if (intervals(plan) > 1) {
        w.wide = scn_panels_take(arena, kernel, m, n);
        w.next = scn_panels_take(arena, kernel, m, n);
    } else if (arena->base) {
        /* One interval needs X as n x m first and as m x n last: one piece of memory serves both, if it
         * is large enough for either padding. */
        w.wide = (scn_panels){w.tall.at, m, n};
    }
    if (intervals(plan) == 1)
        scn_take(arena, (size_t)(kernel->panel_nr * (m + n)) * sizeof(float));
    return w;
}

static void swap(scn_panels *a, scn_panels *b)
{
    scn_panels t = *a;
    *a = *b;
    *b = t;
}

/* a, b, c of step number i, for p(x / size) in place of p(x). */
static void coefficients(const scn_polar_set *set, int i, double size, double c[3])
{
    const bool last = i >= set->listed - 1;
    const double *step = set->step[last ? set->listed - 1 : i];
    size *= last ? 1 : set->safety;
    double divisor = size;
    for (int j = 0; j < 3; j++, divisor *= size * size)
        c[j] = step[j] / divisor;
}

/* ||R||_F^(1/2), the Schatten 4-norm of X. */
static double schatten4(const scn_engine *e, scn_panels r)
{
    double sum = 0;
    for (int64_t k = 0; k < scn_panels_strips(e, r); k++)
        sum += scn_sum_squares_mat(scn_panels_strip(e, r, k), 1);
    return sqrt(sqrt(sum));
}

/* A strip of P = aI + bR. */
static void linear_strip(const scn_engine *e, scn_panels p, const double c[3], scn_panels r, int64_t k)
{
    const scn_mat to = scn_panels_strip(e, p, k), from = scn_panels_strip(e, r, k);
    memcpy(to.at, from.at, (size_t)(from.rows * from.ld) * sizeof *to.at);
    scn_scale(from.rows * from.ld, c[1], to.at);
    for (int64_t j = 0; j < from.cols; j++)
        scn_row(to, k * from.ld + j)[j] += (float)c[0];
}

/* P = aI + bR + cR^2. */
static void polynomial(const scn_engine *e, scn_panels p, const double c[3], scn_panels r)
{
    if (c[2] != 0)
        scn_product_symmetric(e, p, c[2], r, r, c[1], &r, c[0]);
    else
        SCN_PARALLEL(e->threads, k, scn_panels_strips(e, r), linear_strip(e, p, c, r, k));
}

/* R of the present X, then `length` steps; returns Q. eps: added to the set's norm of X in the first step. */
static scn_panels gram_interval(const scn_polar_work *w, const scn_polar_set *set, int first, int length, double eps)
{
    const scn_engine *e = &w->engine;
    scn_panels r = w->r, p = w->p, q = w->q, s = w->s;
    scn_product_symmetric(e, r, 1, w->tall, w->tall, 0, NULL, 0);
    for (int i = 0; i < length; i++) {
        double c[3];
        coefficients(set, first + i, set->schatten4 && first + i == 0 ? schatten4(e, r) + eps : 1, c);
        polynomial(e, p, c, r);
        if (i + 1 < length) {
            scn_product_symmetric(e, s, 1, r, p, 0, NULL, 0);
            scn_product_symmetric(e, r, 1, s, p, 0, NULL, 0);
        }
        if (i == 0) {
            swap(&q, &p);
        } else {
            scn_product_symmetric(e, s, 1, q, p, 0, NULL, 0);
            swap(&q, &s);
        }
    }
    return q;
}

void scn_polar_run(const scn_polar_plan *plan, const scn_polar_work *work, scn_mat z, double beta, double alpha,
                   scn_mat g, double eps)
{
    scn_polar_work w = *work;
    const scn_engine *e = &w.engine;
    const bool transposed = g.rows > g.cols; /* X is G' */
    const int count = intervals(plan);
    double norm = sqrt(scn_sum_squares_mat(g, e->threads));
    if (norm == 0) {
        scn_scale_mat(z, beta, e->threads);
        return;
    }
    const scn_factor f = scn_factor_of(1 / (norm + (plan->set->schatten4 ? 0 : eps)));
    scn_pack(e, w.tall, g, !transposed, f);
    if (count > 1)
        scn_pack(e, w.wide, g, transposed, f);
    for (int i = 0, first = 0; i < count; i++) {
        int length = interval_length(plan, i);
        scn_panels q = gram_interval(&w, plan->set, first, length, eps / norm);
        first += length;
        if (i + 1 < count) {
            scn_product_both(e, w.next, w.tall, q, w.wide);
            swap(&w.next, &w.wide);
        } else {
            if (count == 1)
                scn_pack(e, w.wide, g, transposed, f);
            scn_product_into(e, z, beta, alpha, q, w.wide, transposed);
        }
    }
}
