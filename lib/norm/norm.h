/* Norms as descriptors: one file each, one row in the table of norm.c.
 *
 * A norm owes, for a block S (rows x cols as stored) and the factor c that norm and role fix:
 *     value(S) = size(S) / c,    dual(S) = c * dual_size(S),    lmo(S) = -c * direction(S),
 * with <S, direction(S)> = dual_size(S) and size(direction(S)) = 1 (0 where S is 0). So every norm passes
 *     <S, lmo(S)> = -dual(S),   value(lmo(S)) <= 1,   lmo(aS) = lmo(S) for a > 0,   lmo(0) = 0. */
#ifndef SCN_NORM_H
#define SCN_NORM_H

#include "base/memory.h"
#include "base/status.h"
#include "linalg/polar.h"

/* How far the lmo of a block falls apart into independent pieces. */
typedef enum scn_grain { SCN_WHOLE, SCN_BY_ENTRY, SCN_BY_ROW, SCN_BY_COL } scn_grain;

/* What a computation brings along. The arena is a copy: each call starts from the same free memory. */
typedef struct scn_work {
    scn_arena arena;
    int threads;
    double eps, polar_eps;
    const scn_polar_set *set;
    int steps;
    const scn_kernel *kernel;
    bool stream; /* lmos that do not read z write past the cache: the result is larger than it */
} scn_work;

/* Dimensions that the factor c depends on. */
typedef struct scn_dims {
    double d_out, d_in;
    double positions; /* of a convolution kernel, else 1 */
    double count;     /* entries */
} scn_dims;

typedef enum scn_use { SCN_USE_LMO, SCN_USE_SIZE, SCN_USE_DUAL, SCN_USE_INIT } scn_use;

struct scn_norm;

/* A block with its norm: what an lmo is taken of. */
typedef struct scn_ball {
    const struct scn_norm *norm;
    double c;
    bool flip;      /* stored transposed: rows are the paper's columns */
    int64_t offset; /* of the block's first entry in the parameter */
    int64_t rows, cols, ld;
    int64_t positions; /* of a convolution kernel, else 1 */
} scn_ball;

typedef struct scn_norm {
    const char *name;
    double (*factor)(scion_role role, scn_dims d);
    bool rows; /* norms of lines (row_col_norm.h): the lines are rows */
    scn_grain (*grain)(const scn_ball *b);
    double (*size)(const scn_ball *b, scn_mat x, const scn_work *w);
    double (*dual_size)(const scn_ball *b, scn_mat s, const scn_work *w);
    /* z = keep z - step c direction(s), for a block or a piece of it as the grain allows. keep = 0 does not
     * read z; z and s do not overlap. */
    void (*lmo)(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w);
    /* z = a random point with size c * radius; `stream` names the random numbers. */
    void (*init)(const scn_ball *b, scn_mat z, double radius, uint64_t seed, uint64_t stream, const scn_work *w);
    /* Bytes of arena that a use needs; NULL: none. */
    size_t (*memory)(const scn_ball *b, scn_use use, const scn_work *w);
} scn_norm;

extern const scn_norm scn_norm_spectral, scn_norm_col, scn_norm_row, scn_norm_sign, scn_norm_rms, scn_norm_euclid,
    scn_norm_max;

/* The descriptor of a norm, or NULL for AUTO and for what is no norm. */
const scn_norm *scn_norm_at(scion_norm norm);

/* Which norm AUTO means for a role, and for a parameter of one dimension. */
scion_norm scn_route(scion_routing routing, scion_role role, int32_t ndim);

/* A piece of a block that one thread takes. */
typedef struct scn_piece {
    int64_t row, col, rows, cols;
} scn_piece;

/* Number of pieces of a block, piece i, and the entries of the largest. */
int64_t scn_pieces(const scn_ball *b);
scn_piece scn_piece_at(const scn_ball *b, int64_t i);
int64_t scn_piece_most(const scn_ball *b);

/* The block in an array of the parameter's shape. */
static inline scn_mat scn_ball_view(const scn_ball *b, float *param)
{
    return (scn_mat){param + b->offset, b->rows, b->cols, b->ld};
}

double scn_ball_value(const scn_ball *b, scn_mat x, const scn_work *w);
double scn_ball_dual(const scn_ball *b, scn_mat s, const scn_work *w);
/* The lmo of a whole block, by w's threads. */
void scn_ball_lmo(const scn_ball *b, scn_mat z, double keep, double step, scn_mat s, const scn_work *w);
size_t scn_ball_memory(const scn_ball *b, scn_use use, const scn_work *w);

#endif
