/* See run_record.h. */
#include "record/run_record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "record/run_dir.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

/* ---- Lines of metrics -------------------------------------------------------------------------------------- */

/* True if an object has a measurement under a key: a number, or null. */
static bool measured(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) || json_is_null(value);
}

/* ESTATE: not a line of metrics. */
static scion_status read_line(run_record *run, const json_t *o)
{
    const json_t *step = json_object_get(o, "step"), *name = json_object_get(o, "name");
    const int64_t at = json_is_integer(step) ? json_integer_value(step) : -1;
    if (at < 0)
        return SCION_ESTATE;
    if (json_is_string(name) && measured(o, "norm")) {
        run_norm n = {.step = at};
        metrics_read(run_norm_metrics, &n, METRIC_NORM, o);
        if (isnan(n.bound))
            n.bound = INFINITY;
        snprintf(n.name, sizeof n.name, "%s", json_string_value(name));
        return run_curves_add_norm(&run->curves, &n) ? SCION_OK : SCION_ENOMEM;
    }
    const bool validation = measured(o, "val_loss");
    run_point p = run_point_empty(at);
    double *loss = validation ? &p.val_loss : &p.loss;
    if (!validation && !measured(o, "loss"))
        return SCION_ESTATE;
    metrics_read(run_point_metrics, &p, validation ? METRIC_VALIDATION : METRIC_STEP, o);
    if (isnan(*loss)) /* null: not finite */
        *loss = INFINITY;
    return run_curves_add_point(&run->curves, &p) ? SCION_OK : SCION_ENOMEM;
}

static scion_status read_lines(run_record *run, FILE *file, const char *path, scion_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    long number = 0;
    scion_status status = SCION_OK;
    for (ssize_t n; status == SCION_OK && (n = getline(&line, &capacity, file)) > 0; number++) {
        json_t *object = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
        const scion_status result = json_is_object(object) ? read_line(run, object) : SCION_ESTATE;
        json_decref(object);
        if (result == SCION_ENOMEM)
            status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
        else if (result == SCION_ESTATE && line[n - 1] == '\n') /* the last line may be unfinished */
            status = train_fail(err, SCION_ESTATE,
                                "%s:%ld: not a line of metrics (a JSON object with a step and what was measured)",
                                path_end(path), number + 1);
    }
    if (status == SCION_OK && ferror(file))
        status = train_fail(err, SCION_EINVAL, "%s: cannot be read to its end", path_end(path));
    free(line);
    return status;
}

static scion_status read_metrics(run_record *run, const char *dir, const char *path, scion_error *err)
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
    if (status == SCION_OK && run->curves.point_count + run->curves.norm_count == 0)
        return train_fail(err, SCION_EINVAL, "%s: no step has been logged yet", path_end(path));
    return status;
}

/* ---- The summary ------------------------------------------------------------------------------------------- */

static scion_status read_summary(run_record *run, const char *path, scion_error *err)
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
    metrics_read(run_result_metrics, &run->result, METRIC_SUMMARY, object);
    if (json_is_object(json_object_get(object, "config"))) {
        char *text = json_dumps(json_object_get(object, "config"), JSON_COMPACT);
        scion_error unread;
        config_init(&run->c);
        /* The figures do not need the configuration: one of another version is no failure. */
        run->configured = text && config_from_json(&run->c, text, &unread) == SCION_OK;
        free(text);
    }
done:
    json_decref(object);
    return status;
}

/* Names a run by the end of its path, without trailing slashes. */
static void name_run(run_record *run, const char *dir)
{
    file_name(dir, NULL, run->name, sizeof run->name);
    if (strcmp(run->name, ".") == 0 || run->name[0] == '\0')
        snprintf(run->name, sizeof run->name, "this run");
}

scion_status run_record_read(run_record *run, const char *dir, scion_error *err)
{
    char path[RUN_FILE];
    scion_status status = SCION_OK;
    *run = (run_record){.result = run_result_empty()};
    run->result.seconds = NAN;
    name_run(run, dir);
    TRY(run_dir_file(dir, "metrics.jsonl", path, err));
    TRY(read_metrics(run, dir, path, err));
    TRY(run_dir_file(dir, "summary.json", path, err));
    TRY(read_summary(run, path, err));
    TRY(run_dir_file(dir, "mistakes.json", path, err));
    if (mistakes_read(&run->wrong, path, &run->wrong_damaged) == SCION_OK)
        run->wrong_damaged.message[0] = '\0';
done:
    return status;
}

void run_record_free(run_record *run)
{
    run_curves_free(&run->curves);
    mistakes_free(run->wrong);
    run->wrong = NULL;
}

const run_point *run_record_last(const run_record *run, bool validation)
{
    const run_point *last = NULL;
    for (int64_t i = 0; i < run->curves.point_count; i++)
        if (run_is_validation(&run->curves.points[i]) == validation)
            last = &run->curves.points[i];
    return last;
}

double run_record_best(const run_record *run)
{
    const run_point *last = run_record_last(run, false);
    double best = NAN;
    for (int64_t i = 0; i < run->curves.point_count; i++)
        best = fmin(best, run->curves.points[i].val_loss);
    return isnan(best) && last ? last->loss : best;
}

double run_record_elapsed(const char *dir, int64_t step)
{
    run_record run;
    double elapsed = 0;
    run_record_read(&run, dir, NULL); /* a run that has logged nothing took no time */
    for (int64_t i = 0; i < run.curves.point_count; i++)
        if (run.curves.points[i].step <= step)
            elapsed = fmax(elapsed, run.curves.points[i].elapsed);
    if (run.ended && run.result.step <= step)
        elapsed = fmax(elapsed, run.result.elapsed);
    run_record_free(&run);
    return elapsed;
}
