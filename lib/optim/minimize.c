/* Any rule on a caller's stochastic gradient: uSCG, SCG and ALMOND as the paper analyses them.
 *
 * The theorems bound the expectation at an iterate drawn uniformly from x^1..x^n, which is the mean over
 * all iterates: mean_dual_norm and mean_fw_gap. The draw itself is made by keeping x^k with probability
 * 1/k, which is uniform whenever the run is stopped. */
#include <stddef.h>
#include <string.h>

#include "base/bf16.h"
#include "base/random.h"
#include "optim/optimizer.h"
#include "sched/schedule.h"

typedef struct run {
    scion_problem problem;
    scion_options o;
    scion_optimizer *opt;
    scion_param *params;
    void **kept;  /* the drawn iterate, or NULL */
    void **saved; /* light: the averages, while a gradient alone is measured */
    void **prev;  /* MARS: grad_prev */
    scion_schedule schedule;
    scion_result result;
    scion_report last;
    int64_t reports;
} run;

static size_t weight_bytes(const run *r, int64_t i)
{
    return scn_stored_bytes(r->params[i].weight_type, r->opt->tensors[i].layout.count);
}

static size_t grad_bytes(const run *r, int64_t i)
{
    return scn_stored_bytes(r->params[i].grad_type, r->opt->tensors[i].layout.count);
}

static int64_t elements(const scion_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->shape[i];
    return n;
}

static void free_arrays(run *r, void **arrays)
{
    for (int64_t i = 0; arrays && i < r->problem.count; i++)
        scn_free(r->o.allocator, arrays[i]);
    scn_free(r->o.allocator, arrays);
}

/* An array of float32 for each parameter (wide enough for bfloat16). */
static void **new_arrays(run *r)
{
    void **arrays = scn_alloc(r->o.allocator, (size_t)r->problem.count * sizeof *arrays);
    for (int64_t i = 0; arrays && i < r->problem.count; i++) {
        arrays[i] = scn_alloc(r->o.allocator, (size_t)elements(&r->params[i]) * sizeof(float));
        if (!arrays[i]) {
            free_arrays(r, arrays);
            return NULL;
        }
    }
    return arrays;
}

static scion_status take_problem(scion_problem *copy, const scion_problem *p, const scion_result *result,
                                 scion_error *err)
{
    if (!p)
        return scn_fail(err, SCION_EINVAL, -1, "problem is NULL");
    *copy = (scion_problem){0};
    RETURN_IF_FAILED(scn_struct_take(copy, sizeof *copy, p, offsetof(scion_problem, ctx), "problem", -1, err));
    p = copy;
    if (result && result->size < offsetof(scion_result, iterate))
        return scn_fail(err, SCION_EINVAL, -1, "result: size is %zu, expected %zu (scion_result_init sets it)",
                        result->size, sizeof *result);
    if (!p->gradient || !p->params || p->count < 1)
        return scn_fail(err, SCION_EINVAL, -1, "problem: gradient or params is NULL, or count is below 1");
    if (p->steps < 1 || p->report_every < 0)
        return scn_fail(err, SCION_EINVAL, -1, "problem: steps is %lld and report_every %lld, expected >= 1 and >= 0",
                        (long long)p->steps, (long long)p->report_every);
    return SCION_OK;
}

/* Copies of the parameters, all of which are stepped. */
static scion_status take_params(run *r, scion_error *err)
{
    const scion_problem *p = &r->problem;
    r->params = scn_alloc(r->o.allocator, (size_t)p->count * sizeof *r->params);
    if (!r->params)
        return scn_fail(err, SCION_ENOMEM, -1, "out of memory for the minimisation");
    for (int64_t i = 0; i < p->count; i++) {
        scn_layout l;
        RETURN_IF_FAILED(scn_param_take(&r->params[i], p->params, i, err));
        RETURN_IF_FAILED(scn_layout_make(&l, &r->params[i], r->o.routing, i, err));
        if (!r->params[i].grad)
            return scn_fail(err, SCION_EINVAL, i, "problem: parameter %lld has no grad", (long long)i);
        r->params[i].own_count = -1;
    }
    return SCION_OK;
}

