/* See figure.h. */
#define _POSIX_C_SOURCE 200809L
#include "report/figure_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/number.h"

/* Values that are further apart cannot be told from zero on a linear axis. */
static const double stretched = 60;

/* Replaces a text of the figure by a copy. */
static void keep(figure *f, char **place, const char *text)
{
    char *copy = strdup(text ? text : "");
    free(*place);
    *place = copy;
    f->failed = f->failed || !copy;
}

figure *figure_create(const char *id, const char *title, const char *caption)
{
    figure *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->limit = f->include = NAN;
    keep(f, &f->id, id);
    keep(f, &f->title, title);
    keep(f, &f->caption, caption);
    keep(f, &f->x_label, "");
    keep(f, &f->y_label, "");
    keep(f, &f->mark, "minimum");
    if (f->failed) {
        figure_free(f);
        return NULL;
    }
    return f;
}

void figure_free(figure *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->count; i++) {
        free(f->lines[i].name);
        free(f->lines[i].spots);
    }
    free(f->lines);
    free(f->id);
    free(f->title);
    free(f->caption);
    free(f->x_label);
    free(f->y_label);
    free(f->mark);
    free(f);
}

void figure_axes(figure *f, const char *x, axis_scale x_scale, const char *y, axis_scale y_scale)
{
    keep(f, &f->x_label, x);
    keep(f, &f->y_label, y);
    f->x_scale = x_scale;
    f->y_scale = y_scale;
}

void figure_stretch(figure *f)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const double y = f->lines[i].spots[k].y;
            low = isnan(y) ? low : fmin(low, y);
            high = isfinite(y) ? fmax(high, y) : high;
        }
    if (low > 0 && high > stretched * low)
        f->y_scale = AXIS_LOG10;
}

void figure_limit(figure *f, double y)
{
    f->limit = y;
}

void figure_include(figure *f, double y)
{
    f->include = y;
}

void figure_ordered(figure *f)
{
    f->ordered = true;
}

void figure_mark_label(figure *f, const char *text)
{
    keep(f, &f->mark, text);
}

int figure_series(figure *f, const char *name, figure_style style)
{
    figure_line *lines = realloc(f->lines, (size_t)(f->count + 1) * sizeof *lines);
    if (!lines) {
        f->failed = true;
        return f->count - 1;
    }
    f->lines = lines;
    figure_line *l = &lines[f->count];
    *l = (figure_line){.style = style};
    keep(f, &l->name, name);
    if (style == FIGURE_FIT && f->looks > 0)
        l->look = f->looks - 1;
    else if (style != FIGURE_BOUND)
        l->look = f->looks++;
    return f->count++;
}

void figure_range(figure *f, int series, double x, double y, double low, double high)
{
    if (series < 0 || series >= f->count)
        return;
    figure_line *l = &f->lines[series];
    if (l->count == l->room) {
        const int64_t room = l->room > 0 ? 2 * l->room : 16;
        figure_spot *spots = realloc(l->spots, (size_t)room * sizeof *spots);
        if (!spots) {
            f->failed = true;
            return;
        }
        l->spots = spots;
        l->room = room;
    }
    l->spots[l->count++] = (figure_spot){x, y, low, high, false};
}

void figure_point(figure *f, int series, double x, double y)
{
    figure_range(f, series, x, y, NAN, NAN);
}

void figure_mark(figure *f, int series)
{
    if (series >= 0 && series < f->count && f->lines[series].count > 0)
        f->lines[series].spots[f->lines[series].count - 1].marked = true;
}

const char *figure_id(const figure *f)
{
    return f->id;
}

const char *figure_title(const figure *f)
{
    return f->title;
}

bool figure_empty(const figure *f)
{
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; f->lines[i].style != FIGURE_BOUND && k < f->lines[i].count; k++)
            if (!isnan(f->lines[i].spots[k].y))
                return false;
    return true;
}

/* ---- CSV --------------------------------------------------------------------------------------------------- */

static void csv_number(FILE *to, double value)
{
    char text[NUMBER_TEXT] = "";
    if (!isnan(value))
        number_write(value, text);
    fprintf(to, ",%s", text);
}

scion_status figure_csv(const figure *f, FILE *to, scion_error *err)
{
    if (f->failed)
        return train_fail(err, SCION_ENOMEM, "figure %s: out of memory", f->id);
    fputs("series,x,y,low,high,marked\n", to);
    for (int i = 0; i < f->count; i++) {
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_spot *p = &f->lines[i].spots[k];
            markup_csv(to, f->lines[i].name);
            csv_number(to, p->x);
            csv_number(to, p->y);
            csv_number(to, p->low);
            csv_number(to, p->high);
            fprintf(to, ",%d\n", p->marked);
        }
    }
    return SCION_OK;
}

/* ---- HTML -------------------------------------------------------------------------------------------------- */

scion_status figure_html(const figure *f, FILE *to, const char *folder, scion_error *err)
{
    fprintf(to, "<figure id=\"%s\">\n<figcaption><h3>", f->id);
    markup_text(to, f->title);
    fputs("</h3>", to);
    if (f->caption[0]) {
        fputs("<p>", to);
        markup_text(to, f->caption);
        fputs("</p>", to);
    }
    fputs("</figcaption>\n", to);
    const scion_status status = figure_svg(f, to, false, err);
    if (status != SCION_OK)
        return status;
    fputs("<details class=\"numbers\"><summary>Numbers</summary>\n", to);
    figure_table(f, to);
    if (folder) {
        fputs("<p class=\"files\">", to);
        for (int i = 0; i < 2; i++) {
            fprintf(to, "%s<a href=\"", i > 0 ? " \u00B7 " : "");
            markup_text(to, folder);
            fprintf(to, "/%s.%s\">%s.%s</a>", f->id, i > 0 ? "svg" : "csv", f->id, i > 0 ? "svg" : "csv");
        }
        fputs("</p>\n", to);
    }
    fputs("</details>\n</figure>\n", to);
    return SCION_OK;
}
