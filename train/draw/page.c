/* See page.h. */
#define _GNU_SOURCE 1 /* vasprintf */

#include "draw/page.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"
#include "util/base64.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "util/atomic_file.h"

/* A stream into memory. */
typedef struct text_buffer {
    FILE *to;
    char *text;
    size_t bytes;
} text_buffer;

/* A file beside the figures. */
typedef struct page_extra {
    char *name;
    text_buffer g;
} page_extra;

/* The element that is open between parts of one kind. */
typedef enum group { GROUP_NONE, GROUP_CARDS, GROUP_FIGURES, GROUP_IMAGES } group;

struct page {
    char *path, *folder, *title;
    text_buffer links, body; /* to the sections; all the rest */
    figure *figures;
    int64_t count;
    page_extra **files; /* each where it was made: streams know the addresses of their buffers */
    int64_t file_count;
    int sections;
    int reload; /* seconds; 0: never */
    group open;
    const char *fold, *names, *align; /* of the table that is open, the caller's */
    int columns, column;              /* column -1: it has no cell yet */
    bool images;                      /* the page has images: style and policy allow them */
    bool failed;                      /* out of memory */
};

/* ---- Making and freeing ------------------------------------------------------------------------------------ */

static bool has_end(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* True if a folder belongs to a run, which is no place for figures. */
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

void page_reload(page *p, int seconds)
{
    p->reload = seconds;
}

static void buffer_free(text_buffer *g)
{
    if (g->to)
        fclose(g->to);
    free(g->text);
}

void page_free(page *p)
{
    if (!p)
        return;
    buffer_free(&p->links);
    buffer_free(&p->body);
    for (int64_t i = 0; i < p->count; i++)
        figure_free(&p->figures[i]);
    free(p->figures);
    for (int64_t i = 0; i < p->file_count; i++) {
        if (!p->files[i])
            continue;
        buffer_free(&p->files[i]->g);
        free(p->files[i]->name);
        free(p->files[i]);
    }
    free(p->files);
    free(p->path);
    free(p->folder);
    free(p->title);
    free(p);
}

int page_figures(const page *p)
{
    return (int)p->count;
}

const figure *page_figure_at(const page *p, int i)
{
    return i >= 0 && i < p->count ? &p->figures[i] : NULL;
}

const char *page_folder(const page *p)
{
    return p->folder;
}

/* ---- Adding ------------------------------------------------------------------------------------------------ */

/* Ends the open group and begins this one, unless it is this one already. */
static FILE *in_group(page *p, group wanted)
{
    static const char *const begin[] = {"", "<div class=\"cards\">\n", "<div class=\"figures\">\n",
                                        "<div class=\"images\">\n"};
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
    if (text && text[0])
        markup_element(to, text, "%s", name);
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
    markup_element(p->links.to, title, "a href=\"#part-%d\"", p->sections);
    fputs("\n", p->links.to);
    markup_element(to, title, "h2 id=\"part-%d\"", p->sections);
    fputs("\n", to);
}

/* Writes formatted text, escaped. */
static void __attribute__((format(printf, 3, 0))) write_format(page *p, FILE *to, const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0) {
        p->failed = true;
        return;
    }
    markup_text(to, text);
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

void page_heading(page *p, const char *title, const char *caption)
{
    FILE *to = in_group(p, GROUP_NONE);
    fputs("<div class=\"heading\">", to);
    element(to, "h3", title);
    element(to, "p", caption);
    fputs("</div>\n", to);
}

/* The folder, seen from the page. */
static const char *folder_name(const page *p)
{
    const char *slash = strrchr(p->folder, '/');
    return slash ? slash + 1 : p->folder;
}

void page_figure(page *p, figure f)
{
    const bool empty = !f.failed && figure_empty(&f);
    figure *place = f.failed || empty ? NULL : array_append(&p->figures, &p->count, sizeof f);
    if (place) {
        *place = f;
        figure_html(&f, in_group(p, GROUP_FIGURES), p->reload > 0 ? NULL : folder_name(p));
    } else {
        p->failed = p->failed || !empty;
        figure_free(&f);
    }
}

FILE *page_file(page *p, const char *name)
{
    FILE *to = in_group(p, GROUP_NONE);
    page_extra **place = array_append(&p->files, &p->file_count, sizeof *place);
    page_extra *e = place ? *place = calloc(1, sizeof *e) : NULL;
    if (e) {
        e->name = strdup(name);
        e->g.to = open_memstream(&e->g.text, &e->g.bytes);
    }
    if (!e || !e->name || !e->g.to) {
        p->failed = true;
        return NULL;
    }
    fputs("<p class=\"files\"><a href=\"", to);
    markup_attribute(to, folder_name(p));
    fputs("/", to);
    markup_attribute(to, name);
    fputs("\">", to);
    markup_text(to, name);
    fputs("</a></p>\n", to);
    return e->g.to;
}

/* ---- Tables ------------------------------------------------------------------------------------------------ */

static const char *class_of(char align)
{
    return align == 'r' ? " class=\"r\"" : align == 'w' ? " class=\"long\"" : "";
}

void page_table(page *p, const char *fold, const char *names, const char *align)
{
    p->fold = fold;
    p->names = names;
    p->align = align;
    p->columns = (int)strlen(align);
    p->column = -1;
}

static void begin_table(page *p)
{
    FILE *to = in_group(p, GROUP_NONE);
    const char *at = p->names;
    fputs(p->fold ? "<details>" : "", to);
    element(to, "summary", p->fold);
    fputs("<div class=\"scroll\"><table>\n<thead><tr>", to);
    for (int i = 0; i < p->columns; i++) {
        char name[64];
        const int length = (int)strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", length, at);
        markup_element(to, name, "th%s", class_of(p->align[i]));
        at += length + (at[length] == '|');
    }
    fputs("</tr></thead>\n<tbody>\n", to);
    p->column = 0;
}

void page_cell(page *p, const char *format, ...)
{
    FILE *to = p->body.to;
    va_list args;
    if (p->column < 0)
        begin_table(p);
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
    if (p->column == 0)
        fprintf(p->body.to, "</tbody></table></div>%s\n", p->fold ? "</details>" : "");
}

/* ---- Images and matrices ----------------------------------------------------------------------------------- */

void page_image(page *p, const uint8_t *png, size_t bytes, int64_t height, int64_t width, const char *label,
                const char *value, const char *note, const char *file)
{
    FILE *to = in_group(p, GROUP_IMAGES);
    char *text = png ? malloc(base64_length(bytes) + 1) : NULL;
    p->images = true;
    p->failed = p->failed || !text;
    if (!text)
        return;
    base64_encode(png, bytes, text);
    fprintf(to, "<div class=\"image\"><img width=\"%lld\" height=\"%lld\" alt=\"", (long long)width,
            (long long)height);
    markup_attribute(to, label);
    fprintf(to, "\" src=\"data:image/png;base64,%s\">", text);
    element(to, "b", label);
    element(to, "span", value);
    element(to, "span", note);
    if (file)
        element(to, "span", file);
    fputs("</div>\n", to);
    free(text);
}

/* Width in em of the name of a row or column. */
static const double name_width = 12;

static void matrix_name(page *p, const char *scope, const char *name)
{
    char cut[128];
    markup_shorten(name, name_width, cut, sizeof cut);
    fprintf(p->body.to, "<th scope=\"%s\" title=\"", scope);
    markup_attribute(p->body.to, name);
    fputs("\">", p->body.to);
    markup_text(p->body.to, cut);
    fputs("</th>", p->body.to);
}

/* A number, on a ground whose strength is its share; zeros are empty. */
static void matrix_cell(page *p, int64_t number, double share, bool diagonal)
{
    static const double strongest = 0.6, errors = 4; /* a share of a quarter has the full colour */
    FILE *to = p->body.to;
    const double strength = diagonal ? share : share * errors < 1 ? share * errors : 1;
    if (number > 0)
        fprintf(to, "<td style=\"background:rgba(%s,%.2f)\">%lld</td>", diagonal ? "11,111,179" : "213,94,0",
                strongest * strength, (long long)number);
    else
        fputs("<td></td>", to);
}

void page_matrix(page *p, int n, const char *const *names, const int64_t *cells, const char *corner)
{
    fputs("<div class=\"scroll\"><table class=\"matrix\">\n", in_group(p, GROUP_NONE));
    p->images = true;
    fputs("<thead><tr><td>", p->body.to);
    markup_text(p->body.to, corner);
    fputs("</td>", p->body.to);
    for (int k = 0; k < n; k++)
        matrix_name(p, "col", names[k]);
    fputs("</tr></thead>\n<tbody>\n", p->body.to);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += (double)cells[i * n + k];
        fputs("<tr>", p->body.to);
        matrix_name(p, "row", names[i]);
        for (int k = 0; k < n; k++)
            matrix_cell(p, cells[i * n + k], sum > 0 ? (double)cells[i * n + k] / sum : 0, i == k);
        fputs("</tr>\n", p->body.to);
    }
    fputs("</tbody></table></div>\n", p->body.to);
}