static scion_status set_up(run *r, scion_error *err)
{
    const scion_problem *p = &r->problem;
    RETURN_IF_FAILED(scn_schedule_take(&r->schedule, p->schedule, err));
    if (r->schedule.n == 0)
        r->schedule.n = p->steps;
    RETURN_IF_FAILED(scion_schedule_check(&r->schedule, err));
    RETURN_IF_FAILED(take_params(r, err));
    if ((p->uniform && !(r->kept = new_arrays(r))) || (r->o.light && !(r->saved = new_arrays(r))) ||
        (scion_rule_info(r->o.rule)->needs_prev && !(r->prev = new_arrays(r))))
        return scn_fail(err, SCION_ENOMEM, -1, "out of memory for the minimisation");
    for (int64_t i = 0; r->prev && i < p->count; i++)
        r->params[i].grad_prev = r->prev[i];
    return scion_optimizer_create(&r->opt, &r->o, r->params, p->count, err);
}

static void copy_grads(run *r, void **arrays, bool back)
{
    for (int64_t i = 0; i < r->problem.count; i++)
        memcpy(back ? r->params[i].grad : arrays[i], back ? arrays[i] : r->params[i].grad, grad_bytes(r, i));
}

/* Adds the saved averages back to gradients that were measured alone. */
static void add_saved(run *r)
{
    for (int64_t i = 0; i < r->problem.count; i++) {
        scn_tensor *t = &r->opt->tensors[i];
        scn_rounding how = scn_rounding_by(r->o.seed, scn_stream_addition(r->opt->steps, 0, i, 0));
        how.random = r->o.rounding == SCION_ROUNDING_STOCHASTIC;
        for (int64_t k = 0; k < t->layout.count; k++) {
            float g, average;
            g = *scn_floats(t->grad, t->grad_type, k, 1, &g) + *scn_floats(r->saved[i], t->grad_type, k, 1, &average);
            if (t->grad_type == SCION_F32)
                ((float *)t->grad)[k] = g;
            else
                scn_to_bf16_by(&how, 1, &g, (uint16_t *)t->grad + k, k);
        }
    }
}

static void zero_grads(run *r)
{
    for (int64_t i = 0; i < r->problem.count; i++)
        memset(r->params[i].grad, 0, grad_bytes(r, i));
}

/* Fills in a report from the gradient buffers. */
static scion_status measure(run *r, scion_report *report, scion_error *err)
{
    report->dual_norm = report->fw_gap = 0;
    for (int64_t i = 0; i < r->problem.count; i++) {
        scion_info info;
        scion_info_init(&info);
        RETURN_IF_FAILED(scion_optimizer_inspect(r->opt, i, SCION_INSPECT_DUAL, &info, err));
        report->dual_norm += info.radius * info.grad_dual;
        report->fw_gap += info.fw_gap;
    }
    return SCION_OK;
}

static scion_status stopped(int64_t k, scion_error *err)
{
    return scn_fail(err, SCION_ESTOPPED, -1, "stopped by a callback in step %lld", (long long)k);
}

/* Measures x^k with the exact gradient, if there is one, else with the one in the buffers. */
static scion_status report(run *r, int64_t k, double lr, scion_error *err)
{
    const scion_problem *p = &r->problem;
    scion_report now = {.size = sizeof now,
                        .k = k,
                        .lr = lr,
                        .momentum = scn_alpha(r->opt, &r->opt->tensors[0], r->opt->tensors[0].steps + 1)};
    scion_status status = SCION_OK;
    if (p->exact) {
        if (r->saved)
            copy_grads(r, r->saved, false);
        zero_grads(r);
        if (p->exact(p->ctx, k) != 0)
            status = stopped(k, err);
    }
    if (status == SCION_OK)
        status = measure(r, &now, err);
    if (p->exact && r->saved)
        copy_grads(r, r->saved, true);
    if (status != SCION_OK)
        return status;
    r->last = now;
    r->result.mean_dual_norm += now.dual_norm;
    r->result.mean_fw_gap += now.fw_gap;
    r->reports++;
    return p->report && p->report(p->ctx, &now) != 0 ? stopped(k, err) : SCION_OK;
}

