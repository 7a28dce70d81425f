/* Largest singular value of a matrix. */
#ifndef SCN_LANCZOS_H
#define SCN_LANCZOS_H

#include "base/memory.h"
#include "product/matrix.h"

/* Bytes that scn_largest_singular_value takes from the arena. */
size_t scn_lanczos_bytes(int64_t rows, int64_t cols);

/* sigma_max(a), to about 1e-7 where the spectrum has any gap and to 1e-4 where it has none; never too
 * large by more than rounding. */
double scn_largest_singular_value(scn_mat a, scn_arena arena, int threads);

#endif
