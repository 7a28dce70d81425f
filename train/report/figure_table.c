/* The numbers of a figure as a table: a row per x, a column per series. */
#include "report/figure_parts.h"

#include <math.h>
#include <stdlib.h>

/* A longer one is thinned out: the CSV has all. */
enum { rows_most = 60 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All x of the figure, ascending, each once; the caller frees. NULL: there are none, or no memory. */
static double *places(const figure *f, int64_t *count)
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
            x[n++] = f->lines[i].spots[k].x;
    qsort(x, (size_t)n, sizeof *x, by_value);
    for (int64_t i = 0; i < n; i++)
        if (*count == 0 || x[i] != x[*count - 1])
            x[(*count)++] = x[i];
    return x;
}

/* The point of a series at x, or NULL. */
static const figure_spot *spot_at(const figure_line *l, double x)
{
    for (int64_t k = 0; k < l->count; k++)
        if (l->spots[k].x == x)
            return &l->spots[k];
    return NULL;
}

static const char *x_text(const figure *f, double x, char text[MARKUP_NUMBER])
{
    return f->x_scale == AXIS_LOG2 ? markup_power(x, text) : markup_number(x, 6, text);
}

static const char *y_text(const figure *f, double y, char text[MARKUP_NUMBER])
{
    return f->y_scale == AXIS_LOG2 ? markup_power(y, text) : markup_number(y, 5, text);
}

static void cell(const figure *f, const figure_spot *p, FILE *to)
{
    char y[MARKUP_NUMBER], low[MARKUP_NUMBER], high[MARKUP_NUMBER];
    if (!p) {
        fputs("<td></td>", to);
        return;
    }
    fprintf(to, p->marked ? "<td><b>%s</b>" : "<td>%s", y_text(f, p->y, y));
    if (isfinite(p->low) && isfinite(p->high) && p->low < p->high)
        fprintf(to, " <small>(%s\u2013%s)</small>", y_text(f, p->low, low), y_text(f, p->high, high));
    fputs("</td>", to);
}

void figure_table(const figure *f, FILE *to)
{
    char text[MARKUP_NUMBER];
    int64_t count;
    double *x = places(f, &count);
    const int64_t every = count > rows_most ? (count + rows_most - 1) / rows_most : 1;
    fputs("<div class=\"scroll\"><table>\n<thead><tr><th>", to);
    markup_text(to, f->x_label);
    fputs("</th>", to);
    for (int i = 0; i < f->count; i++) {
        fputs("<th>", to);
        markup_text(to, f->lines[i].name);
        fputs("</th>", to);
    }
    fputs("</tr></thead>\n<tbody>\n", to);
    for (int64_t r = 0; r < count; r++) {
        if (r % every != 0 && r != count - 1)
            continue;
        fprintf(to, "<tr><th>%s</th>", x_text(f, x[r], text));
        for (int i = 0; i < f->count; i++)
            cell(f, spot_at(&f->lines[i], x[r]), to);
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

void figure_tell(const figure *f, const figure_line *l, const figure_spot *p, FILE *to)
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
    fputs(y_text(f, p->y, y), to);
    if (isfinite(p->low) && isfinite(p->high) && p->low < p->high)
        fprintf(to, " (%s to %s)", y_text(f, p->low, low), y_text(f, p->high, high));
    if (p->marked) {
        fputs(", ", to);
        markup_text(to, f->mark);
    }
}
