/* scion train, scion resume: sets a run up, shows what it is, runs it. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/file.h"
#include "cli.h"
#include "comm/comm.h"
#include "record/metrics.h"
#include "record/run_dir.h"
#include "ranks/start_check.h"
#include "trainer/trainer_ranks.h"

/* ---- What a run is -------------------------------------------------------------------------------------------
 * A row of the table per parameter; those of repeated blocks that are alike share one, "blocks.0-11.attn.q". */

enum { columns = 7, role_column = 2, first_number = 4, cell_bytes = 64 };

typedef struct table_row {
    char cell[columns][cell_bytes]; /* name, shape, role, norm, scale, radius, elements */
    int64_t elements;
    const char *name;          /* as the optimizer knows it */
    size_t number, number_end; /* where its block's number stands; both 0: there is none */
    int64_t first, last;       /* numbers that it stands for */
} table_row;

static const char *shape_text(const tape_value *v, char text[cell_bytes])
{
    int at = 0;
    for (int i = 0; i < v->ndim; i++)
        at += snprintf(text + at, cell_bytes - (size_t)at, "%s%lld", i > 0 ? " x " : "", (long long)v->shape[i]);
    return text;
}

/* The first part of a name that is a number: 12 of "blocks.12.attn.q". */
static void find_number(table_row *r)
{
    for (const char *part = r->name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
        const size_t digits = strspn(part, "0123456789");
        if (digits == 0 || digits > 9 || (part[digits] != '.' && part[digits] != '\0'))
            continue;
        r->number = (size_t)(part - r->name);
        r->number_end = r->number + digits;
        r->first = r->last = strtoll(part, NULL, 10);
        return;
    }
}

static table_row table_row_of(const trainer *t, int64_t i)
{
    table_row r = {.elements = 0};
    scion_info info = {.size = sizeof info};
    scion_optimizer_inspect(t->optimizer, i, 0, &info, NULL);
    const bool lmo = scion_rule_info(info.rule)->lmo != 0;
    r.name = info.name;
    r.elements = info.elements;
    find_number(&r);
    shape_text(tape_param_at(t->model.tape, i), r.cell[1]);
    snprintf(r.cell[2], cell_bytes, "%s", scion_enum_name(SCION_ENUM_ROLE, (int)info.role));
    snprintf(r.cell[3], cell_bytes, "%s",
             lmo ? scion_enum_name(SCION_ENUM_NORM, (int)info.norm)
                 : scion_enum_name(SCION_ENUM_RULE, (int)info.rule));
    snprintf(r.cell[4], cell_bytes, lmo ? "%.4g" : "-", info.scale);
    snprintf(r.cell[5], cell_bytes, lmo ? "%.4g" : "-", info.radius);
    return r;
}

/* Whether `r` is the same parameter one block later than the last of `group`. */
static bool continues(const table_row *group, const table_row *r)
{
    if (group->number_end == 0 || r->number != group->number || r->first != group->last + 1 ||
        strncmp(r->name, group->name, r->number) != 0 ||
        strcmp(r->name + r->number_end, group->name + group->number_end) != 0)
        return false;
    for (int c = 1; c < columns; c++)
        if (strcmp(r->cell[c], group->cell[c]) != 0)
            return false;
    return true;
}

/* The rows, alike ones folded; their number, -1: out of memory. */
static int64_t make_rows(const trainer *t, table_row **rows)
{
    int64_t count = 0;
    *rows = NULL;
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const table_row r = table_row_of(t, i);
        int64_t k = 0;
        while (k < count && !continues(&(*rows)[k], &r))
            k++;
        if (k < count) {
            (*rows)[k].last = r.first;
            (*rows)[k].elements += r.elements;
            continue;
        }
        table_row *to = array_append(rows, &count, sizeof *to);
        if (!to)
            return -1;
        *to = r;
    }
    for (int64_t k = 0; k < count; k++) {
        table_row *r = &(*rows)[k];
        if (r->last > r->first)
            snprintf(r->cell[0], cell_bytes, "%.*s%lld-%lld%s", (int)r->number, r->name, (long long)r->first,
                     (long long)r->last, r->name + r->number_end);
        else
            snprintf(r->cell[0], cell_bytes, "%s", r->name);
        snprintf(r->cell[columns - 1], cell_bytes, "%lld", (long long)r->elements);
    }
    return count;
}

static void print_row(const table_row *r, const int width[columns])
{
    const char *gap = "";
    for (int c = 0; c < columns; c++) {
        if (width[c] == 0)
            continue;
        printf(c < first_number ? "%s%-*s" : "%s%*s", gap, width[c], r->cell[c]);
        gap = "  ";
    }
    putchar('\n');
}

