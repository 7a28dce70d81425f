/* See run.h. */
#include "run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "run/update_size.h"
#include "util/clock.h"
#include "util/fail.h"

/* Weight of the newest loss in the running mean, and the steps that it takes to mean something. */
static const double smoothing = 0.1;
enum { settled_steps = 10 };

typedef struct loop {
    trainer *t;
    const run_policy *policy;
    run_position *at;
    trainer_watch watch;
    const run_sink *const *sinks;
    int sink_count;
    bool *sink_failed;
    run_norm *norms;      /* of one measurement */
    update_size *updates; /* of the step before it; NULL: norms are not measured here */
    run_result *r;
    double begin;
    int64_t first;             /* step that this process began with */
    int64_t first_micro;       /* and micro-batches of the next */
    double first_loss;         /* of its first step */
    int64_t saved, best_saved; /* steps of the last checkpoint and of the best one of this process; -1: none */
    int64_t saved_micro;
    bool saved_due;   /* the last checkpoint says that its validation is still due */
    bool save_failed; /* the last attempt at a checkpoint */
} loop;

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

static void tell(loop *l, run_event_kind kind, run_event e)
{
    e.t = l->t;
    e.at = l->at;
    for (int i = 0; i < l->sink_count; i++) {
        const run_sink *sink = l->sinks[i];
        scion_error why = {.message = ""};
        if (!sink->on[kind] || sink->on[kind](sink->ctx, &e, &why) == SCION_OK)
            continue;
        if (!l->sink_failed[i] && l->policy->warn)
            l->policy->warn(l->policy->warn_ctx, why.message);
        l->sink_failed[i] = true;
    }
}

/* Files of the data that could not be read. */
static void warn_of_data(const loop *l)
{
    scion_error why;
    while (l->policy->warn && data_next_warning(trainer_about(l->t).data, &why))
        l->policy->warn(l->policy->warn_ctx, why.message);
    l->r->skipped = data_skipped(trainer_about(l->t).data);
}

static scion_status start_sinks(loop *l, scion_error *err)
{
    const run_event e = {.t = l->t, .at = l->at};
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < l->sink_count; i++)
        if (l->sinks[i]->on[RUN_STARTS])
            status = l->sinks[i]->on[RUN_STARTS](l->sinks[i]->ctx, &e, err);
    return comm_agree(trainer_about(l->t).comm, status, err, NULL);
}

/* ---- Norms -------------------------------------------------------------------------------------------------- */

static int64_t norm_count(const trainer *t)
{
    return scion_optimizer_count(trainer_about(t).optimizer);
}

scion_status run_norms(const trainer *t, run_norm *norms, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; i < norm_count(t); i++) {
        scion_info info = {.size = sizeof info};
        TRY(scion_optimizer_inspect(trainer_about(t).optimizer, i, SCION_INSPECT_NORM, &info, err));
        norms[i] = (run_norm){.step = trainer_about(t).step,
                              .norm = info.weight_norm,
                              .bound = info.bound,
                              .overshoot = info.overshoot,
                              .update_size = NAN};
        snprintf(norms[i].name, sizeof norms[i].name, "%s", info.name ? info.name : "");
    }
done:
    return status;
}

static bool is_first_rank(const loop *l)
{
    return trainer_about(l->t).comm->rank == 0;
}

static scion_status measure_norms(loop *l, scion_error *err)
{
    const scion_status status = is_first_rank(l) ? run_norms(l->t, l->norms, err) : SCION_OK;
    if (status == SCION_OK && l->updates)
        update_size_measure(l->updates, l->norms, norm_count(l->t));
    if (status == SCION_OK && is_first_rank(l))
        tell(l, RUN_MEASURED, (run_event){.norms = l->norms, .count = norm_count(l->t)});
    return comm_agree(trainer_about(l->t).comm, status, err, NULL);
}

/* ---- Checkpoints -------------------------------------------------------------------------------------------- */

static scion_status write_checkpoint(loop *l, const char *path, scion_error *err)
{
    const scion_status status = trainer_save(l->t, l->at, l->policy->dir ? l->policy->dir->fd : -1, path, err);
    l->save_failed = status != SCION_OK;
    return status;
}

