/* Text for XML and HTML, and numbers as people write them. All output is the same for the same input. */
#ifndef TRAIN_REPORT_MARKUP_H
#define TRAIN_REPORT_MARKUP_H

#include <stdbool.h>
#include <stdio.h>

enum { MARKUP_NUMBER = 48 }; /* room for a number */

/* Writes a text so that it stands for itself, in an element or in a quoted attribute. What is not UTF-8, and control
 * characters, which XML does not have, become U+FFFD. */
void markup_text(FILE *to, const char *text);

/* One entry of a CSV file: quoted if it has to be. */
void markup_csv(FILE *to, const char *text);

/* For reading: `digits` significant digits, 12345678 as 1.235e7, infinite as "diverged", NAN as a dash. */
const char *markup_number(double value, int digits, char text[MARKUP_NUMBER]);
/* The same, but a power of two (or the root of one) as 2⁻⁵. */
const char *markup_power(double value, char text[MARKUP_NUMBER]);
/* 1234567 -> "1.2 MB". */
const char *markup_bytes(double bytes, char text[MARKUP_NUMBER]);
/* 3725 -> "1 h 02 min". */
const char *markup_duration(double seconds, char text[MARKUP_NUMBER]);
/* 1234567 -> "1,234,567". */
const char *markup_count(long long value, char text[MARKUP_NUMBER]);

/* A whole exponent in superscript digits. */
const char *markup_exponent(int value, char text[MARKUP_NUMBER]);

/* Width in em of a text in a sans-serif font: an estimate that is rather too large. */
double markup_width(const char *text);
/* The beginning of a text that is not wider than `em`, with an ellipsis if something is left out; cut: room for
 * bytes, at least 8. */
void markup_shorten(const char *text, double em, char *cut, size_t bytes);

#endif