/* The role is left out where the table would be too wide. */
static void print_routing(const trainer *t)
{
    static const table_row head = {.cell = {"parameter", "shape", "role", "norm", "scale", "radius", "elements"}};
    table_row sum = {.cell = {"in all"}}, *rows;
    const int64_t count = make_rows(t, &rows);
    int width[columns], all = -2;
    snprintf(sum.cell[columns - 1], cell_bytes, "%lld", (long long)t->elements);
    for (int c = 0; c < columns; c++) {
        width[c] = (int)fmax((double)strlen(head.cell[c]), (double)strlen(sum.cell[c]));
        for (int64_t i = 0; i < count; i++)
            width[c] = (int)fmax(width[c], (double)strlen(rows[i].cell[c]));
        all += width[c] + 2;
    }
    if (all > CLI_COLUMNS)
        width[role_column] = 0;
    print_row(&head, width);
    for (int64_t i = 0; i < count; i++)
        print_row(&rows[i], width);
    print_row(&sum, width);
    free(rows);
}

static void print_memory(const trainer_memory *m)
{
    static const double worth_a_line = 0.01;
    char text[7][16];
    printf("memory: weights %s, gradients %s, optimizer %s,\n"
           "        activations %s, evaluation %s; in all %s\n",
           cli_bytes((double)m->weights, text[0]), cli_bytes((double)m->gradients, text[1]),
           cli_bytes((double)m->state + (double)m->workspace, text[2]), cli_bytes((double)m->activations, text[3]),
           cli_bytes((double)m->evaluation, text[4]), cli_bytes((double)m->total, text[5]));
    if (m->per_parameter > 0)
        printf("        %.3g bytes a parameter for weights, gradients and the optimizer's state\n", m->per_parameter);
    if (m->sharing > 0)
        printf("        of these %s for sums and messages of ranks\n", cli_bytes((double)m->sharing, text[6]));
    if (m->packed > 0)
        printf("        of these %s for weights packed once a step\n", cli_bytes((double)m->packed, text[6]));
    if ((double)m->data > worth_a_line * (double)m->total)
        printf("        of these %s for the data\n", cli_bytes((double)m->data, text[6]));
}

/* A part of the validation part is said to be one. A validation that takes longer than the training before it is
 * seldom meant. */
static void print_validation(const trainer *t)
{
    enum { large = 1 << 20 };
    const data_info *d = data_about(t->data);
    const int64_t every = t->c.run.eval_every > 0 ? t->c.run.eval_every : t->steps;
    const int64_t units = trainer_validation_samples(t, false) * d->sample_units;
    const int64_t end = trainer_validation_samples(t, true) * d->sample_units;
    if (units < d->samples[DATA_VAL] * d->sample_units)
        cli_fill(stdout, 12, "validation: on %lld %s%s; %s=0 takes all", (long long)units, trainer_unit(t),
                 t->c.run.eval_batches > 0 ? "" : " spread over them",
                 t->c.run.eval_batches > 0 ? "eval_batches" : "eval_tokens");
    if (end != units)
        cli_fill(stdout, 12, "validation: on %lld %s at the end", (long long)end, trainer_unit(t));
    if (units > large && (double)units > (double)every * (double)trainer_samples(t))
        cli_fill(stdout, 12,
                 "validation: %lld %s each time, more than are trained on in between; eval_tokens=N takes fewer",
                 (long long)units, trainer_unit(t));
}

/* Who shares the work; what travels in a step, and how unevenly. */
static void print_ranks(const trainer *t)
{
    const shard_plan *s = ranks_shards(t);
    char all[16], mean[16], most[16];
    double largest = 0, sum = 0;
    if (!s)
        return;
    for (int r = 0; r < s->ranks; r++) {
        const double bytes = ranks_wire_bytes(t, r, NULL, NULL);
        sum += bytes;
        largest = fmax(largest, bytes);
    }
    cli_fill(stdout, 7, "ranks: %d, %d on this host; in a step %s travel, by one rank %s on average, %s at most",
             s->ranks, comm_world()->local_size, cli_bytes(sum / 2, all), cli_bytes(sum / s->ranks, mean),
             cli_bytes(largest, most));
}

static void print_run(const trainer *t)
{
    cli_fill(stdout, 6, "data: %s", data_about(t->data)->description);
    if (data_about(t->data)->note[0])
        cli_fill(stdout, 6, "note: %s", data_about(t->data)->note);
    cli_fill(stdout, 5, "run: %s %s, lr %g %s, %lld step%s of %lld %s, %d thread%s, into %s", t->c.optimizer.rule,
             config_norms_text(&t->c), t->c.training.lr, t->c.training.schedule, (long long)t->steps,
             cli_plural(t->steps), (long long)trainer_samples(t), trainer_unit(t), t->threads, cli_plural(t->threads),
             t->c.run.out);
    print_ranks(t);
    print_validation(t);
    fflush(stdout);
}

