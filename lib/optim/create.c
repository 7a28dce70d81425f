/* Making an optimizer: checks everything, plans all memory, allocates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "optim/optimizer.h"

/* Threads of a team do not quite divide the time of a matrix. */
static const double team_efficiency = 0.9;

static scion_status check_rule_options(const scion_options *o, const scn_rule *rule, scion_error *err)
{
    if (!(o->momentum > 0 && o->momentum <= 1))
        return scn_fail(err, SCION_EINVAL, -1, "momentum is %g, expected alpha in (0, 1]", o->momentum);
    if (o->light && !rule->light)
        return scn_fail(err, SCION_EINVAL, -1,
                        "light: rule %s cannot keep its average in the gradient; scion, uscion, signum and mnsgd can",
                        rule->name);
    if (!(o->weight_decay >= 0) || isinf(o->weight_decay))
        return scn_fail(err, SCION_EINVAL, -1, "weight_decay is %g, expected 0 or more", o->weight_decay);
    if (rule->decay != 0 && o->weight_decay != 0 && o->weight_decay != rule->decay)
        return scn_fail(err, SCION_EINVAL, -1,
                        "weight_decay is %g, but rule %s decays by lr: leave it 0, or take uscion", o->weight_decay,
                        rule->name);
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return scn_fail(err, SCION_EINVAL, -1, "beta1, beta2 are %g, %g, expected [0, 1)", o->beta1, o->beta2);
    if (!(o->adam_eps >= 0) || !(o->clip_norm >= 0) || !(o->muon_multiplier > 0) || isinf(o->muon_multiplier))
        return scn_fail(err, SCION_EINVAL, -1,
                        "adam_eps %g, clip_norm %g, muon_multiplier %g: expected >= 0, >= 0, > 0", o->adam_eps,
                        o->clip_norm, o->muon_multiplier);
    return SCION_OK;
}

scion_status scn_options_take(scion_options *copy, const scion_options *o, scion_error *err)
{
    if (!o) {
        scion_options_init(copy, SCION_RULE_SCION);
        return SCION_OK;
    }
    if (o->size < sizeof *o)
        return scn_fail(err, SCION_EINVAL, -1, "options: size is %zu, expected %zu (scion_options_init sets it)",
                        o->size, sizeof *o);
    *copy = *o;
    const scn_rule *rule = scn_rule_at(o->rule);
    if (!rule)
        return scn_fail(err, SCION_EINVAL, -1, "rule: %d is no rule", (int)o->rule);
    if (!scion_enum_name(SCION_ENUM_ROUTING, (int)o->routing))
        return scn_fail(err, SCION_EINVAL, -1, "routing: %d is no routing", (int)o->routing);
    if (!scn_polar_set_at((int)o->polar))
        return scn_fail(err, SCION_EINVAL, -1, "polar: %d is no coefficient set", (int)o->polar);
    if (o->polar_steps < 0 || o->polar_steps > 1000)
        return scn_fail(err, SCION_EINVAL, -1, "polar_steps is %d, expected 0 to 1000", (int)o->polar_steps);
    if (o->threads < 0 || o->threads > 4096)
        return scn_fail(err, SCION_EINVAL, -1, "threads is %d, expected 0 to 4096", (int)o->threads);
    if (!(o->eps >= 0) || !(o->polar_eps >= 0) || isinf(o->eps) || isinf(o->polar_eps))
        return scn_fail(err, SCION_EINVAL, -1, "eps, polar_eps are %g, %g, expected 0 or more", o->eps, o->polar_eps);
    if (!o->allocator.alloc != !o->allocator.free)
        return scn_fail(err, SCION_EINVAL, -1, "allocator: alloc and free must both be given, or neither");
    return check_rule_options(o, rule, err);
}

scn_work scn_work_of(const scion_options *o, int threads)
{
    return (scn_work){
        .threads = threads,
        .eps = o->eps,
        .polar_eps = o->polar_eps,
        .set = scn_polar_set_at((int)o->polar),
        .steps = o->polar_steps,
        .kernel = scn_kernel_best(),
    };
}

