/* to = from' for a block of rows x cols floats: 4 x 4 squares in registers, the rest one by one. */
#ifndef SCN_TRANSPOSE_H
#define SCN_TRANSPOSE_H

#include <stdint.h>

typedef float scn_vec4 __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline)) void scn_transpose4(float *to, int64_t to_ld, const float *from,
                                                                 int64_t from_ld)
{
    const scn_vec4 a = *(const scn_vec4 *)from, b = *(const scn_vec4 *)(from + from_ld);
    const scn_vec4 c = *(const scn_vec4 *)(from + 2 * from_ld), d = *(const scn_vec4 *)(from + 3 * from_ld);
    const scn_vec4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const scn_vec4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(scn_vec4 *)to = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    *(scn_vec4 *)(to + to_ld) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    *(scn_vec4 *)(to + 2 * to_ld) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    *(scn_vec4 *)(to + 3 * to_ld) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

static inline __attribute__((always_inline)) void scn_transpose(float *to, int64_t to_ld, const float *from,
                                                                int64_t from_ld, int64_t rows, int64_t cols)
{
    const int64_t rows4 = rows / 4 * 4, cols4 = cols / 4 * 4;
    for (int64_t j = 0; j < cols4; j += 4)
        for (int64_t i = 0; i < rows4; i += 4)
            scn_transpose4(to + j * to_ld + i, to_ld, from + i * from_ld + j, from_ld);
    for (int64_t i = rows4; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * to_ld + i] = from[i * from_ld + j];
    for (int64_t i = 0; i < rows4; i++)
        for (int64_t j = cols4; j < cols; j++)
            to[j * to_ld + i] = from[i * from_ld + j];
}

#endif
