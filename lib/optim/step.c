/* One step of every rule. With s the average that the rule's row names,
 *     w <- (1 - lr mu) w + lr rho lmo(s),
 * the paper's algorithm "(Unconstrained) Scion" for mu = 0 (unconstrained) and mu = 1.
 *
 * A step has four phases, so that several callers can share it: the gradients are checked before anything is
 * written; then sums over all parameters are computed; then each parameter is stepped by its owner; then the
 * step is counted. A block goes tile by tile, as its norm allows: averaging, lmo and update of a tile follow each
 * other while it is in the cache, so that every array is read from memory once. Blocks whose norm has a cost (the
 * spectral one) are whole tiles and cost far more than memory: they are jobs of their own, one per thread, largest
 * first, except for a few that take all threads (step_plan.c decides). */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "base/random.h"
#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

_Static_assert(SCION_RANGE == SCN_TILE_ENTRIES, "ranges are whole tiles");

enum { buffer_floats = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A parameter of another caller has no gradient here; it counts as active unless it is frozen. */
static bool is_active(const scn_tensor *t)
{
    return (t->grad || t->own_count == 0) && !t->frozen;
}

/* Active, and this caller owns some of it. */
static bool steps_here(const scn_tensor *t)
{
    return t->own_count > 0 && is_active(t);
}

double scn_alpha(const scion_optimizer *opt, const scn_tensor *t, int64_t k)
{
    if (t->rule->about.lmo && !t->rule->about.averages)
        return 1;
    if (t->vanishing)
        return 1 / sqrt((double)k);
    return opt->o.first_full && k == 1 ? 1 : t->momentum;
}

/* alpha of the tensor's step k, for which the caller gave `momentum`. */
static double step_alpha(const scion_optimizer *opt, const scn_tensor *t, double momentum, int64_t k)
{
    return momentum > 0 && t->rule->about.averages ? momentum : scn_alpha(opt, t, k);
}

/* The step size of a tensor. */
static double rate_of(const scion_optimizer *opt, const scion_step *s, const scn_tensor *t)
{
    const bool other = t->rule_id != opt->o.rule; /* left to AdamW by MUON */
    return s->lr * t->lr_scale * (other ? opt->o.adam_lr_scale : 1);
}

const float *scn_floats(const void *array, int type, int64_t first, int64_t n, float *buffer)
{
    if (type == SCION_F32)
        return (const float *)array + first;
    scn_from_bf16(n, (const uint16_t *)array + first, buffer);
    return buffer;
}

/* Eight numbers a draw; runs of a row never meet if each starts at its own entry's draw. */
static void store(const scion_optimizer *opt, uint64_t stream, int64_t first, int64_t n, const float *values,
                  uint16_t *to)
{
    if (opt->o.rounding == SCION_ROUNDING_STOCHASTIC)
        scn_to_bf16_random(n, values, to + first, opt->o.seed, stream, 8 * first);
    else
        scn_to_bf16(n, values, to + first);
}

void scn_store_weights(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values)
{
    if (t->weight_type == SCION_BF16)
        store(opt, scn_stream_rounding(opt->steps, t - opt->tensors), first, n, values, t->weight);
}

void scn_store_grads(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values)
{
    if (t->grad_type == SCION_BF16)
        store(opt, scn_stream_average(opt->steps, t - opt->tensors), first, n, values, t->grad);
}

/* ---- A tile ---- */

/* Numbers that all tiles of a block share in a step. */
typedef struct update {
    const scion_optimizer *opt;
    scn_tensor *t;
    const scn_block *b;
    double alpha, beta, push; /* w = beta w + push lmo */
    double grad_scale;
    double flat;   /* 2-norm of all averages as one vector, or 0: not that rule */
    double shrink; /* light: factor of the gradient that stays */
    bool averaged; /* the averages were updated before */
} update;

static int64_t entry(const scn_block *b, scn_tile p, int64_t row)
{
    return b->offset + (p.row + row) * b->ld + p.col;
}

/* n entries of the average from `first` on. */
static void average_run(const update *u, int64_t first, int64_t n)
{
    const scn_tensor *t = u->t;
    const double a = u->alpha, scale = u->grad_scale;
    float *d = scn_average_array(t) + (first - t->own_first), buffer[buffer_floats];
    const float *g = scn_floats(t->grad, t->grad_type, first, n, buffer);
    switch (t->rule->average) {
    case SCN_AVERAGE_EMA: scn_axpby(n, a * scale, g, 1 - a, d); break;
    case SCN_AVERAGE_HEAVY: scn_axpby(n, scale, g, 1 - a, d); break;
    case SCN_AVERAGE_STORM:
        scn_axpby(n, scale, g, 1 - a, d);
        if (t->steps > 0) {
            const float *before = scn_floats(t->grad_prev, t->grad_type, first, n, buffer);
            scn_axpby(n, (a - 1) * scale, before, 1, d);
        }
        break;
    case SCN_AVERAGE_NONE:
    case SCN_AVERAGE_LMO: break;
    }
}

static void average_rows(const update *u, scn_tile p)
{
    for (int64_t i = 0; i < p.rows; i++)
        for (int64_t j = 0; j < p.cols; j += buffer_floats)
            average_run(u, entry(u->b, p, i) + j, scn_min(p.cols - j, buffer_floats));
}

/* The rows of tile p from `first` on, at most n. */
static void average_slice(const update *u, scn_tile p, int64_t first, int64_t n)
{
    n = scn_min(p.rows - first, n);
    average_rows(u, (scn_tile){p.row + first, p.col, n, p.cols});
}

/* Averages a tile; a large one in slices, by all threads. */
static void average_tile(const update *u, scn_tile p, int threads)
{
    enum { slice_entries = 16384 };
    if (!scn_average_array(u->t) || u->averaged || u->t->rule->average == SCN_AVERAGE_LMO)
        return;
    int64_t rows = scn_max(slice_entries / p.cols, 1);
    int64_t slices = scn_pieces(p.rows, rows);
    threads = slices > 1 ? threads : 1;
    SCN_PARALLEL(threads, i, slices, average_slice(u, p, i * rows, rows));
}

/* Rows of a float32 or bfloat16 array as float32: in place, or in `buffer` without gaps. */
static scn_mat rows_of(void *array, int type, const scn_block *b, scn_tile p, float *buffer)
{
    if (type == SCION_F32)
        return (scn_mat){(float *)array + entry(b, p, 0), p.rows, p.cols, b->ld};
    for (int64_t i = 0; i < p.rows; i++)
        scn_from_bf16(p.cols, (const uint16_t *)array + entry(b, p, i), buffer + i * p.cols);
    return (scn_mat){buffer, p.rows, p.cols, p.cols};
}

static scn_mat average_of(const update *u, scn_tile p)
{
    const scn_tensor *t = u->t;
    return (scn_mat){scn_average_array(t) + (entry(u->b, p, 0) - t->own_first), p.rows, p.cols, u->b->ld};
}

/* True if the lmo is taken of the gradient itself. */
static bool of_gradient(const scn_tensor *t)
{
    return !scn_average_array(t) || t->rule->average == SCN_AVERAGE_LMO;
}

/* The matrix s of lmo(s). */
static scn_mat source(const update *u, scn_tile p, const scn_scratch *scratch)
{
    const scn_tensor *t = u->t;
    if (of_gradient(t))
        return rows_of(t->grad, t->grad_type, u->b, p, scratch->grad);
    scn_mat d = average_of(u, p);
    if (t->rule->average != SCN_AVERAGE_HEAVY || !u->opt->o.nesterov)
        return d;
    scn_mat g = rows_of(t->grad, t->grad_type, u->b, p, scratch->source);
    scn_mat out = {scratch->source, p.rows, p.cols, p.cols}; /* g + (1-a)d */
    for (int64_t i = 0; i < p.rows; i++) {
        if (t->grad_type == SCION_F32)
            memcpy(scn_row(out, i), scn_row(g, i), (size_t)p.cols * sizeof(float));
        if (u->grad_scale != 1)
            scn_scale(p.cols, u->grad_scale, scn_row(out, i));
        scn_axpby(p.cols, 1 - u->alpha, scn_row(d, i), 1, scn_row(out, i));
    }
    return out;
}

/* Leaves the rest of the average in the gradient, for light rules. */
static void shrink(const update *u, scn_tile p, scn_mat g)
{
    for (int64_t i = 0; i < p.rows; i++) {
        scn_scale(p.cols, u->shrink, scn_row(g, i));
        scn_store_grads(u->opt, u->t, entry(u->b, p, i), p.cols, scn_row(g, i));
    }
}

/* Gives the rule a block's lmo. */
static void change_lmo(const update *u, scn_mat z, int threads)
{
    const scn_tensor *t = u->t;
    scn_lmo l = {
        .o = &u->opt->o, .k = (double)t->steps + 1, .alpha = u->alpha, .z = z, .ld = u->b->ld, .threads = threads};
    for (int i = 0; i < SCN_STATES_MAX; i++)
        l.state[i] = scn_block_state(t, i, (int)(u->b - t->block));
    t->rule->after_lmo(&l);
}

static void step_tile(const update *u, scn_tile p, scn_work w, const scn_scratch *scratch)
{
    scn_tensor *t = u->t;
    average_tile(u, p, w.threads);
    scn_mat from = source(u, p, scratch);
    scn_mat to = rows_of(t->weight, t->weight_type, u->b, p, scratch->weight);
    if (of_gradient(t)) { /* the lmo of a multiple is the lmo, but for the eps of its denominators */
        w.eps /= u->grad_scale;
        w.polar_eps /= u->grad_scale;
    }
    if (u->flat > 0) {
        scn_axpby_mat(-u->push / u->flat, from, u->beta, to, false, w.threads);
    } else if (t->rule->average == SCN_AVERAGE_LMO || t->rule->after_lmo) {
        scn_mat z = {scratch->lmo, p.rows, p.cols, p.cols};
        u->b->norm->lmo(u->b, z, 0, 1, from, &w);
        if (t->rule->after_lmo)
            change_lmo(u, z, w.threads);
        if (t->rule->average == SCN_AVERAGE_LMO) {
            scn_mat d = average_of(u, p);
            scn_axpby_mat(u->alpha, z, 1 - u->alpha, d, false, w.threads);
            z = d;
        }
        scn_axpby_mat(u->push, z, u->beta, to, false, w.threads);
    } else {
        u->b->norm->lmo(u->b, to, u->beta, u->push, from, &w);
    }
    if (t->weight_type == SCION_BF16)
        for (int64_t i = 0; i < p.rows; i++)
            scn_store_weights(u->opt, t, entry(u->b, p, i), p.cols, scn_row(to, i));
    if (u->opt->o.light)
        shrink(u, p, from);
}

/* ---- Blocks and jobs ---- */

static update plan_update(const scion_optimizer *opt, const scion_step *s, int64_t tensor, int block, double flat)
{
    scn_tensor *t = &opt->tensors[tensor];
    update u = {.opt = opt, .t = t, .b = &t->block[block], .flat = flat, .averaged = flat > 0};
    double rate = rate_of(opt, s, t), next = step_alpha(opt, t, s->next_momentum, t->steps + 2);
    u.alpha = step_alpha(opt, t, s->momentum, t->steps + 1);
    u.beta = 1 - rate * t->decay;
    u.push = rate * t->radius * t->gain;
    u.grad_scale = s->grad_scale;
    u.shrink = (1 - next) * u.alpha / next; /* G = d/alpha, so that G' = (1-alpha')(alpha/alpha')G + g' */
    return u;
}

/* Tile i, by `threads` threads with the memory of one. */
static void step_tile_alone(const update *u, int64_t i, int thread, int threads)
{
    scn_scratch scratch;
    scn_work w = scn_optimizer_work(u->opt, thread, 1, &scratch);
    w.threads = threads;
    step_tile(u, scn_tile_at(u->b, i), w, &scratch);
}

/* Tiles `first` to `end` of a block that is not a job: threads share the tiles, or the only one. */
static void step_block(const update *u, int64_t first, int64_t end, int max_threads)
{
    const int threads = end - first > 1 ? max_threads : 1, within = end - first > 1 ? 1 : max_threads;
    SCN_PARALLEL(threads, i, end - first,
                 step_tile_alone(u, first + i, threads > 1 ? scn_thread_index() : 0, within));
}

/* thread < 0: by a team of all threads. */
static void step_job(const scion_optimizer *opt, const scion_step *s, const scn_job *job, int thread)
{
    scn_tensor *t = &opt->tensors[job->tensor];
    if (!steps_here(t))
        return;
    double begin = now();
    scn_scratch scratch;
    scn_work w = scn_optimizer_work(opt, thread, s->threads, &scratch);
    update u = plan_update(opt, s, job->tensor, job->block, 0);
    step_tile(&u, scn_tile_at(u.b, 0), w, &scratch);
    double spent = now() - begin;
#ifdef _OPENMP
#pragma omp atomic
#endif
    t->seconds += spent;
}

/* All jobs, in the order that was planned. */
static void step_all_jobs(const scion_optimizer *opt, const scion_step *s)
{
    for (int64_t i = 0; i < opt->team_jobs; i++)
        step_job(opt, s, &opt->jobs[i], -1);
    SCN_PARALLEL(s->threads, i, opt->job_count - opt->team_jobs,
                 step_job(opt, s, &opt->jobs[opt->team_jobs + i], s->threads > 1 ? scn_thread_index() : 0));
}

/* The jobs of one tensor, one after the other: by all threads if the workspace suffices for it. */
static void step_jobs_of(const scion_optimizer *opt, const scion_step *s, int64_t tensor)
{
    for (int64_t i = 0; i < opt->job_count; i++)
        if (opt->jobs[i].tensor == tensor)
            step_job(opt, s, &opt->jobs[i],
                     opt->scratch_bytes + opt->jobs[i].team_bytes <= opt->memory_bytes ? -1 : 0);
}

/* ---- Sums over all parameters ---- */

static bool is_flat(const scion_optimizer *opt, const scn_tensor *t)
{
    return t->rule->joint == SCN_JOINT_FLAT && !opt->o.layerwise;
}

static bool is_clipped(const scion_optimizer *opt, const scn_tensor *t)
{
    return !t->rule->about.lmo && opt->o.clip_norm > 0;
}

/* Averages a tensor; the sum of their squares. */
static double flat_squares(const scion_optimizer *opt, const scion_step *s, int64_t i)
{
    double sum = 0;
    for (int k = 0; k < opt->tensors[i].layout.blocks; k++) {
        scn_scratch scratch;
        scn_optimizer_work(opt, 0, 1, &scratch);
        update u = plan_update(opt, s, i, k, 0);
        scn_tile whole = scn_tile_at(u.b, 0); /* the Euclidean norm is not cut into tiles */
        average_tile(&u, whole, s->threads);
        sum += scn_sum_squares_mat(source(&u, whole, &scratch), s->threads);
    }
    return sum;
}

/* rho times the dual norm of a tensor's gradient. */
static double dual_of(const scion_optimizer *opt, const scion_step *s, const scn_tensor *t)
{
    double sum = 0;
    for (int k = 0; k < t->layout.blocks; k++) {
        scn_scratch scratch;
        scn_work w = scn_optimizer_work(opt, -1, s->threads, &scratch);
        const scn_block *b = &t->block[k];
        for (int64_t p = 0; p < scn_tiles(b); p++) /* dual norms of tiles add up */
            sum +=
                t->radius * scn_block_dual(b, rows_of(t->grad, t->grad_type, b, scn_tile_at(b, p), scratch.grad), &w);
    }
    return s->grad_scale * sum;
}

/* This tensor's share of the joint sum. */
static double joint_share(scion_optimizer *opt, const scion_step *s, int64_t i)
{
    scn_tensor *t = &opt->tensors[i];
    t->seconds = 0;
    t->gain = t->rule->joint == SCN_JOINT_DUAL ? 0 : 1;
    if (!steps_here(t))
        return 0;
    if (is_flat(opt, t))
        return flat_squares(opt, s, i);
    if (t->rule->joint == SCN_JOINT_DUAL)
        return t->gain = dual_of(opt, s, t);
    return is_clipped(opt, t) ? scn_grad_squares(t, s->threads) : 0;
}

static void joint(scion_optimizer *opt, const scion_step *s, double *sums)
{
    for (int64_t i = 0; i < opt->count; i++) {
        double share = joint_share(opt, s, i);
        if (sums)
            sums[i] = share;
    }
    opt->joined = true;
}

/* The sums of all callers, as each tensor's step uses them. */
typedef struct shared {
    double flat; /* 2-norm of all averages, or 0 */
    double dual; /* of the joint norm, or 0 */
    double clip; /* factor of the gradients of rules without an lmo */
} shared;

/* Factor of gradients whose squares add up to `squares`. */
static double clip_factor(const scion_optimizer *opt, const scion_step *s, double squares)
{
    const double norm = s->grad_scale * sqrt(squares);
    return opt->o.clip_norm > 0 && norm > opt->o.clip_norm ? opt->o.clip_norm / norm : 1;
}

static shared share_sums(const scion_optimizer *opt, const scion_step *s, const double *sums)
{
    double flat = 0, dual = 0, squares = 0;
    bool any_flat = false;
    for (int64_t i = 0; i < opt->count && sums; i++) {
        const scn_tensor *t = &opt->tensors[i];
        any_flat = any_flat || is_flat(opt, t);
        if (is_flat(opt, t))
            flat += sums[i];
        else if (t->rule->joint == SCN_JOINT_DUAL)
            dual += sums[i];
        else if (is_clipped(opt, t))
            squares += sums[i];
    }
    shared r = {.dual = opt->o.layerwise ? 0 : dual};
    if (any_flat)
        r.flat = flat > 0 ? sqrt(flat) : INFINITY; /* zeros have no direction */
    r.clip = clip_factor(opt, s, squares);
    return r;
}

/* ---- A part ---- */

static scn_entries entries_of(const scion_optimizer *opt, const scion_step *s, const scn_tensor *t, double clip)
{
    const double rate = rate_of(opt, s, t);
    return (scn_entries){
        .o = &opt->o,
        .k = (double)t->steps + 1,
        .alpha = step_alpha(opt, t, s->momentum, t->steps + 1),
        .rate = rate,
        .beta = 1 - rate * t->decay,
        .grad_scale = s->grad_scale * clip,
    };
}

/* n entries of a tensor from `first` on: all that is owned, or a range of tiles. */
static void step_tensor(scion_optimizer *opt, const scion_step *s, const shared *r, int64_t i, int64_t first,
                        int64_t n)
{
    scn_tensor *t = &opt->tensors[i];
    const double begin = now();
    void *previous = scn_previous(t);
    if (previous)
        memcpy((char *)previous + scn_stored_bytes(t->weight_type, first - t->own_first),
               (char *)t->weight + scn_stored_bytes(t->weight_type, first), scn_stored_bytes(t->weight_type, n));
    if (t->rule->joint == SCN_JOINT_DUAL && !opt->o.layerwise)
        t->gain = r->dual;
    if (steps_here(t) && !t->rule->about.lmo) {
        const scn_entries e = entries_of(opt, s, t, r->clip);
        scn_step_entries(opt, t, &e, first, n, s->threads);
    } else if (steps_here(t)) {
        for (int k = 0; k < t->layout.blocks; k++) {
            update u = plan_update(opt, s, i, k, is_flat(opt, t) ? r->flat : 0);
            const bool whole = n == t->layout.count;
            if (!scn_is_job(t, k))
                step_block(&u, whole ? 0 : first / SCION_RANGE,
                           whole ? scn_tiles(u.b) : scn_pieces(first + n, SCION_RANGE), s->threads);
        }
    }
    t->seconds += now() - begin;
}

static scion_status check_range(const scn_tensor *t, int64_t i, int64_t first, int64_t n, scion_error *err)
{
    const int64_t end = t->own_first + t->own_count;
    if (first < t->own_first || first > end || n > end - first)
        return scn_fail(err, SCION_EINVAL, i, "%s: entries %lld and %lld more are not owned here", t->name,
                        (long long)first, (long long)n);
    if (n == t->own_count)
        return SCION_OK;
    if (!scn_has_ranges(t))
        return scn_fail(err, SCION_EINVAL, i, "%s: it cannot be stepped in ranges", t->name);
    if (first % SCION_RANGE != 0 || (n % SCION_RANGE != 0 && first + n != t->layout.count))
        return scn_fail(err, SCION_EINVAL, i, "%s: first is %lld and n %lld, expected multiples of %d up to the end",
                        t->name, (long long)first, (long long)n, SCION_RANGE);
    return SCION_OK;
}

/* All that this caller owns. */
static void step_all(scion_optimizer *opt, const scion_step *s, const shared *r)
{
    for (int64_t i = 0; i < opt->count; i++)
        if (opt->tensors[i].own_count > 0)
            step_tensor(opt, s, r, i, opt->tensors[i].own_first, opt->tensors[i].own_count);
    step_all_jobs(opt, s);
}

static void finish(scion_optimizer *opt, const scion_step *s)
{
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        if (!is_active(t))
            continue;
        const double rate = rate_of(opt, s, t), beta = 1 - rate * t->decay;
        t->start *= beta;
        t->pushed = beta * t->pushed + rate * t->radius;
        t->next_alpha = opt->o.light && s->next_momentum > 0 ? s->next_momentum : 0;
        t->steps++;
        t->largest = t->next_largest;
        t->stepped = true;
    }
    opt->joined = false;
    opt->steps++;
}

