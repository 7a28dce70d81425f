/* See metrics.h. A line is one write, so that a killed run leaves at most its last line unfinished. */
#define _GNU_SOURCE 1 /* asprintf */
#include "record/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"
#include "util/atomic_file.h"
#include "record/mistakes.h"

struct metrics {
    int fd;
    int folder; /* open, < 0: the path says */
    char path[4096];
};

/* ---- Going on ---------------------------------------------------------------------------------------------- */

/* The step of a line, -1: it is no line of metrics. */
static int64_t step_of(const char *line, size_t length, bool *validation)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    const int64_t value = json_is_integer(step) ? json_integer_value(step) : -1;
    *validation = json_object_get(object, "val_loss") != NULL;
    json_decref(object);
    return value;
}

/* Length of the lines up to `step`, or to its validation (which is its last line). What follows is later, or the end
 * that a killed run or a power failure left. A line that cannot be read before one that stays is neither: *bad is its
 * number, else 0. */
static off_t kept_length(FILE *file, int64_t step, bool validation_due, long *bad)
{
    char *line = NULL;
    size_t capacity = 0;
    long number = 0, unread = 0; /* unread: the first line that cannot be read */
    off_t kept = 0;
    bool later = false;
    *bad = 0;
    for (ssize_t n; *bad == 0 && (n = getline(&line, &capacity, file)) > 0;) {
        bool validation = false;
        const int64_t found = line[n - 1] == '\n' ? step_of(line, (size_t)n, &validation) : -1;
        number++;
        if (found < 0) {
            unread = unread > 0 ? unread : number;
            continue;
        }
        later = later || found > step || (found == step && validation && validation_due);
        if (!later) {
            *bad = unread;
            kept += n;
        }
    }
    free(line);
    return kept;
}

static scion_status cut(const metrics *m, int64_t step, bool validation_due, scion_error *err)
{
    const char *shown = path_end(m->path);
    off_t kept = 0;
    long bad = 0;
    if (step > 0) {
        const int fd = openat(file_at(m->folder), file_in(m->folder, m->path), O_RDONLY | O_CLOEXEC);
        FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
        if (!file)
            return train_fail(err, SCION_EINVAL, "%s: %s", shown, strerror(errno));
        kept = kept_length(file, step, validation_due, &bad);
        const bool unread = ferror(file) != 0;
        fclose(file);
        if (unread)
            return train_fail(err, SCION_EINVAL, "%s: cannot be read to its end", shown);
    }
    if (bad > 0)
        return train_fail(err, SCION_ESTATE, "%s:%ld: not a line of metrics (a JSON object with a step)", shown, bad);
    if (ftruncate(m->fd, kept) != 0)
        return train_fail(err, SCION_EINVAL, "%s: cannot be cut to step %lld: %s", shown, (long long)step,
                          strerror(errno));
    return SCION_OK;
}

/* The number under a key of an object, if that is of a step up to `step`; else `other`. */
static double elapsed_of(const json_t *object, const char *step_key, int64_t step, double other)
{
    const json_t *at = json_object_get(object, step_key), *value = json_object_get(object, "elapsed");
    const double elapsed = json_number_value(value);
    return json_is_number(at) && json_number_value(at) <= (double)step && elapsed >= 0 && isfinite(elapsed)
               ? fmax(elapsed, other)
               : other;
}

double metrics_elapsed(const char *dir, int64_t step)
{
    char path[4096], *line = NULL;
    size_t capacity = 0;
    double elapsed = 0;
    FILE *file =
        (size_t)snprintf(path, sizeof path, "%s/metrics.jsonl", dir) < sizeof path ? fopen(path, "re") : NULL;
    for (ssize_t n; file && (n = getline(&line, &capacity, file)) > 0;) {
        json_t *object = json_loadb(line, (size_t)n, 0, NULL);
        elapsed = elapsed_of(object, "step", step, elapsed);
        json_decref(object);
    }
    if (file)
        fclose(file);
    free(line);
    if ((size_t)snprintf(path, sizeof path, "%s/summary.json", dir) < sizeof path) {
        json_t *summary = json_load_file(path, 0, NULL);
        elapsed = elapsed_of(summary, "steps", step, elapsed);
        json_decref(summary);
    }
    return elapsed;
}

