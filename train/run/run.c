/* See run.h. */
#include "run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "util/array.h"
#include "util/clock.h"
#include "util/fail.h"
#include "run/baseline.h"
#include "record/run_dir.h"
#include "trainer/trainer_ranks.h"

/* Weight of the newest loss in the running mean, and the steps that it takes to mean something. */
static const double smoothing = 0.1;
enum { settled_steps = 10 };

typedef struct loop {
    trainer *t;
    const run_policy *policy;
    const run_sink *const *sinks;
    int sink_count;
    bool *sink_failed;
    run_norm *norms; /* of one measurement */
    run_result *r;
    double begin;
    int64_t first;       /* step that this process began with */
    int64_t first_micro; /* and micro-batches of the next */
    double first_loss;   /* of its first step */
    int64_t saved,
        best_saved; /* steps of the last checkpoint and of the best one that this process wrote; -1: none */
    int64_t saved_micro;
    bool saved_due;   /* the last checkpoint says that its validation is still to be done */
    bool save_failed; /* the last attempt at a checkpoint */
} loop;

run_result run_result_empty(void)
{
    return (run_result){.samples_per_s = NAN,
                        .last_loss = NAN,
                        .loss = NAN,
                        .val_loss = NAN,
                        .accuracy = NAN,
                        .plain_accuracy = NAN,
                        .top5 = NAN,
                        .best_val_loss = INFINITY,
                        .baseline = NAN,
                        .elapsed = NAN,
                        .state_bytes = NAN,
                        .peak_bytes = NAN};
}

bool run_curves_add_point(run_curves *c, const run_point *p)
{
    run_point *to = array_append(&c->points, &c->point_count, sizeof *to);
    if (to)
        *to = *p;
    return to != NULL;
}

bool run_curves_add_norm(run_curves *c, const run_norm *n)
{
    run_norm *to = array_append(&c->norms, &c->norm_count, sizeof *to);
    if (to)
        *to = *n;
    return to != NULL;
}

void run_curves_free(run_curves *c)
{
    free(c->points);
    free(c->norms);
    *c = (run_curves){.points = NULL};
}

run_policy run_policy_of(const config *c)
{
    return (run_policy){.log_every = c->run.log_every,
                        .norm_every = c->run.norm_every,
                        .validate = true,
                        .eval_every = c->run.eval_every,
                        .save = true,
                        .save_every = c->run.save_every,
                        .keep = c->run.keep,
                        .seconds = 60 * c->run.max_minutes};
}

/* ---- Sinks -------------------------------------------------------------------------------------------------- */

/* Calls one function of every sink that has it. */
#define TELL(l, function, ...)                                                              \
    for (int i_ = 0; i_ < (l)->sink_count; i_++) {                                          \
        const run_sink *sink_ = (l)->sinks[i_];                                             \
        scion_error why_ = {.message = ""};                                                 \
        if (sink_->function && sink_->function(sink_->ctx, __VA_ARGS__, &why_) != SCION_OK) \
            sink_fails((l), i_, &why_);                                                     \
    }

static void sink_fails(loop *l, int i, const scion_error *why)
{
    if (!l->sink_failed[i] && l->policy->warn)
        l->policy->warn(l->policy->warn_ctx, why->message);
    l->sink_failed[i] = true;
}

/* Files of the data that could not be read. */
static void warn_of_data(const loop *l)
{
    scion_error why;
    while (l->policy->warn && data_next_warning(l->t->data, &why))
        l->policy->warn(l->policy->warn_ctx, why.message);
    l->r->skipped = data_skipped(l->t->data);
}

static scion_status start_sinks(loop *l, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < l->sink_count; i++)
        if (l->sinks[i]->start)
            status = l->sinks[i]->start(l->sinks[i]->ctx, l->t, err);
    return ranks_agree(l->t, status, err);
}

/* ---- Norms -------------------------------------------------------------------------------------------------- */

/* Weights and norms are float32, whose sums of many terms are good to about 1e-4: this is more than rounding. */
static const double norm_slack = 1e-3;

scion_status run_norms(const trainer *t, run_norm *norms, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(t->model.tape); i++) {
        scion_info info = {.size = sizeof info};
        status = scion_optimizer_inspect(t->optimizer, i, SCION_INSPECT_NORM, &info, err);
        norms[i] =
            (run_norm){.step = t->step, .norm = info.weight_norm, .bound = info.bound, .overshoot = info.overshoot};
        snprintf(norms[i].name, sizeof norms[i].name, "%s", info.name ? info.name : "");
    }
    return status;
}