/* ---- The check ----
 *
 * A step is refused before it changes anything if a result might not be finite. Known at that time are the largest
 * gradient G (times grad_scale), and a bound D of the average, which follows it from step to step by the rule's own
 * recursion. From these come the next D, and a bound of how far the step moves a weight.
 *
 * Theorem. If a finite float32 w moves by at most 2^102, w' = beta w + u with 0 <= beta <= 1 is finite: half of the
 * spacing at the largest float32 is 2^103, so that the largest plus 2^102 rounds to the largest. The same holds for
 * bfloat16, rounded up or down: the sum is rounded to float32 first, so that it does not exceed the largest bfloat16
 * either, whose lower half is zero. So weights are not searched. move_max leaves room for rounding, and for factors
 * of tiny gradients, step / norm <= 2^96 / 2^-149, which scn_factor can hold. */

static const double move_max = 0x1p96, sum_max = 0x1.ffp127; /* sum_max: of averages, room for rounding as well */

static double largest_run(const void *array, int type, int64_t first, int64_t n)
{
    if (n <= 0)
        return 0;
    return (double)(type == SCION_F32 ? scn_largest(n, (const float *)array + first)
                                      : scn_largest_bf16(n, (const uint16_t *)array + first));
}

/* Largest absolute value; INFINITY: some are not finite. */
static double largest_of(const void *array, int type, int64_t first, int64_t count, int threads)
{
    enum { segments = 64 };
    double part[segments], all = 0;
    const int64_t chunk = scn_pieces(count, segments);
    threads = count < 32768 ? 1 : threads;
    SCN_PARALLEL(threads, s, segments,
                 part[s] = largest_run(array, type, first + s * chunk, scn_min(count - s * chunk, chunk)));
    for (int s = 0; s < segments; s++)
        all = fmax(all, part[s]);
    return all;
}

