/* One step of every rule that takes an lmo. With s the average that the rule's row names,
 *     w <- (1 - lr mu) w + lr rho lmo(s),
 * Algorithm 1 of the paper for mu = 0 (unconstrained) and mu = 1.
 *
 * Gradients are checked before anything is written. Then each block goes piece by piece, as its norm allows:
 * averaging, lmo and update of a piece follow each other while it is in the cache, so that every array is
 * read from memory once. Spectral blocks are whole pieces and cost far more than memory: they are jobs of
 * their own, one per thread, largest first, but for a few that take all threads (create.c decides). */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/bf16.h"
#include "base/thread.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

enum { buffer_floats = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool scn_active(const scn_tensor *t)
{
    return t->grad && !t->frozen;
}

double scn_alpha(const scion_optimizer *opt, const scn_tensor *t, int64_t k)
{
    if (t->rule->average == SCN_AVERAGE_NONE && !t->rule->entrywise)
        return 1;
    if (t->vanishing)
        return 1 / sqrt((double)k);
    return opt->o.first_full && k == 1 ? 1 : t->momentum;
}

const float *scn_floats(const void *array, scion_dtype type, int64_t first, int64_t n, float *buffer)
{
    if (type == SCION_F32)
        return (const float *)array + first;
    scn_from_bf16(n, (const uint16_t *)array + first, buffer);
    return buffer;
}

void scn_store_weights(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values)
{
    if (t->weight_type == SCION_BF16) {
        /* Eight numbers a draw; runs of a row never meet if each starts at its own entry's draw. */
        uint64_t stream = ((uint64_t)opt->steps << 24) + (uint64_t)(t - opt->tensors);
        scn_to_bf16_random(n, values, (uint16_t *)t->weight + first, opt->o.seed, stream, 8 * first);
    }
}

void scn_store_grads(scn_tensor *t, int64_t first, int64_t n, const float *values)
{
    if (t->grad_type == SCION_BF16)
        scn_to_bf16(n, values, (uint16_t *)t->grad + first);
}

/* ---- The check ---- */

static bool clean(const void *array, scion_dtype type, int64_t count, int threads)
{
    enum { segments = 64 };
    bool good[segments];
    threads = count < 32768 ? 1 : threads;
    SCN_PARALLEL_FOR(threads)
    for (int s = 0; s < segments; s++) {
        int64_t chunk = (count + segments - 1) / segments, first = s * chunk;
        int64_t n = count - first < chunk ? count - first : chunk;
        good[s] = n <= 0 || (type == SCION_F32 ? scn_all_finite(n, (const float *)array + first)
                                               : scn_all_finite_bf16(n, (const uint16_t *)array + first));
    }
    for (int s = 0; s < segments; s++)
        if (!good[s])
            return false;
    return true;
}

static scion_status check(const scion_optimizer *opt, double lr, scion_error *err)
{
    if (!(lr >= 0) || isinf(lr))
        return scn_fail(err, SCION_EINVAL, -1, "lr is %g, expected 0 or more", lr);
    if (opt->swapped)
        return scn_fail(err, SCION_EINVAL, -1,
                        "the previous weights are in place: call scion_optimizer_previous again");
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        if (!scn_active(t))
            continue;
        if (lr * t->lr_scale * t->decay > 1)
            return scn_fail(err, SCION_EINVAL, i, "%s: lr %g times weight decay %g exceeds 1", t->name,
                            lr * t->lr_scale, t->decay);
        if (!clean(t->grad, t->grad_type, t->layout.count, opt->threads))
            return scn_fail(err, SCION_ENONFINITE, i, "%s: the gradient holds NaN or Inf; nothing was changed",
                            t->name);
        if (t->rule->average == SCN_AVERAGE_STORM && t->steps > 0 &&
            !clean(t->grad_prev, t->grad_type, t->layout.count, opt->threads))
            return scn_fail(err, SCION_ENONFINITE, i, "%s: grad_prev holds NaN or Inf; nothing was changed", t->name);
    }
    return SCION_OK;
}

/* ---- A piece ---- */

