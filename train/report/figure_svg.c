/* A figure as SVG: 500 units wide, so that it is legible in half a page as well as on a telephone. The label of the y
 * axis stands above it, the legend below the plot. */
#include "report/figure_parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/fail.h"

/* A series with more points has markers only here and there, and its line is thinned out to what can be seen. */
enum { dense = 48, hands = 60, sparse_marks = 8 };

static const double cross = 5, marker_size = 4;

/* ---- The frame --------------------------------------------------------------------------------------------- */

typedef struct extent {
    double low[2], high[2]; /* of x and y */
    bool diverged;
} extent;

static void widen(extent *e, int which, axis_scale scale, double value)
{
    if (!axis_holds(scale, value))
        return;
    e->low[which] = fmin(e->low[which], value);
    e->high[which] = fmax(e->high[which], value);
}

static extent extent_of(const figure *f)
{
    extent e = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}, false};
    for (int i = 0; i < f->count; i++) {
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_spot *p = &f->lines[i].spots[k];
            const double y[] = {p->y, p->low, p->high};
            if (!isnan(p->y))
                widen(&e, 0, f->x_scale, p->x);
            for (int j = 0; j < 3; j++)
                widen(&e, 1, f->y_scale, y[j] > f->limit ? f->limit : y[j]);
            e.diverged = e.diverged || (isinf(p->y) && p->y > 0);
        }
    }
    widen(&e, 1, f->y_scale, f->include);
    return e;
}

/* Width of a tick's label. */
static double label_width(const axis *a, int i)
{
    char text[MARKUP_NUMBER], power[MARKUP_NUMBER];
    axis_label(a, i, text, power);
    return FIGURE_FONT * (markup_width(text) + 0.75 * markup_width(power));
}

/* As many ticks as have room for their labels. */
static void fit_x(figure_frame *r, const figure *f, const extent *e)
{
    bool overlap = true;
    for (double apart = 36; overlap && apart < 400; apart *= 1.25) {
        axis_fit(&r->x, f->x_scale, e->low[0], e->high[0], false, r->left, r->right, apart);
        overlap = false;
        for (int i = 1; i < r->x.count; i++)
            if (axis_at(&r->x, r->x.ticks[i]) - axis_at(&r->x, r->x.ticks[i - 1]) <
                (label_width(&r->x, i) + label_width(&r->x, i - 1)) / 2 + 10)
                overlap = true;
    }
}

/* The title of a drawing that stands alone, in one line or two; returns their number. */
static int title_lines(const figure *f, char lines[2][256])
{
    const double room = (FIGURE_WIDTH - 8) / 17.0; /* bold and larger than the rest */
    markup_shorten(f->title, room, lines[0], sizeof lines[0]);
    char *blank = strcmp(lines[0], f->title) == 0 ? NULL : strrchr(lines[0], ' ');
    if (!blank)
        return 1;
    *blank = '\0';
    markup_shorten(f->title + (blank - lines[0]) + 1, room, lines[1], sizeof lines[1]);
    return 2;
}

static figure_frame frame_of(const figure *f, bool alone)
{
    char lines[2][256];
    const extent e = extent_of(f);
    figure_frame r = {.strip = NAN};
    double gutter = e.diverged ? FIGURE_FONT * markup_width("diverged") : 0;
    r.top = (alone ? 14 + 20 * title_lines(f, lines) : 4) + 26;
    if (e.diverged) {
        r.strip = r.top + 8;
        r.top += 22;
    }
    r.bottom = r.top + FIGURE_PLOT;
    axis_fit(&r.y, f->y_scale, e.low[1], e.high[1], false, r.bottom, r.top, 38);
    for (int i = 0; i < r.y.count; i++)
        gutter = fmax(gutter, label_width(&r.y, i));
    r.left = ceil(gutter) + 10;
    r.right = FIGURE_WIDTH - 16;
    fit_x(&r, f, &e);
    const int rows = figure_legend(f, NULL, 8, FIGURE_WIDTH - 8, 0);
    r.height = r.bottom + 46 + (rows > 0 ? 6 + rows * FIGURE_ROW : 0);
    return r;
}

static void tick_text(const axis *a, int i, FILE *to)
{
    char text[MARKUP_NUMBER], power[MARKUP_NUMBER];
    axis_label(a, i, text, power);
    markup_text(to, text);
    if (power[0]) {
        fputs("<tspan dy=\"-5\" font-size=\"75%\">", to);
        markup_text(to, power[0] == '-' ? "\u2212" : "");
        markup_text(to, power + (power[0] == '-'));
        fputs("</tspan>", to);
    }
}

