/* A figure as SVG: 400 units wide, so that it is legible in half a page and on a telephone. The label of the y
 * axis is above it, the legend below the plot. */
#include "draw/figure.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* In units of the drawing. */
enum { figure_width = 400, plot_height = 210, font_size = 13, legend_row = 19 };

/* A series with more than `dense` points has only a few markers and tooltips, and its line leaves out invisible
 * points. */
enum { dense = 48, max_tooltips = 60, sparse_marks = 8 };

static const double cross = 5, marker_size = 4;

/* ---- Colours, dashes, markers ------------------------------------------------------------------------------- */

/* The class that has the colour of a series. */
static const char *colour_class(const figure *f, const figure_line *l, char text[16])
{
    const int last = f->looks - 1;
    if (l->style == FIGURE_BOUND)
        snprintf(text, 16, "b");
    else if (!f->ordered)
        snprintf(text, 16, "s%d", l->look % FIGURE_MAX_SERIES);
    else
        snprintf(text, 16, "q%d",
                 last > 0 ? l->look % FIGURE_MAX_SERIES * (FIGURE_MAX_SERIES - 1) / (last < 12 ? last : 11) : 7);
    return text;
}

/* The dashes of a line, as an attribute, or "". */
static const char *dashes_of(const figure *f, const figure_line *l)
{
    static const char *const dashes[] = {"", " stroke-dasharray=\"8 3\"", " stroke-dasharray=\"3 2.5\""};
    if (l->style == FIGURE_BOUND)
        return " stroke-dasharray=\"5 4\"";
    return f->ordered ? "" : dashes[l->look % FIGURE_MAX_SERIES / 4];
}

/* Corners on a circle of radius one, roughly of the same area; the first is a circle itself. */
static const struct {
    int count;
    double corners[24]; /* x and y in turn */
} shapes[] = {
    {0, {0}},
    {4, {-.85, -.85, .85, -.85, .85, .85, -.85, .85}},
    {3, {0, -1.2, 1.1, .8, -1.1, .8}},
    {4, {0, -1.25, 1.25, 0, 0, 1.25, -1.25, 0}},
    {3, {0, 1.2, 1.1, -.8, -1.1, -.8}},
    {12, {-.4, -1.2, .4,  -1.2, .4,  -.4, 1.2,  -.4, 1.2,  .4,  .4,  .4,
          .4,  1.2,  -.4, 1.2,  -.4, .4,  -1.2, .4,  -1.2, -.4, -.4, -.4}},
    {5, {0, -1.15, 1.1, -.35, .7, .95, -.7, .95, -1.1, -.35}},
    {8, {0, -1.4, .45, -.45, 1.4, 0, .45, .45, 0, 1.4, -.45, .45, -1.4, 0, -.45, -.45}},
};

static void draw_marker(FILE *to, int look, bool hollow, double x, double y, double size)
{
    const int shape = look % FIGURE_MAX_SERIES % 8;
    const char *kind = !hollow && look % FIGURE_MAX_SERIES < 8 ? "m" : "o"; /* the last looks are hollow */
    if (shapes[shape].count == 0) {
        fprintf(to, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.1f\"/>", kind, x, y, size);
        return;
    }
    fprintf(to, "<path class=\"%s\" d=\"", kind);
    for (int i = 0; i < shapes[shape].count; i++)
        fprintf(to, "%c%.2f %.2f", i > 0 ? 'L' : 'M', x + size * shapes[shape].corners[2 * i],
                y + size * shapes[shape].corners[2 * i + 1]);
    fputs("Z\"/>", to);
}

/* ---- The legend -------------------------------------------------------------------------------------------- */

static const double sample = 30, gap = 6, between = 14; /* length of a line, space after it, after an entry */

static void draw_arrow(FILE *to, double x, double top)
{
    fprintf(to, "<path class=\"x\" d=\"M%.2f %.2fv-11m-4 4l4 -4l4 4\"/>", x, top + 12);
}

/* True if a point is an arrow at the upper edge. */
static bool is_above(const figure *f, const figure_line *l, const figure_value *p)
{
    return isfinite(p->y) && p->y > f->limit && !f->cropped && l->style == FIGURE_LINE;
}

