/* See figure.h. */
#include "draw/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/number.h"
#include "util/array.h"

/* Largest over smallest value from which the y axis is logarithmic: on a linear one the smallest would look like
 * 0. */
static const double log_from = 60;

/* Replaces a text of the figure by a copy. */
static void set_text(figure *f, char **place, const char *text)
{
    char *copy = strdup(text ? text : "");
    free(*place);
    *place = copy;
    f->failed = f->failed || !copy;
}

figure figure_make(const char *id, const char *title, const char *caption)
{
    figure f = {.x_factor = 1, .limit = NAN, .include = NAN, .first = NAN, .last = NAN};
    set_text(&f, &f.id, id);
    set_text(&f, &f.title, title);
    set_text(&f, &f.caption, caption);
    set_text(&f, &f.x_label, "");
    set_text(&f, &f.y_label, "");
    set_text(&f, &f.mark, "minimum");
    return f;
}

void figure_free(figure *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->lines[i].name);
        free(f->lines[i].values);
    }
    free(f->lines);
    free(f->id);
    free(f->title);
    free(f->caption);
    free(f->x_label);
    free(f->x_csv);
    free(f->y_label);
    free(f->mark);
    *f = (figure){.id = NULL};
}

void figure_axes(figure *f, const char *x, axis_scale x_scale, const char *y, axis_scale y_scale)
{
    set_text(f, &f->x_label, x);
    set_text(f, &f->y_label, y);
    f->x_scale = x_scale;
    f->y_scale = y_scale;
}

void figure_x_unit(figure *f, double factor, const char *label)
{
    f->x_csv = f->x_label;
    f->x_label = NULL;
    f->x_factor = factor;
    set_text(f, &f->x_label, label);
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            f->lines[i].values[k].x *= factor;
}

void figure_auto_log(figure *f)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const double y = f->lines[i].values[k].y;
            low = isnan(y) ? low : fmin(low, y);
            high = isfinite(y) ? fmax(high, y) : high;
        }
    if (low > 0 && high > log_from * low)
        f->y_scale = AXIS_LOG10;
}

void figure_mark_label(figure *f, const char *text)
{
    set_text(f, &f->mark, text);
}

void figure_note(figure *f, const char *text)
{
    const size_t before = f->caption ? strlen(f->caption) : 0, more = strlen(text);
    char *longer = realloc(f->caption, before + more + 1);
    f->failed = f->failed || !longer;
    if (!longer)
        return;
    memcpy(longer + before, text, more + 1);
    f->caption = longer;
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
    set_text(f, &l->name, name);
    if (style == FIGURE_FAINT && f->looks > 0)
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
    figure_value *value = array_append(&l->values, &l->count, sizeof *value);
    if (value)
        *value = (figure_value){.x = x, .y = y, .low = low, .high = high};
    else
        f->failed = true;
}

void figure_point(figure *f, int series, double x, double y)
{
    figure_range(f, series, x, y, NAN, NAN);
}

void figure_mark(figure *f, int series)
{
    if (series >= 0 && series < f->count && f->lines[series].count > 0)
        f->lines[series].values[f->lines[series].count - 1].marked = true;
}

void figure_open(figure *f, int series, int sides)
{
    if (series >= 0 && series < f->count && f->lines[series].count > 0)
        f->lines[series].values[f->lines[series].count - 1].open = sides;
}

bool figure_empty(const figure *f)
{
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; f->lines[i].style != FIGURE_BOUND && k < f->lines[i].count; k++)
            if (!isnan(f->lines[i].values[k].y))
                return false;
    return true;
}

/* ---- CSV --------------------------------------------------------------------------------------------------- */

void figure_csv(const figure *f, FILE *to)
{
    static const char *const open[] = {"", "below", "above", "both"};
    const char *x = f->x_csv ? f->x_csv : f->x_label;
    fputs("series,", to);
    markup_csv(to, x[0] ? x : "x");
    fputs(",", to);
    markup_csv(to, f->y_label[0] ? f->y_label : "y");
    fputs(",low,high,marked,open\n", to);
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_value *p = &f->lines[i].values[k];
            const double numbers[] = {p->x / f->x_factor, p->y, p->low, p->high};
            markup_csv(to, f->lines[i].name);
            for (int n = 0; n < 4; n++) {
                char text[NUMBER_TEXT];
                number_write(numbers[n], text);
                fprintf(to, ",%s", isnan(numbers[n]) ? "" : text);
            }
            fprintf(to, ",%d,%s\n", p->marked, open[p->open]);
        }
}

/* ---- Tooltips ------------------------------------------------------------------------------------------------- */

static const char *x_text(const figure *f, double x, char text[MARKUP_NUMBER])
{
    return f->x_scale == AXIS_LOG2 ? markup_power(x, text) : markup_number(x, 6, text);
}

/* Decimals that all values of a linear axis are written with, so that they align; -1: too small for any. */
static int decimals_of(const figure *f)
{
    double largest = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            if (isfinite(f->lines[i].values[k].y) && !(f->lines[i].values[k].y > f->limit))
                largest = fmax(largest, fabs(f->lines[i].values[k].y));
    if (largest == 0)
        return 0;
    if (largest < 1e-3)
        return -1;
    const int magnitude = (int)floor(log10(largest));
    return magnitude == 0 ? 4 : magnitude > 3 ? 0 : 3 - magnitude;
}

/* The sign before a value that is open. */
static const char *open_sign(const figure_value *p)
{
    static const char *const signs[] = {"", "\u2264 ", "\u2265 ", ""};
    return signs[p->open];
}