/* ---- Progress ----------------------------------------------------------------------------------------------- */

typedef enum output { AS_TEXT, AS_JSON, NO_OUTPUT } output;

/* The sink that shows a run on the terminal. */
typedef struct run_view {
    output show;
    cli_progress progress;
    double begin;        /* clock */
    int64_t first;       /* step that this process began with */
    double rate, share;  /* samples per second, part of the time in the optimizer: running means */
    double shown;        /* clock when the live line was last written */
    double stepped;      /* clock when the last step ended */
    double since;        /* clock when micro-batch `from` of the present step was done; 0: none yet */
    int64_t from, done;  /* and the last one that is */
    double validating_s; /* in validations of this process, and their number */
    int64_t validations;
    char saved[RUN_PATH]; /* the last checkpoint */
    char line[160];       /* of the last step; "" if it was printed and stays */
} run_view;

/* A line that will be written over is not written more often than can be read. */
static const double live_s = 0.1;

static scion_status show_start(void *ctx, const trainer *t, scion_error *err)
{
    run_view *v = ctx;
    (void)err;
    v->begin = v->stepped = clock_now();
    v->first = t->step;
    cli_progress_show(&v->progress, false, "step %lld/%lld", (long long)t->step, (long long)t->steps);
    return SCION_OK;
}

/* Seconds of a forward pass of a validation: those that were measured, or the forward pass of training. */
static double pass_seconds(const run_view *v, const trainer *t)
{
    return v->validations > 0 ? v->validating_s / (double)(v->validations * trainer_validation_passes(t, false))
                              : t->forward_s / (double)t->c.training.accum;
}

/* Seconds until the end of the run, its validations included, that after the present step as well. */
static double seconds_left(const run_view *v, const trainer *t)
{
    const int64_t every = t->c.run.eval_every;
    const double spent = clock_now() - v->begin - v->validating_s, each = spent / (double)(t->step - v->first);
    const int64_t regular = every > 0 ? t->steps / every - (t->step - 1) / every : 0;
    const int64_t validations = regular + (every == 0 || t->steps % every != 0); /* the last may be a larger one */
    const int64_t passes =
        (validations - 1) * trainer_validation_passes(t, false) + trainer_validation_passes(t, true);
    return each * (double)(t->steps - t->step) + (double)passes * pass_seconds(v, t);
}

static scion_status show_step(void *ctx, const trainer *t, const run_point *p, bool log, scion_error *err)
{
    run_view *v = ctx;
    char left[16], steps[24];
    const bool first = t->step == v->first + 1;
    const int width = snprintf(steps, sizeof steps, "%lld", (long long)t->steps);
    (void)err;
    v->rate += (first ? 1 : 0.1) * (p->samples_per_s - v->rate);
    v->share += (first ? 1 : 0.1) * (p->optimizer_share - v->share);
    v->stepped = clock_now();
    snprintf(v->line, sizeof v->line, "step %*lld/%s  loss %.4f  lr %.3g  %.0f %s/s  %s left", width,
             (long long)t->step, steps, p->loss, p->lr, v->rate, trainer_unit(t),
             cli_duration(seconds_left(v, t), left));
    if (!log && v->stepped - v->shown < live_s)
        return SCION_OK;
    v->shown = v->stepped;
    cli_progress_show(&v->progress, log, "%s", v->line);
    if (log)
        v->line[0] = '\0';
    return SCION_OK;
}

/* What goes on in a step or a validation is shown if one could think that the program stands still. */
static const double quiet_s = 2;

static scion_status show_stepping(void *ctx, const trainer *t, int64_t done, int64_t count, scion_error *err)
{
    run_view *v = ctx;
    const double now = clock_now();
    char left[16];
    (void)err;
    if (done <= v->done || v->from == 0) { /* the first of its pass: mars has two of them in a step */
        v->from = done;
        v->since = now;
    }
    v->done = done;
    if (now - v->since < quiet_s || now - v->shown < live_s || done == count)
        return SCION_OK;
    v->shown = now;
    cli_progress_show(&v->progress, false, "step %lld/%lld  micro-batch %lld of %lld  %s left in it",
                      (long long)t->step + 1, (long long)t->steps, (long long)done, (long long)count,
                      cli_duration((now - v->since) / (double)(done - v->from) * (double)(count - done), left));
    return SCION_OK;
}