/* Counts the crosses (or arrows) at x (NAN: anywhere) in the first series. */
static int count_at(const figure *f, int lines, double x, bool diverged)
{
    int count = 0;
    for (int i = 0; i < lines; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++) {
            const figure_value *p = &f->lines[i].values[k];
            count += (isnan(x) || p->x == x) && (diverged ? p->y > DBL_MAX : is_above(f, &f->lines[i], p));
        }
    return count;
}

static bool has_marks(const figure *f)
{
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            if (f->lines[i].values[k].marked)
                return true;
    return false;
}

/* Name of entry i: the series, then the ring, then the arrow; false: the figure does not have it. A figure of one
 * series says in its title what that is. */
static bool entry_name(const figure *f, int i, double max_em, char name[256])
{
    const char *full = "above the axis";
    if (i < f->count)
        full = f->count > 1 && f->lines[i].count > 0 ? f->lines[i].name : NULL;
    else if (i == f->count)
        full = has_marks(f) ? f->mark : NULL;
    else if (count_at(f, f->count, NAN, false) == 0)
        full = NULL;
    if (full)
        markup_shorten(full, max_em, name, 256);
    return full != NULL;
}

static void draw_entry(const figure *f, int i, const char *name, double x, double y, FILE *to)
{
    const figure_line *l = i < f->count ? &f->lines[i] : NULL;
    char colour[16];
    if (l) {
        fprintf(to, "<g class=\"%s\">", colour_class(f, l, colour));
        if (strcmp(name, l->name) != 0)
            markup_element(to, l->name, "title");
        fprintf(to, "<path class=\"%s\"%s d=\"M%.2f %.2fh%.0f\"/>", l->style == FIGURE_FAINT ? "l faint" : "l",
                dashes_of(f, l), x, y, sample);
        if (l->style == FIGURE_LINE)
            draw_marker(to, l->look, false, x + sample / 2, y, 4);
    } else if (i == f->count) {
        fprintf(to, "<circle class=\"r b\" cx=\"%.2f\" cy=\"%.2f\" r=\"6.5\"/>", x + sample / 2, y);
    } else {
        fputs("<g class=\"b\">", to);
        draw_arrow(to, x + sample / 2, y - 6);
        fputs("</g>", to);
    }
    markup_element(to, name, "text x=\"%.2f\" y=\"%.2f\"", x + sample + gap, y + 4.5);
    fputs(l ? "</g>\n" : "\n", to);
}

/* The entries of a legend, in rows of columns of the same width; returns the number of rows. `to` NULL: only counts
 * them. */
static int draw_legend(const figure *f, FILE *to, double left, double right, double top)
{
    const double max_em = (right - left - sample - gap) / font_size;
    double widest = 0;
    int count = 0;
    char name[256];
    for (int i = 0; i < f->count + 2; i++)
        if (entry_name(f, i, max_em, name))
            widest = fmax(widest, markup_width(name));
    const int columns = (int)fmax(1, (right - left + between) / (sample + gap + font_size * widest + between));
    const double pitch = (right - left + between) / columns;
    for (int i = 0; i < f->count + 2; i++) {
        if (!entry_name(f, i, max_em, name))
            continue;
        if (to)
            draw_entry(f, i, name, left + pitch * (count % columns), top + (double)legend_row * (count / columns),
                       to);
        count++;
    }
    return (count + columns - 1) / columns;
}

/* ---- The frame --------------------------------------------------------------------------------------------- */

typedef struct frame {
    double left, right, top, bottom; /* of the plot */
    double diverged_y;               /* y of the row of diverged values; NAN: there are none */
    double height;                   /* of the drawing */
    axis x, y;
} frame;

typedef struct extent {
    double low[2], high[2]; /* of x and y */
    bool diverged;
} extent;

static void extend(extent *e, int which, axis_scale scale, double value)
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
            const figure_value *p = &f->lines[i].values[k];
            const double y[] = {p->y, p->low, p->high};
            if (!isnan(p->y))
                extend(&e, 0, f->x_scale, p->x);
            for (int j = 0; j < 3; j++)
                extend(&e, 1, f->y_scale, y[j] > f->limit ? f->limit : y[j]);
            e.diverged = e.diverged || (isinf(p->y) && p->y > 0);
        }
    }
    extend(&e, 0, f->x_scale, f->first);
    extend(&e, 0, f->x_scale, f->last);
    extend(&e, 1, f->y_scale, f->include);
    return e;
}

/* Width of a tick's label. */
static double label_width(const axis *a, int i)
{
    char text[MARKUP_NUMBER], power[MARKUP_NUMBER];
    axis_label(a, i, text, power);
    return font_size * (markup_width(text) + 0.75 * markup_width(power));
}

