/* See memory.h. The address that the allocator returned is kept just below the aligned one. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#ifdef __linux__
#include <sys/mman.h>
#endif

static void *default_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void default_free(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

static const scion_allocator default_allocator = {default_alloc, default_free, NULL};

static const scion_allocator *actual(const scion_allocator *a)
{
    return a && a->alloc ? a : &default_allocator;
}

void scn_large_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)1 << 21, start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)memory + bytes) & ~(page - 1);
    if (memory && start < end && end - start >= 2 * page)
        (void)madvise((char *)memory + (start - (uintptr_t)memory), end - start, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

void scn_zero(void *memory, size_t bytes, int threads)
{
    enum { piece = 1 << 18, least = 4 }; /* to zero fewer pieces takes no longer than to wake threads */
    const int64_t pieces = scn_pieces((int64_t)bytes, piece);
    const int used = pieces < least ? 1 : (int)scn_min(pieces, threads);
    if (used < 2) {
        memset(memory, 0, bytes);
        return;
    }
    SCN_PARALLEL_FOR_STATIC(used, i, pieces) {
        const size_t first = (size_t)i * piece, left = bytes - first;
        memset((char *)memory + first, 0, left < piece ? left : piece);
    }
}

void *scn_alloc(const scion_allocator *a, size_t bytes)
{
    return scn_alloc_shared(a, bytes, 1);
}

void *scn_alloc_shared(const scion_allocator *a, size_t bytes, int threads)
{
    const size_t extra = SCN_ALIGN + sizeof(void *);
    if (bytes > SIZE_MAX - extra)
        return NULL;
    a = actual(a);
    char *raw = a->alloc(a->ctx, bytes + extra);
    if (!raw)
        return NULL;
    uintptr_t start = ((uintptr_t)raw + extra) & ~(uintptr_t)(SCN_ALIGN - 1);
    char *memory = raw + (start - (uintptr_t)raw);
    memcpy(memory - sizeof(void *), &raw, sizeof raw);
    if (a == &default_allocator)
        scn_large_pages(memory, bytes);
    scn_zero(memory, bytes, threads);
    return memory;
}

void scn_free(const scion_allocator *a, void *memory)
{
    if (!memory)
        return;
    void *raw;
    memcpy(&raw, (char *)memory - sizeof(void *), sizeof raw);
    a = actual(a);
    a->free(a->ctx, raw);
}

void *scn_take(scn_arena *arena, size_t bytes)
{
    size_t start = arena->used;
    arena->used += (bytes + SCN_ALIGN - 1) / SCN_ALIGN * SCN_ALIGN;
    return arena->base ? arena->base + start : NULL;
}

char *scn_copy_string(const scion_allocator *a, const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = scn_alloc(a, bytes);
    if (copy)
        memcpy(copy, s, bytes);
    return copy;
}