/* Norm over bound, and over the overshoot; NAN: there is no bound. */
static double share_of_bound(const run_norm *n)
{
    return isinf(n->bound) ? NAN : n->norm / n->bound / n->overshoot;
}

const run_norm *run_norms_worst(const run_norm *norms, int64_t count)
{
    const run_norm *worst = NULL;
    for (int64_t i = 0; i < count; i++)
        if (share_of_bound(&norms[i]) > (worst ? share_of_bound(worst) : -1))
            worst = &norms[i];
    return worst;
}

bool run_norm_exceeded(const run_norm *n)
{
    return share_of_bound(n) > 1 + norm_slack;
}

static scion_status measure_norms(loop *l, scion_error *err)
{
    const scion_status status = ranks_first(l->t) ? run_norms(l->t, l->norms, err) : SCION_OK;
    if (status == SCION_OK && ranks_first(l->t))
        TELL(l, norms, l->t, l->norms, tape_param_count(l->t->model.tape));
    return ranks_agree(l->t, status, err);
}

/* ---- Checkpoints -------------------------------------------------------------------------------------------- */

/* Nothing to do if the checkpoint of this step is there and says the same. Sinks are told of each step once. */
static scion_status save(loop *l, scion_error *err)
{
    char path[RUN_PATH];
    const bool again = l->saved == l->t->step;
    const bool best = l->best_saved == l->t->step && l->t->micro == 0;
    if (!l->policy->save || (again && l->saved_due == l->t->validation_due && l->saved_micro == l->t->micro))
        return SCION_OK;
    TELL(l, saving, l->t);
    scion_status status = ranks_first(l->t) ? run_dir_save(l->t, l->policy->keep, best, path, err) : SCION_OK;
    status = ranks_save_end(l->t, status, err);
    l->save_failed = status != SCION_OK;
    if (status != SCION_OK)
        return status;
    l->saved = l->t->step;
    l->saved_due = l->t->validation_due;
    l->saved_micro = l->t->micro;
    if (!again)
        TELL(l, saved, l->t, path);
    return SCION_OK;
}

static scion_status save_best(loop *l, scion_error *err)
{
    if (!l->policy->save || l->policy->keep < 1)
        return SCION_OK;
    TELL(l, saving, l->t);
    scion_status status = ranks_first(l->t) ? run_dir_save_best(l->t, err) : SCION_OK;
    status = ranks_save_end(l->t, status, err);
    l->save_failed = status != SCION_OK;
    if (status == SCION_OK)
        l->best_saved = l->t->step;
    return status;
}

/* Data that cannot be read any more end a run, but the steps until then are good. What went wrong is told, whatever
 * comes of this. */
static void save_what_is_good(loop *l, scion_status why)
{
    scion_error ignored;
    const bool learned = l->t->step > l->first || l->t->micro > l->first_micro;
    if (why != SCION_ENONFINITE && learned && !l->t->torn && !l->save_failed)
        save(l, &ignored);
}

/* ---- Steps and validations ---------------------------------------------------------------------------------- */

/* Every n-th step; 0: never. */
static bool due(const trainer *t, int64_t every)
{
    return every > 0 && t->step % every == 0;
}

static bool out_of_time(const loop *l)
{
    return l->policy->seconds > 0 && clock_now() - l->begin > l->policy->seconds;
}

/* The trainer asks between its batches. */
static bool stops(void *ctx)
{
    const loop *l = ctx;
    return (l->policy->stop && l->policy->stop(l->policy->stop_ctx)) || out_of_time(l);
}

static void computed(void *ctx, int64_t done, int64_t count)
{
    loop *l = ctx;
    TELL(l, stepping, l->t, done, count);
}

static void evaluated(void *ctx, int64_t done, int64_t count)
{
    loop *l = ctx;
    TELL(l, validating, l->t, done, count);
}

/* A point of the present step that has nothing but its place. */
static run_point point_here(const loop *l)
{
    const trainer *t = l->t;
    return (run_point){.step = t->step,
                       .loss = NAN,
                       .lr = NAN,
                       .val_loss = NAN,
                       .accuracy = NAN,
                       .top5 = NAN,
                       .samples_per_s = NAN,
                       .optimizer_share = NAN,
                       .seconds = NAN,
                       .elapsed = l->policy->elapsed + clock_now() - l->begin,
                       .samples = (double)t->step * (double)trainer_samples(t),
                       .unit = trainer_unit(t),
                       .time = (int64_t)time(NULL)};
}

