/* See run_view.h. */
#include "run_view.h"

#include <math.h>
#include <string.h>

#include "cli.h"
#include "util/clock.h"
#include "util/utf8.h"

/* Steps and validations longer than this show progress. */
static const double quiet_s = 2;

run_view run_view_start(run_output show)
{
    return (run_view){.show = show, .progress = cli_progress_start(stdout)};
}

static scion_status show_start(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    (void)err;
    v->begin = v->stepped = clock_now();
    v->first = trainer_about(e->t).step;
    cli_progress_show(&v->progress, CLI_STATUS, "step %lld/%lld", (long long)v->first,
                      (long long)trainer_about(e->t).steps);
    return SCION_OK;
}

/* Seconds of a forward pass in a validation: measured, or as in training. */
static double pass_seconds(const run_view *v, const trainer *t)
{
    return v->validations > 0 ? v->validating_s / (double)(v->validations * trainer_validation_passes(t, false))
                              : v->forward_s / (double)trainer_about(t).config->training.accum;
}

/* Seconds until the end of the run with its validations, the one after the present step included. */
static double seconds_left(const run_view *v, const trainer *t)
{
    const int64_t every = trainer_about(t).config->run.eval_every, step = trainer_about(t).step,
                  steps = trainer_about(t).steps;
    const double spent = clock_now() - v->begin - v->validating_s, each = spent / (double)(step - v->first);
    const int64_t regular = every > 0 ? steps / every - (step - 1) / every : 0;
    const int64_t validations = regular + (every == 0 || steps % every != 0); /* the last may be a larger one */
    const int64_t passes =
        (validations - 1) * trainer_validation_passes(t, false) + trainer_validation_passes(t, true);
    return each * (double)(steps - step) + (double)passes * pass_seconds(v, t);
}

static scion_status show_step(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    const run_point *p = e->point;
    char left[16], steps[24];
    const double weight = p->step == v->first + 1 ? 1 : 0.1;
    const int width = snprintf(steps, sizeof steps, "%lld", (long long)trainer_about(e->t).steps);
    (void)err;
    v->rate += weight * (p->samples_per_s - v->rate);
    v->share += weight * (p->optimizer_share - v->share);
    v->forward_s = e->step->forward_s;
    v->stepped = clock_now();
    snprintf(v->line, sizeof v->line, "step %*lld/%s  loss %.4f  lr %.3g  %.0f %s/s  %s left", width,
             (long long)p->step, steps, p->loss, p->lr, v->rate, trainer_about(e->t).unit,
             cli_duration(seconds_left(v, e->t), left));
    cli_progress_show(&v->progress, e->log ? CLI_PLAIN : CLI_STATUS, "%s", v->line);
    if (e->log)
        v->line[0] = '\0';
    return SCION_OK;
}

static scion_status show_stepping(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    const double now = clock_now();
    char left[16];
    (void)err;
    if (e->done <= v->done || v->from == 0) { /* the first of its pass: mars has two of them in a step */
        v->from = e->done;
        v->since = now;
    }
    v->done = e->done;
    if (now - v->since < quiet_s || e->done == e->count)
        return SCION_OK;
    const double each = (now - v->since) / (double)(e->done - v->from);
    cli_progress_show(&v->progress, CLI_WAITING, "step %lld/%lld  micro-batch %lld of %lld  %s left in it",
                      (long long)trainer_about(e->t).step + 1, (long long)trainer_about(e->t).steps,
                      (long long)e->done, (long long)e->count,
                      cli_duration(each * (double)(e->count - e->done), left));
    return SCION_OK;
}

static scion_status show_validating(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    const double spent = clock_now() - v->stepped;
    char left[16];
    (void)err;
    if (spent < quiet_s)
        return SCION_OK;
    cli_progress_show(&v->progress, CLI_WAITING, "step %lld/%lld  validating %.0f %%  %s left",
                      (long long)trainer_about(e->t).step, (long long)trainer_about(e->t).steps,
                      100 * (double)e->done / (double)e->count,
                      cli_duration(spent / (double)e->done * (double)(e->count - e->done), left));
    return SCION_OK;
}

static scion_status show_validation(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    const run_point *p = e->point;
    const double now = clock_now();
    char more[64] = "";
    (void)err;
    v->validating_s += now - v->stepped;
    v->validations++;
    v->stepped = now;
    if (isfinite(p->val_bits_per_byte))
        utf8_append(more, sizeof more, "  %.4f bits per byte", p->val_bits_per_byte);
    if (trainer_about(e->t).reports_accuracy)
        utf8_append(more, sizeof more, "  accuracy %.2f%%", 100 * p->accuracy);
    cli_progress_show(&v->progress, CLI_RESULT, "step %lld  validation loss %.4f%s", (long long)p->step, p->val_loss,
                      more);
    return SCION_OK;
}