/* Links the checkpoint of this step to the best one, if that was saved after the same step; one answer on all
 * ranks. */
static bool link_best(const loop *l)
{
    const bool best = l->best_saved == trainer_about(l->t).step && trainer_about(l->t).micro == 0;
    uint8_t linked = best && is_first_rank(l) && run_dir_link_best(l->policy->dir, trainer_about(l->t).step);
    comm_broadcast(trainer_about(l->t).comm, 0, &linked, sizeof linked);
    return linked;
}

/* Nothing to do if the checkpoint of this step is there and says the same. Sinks are told of each step once. */
static scion_status save(loop *l, scion_error *err)
{
    const int64_t step = trainer_about(l->t).step, micro = trainer_about(l->t).micro;
    char path[RUN_PATH] = "";
    const bool again = l->saved == step;
    scion_status status = SCION_OK;
    if (!l->policy->save || (again && l->saved_due == l->at->validation_due && l->saved_micro == micro))
        return SCION_OK;
    tell(l, RUN_SAVING, (run_event){.count = 0});
    if (l->policy->dir)
        run_dir_step_path(l->policy->dir, step, path);
    if (!link_best(l))
        TRY(write_checkpoint(l, path, err));
    if (l->policy->dir)
        run_dir_prune(l->policy->dir, step, l->policy->keep);
    l->saved = step;
    l->saved_due = l->at->validation_due;
    l->saved_micro = micro;
    if (!again)
        tell(l, RUN_SAVED, (run_event){.path = path});
done:
    return status;
}

static scion_status save_best(loop *l, scion_error *err)
{
    char path[RUN_PATH] = "";
    if (!l->policy->save || l->policy->keep < 1)
        return SCION_OK;
    tell(l, RUN_SAVING, (run_event){.count = 0});
    if (l->policy->dir)
        run_dir_best_path(l->policy->dir->path, path);
    const scion_status status = write_checkpoint(l, path, err);
    if (status == SCION_OK)
        l->best_saved = trainer_about(l->t).step;
    return status;
}

/* Saves the good steps before a failure. The first error is reported even if saving fails. */
static void save_what_is_good(loop *l, scion_status why)
{
    scion_error ignored;
    const bool learned = trainer_about(l->t).step > l->first || trainer_about(l->t).micro > l->first_micro;
    if (why != SCION_ENONFINITE && learned && trainer_about(l->t).is_whole && !l->save_failed)
        save(l, &ignored);
}

/* ---- Steps and validations ---------------------------------------------------------------------------------- */

/* Every n-th step; 0: never. */
static bool due(const trainer *t, int64_t every)
{
    return every > 0 && trainer_about(t).step % every == 0;
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
    tell(ctx, RUN_STEPPING, (run_event){.done = done, .count = count});
}

static void evaluated(void *ctx, int64_t done, int64_t count)
{
    tell(ctx, RUN_VALIDATING, (run_event){.done = done, .count = count});
}

/* A point of the present step that has nothing but its place. */
static run_point point_here(const loop *l)
{
    const trainer *t = l->t;
    run_point p = run_point_empty(trainer_about(t).step);
    p.time = (double)time(NULL);
    p.elapsed = round(1e3 * (l->policy->elapsed + clock_now() - l->begin)) / 1e3;
    p.samples = (double)p.step * (double)trainer_samples(t);
    p.unit = trainer_about(t).unit;
    return p;
}

static bool is_done(const trainer *t)
{
    return trainer_about(t).step == trainer_about(t).steps;
}

