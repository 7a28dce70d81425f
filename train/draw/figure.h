/* A figure: a title, one sentence, two axes, and series of points; as a standalone SVG, as CSV, and as HTML with
 * the drawing and a table of its numbers.
 *
 *     figure f = figure_make("loss", "Loss", "Mean over the batch.");
 *     figure_axes(&f, "step", AXIS_LINEAR, "loss", AXIS_LINEAR);
 *     const int s = figure_series(&f, "training", FIGURE_LINE);
 *     figure_point(&f, s, 10, 3.2);
 *
 * y = NAN is a gap; y = INFINITY, a run that diverged, is a cross at the upper edge. Series differ by colour, by the
 * shape of their markers and by their dashes. Values that a logarithmic axis cannot show are not drawn.
 *
 * Functions that add never fail: if memory ran out, the figure is `failed`. */
#ifndef TRAIN_DRAW_FIGURE_H
#define TRAIN_DRAW_FIGURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "draw/axis.h"

typedef enum figure_style {
    FIGURE_LINE,  /* markers, joined */
    FIGURE_BOUND, /* dashed, thin, no markers, in the colour of the text: a limit */
    FIGURE_FAINT  /* thin and pale, in the colour of the series before, which is its mean */
} figure_style;

enum { FIGURE_MAX_SERIES = 12 }; /* that can be distinguished */

/* Sides on which a value is open: it is an end of what was measured, and the true one lies there or beyond. */
enum { FIGURE_OPEN_BELOW = 1, FIGURE_OPEN_ABOVE = 2 };

typedef struct figure_value {
    double x, y;
    double low, high; /* ends of the whisker; NAN: none; infinite, or 0 on a logarithmic axis: open */
    bool marked;      /* has a ring around it */
    int open;         /* FIGURE_OPEN_..., or 0 */
} figure_value;

typedef struct figure_line {
    char *name;
    figure_style style;
    int look; /* index of its colour, marker and dashes */
    figure_value *values;
    int64_t count;
} figure_line;

typedef struct figure {
    char *id, *title, *caption, *x_label, *y_label, *mark;
    char *x_csv;     /* unit of x in the CSV file; NULL: the axis' */
    double x_factor; /* from that unit to the axis' */
    axis_scale x_scale, y_scale;
    double limit;       /* the largest y that the axis shows; points above it are arrows at the edge; NAN: none */
    double include;     /* y that is shown in any case; NAN: none */
    double first, last; /* x that are shown in any case, so that figures side by side can be compared; NAN: none */
    bool cropped;       /* curves leave the figure at its limit, without arrows */
    bool ordered;       /* the series are steps of one quantity (widths), in order: their colours are a ramp */
    bool failed;        /* out of memory: not to be written */
    figure_line *lines;
    int count, looks; /* lines, and styles given out */
} figure;

/* id: letters, digits and -, unique on its page; it names the files. All texts are copied. */
figure figure_make(const char *id, const char *title, const char *caption);
void figure_free(figure *f);

void figure_axes(figure *f, const char *x, axis_scale x_scale, const char *y, axis_scale y_scale);
/* Shows x in another unit, `factor` times the numbers so far, and renames the axis. The CSV file keeps the unit that
 * the axis was named by, and the page says so. Comes after all points; once at most. */
void figure_x_unit(figure *f, double factor, const char *label);
/* Makes the y axis logarithmic if the points that are there now span a large factor. */
void figure_auto_log(figure *f);
/* Meaning of a mark, for the legend: "minimum". */
void figure_mark_label(figure *f, const char *text);
/* Adds to the caption. */
void figure_note(figure *f, const char *text);

/* Adds a series, and returns its number. */
int figure_series(figure *f, const char *name, figure_style style);
void figure_point(figure *f, int series, double x, double y);
/* With whiskers from low to high; NAN: none. */
void figure_range(figure *f, int series, double x, double y, double low, double high);
/* Draws a ring around the last point that was added to the series. */
void figure_mark(figure *f, int series);
/* Draws that point hollow, with an arrow to each open side (FIGURE_OPEN_...). */
void figure_open(figure *f, int series, int sides);

/* True if there is nothing to draw: no value is finite or diverged. */
bool figure_empty(const figure *f);

/* alone: a complete file with title and style; else for a page that has draw_figure_css. */
void figure_svg(const figure *f, FILE *to, bool alone);
/* Columns: series, the names of both axes, low, high, marked (0 or 1), open (below, above, both). Numbers read back
 * to the same bits, NAN is empty, infinite is inf. */
void figure_csv(const figure *f, FILE *to);
/* folder: where ID.svg and ID.csv lie, seen from the page; NULL: nowhere. */
void figure_html(const figure *f, FILE *to, const char *folder);

/* Tooltip of a value: "width 64\nlearning rate 2⁻⁵\nloss 3.4 (3.3 to 3.5)". */
void figure_tooltip(const figure *f, const figure_line *l, const figure_value *p, FILE *to);

/* Style sheet of the drawings (figure.css, as a string that the build makes). Its colours can be distinguished by
 * colour-blind readers, on light and on dark pages; q0 to q11 is a ramp of monotone lightness, which survives a grey
 * print. Series take their colour from `color`, which every SVG viewer supports. Print always uses the light
 * colours. */
extern const char draw_figure_css[];

#endif