static scion_status show_validating(void *ctx, const trainer *t, int64_t done, int64_t count, scion_error *err)
{
    run_view *v = ctx;
    const double now = clock_now(), spent = now - v->stepped;
    char left[16];
    (void)err;
    if (spent < quiet_s || now - v->shown < live_s)
        return SCION_OK;
    v->shown = now;
    cli_progress_show(&v->progress, false, "step %lld/%lld  validating %.0f %%  %s left", (long long)t->step,
                      (long long)t->steps, 100 * (double)done / (double)count,
                      cli_duration(spent / (double)done * (double)(count - done), left));
    return SCION_OK;
}

static scion_status show_validation(void *ctx, const trainer *t, const run_point *p, scion_error *err)
{
    run_view *v = ctx;
    (void)err;
    const double now = clock_now();
    v->validating_s += now - v->stepped;
    v->validations++;
    v->stepped = now;
    if (trainer_reports_accuracy(t))
        cli_progress_styled(&v->progress, CLI_RESULT, "step %lld  validation loss %.4f  accuracy %.2f%%",
                            (long long)p->step, p->val_loss, 100 * p->accuracy);
    else
        cli_progress_styled(&v->progress, CLI_RESULT, "step %lld  validation loss %.4f", (long long)p->step,
                            p->val_loss);
    return SCION_OK;
}

static void warn(void *ctx, const char *message)
{
    run_view *v = ctx;
    cli_progress_clear(&v->progress);
    cli_warning(message);
}

/* Norms of the weights against their bounds: the paper's norm control, made visible. */
static scion_status show_norms(void *ctx, const trainer *t, const run_norm *norms, int64_t count, scion_error *err)
{
    run_view *v = ctx;
    const run_norm *worst = run_norms_worst(norms, count);
    (void)err;
    if (worst && run_norm_exceeded(worst)) {
        char message[256];
        snprintf(message, sizeof message, "step %lld: the norm of %s is %.4g and exceeds its bound %.4g",
                 (long long)t->step, worst->name, worst->norm, worst->bound);
        warn(v, message);
    } else if (worst && v->show == AS_TEXT) {
        cli_progress_show(&v->progress, true, "step %lld  norms within their bounds (%s: %.4g of %.4g)",
                          (long long)t->step, worst->name, worst->norm, worst->bound);
    }
    return SCION_OK;
}

static scion_status show_saved(void *ctx, const trainer *t, const char *path, scion_error *err)
{
    run_view *v = ctx;
    (void)t;
    (void)err;
    snprintf(v->saved, sizeof v->saved, "%s", path);
    return SCION_OK;
}

static bool interrupted(void *ctx)
{
    (void)ctx;
    return cli_interrupted();
}

/* ---- The run ------------------------------------------------------------------------------------------------ */

/* Samples a second of the whole, and of the steps alone where validations make that another number. */
static const char *speed_of(const trainer *t, const run_result *r, char *text, size_t bytes)
{
    static const double alike = 1.1;
    const double all = (double)(r->taken * trainer_samples(t)) / r->seconds;
    const int at = snprintf(text, bytes, "%.0f %s/s", all, trainer_unit(t));
    if (r->seconds > alike * r->steps_s)
        snprintf(text + at, bytes - (size_t)at, " (%.0f in its steps alone)", all * r->seconds / r->steps_s);
    return text;
}

static void print_end(const trainer *t, const run_result *r, const run_view *v)
{
    char took[16], text[160], speed[64];
    const bool validated = !isnan(r->val_loss);
    int at = 0;
    if (validated)
        at = snprintf(text, sizeof text, "validation loss %.4f", r->val_loss);
    else
        at = snprintf(text, sizeof text, "loss %.4f, no validation", r->last_loss);
    if (validated && trainer_reports_accuracy(t))
        at += snprintf(text + at, sizeof text - (size_t)at, ", accuracy %.2f%%", 100 * r->accuracy);
    if (validated && trainer_reports_accuracy(t) && r->accuracy != r->plain_accuracy)
        at += snprintf(text + at, sizeof text - (size_t)at, " (%.2f%% without tta)", 100 * r->plain_accuracy);
    if (validated && isfinite(r->baseline))
        snprintf(text + at, sizeof text - (size_t)at, " (AdamW: %.4f)", r->baseline);
    fputs(cli_style_begin(stdout, CLI_SUCCESS), stdout);
    if (r->taken > 0)
        cli_fill(stdout, 4, "%lld step%s in %s, %s, optimizer %.0f%%: %s", (long long)r->taken, cli_plural(r->taken),
                 cli_duration(r->seconds, took), speed_of(t, r, speed, sizeof speed), 100 * v->share, text);
    else
        cli_fill(stdout, 4, "the run had ended (steps=N continues it): %s", text);
    printf("%s%s\n", cli_style_end(stdout, CLI_SUCCESS), v->saved);
    if (data_about(t->data)->image && r->skipped > 0)
        printf("%lld image%s could not be read: others took their place in training, validation left them out\n",
               (long long)r->skipped, cli_plural(r->skipped));
    if (config_model(&t->c)->decode && data_about(t->data)->vocabulary)
        printf("generate text: scion sample %s\n", t->c.run.out);
}

