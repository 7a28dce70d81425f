/* The innermost products, written once with vectors of the compiler and compiled once for each instruction set:
 * CMake gives this file the flags of the set and SCN_ISA = avx512, avx2 or portable. (A target attribute in place of
 * flags would not do: GCC lowers vector types before it inlines.)
 *
 * A tile of C lives in rows x vecs accumulators; for each p, vecs loads of B and `rows` broadcasts of A feed
 * rows * vecs fused multiply-adds. `rows` and `vecs` are constants where `tile` is inlined, and all loops but the one
 * over p unroll. Every element of C is one sum in the order of p, then scaled: its bits do not depend on its place in
 * the tile. */
#include "product/kernel.h"

#include "product/transpose.h"

/* VL: floats in a register. Tiles of operands in panels have MR x NV vectors, those of small products at most
 * SMALL_MR x SMALL_NV, those of blocks at most BLOCK_MR x BLOCK_NV. */
#if defined(__AVX512F__)
/* 16 accumulators of 32 registers: a square tile wastes least on the diagonal of a triangle. Small products and
 * blocks: 24. An 8 x 3 tile has 11 loads for 24 multiply-adds, so that the loads never wait, and needs no packed A:
 * eight rows are eight addresses. */
enum { VL = 16, MR = 16, NV = 1, SMALL_MR = 6, SMALL_NV = 4, BLOCK_MR = 8, BLOCK_NV = 3 };
#elif defined(__AVX2__)
/* 12 accumulators, the loads and a broadcast fill the 16 registers. */
enum { VL = 8, MR = 4, NV = 3, SMALL_MR = 6, SMALL_NV = 2, BLOCK_MR = 4, BLOCK_NV = 3 };
#elif defined(__aarch64__)
/* NEON: 16 accumulators of 32 registers. */
enum { VL = 4, MR = 8, NV = 2, SMALL_MR = 6, SMALL_NV = 4, BLOCK_MR = 8, BLOCK_NV = 3 };
#else
/* SSE2 and other machines with vectors of four floats: 8 and 12 accumulators of 16 registers. */
enum { VL = 4, MR = 4, NV = 2, SMALL_MR = 6, SMALL_NV = 2, BLOCK_MR = 4, BLOCK_NV = 2 };
#endif
enum { NR = NV * VL, BLOCK_NR = BLOCK_NV * VL };
enum { MAX_ROWS = 16, MAX_VECS = 4 }; /* of all of them */

_Static_assert(NR % MR == 0, "tiles of panels lie inside one strip of A");
_Static_assert(NR *MR <= SCN_KERNEL_MAX_TILE, "callers hold a tile in an array of SCN_KERNEL_MAX_TILE floats");

typedef float vec __attribute__((vector_size(VL * 4)));

/* Memory is aligned to floats alone. Accumulators of such a type would be spilled, hence a type of its own. */
typedef float memory_vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

/* C (rows x vecs*VL) = alpha A B, or C + alpha A B if accumulate; element (i, p) of A is a[i*a_row + p*a_col]. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vecs, int64_t k, float alpha,
                                                       const float *a, int64_t a_row, int64_t a_col, const float *b,
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
        vec row[MAX_VECS];
#pragma GCC unroll 8
        for (int j = 0; j < vecs; j++)
            row[j] = *(const memory_vec *)(b + p * ldb + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int j = 0; j < vecs; j++)
                sum[i][j] += a[i * a_row + p * a_col] * row[j];
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
    tile(MR, NV, k, 1, a, 1, NR, b, NR, accumulate, c, NR);
}

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

/* ---- Blocks --------------------------------------------------------------------------------------------- */

/* A tile of A: rows of some distance, or packed, block_mr elements of one column after another. Each has code of its
 * own: as constants the distances cost no registers. */
static inline __attribute__((always_inline)) void tile_of(const int packed, const int rows, const int vecs, int64_t k,
                                                          float alpha, const float *a, int64_t lda, const float *b,
                                                          int accumulate, float *c, int64_t ldc)
{
    if (packed)
        tile(rows, vecs, k, alpha, a, 1, BLOCK_MR, b, vecs * VL, accumulate, c, ldc);
    else
        tile(rows, vecs, k, alpha, a, lda, 1, b, vecs * VL, accumulate, c, ldc);
}