size_t scn_tensor_bytes(const scn_tensor *t, scion_dtype type)
{
    return (size_t)t->layout.count * (type == SCION_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* MUON takes hidden matrices; everything else is AdamW's. */
static bool muon_takes(const scion_param *p)
{
    return p->ndim > 1 && (p->role == SCION_ROLE_HIDDEN || p->role == SCION_ROLE_PLAIN) &&
           (p->norm == SCION_NORM_AUTO || p->norm == SCION_NORM_SPECTRAL);
}

static scion_status check_param(const scion_optimizer *opt, const scn_tensor *t, const scion_param *p,
                                const char *name, int64_t i, scion_error *err)
{
    if (!p->weight)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight is NULL", name);
    if ((unsigned)p->weight_type > SCION_BF16 || (unsigned)p->grad_type > SCION_BF16)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_type %d, grad_type %d: expected float32 or bfloat16", name,
                        (int)p->weight_type, (int)p->grad_type);
    if (!(p->lr_scale >= 0) || isinf(p->lr_scale))
        return scn_fail(err, SCION_EINVAL, i, "%s: lr_scale is %g, expected 0 or more", name, p->lr_scale);
    if (isnan(p->weight_decay) || isinf(p->weight_decay))
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_decay is %g", name, p->weight_decay);
    if (t->rule->decay != 0 && p->weight_decay > 0 && p->weight_decay != t->rule->decay)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_decay is %g, but rule %s decays by lr", name,
                        p->weight_decay, t->rule->name);
    if (opt->o.rule == SCION_RULE_MARS && p->grad && !p->grad_prev)
        return scn_fail(err, SCION_EINVAL, i, "%s: rule mars needs grad_prev", name);
    return SCION_OK;
}

/* Everything about a tensor but its arrays. */
static scion_status describe(scion_optimizer *opt, scn_tensor *t, const scion_param *p, int64_t i, scion_error *err)
{
    char buffer[32];
    scion_param routed = *p;
    scion_status status;
    t->id = opt->o.rule == SCION_RULE_MUON && !muon_takes(p) ? SCION_RULE_ADAMW : opt->o.rule;
    t->rule = scn_rule_at(t->id);
    if (t->rule->norm != SCION_NORM_AUTO)
        routed.norm = t->rule->norm;
    status = scn_layout_make(&t->layout, &routed, opt->o.routing, i, err);
    if (status == SCION_OK)
        status = check_param(opt, t, p, scn_param_name(p, i, buffer), i, err);
    if (status != SCION_OK)
        return status;
    t->weight = p->weight;
    t->grad = p->grad;
    t->grad_prev = p->grad_prev;
    t->weight_type = p->weight_type;
    t->grad_type = p->grad_type;
    t->radius = p->radius;
    t->lr_scale = p->lr_scale;
    t->momentum = t->rule->average == SCN_AVERAGE_NONE && !t->rule->entrywise ? 1 : opt->o.momentum;
    t->decay = p->weight_decay >= 0 ? p->weight_decay : opt->o.weight_decay;
    if (t->rule->decay != 0)
        t->decay = t->rule->decay;
    t->group = p->group;
    t->frozen = p->frozen != 0;
    t->vanishing = opt->o.vanishing != 0;
    t->start = 1;
    t->gain = 1;
    return SCION_OK;
}