static void print_stop(const trainer *t, const run_result *r, run_view *v)
{
    if (v->line[0]) /* the last loss stays in sight */
        cli_progress_show(&v->progress, true, "%s", v->line);
    printf("stopped after step %lld of %lld and saved", (long long)t->step, (long long)t->steps);
    if (!isnan(r->last_loss))
        printf(", loss %.4f", r->last_loss);
    printf("\nresume with: scion resume %s\n", t->c.run.out);
}

/* What ranks sent in all, and how long they waited for each other; on every rank. */
typedef struct sent_totals {
    double gradients, weights, waited;
} sent_totals;

static sent_totals add_totals(const run_result *r)
{
    comm *c = comm_world();
    sent_totals n = {(double)c->sent[COMM_GRADIENTS], (double)c->sent[COMM_WEIGHTS],
                     r->comm_s / (r->forward_s + r->backward_s + r->optimizer_s + r->comm_s)};
    comm_sum(c, &n.gradients, 3, NULL);
    n.waited /= c->size;
    return n;
}

static void print_totals(const sent_totals *n, const run_result *r)
{
    if (comm_world()->size > 1 && r->taken > 0)
        cli_fill(stdout, 4,
                 "ranks sent %.0f bytes of gradients and %.0f of weights in a step; %.0f%% of the time they "
                 "waited for each other",
                 n->gradients / (double)r->taken, n->weights / (double)r->taken, 100 * n->waited);
}

/* Trains, shows it, and says how it ended; elapsed: seconds of the run before it was resumed. Returns the program's
 * exit status. */
static int train(trainer *t, output show, double elapsed)
{
    const bool first = ranks_first(t);
    run_view v = {.show = show, .progress = cli_progress_start(stdout)};
    metrics *m;
    const run_sink folder = metrics_sink(&m), json = metrics_print_sink(stdout), none = {.ctx = NULL};
    run_sink view = {.norms = show_norms, .saved = show_saved, .ctx = &v}; /* warnings at least */
    const run_sink *const sinks[] = {&folder, &view, show == AS_JSON ? &json : &none};
    run_policy policy = run_policy_of(&t->c);
    run_result r;
    int sinks_failed;
    char moved[CONFIG_TEXT];
    scion_error err;
    policy.stop = interrupted;
    policy.warn = warn;
    policy.warn_ctx = &v;
    policy.elapsed = elapsed;
    if (show == AS_TEXT) {
        view.start = show_start;
        view.step = show_step;
        view.validating = show_validating;
        view.stepping = show_stepping;
        view.validation = show_validation;
    }
    cli_catch_signals();
    const scion_status status = run_train(t, &policy, sinks, first ? 3 : 0, &r, &sinks_failed, &err);
    const sent_totals totals = add_totals(&r);
    if (!first)
        return status == SCION_OK ? CLI_OK : CLI_FAILED;
    metrics_close(m);
    cli_progress_clear(&v.progress);
    if (run_dir_moved(t, moved)) {
        char message[2 * CONFIG_TEXT + 64];
        snprintf(message, sizeof message, "the folder of this run was moved from %s to %s", t->c.run.out, moved);
        warn(&v, message);
        snprintf(t->c.run.out, sizeof t->c.run.out, "%s", moved);
        v.saved[0] = '\0';
    }
    if (status != SCION_OK) {
        cli_error(CLI_FAILED, "%s", err.message);
        if (!file_folder_gone(t->folder) && run_dir_latest(t->c.run.out, v.saved, NULL) == SCION_OK)
            cli_error(CLI_FAILED, "the last checkpoint is %s", v.saved);
        return CLI_FAILED;
    }
    if (!v.saved[0])
        run_dir_latest(t->c.run.out, v.saved, NULL);
    if (show == AS_TEXT && r.state == RUN_DONE)
        print_end(t, &r, &v);
    else if (show == AS_TEXT)
        print_stop(t, &r, &v);
    if (show == AS_TEXT)
        print_totals(&totals, &r);
    return sinks_failed > 0
               ? cli_error(CLI_FAILED, "%s: its metrics are incomplete, the checkpoints are not", t->c.run.out)
               : CLI_OK;
}