/* What all pieces of a step share. */
typedef struct step_of {
    scion_optimizer *opt;
    scn_tensor *t;
    const scn_ball *b;
    double alpha, keep, push; /* w = keep w + push lmo */
    double flat;              /* 2-norm of all averages as one vector, or 0: not that rule */
    double shrink;            /* light: what stays of the gradient */
    bool averaged;            /* the averages were updated before */
} step_of;

static int64_t entry(const scn_ball *b, scn_piece p, int64_t row)
{
    return b->offset + (p.row + row) * b->ld + p.col;
}

/* n entries of the average from `first` on. */
static void average_run(const step_of *s, int64_t first, int64_t n)
{
    const scn_tensor *t = s->t;
    float *d = t->average + first, buffer[buffer_floats];
    const float *g = scn_floats(t->grad, t->grad_type, first, n, buffer);
    switch (t->rule->average) {
    case SCN_AVERAGE_EMA: scn_axpby(n, s->alpha, g, 1 - s->alpha, d); break;
    case SCN_AVERAGE_HEAVY: scn_axpby(n, 1, g, 1 - s->alpha, d); break;
    case SCN_AVERAGE_STORM:
        scn_axpby(n, 1, g, 1 - s->alpha, d);
        if (t->steps > 0) {
            const float *before = scn_floats(t->grad_prev, t->grad_type, first, n, buffer);
            scn_axpby(n, s->alpha - 1, before, 1, d);
        }
        break;
    case SCN_AVERAGE_NONE:
    case SCN_AVERAGE_LMO: break;
    }
}

static void average_rows(const step_of *s, scn_piece p)
{
    for (int64_t i = 0; i < p.rows; i++)
        for (int64_t j = 0; j < p.cols; j += buffer_floats)
            average_run(s, entry(s->b, p, i) + j, p.cols - j < buffer_floats ? p.cols - j : buffer_floats);
}

/* Averages a piece; a large one in slices, by all of w's threads. */
static void average_piece(const step_of *s, scn_piece p, int threads)
{
    enum { slice_entries = 16384 };
    if (!s->t->average || s->averaged || s->t->rule->average == SCN_AVERAGE_LMO)
        return;
    int64_t rows = slice_entries / p.cols > 0 ? slice_entries / p.cols : 1;
    int64_t slices = (p.rows + rows - 1) / rows;
    threads = slices > 1 ? threads : 1;
    SCN_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < slices; i++) {
        int64_t first = i * rows, n = p.rows - first < rows ? p.rows - first : rows;
        average_rows(s, (scn_piece){p.row + first, p.col, n, p.cols});
    }
}

/* Rows of a float32 or bfloat16 array as float32: in place, or in `buffer` without gaps. */
static scn_mat rows_of(void *array, scion_dtype type, const scn_ball *b, scn_piece p, float *buffer)
{
    if (type == SCION_F32)
        return (scn_mat){(float *)array + entry(b, p, 0), p.rows, p.cols, b->ld};
    for (int64_t i = 0; i < p.rows; i++)
        scn_from_bf16(p.cols, (const uint16_t *)array + entry(b, p, i), buffer + i * p.cols);
    return (scn_mat){buffer, p.rows, p.cols, p.cols};
}

/* What the lmo is taken of. */
static scn_mat source(const step_of *s, scn_piece p, const scn_scratch *scratch)
{
    const scn_tensor *t = s->t;
    scn_average average = t->rule->average;
    if (!t->average || average == SCN_AVERAGE_LMO)
        return rows_of(t->grad, t->grad_type, s->b, p, scratch->grad);
    scn_mat d = {t->average + entry(s->b, p, 0), p.rows, p.cols, s->b->ld};
    if (average != SCN_AVERAGE_HEAVY || !s->opt->o.nesterov)
        return d;
    scn_mat ahead = rows_of(t->grad, t->grad_type, s->b, p, scratch->source);
    scn_mat out = {scratch->source, p.rows, p.cols, p.cols}; /* g + (1-a)d */
    for (int64_t i = 0; i < p.rows; i++) {
        if (t->grad_type == SCION_F32)
            memcpy(scn_row(out, i), scn_row(ahead, i), (size_t)p.cols * sizeof(float));
        scn_axpby(p.cols, 1 - s->alpha, scn_row(d, i), 1, scn_row(out, i));
    }
    return out;
}

