/* What a search found, as an .ini file that holds the evidence in its comments. See tune.h. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_parts.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/atomic_file.h"
#include "sweep/grid.h"
#include "tune/tune.h"

config tune_result(const tune *t, const config *target)
{
    config c = tune_config(target, &t->trials[t->best].at, 1), fresh;
    config_init(&fresh);
    c.training.threads = fresh.training.threads;
    memcpy(c.run.out, fresh.run.out, sizeof c.run.out);
    return c;
}

void tune_value_text(const tune *t, const tune_point *p, tune_axis axis, char text[CONFIG_TEXT])
{
    const config c = tune_config(&t->base, p, 1);
    grid_pretty(&c, tune_option(axis), text);
}

const char *tune_loss_text(const tune_trial *trial, char text[32])
{
    if (isfinite(trial->loss))
        snprintf(text, 32, "%.4f", trial->loss);
    else
        snprintf(text, 32, "%s", trial->state == LEDGER_WAITING ? "not run" : ledger_state_name(trial->state));
    return text;
}

/* ---- The comments -------------------------------------------------------------------------------------- */

/* "300 steps" or "2.5 epochs" of a rung. */
static const char *length_text(const tune *t, int rung, char text[48])
{
    const tune_point own = {{0}};
    const config c = tune_config(&t->base, &own, tune_share(t, rung));
    if (c.training.steps > 0)
        snprintf(text, 48, "%lld step%s", (long long)c.training.steps, c.training.steps > 1 ? "s" : "");
    else
        snprintf(text, 48, "%.3g epochs", c.training.epochs);
    return text;
}

/* Letters that would end the comment become spaces. */
static void write_line(FILE *to, const char *text)
{
    for (; *text; text++)
        fputc(iscntrl((unsigned char)*text) ? ' ' : *text, to);
    fputc('\n', to);
}

static void write_search(FILE *to, const tune *t)
{
    double seconds = 0;
    int64_t failed = 0, diverged = 0;
    char text[48];
    for (int64_t i = 0; i < t->count; i++) {
        seconds += t->trials[i].seconds;
        failed += t->trials[i].state == LEDGER_FAILED;
        diverged += t->trials[i].state == LEDGER_DIVERGED;
    }
    fprintf(to, "; %lld runs of up to %s, %.3g seconds of training in all; %lld diverged, %lld failed.\n",
            (long long)t->count * t->seeds, length_text(t, t->rungs - 1, text), seconds, (long long)diverged,
            (long long)failed);
    fprintf(to, "; Searched: %lld of %lld points on a grid of powers of two around the preset's values:\n",
            (long long)t->candidates, (long long)tune_space_size(&t->space));
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            fprintf(to, ";   %s x 2^%d..2^%d\n", tune_option((tune_axis)a)->key, t->space.low[a], t->space.high[a]);
    for (int a = 0; a < TUNE_AXES; a++)
        if (t->space.fixed[a])
            fprintf(to, "; %s was not searched: %s.\n", tune_option((tune_axis)a)->key, t->space.fixed[a]);
}

/* The winner beside its neighbours in lr and the preset's own point. */
static void write_comparison(FILE *to, const tune *t)
{
    static const char *const names[] = {"lr x 1/2", "found", "lr x 2"};
    const tune_trial *best = &t->trials[t->best];
    char text[48], loss[32], lr[CONFIG_TEXT];
    fprintf(to, ";\n; Loss at width %lld after %s%s:\n", (long long)t->base.model.width,
            length_text(t, best->rung, text), t->seeds > 1 ? ", mean over the seeds" : "");
    for (int step = -1; step <= 1; step++) {
        tune_point p = best->at;
        p.power[TUNE_LR] += step;
        const int64_t found = tune_find(t, &p, best->rung);
        if (found < 0)
            continue;
        tune_value_text(t, &p, TUNE_LR, lr);
        fprintf(to, ";   %-14s lr %-10s %s\n", names[step + 1], lr, tune_loss_text(&t->trials[found], loss));
    }
    tune_value_text(t, &(tune_point){{0}}, TUNE_LR, lr);
    if (t->own >= 0)
        fprintf(to, ";   %-14s lr %-10s %s\n", "the preset's", lr, tune_loss_text(&t->trials[t->own], loss));
}

