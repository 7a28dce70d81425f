/* The innermost products, written once with vectors of the compiler and compiled once for each instruction set: CMake
 * gives this file the flags of the set and SCN_ISA = avx512, avx2, neon or portable. (A target attribute in place of
 * flags would not do: GCC lowers vector types before it inlines.) With SCN_PAIRS a word is two bfloat16, else a
 * float32; nearly all code moves words and does not ask.
 *
 * A tile of C lives in rows x vecs accumulators; for each p, vecs loads of B and `rows` broadcasts of A feed rows *
 * vecs multiply-adds. `rows` and `vecs` are constants where `tile` is inlined, and all loops but the one over p
 * unroll. Every element of C is one sum in the order of p, then scaled: its bits do not depend on its place in the
 * tile.
 *
 * Packed, op(B) is cut into strips of NR columns, a little apart; the last of them is as wide as whole vectors need.
 * In a strip row follows row. op(A) is cut into tiles of MR rows, in which column follows column; the last is filled
 * with zeros. */
#include "product/kernel.h"

#include "base/arith.h"
#include "product/transpose.h"

/* VL: floats in a register. Tiles of operands in panels have PANEL_MR x PANEL_NV vectors, those of small products at
 * most 6 x SMALL_NV, all others at most MR x NV. */
#if defined(__AVX512F__)
/* 16 accumulators of 32 registers: a square tile wastes least on the diagonal of a triangle. The others: 24. An 8 x 3
 * tile has 11 loads for 24 multiply-adds, so that the loads never wait, and needs no packed A: eight rows are eight
 * addresses. */
enum { VL = 16, PANEL_MR = 16, PANEL_NV = 1, SMALL_NV = 4, MR = 8, NV = 3 };
#elif defined(__AVX2__)
/* 12 accumulators, the loads and a broadcast fill the 16 registers. */
enum { VL = 8, PANEL_MR = 4, PANEL_NV = 3, SMALL_NV = 2, MR = 4, NV = 3 };
#elif defined(__aarch64__)
/* NEON: 16 accumulators of 32 registers. */
enum { VL = 4, PANEL_MR = 8, PANEL_NV = 2, SMALL_NV = 4, MR = 8, NV = 3 };
#else
/* SSE2 and other machines with vectors of four floats: 8 and 12 accumulators of 16 registers. */
enum { VL = 4, PANEL_MR = 4, PANEL_NV = 2, SMALL_NV = 2, MR = 4, NV = 2 };
#endif
enum { PANEL_NR = PANEL_NV * VL, NR = NV * VL };
enum { MAX_ROWS = 16, MAX_VECS = 4 }; /* of all of them */
enum {
    STRIP_GAP = 16, /* floats between strips, which would all begin in the same set of the cache */
    TILE_GAP = 2,   /* columns between tiles of A, likewise */
};

_Static_assert(PANEL_NR % PANEL_MR == 0, "tiles of panels lie inside one strip of A");
_Static_assert(PANEL_NR *PANEL_MR <= SCN_KERNEL_MAX_TILE && PANEL_NR - (int)SCN_KERNEL_MAX_NR <= 0,
               "callers hold a tile");
_Static_assert(PANEL_MR % 2 == 0 && VL % 2 == 0, "pairs do not reach over the edge of a tile");

typedef float vec __attribute__((vector_size(VL * 4)));

/* Memory is aligned to floats alone. Accumulators of such a type would be spilled, hence a type of its own. */
typedef float memory_vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

