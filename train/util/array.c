/* See array.h. */
#include "util/array.h"

#include <stdlib.h>
#include <string.h>

void *array_append(void *array, int64_t *count, size_t bytes)
{
    void *items;
    memcpy(&items, array, sizeof items); /* the caller's pointer, of any element type */
    if ((*count & (*count - 1)) == 0) {  /* the capacity is a power of two */
        void *larger = realloc(items, (size_t)(*count > 0 ? 2 * *count : 1) * bytes);
        if (!larger)
            return NULL;
        memcpy(array, &larger, sizeof larger);
        items = larger;
    }
    return (char *)items + (size_t)(*count)++ * bytes;
}

int array_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int array_ascending_int(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}