/* news: false for a validation that the run has done before. */
static scion_status validate(loop *l, bool news, scion_error *err)
{
    trainer *t = l->t;
    run_result *r = l->r;
    trainer_scores scores = {0};
    mistakes *wrong = NULL;
    const bool last = is_done(t);
    if (trainer_validation_samples(t, last) < 1)
        return SCION_OK;
    l->at->validation_due = news;
    scion_status status = trainer_validate(t, last, &l->watch, &scores, last ? &wrong : NULL, err);
    const double loss = scores.loss;
    warn_of_data(l);
    if (status != SCION_OK)
        return status;
    l->at->validation_due = false;
    if (l->policy->divergence > 0 && !isfinite(loss)) {
        r->val_loss = r->val_bits_per_byte = r->accuracy = r->plain_accuracy = r->top5 = NAN;
        mistakes_free(wrong);
        return train_fail(err, SCION_ENONFINITE, "after step %lld the validation loss is not finite",
                          (long long)trainer_about(t).step);
    }
    r->val_loss = loss;
    r->val_bits_per_byte = scores.bits_per_byte;
    r->accuracy = scores.accuracy;
    r->plain_accuracy = scores.plain_accuracy;
    r->top5 = scores.top5;
    run_point p = point_here(l);
    p.val_loss = isnan(loss) ? INFINITY : loss; /* NAN is no validation */
    p.val_bits_per_byte = scores.bits_per_byte;
    p.accuracy = scores.accuracy;
    p.top5 = scores.top5;
    if (news)
        tell(l, RUN_VALIDATED, (run_event){.point = &p, .mistakes = wrong});
    mistakes_free(wrong);
    if (loss < l->at->best) {
        l->at->best = r->best_val_loss = loss;
        status = save_best(l, err);
    }
    return status;
}

static void count_step(loop *l, const run_point *p, const step_report *step)
{
    const trainer *t = l->t;
    run_result *r = l->r;
    if (r->taken == 0)
        l->first_loss = r->loss = p->loss;
    r->loss += smoothing * (p->loss - r->loss);
    r->last_loss = p->loss;
    r->step = p->step;
    r->taken++;
    r->samples = p->step * trainer_samples(t);
    r->forward_s += step->forward_s;
    r->backward_s += step->backward_s;
    r->optimizer_s += step->optimizer_s;
    r->comm_s += step->comm_s;
    r->steps_s += p->seconds;
    r->seconds = clock_now() - l->begin;
}

/* True if the norms are measured after a step. */
static bool norms_due(const loop *l, int64_t step)
{
    const int64_t every = l->policy->norm_every;
    return every > 0 && (step % every == 0 || step == trainer_about(l->t).steps);
}

/* One step and all that follows it; *stopping: some rank wants to stop. */
static scion_status one_step(loop *l, bool *stopping, scion_error *err)
{
    trainer *t = l->t;
    const run_policy *policy = l->policy;
    step_report report;
    const bool measures = norms_due(l, trainer_about(t).step + 1);
    if (measures && l->updates)
        update_size_keep(l->updates);
    const double lr = trainer_lr(t), begin = clock_now();
    scion_status status = trainer_step(t, &l->watch, &report, err);
    warn_of_data(l);
    if (status != SCION_OK)
        return status;
    const double seconds = clock_now() - begin, busy = report.forward_s + report.backward_s + report.optimizer_s;
    run_point p = point_here(l);
    p.loss = report.loss;
    p.bits_per_byte = report.bits_per_byte;
    p.lr = lr;
    p.samples_per_s = (double)trainer_samples(t) / seconds;
    p.optimizer_share = busy > 0 ? report.optimizer_s / busy : 0;
    p.seconds = seconds;
    const bool last = is_done(t), saves = due(t, policy->save_every) || last;
    const bool validates =
        policy->validate && (due(t, policy->eval_every) || last) && trainer_validation_samples(t, last) > 0;
    count_step(l, &p, &report);
    const bool log = policy->log_every > 0 && (due(t, policy->log_every) || last || p.step == 1);
    tell(l, RUN_STEPPED, (run_event){.point = &p, .step = &report, .log = log});
    *stopping = report.stopping;
    if (measures)
        TRY(measure_norms(l, err));
    l->at->validation_due = validates;
    if (saves) /* first: a validation may take long, and the program be killed in it */
        TRY(save(l, err));
    if (validates)
        TRY(validate(l, true, err));
    if (saves)
        TRY(save(l, err));
done:
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
    if (l->at->validation_due && l->policy->validate) { /* it was stopped in the middle of it */
        TRY(validate(l, true, err));
        TRY(save(l, err));
    } else if (is_done(t) && l->policy->validate) { /* it had ended: the result is asked for again */
        TRY(validate(l, false, err));
    }
    while (!is_done(t) && !diverges(l) && !*stopped) {
        bool stopping;
        TRY(one_step(l, &stopping, err));
        if (trainer_about(t).comm->size == 1) /* several ranks stop together: they agreed in the step */
            stopping = stops(l);
        *stopped = stopping || (l->policy->steps > 0 && l->r->taken >= l->policy->steps);
    }
done:
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
    r->overall_samples_per_s = (double)(r->taken * trainer_samples(l->t)) / r->seconds;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        r->peak_bytes = (double)usage.ru_maxrss * 1024;
}

