/* See page.h. */
#define _POSIX_C_SOURCE 200809L
#include "report/page.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/path.h"
#include "report/page_parts.h"
#include "base/atomic_file.h"

/* A stream and the text it has gathered. */
typedef struct gather {
    FILE *to;
    char *text;
    size_t bytes;
} gather;

/* The element that is open between parts of one kind. */
typedef enum group { GROUP_NONE, GROUP_CARDS, GROUP_FIGURES } group;

struct page {
    char *path, *folder, *title;
    gather links, body; /* to the sections; all the rest */
    figure **figures;
    int count, sections;
    group open;
    int columns, column; /* of the table that is open */
    char align[32];
    bool fold;
    scion_error failed; /* the first thing that went wrong */
};

/* ---- Making and freeing ------------------------------------------------------------------------------------ */

static bool has_end(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Whether a folder is that of a run, which is no place for figures. */
static bool holds_run(const char *folder)
{
    char file[4096];
    return (size_t)snprintf(file, sizeof file, "%s/metrics.jsonl", folder) < sizeof file && access(file, F_OK) == 0;
}

/* The page's path without .html, or with .files. */
static char *folder_of(const char *path)
{
    const size_t length = strlen(path), bytes = length + 8;
    const bool html = has_end(path, ".html") && !has_end(path, "/.html");
    char *folder = malloc(bytes);
    if (!folder)
        return NULL;
    snprintf(folder, bytes, "%.*s%s", (int)(html ? length - 5 : length), path, html ? "" : ".files");
    if (html && holds_run(folder))
        snprintf(folder, bytes, "%.*s.files", (int)(length - 5), path);
    return folder;
}

page *page_create(const char *path, const char *title)
{
    page *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->path = strdup(path);
    p->folder = folder_of(path);
    p->title = strdup(title);
    p->links.to = open_memstream(&p->links.text, &p->links.bytes);
    p->body.to = open_memstream(&p->body.text, &p->body.bytes);
    if (!p->path || !p->folder || !p->title || !p->links.to || !p->body.to) {
        page_free(p);
        return NULL;
    }
    return p;
}

static void drop(gather *g)
{
    if (g->to)
        fclose(g->to);
    free(g->text);
}

void page_free(page *p)
{
    if (!p)
        return;
    drop(&p->links);
    drop(&p->body);
    for (int i = 0; i < p->count; i++)
        figure_free(p->figures[i]);
    free(p->figures);
    free(p->path);
    free(p->folder);
    free(p->title);
    free(p);
}

int page_figures(const page *p)
{
    return p->count;
}

const figure *page_figure_at(const page *p, int i)
{
    return i >= 0 && i < p->count ? p->figures[i] : NULL;
}

const char *page_folder(const page *p)
{
    return p->folder;
}

/* ---- Adding ------------------------------------------------------------------------------------------------ */

/* Ends the group that is open, unless it is this one, which is begun. */
static FILE *in_group(page *p, group wanted)
{
    static const char *const begin[] = {"", "<div class=\"cards\">\n", "<div class=\"figures\">\n"};
    if (p->open != wanted) {
        fputs(p->open != GROUP_NONE ? "</div>\n" : "", p->body.to);
        fputs(begin[wanted], p->body.to);
        p->open = wanted;
    }
    return p->body.to;
}

/* An element with a text, unless that is missing. */
static void element(FILE *to, const char *name, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(to, "<%s>", name);
    markup_text(to, text);
    fprintf(to, "</%s>", name);
}

void page_card(page *p, const char *label, const char *value, const char *note)
{
    FILE *to = in_group(p, GROUP_CARDS);
    fputs("<div class=\"card\">", to);
    element(to, "span", label);
    element(to, "b", value);
    element(to, "span", note);
    fputs("</div>\n", to);
}

void page_section(page *p, const char *title)
{
    FILE *to = in_group(p, GROUP_NONE);
    p->sections++;
    fprintf(p->links.to, "<a href=\"#part-%d\">", p->sections);
    markup_text(p->links.to, title);
    fputs("</a>\n", p->links.to);
    fprintf(to, "<h2 id=\"part-%d\">", p->sections);
    markup_text(to, title);
    fputs("</h2>\n", to);
}

/* What a format gives, escaped. */
static void write_format(page *p, FILE *to, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (text) {
        vsnprintf(text, (size_t)length + 1, format, args);
        markup_text(to, text);
    } else if (p->failed.status == SCION_OK) {
        train_fail(&p->failed, SCION_ENOMEM, "%s: out of memory", path_end(p->path));
    }
    free(text);
}

void page_paragraph(page *p, const char *format, ...)
{
    FILE *to = in_group(p, GROUP_NONE);
    va_list args;
    fputs("<p>", to);
    va_start(args, format);
    write_format(p, to, format, args);
    va_end(args);
    fputs("</p>\n", to);
}

void page_figure(page *p, figure *f)
{
    if (f && figure_empty(f)) {
        figure_free(f);
        return;
    }
    figure **more = realloc(p->figures, (size_t)(p->count + 1) * sizeof *more);
    if (more)
        p->figures = more;
    if (!f || !more) {
        figure_free(f);
        if (p->failed.status == SCION_OK)
            train_fail(&p->failed, SCION_ENOMEM, "%s: out of memory", path_end(p->path));
        return;
    }
    p->figures[p->count++] = f;
    const char *slash = strrchr(p->folder, '/');
    scion_error err = {0};
    if (figure_html(f, in_group(p, GROUP_FIGURES), slash ? slash + 1 : p->folder, &err) != SCION_OK &&
        p->failed.status == SCION_OK)
        p->failed = err;
}

/* ---- Tables ------------------------------------------------------------------------------------------------ */

static void begin_table(page *p, const char *fold, const char *kind)
{
    FILE *to = in_group(p, GROUP_NONE);
    p->fold = fold != NULL;
    if (fold) {
        fputs("<details>", to);
        element(to, "summary", fold);
    }
    fprintf(to, "<div class=\"scroll\"><table%s>\n", kind);
}

static void end_table(page *p)
{
    fprintf(p->body.to, "</tbody></table></div>%s\n", p->fold ? "</details>" : "");
}

static const char *class_of(char align)
{
    return align == 'r' ? " class=\"r\"" : align == 'w' ? " class=\"long\"" : "";
}

void page_table(page *p, const char *fold, int columns, const char *const *names, const char *align)
{
    begin_table(p, fold, "");
    p->columns = columns;
    p->column = 0;
    snprintf(p->align, sizeof p->align, "%s", align);
    fputs("<thead><tr>", p->body.to);
    for (int i = 0; i < columns; i++) {
        fprintf(p->body.to, "<th%s>", class_of(p->align[i]));
        markup_text(p->body.to, names[i]);
        fputs("</th>", p->body.to);
    }
    fputs("</tr></thead>\n<tbody>\n", p->body.to);
}

void page_cell(page *p, const char *format, ...)
{
    FILE *to = p->body.to;
    va_list args;
    fprintf(to, "%s<td%s>", p->column == 0 ? "<tr>" : "", class_of(p->align[p->column]));
    va_start(args, format);
    write_format(p, to, format, args);
    va_end(args);
    p->column = (p->column + 1) % p->columns;
    fprintf(to, "</td>%s", p->column == 0 ? "</tr>\n" : "");
}

void page_table_end(page *p)
{
    for (; p->column > 0; p->column = (p->column + 1) % p->columns)
        fprintf(p->body.to, "<td></td>%s", p->column == p->columns - 1 ? "</tr>\n" : "");
    end_table(p);
}

void page_settings(page *p, const char *fold)
{
    begin_table(p, fold, " class=\"settings\"");
    fputs("<tbody>\n", p->body.to);
}

void page_setting(page *p, const char *key, const char *value)
{
    fputs("<tr><th>", p->body.to);
    markup_text(p->body.to, key);
    fputs("</th><td>", p->body.to);
    markup_text(p->body.to, value);
    fputs("</td></tr>\n", p->body.to);
}

void page_settings_end(page *p)
{
    end_table(p);
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

static scion_status write_file(const char *path, const char *text, size_t bytes, scion_error *err)
{
    atomic_file r;
    scion_status status = atomic_begin(&r, path, err);
    if (status == SCION_OK)
        status = atomic_write(&r, text, bytes, err);
    if (status == SCION_OK)
        status = atomic_commit(&r, err);
    return status;
}

/* Ends a stream. */
static bool finish(gather *g)
{
    const bool fine = g->to && !ferror(g->to) && fclose(g->to) == 0;
    g->to = NULL;
    return fine;
}

/* One figure, as drawing or as numbers. */
static scion_status write_figure(const page *p, const figure *f, bool drawing, scion_error *err)
{
    gather g = {0};
    const size_t bytes = strlen(p->folder) + strlen(figure_id(f)) + 8;
    char *path = malloc(bytes);
    scion_status status = SCION_OK;
    g.to = path ? open_memstream(&g.text, &g.bytes) : NULL;
    if (!g.to) {
        status = train_fail(err, SCION_ENOMEM, "figure %s: out of memory", figure_id(f));
        goto done;
    }
    snprintf(path, bytes, "%s/%s.%s", p->folder, figure_id(f), drawing ? "svg" : "csv");
    status = drawing ? figure_svg(f, g.to, true, err) : figure_csv(f, g.to, err);
    if (!finish(&g) && status == SCION_OK)
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    if (status == SCION_OK)
        status = write_file(path, g.text, g.bytes, err);
done:
    drop(&g);
    free(path);
    return status;
}

static scion_status write_figures(const page *p, scion_error *err)
{
    struct stat about;
    scion_status status = SCION_OK;
    if (p->count > 0 && mkdir(p->folder, 0777) != 0 && errno != EEXIST)
        return train_fail(err, SCION_EINVAL, "%s: cannot make this folder: %s", path_end(p->folder), strerror(errno));
    if (p->count > 0 && (stat(p->folder, &about) != 0 || !S_ISDIR(about.st_mode)))
        return train_fail(err, SCION_EINVAL, "%s: is there and is not a folder", path_end(p->folder));
    for (int i = 0; status == SCION_OK && i < 2 * p->count; i++)
        status = write_figure(p, p->figures[i / 2], i % 2 == 0, err);
    return status;
}

static void write_head(const page *p, FILE *to)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"",
          to);
    fputs(page_policy, to);
    fputs("\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"scion\">\n",
          to);
    element(to, "title", p->title);
    fprintf(to, "\n<style>\n%s%s</style>\n</head>\n<body>\n", page_style, figure_style_sheet);
    element(to, "h1", p->title);
    fputs("\n", to);
}

scion_status page_write(page *p, scion_error *err)
{
    gather g = {0};
    scion_status status = p->failed.status;
    if (status != SCION_OK) {
        if (err)
            *err = p->failed;
        return status;
    }
    in_group(p, GROUP_NONE);
    g.to = finish(&p->links) && finish(&p->body) ? open_memstream(&g.text, &g.bytes) : NULL;
    if (g.to) {
        write_head(p, g.to);
        if (p->sections > 2)
            fprintf(g.to, "<nav>\n%s</nav>\n", p->links.text);
        fprintf(g.to, "<main>\n%s</main>\n<script>%s</script>\n</body>\n</html>\n", p->body.text, page_script);
    }
    if (!g.to || !finish(&g))
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(p->path));
    if (status == SCION_OK)
        status = write_figures(p, err);
    if (status == SCION_OK)
        status = write_file(p->path, g.text, g.bytes, err);
    drop(&g);
    return status;
}
