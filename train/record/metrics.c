/* See metrics.h. A line is one write, so that a killed run leaves at most its last line unfinished. */
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
#include <unistd.h>

#include "product/kernel.h"
#include "record/run_dir.h"
#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"

struct metrics {
    int fd;
    int folder; /* open, < 0: the path says */
    char path[RUN_FILE];
    bool begun; /* CSV: the header is written */
    char *line; /* being made; NULL: none */
    size_t line_bytes;
};

/* ---- Going on ---------------------------------------------------------------------------------------------- */

/* The step of a line; -1: not a line of metrics. */
static int64_t step_of(const char *line, size_t length, bool *validation)
{
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    const int64_t value = json_is_integer(step) ? json_integer_value(step) : -1;
    *validation = json_object_get(object, "val_loss") != NULL;
    json_decref(object);
    return value;
}

/* Length of the lines up to `step`, or to its validation (which is its last line). The rest is later, or the torn end
 * that a killed run or a power failure left. *bad: number of an unreadable line before one that stays, else 0. */
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

/* Opens the file to append to it. */
static scion_status open_file(metrics *m, scion_error *err)
{
    struct stat about;
    m->fd = openat(file_at(m->folder), file_in(m->folder, m->path),
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
    if (m->fd < 0 && errno == ELOOP) /* the file will be cut: not one that somebody else chose */
        return train_fail(err, SCION_EINVAL, "%s: is a link, not a file", path_end(m->path));
    if (m->fd < 0 || fstat(m->fd, &about) != 0)
        return train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(m->path), strerror(errno));
    return S_ISREG(about.st_mode) ? SCION_OK : train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(m->path));
}

/* Makes a writer of file `name`, which is not open yet. */
static scion_status create(metrics **out, int folder, const char *dir, const char *name, scion_error *err)
{
    metrics *m = *out = calloc(1, sizeof *m);
    if (!m)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(dir));
    m->fd = -1;
    m->folder = folder;
    return run_dir_file(dir, name, m->path, err);
}

/* Frees a writer that could not be opened. */
static scion_status keep_if(scion_status status, metrics **out)
{
    if (status != SCION_OK) {
        metrics_close(*out);
        *out = NULL;
    }
    return status;
}

scion_status metrics_open(metrics **out, int folder, const char *dir, int64_t step, bool validation_due,
                          scion_error *err)
{
    scion_status status = create(out, folder, dir, "metrics.jsonl", err);
    if (status == SCION_OK)
        status = open_file(*out, err);
    if (status == SCION_OK)
        status = cut(*out, step, validation_due, err);
    return keep_if(status, out);
}