/* Words, and sum + a b of vectors of them; a may be one word for all. */
#ifdef SCN_PAIRS
enum { KR = 2 };
typedef uint32_t word __attribute__((may_alias));
typedef uint32_t word_vec __attribute__((vector_size(VL * 4)));
typedef uint32_t memory_words __attribute__((vector_size(VL * 4), aligned(4), may_alias));
#ifdef __AVX512BF16__
#include <immintrin.h>
static inline __attribute__((always_inline)) vec dot_pairs(vec sum, word_vec a, word_vec b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#else
/* As vdpbf16ps is documented: the odd element first, then the even one, each product exact and each sum rounded to
 * nearest. That instruction also takes denormal numbers for zero and makes zeros of them; this does not. */
static inline __attribute__((always_inline)) vec dot_pairs(vec sum, word_vec a, word_vec b)
{
    sum += (vec)(a & 0xffff0000u) * (vec)(b & 0xffff0000u);
    return sum + (vec)(a << 16) * (vec)(b << 16);
}
#endif
#define MULTIPLY_ADD(sum, a, b) dot_pairs(sum, (a) + (word_vec){0}, b)
#else
enum { KR = 1 };
typedef float word;
typedef vec word_vec;
typedef memory_vec memory_words;
#define MULTIPLY_ADD(sum, a, b) ((sum) + (a) * (b))
#endif

/* Words that hold k elements of the depth. */
static inline int64_t words(int64_t k)
{
    return scn_pieces(k, KR);
}

/* C (rows x vecs*VL) = alpha A B, or C + alpha A B if accumulate; word (i, p) of A is a[i*a_row + p*a_col], p < k. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vecs, int64_t k, float alpha,
                                                       const word *a, int64_t a_row, int64_t a_col, const word *b,
                                                       int64_t ldb, int accumulate, float *c, int64_t ldc)
{
    vec sum[MAX_ROWS][MAX_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            sum[i][j] = (vec){0};
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; p++) {
        word_vec row[MAX_VECS];
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            row[j] = *(const memory_words *)(b + p * ldb + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int j = 0; j < vecs; j++)
                sum[i][j] = MULTIPLY_ADD(sum[i][j], a[i * a_row + p * a_col], row[j]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++) {
            memory_vec *to = (memory_vec *)(c + i * ldc + j * VL);
            if (accumulate)
                *to += alpha * sum[i][j];
            else
                *to = alpha * sum[i][j];
        }
}

static void panel_tile(int64_t k, const float *a, const float *b, float *c, int accumulate)
{
    tile(PANEL_MR, PANEL_NV, k, 1, (const word *)a, 1, PANEL_NR, (const word *)b, PANEL_NR, accumulate, c, PANEL_NR);
}

/* ---- Operands where they are ------------------------------------------------------------------------------ */

#ifndef SCN_PAIRS
/* All rows of one column of tiles. */
static inline __attribute__((always_inline)) void tile_column(const int vecs, int64_t m, int64_t k, float alpha,
                                                              const float *a, int64_t a_row, int64_t a_col,
                                                              const float *b, int64_t ldb, int accumulate, float *c,
                                                              int64_t ldc)
{
    int64_t i = 0;
    for (; i + 6 <= m; i += 6)
        tile(6, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
    for (; i + 4 <= m; i += 4)
        tile(4, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
    for (; i < m; i++)
        tile(1, vecs, k, alpha, a + i * a_row, a_row, a_col, b, ldb, accumulate, c + i * ldc, ldc);
}

/* Columns that do not fill a vector, one at a time. */
static void last_columns(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                         const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += a[i * a_row + p * a_col] * b[p * ldb + j];
            c[i * ldc + j] = (accumulate ? c[i * ldc + j] : 0) + alpha * sum;
        }
}

static void small_product(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row, int64_t a_col,
                          const float *b, int64_t ldb, int accumulate, float *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + SMALL_NV * VL <= n; j += SMALL_NV * VL)
        tile_column(SMALL_NV, m, k, alpha, a, a_row, a_col, b + j, ldb, accumulate, c + j, ldc);
    for (; j + VL <= n; j += VL)
        tile_column(1, m, k, alpha, a, a_row, a_col, b + j, ldb, accumulate, c + j, ldc);
    if (j < n)
        last_columns(m, n - j, k, alpha, a, a_row, a_col, b + j, ldb, accumulate, c + j, ldc);
}

#endif

/* ---- Packed operands -------------------------------------------------------------------------------------- */

/* A tile of A: rows of some distance, or packed, MR words of one column after another. Each has code of its own: as
 * constants the distances cost no registers. */
static inline __attribute__((always_inline)) void tile_of(const int packed, const int rows, const int vecs, int64_t k,
                                                          float alpha, const word *a, int64_t lda, const word *b,
                                                          int accumulate, float *c, int64_t ldc)
{
    if (packed)
        tile(rows, vecs, k, alpha, a, 1, MR, b, vecs * VL, accumulate, c, ldc);
    else
        tile(rows, vecs, k, alpha, a, lda, 1, b, vecs * VL, accumulate, c, ldc);
}

typedef void strip_tile(int64_t k, float alpha, const word *a, int64_t lda, const word *b, int accumulate, float *c,
                        int64_t ldc);

/* The lines of a tile of C, which is written when its sum is complete. */
static inline __attribute__((always_inline)) void expect_tile(float *c, int64_t ldc)
{
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
        for (int j = 0; j < NR; j += 16)
            __builtin_prefetch(c + i * ldc + j, 1);
}

static __attribute__((noinline)) void full_direct(int64_t k, float alpha, const word *a, int64_t lda, const word *b,
                                                  int accumulate, float *c, int64_t ldc)
{
    expect_tile(c, ldc);
    tile_of(0, MR, NV, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void full_packed(int64_t k, float alpha, const word *a, int64_t lda, const word *b,
                                                  int accumulate, float *c, int64_t ldc)
{
    expect_tile(c, ldc);
    tile_of(1, MR, NV, k, alpha, a, lda, b, accumulate, c, ldc);
}

/* `rows` <= MR rows of one strip. */
static inline __attribute__((always_inline)) void tile_rows(const int packed, const int vecs, int64_t rows, int64_t k,
                                                            float alpha, const word *a, int64_t lda, const word *b,
                                                            int accumulate, float *c, int64_t ldc)
{
    const int64_t row = packed ? 1 : lda;
    int64_t i = 0;
    if (rows == MR) {
        tile_of(packed, MR, vecs, k, alpha, a, lda, b, accumulate, c, ldc);
        return;
    }
    for (; MR > 4 && i + 4 <= rows; i += 4)
        tile_of(packed, 4, vecs, k, alpha, a + i * row, lda, b, accumulate, c + i * ldc, ldc);
    for (; i < rows; i++)
        tile_of(packed, 1, vecs, k, alpha, a + i * row, lda, b, accumulate, c + i * ldc, ldc);
}

/* A strip of `vecs` vectors. */
static inline __attribute__((always_inline)) void strip_rows(const int packed, int64_t vecs, int64_t rows, int64_t k,
                                                             float alpha, const word *a, int64_t lda, const word *b,
                                                             int accumulate, float *c, int64_t ldc)
{
    if (vecs == 3 && NV > 2)
        tile_rows(packed, 3, rows, k, alpha, a, lda, b, accumulate, c, ldc);
    else if (vecs == 2)
        tile_rows(packed, 2, rows, k, alpha, a, lda, b, accumulate, c, ldc);
    else
        tile_rows(packed, 1, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void strip_direct(int64_t vecs, int64_t rows, int64_t k, float alpha, const word *a,
                                                   int64_t lda, const word *b, int accumulate, float *c, int64_t ldc)
{
    strip_rows(0, vecs, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void strip_packed(int64_t vecs, int64_t rows, int64_t k, float alpha, const word *a,
                                                   int64_t lda, const word *b, int accumulate, float *c, int64_t ldc)
{
    strip_rows(1, vecs, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

/* The strip whose last vector is not full, through a copy of the tile. */
static void partial_strip(int packed, int64_t cols, int64_t rows, int64_t k, float alpha, const word *a, int64_t lda,
                          const word *b, int accumulate, float *c, int64_t ldc)
{
    float t[MR * NR];
    (packed ? strip_packed : strip_direct)((cols + VL - 1) / VL, rows, k, alpha, a, lda, b, 0, t, NR);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            c[i * ldc + j] = accumulate ? c[i * ldc + j] + t[i * NR + j] : t[i * NR + j];
}

/* Part of the next rows of A, so that all of them are there when their turn comes. */
static inline __attribute__((always_inline)) void expect_rows(const word *a, int64_t lda, int64_t first,
                                                              int64_t count, int64_t k)
{
    for (int64_t p = first; p < first + count && p < k; p += 16)
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
            __builtin_prefetch(a + i * lda + p);
}

/* Where packed words lie. */

static inline int64_t tile_words(int64_t depth)
{
    return MR * (words(depth) + TILE_GAP);
}

/* Offset of row or column number i of the whole, which begins a tile or strip, at the depth where the part begins. */
static word *tile_at(const scn_packed *a, int64_t i)
{
    return (word *)a->at + i / MR * tile_words(a->depth) + a->first / KR * MR;
}

static inline int64_t strip_words(int64_t depth)
{
    return NR * words(depth) + STRIP_GAP;
}

/* Columns of the strip that begins with column j, padding included. */
static inline int64_t strip_width(const scn_packed *b, int64_t j)
{
    return scn_min(NR, scn_round_up(b->width - j, VL));
}

static word *strip_at(const scn_packed *b, int64_t j)
{
    return (word *)b->at + j / NR * strip_words(b->depth) + b->first / KR * strip_width(b, j);
}

/* Addresses of tiles and strips are found once: with a short depth a tile takes hardly longer than it would take to
 * find them each time. */
static void multiply(int64_t m, int64_t n, int64_t k, float alpha, const scn_packed *a, const scn_packed *b,
                     int accumulate, float *c, int64_t ldc)
{
    const int packed = a->ld == 0;
    const int64_t lda = a->ld / KR, depth = words(k), next = packed ? tile_words(a->depth) : MR * lda;
    const int64_t stride = strip_words(b->depth), wide = n / NR * NR;
    const int64_t ahead = (depth / scn_max(n / NR, 1) + 16) / 16 * 16; /* of the next rows, with each strip */
    const word *const first = strip_at(b, b->from), *const last = wide < n ? strip_at(b, b->from + wide) : NULL;
    const word *rows_of_a = packed ? tile_at(a, a->from) : (const word *)a->at + a->from * lda + a->first / KR;
    strip_tile *const full = packed ? full_packed : full_direct;
    for (int64_t i = 0; i < m; i += MR, c += MR * ldc, rows_of_a += next) {
        const int64_t rows = scn_min(MR, m - i);
        const word *strip = first;
        for (int64_t j = 0, p = 0; j < wide; j += NR, strip += stride, p += ahead) {
            if (!packed && i + 2 * MR <= m)
                expect_rows(rows_of_a + next, lda, p, ahead, depth);
            if (rows == MR)
                full(depth, alpha, rows_of_a, lda, strip, accumulate, c + j, ldc);
            else
                (packed ? strip_packed : strip_direct)(NV, rows, depth, alpha, rows_of_a, lda, strip, accumulate,
                                                       c + j, ldc);
        }
        if (wide == n)
            continue;
        if ((n - wide) % VL == 0)
            (packed ? strip_packed : strip_direct)((n - wide) / VL, rows, depth, alpha, rows_of_a, lda, last,
                                                   accumulate, c + wide, ldc);
        else
            partial_strip(packed, n - wide, rows, depth, alpha, rows_of_a, lda, last, accumulate, c + wide, ldc);
    }
}

/* ---- Packing ---------------------------------------------------------------------------------------------- */

/* `depth` words of `cols` columns, which lie ld apart, to rows of `width`; the other columns are zero. Sixteen words
 * of each column at a time, which is a cache line; the lines after it are fetched meanwhile. Words are only
 * moved. */
static void pack_columns(float *out, int64_t width, const float *from, int64_t ld, int64_t depth, int64_t cols)
{
    enum { chunk = 16, ahead = 64 };
    for (int64_t p = 0; p < depth; p += chunk, out += chunk * width, from += chunk) {
        const int64_t rows = depth - p < chunk ? depth - p : chunk;
        if (p + ahead < depth)
            for (int64_t j = 0; j < cols; j++)
                __builtin_prefetch(from + j * ld + ahead);
        scn_transpose(out, width, from, ld, cols, rows);
        for (int64_t i = 0; i < rows && cols < width; i++)
            for (int64_t j = cols; j < width; j++)
                out[i * width + j] = 0;
    }
}

static inline __attribute__((always_inline)) void load_halves(int64_t n, const uint16_t *restrict from, int64_t step,
                                                              float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)from[i * step] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

static inline __attribute__((always_inline)) void load_floats(const int round, int64_t n, const float *restrict from,
                                                              int64_t step, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = round ? scn_bf16_nearest(from[i * step]) : 0;
        if (round)
            memcpy(to + i, &bits, sizeof bits);
        else
            to[i] = from[i * step];
    }
}

/* n elements that follow each other in memory, as float32, rounded to bfloat16 if `round`. */
static inline __attribute__((always_inline)) void load_row(const int round, const scn_operand *o, int64_t skip,
                                                           int64_t n, float *to)
{
    if (o->type == SCION_BF16 && o->step <= 1)
        load_halves(n, (const uint16_t *)o->at + skip, 1, to);
    else if (o->type == SCION_BF16)
        load_halves(n, (const uint16_t *)o->at + skip, o->step, to);
    else if (o->step <= 1)
        load_floats(round, n, (const float *)o->at + skip, 1, to);
    else
        load_floats(round, n, (const float *)o->at + skip, o->step, to);
}

#ifdef SCN_PAIRS
/* Words of n elements of two rows of the depth, which are rounded already. */
static inline __attribute__((always_inline)) void join(int64_t n, const float *even, const float *odd, word *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = ((const word *)even)[i] >> 16 | ((const word *)odd)[i];
}
#endif

enum { chunk_depth = 64 }; /* elements of the depth at a time, a multiple of kr */

/* The rows of a strip are rows in memory. */
static inline __attribute__((always_inline)) void convert_rows(const int round, float *out, int64_t width,
                                                               const scn_operand *o)
{
    for (int64_t p = 0; p < o->rows; p += KR, out += width) {
#ifdef SCN_PAIRS
        float even[NR], odd[NR];
        load_row(round, o, p * o->ld, o->cols, even);
        if (p + 1 < o->rows)
            load_row(round, o, (p + 1) * o->ld, o->cols, odd);
        else
            memset(odd, 0, sizeof odd);
        join(o->cols, even, odd, (word *)out);
#else
        load_row(round, o, p * o->ld, o->cols, out);
#endif
        for (int64_t j = o->cols; j < width; j++)
            out[j] = 0;
    }
}

#ifdef SCN_PAIRS
/* The first of a word is its lower half. */
typedef uint16_t half_word __attribute__((may_alias));
#ifdef __BYTE_ORDER__
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "neighbours of 16 bits in memory are a word");
#endif

/* n floats, rounded. */
static inline __attribute__((always_inline)) void round_halves(int64_t n, const float *restrict from,
                                                               half_word *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (half_word)(scn_bf16_nearest(from[i]) >> 16);
}

/* n elements that follow each other in memory, rounded; an odd one at the end has zero beside it. */
static inline __attribute__((always_inline)) void halves_of(const int round, const scn_operand *o, int64_t skip,
                                                            int64_t n, half_word *to)
{
    if (n % 2)
        to[n] = 0;
    if (o->type == SCION_F32 && o->step <= 1 && n == chunk_depth)
        round_halves(chunk_depth, (const float *)o->at + skip, to);
    else if (o->type == SCION_F32 && o->step <= 1)
        round_halves(n, (const float *)o->at + skip, to);
    else {
        float row[chunk_depth];
        load_row(round, o, skip, n, row);
        round_halves(n, row, to);
    }
}
#endif

/* The columns of a strip are rows in memory. */
static inline __attribute__((always_inline)) void convert_columns(const int round, float *out, int64_t width,
                                                                  const scn_operand *o)
{
    const int64_t step = o->step > 0 ? o->step : 1;
    float rows[NR * chunk_depth / KR];
    for (int64_t p = 0; p < o->rows; p += chunk_depth) {
        const int64_t n = scn_min(chunk_depth, o->rows - p), length = words(n);
        for (int64_t j = 0; j < o->cols; j++)
#ifdef SCN_PAIRS
            halves_of(round, o, j * o->ld + p * step, n, (half_word *)(rows + j * length));
#else
            load_row(round, o, j * o->ld + p * step, n, rows + j * length);
#endif
        pack_columns(out + p / KR * width, width, rows, length, length, o->cols);
    }
}

/* True if neighbours along the depth are whole words in memory. */
static inline __attribute__((always_inline)) bool words_in_place(const int round, const scn_operand *o)
{
    if (KR == 1)
        return !round && o->type == SCION_F32 && o->step <= 1;
    return o->type == SCION_BF16 && o->step <= 1 && o->rows % 2 == 0 && o->ld % 2 == 0 &&
           (uintptr_t)o->at % sizeof(word) == 0;
}

/* One strip or tile of up to `width` columns: o has its depth as rows. */
static inline __attribute__((always_inline)) void pack_strip(const int round, float *out, int64_t width,
                                                             const scn_operand *o)
{
    if (o->transposed && words_in_place(round, o))
        pack_columns(out, width, o->at, o->ld / KR, o->rows / KR, o->cols);
    else if (o->transposed)
        convert_columns(round, out, width, o);
    else
        convert_rows(round, out, width, o);
}

#ifndef SCN_PAIRS
static inline __attribute__((always_inline)) void copy_run(const int64_t n, float *to, const float *from)
{
    if (n % VL == 0) {
#pragma GCC unroll 8
        for (int64_t j = 0; j < n; j += VL)
            *(memory_vec *)(to + j) = *(const memory_vec *)(from + j);
    } else {
#pragma GCC unroll 4
        for (int64_t j = 0; j < n; j += 4)
            *(scn_vec4 *)(to + j) = *(const scn_vec4 *)(from + j);
    }
}

/* All whole strips of `width` columns, a constant, that begin `stride` apart; o's rows are rows in memory. (o is read
 * first: for all that the compiler knows the copies may write to it.) */
static inline __attribute__((always_inline)) void copy_strips(const int64_t width, float *out, int64_t stride,
                                                              const scn_operand *o)
{
    const float *from = o->at;
    const int64_t ld = o->ld, rows = o->rows, strips = o->cols / width;
    for (int64_t p = 0; p < rows; p++, from += ld, out += width)
        for (int64_t s = 0; s < strips; s++) {
            __builtin_prefetch(from + s * width + 4 * ld);
            copy_run(width, out + s * stride, from + s * width);
        }
}

/* The columns from `first` on, fewer than a strip has, to rows of `width`. */
static inline __attribute__((always_inline)) void copy_rest(float *out, int64_t width, const scn_operand *o,
                                                            int64_t first)
{
    const float *from = (const float *)o->at + first;
    const int64_t ld = o->ld, rows = o->rows, cols = o->cols - first, whole = cols / VL * VL;
    for (int64_t p = 0; p < rows; p++, from += ld, out += width) {
        for (int64_t j = 0; j < whole; j += VL)
            *(memory_vec *)(out + j) = *(const memory_vec *)(from + j);
        for (int64_t j = whole; j < width; j++)
            out[j] = j < cols ? from[j] : 0;
    }
}
#endif

#ifdef SCN_PAIRS
/* n words of two rows of the depth. */
static inline __attribute__((always_inline)) void
join_rows(const int half, const int64_t n, const void *restrict even, const void *restrict odd, word *restrict to)
{
    if (half)
        for (int64_t j = 0; j < n; j++)
            to[j] = (word)((const uint16_t *)even)[j] | (word)((const uint16_t *)odd)[j] << 16;
    else
        for (int64_t j = 0; j < n; j++)
            to[j] = scn_bf16_nearest(((const float *)even)[j]) >> 16 | scn_bf16_nearest(((const float *)odd)[j]);
}

/* All whole strips of `width` columns, a constant, that begin `stride` apart; o's rows are rows in memory, an even
 * number of them. */
static inline __attribute__((always_inline)) void join_strips(const int half, const int64_t width, word *out,
                                                              int64_t stride, const scn_operand *o)
{
    const int64_t size = half ? sizeof(uint16_t) : sizeof(float), ld = o->ld * size, rows = o->rows,
                  strips = o->cols / width;
    const char *from = o->at;
    for (int64_t p = 0; p < rows; p += 2, from += 2 * ld, out += width)
        for (int64_t s = 0; s < strips; s++) {
            const char *even = from + s * width * size;
            __builtin_prefetch(even + 4 * ld);
            __builtin_prefetch(even + 5 * ld);
            join_rows(half, width, even, even + ld, out + s * stride);
        }
}
#endif

/* Strips (or tiles of A) of NR (MR) columns of o, whose rows are the depth. Where they are rows in memory, they are
 * read row by row: floats that need no change are copied, pairs are made of two rows. */
static inline __attribute__((always_inline)) void pack(const int round, const int tiles, const scn_packed *to,
                                                       const scn_operand *o)
{
    const int64_t width = tiles ? MR : NR;
    int64_t j = 0;
#ifndef SCN_PAIRS
    if (!round && o->type == SCION_F32 && o->step <= 1 && !o->transposed) {
        j = o->cols / width * width;
        if (j > 0 && tiles)
            copy_strips(MR, tile_at(to, to->from), tile_words(to->depth), o);
        else if (j > 0)
            copy_strips(NR, strip_at(to, to->from), strip_words(to->depth), o);
        if (j < o->cols && tiles)
            copy_rest(tile_at(to, to->from + j), MR, o, j);
        else if (j < o->cols)
            copy_rest(strip_at(to, to->from + j), strip_width(to, to->from + j), o, j);
        return;
    }
#else
    if (o->step <= 1 && !o->transposed && o->rows % 2 == 0) {
        j = o->cols / width * width;
        word *const out = tiles ? tile_at(to, to->from) : strip_at(to, to->from);
        const int64_t stride = tiles ? tile_words(to->depth) : strip_words(to->depth);
        if (j > 0 && o->type == SCION_BF16)
            join_strips(1, tiles ? MR : NR, out, stride, o);
        else if (j > 0)
            join_strips(0, tiles ? MR : NR, out, stride, o);
    }
#endif
    for (; j < o->cols; j += width) {
        const scn_operand strip = scn_operand_part(*o, 0, j, o->rows, scn_min(width, o->cols - j));
        if (tiles)
            pack_strip(round, (float *)tile_at(to, to->from + j), MR, &strip);
        else
            pack_strip(round, (float *)strip_at(to, to->from + j), strip_width(to, to->from + j), &strip);
    }
}

static scn_operand transpose_of(const scn_operand *a)
{
    scn_operand o = *a;
    o.rows = a->cols;
    o.cols = a->rows;
    o.transposed = !a->transposed;
    return o;
}

static size_t a_floats(int64_t m, int64_t k)
{
    return (size_t)(scn_pieces(m, MR) * tile_words(k));
}

static size_t b_floats(int64_t n, int64_t k)
{
    return (size_t)(scn_pieces(n, NR) * strip_words(k));
}

static void pack_a_rounded(const scn_packed *to, const scn_operand *from)
{
    const scn_operand o = transpose_of(from);
    pack(1, 1, to, &o);
}

static void pack_b_rounded(const scn_packed *to, const scn_operand *from)
{
    pack(1, 0, to, from);
}

#ifdef SCN_PAIRS
/* Words of stored bfloat16 begin at even places of the depth: the rows must begin there too, and end with a word. */
static bool reads_pairs(const scn_operand *a)
{
    return a->type == SCION_BF16 && !a->transposed && a->step <= 1 && a->cols % 2 == 0 && a->ld % 2 == 0 &&
           (uintptr_t)a->at % sizeof(word) == 0;
}
#else
static void pack_a(const scn_packed *to, const scn_operand *from)
{
    const scn_operand o = transpose_of(from);
    pack(0, 1, to, &o);
}

static void pack_b(const scn_packed *to, const scn_operand *from)
{
    pack(0, 0, to, from);
}

static bool reads_floats(const scn_operand *a)
{
    return a->type == SCION_F32 && !a->transposed && a->step <= 1;
}

static bool reads_nothing(const scn_operand *a)
{
    (void)a;
    return false;
}
#endif

/* ---- The limit -------------------------------------------------------------------------------------------- */

/* The compiler may neither leave out what follows nor keep less than all of it in registers. */
#if defined(__AVX512F__)
#define IN_REGISTER(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define IN_REGISTER(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__ volatile("" : "+w"(x))
#else
#define IN_REGISTER(x) __asm__ volatile("" : "+m"(x))
#endif

static double limit(int64_t rounds)
{
    enum { sums = 12 }; /* more than the latency of a multiply-add times those that begin at once */
    vec sum[sums];
    word_vec x = {0}, y = {0};
#pragma GCC unroll 16
    for (int i = 0; i < sums; i++)
        sum[i] = (vec){0};
    for (int64_t r = 0; r < rounds; r++) {
        IN_REGISTER(x);
        IN_REGISTER(y);
#pragma GCC unroll 16
        for (int i = 0; i < sums; i++) {
            sum[i] = MULTIPLY_ADD(sum[i], x, y);
            IN_REGISTER(sum[i]);
        }
    }
    return 2.0 * KR * sums * VL * (double)rounds;
}

/* ---- The rows ----------------------------------------------------------------------------------------------- */

#define PASTE(a, b) a##b
#define KERNEL(isa) PASTE(scn_kernel_, isa)
#define ROUNDED(isa) PASTE(isa, _rounded)
#define QUOTE(text) #text
#define TEXT(text) QUOTE(text)

/* Sizes and functions that all rows of an instruction set share. */
#define SHARED                                                                                                \
    .kr = KR, .mr = MR, .nr = NR, .vl = VL, .a_floats = a_floats, .b_floats = b_floats, .multiply = multiply, \
    .panel_mr = PANEL_MR, .panel_nr = PANEL_NR, .tile = panel_tile, .limit = limit

#ifdef SCN_PAIRS
const scn_kernel KERNEL(SCN_ISA) = {.name = TEXT(SCN_ISA),
                                    .in = SCION_BF16,
                                    .reads = reads_pairs,
                                    .pack_a = pack_a_rounded,
                                    .pack_b = pack_b_rounded,
                                    SHARED};
#else
const scn_kernel KERNEL(SCN_ISA) = {.name = TEXT(SCN_ISA),
                                    .in = SCION_F32,
                                    .reads = reads_floats,
                                    .pack_a = pack_a,
                                    .pack_b = pack_b,
                                    .small = small_product,
                                    SHARED};
/* bfloat16 in float32 words: for CPUs without instructions for pairs, or with slow ones. */
const scn_kernel KERNEL(ROUNDED(SCN_ISA)) = {.name = TEXT(ROUNDED(SCN_ISA)),
                                             .in = SCION_BF16,
                                             .reads = reads_nothing,
                                             .pack_a = pack_a_rounded,
                                             .pack_b = pack_b_rounded,
                                             .small = small_product,
                                             SHARED};
#endif
