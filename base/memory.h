/* Memory from the caller's allocator, and an arena that hands out pieces of one block.
 *
 * Sizes are planned first with an arena that has no block (it only counts), then taken from one that has:
 * the same code does both, so the plan cannot differ from the use. */
#ifndef SCN_MEMORY_H
#define SCN_MEMORY_H

#include <stdbool.h>

#include "scion.h"

enum { SCN_ALIGN = 64 }; /* a cache line, and the widest vector */

/* Zeroed memory aligned to SCN_ALIGN, or NULL. An allocator of zeros means malloc and free. */
void *scn_alloc(const scion_allocator *a, size_t bytes);
/* The same for an array that `threads` threads will share: they zero it (scn_zero). */
void *scn_alloc_shared(const scion_allocator *a, size_t bytes, int threads);
void scn_free(const scion_allocator *a, void *memory);

typedef struct scn_arena {
    char *base; /* NULL: only count */
    size_t used, size;
} scn_arena;

/* The next piece, aligned; NULL when counting. Never past `size`: the plan was made by the same calls. */
void *scn_take(scn_arena *arena, size_t bytes);

/* Asks the system for large pages in this memory, which is new and not yet written to: matrices read along their
 * columns touch a page with every element. A hint; blocks below a few megabytes are left alone. */
void scn_large_pages(void *memory, size_t bytes);

/* Zeroes memory, in equal runs by up to `threads` threads if it is large. On a machine with several memory nodes a
 * page lies where it was first written: new memory is then spread over the nodes of the threads. */
void scn_zero(void *memory, size_t bytes, int threads);

/* Copies a string; NULL: out of memory. */
char *scn_copy_string(const scion_allocator *a, const char *s);

#endif