static double largest_state(const scn_tensor *t, int k, int threads)
{
    const scion_array a = scn_state_array(t, k);
    return t->state[k] ? largest_of(a.data, a.type, 0, a.count, threads) : 0;
}

/* Largest absolute entry of an lmo (norm.h). */
static double largest_lmo(const scn_tensor *t)
{
    double all = 0;
    for (int k = 0; k < t->layout.blocks; k++) {
        const scn_block *b = &t->block[k];
        all = fmax(all, 2 * b->c * (t->rule->after_lmo ? sqrt((double)(b->rows * b->cols)) : 1));
    }
    return all;
}

/* Largest change of an entry by a step of dual norm 1 (sharp rules) or of any (others). */
static double unit_move(const scion_optimizer *opt, const scion_step *s, const scn_tensor *t)
{
    return rate_of(opt, s, t) * t->radius * largest_lmo(t);
}

/* Bound of the gain of a sharp rule: the dual norm <g, direction> of a tensor whose entries are at most g. Under one
 * norm for all parameters callers know only their own gradients: each may have its share of move_max, as if all
 * tensors had this one's dual norm and the largest step. */
static double sharp_move(const scion_optimizer *opt, const scion_step *s, const scn_tensor *t, double g)
{
    double dual = 0, move = unit_move(opt, s, t), all = 1;
    for (int k = 0; k < t->layout.blocks; k++)
        dual += 2 * t->block[k].c * (double)(t->block[k].rows * t->block[k].cols) * t->radius * g;
    if (!opt->o.layerwise) {
        all = (double)opt->count;
        for (int64_t i = 0; i < opt->count; i++)
            if (is_active(&opt->tensors[i]))
                move = fmax(move, unit_move(opt, s, &opt->tensors[i]));
    }
    return move * fmax(1, all * dual);
}

