/* Growing arrays, and a comparison for sorting. */
#ifndef TRAIN_UTIL_ARRAY_H
#define TRAIN_UTIL_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Appends an uninitialised element to an array and returns it; NULL: out of memory, nothing has changed. `array`
 * points to the pointer (NULL at first), which the caller frees; *count is 0 at first and must not be changed
 * elsewhere. */
void *array_append(void *array, int64_t *count, size_t bytes);

/* For qsort, ascending: doubles or int64_t, or structs that begin with one. */
int array_ascending(const void *a, const void *b);
int array_ascending_int(const void *a, const void *b);

#endif
