/* Looks of the series: colours, markers, dashes; the legend; the style sheet. */
#include "report/figure_parts.h"

#include <math.h>
#include <string.h>

/* Colours that remain apart for colour-blind eyes, for light paper and for dark screens; q0 to q11 is a ramp whose
 * lightness is monotone, so that it survives a grey print. Series take their colour by `color`, which every viewer of
 * SVG knows. On paper it is always the light one. */
const char figure_style_sheet[] =
    ".fig{font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif;color:#444}\n"
    ".fig text{fill:#444}.fig .t{fill:#111;font-size:16px;font-weight:600}.fig .g{stroke:#e3e3e0}\n"
    ".fig .a{stroke:#999}.fig .l{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}\n"
    ".fig .thin{stroke-width:1.3}.fig .w{stroke:currentColor;fill:none;stroke-width:1.2;opacity:.75}\n"
    ".fig .m{fill:currentColor;stroke:#fff;stroke-width:.8}.fig .o{fill:#fff;stroke:currentColor;stroke-width:1.8}\n"
    ".fig .x{fill:none;stroke:currentColor;stroke-width:2.2}.fig .r{fill:none;stroke:currentColor;stroke-width:2}\n"
    ".fig .h{fill:currentColor;opacity:0}.fig .p:hover .h,.fig .p.on .h{opacity:1}\n"
    ".fig .p:hover .m,.fig .p.on .m{stroke:currentColor;stroke-width:4}.fig .b{color:#444}\n"
    ".s0{color:#0b6fb3}.s1{color:#d4550a}.s2{color:#0a8f68}.s3{color:#b0479b}.s4{color:#9a6a00}.s5{color:#3a93cf}\n"
    ".s6{color:#555}.s7{color:#a31f4b}.s8{color:#0b6fb3}.s9{color:#d4550a}.s10{color:#0a8f68}.s11{color:#b0479b}\n"
    ".q0{color:#e89629}.q1{color:#e48134}.q2{color:#db6d42}.q3{color:#cf5b50}.q4{color:#c04b5c}.q5{color:#ad3e67}\n"
    ".q6{color:#993470}.q7{color:#822b76}.q8{color:#6b247a}.q9{color:#531d7a}.q10{color:#3b1676}.q11{color:#220e6f}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    ".fig{color:#bbb}.fig text{fill:#bbb}.fig .t{fill:#eee}.fig .g{stroke:#33363a}.fig .a{stroke:#777}\n"
    ".fig .m{stroke:#1b1d20}.fig .o{fill:#1b1d20}.fig .b{color:#bbb}\n"
    ".s0{color:#5ab4ef}.s1{color:#f5924a}.s2{color:#43cfa0}.s3{color:#e792cb}.s4{color:#e3c13a}.s5{color:#a5d8f7}\n"
    ".s6{color:#bdbdbd}.s7{color:#f4788f}.s8{color:#5ab4ef}.s9{color:#f5924a}.s10{color:#43cfa0}.s11{color:#e792cb}\n"
    ".q0{color:#8f68cb}.q1{color:#a96ac7}.q2{color:#c26dbf}.q3{color:#d871b4}.q4{color:#eb78a6}.q5{color:#fb8196}\n"
    ".q6{color:#ff8c85}.q7{color:#ff9a74}.q8{color:#ffab65}.q9{color:#ffbd5a}.q10{color:#ffd058}.q11{color:#ffe362}\n"
    "}\n";

const char *figure_colour(const figure *f, const figure_line *l, char text[16])
{
    const int last = f->looks - 1;
    if (l->style == FIGURE_BOUND)
        snprintf(text, 16, "b");
    else if (!f->ordered)
        snprintf(text, 16, "s%d", l->look % FIGURE_MOST);
    else
        snprintf(text, 16, "q%d", last > 0 ? l->look % FIGURE_MOST * (FIGURE_MOST - 1) / (last < 12 ? last : 11) : 7);
    return text;
}

const char *figure_dashes(const figure *f, const figure_line *l)
{
    static const char *const dashes[] = {"", " stroke-dasharray=\"8 3\"", " stroke-dasharray=\"3 2.5\""};
    if (l->style == FIGURE_BOUND || l->style == FIGURE_FIT)
        return " stroke-dasharray=\"5 4\"";
    return f->ordered ? "" : dashes[l->look % FIGURE_MOST / 4];
}

/* Corners on a circle of radius one, roughly of the same area; the first is a circle itself. */
static const struct {
    int count;
    double corners[12][2];
} shapes[] = {
    {0, {{0}}},
    {4, {{-.85, -.85}, {.85, -.85}, {.85, .85}, {-.85, .85}}},
    {3, {{0, -1.2}, {1.1, .8}, {-1.1, .8}}},
    {4, {{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}}},
    {3, {{0, 1.2}, {1.1, -.8}, {-1.1, -.8}}},
    {12,
     {{-.4, -1.2},
      {.4, -1.2},
      {.4, -.4},
      {1.2, -.4},
      {1.2, .4},
      {.4, .4},
      {.4, 1.2},
      {-.4, 1.2},
      {-.4, .4},
      {-1.2, .4},
      {-1.2, -.4},
      {-.4, -.4}}},
    {5, {{0, -1.15}, {1.1, -.35}, {.7, .95}, {-.7, .95}, {-1.1, -.35}}},
    {8, {{0, -1.4}, {.45, -.45}, {1.4, 0}, {.45, .45}, {0, 1.4}, {-.45, .45}, {-1.4, 0}, {-.45, -.45}}},
};

void figure_marker(FILE *to, int look, double x, double y, double size)
{
    const int shape = look % FIGURE_MOST % 8;
    const char *kind = look % FIGURE_MOST < 8 ? "m" : "o"; /* the last ones are hollow */
    if (shapes[shape].count == 0) {
        fprintf(to, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.1f\"/>", kind, x, y, size);
        return;
    }
    fprintf(to, "<path class=\"%s\" d=\"", kind);
    for (int i = 0; i < shapes[shape].count; i++)
        fprintf(to, "%c%.2f %.2f", i > 0 ? 'L' : 'M', x + size * shapes[shape].corners[i][0],
                y + size * shapes[shape].corners[i][1]);
    fputs("Z\"/>", to);
}

/* ---- The legend -------------------------------------------------------------------------------------------- */

static const double sample = 30, gap = 6, between = 14; /* length of a line, space behind it, behind an entry */

/* Entries stand in columns of one width. */
typedef struct place {
    FILE *to;
    double left, top, pitch, most; /* most: width of a name, in em */
    int columns, count;
} place;

static double place_x(const place *at)
{
    return at->left + at->pitch * (at->count % at->columns);
}

static double place_y(const place *at)
{
    return at->top + (double)FIGURE_ROW * (at->count / at->columns);
}

static void name_of(const figure_line *l, const place *at, char name[256])
{
    markup_shorten(l->name, at->most, name, 256);
}

static void entry(const figure *f, const figure_line *l, place *at)
{
    char colour[16], name[256];
    const double x = place_x(at), y = place_y(at);
    name_of(l, at, name);
    fprintf(at->to, "<g class=\"%s\">", figure_colour(f, l, colour));
    if (strcmp(name, l->name) != 0) {
        fputs("<title>", at->to);
        markup_text(at->to, l->name);
        fputs("</title>", at->to);
    }
    if (l->style != FIGURE_DOTS)
        fprintf(at->to, "<path class=\"l\"%s d=\"M%.2f %.2fh%.0f\"/>", figure_dashes(f, l), x, y, sample);
    if (l->style == FIGURE_LINE || l->style == FIGURE_DOTS)
        figure_marker(at->to, l->look, x + sample / 2, y, 4);
    fprintf(at->to, "<text x=\"%.2f\" y=\"%.2f\">", x + sample + gap, y + 4.5);
    markup_text(at->to, name);
    fputs("</text></g>\n", at->to);
}

static void mark_entry(const figure *f, const place *at)
{
    const double x = place_x(at), y = place_y(at);
    fprintf(at->to, "<circle class=\"r b\" cx=\"%.2f\" cy=\"%.2f\" r=\"6.5\"/><text x=\"%.2f\" y=\"%.2f\">",
            x + sample / 2, y, x + sample + gap, y + 4.5);
    markup_text(at->to, f->mark);
    fputs("</text>\n", at->to);
}

static bool has_marks(const figure *f)
{
    for (int i = 0; i < f->count; i++)
        for (int64_t k = 0; k < f->lines[i].count; k++)
            if (f->lines[i].spots[k].marked)
                return true;
    return false;
}

/* A figure of one series says in its title what that is. */
static bool named(const figure *f, int line)
{
    return f->count > 1 && f->lines[line].count > 0;
}

int figure_legend(const figure *f, FILE *to, double left, double right, double top)
{
    place at = {.to = to, .left = left, .top = top, .most = (right - left - sample - gap) / FIGURE_FONT};
    const bool marks = has_marks(f);
    double widest = marks ? markup_width(f->mark) : 0;
    for (int i = 0; i < f->count; i++) {
        char name[256];
        name_of(&f->lines[i], &at, name);
        if (named(f, i))
            widest = fmax(widest, markup_width(name));
    }
    at.columns = (int)((right - left + between) / (sample + gap + FIGURE_FONT * widest + between));
    at.columns = at.columns < 1 ? 1 : at.columns;
    at.pitch = (right - left + between) / at.columns;
    for (int i = 0; i < f->count; i++) {
        if (!named(f, i))
            continue;
        if (to)
            entry(f, &f->lines[i], &at);
        at.count++;
    }
    if (marks && to)
        mark_entry(f, &at);
    at.count += marks;
    return (at.count + at.columns - 1) / at.columns;
}