/* ---- The commands ------------------------------------------------------------------------------------------- */

/* Name of a run that was given none: runs/ and its preset. */
static void name_run(config *c)
{
    char name[CONFIG_TEXT - 32], base[CONFIG_TEXT];
    file_name(c->preset[0] ? c->preset : c->model, ".ini", name, sizeof name);
    snprintf(base, sizeof base, "runs/%s", name);
    run_dir_free_name(base, c->run.out);
}

enum { JSON, QUIET, FORCE };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "print the lines of metrics.jsonl, and the summary as the last one"),
    [QUIET] = CLI_SWITCH("--quiet", "print errors and warnings alone"),
    {0},
};

static output output_of(const cli_arguments *a)
{
    return a->values[QUIET] ? NO_OUTPUT : a->values[JSON] ? AS_JSON : AS_TEXT;
}

/* Removes the folder of a run that failed before its first step, if nothing is in it. */
static void remove_empty(int folder, const char *dir)
{
    struct stat about;
    if (fstatat(folder, "metrics.jsonl", &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_size == 0)
        unlinkat(folder, "metrics.jsonl", 0);
    rmdir(dir);
}

/* Shown to first-time users. */
static const char first_steps[] =
    "usage: scion train [PRESET] [key=value ...]\n\n"
    "Any text file will do; the usual one is a megabyte of Shakespeare:\n\n"
    "  curl -O https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt\n"
    "  scion train shakespeare data=input.txt      two minutes on two cores\n"
    "  scion sample runs/shakespeare               text that it generates\n\n"
    "Without a text: scion train shakespeare data_kind=synthetic\n"
    "scion presets lists what else can be trained; see also scion train --help.\n";

/* init=RUN: its model is what settings begin with, as if a preset had named it. */
static scion_status take_init(config *c, const cli_arguments *a, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < a->pair_count; i++)
        if (strncmp(a->pairs[i], "init=", 5) == 0 && a->pairs[i][5])
            status = trainer_model_of(c, a->pairs[i] + 5, err);
    return status;
}

/* ---- Ranks ---- */

/* A rank is lost: says so, and where the run can be resumed. */
static void tell_lost(void *ctx, const char *message)
{
    const char *out = ctx;
    char latest[RUN_PATH];
    fprintf(stderr, "scion: rank %d: %s\n", comm_world()->rank, message);
    if (comm_world()->rank == 0 && out[0] && run_dir_latest(out, latest, NULL) == SCION_OK)
        fprintf(stderr, "scion: the last checkpoint is %s\n", latest);
}

/* Joins the other ranks, of whom the first alone tells of errors that all know. False after printing an error. */
static bool join_ranks(void)
{
    scion_error err;
    if (comm_join(&err) != SCION_OK) {
        cli_error(CLI_FAILED, "%s", err.message);
        return false;
    }
    if (comm_world()->rank != 0)
        cli_mute_errors();
    return true;
}

/* All ranks agree on a status, that of the lowest which failed; its message is printed with its number. The exit
 * status of the command: `otherwise`, or CLI_OK. */
static int agree(scion_status status, scion_error *err, int otherwise)
{
    int who;
    comm *c = comm_world();
    status = comm_agree(c, status, err, &who);
    if (status == SCION_OK)
        return CLI_OK;
    if (who > 0)
        return cli_error(otherwise, "rank %d on %s: %s", who, c->peers[who].host, err->message);
    return cli_error(otherwise, "%s", err->message);
}

/* ---- The settings of a new run ---- */

/* Sets the configuration as the arguments say. */
static scion_status read_settings(config *c, const cli_arguments *a, scion_error *err)
{
    scion_status status = take_init(c, a, err);
    if (status == SCION_OK && a->word_count == 1)
        status = config_preset(c, a->words[0], err);
    for (int i = 0; status == SCION_OK && i < a->pair_count; i++)
        status = config_set_pair(c, a->pairs[i], err);
    if (status == SCION_OK && !c->data.path[0] && data_needs_path(c->data.kind))
        status = train_fail(err, SCION_EINVAL,
                            "nothing to learn from: give data=FILE, or data_kind=synthetic (scion train without "
                            "arguments says where to get a text, scion data get fetches images)");
    if (status == SCION_OK && !c->run.out[0])
        name_run(c);
    if (status == SCION_OK)
        status = config_check(c, err);
    return status == SCION_OK ? config_check_lr(c, err) : status;
}

/* The folder is rank 0's. */
static scion_status make_folder(trainer *t, int *lock, bool *made, scion_error *err)
{
    if (comm_world()->rank != 0)
        return SCION_OK;
    *made = !file_exists(t->c.run.out);
    const scion_status status = run_dir_create(t->c.run.out, lock, err);
    t->folder = *lock;
    return status;
}