/* Bounds of the numbers that a step makes. */
typedef struct bounds {
    double average; /* before the step, then after it */
    double sum;     /* of all others: Nesterov's, light's */
    double move;    /* of a weight */
} bounds;

/* Bounds of an lmo step with gradients up to g and previous ones up to g_prev. Rounding grows by 2^-22 in a step. */
static bounds lmo_bounds(const scion_optimizer *opt, const scion_step *s, int64_t i, double g, double g_prev,
                         double average)
{
    const scn_tensor *t = &opt->tensors[i];
    const update u = plan_update(opt, s, i, 0, 0);
    bounds b = {.move = t->rule->about.sharp ? sharp_move(opt, s, t, g) : unit_move(opt, s, t)};
    const double kept = (1 - u.alpha) * average;
    switch (t->rule->average) {
    case SCN_AVERAGE_EMA: b.average = kept + u.alpha * g; break;
    case SCN_AVERAGE_HEAVY: b.average = kept + g; break;
    case SCN_AVERAGE_STORM: b.average = kept + g + (1 - u.alpha) * g_prev; break;
    case SCN_AVERAGE_LMO: b.average = fmax(average, largest_lmo(t)); break;
    case SCN_AVERAGE_NONE: break;
    }
    b.average *= 1 + 0x1p-22;
    if (t->rule->average == SCN_AVERAGE_HEAVY)
        b.sum = g + (1 - u.alpha) * b.average;
    if (t->rule->average == SCN_AVERAGE_LMO)
        b.move = rate_of(opt, s, t) * t->radius * b.average;
    if (opt->o.light) {
        b.average = 0;
        b.sum = u.shrink * fmax(g, 1);
    }
    return b;
}