/* As many ticks as possible without overlapping labels. */
static void fit_x(frame *r, const figure *f, const extent *e)
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

/* The title of a standalone drawing, in one or two lines; returns their number. */
static int title_lines(const figure *f, char lines[2][256])
{
    const double max_em = (figure_width - 8) / 17.0; /* bold and larger than the rest */
    markup_shorten(f->title, max_em, lines[0], sizeof lines[0]);
    char *blank = strcmp(lines[0], f->title) == 0 ? NULL : strrchr(lines[0], ' ');
    if (!blank)
        return 1;
    *blank = '\0';
    markup_shorten(f->title + (blank - lines[0]) + 1, max_em, lines[1], sizeof lines[1]);
    return 2;
}

static frame frame_of(const figure *f, bool alone)
{
    char lines[2][256];
    const extent e = extent_of(f);
    frame r = {.diverged_y = NAN};
    double gutter = e.diverged ? font_size * markup_width("diverged") : 0;
    r.top = (alone ? 14 + 20 * title_lines(f, lines) : 4) + 26;
    if (e.diverged) {
        r.diverged_y = r.top + 8;
        r.top += 22;
    }
    r.bottom = r.top + plot_height;
    axis_fit(&r.y, f->y_scale, e.low[1], e.high[1], false, r.bottom, r.top, 38);
    for (int i = 0; i < r.y.count; i++)
        gutter = fmax(gutter, label_width(&r.y, i));
    r.left = ceil(gutter) + 10;
    r.right = figure_width - 16;
    fit_x(&r, f, &e);
    const int rows = draw_legend(f, NULL, 8, figure_width - 8, 0);
    r.height = r.bottom + 46 + (rows > 0 ? 6 + rows * legend_row : 0);
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

static void axis_name(const char *label, axis_scale scale, FILE *to)
{
    markup_text(to, label);
    fputs(scale == AXIS_LINEAR ? "" : " (log scale)", to);
}

static void draw_axes(const figure *f, const frame *r, FILE *to)
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
        const double middle = fmin(x, figure_width - 2 - label_width(&r->x, i) / 2);
        fprintf(to, "<path class=\"a\" d=\"M%.2f %.2fv5\"/><text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", x,
                r->bottom, middle, r->bottom + 21);
        tick_text(&r->x, i, to);
        fputs("</text>\n", to);
    }
    fprintf(to, "<path class=\"a\" fill=\"none\" d=\"M%.2f %.2fH%.2f\"/>\n", r->left, r->bottom, r->right);
    fprintf(to, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", (r->left + r->right) / 2, r->bottom + 40);
    axis_name(f->x_label, f->x_scale, to);
    fprintf(to, "</text>\n<text x=\"4\" y=\"%.2f\">", (isnan(r->diverged_y) ? r->top - 12 : r->diverged_y - 20));
    axis_name(f->y_label, f->y_scale, to);
    fputs("</text>\n", to);
    if (!isnan(r->diverged_y))
        fprintf(to,
                "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">diverged</text>"
                "<path class=\"g\" stroke-dasharray=\"2 3\" d=\"M%.2f %.2fH%.2f\"/>\n",
                r->left - 6, r->diverged_y + 4.5, r->left, r->diverged_y, r->right);
}

/* ---- Lines ------------------------------------------------------------------------------------------------- */

static bool drawn(const figure *f, const figure_value *p)
{
    return axis_holds(f->x_scale, p->x) && axis_holds(f->y_scale, p->y);
}

/* The first, last, lowest and highest point of a column of pixels are enough. */
static bool needed(const figure *f, const frame *r, const figure_line *l, int64_t k)
{
    const figure_value *p = &l->values[k];
    const double column = floor(axis_at(&r->x, p->x));
    int64_t first = k, last = k;
    bool lowest = true, highest = true;
    if (l->count <= dense)
        return true;
    while (first > 0 && drawn(f, p - (k - first) - 1) && floor(axis_at(&r->x, l->values[first - 1].x)) == column)
        first--;
    while (last + 1 < l->count && drawn(f, &l->values[last + 1]) &&
           floor(axis_at(&r->x, l->values[last + 1].x)) == column)
        last++;
    for (int64_t i = first; i <= last; i++) {
        lowest = lowest && l->values[i].y >= p->y;
        highest = highest && l->values[i].y <= p->y;
    }
    return k == first || k == last || lowest || highest;
}

