/* See gemm.h.
 *
 * Each thread takes blocks of C: for one pass of the depth after another (the pass's strips of B stay in the
 * second-level cache), rows of A, eight at a time, meet all strips of the block. A is read where it is, and packed
 * only if it is transposed (rows of A would be columns in memory) or of another type. B is always packed, into the
 * strips that the kernel reads: where C has many rows a group of columns and of the depth at a time, by all threads,
 * 8 MB that stay in the last-level cache; where C has few, each block packs its own.
 *
 * Where C is small and the depth large, as in the gradient of a weight, the depth is cut into slices, each with a
 * result of its own, and the results are added in order: so that there is work for many threads. The number of
 * slices depends on the shape alone. */
#include "product/gemm.h"

#include <string.h>

#include "base/arith.h"
#include "base/thread.h"

enum {
    max_depth = 256,      /* of a pass: eight rows of A stay in the first-level cache */
    strips_per_block = 8, /* 384 columns with AVX-512: 384 KiB of B in a pass */
    max_block_rows = 256,
    single_pass_rows = 64, /* blocks of one pass find B in their cache however small they are */
    max_local_rows = 512,
    min_local_rows = 64,
    tasks_per_thread = 4,
    local_tasks_per_thread = 2,
    max_group = 1 << 21, /* floats of B */
    min_group_cols = 768,
    max_dot_rows = 3,
    max_slices = 32,
    min_slice = 1024,     /* depth */
    max_sliced = 1 << 20, /* elements of C */
    pack_depth = 32,      /* rows of B of one task */
    dot_task = 32 * 1024, /* elements of B */
};

/* n in equal pieces of at most `size`. */
static int64_t even(int64_t n, int64_t size)
{
    return scn_pieces(n, scn_pieces(n, size));
}

/* op(A) and op(B) as they are stored. */
static scn_operand left_of(const scn_gemm_shape *s, const void *a, int64_t lda)
{
    return (scn_operand){a, s->a, s->m, s->k, s->transpose_a, lda, 1};
}

static scn_operand right_of(const scn_gemm_shape *s, const void *b, int64_t ldb)
{
    return (scn_operand){b, s->b, s->k, s->n, s->transpose_b, ldb, 1};
}

/* Words of several elements are read in place only if rows begin with a word: who calls decides. */
static bool may_pack_a(const scn_gemm *g)
{
    const scn_operand a = left_of(&g->shape, NULL, 0);
    return g->kernel->kr > 1 || !g->kernel->reads(&a);
}

/* C is computed in the thread's memory and stored at the end. */
static bool keeps_c(const scn_gemm *g)
{
    return g->shape.c != SCION_F32;
}

/* Fewer rows where there would not be enough blocks for all threads. */
static void cut_blocks(scn_gemm *g)
{
    const int64_t mr = g->kernel->mr, nr = g->kernel->nr;
    const int64_t cols = scn_min(g->group_cols, g->shape.n);
    g->block_cols = scn_round_up(even(cols, strips_per_block * nr), nr);
    const int64_t rows = g->depth < g->shape.k ? max_block_rows : single_pass_rows;
    g->max_rows = g->block_rows = scn_round_up(even(g->shape.m, rows), mr);
    const int64_t across = scn_pieces(cols, g->block_cols);
    while (g->block_rows > mr &&
           scn_pieces(g->shape.m, g->block_rows) * across < (int64_t)tasks_per_thread * g->threads)
        g->block_rows = scn_round_up(g->block_rows / 2, mr);
}

/* Blocks as large as local packing likes them; slices, if there are too few, and fewer rows, if there are still too
 * few for all threads. */
static void cut_local(scn_gemm *g)
{
    const scn_gemm_shape *s = &g->shape;
    const int64_t mr = g->kernel->mr, nr = g->kernel->nr;
    g->group_cols = scn_round_up(s->n, nr);
    g->group_depth = s->k;
    g->block_cols = scn_round_up(even(s->n, strips_per_block * nr), nr);
    g->max_rows = g->block_rows = scn_round_up(even(s->m, max_local_rows), mr);
    const int64_t across = scn_pieces(s->n, g->block_cols), blocks = scn_pieces(s->m, g->block_rows) * across;
    if (blocks < max_slices && s->m * s->n <= max_sliced)
        g->slices = scn_max(1, scn_min(scn_pieces(max_slices, blocks), s->k / min_slice));
    /* Each block packs its part of B: with fewer rows that takes a larger share of the time. */
    while (g->block_rows > min_local_rows &&
           scn_pieces(s->m, g->block_rows) * across * g->slices < (int64_t)local_tasks_per_thread * g->threads)
        g->block_rows = scn_round_up(g->block_rows / 2, mr);
}