/* After the step the gradient of a light rule holds what is left of the average. */
static void shrink(const step_of *s, scn_piece p, scn_mat g)
{
    for (int64_t i = 0; i < p.rows; i++) {
        scn_scale(p.cols, s->shrink, scn_row(g, i));
        scn_store_grads(s->t, entry(s->b, p, i), p.cols, scn_row(g, i));
    }
}

static void step_piece(const step_of *s, scn_piece p, const scn_work *w, const scn_scratch *scratch)
{
    scn_tensor *t = s->t;
    average_piece(s, p, w->threads);
    scn_mat from = source(s, p, scratch);
    scn_mat to = rows_of(t->weight, t->weight_type, s->b, p, scratch->weight);
    if (s->flat > 0) {
        scn_axpby_mat(-s->push / s->flat, from, s->keep, to, false, w->threads);
    } else if (t->rule->average == SCN_AVERAGE_LMO) {
        scn_mat z = {scratch->source, p.rows, p.cols, p.cols};
        scn_mat d = {t->average + entry(s->b, p, 0), p.rows, p.cols, s->b->ld};
        s->b->norm->lmo(s->b, z, 0, 1, from, w);
        scn_axpby_mat(s->alpha, z, 1 - s->alpha, d, false, w->threads);
        scn_axpby_mat(s->push, d, s->keep, to, false, w->threads);
    } else {
        s->b->norm->lmo(s->b, to, s->keep, s->push, from, w);
    }
    if (t->weight_type == SCION_BF16)
        for (int64_t i = 0; i < p.rows; i++)
            scn_store_weights(s->opt, t, entry(s->b, p, i), p.cols, scn_row(to, i));
    if (s->opt->o.light)
        shrink(s, p, from);
}

/* ---- Blocks, jobs, the step ---- */

static step_of plan_step(scion_optimizer *opt, int64_t tensor, int block, double lr, double flat)
{
    scn_tensor *t = &opt->tensors[tensor];
    step_of s = {.opt = opt, .t = t, .b = &t->balls[block], .flat = flat, .averaged = flat > 0};
    double rate = lr * t->lr_scale, next = scn_alpha(opt, t, t->steps + 2);
    s.alpha = scn_alpha(opt, t, t->steps + 1);
    s.keep = 1 - rate * t->decay;
    s.push = rate * t->radius * t->gain;
    s.shrink = (1 - next) * s.alpha / next; /* G = d/alpha, so that G' = (1-alpha')(alpha/alpha')G + g' */
    return s;
}

/* All pieces of a block that is not a job. */
static void step_block(const step_of *s)
{
    const scion_optimizer *opt = s->opt;
    const int64_t pieces = scn_pieces(s->b);
    const int threads = pieces > 1 ? opt->threads : 1;
    if (pieces == 1) {
        scn_scratch scratch;
        scn_work w = scn_optimizer_work(opt, 0, &scratch);
        w.threads = opt->threads;
        step_piece(s, scn_piece_at(s->b, 0), &w, &scratch);
        return;
    }
    SCN_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < pieces; i++) {
        scn_scratch scratch;
        scn_work w = scn_optimizer_work(opt, scn_thread_index(), &scratch);
        step_piece(s, scn_piece_at(s->b, i), &w, &scratch);
    }
}

static void step_job(scion_optimizer *opt, const scn_job *job, double lr, int thread)
{
    scn_tensor *t = &opt->tensors[job->tensor];
    if (!scn_active(t))
        return;
    double begin = now();
    scn_scratch scratch;
    scn_work w = scn_optimizer_work(opt, thread, &scratch);
    step_of s = plan_step(opt, job->tensor, job->block, lr, 0);
    step_piece(&s, scn_piece_at(s.b, 0), &w, &scratch);
    double spent = now() - begin;
#ifdef _OPENMP
#pragma omp atomic
#endif
    t->seconds += spent;
}

static bool is_job(const scn_tensor *t, int block)
{
    return t->balls[block].norm->memory && !t->rule->entrywise;
}

