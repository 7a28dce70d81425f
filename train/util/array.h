/* Arrays that grow, and the order of numbers. */
#ifndef TRAIN_UTIL_ARRAY_H
#define TRAIN_UTIL_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Makes an array one longer and returns its new last element, which holds anything; NULL: out of memory, and nothing
 * has changed. `array` points to the pointer (NULL at first), whose memory the caller frees; *count is 0 at first and
 * changed by nobody else. */
void *array_append(void *array, int64_t *count, size_t bytes);

/* For qsort: doubles, ascending. */
int array_ascending(const void *a, const void *b);

#endif