static void draw_line(const figure *f, const frame *r, const figure_line *l, FILE *to)
{
    bool open = false, any = false;
    for (int64_t k = 0; k < l->count; k++) {
        const figure_value *p = &l->values[k];
        if (!drawn(f, p)) {
            open = false;
            continue;
        }
        if (open && !needed(f, r, l, k))
            continue;
        if (!any)
            fprintf(to, "<path class=\"l%s\"%s clip-path=\"url(#%s-clip)\" d=\"",
                    l->style == FIGURE_FAINT ? " faint"
                    : l->count > dense       ? " thin"
                                             : "",
                    dashes_of(f, l), f->id);
        fprintf(to, "%c%.2f %.2f", open ? 'L' : 'M', axis_at(&r->x, p->x), axis_at(&r->y, p->y));
        open = any = true;
    }
    if (any)
        fputs("\"/>\n", to);
}

/* Dotted lines from finite neighbours up to a point that diverged. */
static void draw_divergence(const figure *f, const frame *r, const figure_line *l, int64_t k, double at, FILE *to)
{
    for (int64_t side = -1; side <= 1; side += 2) {
        const int64_t n = k + side;
        if (n < 0 || n >= l->count || !drawn(f, &l->values[n]) || l->values[n].y > f->limit)
            continue;
        fprintf(to, "<path class=\"w\" stroke-dasharray=\"2 4\" d=\"M%.2f %.2fL%.2f %.2f\"/>\n",
                axis_at(&r->x, l->values[n].x), axis_at(&r->y, l->values[n].y), at, r->diverged_y + cross);
    }
}

/* ---- Points ------------------------------------------------------------------------------------------------ */

/* Crosses (or arrows) of several series at one x are drawn side by side: the offset of this one. */
static double sideways(const figure *f, int line, double x, bool diverged)
{
    const int before = count_at(f, line, x, diverged), all = count_at(f, f->count, x, diverged);
    return (before - 0.5 * (all - 1)) * (2 * cross + 1) * (all > 4 ? 0.5 : 1);
}

/* Arrows from a point to its open sides. */
static void draw_open(const figure_value *p, double x, double y, FILE *to)
{
    for (int side = FIGURE_OPEN_BELOW; side <= FIGURE_OPEN_ABOVE; side *= 2) {
        const int down = side == FIGURE_OPEN_BELOW ? 1 : -1;
        if (p->open & side)
            fprintf(to, "<path class=\"w\" d=\"M%.2f %.2fv%dm-3 %dl3 %dl3 %d\"/>", x, y + 5 * down, 10 * down,
                    -4 * down, 4 * down, -4 * down);
    }
}

/* A whisker ends at the point itself on an open side. */
static void draw_whiskers(const figure *f, const frame *r, const figure_value *p, FILE *to)
{
    const double from = p->open & FIGURE_OPEN_BELOW ? p->y : p->low,
                 end = p->open & FIGURE_OPEN_ABOVE ? p->y : p->high;
    if (!axis_holds(f->y_scale, from) || !axis_holds(f->y_scale, end) || !(from < end))
        return;
    const double x = axis_at(&r->x, p->x), low = axis_at(&r->y, from), high = fmax(axis_at(&r->y, end), r->top);
    fprintf(to, "<path class=\"w\" d=\"M%.2f %.2fV%.2fM%.2f %.2fh6M%.2f %.2fh6\"/>", x, low, high, x - 3, low, x - 3,
            high);
}

/* The value of an arrow, beside it, where it is the only one at its x. */
static void above_value(const figure *f, const figure_value *p, double x, const frame *r, FILE *to)
{
    char text[MARKUP_NUMBER];
    if (count_at(f, f->count, p->x, false) > 1)
        return;
    const bool left = x > (r->left + r->right) / 2;
    fprintf(to, "<text class=\"v\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">%s</text>", x + (left ? -7 : 7),
            r->top + 11, left ? "end" : "start", markup_number(p->y, 3, text));
}

