/* place.c - offsets for arrays that live at different times in one block of memory.
 *
 * To find the smallest block is NP-hard; the greedy way is good: take the largest array first, and put each at
 * the lowest offset at which it overlaps none that was placed before and lives at the same time. Small arrays
 * then fill the gaps that large ones left. For n arrays this takes about n^2 comparisons, and a deep network has a
 * few thousand. */
#include "tensor/plan.h"

#include <stdlib.h>

static bool live_together(const plan_array *a, const plan_array *b)
{
    for (int i = 0; i < a->spans; i++) {
        for (int j = 0; j < b->spans; j++) {
            if (a->span[i].first <= b->span[j].last && b->span[j].first <= a->span[i].last)
                return true;
        }
    }
    return false;
}

/* Largest first; among equals the one that is needed first. The number makes every run sort alike. */
static int compare_size(const void *x, const void *y)
{
    const plan_array *a = *(plan_array *const *)x, *b = *(plan_array *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->span[0].first != b->span[0].first)
        return a->span[0].first < b->span[0].first ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

size_t plan_place(plan_array **array, plan_array **placed, int64_t n)
{
    size_t total = 0;
    for (int64_t i = 0; i < n; i++)
        array[i]->number = i;
    qsort(array, (size_t)n, sizeof *array, compare_size);
    for (int64_t i = 0; i < n; i++) {
        plan_array *a = array[i];
        size_t low = 0;
        /* placed is in the order of offsets: the first gap that is wide enough is the lowest */
        for (int64_t j = 0; j < i; j++) {
            const plan_array *b = placed[j];
            if (!live_together(a, b))
                continue;
            if (b->offset >= low + a->bytes)
                break;
            if (b->offset + b->bytes > low)
                low = b->offset + b->bytes;
        }
        a->offset = low;
        if (low + a->bytes > total)
            total = low + a->bytes;
        int64_t at = i;
        for (; at > 0 && placed[at - 1]->offset > low; at--)
            placed[at] = placed[at - 1];
        placed[at] = a;
    }
    return total;
}