static void draw_axes(const figure *f, const figure_frame *r, FILE *to)
{
    for (int i = 0; i < r->y.count; i++) {
        const double y = axis_at(&r->y, r->y.ticks[i]);
        fprintf(to, "<path class=\"g\" d=\"M%.2f %.2fH%.2f\"/><text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">",
                r->left, y, r->right, r->left - 6, y + 4.5);
        tick_text(&r->y, i, to);
        fputs("</text>\n", to);
    }
    for (int i = 0; i < r->x.count; i++) {
        const double x = axis_at(&r->x, r->x.ticks[i]);
        const double middle = fmin(x, FIGURE_WIDTH - 2 - label_width(&r->x, i) / 2);
        fprintf(to, "<path class=\"a\" d=\"M%.2f %.2fv5\"/><text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", x,
                r->bottom, middle, r->bottom + 21);
        tick_text(&r->x, i, to);
        fputs("</text>\n", to);
    }
    fprintf(to, "<path class=\"a\" fill=\"none\" d=\"M%.2f %.2fH%.2f\"/>\n", r->left, r->bottom, r->right);
    fprintf(to, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", (r->left + r->right) / 2, r->bottom + 40);
    markup_text(to, f->x_label);
    fprintf(to, "</text>\n<text x=\"4\" y=\"%.2f\">", (isnan(r->strip) ? r->top - 12 : r->strip - 20));
    markup_text(to, f->y_label);
    fputs("</text>\n", to);
    if (!isnan(r->strip))
        fprintf(to,
                "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">diverged</text>"
                "<path class=\"g\" stroke-dasharray=\"2 3\" d=\"M%.2f %.2fH%.2f\"/>\n",
                r->left - 6, r->strip + 4.5, r->left, r->strip, r->right);
}

/* ---- Lines ------------------------------------------------------------------------------------------------- */

static bool drawn(const figure *f, const figure_spot *p)
{
    return axis_holds(f->x_scale, p->x) && axis_holds(f->y_scale, p->y);
}

/* Of the points in one column of pixels, the first, the last, the lowest and the highest are enough. */
static bool needed(const figure *f, const figure_frame *r, const figure_line *l, int64_t k)
{
    const figure_spot *p = &l->spots[k];
    const double column = floor(axis_at(&r->x, p->x));
    int64_t first = k, last = k;
    bool lowest = true, highest = true;
    if (l->count <= dense)
        return true;
    while (first > 0 && drawn(f, p - (k - first) - 1) && floor(axis_at(&r->x, l->spots[first - 1].x)) == column)
        first--;
    while (last + 1 < l->count && drawn(f, &l->spots[last + 1]) &&
           floor(axis_at(&r->x, l->spots[last + 1].x)) == column)
        last++;
    for (int64_t i = first; i <= last; i++) {
        lowest = lowest && l->spots[i].y >= p->y;
        highest = highest && l->spots[i].y <= p->y;
    }
    return k == first || k == last || lowest || highest;
}

static void draw_line(const figure *f, const figure_frame *r, const figure_line *l, FILE *to)
{
    bool open = false, any = false;
    for (int64_t k = 0; k < l->count; k++) {
        const figure_spot *p = &l->spots[k];
        if (!drawn(f, p)) {
            open = false;
            continue;
        }
        if (open && !needed(f, r, l, k))
            continue;
        if (!any)
            fprintf(to, "<path class=\"l%s\"%s clip-path=\"url(#%s-clip)\" d=\"", l->count > dense ? " thin" : "",
                    figure_dashes(f, l), f->id);
        fprintf(to, "%c%.2f %.2f", open ? 'L' : 'M', axis_at(&r->x, p->x), axis_at(&r->y, p->y));
        open = any = true;
    }
    if (any)
        fputs("\"/>\n", to);
}

/* From a finite point up to a neighbour that diverged. */
static void draw_escape(const figure *f, const figure_frame *r, const figure_line *l, int64_t k, double at, FILE *to)
{
    for (int64_t side = -1; side <= 1; side += 2) {
        const int64_t n = k + side;
        if (n < 0 || n >= l->count || !drawn(f, &l->spots[n]) || l->spots[n].y > f->limit)
            continue;
        fprintf(to, "<path class=\"w\" stroke-dasharray=\"2 4\" d=\"M%.2f %.2fL%.2f %.2f\"/>\n",
                axis_at(&r->x, l->spots[n].x), axis_at(&r->y, l->spots[n].y), at, r->strip + cross);
    }
}

/* ---- Points ------------------------------------------------------------------------------------------------ */

/* Crosses, or arrows, of several series at one x stand side by side. */
static double beside(const figure *f, int line, double x, bool gone)
{
    int before = 0, all = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            if (f->lines[i].spots[k].x == x && f->lines[i].spots[k].y > (gone ? DBL_MAX : f->limit) &&
                (gone || isfinite(f->lines[i].spots[k].y))) {
                before += i < line;
                all++;
            }
    return (before - 0.5 * (all - 1)) * (2 * cross + 1) * (all > 4 ? 0.5 : 1);
}

static void draw_whiskers(const figure *f, const figure_frame *r, const figure_spot *p, FILE *to)
{
    if (!axis_holds(f->y_scale, p->low) || !axis_holds(f->y_scale, p->high) || !(p->low < p->high))
        return;
    const double x = axis_at(&r->x, p->x), low = axis_at(&r->y, p->low), high = fmax(axis_at(&r->y, p->high), r->top);
    fprintf(to, "<path class=\"w\" d=\"M%.2f %.2fV%.2fM%.2f %.2fh6M%.2f %.2fh6\"/>", x, low, high, x - 3, low, x - 3,
            high);
}

static void draw_point(const figure *f, const figure_frame *r, int line, int64_t k, bool visible, FILE *to)
{
    const figure_line *l = &f->lines[line];
    const figure_spot *p = &l->spots[k];
    const bool gone = isinf(p->y) && p->y > 0;
    double x, y;
    if (!axis_holds(f->x_scale, p->x) || (!gone && !drawn(f, p)))
        return;
    const bool above = !gone && p->y > f->limit;
    x = axis_at(&r->x, p->x) + (gone || above ? beside(f, line, p->x, gone) : 0);
    y = gone ? r->strip : axis_at(&r->y, p->y);
    if (gone)
        draw_escape(f, r, l, k, x, to);
    fputs("<g class=\"p\"><title>", to);
    figure_tell(f, l, p, to);
    fputs("</title>", to);
    if (gone) {
        fprintf(to, "<path class=\"x\" d=\"M%.2f %.2fl10 10m0 -10l-10 10\"/>", x - cross, y - cross);
    } else if (above) {
        fprintf(to, "<path class=\"m\" d=\"M%.2f %.2fl5 9h-10Z\"/>", x, r->top);
    } else {
        draw_whiskers(f, r, p, to);
        if (visible)
            figure_marker(to, l->look, x, y, marker_size);
        else
            fprintf(to, "<circle class=\"h\" cx=\"%.2f\" cy=\"%.2f\" r=\"4\"/>", x, y);
        if (p->marked)
            fprintf(to, "<circle class=\"r\" cx=\"%.2f\" cy=\"%.2f\" r=\"8.5\"/>", x, y);
    }
    fputs("</g>\n", to);
}

static void draw_points(const figure *f, const figure_frame *r, int line, FILE *to)
{
    const figure_line *l = &f->lines[line];
    const bool few = l->count <= dense;
    const int64_t hand = few ? 1 : (l->count + hands - 1) / hands;
    const int64_t mark = few ? 1 : hand * (1 + l->count / hand / sparse_marks);
    for (int64_t k = 0; k < l->count; k++) {
        /* Markers of different series stand at different places. */
        const bool visible =
            few || l->spots[k].marked || (f->looks > 1 && (k + (line % 4) * (mark / 4 / hand) * hand) % mark == 0);
        if (visible || k % hand == 0 || k == l->count - 1 || isinf(l->spots[k].y))
            draw_point(f, r, line, k, visible, to);
    }
}

static void draw_series(const figure *f, const figure_frame *r, int line, FILE *to)
{
    const figure_line *l = &f->lines[line];
    char colour[16];
    fprintf(to, "<g class=\"%s\" data-series=\"%d\">\n", figure_colour(f, l, colour), line);
    if (l->style != FIGURE_DOTS)
        draw_line(f, r, l, to);
    if (l->style == FIGURE_LINE || l->style == FIGURE_DOTS)
        draw_points(f, r, line, to);
    fputs("</g>\n", to);
}

/* ---- The whole --------------------------------------------------------------------------------------------- */

static void draw_head(const figure *f, const figure_frame *r, bool alone, FILE *to)
{
    if (alone)
        fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" viewBox=\"0 0 %d %.0f\" role=\"img\"",
            FIGURE_WIDTH, r->height);
    fprintf(to, " aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">", f->id, f->id, f->id);
    markup_text(to, f->title);
    fprintf(to, "</title>\n<desc id=\"%s-d\">", f->id);
    markup_text(to, f->caption);
    fputs("</desc>\n", to);
    if (alone) {
        char lines[2][256];
        const int count = title_lines(f, lines);
        fprintf(to, "<style>\n@media screen and (prefers-color-scheme:dark){.fig{background:#1b1d20}}\n%s</style>\n",
                figure_style_sheet);
        for (int i = 0; i < count; i++) {
            fprintf(to, "<text class=\"t\" x=\"4\" y=\"%d\">", 22 + 20 * i);
            markup_text(to, lines[i]);
            fputs("</text>\n", to);
        }
    }
    fprintf(to, "<clipPath id=\"%s-clip\"><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/></clipPath>\n",
            f->id, r->left - 6, r->top, r->right - r->left + 12, r->bottom - r->top + 3);
}

scion_status figure_svg(const figure *f, FILE *to, bool alone, scion_error *err)
{
    if (f->failed)
        return train_fail(err, SCION_ENOMEM, "figure %s: out of memory", f->id);
    const figure_frame r = frame_of(f, alone);
    draw_head(f, &r, alone, to);
    draw_axes(f, &r, to);
    for (int bounds = 1; bounds >= 0; bounds--) /* what is measured lies above what it is measured against */
        for (int i = 0; i < f->count; i++)
            if ((f->lines[i].style == FIGURE_BOUND || f->lines[i].style == FIGURE_FIT) == bounds)
                draw_series(f, &r, i, to);
    figure_legend(f, to, 8, FIGURE_WIDTH - 8, r.bottom + 46 + 10);
    fputs("</svg>\n", to);
    return SCION_OK;
}