scion_status metrics_flush(metrics *m, scion_error *err)
{
    if (m->fd < 0 || file_flush(m->fd) == 0)
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

static void write_quoted(FILE *to, const char *text)
{
    json_t *string = json_text(text);
    json_dumpf(string, to, JSON_ENCODE_ANY);
    json_decref(string);
}

void metrics_print_point(FILE *to, const run_point *p)
{
    fprintf(to, "{\"step\":%" PRId64, p->step);
    metrics_write(to, run_point_metrics, p, run_is_validation(p) ? METRIC_VALIDATION : METRIC_STEP, p->unit, "", ":");
    fputs("}\n", to);
}

void metrics_print_norm(FILE *to, const run_norm *n)
{
    char ratio[NUMBER_TEXT];
    fprintf(to, "{\"step\":%" PRId64 ",\"name\":", n->step);
    write_quoted(to, n->name);
    metrics_write(to, run_norm_metrics, n, METRIC_NORM, NULL, "", ":");
    fprintf(to, ",\"ratio\":%s}\n", json_number_text(isinf(n->bound) ? NAN : n->norm / n->bound, ratio));
}

bool metrics_print_summary(FILE *to, const run_result *r, const config *c, bool lines)
{
    const char *begin = lines ? "\n  " : "", *colon = lines ? ": " : ":";
    char *settings = config_to_values(c);
    if (!settings)
        return false;
    fprintf(to, "{%s\"state\"%s\"%s\"", begin, colon, r->state == RUN_RUNNING ? "stopped" : run_state_name(r->state));
    metrics_write(to, run_result_metrics, r, METRIC_SUMMARY, config_unit(c), begin, colon);
    fprintf(to, ",%s\"kernels\"%s\"%s\"", begin, colon, scn_isa_used()->name);
    if (r->changes) {
        fprintf(to, ",%s\"changes\"%s", begin, colon);
        write_quoted(to, r->changes);
    }
    fprintf(to, ",%s\"config\"%s%s%s}\n", begin, colon, settings, lines ? "\n" : "");
    free(settings);
    return true;
}

/* Writes the line as a whole. Returns 0, or the reason why it failed; *done: bytes that were written. */
static int write_line(const metrics *m, size_t *done)
{
    while (*done < m->line_bytes) {
        const ssize_t written = write(m->fd, m->line + *done, m->line_bytes - *done);
        if (written > 0)
            *done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            return written < 0 ? errno : ENOSPC;
    }
    return 0;
}

/* Ends a line that open_memstream began (NULL: it did not), and appends it. */
static scion_status append(metrics *m, FILE *line, scion_error *err)
{
    const bool made = line && fclose(line) == 0;
    const off_t before = lseek(m->fd, 0, SEEK_END);
    size_t done = 0;
    const int reason = made ? write_line(m, &done) : ENOMEM;
    free(m->line);
    m->line = NULL;
    if (reason == 0 && !file_folder_gone(m->folder))
        return SCION_OK;
    if (reason == 0)
        return train_fail(err, SCION_EINVAL, "%s: the folder of this run was removed or replaced", path_end(m->path));
    const bool clean = done == 0 || (before >= 0 && ftruncate(m->fd, before) == 0);
    return train_fail(err, made ? SCION_EINVAL : SCION_ENOMEM, "%s: cannot be written: %s%s", path_end(m->path),
                      strerror(reason), clean ? "" : "; its last line is unfinished");
}

scion_status metrics_point(metrics *m, const run_point *p, scion_error *err)
{
    FILE *line = open_memstream(&m->line, &m->line_bytes);
    if (line)
        metrics_print_point(line, p);
    return append(m, line, err);
}

scion_status metrics_norm(metrics *m, const run_norm *n, scion_error *err)
{
    FILE *line = open_memstream(&m->line, &m->line_bytes);
    if (line)
        metrics_print_norm(line, n);
    return append(m, line, err);
}

/* ---- CSV ---- */

static void write_header(FILE *to, const char *unit)
{
    fputs("step,timestamp", to);
    metrics_csv_names(to, run_point_metrics, unit);
    fputc('\n', to);
}

static void write_row(FILE *to, const run_point *p)
{
    fprintf(to, "%" PRId64 ",", p->step);
    metrics_csv_values(to, run_point_metrics, p);
    fputc('\n', to);
}

/* Writes the points that are there, as a whole. */
static scion_status write_before(metrics *m, const run_curves *before, const char *unit, scion_error *err)
{
    FILE *to = open_memstream(&m->line, &m->line_bytes);
    if (to)
        write_header(to, unit);
    for (int64_t i = 0; to && i < before->point_count; i++)
        write_row(to, &before->points[i]);
    const scion_status status = to && fclose(to) == 0
                                    ? atomic_save(m->folder, m->path, m->line, m->line_bytes, err)
                                    : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(m->path));
    free(m->line);
    m->line = NULL;
    m->begun = true;
    return status;
}

scion_status metrics_csv_open(metrics **out, int folder, const char *dir, const run_curves *before, const char *unit,
                              scion_error *err)
{
    scion_status status = create(out, folder, dir, "metrics.csv", err);
    if (status == SCION_OK && before->point_count > 0)
        status = write_before(*out, before, unit, err);
    else if (status == SCION_OK && unlinkat(file_at(folder), file_in(folder, (*out)->path), 0) != 0 &&
             errno != ENOENT)
        status = train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end((*out)->path), strerror(errno));
    return keep_if(status, out);
}

scion_status metrics_csv_point(metrics *m, const run_point *p, scion_error *err)
{
    if (m->fd < 0)
        RETURN_IF_FAILED(open_file(m, err));
    FILE *line = open_memstream(&m->line, &m->line_bytes);
    if (line && !m->begun)
        write_header(line, p->unit);
    if (line)
        write_row(line, p);
    const scion_status status = append(m, line, err);
    m->begun = m->begun || status == SCION_OK;
    return status;
}

/* ---- The summary ---- */

scion_status metrics_summary(int folder, const char *dir, const run_result *r, const config *c, scion_error *err)
{
    char path[RUN_FILE], *text = NULL;
    size_t bytes = 0;
    scion_status status = SCION_OK;
    TRY(run_dir_file(dir, "summary.json", path, err));
    FILE *to = open_memstream(&text, &bytes);
    const bool made = to && metrics_print_summary(to, r, c, true);
    if (!to || fclose(to) != 0 || !made)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path)));
    TRY(atomic_save(folder, path, text, bytes, err));
done:
    free(text);
    return status;
}
