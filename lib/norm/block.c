/* Blocks: their division into tiles, which threads share, and operations on a whole one. */
#include "base/arith.h"
#include "base/thread.h"
#include "linalg/stream.h"
#include "linalg/vector.h"
#include "norm/norm.h"

/* Entries that one thread takes at a time: a few arrays of them stay in the second-level cache. */
enum { tile_entries = SCN_TILE_ENTRIES, tile_cols_min = 64, tile_cols_max = 512 };

/* Results of 16 MiB and more will not be found in a cache. */
enum { stream_entries = 1 << 22 };

scn_granularity scn_granularity_of(const scn_block *b)
{
    if (b->whole)
        return SCN_WHOLE;
    if (b->norm->granularity)
        return b->norm->granularity(b);
    return b->norm->about.elementwise ? SCN_BY_ENTRY : SCN_WHOLE;
}

/* Rows and columns of a full tile. */
static void tile_shape(const scn_block *b, int64_t *rows, int64_t *cols)
{
    const scn_granularity granularity = scn_granularity_of(b);
    *rows = b->rows;
    *cols = b->cols;
    if (granularity == SCN_BY_COL) {
        int64_t fit = tile_entries / b->rows / 16 * 16;
        *cols = scn_min(b->cols, scn_max(tile_cols_min, scn_min(fit, tile_cols_max)));
    } else if (granularity != SCN_WHOLE) {
        int64_t fit = tile_entries / b->cols;
        *rows = scn_min(b->rows, scn_max(fit, 1));
        if (granularity == SCN_BY_ENTRY)
            *cols = scn_min(b->cols, tile_entries);
    }
}

int64_t scn_tiles(const scn_block *b)
{
    int64_t rows, cols;
    tile_shape(b, &rows, &cols);
    return scn_pieces(b->rows, rows) * scn_pieces(b->cols, cols);
}

scn_tile scn_tile_at(const scn_block *b, int64_t i)
{
    int64_t rows, cols;
    tile_shape(b, &rows, &cols);
    int64_t across = scn_pieces(b->cols, cols);
    int64_t row = i / across * rows, col = i % across * cols;
    return (scn_tile){row, col, scn_min(rows, b->rows - row), scn_min(cols, b->cols - col)};
}

int64_t scn_tile_max(const scn_block *b)
{
    int64_t rows, cols;
    tile_shape(b, &rows, &cols);
    return rows * cols;
}

double scn_block_value(const scn_block *b, scn_mat x, const scn_work *w)
{
    return b->norm->size(b, x, w) / b->c;
}

double scn_block_dual(const scn_block *b, scn_mat s, const scn_work *w)
{
    return b->norm->dual_size(b, s, w) * b->c;
}

static void tile_lmo(const scn_block *b, scn_tile p, scn_mat z, double beta, double step, scn_mat s,
                     const scn_work *w)
{
    b->norm->lmo(b, scn_sub(z, p.row, p.col, p.rows, p.cols), beta, step, scn_sub(s, p.row, p.col, p.rows, p.cols),
                 w);
    if (w->stream)
        scn_stream_end();
}

void scn_block_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w)
{
    const int64_t count = scn_tiles(b);
    const int threads = count > 1 ? w->threads : 1;
    scn_work work = *w;
    work.stream = beta == 0 && b->rows * b->cols >= stream_entries;
    SCN_PARALLEL(threads, i, count, tile_lmo(b, scn_tile_at(b, i), z, beta, step, s, &work));
}

void scn_block_init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w)
{
    if (b->norm->init)
        b->norm->init(b, z, radius, start, w);
    else
        scn_scale_mat(z, 0, w->threads);
}

size_t scn_block_memory(const scn_block *b, scn_use use, const scn_work *w)
{
    return b->norm->memory ? b->norm->memory(b, use, w) : 0;
}