static bool within(const bounds *b)
{
    return b->average <= sum_max && b->sum <= sum_max && b->move <= move_max;
}

static scion_status check_lmo(const scion_optimizer *opt, const scion_step *s, int64_t i, double g, double g_prev,
                              double *largest, scion_error *err)
{
    const scn_tensor *t = &opt->tensors[i];
    bounds b = lmo_bounds(opt, s, i, g, g_prev, *largest);
    if (!within(&b)) /* by the average itself: bounds that follow it may be far above */
        b = lmo_bounds(opt, s, i, g, g_prev, largest_state(t, 0, s->threads));
    *largest = b.average;
    if (!(b.average <= sum_max && b.sum <= sum_max))
        return scn_fail(err, SCION_ENONFINITE, i,
                        "%s: gradients of up to %g would make its average overflow; nothing was changed", t->name,
                        fmax(g, g_prev));
    if (!(b.move <= move_max))
        return scn_fail(err, SCION_ENONFINITE, i,
                        "%s: lr %g and gradients of up to %g could move a weight by %.3g, expected at most %.3g; "
                        "nothing was changed",
                        t->name, rate_of(opt, s, t), g, b.move, move_max);
    return SCION_OK;
}

/* Rules without an lmo. In doubt the step is tried on copies. Clipping, whose factor is not known yet, leaves no
 * gradient above clip_norm. */
