/* See report.h. */
#include "report/report.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "util/utf8.h"
#include "report/section.h"

void report_settings(page *p, const config *c)
{
    const config_option *o;
    page_table(p, "Configuration", "option|value", "rw");
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        if (!config_has(c, o))
            continue;
        char value[CONFIG_TEXT];
        config_get(c, o, value, sizeof value);
        page_cell(p, "%s", o->key);
        page_cell(p, "%s", value);
    }
    page_table_end(p);
}

void report_fold_name(const char *name, bool fold, char folded[64])
{
    size_t n = 0;
    for (; *name && n + 1 < 64; name++) {
        const bool digit = fold && isdigit((unsigned char)*name);
        if (digit && n > 0 && folded[n - 1] == 'N')
            continue;
        folded[n++] = digit ? 'N' : *name;
    }
    folded[n] = '\0';
}

double report_limit(double *losses, int64_t count)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(losses[i]))
            losses[n++] = losses[i];
    if (n < 4)
        return NAN;
    qsort(losses, (size_t)n, sizeof *losses, array_ascending);
    /* The lower three quarters of the values have at least two fifths of the axis; nothing is cut off for less. */
    const double low = losses[0], usual = losses[(3 * n) / 4], limit = low + 2 * (usual - low);
    return usual > low && losses[n - 1] > low + 2.5 * (usual - low) ? limit : NAN;
}

/* ---- Sources ----------------------------------------------------------------------------------------------- */

static void make_title(const char *const *sources, int count, const report_options *o, char title[256])
{
    enum { named = 3 };
    snprintf(title, 256, "%s", o && o->title ? o->title : "Report on ");
    if (o && o->title)
        return;
    for (int i = 0; i < count && i < named; i++) {
        const char *before = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        char name[61];
        file_name(sources[i], NULL, name, sizeof name);
        utf8_append(title, 256, "%s%s", before, name);
    }
    if (count > named)
        utf8_append(title, 256, " and %d more", count - named);
}

static void list_figures(const page *p, const report_options *o)
{
    for (int i = 0; o && o->wrote && i < page_figures(p); i++)
        o->wrote(o->context, page_figure_at(p, i)->id, page_figure_at(p, i)->title, page_folder(p));
}

/* Refuses to replace anything but an earlier page: a ledger, a file of a run. */
static scion_status check_place(const char *path, scion_error *err)
{
    static const char begin[] = "<!doctype html>";
    char head[sizeof begin] = "";
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* do not wait for a pipe */
    if (fd < 0)
        return SCION_OK; /* nothing there, or writing it will fail with a reason */
    const ssize_t n = read(fd, head, sizeof begin - 1);
    close(fd);
    return n <= 0 || strcasecmp(head, begin) == 0
               ? SCION_OK
               : train_fail(err, SCION_EINVAL, "%s: this file is there already and is not a page; give another name",
                            path_end(path));
}

scion_status report_write(const char *const *sources, int count, const char *out_html, const report_options *o,
                          scion_error *err)
{
    char title[256];
    int run_count = 0, ledgers = 0;
    run_record *runs = calloc((size_t)count + 1, sizeof *runs);
    make_title(sources, count, o, title);
    page *p = page_create(out_html, title);
    scion_status status = SCION_OK;
    TRY(check_place(out_html, err));
    if (!runs || !p)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(out_html)));
    for (int i = 0; i < count; i++)
        if (file_is_folder(sources[i]))
            TRY(run_record_read(&runs[run_count++], sources[i], err));
    if (o && o->opening)
        o->opening(o->opening_context, p);
    if (run_count > 0)
        report_runs(p, runs, run_count);
    for (int i = 0; i < count; i++) {
        char prefix[32] = "", name[256] = "";
        if (file_is_folder(sources[i]))
            continue;
        if (count > 1) {
            snprintf(prefix, sizeof prefix, "ledger%d-", ++ledgers);
            file_name(sources[i], NULL, name, sizeof name);
        }
        TRY(report_ledger(p, sources[i], prefix, name, err));
    }
    TRY(page_write(p, err));
    list_figures(p, o);
done:
    for (int i = 0; i < run_count; i++)
        run_record_free(&runs[i]);
    free(runs);
    page_free(p);
    return status;
}

scion_status report_write_live(run_record *run, const char *out_html, int seconds, double now, scion_error *err)
{
    const time_t when = (time_t)now;
    char title[256], time[32] = "";
    struct tm utc;
    scion_status status = SCION_OK;
    snprintf(title, sizeof title, "Report on %.200s", run->name);
    page *p = page_create(out_html, title);
    TRY(check_place(out_html, err));
    if (!p)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(out_html)));
    page_reload(p, seconds);
    if (gmtime_r(&when, &utc))
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &utc);
    page_paragraph(p, "The run goes on: step %lld of %lld, drawn at %s. This page reloads itself every %d s.",
                   (long long)report_last_step(&run->curves), (long long)run->result.steps, time, seconds);
    report_runs(p, run, 1);
    status = page_write(p, err);
done:
    page_free(p);
    return status;
}
