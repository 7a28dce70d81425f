/* A matrix times few vectors, compiled once for each instruction set like kernel_isa.c:
 *
 *     y_ij (+)= sum over p < k of x_ip w_jp,    i < m rows of x,  j < n rows of the matrix w
 *
 * as a model that writes text needs it, a token of each of m texts at a time. The time is that of reading w, which is
 * float32 or bfloat16 and far larger than the caches: w is read once, where it is, from its first row to its last. A
 * group of its rows meets all rows of x before the next group; while it does, prefetches bring in the next group, for
 * the hardware's prefetchers stop at pages and have to learn each row anew.
 *
 * Every y_ij is one vector of sums over the steps of p, added up at the end of each block of k: its bits depend
 * neither on m, n nor on its place. */
#include "product/few.h"

#include "base/arith.h"
#include "base/simd.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* VL: floats in a register. One row of x meets GROUP rows of w at once, four rows meet TILE: sums, operands and one
 * load fill the registers. GROUP is a multiple of TILE. */
#if defined(__AVX512F__)
enum { VL = 16, TILE = 4, GROUP = 8 };
#elif defined(__AVX2__)
enum { VL = 8, TILE = 3, GROUP = 6 };
#elif defined(__aarch64__)
enum { VL = 4, TILE = 4, GROUP = 8 };
#else
enum { VL = 4, TILE = 3, GROUP = 6 };
#endif
enum { MAX_X = 4, LINE = 64 };

typedef float vec __attribute__((vector_size(VL * 4)));
typedef uint32_t word_vec __attribute__((vector_size(VL * 4)));
/* Memory is aligned to elements alone. */
typedef float memory_vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef uint16_t memory_halves __attribute__((vector_size(VL * 2), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Under AddressSanitizer every access of an unrolled tile is checked: gcc would compile for many minutes. */
#ifdef __SANITIZE_ADDRESS__
#define UNROLL(pragma)
#else
#define UNROLL(pragma) SCN_PRAGMA(pragma)
#endif

/* VL elements of w from element `at` on, and one. */
INLINE vec load(const bool half, const void *w, int64_t at)
{
    if (!half)
        return *(const memory_vec *)((const float *)w + at);
#if defined(__AVX512F__) /* GCC 12 makes two halves of the conversion below */
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)((const uint16_t *)w + at))),
                                  16);
#elif defined(__AVX2__)
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)((const uint16_t *)w + at))),
                                  16);
#endif
    return (vec)(__builtin_convertvector(*(const memory_halves *)((const uint16_t *)w + at), word_vec) << 16);
}

INLINE float element(const bool half, const void *w, int64_t at)
{
    float value;
    if (!half)
        return ((const float *)w)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)w)[at] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Adds halves to halves, so that neighbours meet last. */
INLINE float add_up(vec sum)
{
    float part[VL];
    memcpy(part, &sum, sizeof part);
    UNROLL(GCC unroll 8)
    for (int width = VL / 2; width > 0; width /= 2)
        UNROLL(GCC unroll 16)
    for (int i = 0; i < width; i++)
        part[i] += part[i + width];
    return part[0];
}

/* Adds the products of VL elements from p on. */
INLINE void add_step(const bool half, const int xs, const int ws, int64_t p, const float *x, int64_t ldx,
                     const void *w, int64_t ldw, vec sum[MAX_X][GROUP])
{
    vec right[GROUP];
    UNROLL(GCC unroll 16)
    for (int j = 0; j < ws; j++)
        right[j] = load(half, w, j * ldw + p);
    UNROLL(GCC unroll 8)
    for (int i = 0; i < xs; i++) {
        const vec left = *(const memory_vec *)(x + i * ldx + p);
        UNROLL(GCC unroll 16)
        for (int j = 0; j < ws; j++)
            sum[i][j] += left * right[j];
    }
}

