/* A view of a row-major float32 matrix that somebody else owns. */
#ifndef SCN_MATRIX_H
#define SCN_MATRIX_H

#include <stdint.h>

typedef struct scn_mat {
    float *at;
    int64_t rows, cols, ld; /* element (i, j) is at[i * ld + j] */
} scn_mat;

static inline float *scn_row(scn_mat a, int64_t i)
{
    return a.at + i * a.ld;
}

static inline scn_mat scn_sub(scn_mat a, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    return (scn_mat){a.at + row * a.ld + col, rows, cols, a.ld};
}

#endif