scion_status metrics_open(metrics **out, int folder, const char *dir, int64_t step, bool validation_due,
                          scion_error *err)
{
    metrics *m = calloc(1, sizeof *m);
    struct stat about;
    scion_status status = SCION_OK;
    *out = NULL;
    if (!m)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(dir));
    m->fd = -1;
    m->folder = folder;
    if ((size_t)snprintf(m->path, sizeof m->path, "%s/metrics.jsonl", dir) >= sizeof m->path)
        status = train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(dir));
    if (status == SCION_OK) {
        m->fd = openat(file_at(folder), file_in(folder, m->path),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
        if (m->fd < 0 && errno == ELOOP) /* it is cut: not where somebody else wants it */
            status = train_fail(err, SCION_EINVAL, "%s: is a link, not a file", path_end(m->path));
        else if (m->fd < 0 || fstat(m->fd, &about) != 0)
            status = train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(m->path), strerror(errno));
        else if (!S_ISREG(about.st_mode))
            status = train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(m->path));
        else
            status = cut(m, step, validation_due, err);
    }
    if (status != SCION_OK)
        metrics_close(m);
    else
        *out = m;
    return status;
}

scion_status metrics_flush(metrics *m, scion_error *err)
{
    if (file_flush(m->fd) == 0)
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(m->path), strerror(errno));
}

void metrics_close(metrics *m)
{
    if (!m)
        return;
    if (m->fd >= 0) {
        file_flush(m->fd);
        close(m->fd);
    }
    free(m);
}

/* ---- Lines ------------------------------------------------------------------------------------------------- */

/* A text as a JSON string, quotation marks included; the caller frees it. What is not UTF-8 becomes "?". */
static char *json_quoted(const char *text)
{
    json_t *string = json_string(text);
    char *quoted;
    if (!string)
        string = json_string("?");
    quoted = json_dumps(string, JSON_ENCODE_ANY);
    json_decref(string);
    return quoted;
}

static scion_status append(metrics *m, const char *line, scion_error *err)
{
    const size_t length = strlen(line);
    const off_t before = lseek(m->fd, 0, SEEK_END);
    size_t done = 0;
    int reason = 0;
    while (done < length && reason == 0) {
        const ssize_t written = write(m->fd, line + done, length - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            reason = written < 0 ? errno : ENOSPC;
    }
    if (reason == 0 && !file_folder_gone(m->folder))
        return SCION_OK;
    if (reason == 0)
        return train_fail(err, SCION_EINVAL, "%s: the folder of this run was removed or replaced", path_end(m->path));
    const bool clean = done == 0 || (before >= 0 && ftruncate(m->fd, before) == 0);
    return train_fail(err, SCION_EINVAL, "%s: cannot be written: %s%s", path_end(m->path), strerror(reason),
                      clean ? "" : "; its last line is unfinished");
}

enum { line_bytes = 512 };

/* A line of a step or a validation. */
static const char *point_line(const run_point *p, char line[line_bytes])
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT], d[NUMBER_TEXT], clock[32];
    struct tm utc;
    const time_t seconds = (time_t)p->time;
    int at;
    if (run_is_validation(p))
        at = snprintf(line, line_bytes, "{\"step\":%lld,\"val_loss\":%s,\"accuracy\":%s", (long long)p->step,
                      json_number_text(p->val_loss, a), json_number_text(p->accuracy, b));
    else
        at = snprintf(line, line_bytes,
                      "{\"step\":%lld,\"loss\":%s,\"lr\":%s,\"tokens_per_s\":%s,\"optimizer_share\":%s",
                      (long long)p->step, json_number_text(p->loss, a), json_number_text(p->lr, b),
                      json_number_text(p->samples_per_s, c), json_number_text(p->optimizer_share, d));
    if (run_is_validation(p) && !isnan(p->top5))
        at += snprintf(line + at, (size_t)(line_bytes - at), ",\"top5\":%s", json_number_text(p->top5, a));
    if (p->unit && gmtime_r(&seconds, &utc) && strftime(clock, sizeof clock, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        at += snprintf(line + at, (size_t)(line_bytes - at), ",\"time\":\"%s\",\"elapsed\":%s,\"%s\":%s", clock,
                       json_number_text(round(1e3 * p->elapsed) / 1e3, a), p->unit, json_number_text(p->samples, b));
    snprintf(line + at, (size_t)(line_bytes - at), "}\n");
    return line;
}

scion_status metrics_point(metrics *m, const run_point *p, scion_error *err)
{
    char line[line_bytes];
    return append(m, point_line(p, line), err);
}

/* A line of a norm, which the caller frees; NULL: no memory. */
static char *norm_line(const run_norm *n)
{
    char *line = NULL, a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT], *quoted = json_quoted(n->name);
    const double ratio = isinf(n->bound) ? NAN : n->norm / n->bound;
    if (quoted &&
        asprintf(&line, "{\"step\":%lld,\"name\":%s,\"norm\":%s,\"bound\":%s,\"ratio\":%s}\n", (long long)n->step,
                 quoted, json_number_text(n->norm, a), json_number_text(n->bound, b), json_number_text(ratio, c)) < 0)
        line = NULL;
    free(quoted);
    return line;
}