/* ---- Style and script ----------------------------------------------------------------------------------------- */

/* Files of this folder, as strings that the build makes. page_images.css is only on pages with images or matrices.
 * page.js shows the tooltip of the point nearest to the pointer, at once; without it, its <title> appears after a
 * moment. */
extern const char draw_page_css[], draw_page_images_css[], draw_page_js[];

/* The hash is that of page.js: SHA-256, base64. tests/cli/report.sh compares them. */
static const char page_policy[] =
    "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'sha256-jkmKORrNTKkRs93Roy+p4sqfmtWQxJyKaIe1ss4zMf8='; base-uri 'none'; "
    "form-action 'none'";

/* ---- Writing ----------------------------------------------------------------------------------------------- */

/* Ends the stream; false: out of memory. */
static bool buffer_close(text_buffer *g)
{
    const bool fine = g->to && !ferror(g->to) && fclose(g->to) == 0;
    g->to = NULL;
    return fine;
}

/* Writes a stream's text to a file of the folder, and frees it. */
static scion_status write_buffer(const page *p, text_buffer *g, const char *name, const char *end, scion_error *err)
{
    char *path = NULL;
    scion_status status = SCION_OK;
    if (!buffer_close(g) || asprintf(&path, "%s/%s%s", p->folder, name, end) < 0)
        TRY(train_fail(err, SCION_ENOMEM, "%s%s: out of memory", name, end));
    status = atomic_save(-1, path, g->text, g->bytes, err);
done:
    buffer_free(g);
    *g = (text_buffer){0};
    free(path);
    return status;
}