static const char *y_text(const figure *f, double y, char text[MARKUP_NUMBER])
{
    const int decimals = f->y_scale == AXIS_LINEAR && isfinite(y) ? decimals_of(f) : -1;
    if (f->y_scale == AXIS_LOG2)
        return markup_power(y, text);
    return decimals >= 0 ? markup_fixed(y, decimals, text) : markup_number(y, 5, text);
}

void figure_tooltip(const figure *f, const figure_line *l, const figure_value *p, FILE *to)
{
    char x[MARKUP_NUMBER], y[MARKUP_NUMBER], low[MARKUP_NUMBER], high[MARKUP_NUMBER];
    markup_text(to, l->name);
    fputs("\n", to);
    markup_text(to, f->x_label);
    fprintf(to, " %s\n", x_text(f, p->x, x));
    if (isfinite(p->y)) {
        markup_text(to, f->y_label);
        fputs(" ", to);
    }
    fprintf(to, "%s%s", open_sign(p), y_text(f, p->y, y));
    if (isfinite(p->low) && isfinite(p->high) && p->low < p->high)
        fprintf(to, " (%s to %s)", y_text(f, p->low, low), y_text(f, p->high, high));
    if (p->marked) {
        fputs(", ", to);
        markup_text(to, f->mark);
    }
    if (p->open)
        fputs(", on the edge of its grid", to);
}

/* ---- Table: a row per x, a column per series ------------------------------------------------------------------ */

/* A longer table shows every n-th row; the CSV file has all. */
enum { max_rows = 60 };

/* All x of the figure, ascending, each once; the caller frees. NULL: there are none, or no memory. */
static double *distinct_x(const figure *f, int64_t *count)
{
    int64_t all = 0, n = 0;
    *count = 0;
    for (int i = 0; i < f->count; i++)
        all += f->lines[i].count;
    double *x = all > 0 ? malloc((size_t)all * sizeof *x) : NULL;
    if (!x)
        return NULL;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            x[n++] = f->lines[i].values[k].x;
    qsort(x, (size_t)n, sizeof *x, array_ascending);
    for (int64_t i = 0; i < n; i++)
        if (*count == 0 || x[i] != x[*count - 1])
            x[(*count)++] = x[i];
    return x;
}

/* The point of a series at x, or NULL. */
static const figure_value *value_at(const figure_line *l, double x)
{
    for (int64_t k = 0; k < l->count; k++)
        if (l->values[k].x == x)
            return &l->values[k];
    return NULL;
}

static void cell(const figure *f, const figure_value *p, FILE *to)
{
    char y[MARKUP_NUMBER], low[MARKUP_NUMBER], high[MARKUP_NUMBER];
    if (!p) {
        fputs("<td></td>", to);
        return;
    }
    fprintf(to, p->marked ? "<td class=\"r\"><b>%s%s</b>" : "<td class=\"r\">%s%s", open_sign(p), y_text(f, p->y, y));
    if (isfinite(p->low) && isfinite(p->high) && p->low < p->high)
        fprintf(to, " <small>(%s\u2013%s)</small>", y_text(f, p->low, low), y_text(f, p->high, high));
    fputs("</td>", to);
}

static void write_table(const figure *f, FILE *to)
{
    char text[MARKUP_NUMBER];
    int64_t count;
    double *x = distinct_x(f, &count);
    const int64_t every = count > max_rows ? (count + max_rows - 1) / max_rows : 1;
    fputs("<div class=\"scroll\"><table>\n<thead><tr>", to);
    markup_element(to, f->x_label, "th class=\"r\"");
    for (int i = 0; i < f->count; i++)
        markup_element(to, f->lines[i].name, "th class=\"r\"");
    fputs("</tr></thead>\n<tbody>\n", to);
    for (int64_t r = 0; r < count; r++) {
        if (r % every != 0 && r != count - 1)
            continue;
        fprintf(to, "<tr><th class=\"r\">%s</th>", x_text(f, x[r], text));
        for (int i = 0; i < f->count; i++)
            cell(f, value_at(&f->lines[i], x[r]), to);
        fputs("</tr>\n", to);
    }
    fputs("</tbody></table></div>\n", to);
    if (every > 1)
        fprintf(to, "<p class=\"files\">Every %lld%s row of %lld; the CSV file has all.</p>\n", (long long)every,
                every == 2   ? "nd"
                : every == 3 ? "rd"
                             : "th",
                (long long)count);
    free(x);
}

/* ---- HTML -------------------------------------------------------------------------------------------------- */

void figure_html(const figure *f, FILE *to, const char *folder)
{
    fprintf(to, "<figure id=\"%s\">\n<figcaption>", f->id);
    markup_element(to, f->title, "h3");
    if (f->caption[0])
        markup_element(to, f->caption, "p");
    fputs("</figcaption>\n", to);
    figure_svg(f, to, false);
    fputs("<details class=\"numbers\"><summary>Numbers</summary>\n", to);
    write_table(f, to);
    if (folder) {
        fputs("<p class=\"files\">", to);
        for (int i = 0; i < 2; i++) {
            fprintf(to, "%s<a href=\"", i > 0 ? " \u00B7 " : "");
            markup_attribute(to, folder);
            fprintf(to, "/%s.%s\">%s.%s</a>", f->id, i > 0 ? "svg" : "csv", f->id, i > 0 ? "svg" : "csv");
            if (i == 0 && f->x_csv) {
                fputs(", x in ", to);
                markup_text(to, f->x_csv);
            }
        }
        fputs("</p>\n", to);
    }
    fputs("</details>\n</figure>\n", to);
}