static bool allocate(scion_optimizer *opt, scn_tensor *t, const scion_param *p, int64_t i)
{
    const scion_allocator *a = &opt->o.allocator;
    const size_t floats = (size_t)t->layout.count * sizeof(float);
    char buffer[32];
    bool ok = (t->name = scn_copy_string(a, scn_param_name(p, i, buffer))) != NULL;
    if (ok && t->layout.blocks > 1 && p->split_sizes) {
        size_t bytes = (size_t)t->layout.blocks * sizeof(int64_t);
        ok = (t->split_sizes = scn_alloc(a, bytes)) != NULL;
        if (ok)
            memcpy(t->split_sizes, p->split_sizes, bytes);
    }
    ok = ok && (t->balls = scn_alloc(a, (size_t)t->layout.blocks * sizeof *t->balls)) != NULL;
    if (ok && t->rule->states > 0 && !opt->o.light)
        ok = (t->average = scn_alloc(a, floats)) != NULL;
    if (ok && t->rule->states > 1)
        ok = (t->second = scn_alloc(a, floats)) != NULL;
    if (ok && t->rule->average == SCN_AVERAGE_STORM)
        ok = (t->before = scn_alloc(a, scn_tensor_bytes(t, t->weight_type))) != NULL;
    for (int k = 0; ok && k < t->layout.blocks; k++) {
        scn_ball *b = &t->balls[k];
        *b = scn_layout_ball(&t->layout, t->split_sizes, k);
        if (t->id == SCION_RULE_MUON) /* its own scaling, in place of the role's */
            b->c = opt->o.muon_multiplier *
                   (p->role == SCION_ROLE_PLAIN ? 1 : sqrt((double)(b->rows > b->cols ? b->rows : b->cols)));
    }
    return ok;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Scratch that a tensor's pieces need, by the conditions under which step.c uses it. */
static void plan_scratch(scion_optimizer *opt, const scn_tensor *t)
{
    const bool half_grad = t->grad_type == SCION_BF16, no_average = !t->average;
    for (int k = 0; k < t->layout.blocks && !t->rule->entrywise; k++) {
        int64_t piece = scn_piece_most(&t->balls[k]);
        if (half_grad && (no_average || t->rule->average == SCN_AVERAGE_LMO))
            opt->scratch_floats[0] = max64(opt->scratch_floats[0], piece);
        if (t->rule->average == SCN_AVERAGE_LMO || t->rule->average == SCN_AVERAGE_HEAVY)
            opt->scratch_floats[1] = max64(opt->scratch_floats[1], piece);
        if (t->weight_type == SCION_BF16)
            opt->scratch_floats[2] = max64(opt->scratch_floats[2], piece);
    }
}

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

/* All threads on one matrix only for as many (of the largest) as shortens the whole. */
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
    if (opt->threads > 1 && opt->job_count <= 4 * opt->threads && makespan(opt, opt->job_count) < best)
        opt->team_jobs = opt->job_count;
}

static bool plan_jobs(scion_optimizer *opt)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < opt->count; i++)
        blocks += opt->tensors[i].layout.blocks;
    opt->jobs = scn_alloc(&opt->o.allocator, (size_t)(blocks > 0 ? blocks : 1) * sizeof *opt->jobs);
    if (!opt->jobs)
        return false;
    const scn_work w = scn_work_of(&opt->o, 1);
    for (int64_t i = 0; i < opt->count; i++) {
        const scn_tensor *t = &opt->tensors[i];
        for (int k = 0; k < t->layout.blocks; k++) {
            const scn_ball *b = &t->balls[k];
            if (b->norm->memory && !t->rule->entrywise) {
                scn_polar_plan plan = scn_polar_plan_make(w.set, w.steps, b->rows, b->cols);
                opt->jobs[opt->job_count++] = (scn_job){i, k, scn_polar_flops(&plan)};
            }
        }
    }
    schedule(opt);
    return true;
}