scn_gemm scn_gemm_plan(const scn_gemm_shape *s, int threads)
{
    const scn_kernel *kernel = scn_kernel_for(s->compute);
    const int64_t nr = kernel->nr, n = scn_max(s->n, 1), k = scn_max(s->k, 1);
    scn_gemm g = {.shape = *s, .kernel = kernel, .threads = threads > 1 ? threads : 1, .slices = 1};
    g.dots = s->m <= max_dot_rows && s->transpose_b && !s->transpose_a && s->a == SCION_F32 && s->c == SCION_F32;
    if (s->m < 1 || s->n < 1 || s->k < 1 || g.dots)
        return g;
    g.depth = scn_round_up(even(k, max_depth * kernel->kr), kernel->kr);
    g.local = s->m <= max_local_rows ? n * k >= max_group : s->m * n <= max_sliced && k >= 4 * min_slice;
    if (g.local) {
        cut_local(&g);
        return g;
    }
    g.group_cols = scn_round_up(even(n, scn_max(min_group_cols, max_group / k)), nr);
    g.group_depth = keeps_c(&g) ? k : scn_min(k, scn_max(1, max_group / g.group_cols / g.depth) * g.depth);
    cut_blocks(&g);
    return g;
}

/* The workspace: B, then for each thread A, B and C, then the slices of C. */
static size_t packed_floats(const scn_gemm *g)
{
    return g->local ? 0 : g->kernel->b_floats(g->group_cols, g->group_depth);
}

static size_t packed_a_floats(const scn_gemm *g)
{
    return may_pack_a(g) ? g->kernel->a_floats(g->max_rows, g->depth) : 0;
}

static size_t kept_c_floats(const scn_gemm *g)
{
    return keeps_c(g) && g->slices == 1 ? (size_t)(g->max_rows * g->block_cols) : 0;
}

static size_t packed_b_floats(const scn_gemm *g)
{
    return g->local ? g->kernel->b_floats(g->block_cols, g->depth) : 0;
}

static size_t thread_floats(const scn_gemm *g)
{
    /* another line, so that threads do not write to one cache line nor to one set of lines */
    return (size_t)scn_round_up((int64_t)(packed_a_floats(g) + packed_b_floats(g) + kept_c_floats(g)), 16) + 16;
}

static size_t slice_floats(const scn_gemm *g)
{
    return g->slices > 1 ? (size_t)scn_round_up(g->shape.m * g->shape.n, 16) : 0;
}

size_t scn_gemm_floats(const scn_gemm *g)
{
    if (g->depth < 1)
        return 0;
    return (size_t)scn_round_up((int64_t)packed_floats(g), 16) + (size_t)g->threads * thread_floats(g) +
           (size_t)g->slices * slice_floats(g);
}

/* ---- Blocks ---------------------------------------------------------------------------------------------- */

/* One call. */
typedef struct job {
    const scn_gemm *g;
    scn_operand a, b;
    void *c;
    int64_t ldc;
    float alpha;
    bool accumulate;
    const scn_gemm_epilogue *epilogue;
    int threads;                     /* in use: one inside a parallel region, whatever was planned */
    scn_packed packed;               /* the present group of B, packed for all; or all of B, packed beforehand */
    bool whole;                      /* all of it */
    float *own, *sliced;             /* the parts of the workspace */
    int64_t col, cols, first, depth; /* the present group */
    int64_t slice_depth;
} job;

/* Packing of the group by tasks: some rows of B, or one strip where its columns lie together. */
static int64_t pack_tasks(const job *t)
{
    return t->b.transposed ? scn_pieces(t->cols, t->g->kernel->nr) : scn_pieces(t->depth, pack_depth);
}