/* Averages of all tensors, and their 2-norm as one vector. */
static double flat_norm(scion_optimizer *opt, double lr)
{
    double sum = 0;
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        for (int k = 0; scn_active(t) && k < t->layout.blocks; k++) {
            scn_scratch scratch;
            scn_optimizer_work(opt, 0, &scratch);
            step_of s = plan_step(opt, i, k, lr, 0);
            scn_piece whole = scn_piece_at(s.b, 0); /* the Euclidean norm does not fall apart */
            average_piece(&s, whole, opt->threads);
            sum += scn_sum_squares_mat(source(&s, whole, &scratch), opt->threads);
        }
    }
    return sum > 0 ? sqrt(sum) : INFINITY; /* zeros have no direction */
}

/* SSD: rho times the dual norm, of each tensor or of all together. */
static void find_gains(scion_optimizer *opt)
{
    double joint = 0;
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        t->gain = 0;
        for (int k = 0; scn_active(t) && k < t->layout.blocks; k++) {
            scn_scratch scratch;
            scn_work w = scn_optimizer_work(opt, -1, &scratch);
            const scn_ball *b = &t->balls[k];
            for (int64_t p = 0; p < scn_pieces(b); p++) /* dual norms of pieces add up */
                t->gain += t->radius *
                           scn_ball_dual(b, rows_of(t->grad, t->grad_type, b, scn_piece_at(b, p), scratch.grad), &w);
        }
        joint += t->gain;
    }
    for (int64_t i = 0; !opt->o.layerwise && i < opt->count; i++)
        opt->tensors[i].gain = joint;
}

static void remember_weights(scion_optimizer *opt)
{
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        if (t->before)
            memcpy(t->before, t->weight, scn_tensor_bytes(t, t->weight_type));
    }
}

static void count_step(scn_tensor *t, double lr)
{
    double rate = lr * t->lr_scale, keep = 1 - rate * t->decay;
    t->start *= keep;
    t->pushed = keep * t->pushed + rate * t->radius;
    t->steps++;
}

scion_status scion_optimizer_step(scion_optimizer *opt, double lr, scion_error *err)
{
    if (!opt)
        return scn_fail(err, SCION_EINVAL, -1, "opt is NULL");
    scion_status status = check(opt, lr, err);
    if (status != SCION_OK)
        return status;
    const bool flat = !opt->o.layerwise && (opt->o.rule == SCION_RULE_NSGD || opt->o.rule == SCION_RULE_MNSGD);
    const double clip = scn_clip_factor(opt), total = flat ? flat_norm(opt, lr) : 0;
    if (opt->o.rule == SCION_RULE_SSD)
        find_gains(opt);
    remember_weights(opt);
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        double begin = now();
        t->seconds = 0;
        if (scn_active(t) && t->rule->entrywise)
            scn_step_entrywise(opt, t, lr, clip);
        else
            for (int k = 0; scn_active(t) && k < t->layout.blocks; k++)
                if (!is_job(t, k)) {
                    step_of s = plan_step(opt, i, k, lr, total);
                    step_block(&s);
                }
        t->seconds = now() - begin;
    }
    for (int64_t i = 0; i < opt->team_jobs; i++)
        step_job(opt, &opt->jobs[i], lr, -1);
    SCN_PARALLEL_FOR(opt->threads)
    for (int64_t i = opt->team_jobs; i < opt->job_count; i++)
        step_job(opt, &opt->jobs[i], lr, opt->threads > 1 ? scn_thread_index() : 0);
    for (int64_t i = 0; i < opt->count; i++)
        if (scn_active(&opt->tensors[i]))
            count_step(&opt->tensors[i], lr);
    opt->steps++;
    return scn_ok(err);
}

void scion_optimizer_begin(scion_optimizer *opt)
{
    for (int64_t i = 0; opt && !opt->o.light && i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        if (t->grad)
            memset(t->grad, 0, scn_tensor_bytes(t, t->grad_type));
    }
}

int64_t scion_optimizer_steps(const scion_optimizer *opt)
{
    return opt ? opt->steps : 0;
}
