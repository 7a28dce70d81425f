/* The plan of a step, made once: blocks that are jobs of their own, those among them that take all threads, and the
 * workspace for both. */
#include <math.h>
#include <stdlib.h>

#include "base/arith.h"
#include "optim/optimizer.h"

/* Threads of a team do not quite divide the time of a matrix. */
static const double team_efficiency = 0.9;

bool scn_is_job(const scn_tensor *t, int k)
{
    return t->rule->about.lmo && t->block[k].norm->cost;
}

/* Scratch that a tensor's tiles need, by the conditions under which step.c uses it. */
static void plan_scratch(scion_optimizer *opt, const scn_tensor *t)
{
    const bool half_grad = t->grad_type == SCION_BF16, no_average = !scn_average_array(t);
    for (int k = 0; k < t->layout.blocks && t->rule->about.lmo && t->own_count > 0; k++) {
        int64_t tile = scn_tile_max(&t->block[k]);
        if (half_grad && (no_average || t->rule->average == SCN_AVERAGE_LMO))
            opt->scratch_floats[0] = scn_max(opt->scratch_floats[0], tile);
        if (t->rule->average == SCN_AVERAGE_HEAVY)
            opt->scratch_floats[1] = scn_max(opt->scratch_floats[1], tile);
        if (t->rule->average == SCN_AVERAGE_LMO || t->rule->after_lmo)
            opt->scratch_floats[2] = scn_max(opt->scratch_floats[2], tile);
        if (t->weight_type == SCION_BF16)
            opt->scratch_floats[3] = scn_max(opt->scratch_floats[3], tile);
    }
}

/* ---- Jobs ---- */

static int by_cost(const void *x, const void *y)
{
    const scn_job *a = x, *b = y;
    if (a->cost != b->cost)
        return a->cost < b->cost ? 1 : -1;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* Time until all jobs are done if the first `teams` take all threads and the others, in order, the thread
 * that is free first. */
static double makespan(const scion_optimizer *opt, int64_t teams)
{
    double time = 0, busy[64] = {0}, last = 0;
    const int threads = opt->threads < 64 ? opt->threads : 64;
    for (int64_t i = 0; i < teams; i++)
        time += opt->jobs[i].cost / (team_efficiency * threads);
    for (int64_t i = teams; i < opt->job_count; i++) {
        int first = 0;
        for (int k = 1; k < threads; k++)
            if (busy[k] < busy[first])
                first = k;
        busy[first] += opt->jobs[i].cost;
        last = fmax(last, busy[first]);
    }
    return time + last;
}

/* Gives all threads to the largest matrices, as many as shortens the step. */
static void schedule(scion_optimizer *opt)
{
    qsort(opt->jobs, (size_t)opt->job_count, sizeof *opt->jobs, by_cost);
    double best = makespan(opt, 0);
    for (int64_t teams = 1; opt->threads > 1 && teams <= opt->job_count && teams <= 4 * opt->threads; teams++) {
        double time = makespan(opt, teams);
        if (time < best) {
            best = time;
            opt->team_jobs = teams;
        }
    }
}

static bool plan_jobs(scion_optimizer *opt)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < opt->count; i++)
        blocks += opt->tensors[i].layout.blocks;
    opt->jobs = scn_alloc(opt->o.allocator, (size_t)(blocks > 0 ? blocks : 1) * sizeof *opt->jobs);
    if (!opt->jobs)
        return false;
    const scn_work one = scn_work_of(&opt->o, 1), all = scn_work_of(&opt->o, opt->threads);
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        for (int k = 0; t->own_count > 0 && k < t->layout.blocks; k++)
            if (scn_is_job(t, k)) {
                const scn_block *b = &t->block[k];
                opt->jobs[opt->job_count++] =
                    (scn_job){i, k, b->norm->cost(b, &one), scn_block_memory(b, SCN_USE_LMO, &one),
                              scn_block_memory(b, SCN_USE_LMO, &all)};
            }
    }
    schedule(opt);
    return true;
}

/* ---- Memory ---- */

/* Bytes of arena for blocks that are no jobs, and for joint dual norms: of a thread, and of a team. */
static void other_memory(const scion_optimizer *opt, size_t *one, size_t *team)
{
    const scn_work single = scn_work_of(&opt->o, 1), all = scn_work_of(&opt->o, opt->threads);
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        for (int k = 0; t->rule->about.lmo && t->own_count > 0 && k < t->layout.blocks; k++) {
            if (!scn_is_job(t, k))
                *one = scn_max_size(*one, scn_block_memory(&t->block[k], SCN_USE_LMO, &single));
            if (t->rule->joint == SCN_JOINT_DUAL)
                *team = scn_max_size(*team, scn_block_memory(&t->block[k], SCN_USE_DUAL, &all));
        }
    }
}

/* Memory of a thread, and of a team: scratch, then that of the lmo. */
static bool plan_memory(scion_optimizer *opt)
{
    scn_arena scratch = {0};
    size_t one = 0, team = 0;
    for (int k = 0; k < 4; k++)
        scn_take(&scratch, (size_t)opt->scratch_floats[k] * sizeof(float));
    other_memory(opt, &one, &team);
    for (int64_t i = 0; i < opt->job_count; i++) {
        if (i < opt->team_jobs)
            team = scn_max_size(team, opt->jobs[i].team_bytes);
        else
            one = scn_max_size(one, opt->jobs[i].one_bytes);
    }
    opt->scratch_bytes = scratch.used;
    opt->thread_bytes = scratch.used + one;
    opt->memory_bytes = scn_max_size(opt->thread_bytes * (size_t)opt->threads, scratch.used + team);
    if (opt->memory_bytes > 0)
        opt->memory = scn_alloc_shared(opt->o.allocator, opt->memory_bytes, opt->threads);
    return opt->memory_bytes == 0 || opt->memory;
}

bool scn_plan(scion_optimizer *opt)
{
    for (int64_t i = 0; i < opt->count; i++)
        plan_scratch(opt, &opt->tensors[i]);
    return plan_jobs(opt) && plan_memory(opt);
}

scn_work scn_optimizer_work(const scion_optimizer *opt, int index, int threads, scn_scratch *scratch)
{
    const bool team = index < 0;
    scn_work w = scn_work_of(&opt->o, team ? threads : 1);
    scn_arena arena = {opt->memory, team ? 0 : (size_t)index * opt->thread_bytes, opt->memory_bytes};
    scratch->grad = scn_take(&arena, (size_t)opt->scratch_floats[0] * sizeof(float));
    scratch->source = scn_take(&arena, (size_t)opt->scratch_floats[1] * sizeof(float));
    scratch->lmo = scn_take(&arena, (size_t)opt->scratch_floats[2] * sizeof(float));
    scratch->weight = scn_take(&arena, (size_t)opt->scratch_floats[3] * sizeof(float));
    w.arena = arena;
    return w;
}
