/* See run_loop.h. */
#include "run_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli.h"
#include "run/metrics.h"
#include "run/norm_watch.h"
#include "base/atomic_file.h"
#include "run/run_dir.h"
#include "base/clock.h"

typedef struct loop {
    trainer *t;
    metrics *m;
    cli_progress progress;
    double begin;  /* clock */
    int64_t first; /* step that this process began with */
    double loss, val_loss, accuracy;
    double rate, share; /* tokens or images per second, part of the time in the optimizer: running means */
    double shown;       /* clock when the live line was last written */
    char saved[RUN_PATH];
    int64_t saved_step;
} loop;

/* Every n-th step; 0: never. */
static bool due(const trainer *t, int64_t every)
{
    return every > 0 && t->step % every == 0;
}

/* A line that will be written over is not written more often than can be read. */
static const double live_s = 0.1;

static void show(loop *l, double lr, bool keep)
{
    const trainer *t = l->t;
    char left[16];
    if (!keep && clock_now() - l->shown < live_s)
        return;
    l->shown = clock_now();
    const double each = (clock_now() - l->begin) / (double)(t->step - l->first);
    cli_progress_show(&l->progress, keep, "step %lld/%lld  loss %.4f  lr %.3g  %.0f %s/s  optimizer %.0f%%  %s left",
                      (long long)t->step, (long long)t->steps, l->loss, lr, l->rate, trainer_unit(t), 100 * l->share,
                      cli_duration(each * (double)(t->steps - t->step), left));
}

static void after_step(loop *l, double lr, double seconds)
{
    const trainer *t = l->t;
    const double whole = t->forward_s + t->backward_s + t->optimizer_s;
    const double rate = (double)trainer_samples(t) / seconds, share = whole > 0 ? t->optimizer_s / whole : 0;
    const double weight = t->step - l->first == 1 ? 1 : 0.1;
    l->rate += weight * (rate - l->rate);
    l->share += weight * (share - l->share);
    const bool log = due(t, t->c.run.log_every) || t->step == t->steps || t->step == l->first + 1;
    if (log)
        metrics_step(l->m, t->step, l->loss, lr, rate, share);
    show(l, lr, log && (!l->progress.live || due(t, t->c.run.eval_every) || t->step == t->steps));
}

static bool has_validation(const trainer *t)
{
    return trainer_validation_batches(t) > 0;
}

static scion_status evaluate(loop *l, scion_error *err)
{
    trainer *t = l->t;
    if (!has_validation(t))
        return SCION_OK;
    scion_status status = trainer_evaluate(t, t->c.run.eval_batches, &l->val_loss, &l->accuracy, err);
    if (status != SCION_OK)
        return status;
    if (t->step > l->first) /* else a run that had ended is looked at again, and has its line */
        metrics_val(l->m, t->step, l->val_loss, l->accuracy);
    if (!trainer_reports_accuracy(t))
        cli_progress_show(&l->progress, true, "step %lld  validation loss %.4f", (long long)t->step, l->val_loss);
    else
        cli_progress_show(&l->progress, true, "step %lld  validation loss %.4f  accuracy %.2f%%", (long long)t->step,
                          l->val_loss, 100 * l->accuracy);
    if (l->val_loss < t->best) {
        t->best = l->val_loss;
        status = t->c.run.keep > 0 ? run_dir_save_best(t, err) : SCION_OK;
    }
    return status;
}

/* Norms of the weights against their bounds: the paper's norm control, made visible. */
static scion_status log_norms(loop *l, scion_error *err)
{
    norms_worst worst;
    scion_status status = norms_measure(l->t, l->m, &worst, err);
    if (status != SCION_OK || !worst.name)
        return status;
    if (norms_exceeded(&worst))
        cli_progress_show(&l->progress, true, "step %lld  WARNING: the norm of %s is %.4g and exceeds its bound %.4g",
                          (long long)l->t->step, worst.name, worst.norm, worst.bound);
    else
        cli_progress_show(&l->progress, true, "step %lld  norms within their bounds; nearest: %s, %.4g of %.4g",
                          (long long)l->t->step, worst.name, worst.norm, worst.bound);
    return SCION_OK;
}

static scion_status save(loop *l, scion_error *err)
{
    if (l->saved_step == l->t->step)
        return SCION_OK;
    scion_status status = run_dir_save(l->t, l->t->c.run.keep, l->saved, err);
    if (status == SCION_OK)
        l->saved_step = l->t->step;
    return status;
}