scion_status metrics_norm(metrics *m, const run_norm *n, scion_error *err)
{
    char *line = norm_line(n);
    const scion_status status =
        line ? append(m, line, err) : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(m->path));
    free(line);
    return status;
}

/* ---- The summary ------------------------------------------------------------------------------------------- */

/* The object as text, which the caller frees; NULL: no memory. In several lines, or in one. */
static char *summary_text(const run_result *r, int64_t samples, const config *c, bool lines)
{
    static const char *const states[] = {
        [RUN_UNFINISHED] = "stopped", [RUN_DONE] = "done", [RUN_DIVERGED] = "diverged", [RUN_FAILED] = "failed"};
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"steps", (double)r->step},
        {"seconds", r->seconds},
        {"elapsed", r->elapsed},
        {"forward_s", r->forward_s},
        {"backward_s", r->backward_s},
        {"optimizer_s", r->optimizer_s},
        {"tokens", (double)r->samples},
        {"tokens_per_s", (double)(r->taken * samples) / r->seconds},
        {"parameters", (double)r->parameters},
        {"loss", r->last_loss},
        {"val_loss", r->val_loss},
        {"best_val_loss", r->best_val_loss},
        {"accuracy", r->accuracy},
        {"peak_bytes", r->peak_bytes},
    };
    char *text = NULL, number[NUMBER_TEXT], *settings = config_to_values(c);
    size_t bytes = 0;
    FILE *to = settings ? open_memstream(&text, &bytes) : NULL;
    if (to) {
        const char *begin = lines ? "\n  " : "", *colon = lines ? ": " : ":";
        fprintf(to, "{%s\"state\"%s\"%s\"", begin, colon, states[r->state]);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            fprintf(to, ",%s\"%s\"%s%s", begin, numbers[i].key, colon, json_number_text(numbers[i].value, number));
        if (r->data_hash != 0)
            fprintf(to, ",%s\"data_hash\"%s\"%016" PRIx64 "\"", begin, colon, r->data_hash);
        if (isfinite(r->accuracy) && isfinite(r->plain_accuracy) && r->plain_accuracy != r->accuracy)
            fprintf(to, ",%s\"plain_accuracy\"%s%s", begin, colon, json_number_text(r->plain_accuracy, number));
        if (isfinite(r->top5))
            fprintf(to, ",%s\"top5\"%s%s", begin, colon, json_number_text(r->top5, number));
        if (r->skipped != 0)
            fprintf(to, ",%s\"skipped\"%s%" PRId64, begin, colon, r->skipped);
        if (r->changes) {
            char *changes = json_quoted(r->changes);
            fprintf(to, ",%s\"changes\"%s%s", begin, colon, changes ? changes : "null");
            free(changes);
        }
        fprintf(to, ",%s\"config\"%s%s%s}\n", begin, colon, settings, lines ? "\n" : "");
        if (fclose(to) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(settings);
    return text;
}

scion_status metrics_summary(int folder, const char *dir, const run_result *r, int64_t samples, const config *c,
                             scion_error *err)
{
    char path[4096];
    atomic_file file;
    if ((size_t)snprintf(path, sizeof path, "%s/summary.json", dir) >= sizeof path)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(dir));
    char *text = summary_text(r, samples, c, true);
    scion_status status = text ? atomic_begin_in(&file, folder, path, err)
                               : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    if (status == SCION_OK)
        status = atomic_write(&file, text, strlen(text), err);
    if (status == SCION_OK)
        status = atomic_commit(&file, err);
    free(text);
    return status;
}

