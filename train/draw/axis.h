/* Axes of figures: from data to pixels, and the ticks.
 *
 *     linear   ticks at 1, 2, 2.5 or 5 times a power of ten
 *     log2     ticks at whole powers: 2⁻⁵ below one, 64, 128, ... where all values are whole
 *     log10    1, 2 and 5, or 1 and 3, times powers of ten if few decades are spanned, else powers of ten alone */
#ifndef TRAIN_DRAW_AXIS_H
#define TRAIN_DRAW_AXIS_H

#include <stdbool.h>

#include "draw/markup.h"

typedef enum axis_scale { AXIS_LINEAR, AXIS_LOG2, AXIS_LOG10 } axis_scale;

enum { AXIS_TICKS = 40 };

typedef struct axis {
    axis_scale scale;
    double low, high; /* ends, in data */
    double from, to;  /* ends, in pixels */
    double ticks[AXIS_TICKS];
    int count;
    int decimals; /* linear: of the labels */
} axis;

/* Makes an axis that shows low to high, with a margin at both ends unless `tight`, and ticks at least `apart`
 * pixels from each other. low > high: there are no data, and it shows 0 to 1 (or 1 to 10). */
void axis_fit(axis *a, axis_scale scale, double low, double high, bool tight, double from, double to, double apart);

/* True if a value can be shown: a logarithmic axis has no zero, and no axis goes beyond 10^300. */
bool axis_holds(axis_scale scale, double value);
double axis_at(const axis *a, double value); /* in pixels */

/* Label of tick i as text. *power, if not NULL: the exponent that belongs above `text`, which then holds the base
 * alone; "" if there is none. */
void axis_label(const axis *a, int i, char text[MARKUP_NUMBER], char power[MARKUP_NUMBER]);

#endif
