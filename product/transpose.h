/* to = from' for a block of rows x cols floats: 4 x 4 squares in registers, the rest one by one. */
#ifndef SCN_TRANSPOSE_H
#define SCN_TRANSPOSE_H

#include <stdint.h>
#include <string.h>

typedef float scn_vec4 __attribute__((vector_size(16)));
typedef int32_t scn_int4 __attribute__((vector_size(16)));

static inline scn_vec4 scn_load4(const float *p)
{
    scn_vec4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void scn_transpose4(float *to, int64_t to_ld, const float *from, int64_t from_ld)
{
    const scn_int4 low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, second = {2, 3, 6, 7};
    scn_vec4 a = scn_load4(from), b = scn_load4(from + from_ld);
    scn_vec4 c = scn_load4(from + 2 * from_ld), d = scn_load4(from + 3 * from_ld);
    scn_vec4 ab0 = __builtin_shuffle(a, b, low), ab1 = __builtin_shuffle(a, b, high);
    scn_vec4 cd0 = __builtin_shuffle(c, d, low), cd1 = __builtin_shuffle(c, d, high);
    scn_vec4 row[4] = {__builtin_shuffle(ab0, cd0, first), __builtin_shuffle(ab0, cd0, second),
                       __builtin_shuffle(ab1, cd1, first), __builtin_shuffle(ab1, cd1, second)};
    for (int i = 0; i < 4; i++)
        memcpy(to + i * to_ld, &row[i], sizeof row[i]);
}

static inline void scn_transpose(float *to, int64_t to_ld, const float *from, int64_t from_ld, int64_t rows,
                                 int64_t cols)
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