/* Shows norms of the weights against their bounds: the paper's norm control. */
static scion_status show_norms(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    const run_norm *worst = run_norms_worst(e->norms, e->count);
    (void)err;
    if (worst && run_norm_exceeded(worst)) {
        char message[256];
        snprintf(message, sizeof message, "step %lld: the norm of %s is %.4g and exceeds its bound %.4g",
                 (long long)worst->step, worst->name, worst->norm, worst->bound);
        cli_progress_warn(v, message);
    } else if (worst && v->show == AS_TEXT) {
        cli_progress_show(&v->progress, CLI_PLAIN,
                          "step %lld  all norms within bounds (closest: %s, %.4g of at most %.4g)",
                          (long long)worst->step, worst->name, worst->norm, worst->bound);
    }
    return SCION_OK;
}

static scion_status keep_path(void *ctx, const run_event *e, scion_error *err)
{
    run_view *v = ctx;
    (void)err;
    snprintf(v->saved, sizeof v->saved, "%s", e->path);
    return SCION_OK;
}

run_sink run_view_sink(run_view *v)
{
    run_sink sink = {.on = {[RUN_MEASURED] = show_norms, [RUN_SAVED] = keep_path}, .ctx = v};
    if (v->show == AS_TEXT) {
        sink.on[RUN_STARTS] = show_start;
        sink.on[RUN_STEPPED] = show_step;
        sink.on[RUN_STEPPING] = show_stepping;
        sink.on[RUN_VALIDATING] = show_validating;
        sink.on[RUN_VALIDATED] = show_validation;
    }
    return sink;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

/* Samples a second overall, and of the steps alone where validations make a difference. */
static const char *speed_of(const trainer *t, const run_result *r, char *text, size_t bytes)
{
    static const double alike = 1.1;
    const double all = (double)(r->taken * trainer_samples(t)) / r->seconds;
    snprintf(text, bytes, "%.0f %s/s", all, trainer_about(t).unit);
    if (r->seconds > alike * r->steps_s)
        utf8_append(text, bytes, " (%.0f without validation)", all * r->seconds / r->steps_s);
    return text;
}

static void print_scores(FILE *to, const trainer *t, const run_result *r)
{
    if (isnan(r->val_loss)) {
        fprintf(to, "loss %.4f, no validation", r->last_loss);
        return;
    }
    fprintf(to, "validation loss %.4f on %lld %s", r->val_loss,
            (long long)(trainer_validation_samples(t, true) * data_about(trainer_about(t).data)->sample_units),
            trainer_about(t).unit);
    if (isfinite(r->val_bits_per_byte))
        fprintf(to, ", %.4f bits per byte", r->val_bits_per_byte);
    if (!trainer_about(t).reports_accuracy)
        return;
    fprintf(to, ", accuracy %.2f%%", 100 * r->accuracy);
    if (r->accuracy != r->plain_accuracy)
        fprintf(to, " (%.2f%% without tta)", 100 * r->plain_accuracy);
}

static void print_done(const run_view *v, const trainer *t, const run_result *r, const char *out)
{
    const data_info *d = data_about(trainer_about(t).data);
    char took[16], speed[64];
    cli_line line;
    FILE *to = cli_line_begin(&line);
    fputs(cli_style_begin(stdout, CLI_SUCCESS), stdout);
    if (r->taken > 0)
        fprintf(to, "%lld step%s in %s, %s, optimizer %.0f%%: ", (long long)r->taken, cli_plural(r->taken),
                cli_duration(r->seconds, took), speed_of(t, r, speed, sizeof speed), 100 * v->share);
    else
        fputs("already complete (steps=N extends it): ", to);
    print_scores(to, t, r);
    cli_line_end(&line, stdout, 4);
    fputs(cli_style_end(stdout, CLI_SUCCESS), stdout);
    cli_print(stdout, "%s\n", v->saved);
    if (data_files(trainer_about(t).data) > 0 && r->skipped > 0)
        printf("%lld image%s could not be read: others took their place in training, validation left them out\n",
               (long long)r->skipped, cli_plural(r->skipped));
    if (d->classes > 0 && trainer_about(t).comm->size > 1)
        cli_fill(stdout, 4, "mistakes, for the report: scion eval %s mistakes=%s/mistakes.json", out, out);
    if (trainer_about(t).model->row->writes && d->tokenizer)
        cli_print(stdout, "generate text: scion sample %s\n", out);
}

void run_view_end(run_view *v, const trainer *t, const run_result *r, const char *out)
{
    if (r->state == RUN_DONE) {
        print_done(v, t, r, out);
        return;
    }
    if (v->line[0]) /* the last loss stays in sight */
        cli_progress_show(&v->progress, CLI_PLAIN, "%s", v->line);
    printf("stopped after step %lld of %lld and saved", (long long)r->step, (long long)r->steps);
    if (!isnan(r->last_loss))
        printf(", loss %.4f", r->last_loss);
    cli_print(stdout, "\nresume with: scion resume %s\n", out);
}
