/* See run_read.h. */
#include "report/run_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/path.h"

/* ---- Lines of metrics -------------------------------------------------------------------------------------- */

/* A number; null, which stands for one that was not finite, is `other`, and so is one that is missing. */
static double number(const json_t *object, const char *key, double other)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : other;
}

/* Whether a line says something under each key that belongs there: a number, or null. */
static bool measured(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) || json_is_null(value);
}

typedef enum line_result { LINE_READ, LINE_STRANGE, LINE_MEMORY } line_result;

static line_result read_line(run_data *run, const json_t *o)
{
    const json_t *step = json_object_get(o, "step"), *name = json_object_get(o, "name");
    const int64_t at = json_is_integer(step) ? json_integer_value(step) : -1;
    if (at < 0)
        return LINE_STRANGE;
    if (json_is_string(name) && measured(o, "norm")) {
        run_norm *n = array_append(&run->norms, &run->norm_count, sizeof *n);
        if (!n)
            return LINE_MEMORY;
        *n = (run_norm){.step = at, .norm = number(o, "norm", NAN), .bound = number(o, "bound", INFINITY)};
        snprintf(n->name, sizeof n->name, "%s", json_string_value(name));
    } else if (measured(o, "val_loss")) {
        run_val *v = array_append(&run->vals, &run->val_count, sizeof *v);
        if (!v)
            return LINE_MEMORY;
        *v = (run_val){at, number(o, "val_loss", INFINITY), number(o, "accuracy", NAN)};
    } else if (measured(o, "loss")) {
        run_step *s = array_append(&run->steps, &run->step_count, sizeof *s);
        if (!s)
            return LINE_MEMORY;
        *s = (run_step){at, number(o, "loss", INFINITY), number(o, "lr", NAN), number(o, "tokens_per_s", NAN),
                        number(o, "optimizer_share", NAN)};
    } else {
        return LINE_STRANGE;
    }
    return LINE_READ;
}

static scion_status read_lines(run_data *run, FILE *file, const char *path, scion_error *err)
{
    char *line = NULL;
    size_t room = 0;
    long at = 0, strange = 0;
    scion_status status = SCION_OK;
    for (ssize_t n; status == SCION_OK && (n = getline(&line, &room, file)) > 0;) {
        json_t *object = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
        const line_result result = json_is_object(object) ? read_line(run, object) : LINE_STRANGE;
        json_decref(object);
        at++;
        /* The last line may be unfinished; whether it is the last is known when the next one comes. */
        if (result == LINE_MEMORY)
            status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
        else if (strange > 0 || (result == LINE_STRANGE && line[n - 1] == '\n'))
            status = train_fail(err, SCION_ESTATE,
                                "%s:%ld: not a line of metrics (a JSON object with a step and what was measured)",
                                path_end(path), strange > 0 ? strange : at);
        else if (result == LINE_STRANGE)
            strange = at;
    }
    if (status == SCION_OK && ferror(file))
        status = train_fail(err, SCION_EINVAL, "%s: cannot be read to its end", path_end(path));
    free(line);
    return status;
}

static scion_status read_metrics(run_data *run, const char *dir, const char *path, scion_error *err)
{
    struct stat about;
    if (stat(dir, &about) != 0)
        return train_fail(err, SCION_EINVAL, "%s: %s", path_end(dir), strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return train_fail(err, SCION_EINVAL, "%s: neither the folder of a run nor a ledger", path_end(dir));
    if (stat(path, &about) != 0)
        return train_fail(err, SCION_EINVAL, "%s: not the folder of a run: it has no metrics.jsonl", path_end(dir));
    FILE *file = S_ISREG(about.st_mode) ? fopen(path, "re") : NULL;
    if (!file)
        return train_fail(err, SCION_EINVAL, "%s: cannot be read: %s", path_end(path),
                          S_ISREG(about.st_mode) ? strerror(errno) : "it is not a file");
    const scion_status status = read_lines(run, file, path, err);
    fclose(file);
    if (status == SCION_OK && run->step_count + run->val_count + run->norm_count == 0)
        return train_fail(err, SCION_EINVAL, "%s: no step has been logged yet", path_end(path));
    return status;
}

/* ---- The summary ------------------------------------------------------------------------------------------- */

static scion_status read_summary(run_data *run, const char *path, scion_error *err)
{
    struct stat about;
    json_error_t why;
    scion_status status = SCION_OK;
    if (stat(path, &about) != 0 && errno == ENOENT)
        return SCION_OK; /* the run has not ended */
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object) || !measured(object, "steps")) {
        status = train_fail(err, SCION_ESTATE, "%s: not the summary of a run%s%.60s", path_end(path),
                            object ? " (an object with steps, loss, ...)" : ": ", object ? "" : why.text);
        goto done;
    }
    run->ended = true;
    run->parameters = (int64_t)number(object, "parameters", 0);
    run->seconds = number(object, "seconds", NAN);
    run->rate = number(object, "tokens_per_s", NAN);
    run->tokens = number(object, "tokens", NAN);
    run->best_val_loss = number(object, "best_val_loss", NAN);
    run->baseline = number(object, "baseline", NAN);
    run->peak_bytes = number(object, "peak_bytes", NAN);
    if (json_is_object(json_object_get(object, "config"))) {
        char *text = json_dumps(json_object_get(object, "config"), JSON_COMPACT);
        scion_error unread;
        config_init(&run->c);
        /* The configuration of another version is not worth a failure: the figures do not need it. */
        run->configured = text && config_from_json(&run->c, text, &unread) == SCION_OK;
        free(text);
    }
done:
    json_decref(object);
    return status;
}

/* The end of a path, without slashes behind it. */
static void name_run(run_data *run, const char *dir)
{
    file_name(dir, NULL, run->name, sizeof run->name);
    if (strcmp(run->name, ".") == 0 || run->name[0] == '\0')
        snprintf(run->name, sizeof run->name, "this run");
}

scion_status run_read(run_data *run, const char *dir, scion_error *err)
{
    char path[4096];
    *run = (run_data){
        .seconds = NAN, .rate = NAN, .tokens = NAN, .best_val_loss = NAN, .baseline = NAN, .peak_bytes = NAN};
    name_run(run, dir);
    if ((size_t)snprintf(path, sizeof path, "%s/metrics.jsonl", dir) >= sizeof path)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(dir));
    const scion_status status = read_metrics(run, dir, path, err);
    if (status != SCION_OK)
        return status;
    snprintf(path, sizeof path, "%s/summary.json", dir);
    return read_summary(run, path, err);
}

void run_free(run_data *run)
{
    free(run->steps);
    free(run->vals);
    free(run->norms);
    run->steps = NULL;
    run->vals = NULL;
    run->norms = NULL;
}

double run_last_loss(const run_data *run)
{
    return run->step_count > 0 ? run->steps[run->step_count - 1].loss : NAN;
}

double run_last_val(const run_data *run)
{
    return run->val_count > 0 ? run->vals[run->val_count - 1].loss : NAN;
}

double run_best(const run_data *run)
{
    double best = NAN;
    for (int64_t i = 0; i < run->val_count; i++)
        best = fmin(best, run->vals[i].loss);
    return isnan(best) ? run_last_loss(run) : best;
}