/* tell: not of a validation that the run has done before. */
static scion_status validate(loop *l, bool tell, scion_error *err)
{
    trainer *t = l->t;
    run_result *r = l->r;
    trainer_scores scores = {0};
    const bool last = t->step == t->steps;
    if (trainer_validation_samples(t, last) < 1)
        return SCION_OK;
    t->validation_due = tell;
    scion_status status = trainer_validate(t, last, &scores, err);
    const double loss = scores.loss;
    warn_of_data(l);
    if (status != SCION_OK)
        return status;
    t->validation_due = false;
    if (l->policy->divergence > 0 && !isfinite(loss)) {
        r->val_loss = r->accuracy = r->plain_accuracy = r->top5 = NAN;
        return train_fail(err, SCION_ENONFINITE, "after step %lld the validation loss is not finite",
                          (long long)t->step);
    }
    r->val_loss = loss;
    r->accuracy = scores.accuracy;
    r->plain_accuracy = scores.plain_accuracy;
    r->top5 = scores.top5;
    run_point p = point_here(l);
    p.val_loss = isnan(loss) ? INFINITY : loss; /* NAN is no validation */
    p.accuracy = scores.accuracy;
    p.top5 = scores.top5;
    if (tell)
        TELL(l, validation, t, &p);
    if (loss < t->best) {
        t->best = r->best_val_loss = loss;
        status = save_best(l, err);
    }
    return status;
}

static void count_step(loop *l, const run_point *p)
{
    const trainer *t = l->t;
    run_result *r = l->r;
    if (r->taken == 0)
        l->first_loss = r->loss = p->loss;
    r->loss += smoothing * (p->loss - r->loss);
    r->last_loss = p->loss;
    r->step = t->step;
    r->taken++;
    r->samples = t->step * trainer_samples(t);
    r->forward_s += t->forward_s;
    r->backward_s += t->backward_s;
    r->optimizer_s += t->optimizer_s;
    r->comm_s += t->comm_s;
    r->steps_s += p->seconds;
    r->seconds = clock_now() - l->begin;
}

static scion_status one_step(loop *l, scion_error *err)
{
    trainer *t = l->t;
    const run_policy *y = l->policy;
    double loss;
    const double lr = trainer_lr(t), begin = clock_now();
    scion_status status = trainer_step(t, &loss, err);
    warn_of_data(l);
    if (status != SCION_OK)
        return status;
    const double seconds = clock_now() - begin, busy = t->forward_s + t->backward_s + t->optimizer_s;
    run_point p = point_here(l);
    p.loss = loss;
    p.lr = lr;
    p.samples_per_s = (double)trainer_samples(t) / seconds;
    p.optimizer_share = busy > 0 ? t->optimizer_s / busy : 0;
    p.seconds = seconds;
    const bool last = t->step == t->steps, saves = due(t, y->save_every) || last;
    const bool validates = y->validate && (due(t, y->eval_every) || last) && trainer_validation_samples(t, last) > 0;
    count_step(l, &p);
    TELL(l, step, t, &p, y->log_every > 0 && (due(t, y->log_every) || last || t->step == 1));
    if (due(t, y->norm_every) || (y->norm_every > 0 && last))
        status = measure_norms(l, err);
    t->validation_due = validates;
    if (status == SCION_OK && saves) /* first: a validation may take long, and the program be killed in it */
        status = save(l, err);
    if (status == SCION_OK && validates)
        status = validate(l, true, err);
    if (status == SCION_OK && saves)
        status = save(l, err);
    return status;
}

/* ---- The run ------------------------------------------------------------------------------------------------ */

static bool diverges(const loop *l)
{
    return l->policy->divergence > 0 && l->r->taken >= settled_steps &&
           l->r->loss > l->policy->divergence * l->first_loss + 1;
}