/* What the numbers do and do not say. */
static void write_meaning(FILE *to, const tune *t, const config *target)
{
    const tune_trial *best = &t->trials[t->best];
    const long long proxy = t->base.model.width, width = target->model.width;
    fputs(";\n", to);
    if (t->time_up || best->rung < t->rungs - 1)
        fprintf(to, "; %s: the values are the best of rung %d of %d.\n",
                t->time_up ? "The time was up" : "No longer run came to a loss", best->rung + 1, t->rungs);
    else if (!t->settled)
        fputs("; The search along lr did not come to its end: tune again from this file.\n", to);
    for (int a = TUNE_FIRST; a < TUNE_AXES; a++)
        if (tune_at_edge(t, (tune_axis)a))
            fprintf(to, "; %s lies on the edge of what was searched: tune again from this file.\n",
                    tune_option((tune_axis)a)->key);
    if (proxy == width)
        fprintf(to, "; Measured at width %lld itself: nothing is carried over.\n", width);
    else if (tune_carries(target))
        fprintf(
            to,
            "; Carried over from width %lld to %lld: a step of rule %s has the same size in the norms of the layers\n"
            "; at every width, and so the best values stay where they are. To see it for this model: scion sweep "
            "over\n"
            "; width and lr, then scion sweep show.\n",
            proxy, width, target->optimizer.rule);
    else
        fprintf(to,
                "; Carried over from width %lld to %lld. For rule %s nothing promises that the best lr stays where "
                "it is:\n"
                "; check it by scion sweep over width and lr, then scion sweep show.\n",
                proxy, width, target->optimizer.rule);
}

static void write_rung(FILE *to, const tune *t, int rung, int64_t *order)
{
    char text[CONFIG_TEXT], loss[32], length[48];
    const int64_t count = tune_order(t, rung, order);
    if (count == 0)
        return;
    fprintf(to, ";\n; Rung %d of %d, %s:\n; ", rung + 1, t->rungs, length_text(t, rung, length));
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            fprintf(to, " %13s", tune_option((tune_axis)a)->key);
    fputs("           loss\n", to);
    for (int64_t i = 0; i < count; i++) {
        const tune_trial *trial = &t->trials[order[i]];
        fputs("; ", to);
        for (int a = 0; a < TUNE_AXES; a++)
            if (!t->space.fixed[a]) {
                tune_value_text(t, &trial->at, (tune_axis)a, text);
                fprintf(to, " %13s", text);
            }
        fprintf(to, "  %13s\n", tune_loss_text(trial, loss));
    }
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static void write_all(FILE *to, const tune *t, const config *target, const char *command, int64_t *order)
{
    const config c = tune_result(t, target);
    char line[2 * CONFIG_TEXT];
    const char *name = target->preset[0] ? path_end(target->preset) : target->model.name;
    snprintf(line, sizeof line, "; %s at width %lld, tuned at width %lld", name, (long long)target->model.width,
             (long long)t->base.model.width);
    write_line(to, line);
    fputs(";\n;   ", to);
    write_line(to, command);
    fputs(";\n", to);
    write_search(to, t);
    write_comparison(to, t);
    write_meaning(to, t, target);
    for (int rung = t->rungs - 1; rung >= 0; rung--)
        write_rung(to, t, rung, order);
    fputc('\n', to);
    config_write(&c, to, true);
}

/* An .ini file cannot hold every text (a path with " ;" in it, say): what was written must read back. */
static scion_status check_file(const char *written, const config *want, const char *path, scion_error *err)
{
    const config_option *o;
    config got;
    scion_error why;
    config_init(&got);
    if (config_load(&got, written, &why) != SCION_OK)
        return train_fail(err, SCION_EINVAL, "%s: not written, for it could not be read: %.140s", path_end(path),
                          why.message);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (strcmp(o->key, "preset") != 0 && !config_same(&got, want, o))
            return train_fail(err, SCION_EINVAL, "%s: not written, for an .ini file cannot hold this %s",
                              path_end(path), o->key);
    return SCION_OK;
}

scion_status tune_write(const tune *t, const config *target, const char *command, const char *path, scion_error *err)
{
    const config c = tune_result(t, target);
    atomic_file r;
    scion_status status = SCION_ENOMEM;
    char *text = NULL;
    size_t bytes = 0;
    int64_t *order = calloc((size_t)t->count, sizeof *order);
    FILE *memory = open_memstream(&text, &bytes);
    if (order && memory)
        write_all(memory, t, target, command, order);
    if (memory && fclose(memory) == 0 && order)
        status = atomic_begin(&r, path, err);
    else
        train_fail(err, status, "%s: out of memory", path_end(path));
    if (status == SCION_OK)
        status = atomic_write(&r, text, bytes, err);
    if (status == SCION_OK) {
        fflush(r.file); /* should it fail, the check finds less than was written */
        status = check_file(r.temporary, &c, path, err);
        if (status == SCION_OK)
            status = atomic_commit(&r, err);
        else
            atomic_abort(&r);
    }
    free(text);
    free(order);
    return status;
}