static void pack_task(const job *t, int64_t i)
{
    const int64_t nr = t->g->kernel->nr;
    const int64_t p = t->b.transposed ? 0 : i * pack_depth, j = t->b.transposed ? i * nr : 0;
    const int64_t depth = t->b.transposed ? t->depth : scn_min(pack_depth, t->depth - p);
    const scn_operand b =
        scn_operand_part(t->b, t->first + p, t->col + j, depth, t->b.transposed ? scn_min(nr, t->cols - j) : t->cols);
    const scn_packed to = scn_packed_part(t->packed, p, j);
    t->g->kernel->pack_b(&to, &b);
}

/* Rows of op(A) from `row` on, at depth `first`: where they are if the kernel reads them there, else packed into
 * `own`. */
static scn_packed rows_of_a(const job *t, float *own, int64_t row, int64_t rows, int64_t first, int64_t depth)
{
    const scn_kernel *k = t->g->kernel;
    if (k->reads(&t->a))
        return scn_packed_part(scn_packed_in_place(&t->a), first, row);
    const scn_operand a = scn_operand_part(t->a, row, first, rows, depth);
    const scn_packed to = scn_packed_of(own, depth, rows);
    k->pack_a(&to, &a);
    return to;
}

/* Columns of op(B) from `col` of the group on, at depth `first` of the group: packed for all, or now into `own`. */
static scn_packed cols_of_b(const job *t, float *own, int64_t col, int64_t cols, int64_t first, int64_t depth)
{
    if (!t->g->local)
        return scn_packed_part(t->packed, first + (t->whole ? t->first : 0), col + (t->whole ? t->col : 0));
    const scn_operand b = scn_operand_part(t->b, t->first + first, t->col + col, depth, cols);
    const scn_packed to = scn_packed_of(own, depth, cols);
    t->g->kernel->pack_b(&to, &b);
    return to;
}

/* The sum over `depth` from `first` on (within the group) of a block, added to c or put there. */
static void sum_block(const job *t, float *own, int64_t row, int64_t rows, int64_t col, int64_t cols, int64_t first,
                      int64_t depth, bool accumulate, float *c, int64_t ldc)
{
    const scn_gemm *g = t->g;
    for (int64_t p = 0; p < depth; p += g->depth) {
        const int64_t pass = scn_min(g->depth, depth - p);
        const scn_packed b = cols_of_b(t, own + packed_a_floats(g), col, cols, first + p, pass);
        const scn_packed a = rows_of_a(t, own, row, rows, t->first + first + p, pass);
        g->kernel->multiply(rows, cols, pass, t->alpha, &a, &b, accumulate || p > 0, c, ldc);
    }
}

static void finish_rows(const job *t, int64_t row, int64_t rows, int64_t col, int64_t cols, float *c, int64_t ldc)
{
    if (t->epilogue)
        for (int64_t i = 0; i < rows; i++)
            t->epilogue->row(t->epilogue, row + i, t->col + col, cols, c + i * ldc);
}

/* Stores a row of a block, or of the sum of the slices. */
static void emit_bf16(const job *t, int64_t row, int64_t col, int64_t cols, float *from)
{
    const int64_t at = t->col + col, first = row * t->g->shape.n + at;
    uint16_t *to = (uint16_t *)t->c + row * t->ldc + at;
    if (t->accumulate)
        scn_add_bf16(cols, to, from);
    finish_rows(t, row, 1, col, cols, from, 0);
    scn_to_bf16_by(&t->g->rounding, cols, from, to, first);
}