static void draw_point(const figure *f, const frame *r, int line, int64_t k, bool visible, FILE *to)
{
    const figure_line *l = &f->lines[line];
    const figure_value *p = &l->values[k];
    const bool diverged = isinf(p->y) && p->y > 0;
    double x, y;
    if (!axis_holds(f->x_scale, p->x) || (!diverged && !drawn(f, p)))
        return;
    const bool above = is_above(f, l, p);
    if (!diverged && !above && p->y > f->limit)
        return;
    x = axis_at(&r->x, p->x) + (diverged || above ? sideways(f, line, p->x, diverged) : 0);
    y = diverged ? r->diverged_y : axis_at(&r->y, p->y);
    if (diverged)
        draw_divergence(f, r, l, k, x, to);
    fputs("<g class=\"p\"><title>", to);
    figure_tooltip(f, l, p, to);
    fputs("</title>", to);
    if (diverged) {
        fprintf(to, "<path class=\"x\" d=\"M%.2f %.2fl10 10m0 -10l-10 10\"/>", x - cross, y - cross);
    } else if (above) {
        draw_arrow(to, x, r->top);
        above_value(f, p, x, r, to);
    } else {
        draw_whiskers(f, r, p, to);
        draw_open(p, x, y, to);
        if (visible)
            draw_marker(to, l->look, p->open, x, y, marker_size);
        else
            fprintf(to, "<circle class=\"h\" cx=\"%.2f\" cy=\"%.2f\" r=\"4\"/>", x, y);
        if (p->marked)
            fprintf(to, "<circle class=\"r\" cx=\"%.2f\" cy=\"%.2f\" r=\"8.5\"/>", x, y);
    }
    fputs("</g>\n", to);
}

static void draw_points(const figure *f, const frame *r, int line, FILE *to)
{
    const figure_line *l = &f->lines[line];
    const bool few = l->count <= dense;
    const int64_t every = few ? 1 : (l->count + max_tooltips - 1) / max_tooltips;
    const int64_t mark = few ? 1 : every * (1 + l->count / every / sparse_marks);
    for (int64_t k = 0; k < l->count; k++) {
        /* Markers of different series are at different x. */
        const bool visible =
            few || l->values[k].marked || (f->looks > 1 && (k + (line % 4) * (mark / 4 / every) * every) % mark == 0);
        if (visible || k % every == 0 || k == l->count - 1 || isinf(l->values[k].y))
            draw_point(f, r, line, k, visible, to);
    }
}

static void draw_series(const figure *f, const frame *r, int line, FILE *to)
{
    const figure_line *l = &f->lines[line];
    char colour[16];
    fprintf(to, "<g class=\"%s\" data-series=\"%d\">\n", colour_class(f, l, colour), line);
    draw_line(f, r, l, to);
    if (l->style == FIGURE_LINE)
        draw_points(f, r, line, to);
    fputs("</g>\n", to);
}

/* ---- The whole --------------------------------------------------------------------------------------------- */

static void draw_head(const figure *f, const frame *r, bool alone, FILE *to)
{
    if (alone)
        fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" viewBox=\"0 0 %d %.0f\" role=\"img\"",
            figure_width, r->height);
    fprintf(to, " aria-labelledby=\"%s-t %s-d\">\n", f->id, f->id);
    markup_element(to, f->title, "title id=\"%s-t\"", f->id);
    fputs("\n", to);
    markup_element(to, f->caption, "desc id=\"%s-d\"", f->id);
    fputs("\n", to);
    if (alone) {
        char lines[2][256];
        const int count = title_lines(f, lines);
        fprintf(to, "<style>\n@media screen and (prefers-color-scheme:dark){.fig{background:#1b1d20}}\n%s</style>\n",
                draw_figure_css);
        for (int i = 0; i < count; i++) {
            markup_element(to, lines[i], "text class=\"t\" x=\"4\" y=\"%d\"", 22 + 20 * i);
            fputs("\n", to);
        }
    }
    fprintf(to, "<clipPath id=\"%s-clip\"><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/></clipPath>\n",
            f->id, r->left - 6, r->top, r->right - r->left + 12, r->bottom - r->top + 3);
}

void figure_svg(const figure *f, FILE *to, bool alone)
{
    const frame r = frame_of(f, alone);
    draw_head(f, &r, alone, to);
    draw_axes(f, &r, to);
    for (int bounds = 1; bounds >= 0; bounds--) /* measured series lie above bounds */
        for (int i = 0; i < f->count; i++)
            if ((f->lines[i].style != FIGURE_LINE) == bounds)
                draw_series(f, &r, i, to);
    draw_legend(f, to, 8, figure_width - 8, r.bottom + 46 + 10);
    fputs("</svg>\n", to);
}