/* xs rows of x by ws rows of w. ahead: elements from here to what is prefetched. */
INLINE void tile(const bool half, const int xs, const int ws, int64_t k, const float *x, int64_t ldx, const void *w,
                 int64_t ldw, int64_t ahead, int accumulate, float *y, int64_t ldy)
{
    const int size = half ? 2 : 4, line = LINE / size;
    vec sum[MAX_X][GROUP];
    UNROLL(GCC unroll 8)
    for (int i = 0; i < xs; i++)
        UNROLL(GCC unroll 16)
    for (int j = 0; j < ws; j++)
        sum[i][j] = (vec){0};
    int64_t p = 0;
    for (; p + line <= k; p += line) {
        UNROLL(GCC unroll 16)
        for (int j = 0; j < ws; j++)
            __builtin_prefetch((const char *)w + (j * ldw + p + ahead) * size, 0, 2);
        UNROLL(GCC unroll 8)
        for (int u = 0; u < line; u += VL)
            add_step(half, xs, ws, p + u, x, ldx, w, ldw, sum);
    }
    for (; p + VL <= k; p += VL)
        add_step(half, xs, ws, p, x, ldx, w, ldw, sum);
    UNROLL(GCC unroll 8)
    for (int i = 0; i < xs; i++)
        UNROLL(GCC unroll 16)
    for (int j = 0; j < ws; j++) {
        float total = add_up(sum[i][j]);
        for (int64_t q = p; q < k; q++)
            total += x[i * ldx + q] * element(half, w, j * ldw + q);
        float *to = y + i * ldy + j;
        *to = accumulate ? *to + total : total;
    }
}

/* Up to MAX_X rows of x by ws rows of w. */
INLINE void rows_of_x(const bool half, const int ws, int64_t m, int64_t k, const float *x, int64_t ldx, const void *w,
                      int64_t ldw, int64_t ahead, int accumulate, float *y, int64_t ldy)
{
    if (m == 4)
        tile(half, 4, ws, k, x, ldx, w, ldw, ahead, accumulate, y, ldy);
    else if (m == 3)
        tile(half, 3, ws, k, x, ldx, w, ldw, ahead, accumulate, y, ldy);
    else if (m == 2)
        tile(half, 2, ws, k, x, ldx, w, ldw, ahead, accumulate, y, ldy);
    else
        tile(half, 1, ws, k, x, ldx, w, ldw, ahead, accumulate, y, ldy);
}

/* All rows of x by `rows` rows of w, at most GROUP. The first rows of x read w from memory and prefetch, the others
 * find it in the cache. */
INLINE void group(const bool half, int64_t m, int64_t rows, int64_t k, const float *x, int64_t ldx, const char *w,
                  int64_t ldw, int64_t ahead, int accumulate, float *y, int64_t ldy)
{
    const int64_t size = half ? 2 : 4;
    int64_t j = 0;
    if (m == 1 && rows == GROUP) {
        tile(half, 1, GROUP, k, x, ldx, w, ldw, ahead, accumulate, y, ldy);
        return;
    }
    for (; j + TILE <= rows; j += TILE)
        for (int64_t i = 0; i < m; i += MAX_X)
            rows_of_x(half, TILE, scn_min(MAX_X, m - i), k, x + i * ldx, ldx, w + j * ldw * size, ldw,
                      i == 0 ? ahead : 0, accumulate, y + i * ldy + j, ldy);
    for (; j < rows; j++)
        for (int64_t i = 0; i < m; i++)
            tile(half, 1, 1, k, x + i * ldx, ldx, w + j * ldw * size, ldw, 0, accumulate, y + i * ldy + j, ldy);
}

/* The sum goes in equal blocks of k, whose results are added in order. One row of x takes all blocks of a group, so
 * that w is read from its beginning to its end; several take a block of all groups, so that x stays in the
 * first-level cache. */
INLINE void all_groups(const bool half, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const char *w,
                       int64_t ldw, int accumulate, float *y, int64_t ldy)
{
    enum { max_block = 768 };
    const int64_t size = half ? 2 : 4, ahead = GROUP * ldw;
    const int64_t block = scn_round_up(scn_pieces(k, scn_pieces(k, max_block)), LINE);
    const int64_t groups_at_once = m == 1 ? GROUP : n;
    for (int64_t first = 0; first < n; first += groups_at_once)
        for (int64_t p = 0; p < k; p += block)
            for (int64_t j = first; j < scn_min(n, first + groups_at_once); j += GROUP)
                group(half, m, scn_min(GROUP, n - j), scn_min(block, k - p), x + p, ldx, w + (j * ldw + p) * size,
                      ldw, ahead, accumulate || p > 0, y + j, ldy);
}

#define PASTE(a, b) a##b
#define FEW(isa) PASTE(scn_few_, isa)

scn_few FEW(SCN_ISA);
void FEW(SCN_ISA)(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const void *w, scion_dtype type,
                  int64_t ldw, int accumulate, float *y, int64_t ldy)
{
    if (type == SCION_BF16)
        all_groups(true, m, n, k, x, ldx, w, ldw, accumulate, y, ldy);
    else
        all_groups(false, m, n, k, x, ldx, w, ldw, accumulate, y, ldy);
}