static scion_status check_entries(const scion_optimizer *opt, const scion_step *s, int64_t i, double g,
                                  double *largest, scion_error *err)
{
    const scn_tensor *t = &opt->tensors[i];
    scn_entries e = entries_of(opt, s, t, 1);
    bounds b = {.average = *largest, .move = INFINITY};
    if (is_clipped(opt, t))
        g = fmin(g, opt->o.clip_norm);
    if (t->rule->reach)
        b.move = fmax(t->rule->reach(&e, g, &b.average), e.rate); /* a factor beyond float32 spoils zeros as well */
    b.average *= 1 + 0x1p-22;
    if (!within(&b)) {
        if (is_clipped(opt, t)) /* by what is owned here: by all it is no larger */
            e.grad_scale *= clip_factor(opt, s, scn_grad_squares(t, s->threads));
        b.average = fmax(scn_try_entries(t, &e), is_clipped(opt, t) ? *largest : 0);
    }
    *largest = b.average;
    if (!isinf(b.average))
        return SCION_OK;
    return scn_fail(
        err, SCION_ENONFINITE, i,
        "%s: lr %g and gradients of up to %g would make a weight or an average overflow; nothing was changed",
        t->name, e.rate, g);
}

/* light: the gradient was shrunk for the alpha that was expected of this step. */
static scion_status check_light(const scion_optimizer *opt, const scion_step *s, scion_error *err)
{
    if (!opt->o.light)
        return SCION_OK;
    if (s->grad_scale != 1)
        return scn_fail(err, SCION_EINVAL, -1,
                        "grad_scale is %g, but with light the gradient holds the average: "
                        "scale what is added to it",
                        s->grad_scale);
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        const double own = scn_alpha(opt, t, t->steps + 1), expected = t->next_alpha > 0 ? t->next_alpha : own;
        const double alpha = s->momentum > 0 ? s->momentum : own;
        if (is_active(t) && t->steps > 0 && alpha != expected)
            return scn_fail(err, SCION_EINVAL, i,
                            "%s: momentum is %g, but with light the last step had next_momentum %g", t->name, alpha,
                            expected);
    }
    return SCION_OK;
}

