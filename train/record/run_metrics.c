/* See run_metrics.h. */
#define _GNU_SOURCE 1 /* strptime, timegm */
#include "record/run_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/array.h"
#include "util/json.h"

/* ---- Points, norms and results ---- */

run_point run_point_empty(int64_t step)
{
    run_point p = {.step = step};
    metrics_clear(run_point_metrics, &p);
    return p;
}

run_result run_result_empty(void)
{
    run_result r = {.state = RUN_RUNNING};
    metrics_clear(run_result_metrics, &r);
    return r;
}

const char *run_state_name(run_state s)
{
    static const char *const names[RUN_STATES] = {"waiting", "running", "done", "diverged", "failed"};
    return names[s];
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

/* Weights and norms are float32, whose sums of many terms are good to about 1e-4: this is more than rounding. */
static const double norm_slack = 1e-3;

double run_norm_share(const run_norm *n)
{
    return isinf(n->bound) ? NAN : n->norm / n->bound / n->overshoot;
}

const run_norm *run_norms_worst(const run_norm *norms, int64_t count)
{
    const run_norm *worst = NULL;
    for (int64_t i = 0; i < count; i++)
        if (run_norm_share(&norms[i]) > (worst ? run_norm_share(worst) : -1))
            worst = &norms[i];
    return worst;
}

bool run_norm_exceeded(const run_norm *n)
{
    return run_norm_share(n) > 1 + norm_slack;
}

/* ---- Rows ---- */

double metric_value(const run_metric *m, const void *of)
{
    const void *at = metric_in(m, of);
    return m->type == METRIC_INT ? (double)*(const int64_t *)at : *(const double *)at;
}

void metrics_clear(const run_metric *rows, void *of)
{
    for (; rows->key; rows++)
        if (rows->type == METRIC_INT || rows->type == METRIC_HASH)
            memset(metric_in(rows, of), 0, sizeof(int64_t));
        else
            *(double *)metric_in(rows, of) = rows->type == METRIC_SUM ? 0 : NAN;
}

static bool is_known(const run_metric *m, const void *of)
{
    if (m->type == METRIC_HASH)
        return *(const uint64_t *)metric_in(m, of) != 0;
    return m->type == METRIC_INT ? metric_value(m, of) != 0 : !isnan(metric_value(m, of));
}

const char *metric_key(const run_metric *m, const char *unit, char text[METRIC_KEY])
{
    static const char word[] = "samples";
    if (!unit || strncmp(m->key, word, sizeof word - 1) != 0)
        return m->key;
    snprintf(text, METRIC_KEY, "%s%s", unit, m->key + sizeof word - 1);
    return text;
}

/* "2026-11-16T18:10:32Z"; "": no such time. */
static const char *time_text(double time, char text[NUMBER_TEXT])
{
    const time_t seconds = isfinite(time) ? (time_t)time : 0;
    struct tm utc;
    const bool known =
        isfinite(time) && gmtime_r(&seconds, &utc) && strftime(text, NUMBER_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0;
    return known ? text : "";
}

static void write_value(FILE *to, const run_metric *m, const void *of)
{
    char text[NUMBER_TEXT];
    if (m->type == METRIC_INT) {
        fprintf(to, "%" PRId64, *(const int64_t *)metric_in(m, of));
    } else if (m->type == METRIC_HASH) {
        fprintf(to, "\"%016" PRIx64 "\"", *(const uint64_t *)metric_in(m, of));
    } else if (m->type == METRIC_TIME) {
        const char *time = time_text(metric_value(m, of), text);
        fprintf(to, time[0] ? "\"%s\"" : "null", time);
    } else {
        fputs(json_number_text(metric_value(m, of), text), to);
    }
}

void metrics_write(FILE *to, const run_metric *rows, const void *of, int object, const char *unit, const char *begin,
                   const char *colon)
{
    char key[METRIC_KEY];
    for (const run_metric *m = rows; m->key; m++) {
        if (!(m->objects & object) || (m->optional && !is_known(m, of)))
            continue;
        fprintf(to, ",%s\"%s\"%s", begin, metric_key(m, unit, key), colon);
        write_value(to, m, of);
    }
}

/* ---- CSV ---- */

void metrics_csv_names(FILE *to, const run_metric *rows, const char *unit)
{
    char key[METRIC_KEY];
    for (const run_metric *m = rows; m->key; m++)
        if (metric_is_curve(m))
            fprintf(to, ",%s", metric_key(m, unit, key));
}

void metrics_csv_values(FILE *to, const run_metric *rows, const void *of)
{
    char text[NUMBER_TEXT];
    for (const run_metric *m = rows; m->key; m++)
        if (m->type == METRIC_TIME)
            fputs(time_text(metric_value(m, of), text), to);
    for (const run_metric *m = rows; m->key; m++) {
        if (!metric_is_curve(m))
            continue;
        number_write(metric_value(m, of), text);
        fprintf(to, ",%s", isnan(metric_value(m, of)) ? "" : text);
    }
}

/* ---- Reading ---- */

static const json_t *find_value(const run_metric *m, const json_t *from)
{
    static const char *const units[] = {NULL, "tokens", "images"};
    const json_t *value = NULL;
    char key[METRIC_KEY];
    for (int i = 0; !value && i < 3; i++)
        value = json_object_get(from, metric_key(m, units[i], key));
    return value;
}

/* "2026-11-16T18:10:32Z"; NAN: something else. */
static double read_time(const char *text)
{
    struct tm utc = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc) : NULL;
    return end && *end == '\0' ? (double)timegm(&utc) : NAN;
}

void metrics_read(const run_metric *rows, void *of, int object, const json_t *from)
{
    for (const run_metric *m = rows; m->key; m++) {
        const json_t *value = find_value(m, from);
        const double number = json_is_number(value) ? json_number_value(value) : NAN;
        void *to = metric_in(m, of);
        if (!(m->objects & object))
            continue;
        if (m->type == METRIC_INT)
            *(int64_t *)to = fabs(number) < 0x1p63 ? (int64_t)number : 0;
        else if (m->type == METRIC_HASH)
            *(uint64_t *)to = json_is_string(value) ? strtoull(json_string_value(value), NULL, 16) : 0;
        else
            *(double *)to = m->type == METRIC_TIME ? read_time(json_string_value(value)) : number;
    }
}