/* Steps until nothing is left to do or the run is to stop; *stopped: it is. */
static scion_status all_steps(loop *l, bool *stopped, scion_error *err)
{
    trainer *t = l->t;
    scion_status status = SCION_OK;
    *stopped = false;
    if (t->validation_due && l->policy->validate) { /* it was stopped in the middle of it */
        status = validate(l, true, err);
        if (status == SCION_OK)
            status = save(l, err);
    } else if (t->step == t->steps && l->policy->validate) { /* it had ended: for those who ask again how it ended */
        status = validate(l, false, err);
    }
    while (status == SCION_OK && t->step < t->steps && !diverges(l) && !*stopped) {
        status = one_step(l, err);
        const bool wanted = t->ranks ? ranks_stopping(t) : stops(l);
        *stopped = status == SCION_OK && (wanted || (l->policy->steps > 0 && l->r->taken >= l->policy->steps));
    }
    if (status == SCION_ESTOPPED) {
        *stopped = true;
        status = SCION_OK;
    }
    return status;
}

static void measure_end(loop *l)
{
    run_result *r = l->r;
    struct rusage usage;
    const double busy = r->forward_s + r->backward_s + r->optimizer_s;
    r->seconds = clock_now() - l->begin;
    r->elapsed = l->policy->elapsed + r->seconds;
    r->samples_per_s = busy > 0 ? (double)(r->taken * trainer_samples(l->t)) / busy : NAN;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        r->peak_bytes = (double)usage.ru_maxrss * 1024;
}

static void start_result(loop *l)
{
    const trainer *t = l->t;
    run_result *r = l->r;
    *r = run_result_empty();
    r->step = t->step;
    r->steps = t->steps;
    r->parameters = t->elements;
    r->samples = t->step * trainer_samples(t);
    r->best_val_loss = t->best;
    r->baseline = baseline_for(&t->c, data_about(t->data));
    r->data_hash = data_about(t->data)->hash;
    r->changes = t->changes;
    r->state_bytes = (double)(t->memory.weights + t->memory.gradients + t->memory.state);
}

/* Keeps the reason of a failure in the result. */
static scion_status run_fails(run_result *r, scion_status status, const scion_error *why)
{
    r->state = status == SCION_ENONFINITE ? RUN_DIVERGED : RUN_FAILED;
    snprintf(r->message, sizeof r->message, "%s", why->message);
    return status;
}

static scion_status train(loop *l, scion_error *err)
{
    trainer *t = l->t;
    run_result *r = l->r;
    bool stopped;
    scion_status status = start_sinks(l, err);
    if (status == SCION_OK)
        status = all_steps(l, &stopped, err);
    if (status == SCION_OK && (t->step < t->steps || t->validation_due))
        status = save(l, err);
    else if (status != SCION_OK)
        save_what_is_good(l, status);
    measure_end(l);
    if (status != SCION_OK)
        return status;
    r->skipped = ranks_skipped(t);
    if (diverges(l) && t->step < t->steps) {
        r->state = RUN_DIVERGED;
        snprintf(r->message, sizeof r->message, "stopped at step %lld: the loss rose from %.4g to %.4g",
                 (long long)t->step, l->first_loss, r->loss);
    } else if (t->step == t->steps && !t->validation_due) {
        r->state = RUN_DONE;
    }
    TELL(l, end, t, r);
    return SCION_OK;
}

scion_status run_train(trainer *t, const run_policy *policy, const run_sink *const *sinks, int count, run_result *r,
                       int *sinks_failed, scion_error *err)
{
    scion_error why = {.message = ""};
    loop l = {.t = t,
              .policy = policy,
              .sinks = sinks,
              .sink_count = count,
              .sink_failed = calloc((size_t)count + 1, sizeof *l.sink_failed),
              .norms = calloc((size_t)tape_param_count(t->model.tape) + 1, sizeof *l.norms),
              .r = r,
              .begin = policy->began > 0 ? policy->began : clock_now(),
              .first = t->step,
              .first_micro = t->micro,
              .saved = -1,
              .best_saved = -1};
    start_result(&l);
    t->stop = stops;
    t->computed = computed;
    t->evaluated = evaluated;
    t->stop_ctx = &l;
    scion_status status =
        l.sink_failed && l.norms ? train(&l, &why) : train_fail(&why, SCION_ENOMEM, "out of memory for the run");
    t->stop = NULL;
    t->computed = NULL;
    t->evaluated = NULL;
    t->stop_ctx = NULL;
    if (status != SCION_OK)
        run_fails(r, status, &why);
    if (err)
        *err = why;
    if (sinks_failed) {
        *sinks_failed = 0;
        for (int i = 0; l.sink_failed && i < count; i++)
            *sinks_failed += l.sink_failed[i];
    }
    free(l.sink_failed);
    free(l.norms);
    return status;
}
