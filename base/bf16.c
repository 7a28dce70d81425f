/* See bf16.h. */
#include "base/bf16.h"

#include "base/arith.h"
#include "base/random.h"

SCN_CLONES static void from_bf16_loop(int64_t n, const uint16_t *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

void scn_from_bf16(int64_t n, const uint16_t *from, float *to)
{
    from_bf16_loop(n, from, to);
}

SCN_CLONES static void add_bf16_loop(int64_t n, const uint16_t *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        to[i] += x;
    }
}

void scn_add_bf16(int64_t n, const uint16_t *from, float *to)
{
    add_bf16_loop(n, from, to);
}

SCN_CLONES static void to_bf16_loop(int64_t n, const float *restrict from, uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = (uint16_t)(scn_bf16_nearest(from[i]) >> 16);
    }
}

void scn_to_bf16(int64_t n, const float *from, uint16_t *to)
{
    to_bf16_loop(n, from, to);
}

SCN_CLONES static void random_bf16_loop(int64_t n, const float *restrict from, const uint16_t *restrict numbers,
                                        uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint16_t)(scn_bf16_sum(from[i], numbers[i]) >> 16);
}

enum { draws = 64, draw_numbers = 8 };

/* A draw of four words makes eight numbers of 16 bits, the lower half of each word first. */
static void draw_numbers_of(uint64_t seed, uint64_t stream, int64_t draw, int64_t n, uint16_t *numbers)
{
    uint32_t words[4 * draws];
    scn_philox_run(seed, stream, (uint64_t)draw, n, words);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(numbers, words, (size_t)(4 * n) * sizeof *words);
#else
    for (int64_t i = 0; i < draw_numbers * n; i++)
        numbers[i] = (uint16_t)(words[i / 2] >> (i % 2 * 16) & 0xffffu);
#endif
}

void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first)
{
    uint16_t numbers[draw_numbers * draws];
    for (int64_t i = 0, count; i < n; i += count) {
        const int64_t skip = (first + i) % draw_numbers, left = n - i;
        count = scn_min(left, draw_numbers * draws - skip);
        draw_numbers_of(seed, stream, (first + i) / draw_numbers, scn_pieces(skip + count, draw_numbers), numbers);
        random_bf16_loop(count, from + i, numbers + skip, to + i);
    }
}

scn_rounding scn_rounding_by(uint64_t seed, uint64_t stream)
{
    const scn_words r = scn_philox(seed, stream, 0);
    return (scn_rounding){true, (uint64_t)r.w[1] << 32 | r.w[0]};
}

/* A hash of 32 bits: two rounds of multiply and shift, with a second key between them. Every input bit changes every
 * output bit with probability 1/2. */
SCN_INLINE uint32_t hash(uint32_t x, uint32_t key)
{
    x = (x ^ x >> 16) * 0x7feb352du ^ key;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Rounds n elements, number `first` onwards, by the lower half of each hash. */
SCN_CLONES static void hashed_bf16_loop(int64_t n, const float *restrict from, uint32_t first, uint32_t key,
                                        uint16_t *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint16_t)(scn_bf16_sum(from[i], hash(first + (uint32_t)i, key) & 0xffffu) >> 16);
}

void scn_to_bf16_by(const scn_rounding *how, int64_t n, const float *from, uint16_t *to, int64_t first)
{
    const uint64_t at = (uint64_t)first + (uint32_t)how->key; /* arrays of more than 2^32 elements: another key */
    if (how->random)
        hashed_bf16_loop(n, from, (uint32_t)at, (uint32_t)(how->key >> 32) + 0x9E3779B9u * (uint32_t)(at >> 32), to);
    else
        scn_to_bf16(n, from, to);
}

SCN_CLONES static int16_t largest_bf16_loop(int64_t n, const uint16_t *x)
{
    int16_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int16_t bits = (int16_t)(x[i] & 0x7fff);
        most = bits > most ? bits : most;
    }
    return most;
}

float scn_largest_bf16(int64_t n, const uint16_t *x)
{
    const int16_t most = largest_bf16_loop(n, x);
    const uint16_t bits = most < 0x7f80 ? (uint16_t)most : 0x7f80; /* Inf and NaN */
    float value;
    scn_from_bf16(1, &bits, &value);
    return value;
}