static void block_task(const job *t, int64_t task)
{
    const scn_gemm *g = t->g;
    const int64_t down = scn_pieces(g->shape.m, g->block_rows), across = scn_pieces(t->cols, g->block_cols);
    const int64_t slice = task / (down * across), row = task % down * g->block_rows,
                  col = task / down % across * g->block_cols;
    const int64_t rows = scn_min(g->block_rows, g->shape.m - row), cols = scn_min(g->block_cols, t->cols - col);
    float *own = t->own + (size_t)(t->threads > 1 ? scn_thread_index() : 0) * thread_floats(g);
    if (g->slices > 1) {
        const int64_t first = slice * t->slice_depth, depth = scn_min(t->slice_depth, t->depth - first);
        float *c = t->sliced + (size_t)slice * slice_floats(g) + row * g->shape.n + col;
        if (depth > 0)
            sum_block(t, own, row, rows, col, cols, first, depth, false, c, g->shape.n);
    } else if (keeps_c(g)) {
        float *c = own + packed_a_floats(g) + packed_b_floats(g);
        sum_block(t, own, row, rows, col, cols, 0, t->depth, false, c, g->block_cols);
        for (int64_t i = 0; i < rows; i++)
            emit_bf16(t, row + i, col, cols, c + i * g->block_cols);
    } else {
        float *c = (float *)t->c + row * t->ldc + t->col + col;
        sum_block(t, own, row, rows, col, cols, 0, t->depth, t->accumulate || t->first > 0, c, t->ldc);
        if (t->first + t->depth == g->shape.k)
            finish_rows(t, row, rows, col, cols, c, t->ldc);
    }
}

SCN_CLONES static void add_slices(int64_t n, int64_t slices, const float *from, size_t stride, bool accumulate,
                                  float *c)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = from[j];
        for (int64_t s = 1; s < slices; s++)
            sum += from[(size_t)s * stride + (size_t)j];
        c[j] = accumulate ? c[j] + sum : sum;
    }
}

/* A row. A bfloat16 C takes the sum, which is made in the first slice, in one piece: sliced products have one
 * group. */
static void add_task(const job *t, int64_t row)
{
    const scn_gemm *g = t->g;
    const int64_t slices = scn_pieces(t->depth, t->slice_depth);
    float *first = t->sliced + row * g->shape.n;
    if (keeps_c(g)) {
        add_slices(g->shape.n, slices, first, slice_floats(g), false, first);
        emit_bf16(t, row, 0, g->shape.n, first);
        return;
    }
    float *c = (float *)t->c + row * t->ldc;
    add_slices(g->shape.n, slices, first, slice_floats(g), t->accumulate || t->first > 0, c);
    if (t->first + t->depth == g->shape.k)
        finish_rows(t, row, 1, 0, g->shape.n, c, t->ldc);
}

static void run_group(const job *t, int threads)
{
    const scn_gemm *g = t->g;
    const int64_t blocks = scn_pieces(g->shape.m, g->block_rows) * scn_pieces(t->cols, g->block_cols) * g->slices;
    if (!g->local && !t->whole)
        SCN_PARALLEL(threads, i, pack_tasks(t), pack_task(t, i));
    SCN_PARALLEL(threads, i, blocks, block_task(t, i));
    if (g->slices > 1)
        SCN_PARALLEL(threads, i, g->shape.m, add_task(t, i));
}

/* ---- Few rows -------------------------------------------------------------------------------------------- */

SCN_INLINE float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rows of B: the elements of C are inner products with them. half: B is bfloat16; round: operands are rounded to
 * it. */
SCN_INLINE void dot_loop(const bool half, const bool round, int64_t m, int64_t cols, int64_t k, float alpha,
                         const float *a, int64_t lda, const void *b, int64_t ldb, bool accumulate, float *c,
                         int64_t ldc)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < m; i++) {
            const float *x = a + i * lda, *y = (const float *)b + (half ? 0 : j * ldb);
            const uint16_t *z = (const uint16_t *)b + (half ? j * ldb : 0);
            float sum = 0;
            SCN_SIMD_SUM(sum)
            for (int64_t p = 0; p < k; p++) {
                const float left = round ? as_float(scn_bf16_nearest(x[p])) : x[p];
                const float right = half    ? as_float((uint32_t)z[p] << 16)
                                    : round ? as_float(scn_bf16_nearest(y[p]))
                                            : y[p];
                sum += left * right;
            }
            c[i * ldc + j] = (accumulate ? c[i * ldc + j] : 0) + alpha * sum;
        }
}

SCN_CLONES static void dot_columns(bool half, bool round, int64_t m, int64_t cols, int64_t k, float alpha,
                                   const float *a, int64_t lda, const void *b, int64_t ldb, bool accumulate, float *c,
                                   int64_t ldc)
{
    if (round && half)
        dot_loop(true, true, m, cols, k, alpha, a, lda, b, ldb, accumulate, c, ldc);
    else if (round)
        dot_loop(false, true, m, cols, k, alpha, a, lda, b, ldb, accumulate, c, ldc);
    else if (half)
        dot_loop(true, false, m, cols, k, alpha, a, lda, b, ldb, accumulate, c, ldc);
    else
        dot_loop(false, false, m, cols, k, alpha, a, lda, b, ldb, accumulate, c, ldc);
}

