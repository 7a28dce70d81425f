/* Norms as descriptors: one file each, one row in the table of norm_rows.c. The row says everything about
 * a norm; no code outside compares a norm with a constant.
 *
 * A norm owes, for a block S (rows x cols as stored) and the factor c that norm and role fix:
 *     value(S) = size(S) / c,    dual(S) = c * dual_size(S),    lmo(S) = -c * direction(S),
 * with <S, direction(S)> = dual_size(S) and size(direction(S)) = 1 (0 where S is 0). So every norm passes
 *     <S, lmo(S)> = -dual(S),   value(lmo(S)) <= 1,   lmo(aS) = lmo(S) for a > 0,   lmo(0) = 0.
 * No entry of direction(S) exceeds 2: the check of a step relies on it. */
#ifndef SCN_NORM_H
#define SCN_NORM_H

#include "base/memory.h"
#include "base/status.h"
#include "linalg/polar.h"
#include "scion_advanced.h"

/* Independent tiles into which the lmo of a block can be cut. */
typedef enum scn_granularity { SCN_WHOLE, SCN_BY_ENTRY, SCN_BY_ROW, SCN_BY_COL } scn_granularity;

/* Settings and memory of a computation. The arena is a copy: each call starts from the same free memory. */
typedef struct scn_work {
    scn_arena arena;
    int threads;
    double eps, polar_eps;
    const scn_polar_set *set;
    int steps;
    scion_dtype polar_compute;
    const scn_kernel *kernel, *polar_kernel; /* of float32; of the polar factor in an lmo */
    bool stream; /* lmos that do not read z write past the cache: the result is larger than it */
} scn_work;

/* Dimensions that the factor c depends on. */
typedef struct scn_dims {
    double d_out, d_in;
    double positions; /* of a convolution kernel, else 1 */
    double count;     /* entries */
} scn_dims;

typedef enum scn_use { SCN_USE_LMO, SCN_USE_SIZE, SCN_USE_DUAL, SCN_USE_INIT } scn_use;

/* Names the random numbers of a start: parameter and block. */
typedef struct scn_start {
    uint64_t seed;
    int64_t param;
    int block;
} scn_start;

struct scn_norm;

/* A block of a parameter with its norm: the unit of an lmo. */
typedef struct scn_block {
    const struct scn_norm *norm;
    double c;
    bool transposed; /* rows as stored are the paper's columns */
    int64_t offset;  /* of the block's first entry in the parameter */
    int64_t rows, cols, ld;
    int64_t positions; /* of a convolution kernel, else 1 */
    bool whole;        /* it is one tile */
} scn_block;

typedef struct scn_norm {
    scion_norm_properties about; /* the public columns */
    double (*size)(const scn_block *b, scn_mat x, const scn_work *w);
    double (*dual_size)(const scn_block *b, scn_mat s, const scn_work *w);
    /* z = beta z - step c direction(s), for a block or a tile of it. beta = 0 does not read z; z and s do not
     * overlap. */
    void (*lmo)(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w);
    /* The columns below may be NULL. */
    double (*factor)(int role, scn_dims d);             /* c; NULL: 1 */
    scn_granularity (*granularity)(const scn_block *b); /* NULL: by entry if about.elementwise, else whole */
    /* z = a random point with size c * radius; NULL: zero (about.starts_at_zero), as the paper
     * starts biases: inside their ball, not on its boundary. */
    void (*init)(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w);
    size_t (*memory)(const scn_block *b, scn_use use, const scn_work *w); /* bytes of arena; NULL: none */
    double (*cost)(const scn_block *b, const scn_work *w); /* operations of one lmo; NULL: a few for each entry */
    double (*overshoot)(const scn_work *w);                /* largest norm of an lmo; NULL: 1 */
    double (*start_norm)(int64_t positions);               /* largest norm of init over radius; NULL: 1 */
    bool along_rows;                                       /* norms of rows and columns (row_col_norm.c): of rows */
} scn_norm;

extern const scn_norm scn_norm_spectral, scn_norm_col, scn_norm_row, scn_norm_sign, scn_norm_rms, scn_norm_euclid,
    scn_norm_max;

/* All norms by their number (norm_rows.c). */
extern const scn_norm *const scn_norm_rows[];
extern const int scn_norm_count;

/* The descriptor of a norm; NULL: AUTO, or no norm. */
const scn_norm *scn_norm_at(int norm);

/* The norm that AUTO means for a role, and for a parameter of one dimension. */
int scn_route(int routing, int role, int32_t ndim);
/* Names, or NULL: there is no such routing, no such role. */
const char *scn_routing_name(int routing);
const char *scn_role_name(int role);

/* ---- Blocks (block.c) ---- */

/* A tile of a block, for one thread at a time. */
typedef struct scn_tile {
    int64_t row, col, rows, cols;
} scn_tile;

/* Entries of a tile of a block that goes by entry. */
enum { SCN_TILE_ENTRIES = 16384 };

scn_granularity scn_granularity_of(const scn_block *b);
/* Number of tiles of a block, tile i, and the entries of the largest. */
int64_t scn_tiles(const scn_block *b);
scn_tile scn_tile_at(const scn_block *b, int64_t i);
int64_t scn_tile_max(const scn_block *b);

/* The block in an array of the parameter's shape. */
static inline scn_mat scn_block_view(const scn_block *b, float *param)
{
    return (scn_mat){param + b->offset, b->rows, b->cols, b->ld};
}

double scn_block_value(const scn_block *b, scn_mat x, const scn_work *w);
double scn_block_dual(const scn_block *b, scn_mat s, const scn_work *w);
/* The lmo of a whole block, by w's threads. */
void scn_block_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w);
/* The start of a whole block. */
void scn_block_init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w);
size_t scn_block_memory(const scn_block *b, scn_use use, const scn_work *w);

#endif
