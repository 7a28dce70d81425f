/* What the files of a figure share. */
#ifndef TRAIN_REPORT_FIGURE_PARTS_H
#define TRAIN_REPORT_FIGURE_PARTS_H

#include <stdint.h>

#include "report/figure.h"

typedef struct figure_spot {
    double x, y, low, high;
    bool marked;
} figure_spot;

typedef struct figure_line {
    char *name;
    figure_style style;
    int look; /* which colour, marker and dashes */
    figure_spot *spots;
    int64_t count, room;
} figure_line;

struct figure {
    char *id, *title, *caption, *x_label, *y_label, *mark;
    axis_scale x_scale, y_scale;
    double limit, include; /* NAN: none */
    bool ordered, failed;
    figure_line *lines;
    int count, looks;
};

/* Where everything stands, in units of the drawing. */
enum { FIGURE_WIDTH = 500, FIGURE_PLOT = 250, FIGURE_FONT = 13, FIGURE_ROW = 19 };

typedef struct figure_frame {
    double left, right, top, bottom; /* of the plot */
    double strip;                    /* y of the diverged ones; NAN: there are none */
    double height;                   /* of the drawing */
    axis x, y;
} figure_frame;

/* The entries of a legend, laid out in rows; returns the number of rows. `to` NULL: only counts. */
int figure_legend(const figure *f, FILE *to, double left, double right, double top);
/* A marker around a point. */
void figure_marker(FILE *to, int look, double x, double y, double size);
/* "64: 2⁻⁵, 3.4 (3.3 to 3.5)": what the hand over a point is told. */
void figure_tell(const figure *f, const figure_line *l, const figure_spot *p, FILE *to);
/* The dashes of a line, as an attribute, or "". */
const char *figure_dashes(const figure *f, const figure_line *l);
/* Class that has the colour of a series. */
const char *figure_colour(const figure *f, const figure_line *l, char text[16]);

/* The table of the numbers. */
void figure_table(const figure *f, FILE *to);

#endif
