/* Text for XML, HTML and CSV, and numbers for people to read. */
#ifndef TRAIN_DRAW_MARKUP_H
#define TRAIN_DRAW_MARKUP_H

#include <stdbool.h>
#include <stdio.h>

enum { MARKUP_NUMBER = 48 }; /* bytes of a number as text */

/* Writes a text, escaped for a quoted attribute. Invalid UTF-8 and control characters, which XML does not allow,
 * become U+FFFD. */
void markup_attribute(FILE *to, const char *text);
/* The same for an element, where 2^-5 becomes 2⁻⁵, and a % stays on the line of its number. */
void markup_text(FILE *to, const char *text);
/* An element with such a text; tag: its name and attributes, as a format. */
void markup_element(FILE *to, const char *text, const char *tag, ...) __attribute__((format(printf, 3, 4)));

/* One entry of a CSV file, quoted if necessary. It is UTF-8, and begins with ' where it would be a formula. */
void markup_csv(FILE *to, const char *text);

/* For reading: `digits` significant digits, 12345678 as 1.235e7, infinite as "diverged", NAN as a dash. */
const char *markup_number(double value, int digits, char text[MARKUP_NUMBER]);
/* With a fixed number of decimals, for columns. */
const char *markup_fixed(double value, int decimals, char text[MARKUP_NUMBER]);
/* A loss: four decimals where that is sensible. */
const char *markup_loss(double value, char text[MARKUP_NUMBER]);
/* As markup_number with four digits, but a power of two (or the root of one) as 2⁻⁵. */
const char *markup_power(double value, char text[MARKUP_NUMBER]);
/* 1234567 -> "1.2 MB". */
const char *markup_bytes(double bytes, char text[MARKUP_NUMBER]);
/* 3725 -> "1 h 02 min". */
const char *markup_duration(double seconds, char text[MARKUP_NUMBER]);
/* 1234567 -> "1,234,567". */
const char *markup_count(long long value, char text[MARKUP_NUMBER]);

/* A whole exponent in superscript digits. */
const char *markup_exponent(int value, char text[MARKUP_NUMBER]);

/* Width in em of a text in a sans-serif font: an estimate, rather too large than too small. */
double markup_width(const char *text);
/* The beginning of a text, not wider than `em`, with an ellipsis if it is cut. `bytes` of cut: 8 or more. */
void markup_shorten(const char *text, double em, char *cut, size_t bytes);

#endif