static void print_start(const trainer *t)
{
    print_routing(t);
    print_memory(&t->memory);
    print_run(t);
    if (t->c.training.init[0])
        cli_fill(stdout, 6, "init: weights of %s, after its step %lld", t->c.training.init, (long long)t->init_step);
    fflush(stdout);
}

static int train_command(cli_arguments *a)
{
    config c;
    trainer *t = NULL;
    scion_error err;
    int status = CLI_USAGE, lock = -1;
    bool made = false;
    if (a->word_count + a->pair_count == 0) {
        fputs(first_steps, stderr);
        return CLI_USAGE;
    }
    cli_outlive_reader();
    config_init(&c);
    if (!cli_words(a, 1, "one preset at most, then key=value"))
        return CLI_USAGE;
    if (!join_ranks())
        return CLI_FAILED;
    status = agree(read_settings(&c, a, &err), &err, CLI_USAGE);
    if (status != CLI_OK)
        goto done;
    comm_world()->timeout = c.training.comm_timeout;
    comm_world()->lost = tell_lost;
    comm_world()->lost_ctx = c.run.out;
    status = agree(start_check_settings(comm_world(), &c, &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(trainer_create(&t, &c, &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(start_check_data(comm_world(), data_about(t->data), &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(make_folder(t, &lock, &made, &err), &err, CLI_FAILED);
    if (status != CLI_OK)
        goto done;
    ranks_begin(t);
    const output show = ranks_first(t) ? output_of(a) : NO_OUTPUT;
    if (show == AS_TEXT)
        print_start(t);
    status = train(t, show, 0);
done:
    if (made && lock >= 0 && status == CLI_FAILED && t->step == 0)
        remove_empty(lock, c.run.out);
    if (lock >= 0)
        close(lock);
    trainer_free(t);
    comm_leave();
    return status;
}

/* Resumes in the folder of the checkpoint, or in another (out=DIR), which may not hold a run. */
static scion_status resume_folder(trainer *t, const char *path, const cli_arguments *a, int *lock, scion_error *err)
{
    char elsewhere[CONFIG_TEXT] = "";
    for (int i = 0; i < a->pair_count; i++)
        if (strncmp(a->pairs[i], "out=", 4) == 0)
            snprintf(elsewhere, sizeof elsewhere, "%s", a->pairs[i] + 4);
    run_dir_of(path, t->c.run.out);
    if (elsewhere[0] && strcmp(elsewhere, t->c.run.out) != 0) {
        snprintf(t->c.run.out, sizeof t->c.run.out, "%s", elsewhere);
        return run_dir_create(t->c.run.out, lock, err);
    }
    const scion_status status = run_dir_lock(t->c.run.out, lock, err);
    if (status != SCION_OK)
        return status;
    if (file_is_folder(a->words[0]) && run_dir_newest(*lock) != t->step)
        return train_fail(err, SCION_EINVAL, "%s: another process went on with this run meanwhile; try again",
                          t->c.run.out);
    const int later = run_dir_set_aside(*lock, t->step);
    if (later > 0 && output_of(a) == AS_TEXT)
        printf("set aside (renamed to *.aside): %d checkpoint%s of later steps\n", later, later > 1 ? "s" : "");
    return SCION_OK;
}

static const cli_argument resume_arguments[] = {
    [JSON] = CLI_SWITCH("--json", "print the lines of metrics.jsonl, and the summary as the last one"),
    [QUIET] = CLI_SWITCH("--quiet", "print errors and warnings alone"),
    [FORCE] = CLI_SWITCH("--force", "change lr, schedule, ...: it is no longer the same run"),
    {0},
};

/* What becomes of the step sizes, if they are not those that the run was begun with. */
static void print_course(const trainer *t)
{
    const int64_t next = t->step + 1;
    const bool longer = t->steps != t->steps_before;
    if (longer)
        cli_fill(stdout, 4, "steps: %lld, were %lld; the schedule %s now spans all of them", (long long)t->steps,
                 (long long)t->steps_before, t->c.training.schedule);
    if (t->changes)
        cli_fill(stdout, 4, "not the same run any more: %s", t->changes);
    if ((longer || t->changes) && t->step < t->steps)
        cli_fill(stdout, 4, "lr: %.4g in step %lld, %.4g in step %lld", t->lr_before, (long long)t->step,
                 trainer_lr(t), (long long)next);
}

/* Finds and opens the run that is the only word. */
static scion_status open_run(trainer **t, const cli_arguments *a, char path[RUN_PATH], scion_error *err)
{
    const scion_status status = run_dir_latest(a->words[0], path, err);
    if (status != SCION_OK)
        return status;
    return a->values[FORCE] ? trainer_resume_changed(t, path, a->pairs, a->pair_count, err)
                            : trainer_resume(t, path, a->pairs, a->pair_count, err);
}

/* The others read the checkpoint that rank 0 finds, before the folder changes. */
static scion_status find_folder(trainer *t, const char *path, const cli_arguments *a, int *lock, scion_error *err)
{
    if (comm_world()->rank != 0)
        return SCION_OK;
    const scion_status status = resume_folder(t, path, a, lock, err);
    t->folder = *lock;
    return status;
}

static int resume_command(cli_arguments *a)
{
    char path[RUN_PATH], from[CONFIG_TEXT];
    trainer *t = NULL;
    scion_error err;
    int status = CLI_USAGE, lock = -1;
    cli_outlive_reader();
    if (a->word_count == 0)
        return cli_error(CLI_USAGE, "give the folder of a run, or a checkpoint");
    if (!cli_words(a, 1, "one run"))
        return CLI_USAGE;
    if (!join_ranks())
        return CLI_FAILED;
    status = agree(open_run(&t, a, path, &err), &err, CLI_FAILED);
    if (status != CLI_OK)
        goto done;
    comm_world()->timeout = t->c.training.comm_timeout;
    comm_world()->lost = tell_lost;
    comm_world()->lost_ctx = t->c.run.out;
    status = agree(start_check_settings(comm_world(), &t->c, &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(start_check_data(comm_world(), data_about(t->data), &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(start_check_position(comm_world(), t, &err), &err, CLI_FAILED);
    if (status == CLI_OK)
        status = agree(find_folder(t, path, a, &lock, &err), &err, CLI_FAILED);
    if (status != CLI_OK)
        goto done;
    const output show = ranks_first(t) ? output_of(a) : NO_OUTPUT;
    if (show == AS_TEXT) {
        print_run(t);
        printf("resuming after step %lld of %lld, from %s\n", (long long)t->step, (long long)t->steps, path);
        print_course(t);
        fflush(stdout);
    }
    run_dir_of(path, from);
    status = train(t, show, ranks_first(t) ? metrics_elapsed(from, t->step) : 0);
done:
    if (lock >= 0)
        close(lock);
    trainer_free(t);
    comm_leave();
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .usage = "[PRESET] [key=value ...] [--json | --quiet]",
    .summary = "train a model",
    .help =
        "PRESET is a name listed by scion presets, or an .ini file. Later settings override earlier ones.\n"
        "The folder of the run (out=DIR) holds metrics.jsonl, summary.json and checkpoints. Ctrl-C saves\n"
        "and prints how to resume.\n\n"
        "  scion train shakespeare data=input.txt\n"
        "  scion train shakespeare data=input.txt rule=adamw lr=2^-8 out=runs/adamw\n"
        "  scion train mlp data=cifar10\n"
        "  scion train init=runs/shakespeare data=other.txt     go on from its weights\n"
        "  scion train nanogpt-124m data='fineweb/*.bin' batch=4 accum=128 light=1\n"
        "  mpirun -n 4 scion train nanogpt-124m data='fineweb/*.bin'     on four ranks\n\n"
        "data may be a text, a folder of texts, or packed with gzip or zstd; val_data=FILE is validated on instead\n"
        "of its last tenth. Token shards for the nanogpt presets are fetched by python data/cached_fineweb10B.py 9\n"
        "(modded-nanogpt) or made by python dev/data/fineweb.py (llm.c); docs/file-formats.md has six lines that\n"
        "write shards of other tokens.\n\n"
        "scion presets lists the presets, scion presets --options all settings.\n",
    .run = train_command,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
    .ranks = CLI_ALL_RANKS,
};

const cli_command cli_resume = {
    .name = "resume",
    .usage = "RUN [key=value ...] [--json | --quiet]",
    .summary = "resume a run that was stopped",
    .help = "RUN is the folder of a run (its newest checkpoint is used) or a checkpoint. Settings that decide\n"
            "what a run computes cannot be changed; out, steps, threads, data, val_data and the intervals of\n"
            "logging and saving can; with --force the step sizes too (lr, schedule, warmup, decay, ...).\n"
            "scion train init=RUN starts a new run from the weights.\n\n"
            "  scion resume runs/shakespeare\n"
            "  scion resume runs/shakespeare/step-00000200.safetensors out=runs/branch\n",
    .run = resume_command,
    .arguments = resume_arguments,
    .options = CLI_RESUME_OPTIONS,
    .words = CLI_FILES,
    .ranks = CLI_ALL_RANKS,
};