/* Takes the caller's settings of a step; threads become the number to use. */
static scion_status take_step(const scion_optimizer *opt, scion_step *s, const scion_step *from, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    RETURN_IF_FAILED(scn_step_take(s, from, err));
    if (!(s->lr >= 0) || isinf(s->lr))
        return scn_fail(err, SCION_EINVAL, -1, "lr is %g, expected 0 or more", s->lr);
    if (s->momentum == 0 || s->momentum > 1 || s->next_momentum == 0 || s->next_momentum > 1)
        return scn_fail(err, SCION_EINVAL, -1, "momentum is %g and next_momentum %g, expected alpha in (0, 1]",
                        s->momentum, s->next_momentum);
    if (!(s->grad_scale > 0 && s->grad_scale <= 1e30))
        return scn_fail(err, SCION_EINVAL, -1, "grad_scale is %g, expected more than 0, at most 1e30", s->grad_scale);
    if (s->threads < 0)
        return scn_fail(err, SCION_EINVAL, -1, "threads is %d, expected 0 or more", (int)s->threads);
    if (s->threads == 0 || s->threads > opt->threads)
        s->threads = opt->threads;
    return SCION_OK;
}

/* The first step after create or load finds what the caller put into weights and states. */
static scion_status check_start(const scion_optimizer *opt, const scion_step *s, int64_t i, scion_error *err)
{
    scn_tensor *t = &opt->tensors[i];
    if (isinf(largest_of(t->weight, t->weight_type, t->own_first, t->own_count, s->threads)))
        return scn_fail(err, SCION_ENONFINITE, i, "%s: the weight holds NaN or Inf; nothing was changed", t->name);
    for (int k = SCN_STATES_MAX - 1; k >= 0; k--) {
        t->largest = largest_state(t, k, s->threads); /* that of the first stays */
        if (isinf(t->largest))
            return scn_fail(err, SCION_ENONFINITE, i, "%s: the state array %s holds NaN or Inf; nothing was changed",
                            t->name, t->rule->states[k].name);
    }
    return SCION_OK;
}

static scion_status check_tensor(const scion_optimizer *opt, const scion_step *s, int64_t i, scion_error *err)
{
    scn_tensor *t = &opt->tensors[i];
    const double g = largest_of(t->grad, t->grad_type, t->own_first, t->own_count, s->threads);
    double g_prev = 0;
    if (isinf(g))
        return scn_fail(err, SCION_ENONFINITE, i, "%s: the gradient holds NaN or Inf; nothing was changed", t->name);
    if (!t->stepped)
        RETURN_IF_FAILED(check_start(opt, s, i, err));
    if (t->rule->about.needs_prev && t->steps > 0)
        g_prev = largest_of(t->grad_prev, t->grad_type, t->own_first, t->own_count, s->threads);
    if (isinf(g_prev))
        return scn_fail(err, SCION_ENONFINITE, i, "%s: grad_prev holds NaN or Inf; nothing was changed", t->name);
    t->next_largest = t->largest;
    return t->rule->about.lmo ? check_lmo(opt, s, i, s->grad_scale * g, s->grad_scale * g_prev, &t->next_largest, err)
                              : check_entries(opt, s, i, s->grad_scale * g, &t->next_largest, err);
}