static void dot_task_of(const job *t, int64_t first, int64_t cols)
{
    const scn_gemm_shape *s = &t->g->shape;
    float *c = (float *)t->c + first;
    const scn_operand b = scn_operand_part(t->b, 0, first, s->k, cols);
    dot_columns(s->b == SCION_BF16, s->compute == SCION_BF16, s->m, cols, s->k, t->alpha, t->a.at, t->a.ld, b.at,
                b.ld, t->accumulate, c, t->ldc);
    finish_rows(t, 0, s->m, first, cols, c, t->ldc);
}

static void run_dots(const job *t, int threads)
{
    const int64_t n = t->g->shape.n, cols = scn_max(16, dot_task / scn_max(t->g->shape.k, 1));
    const int64_t tasks = scn_pieces(n, cols);
    SCN_PARALLEL(tasks > 1 ? threads : 1, i, tasks, dot_task_of(t, i * cols, scn_min(cols, n - i * cols)));
}

/* ---- All together ---------------------------------------------------------------------------------------- */

/* k = 0: keeps C (accumulate) or clears it. */
static void run_empty(const job *t)
{
    const scn_gemm_shape *s = &t->g->shape;
    for (int64_t i = 0; i < s->m; i++) {
        if (!t->accumulate)
            memset((char *)t->c + scn_stored_bytes(s->c, i * t->ldc), 0, scn_stored_bytes(s->c, s->n));
        if (s->c == SCION_F32)
            finish_rows(t, i, 1, 0, s->n, (float *)t->c + i * t->ldc, t->ldc);
    }
}

size_t scn_gemm_packed_floats(const scn_gemm *g)
{
    return g->depth < 1 || g->local ? 0 : g->kernel->b_floats(g->shape.n, g->shape.k);
}

void scn_gemm_pack(const scn_gemm *g, const void *b, int64_t ldb, float *packed)
{
    const scn_gemm_shape *s = &g->shape;
    const job t = {
        .g = g, .b = right_of(s, b, ldb), .packed = scn_packed_of(packed, s->k, s->n), .cols = s->n, .depth = s->k};
    const int allowed = scn_threads(g->threads), threads = allowed < g->threads ? allowed : g->threads;
    SCN_PARALLEL(threads, i, pack_tasks(&t), pack_task(&t, i));
}

void scn_gemm_run(const scn_gemm *g, const void *a, int64_t lda, const void *b, int64_t ldb, float alpha,
                  bool accumulate, void *c, int64_t ldc, const scn_gemm_epilogue *epilogue, float *workspace)
{
    const scn_gemm_shape *s = &g->shape;
    const int allowed = scn_threads(g->threads), threads = allowed < g->threads ? allowed : g->threads;
    job t = {g,       left_of(s, a, lda), right_of(s, b, ldb), c, ldc, alpha, accumulate, epilogue,
             threads, .whole = ldb == 0};
    if (s->m < 1 || s->n < 1)
        return;
    if (s->k < 1) {
        run_empty(&t);
        return;
    }
    if (g->dots) {
        run_dots(&t, threads);
        return;
    }
    if (t.whole)
        t.packed = scn_packed_of((void *)(uintptr_t)b, s->k, s->n);
    t.own = workspace + scn_round_up((int64_t)packed_floats(g), 16);
    t.sliced = t.own + (size_t)g->threads * thread_floats(g);
    for (t.col = 0; t.col < s->n; t.col += g->group_cols)
        for (t.first = 0; t.first < s->k; t.first += g->group_depth) {
            t.cols = scn_min(g->group_cols, s->n - t.col);
            t.depth = scn_min(g->group_depth, s->k - t.first);
            t.slice_depth = scn_round_up(scn_pieces(t.depth, g->slices), g->depth);
            if (!t.whole)
                t.packed = scn_packed_of(workspace, t.depth, t.cols);
            run_group(&t, threads);
        }
}