/* One figure, as drawing or as numbers. */
static scion_status write_figure(const page *p, const figure *f, bool drawing, scion_error *err)
{
    text_buffer g = {0};
    g.to = open_memstream(&g.text, &g.bytes);
    if (g.to && drawing)
        figure_svg(f, g.to, true);
    else if (g.to)
        figure_csv(f, g.to);
    return write_buffer(p, &g, f->id, drawing ? ".svg" : ".csv", err);
}

static scion_status write_files(const page *p, scion_error *err)
{
    const bool any = p->count + p->file_count > 0;
    scion_status status = SCION_OK;
    if (any && mkdir(p->folder, 0777) != 0 && errno != EEXIST)
        return train_fail(err, SCION_EINVAL, "%s: cannot make this folder: %s", path_end(p->folder), strerror(errno));
    if (any && !file_is_folder(p->folder))
        return train_fail(err, SCION_EINVAL, "%s: is there and is not a folder", path_end(p->folder));
    for (int64_t i = 0; status == SCION_OK && i < 2 * p->count; i++)
        status = write_figure(p, &p->figures[i / 2], i % 2 == 0, err);
    for (int64_t i = 0; status == SCION_OK && i < p->file_count; i++)
        status = write_buffer(p, &p->files[i]->g, p->files[i]->name, "", err);
    return status;
}

static void write_head(const page *p, FILE *to)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"%s%s\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"scion\">\n",
            page_policy, p->images ? "; img-src data:" : "");
    if (p->reload > 0)
        fprintf(to, "<meta http-equiv=\"refresh\" content=\"%d\">\n", p->reload);
    element(to, "title", p->title);
    fprintf(to, "\n<style>\n%s%s%s</style>\n</head>\n<body>\n", draw_page_css, p->images ? draw_page_images_css : "",
            draw_figure_css);
    element(to, "h1", p->title);
    fputs("\n", to);
}

scion_status page_write(page *p, scion_error *err)
{
    text_buffer g = {0};
    scion_status status = SCION_OK;
    in_group(p, GROUP_NONE);
    if (!p->failed && buffer_close(&p->links) && buffer_close(&p->body))
        g.to = open_memstream(&g.text, &g.bytes);
    if (g.to) {
        write_head(p, g.to);
        if (p->sections > 2)
            fprintf(g.to, "<nav>\n%s</nav>\n", p->links.text);
        fprintf(g.to, "<main>\n%s</main>\n<script>%s</script>\n</body>\n</html>\n", p->body.text, draw_page_js);
    }
    if (!buffer_close(&g))
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(p->path)));
    if (p->reload == 0)
        TRY(write_files(p, err));
    status = atomic_save(-1, p->path, g.text, g.bytes, err);
done:
    buffer_free(&g);
    return status;
}