/* The gradient of step k, and for MARS the one of the same sample at the weights before. */
static scion_status sample_gradient(run *r, int64_t k, scion_error *err)
{
    const scion_problem *p = &r->problem;
    const scn_words words = scn_philox(p->seed, SCN_STREAM_GRADIENT, (uint64_t)k);
    const uint64_t sample = (uint64_t)words.w[1] << 32 | words.w[0];
    if (r->prev && k > 1) {
        scion_optimizer_previous(r->opt, NULL);
        scion_optimizer_begin(r->opt);
        int stop = p->gradient(p->ctx, k, sample);
        copy_grads(r, r->prev, false);
        scion_optimizer_previous(r->opt, NULL);
        if (stop)
            return stopped(k, err);
    }
    scion_optimizer_begin(r->opt);
    return p->gradient(p->ctx, k, sample) != 0 ? stopped(k, err) : SCION_OK;
}

static scion_status iterate(run *r, scion_error *err)
{
    const scion_problem *p = &r->problem;
    scion_status status = SCION_OK;
    if (r->o.light) /* the average starts at zero, wherever the caller's buffers start */
        zero_grads(r);
    for (int64_t k = 1; k <= p->steps && status == SCION_OK; k++) {
        const double lr = scion_schedule_value(&r->schedule, k - 1);
        const bool due = k == p->steps || (p->report_every > 0 && (k - 1) % p->report_every == 0);
        if (r->kept && scn_uniform(p->seed, SCN_STREAM_ITERATE, (uint64_t)k) * (double)k < 1) {
            for (int64_t i = 0; i < p->count; i++)
                memcpy(r->kept[i], r->params[i].weight, weight_bytes(r, i));
            r->result.iterate = k;
        }
        const bool alone = due && !p->exact && r->saved; /* light: the gradient apart from the average */
        if (due && p->exact)
            status = report(r, k, lr, err);
        if (alone) {
            copy_grads(r, r->saved, false);
            zero_grads(r);
        }
        if (status == SCION_OK)
            status = sample_gradient(r, k, err);
        if (status == SCION_OK && due && !p->exact)
            status = report(r, k, lr, err);
        if (alone)
            add_saved(r);
        if (status == SCION_OK)
            status = scion_optimizer_step(r->opt, lr, err);
        r->result.steps += status == SCION_OK;
    }
    return status;
}

static void finish(run *r)
{
    for (int64_t i = 0; r->kept && r->result.iterate > 0 && i < r->problem.count; i++)
        memcpy(r->params[i].weight, r->kept[i], weight_bytes(r, i));
    if (!r->kept)
        r->result.iterate = r->result.steps + 1;
    if (r->reports > 0) {
        r->result.mean_dual_norm /= (double)r->reports;
        r->result.mean_fw_gap /= (double)r->reports;
    }
}

scion_status scion_minimize(const scion_problem *problem, const scion_options *o, scion_result *result,
                            scion_error *err)
{
    run r = {.reports = 0};
    RETURN_IF_FAILED(take_problem(&r.problem, problem, result, err));
    RETURN_IF_FAILED(scn_options_take(&r.o, o, err));
    scion_status status = set_up(&r, err);
    if (status == SCION_OK) {
        status = iterate(&r, err);
        finish(&r);
    }
    if (result) {
        const size_t size = result->size;
        const bool has_last = size >= offsetof(scion_result, last) + sizeof result->last;
        r.result.last = has_last ? result->last : NULL;
        if (r.result.last && r.result.last->size >= sizeof(size_t))
            scn_struct_give(r.result.last, r.result.last->size, &r.last, sizeof r.last);
        scn_struct_give(result, size, &r.result, sizeof r.result);
    }
    scion_optimizer_free(r.opt);
    free_arrays(&r, r.kept);
    free_arrays(&r, r.saved);
    free_arrays(&r, r.prev);
    scn_free(r.o.allocator, r.params);
    return status == SCION_OK ? scn_ok(err) : status;
}
