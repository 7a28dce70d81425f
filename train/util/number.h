/* Numbers as people write them, and the shortest text that reads back to the same number. */
#ifndef TRAIN_UTIL_NUMBER_H
#define TRAIN_UTIL_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT = 32 }; /* bytes of any number as text */

/* All of `text`: 0.1, 1e-3, 0x10, 2^-5, 1k (thousand), 2.5m (million). False: not a finite number. */
bool number_real(const char *text, double *value);
/* The same for integers; without ^, e, k and m they are exact over the range of their types. False: not an integer,
 * or out of range. */
bool number_int(const char *text, int64_t *value);
bool number_seed(const char *text, uint64_t *value);

/* The shortest decimal form that number_real reads back to the same bits. Not finite: "nan", "inf", "-inf". */
void number_write(double value, char text[NUMBER_TEXT]);

/* Bytes in human units: 999 B, 1.2 MB, 7.9 TB, 1.5 EB. */
enum { NUMBER_BYTES_TEXT = 16 };
const char *number_bytes(double bytes, char text[NUMBER_BYTES_TEXT]);

#endif