/* ---- The sink ---------------------------------------------------------------------------------------------- */

/* Writes mistakes.json, if the validation at the end collected any. */
static scion_status save_mistakes(const run_dir *dir, const mistakes *wrong, scion_error *err)
{
    char path[4096];
    if (!wrong)
        return SCION_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/mistakes.json", dir->path) >= sizeof path)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(dir->path));
    return mistakes_save(wrong, dir->fd, path, err);
}

static scion_status sink_start(void *ctx, const run_event *e, scion_error *err)
{
    metrics_folder *to = ctx;
    atomic_remove_stale(to->dir->fd, to->dir->path);
    return metrics_open(&to->m, to->dir->fd, to->dir->path, trainer_steps_taken(e->t), e->at->validation_due, err);
}

static scion_status sink_step(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    return e->log ? metrics_point(to->m, e->point, err) : SCION_OK;
}

static scion_status sink_validation(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    const scion_status status = metrics_point(to->m, e->point, err);
    return status == SCION_OK ? save_mistakes(to->dir, e->wrong, err) : status;
}

static scion_status sink_norms(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < e->count; i++)
        status = metrics_norm(to->m, &e->norms[i], err);
    return status;
}

static scion_status sink_saving(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    (void)e;
    return metrics_flush(to->m, err);
}

static scion_status sink_end(void *ctx, const run_event *e, scion_error *err)
{
    const metrics_folder *to = ctx;
    return metrics_summary(to->dir->fd, to->dir->path, e->result, trainer_samples(e->t), trainer_config(e->t), err);
}

run_sink metrics_sink(metrics_folder *to)
{
    return (run_sink){.on = {[RUN_STARTS] = sink_start,
                             [RUN_STEPPED] = sink_step,
                             [RUN_VALIDATED] = sink_validation,
                             [RUN_MEASURED] = sink_norms,
                             [RUN_SAVING] = sink_saving,
                             [RUN_ENDED] = sink_end},
                      .ctx = to};
}

/* ---- The sink that prints ------------------------------------------------------------------------------- */

static scion_status print_line(FILE *to, const char *line)
{
    if (line) {
        fputs(line, to);
        fflush(to); /* what could not be written is told at the end, as for everything that is printed */
    }
    return SCION_OK;
}

static scion_status print_point(void *ctx, const run_event *e, scion_error *err)
{
    char line[line_bytes];
    (void)err;
    return e->log || run_is_validation(e->point) ? print_line(ctx, point_line(e->point, line)) : SCION_OK;
}

static scion_status print_norms(void *ctx, const run_event *e, scion_error *err)
{
    (void)err;
    for (int64_t i = 0; i < e->count; i++) {
        char *line = norm_line(&e->norms[i]);
        print_line(ctx, line);
        free(line);
    }
    return SCION_OK;
}

static scion_status print_summary(void *ctx, const run_event *e, scion_error *err)
{
    char *text = summary_text(e->result, trainer_samples(e->t), trainer_config(e->t), false);
    (void)err;
    print_line(ctx, text);
    free(text);
    return SCION_OK;
}

run_sink metrics_print_sink(FILE *to)
{
    return (run_sink){.on = {[RUN_STEPPED] = print_point,
                             [RUN_VALIDATED] = print_point,
                             [RUN_MEASURED] = print_norms,
                             [RUN_ENDED] = print_summary},
                      .ctx = to};
}