static void start_result(loop *l)
{
    const trainer *t = l->t;
    const trainer_memory *m = trainer_about(t).memory;
    const data_info *d = data_about(trainer_about(t).data);
    run_result *r = l->r;
    *r = run_result_empty();
    r->step = trainer_about(t).step;
    r->steps = trainer_about(t).steps;
    r->parameters = trainer_about(t).parameters;
    r->samples = r->step * trainer_samples(t);
    r->best_val_loss = isfinite(l->at->best) ? l->at->best : NAN;
    r->data_hash = d->hash;
    r->changes = l->at->changes;
    r->state_bytes = (double)(m->weights + m->gradients + m->state);
}

static scion_status train(loop *l, scion_error *err)
{
    trainer *t = l->t;
    run_result *r = l->r;
    bool stopped;
    scion_status status = start_sinks(l, err);
    if (status == SCION_OK)
        status = all_steps(l, &stopped, err);
    if (status == SCION_OK && (!is_done(t) || l->at->validation_due))
        status = save(l, err);
    else if (status != SCION_OK)
        save_what_is_good(l, status);
    measure_end(l);
    if (status != SCION_OK)
        return status;
    r->skipped = trainer_skipped(t);
    if (diverges(l) && !is_done(t)) {
        r->state = RUN_DIVERGED;
        snprintf(r->message, sizeof r->message, "stopped at step %lld: the loss rose from %.4g to %.4g",
                 (long long)r->step, l->first_loss, r->loss);
    } else if (is_done(t) && !l->at->validation_due) {
        r->state = RUN_DONE;
    }
    tell(l, RUN_ENDED, (run_event){.result = r});
    return SCION_OK;
}

scion_status run_train(trainer *t, const run_policy *policy, const run_sink *const *sinks, int count, run_result *r,
                       int *sinks_failed, scion_error *err)
{
    scion_error why = {.message = ""};
    run_position start = run_position_start();
    loop l = {.t = t,
              .policy = policy,
              .at = policy->position ? policy->position : &start,
              .sinks = sinks,
              .sink_count = count,
              .sink_failed = calloc((size_t)count + 1, sizeof *l.sink_failed),
              .norms = calloc((size_t)norm_count(t) + 1, sizeof *l.norms),
              .r = r,
              .begin = policy->began > 0 ? policy->began : clock_now(),
              .first = trainer_about(t).step,
              .first_micro = trainer_about(t).micro,
              .saved = -1,
              .best_saved = -1};
    const bool measures = policy->norm_every > 0 && is_first_rank(&l);
    l.updates = measures ? update_size_create(trainer_about(t).model->tape) : NULL;
    l.watch = (trainer_watch){stops, computed, evaluated, &l};
    start_result(&l);
    scion_status status = l.sink_failed && l.norms && (l.updates || !measures)
                              ? train(&l, &why)
                              : train_fail(&why, SCION_ENOMEM, "out of memory for the run");
    if (status != SCION_OK) {
        r->state = status == SCION_ENONFINITE ? RUN_DIVERGED : RUN_FAILED;
        snprintf(r->message, sizeof r->message, "%s", why.message);
    }
    if (err)
        *err = why;
    if (sinks_failed) {
        *sinks_failed = 0;
        for (int i = 0; l.sink_failed && i < count; i++)
            *sinks_failed += l.sink_failed[i];
    }
    free(l.sink_failed);
    update_size_free(l.updates);
    free(l.norms);
    return status;
}