static scion_status one_step(loop *l, scion_error *err)
{
    trainer *t = l->t;
    const double lr = trainer_lr(t), begin = clock_now();
    scion_status status = trainer_step(t, &l->loss, err);
    if (status != SCION_OK)
        return status;
    after_step(l, lr, clock_now() - begin);
    if (due(t, t->c.run.norm_every) || (t->c.run.norm_every > 0 && t->step == t->steps))
        status = log_norms(l, err);
    if (status == SCION_OK && (due(t, t->c.run.eval_every) || t->step == t->steps))
        status = evaluate(l, err);
    if (status == SCION_OK && (due(t, t->c.run.save_every) || t->step == t->steps))
        status = save(l, err);
    return status;
}

static size_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

static scion_status summarise(const loop *l, scion_error *err)
{
    const trainer *t = l->t;
    const double seconds = clock_now() - l->begin;
    char *json = config_to_json(&t->c);
    const metrics_summary s = {
        .steps = t->step,
        .parameters = t->elements,
        .samples = t->step * trainer_samples(t),
        .seconds = seconds,
        .samples_per_s = (double)((t->step - l->first) * trainer_samples(t)) / seconds,
        .loss = l->loss,
        .val_loss = l->val_loss,
        .best_val_loss = t->best,
        .accuracy = trainer_reports_accuracy(t) ? l->accuracy : NAN,
        .baseline = t->c.run.baseline > 0 ? t->c.run.baseline : NAN,
        .peak_bytes = peak_bytes(),
        .config = json,
    };
    scion_status status = metrics_write_summary(t->c.run.out, &s, err);
    free(json);
    return status == SCION_OK ? metrics_failed(l->m, err) : status;
}

static void print_end(loop *l)
{
    const trainer *t = l->t;
    char text[16];
    if (t->step > l->first)
        printf("%lld steps in %s, %.0f %s/s: ", (long long)(t->step - l->first),
               cli_duration(clock_now() - l->begin, text),
               (double)((t->step - l->first) * trainer_samples(t)) / (clock_now() - l->begin), trainer_unit(t));
    else
        printf("the run had ended (steps=N goes on): ");
    if (has_validation(t))
        printf("validation loss %.4f", l->val_loss);
    else
        printf("loss %.4f, no validation", l->loss);
    if (has_validation(t) && trainer_reports_accuracy(t))
        printf(", accuracy %.2f%%", 100 * l->accuracy);
    if (has_validation(t) && t->c.run.baseline > 0)
        printf(" (AdamW on the text that the preset names: %.4f)", t->c.run.baseline);
    printf("\n%s\n", l->saved);
    if (strcmp(t->c.model, "gpt") == 0 && data_about(t->data)->vocabulary)
        printf("let it write: scion sample %s\n", t->c.run.out);
}

/* An error, and what is left. */
static int failed(const loop *l, const scion_error *err)
{
    char latest[RUN_PATH];
    cli_error(CLI_FAILED, "%s", err->message);
    if (run_dir_latest(l->t->c.run.out, latest, NULL) == SCION_OK)
        cli_error(CLI_FAILED, "the last checkpoint is %s", latest);
    return CLI_FAILED;
}

int run_loop(trainer *t)
{
    scion_error err = {0};
    loop l = {.t = t,
              .progress = cli_progress_start(),
              .begin = clock_now(),
              .first = t->step,
              .loss = NAN,
              .val_loss = NAN,
              .accuracy = NAN,
              .saved_step = -1};
    scion_status status = metrics_open(&l.m, t->c.run.out, t->step, &err);
    bool stopped = false;
    atomic_remove_stale(t->c.run.out);
    cli_catch_signals();
    while (status == SCION_OK && t->step < t->steps && !stopped) {
        status = one_step(&l, &err);
        stopped =
            cli_interrupted() || (t->c.run.max_minutes > 0 && clock_now() - l.begin > 60 * t->c.run.max_minutes);
    }
    cli_progress_clear(&l.progress);
    if (status == SCION_OK && l.first == t->steps) {
        status = evaluate(&l, &err);
        run_dir_latest(t->c.run.out, l.saved, NULL);
    }
    if (status == SCION_OK && t->step < t->steps)
        status = save(&l, &err);
    if (status == SCION_OK)
        status = summarise(&l, &err);
    metrics_close(l.m);
    if (status != SCION_OK)
        return failed(&l, &err);
    if (t->step < t->steps)
        printf("stopped after step %lld of %lld and saved; go on with: scion resume %s\n", (long long)t->step,
               (long long)t->steps, t->c.run.out);
    else
        print_end(&l);
    return CLI_OK;
}