/* Memory of a thread, and of a team: scratch, then what the lmo needs. */
static bool plan_memory(scion_optimizer *opt)
{
    scn_arena scratch = {0};
    size_t one = 0, team = 0;
    for (int k = 0; k < 3; k++)
        scn_take(&scratch, (size_t)opt->scratch_floats[k] * sizeof(float));
    const scn_work single = scn_work_of(&opt->o, 1), all = scn_work_of(&opt->o, opt->threads);
    for (int64_t i = 0; i < opt->job_count; i++) {
        const scn_ball *b = &opt->tensors[opt->jobs[i].tensor].balls[opt->jobs[i].block];
        size_t need_one = scn_ball_memory(b, SCN_USE_LMO, &single), need_team = 0;
        if (i < opt->team_jobs)
            need_team = scn_ball_memory(b, SCN_USE_LMO, &all);
        if (opt->o.rule == SCION_RULE_SSD) {
            size_t dual = scn_ball_memory(b, SCN_USE_DUAL, &all);
            need_team = dual > need_team ? dual : need_team;
        }
        if (i >= opt->team_jobs)
            one = need_one > one ? need_one : one;
        team = need_team > team ? need_team : team;
    }
    opt->thread_bytes = scratch.used + one;
    opt->memory_bytes = opt->thread_bytes * (size_t)opt->threads;
    if (scratch.used + team > opt->memory_bytes)
        opt->memory_bytes = scratch.used + team;
    if (opt->memory_bytes > 0)
        opt->memory = scn_alloc(&opt->o.allocator, opt->memory_bytes);
    return opt->memory_bytes == 0 || opt->memory;
}

scn_work scn_optimizer_work(const scion_optimizer *opt, int index, scn_scratch *scratch)
{
    const bool team = index < 0;
    scn_work w = scn_work_of(&opt->o, team ? opt->threads : 1);
    scn_arena arena = {opt->memory, team ? 0 : (size_t)index * opt->thread_bytes, opt->memory_bytes};
    scratch->grad = scn_take(&arena, (size_t)opt->scratch_floats[0] * sizeof(float));
    scratch->source = scn_take(&arena, (size_t)opt->scratch_floats[1] * sizeof(float));
    scratch->weight = scn_take(&arena, (size_t)opt->scratch_floats[2] * sizeof(float));
    w.arena = arena;
    return w;
}

scion_status scion_optimizer_create(scion_optimizer **out, const scion_options *o, const scion_param *params,
                                    int64_t count, scion_error *err)
{
    scion_options options;
    scion_optimizer *opt = NULL;
    if (!out)
        return scn_fail(err, SCION_EINVAL, -1, "out is NULL");
    *out = NULL;
    scion_status status = scn_options_take(&options, o, err);
    if (status != SCION_OK)
        return status;
    if (count < 1 || !params)
        return scn_fail(err, SCION_EINVAL, -1, "params is NULL or count is %lld: nothing to optimise",
                        (long long)count);
    status = SCION_ENOMEM;
    opt = scn_alloc(&options.allocator, sizeof *opt);
    if (!opt)
        goto done;
    opt->o = options;
    opt->threads = scn_threads(options.threads);
    opt->tensors = scn_alloc(&options.allocator, (size_t)count * sizeof *opt->tensors);
    if (!opt->tensors)
        goto done;
    opt->count = count;
    for (int64_t i = 0; i < count; i++) {
        const scion_param *p = scn_param_at(params, i);
        status = describe(opt, &opt->tensors[i], p, i, err);
        if (status != SCION_OK)
            goto done;
        status = SCION_ENOMEM;
        if (!allocate(opt, &opt->tensors[i], p, i))
            goto done;
        plan_scratch(opt, &opt->tensors[i]);
    }
    if (plan_jobs(opt) && plan_memory(opt))
        status = scn_ok(err);
done:
    if (status == SCION_ENOMEM)
        scn_fail(err, status, -1, "out of memory for an optimizer of %lld parameters", (long long)count);
    if (status != SCION_OK)
        scion_optimizer_free(opt);
    else
        *out = opt;
    return status;
}

void scion_optimizer_free(scion_optimizer *opt)
{
    if (!opt)
        return;
    const scion_allocator a = opt->o.allocator;
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        scn_free(&a, t->name);
        scn_free(&a, t->split_sizes);
        scn_free(&a, t->balls);
        scn_free(&a, t->average);
        scn_free(&a, t->second);
        scn_free(&a, t->before);
    }
    scn_free(&a, opt->tensors);
    scn_free(&a, opt->jobs);
    scn_free(&a, opt->memory);
    scn_free(&a, opt);
}