static scion_status check(const scion_optimizer *opt, const scion_step *s, scion_error *err)
{
    if (opt->swapped)
        return scn_fail(err, SCION_EINVAL, -1,
                        "the previous weights are in place: call scion_optimizer_previous again");
    RETURN_IF_FAILED(check_light(opt, s, err));
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        const double rate = rate_of(opt, s, t), decay = t->rule->about.weight_decay;
        if (!is_active(t))
            continue;
        if (rate * t->decay > 1 && decay != 0)
            return scn_fail(err, SCION_EINVAL, i,
                            "%s: lr is %g, expected at most %g: rule %s decays the weights by lr", t->name, rate,
                            1 / decay, t->rule->about.name);
        if (rate * t->decay > 1)
            return scn_fail(err, SCION_EINVAL, i, "%s: lr %g times weight decay %g exceeds 1", t->name, rate,
                            t->decay);
        if (t->own_count > 0)
            RETURN_IF_FAILED(check_tensor(opt, s, i, err));
    }
    return scn_ok(err);
}

/* ---- The interface ---- */

scion_status scion_optimizer_check(scion_optimizer *opt, const scion_step *s, scion_error *err)
{
    scion_step step;
    RETURN_IF_FAILED(take_step(opt, &step, s, err));
    return check(opt, &step, err);
}

int64_t scion_optimizer_joint_count(const scion_optimizer *opt)
{
    for (int64_t i = 0; opt && i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        if ((t->rule->joint != SCN_JOINT_NONE && !opt->o.layerwise) || is_clipped(opt, t))
            return opt->count;
    }
    return 0;
}

scion_status scion_optimizer_joint(scion_optimizer *opt, const scion_step *s, double *sums, scion_error *err)
{
    scion_step step;
    RETURN_IF_FAILED(take_step(opt, &step, s, err));
    if (!sums && scion_optimizer_joint_count(opt) > 0)
        return scn_fail(err, SCION_EINVAL, -1, "sums is NULL");
    joint(opt, &step, sums);
    return scn_ok(err);
}

scion_status scion_optimizer_part(scion_optimizer *opt, const scion_step *s, const double *sums, int64_t i,
                                  int64_t first, int64_t n, scion_error *err)
{
    scion_step step;
    RETURN_IF_FAILED(take_step(opt, &step, s, err));
    if (!opt->joined)
        return scn_fail(err, SCION_EINVAL, i, "call scion_optimizer_joint before scion_optimizer_part");
    if (!sums && scion_optimizer_joint_count(opt) > 0)
        return scn_fail(err, SCION_EINVAL, i, "sums is NULL");
    const shared r = share_sums(opt, &step, sums);
    if (i == SCION_ALL) {
        step_all(opt, &step, &r);
        return scn_ok(err);
    }
    RETURN_IF_FAILED(scn_check_index(opt, i, err));
    scn_tensor *t = &opt->tensors[i];
    if (n < 0) {
        first = t->own_first;
        n = t->own_count;
    }
    RETURN_IF_FAILED(check_range(t, i, first, n, err));
    if (n > 0) {
        step_tensor(opt, &step, &r, i, first, n);
        step_jobs_of(opt, &step, i);
    }
    return scn_ok(err);
}

scion_status scion_optimizer_finish(scion_optimizer *opt, const scion_step *s, scion_error *err)
{
    scion_step step;
    RETURN_IF_FAILED(take_step(opt, &step, s, err));
    if (!opt->joined)
        return scn_fail(err, SCION_EINVAL, -1, "call scion_optimizer_joint before scion_optimizer_finish");
    finish(opt, &step);
    return scn_ok(err);
}

scion_status scion_optimizer_step_with(scion_optimizer *opt, const scion_step *s, scion_error *err)
{
    scion_step step;
    RETURN_IF_FAILED(take_step(opt, &step, s, err));
    RETURN_IF_FAILED(check(opt, &step, err));
    joint(opt, &step, opt->sums);
    const shared r = share_sums(opt, &step, opt->sums);
    step_all(opt, &step, &r);
    finish(opt, &step);
    return scn_ok(err);
}

scion_status scion_optimizer_step(scion_optimizer *opt, double lr, scion_error *err)
{
    scion_step s;
    scion_step_init(&s);
    s.lr = lr;
    return scion_optimizer_step_with(opt, &s, err);
}

static void zero_grads(scn_tensor *t, int64_t first, int64_t end, int threads)
{
    scn_zero((char *)t->grad + scn_stored_bytes(t->grad_type, first), scn_stored_bytes(t->grad_type, end - first),
             threads);
}

/* With light the average is in the gradients of what is owned here, and there only. */
void scion_optimizer_begin(scion_optimizer *opt)
{
    const int threads = opt ? scn_threads(opt->threads) : 1;
    for (int64_t i = 0; opt && i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        const int64_t kept = opt->o.light ? t->own_count : 0;
        if (t->grad && kept < t->layout.count) {
            zero_grads(t, 0, kept > 0 ? t->own_first : 0, threads);
            zero_grads(t, kept > 0 ? t->own_first + kept : 0, t->layout.count, threads);
        }
    }
}

int64_t scion_optimizer_steps(const scion_optimizer *opt)
{
    return opt ? opt->steps : 0;
}