typedef void strip_tile(int64_t k, float alpha, const float *a, int64_t lda, const float *b, int accumulate, float *c,
                        int64_t ldc);

/* The lines of a tile of C, which is written when its sum is complete. */
static inline __attribute__((always_inline)) void expect_tile(float *c, int64_t ldc)
{
#pragma GCC unroll 8
    for (int i = 0; i < BLOCK_MR; i++)
#pragma GCC unroll 8
        for (int j = 0; j < BLOCK_NR; j += 16)
            __builtin_prefetch(c + i * ldc + j, 1);
}

static __attribute__((noinline)) void full_direct(int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                                                  int accumulate, float *c, int64_t ldc)
{
    expect_tile(c, ldc);
    tile_of(0, BLOCK_MR, BLOCK_NV, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void full_packed(int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                                                  int accumulate, float *c, int64_t ldc)
{
    expect_tile(c, ldc);
    tile_of(1, BLOCK_MR, BLOCK_NV, k, alpha, a, lda, b, accumulate, c, ldc);
}

/* `rows` <= BLOCK_MR rows of one strip. */
static inline __attribute__((always_inline)) void tile_rows(const int packed, const int vecs, int64_t rows, int64_t k,
                                                            float alpha, const float *a, int64_t lda, const float *b,
                                                            int accumulate, float *c, int64_t ldc)
{
    const int64_t row = packed ? 1 : lda;
    int64_t i = 0;
    if (rows == BLOCK_MR) {
        tile_of(packed, BLOCK_MR, vecs, k, alpha, a, lda, b, accumulate, c, ldc);
        return;
    }
    for (; BLOCK_MR > 4 && i + 4 <= rows; i += 4)
        tile_of(packed, 4, vecs, k, alpha, a + i * row, lda, b, accumulate, c + i * ldc, ldc);
    for (; i < rows; i++)
        tile_of(packed, 1, vecs, k, alpha, a + i * row, lda, b, accumulate, c + i * ldc, ldc);
}

/* A strip of `vecs` vectors. */
static inline __attribute__((always_inline)) void strip_rows(const int packed, int64_t vecs, int64_t rows, int64_t k,
                                                             float alpha, const float *a, int64_t lda, const float *b,
                                                             int accumulate, float *c, int64_t ldc)
{
    if (vecs == 3 && BLOCK_NV > 2)
        tile_rows(packed, 3, rows, k, alpha, a, lda, b, accumulate, c, ldc);
    else if (vecs == 2)
        tile_rows(packed, 2, rows, k, alpha, a, lda, b, accumulate, c, ldc);
    else
        tile_rows(packed, 1, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void strip_direct(int64_t vecs, int64_t rows, int64_t k, float alpha, const float *a,
                                                   int64_t lda, const float *b, int accumulate, float *c, int64_t ldc)
{
    strip_rows(0, vecs, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

static __attribute__((noinline)) void strip_packed(int64_t vecs, int64_t rows, int64_t k, float alpha, const float *a,
                                                   int64_t lda, const float *b, int accumulate, float *c, int64_t ldc)
{
    strip_rows(1, vecs, rows, k, alpha, a, lda, b, accumulate, c, ldc);
}

/* The strip whose last vector is not full, through a copy of the tile. */
static void partial_strip(int packed, int64_t cols, int64_t rows, int64_t k, float alpha, const float *a, int64_t lda,
                          const float *b, int accumulate, float *c, int64_t ldc)
{
    float t[BLOCK_MR * BLOCK_NR];
    (packed ? strip_packed : strip_direct)((cols + VL - 1) / VL, rows, k, alpha, a, lda, b, 0, t, BLOCK_NR);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            c[i * ldc + j] = accumulate ? c[i * ldc + j] + t[i * BLOCK_NR + j] : t[i * BLOCK_NR + j];
}

/* Part of the next rows of A, so that all of them are there when their turn comes. */
static inline __attribute__((always_inline)) void expect_rows(const float *a, int64_t lda, int64_t first,
                                                              int64_t count, int64_t k)
{
    for (int64_t p = first; p < first + count && p < k; p += 16)
#pragma GCC unroll 8
        for (int i = 0; i < BLOCK_MR; i++)
            __builtin_prefetch(a + i * lda + p);
}

static void block_product(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                          int64_t b_strip, int accumulate, float *c, int64_t ldc)
{
    const int packed = lda < 0;
    strip_tile *const full = packed ? full_packed : full_direct;
    for (int64_t i = 0; i < m; i += BLOCK_MR, c += BLOCK_MR * ldc) {
        const int64_t rows = m - i < BLOCK_MR ? m - i : BLOCK_MR;
        const float *rows_of_a = a + i * (packed ? -lda : lda), *strip = b;
        const int64_t strips = (n + BLOCK_NR - 1) / BLOCK_NR, ahead = (k / strips + 16) / 16 * 16;
        int64_t j = 0;
        for (; j + BLOCK_NR <= n; j += BLOCK_NR, strip += b_strip) {
            if (!packed && i + 2 * BLOCK_MR <= m)
                expect_rows(rows_of_a + BLOCK_MR * lda, lda, j / BLOCK_NR * ahead, ahead, k);
            if (rows == BLOCK_MR)
                full(k, alpha, rows_of_a, lda, strip, accumulate, c + j, ldc);
            else
                (packed ? strip_packed : strip_direct)(BLOCK_NV, rows, k, alpha, rows_of_a, lda, strip, accumulate,
                                                       c + j, ldc);
        }
        if (j == n)
            continue;
        if ((n - j) % VL == 0)
            (packed ? strip_packed : strip_direct)((n - j) / VL, rows, k, alpha, rows_of_a, lda, strip, accumulate,
                                                   c + j, ldc);
        else
            partial_strip(packed, n - j, rows, k, alpha, rows_of_a, lda, strip, accumulate, c + j, ldc);
    }
}

/* ---- Packing -------------------------------------------------------------------------------------------- */

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

/* Strips of `width` columns, a constant. */
static inline __attribute__((always_inline)) void pack_rows_of(const int64_t width, float *out, int64_t stride,
                                                               const float *from, int64_t ld, int64_t depth,
                                                               int64_t cols)
{
    const int64_t whole = cols / width, rest = cols - whole * width;
    for (int64_t p = 0; p < depth; p++, from += ld, out += width)
        for (int64_t s = 0; s < whole; s++) {
            __builtin_prefetch(from + s * width + 4 * ld);
            copy_run(width, out + s * stride, from + s * width);
        }
    if (rest == 0)
        return;
    const int64_t last = width == BLOCK_NR ? (rest + VL - 1) / VL * VL : width;
    out += whole * stride - depth * width;
    from += whole * width - depth * ld;
    for (int64_t p = 0; p < depth; p++, from += ld, out += last)
        for (int64_t j = 0; j < last; j++)
            out[j] = j < rest ? from[j] : 0;
}

static void pack_rows(int tiles, float *out, int64_t stride, const float *from, int64_t ld, int64_t depth,
                      int64_t cols)
{
    if (tiles)
        pack_rows_of(BLOCK_MR, out, stride, from, ld, depth, cols);
    else
        pack_rows_of(BLOCK_NR, out, stride, from, ld, depth, cols);
}

/* Sixteen elements of each row at a time, which is a cache line; the lines after it are fetched meanwhile. */
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

static double registers(int64_t rounds)
{
    enum { sums = 12 }; /* more than the latency of a multiply-add times those that begin at once */
    vec sum[sums], x = {0}, y = {0};
#pragma GCC unroll 16
    for (int i = 0; i < sums; i++)
        sum[i] = (vec){0};
    for (int64_t r = 0; r < rounds; r++) {
        IN_REGISTER(x);
        IN_REGISTER(y);
#pragma GCC unroll 16
        for (int i = 0; i < sums; i++) {
            sum[i] += x * y;
            IN_REGISTER(sum[i]);
        }
    }
    return 2.0 * sums * VL * (double)rounds;
}

#define PASTE(a, b) a##b
#define KERNEL(isa) PASTE(scn_kernel_, isa)
#define QUOTE(text) #text
#define TEXT(text) QUOTE(text)

const scn_kernel KERNEL(SCN_ISA) = {TEXT(SCN_ISA), MR,        NR,           panel_tile,
                                    small_product, VL,        BLOCK_MR,     BLOCK_NR,
                                    block_product, pack_rows, pack_columns, registers};
