/* The table of norms, the routing by role, and the pieces that threads share. */
#include "norm/norm.h"

#include "base/thread.h"
#include "linalg/stream.h"
#include "linalg/vector.h"

static const scn_norm *const table[] = {
    [SCION_NORM_AUTO] = NULL,
    [SCION_NORM_SPECTRAL] = &scn_norm_spectral,
    [SCION_NORM_COL] = &scn_norm_col,
    [SCION_NORM_ROW] = &scn_norm_row,
    [SCION_NORM_SIGN] = &scn_norm_sign,
    [SCION_NORM_RMS] = &scn_norm_rms,
    [SCION_NORM_EUCLID] = &scn_norm_euclid,
    [SCION_NORM_MAX] = &scn_norm_max,
};

const scn_norm *scn_norm_at(scion_norm norm)
{
    size_t i = (size_t)norm;
    return i < sizeof table / sizeof *table ? table[i] : NULL;
}

scion_norm scn_route(scion_routing routing, scion_role role, int32_t ndim)
{
    static const struct {
        scion_norm first, hidden, last, vector;
    } row[] = {
        [SCION_ROUTING_IMAGE] = {SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
        [SCION_ROUTING_ONEHOT] = {SCION_NORM_COL, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
        [SCION_ROUTING_SHARED] = {SCION_NORM_SIGN, SCION_NORM_SPECTRAL, SCION_NORM_SIGN, SCION_NORM_RMS},
        [SCION_ROUTING_SIGN] = {SCION_NORM_SIGN, SCION_NORM_SIGN, SCION_NORM_SIGN, SCION_NORM_MAX},
        [SCION_ROUTING_COL] = {SCION_NORM_COL, SCION_NORM_COL, SCION_NORM_COL, SCION_NORM_RMS},
        [SCION_ROUTING_ROW] = {SCION_NORM_ROW, SCION_NORM_ROW, SCION_NORM_ROW, SCION_NORM_RMS},
        [SCION_ROUTING_SPECTRAL] = {SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_SPECTRAL, SCION_NORM_RMS},
    };
    if (role == SCION_ROLE_NORMALIZATION)
        return SCION_NORM_EUCLID;
    if (role == SCION_ROLE_VECTOR || ndim == 1)
        return row[routing].vector;
    if (role == SCION_ROLE_OUTPUT)
        return row[routing].last;
    return role == SCION_ROLE_ONEHOT || role == SCION_ROLE_INPUT ? row[routing].first : row[routing].hidden;
}

/* Entries that one thread takes at a time: a few arrays of them stay in the second-level cache. */
enum { piece_entries = 16384, piece_cols_least = 64, piece_cols_most = 512 };

/* Results of 16 MiB and more will not be found in a cache by whoever reads them. */
enum { stream_entries = 1 << 22 };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows and columns of a full piece. */
static void piece_shape(const scn_ball *b, int64_t *rows, int64_t *cols)
{
    scn_grain grain = b->norm->grain(b);
    *rows = b->rows;
    *cols = b->cols;
    if (grain == SCN_BY_COL) {
        int64_t fit = piece_entries / b->rows / 16 * 16;
        *cols = min64(b->cols, fit < piece_cols_least ? piece_cols_least : min64(fit, piece_cols_most));
    } else if (grain != SCN_WHOLE) {
        int64_t fit = piece_entries / b->cols;
        *rows = min64(b->rows, fit < 1 ? 1 : fit);
        if (grain == SCN_BY_ENTRY)
            *cols = min64(b->cols, piece_entries);
    }
}

int64_t scn_pieces(const scn_ball *b)
{
    int64_t rows, cols;
    piece_shape(b, &rows, &cols);
    return ((b->rows + rows - 1) / rows) * ((b->cols + cols - 1) / cols);
}

scn_piece scn_piece_at(const scn_ball *b, int64_t i)
{
    int64_t rows, cols;
    piece_shape(b, &rows, &cols);
    int64_t across = (b->cols + cols - 1) / cols;
    int64_t row = i / across * rows, col = i % across * cols;
    return (scn_piece){row, col, min64(rows, b->rows - row), min64(cols, b->cols - col)};
}

int64_t scn_piece_most(const scn_ball *b)
{
    int64_t rows, cols;
    piece_shape(b, &rows, &cols);
    return rows * cols;
}

double scn_ball_value(const scn_ball *b, scn_mat x, const scn_work *w)
{
    return b->norm->size(b, x, w) / b->c;
}

double scn_ball_dual(const scn_ball *b, scn_mat s, const scn_work *w)
{
    return b->norm->dual_size(b, s, w) * b->c;
}

void scn_ball_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w)
{
    const int64_t count = scn_pieces(b);
    const int threads = count > 1 ? w->threads : 1;
    scn_work work = *w;
    work.stream = keep == 0 && b->rows * b->cols >= stream_entries;
    if (count == 1) {
        b->norm->lmo(b, z, keep, step, s, &work);
        if (work.stream)
            scn_stream_end();
        return;
    }
    SCN_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < count; i++) {
        scn_piece p = scn_piece_at(b, i);
        b->norm->lmo(b, scn_sub(z, p.row, p.col, p.rows, p.cols), keep, step,
                     scn_sub(s, p.row, p.col, p.rows, p.cols), &work);
        if (work.stream)
            scn_stream_end();
    }
}

size_t scn_ball_memory(const scn_ball *b, scn_use use, const scn_work *w)
{
    return b->norm->memory ? b->norm->memory(b, use, w) : 0;
}
