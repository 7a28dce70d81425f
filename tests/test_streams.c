/* Random streams: no two uses share one, and those that never collided have the numbers of version 0.1.0. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum { MAX = 2000000 };

static uint64_t *list;
static int64_t count;

static void add(uint64_t stream)
{
    check(count < MAX);
    list[count++] = stream;
}

static void check_unique(void)
{
    qsort(list, (size_t)count, sizeof *list, by_value);
    for (int64_t i = 1; i < count; i++) {
        at("stream %llx", (unsigned long long)list[i]);
        check(list[i] != list[i - 1]);
    }
}

/* Streams that one seed can meet: the weights of a network, each parameter in one of the three ways, and the data. */
static void test_unique(void **state)
{
    (void)state;
    static const uint64_t program[] = {SCN_STREAM_WINDOWS, SCN_STREAM_SHUFFLE,     SCN_STREAM_TEXT,
                                       SCN_STREAM_NEXT,    SCN_STREAM_PROTOTYPE,   SCN_STREAM_LABEL,
                                       SCN_STREAM_NOISE,   SCN_STREAM_GENERATE,    SCN_STREAM_FLIP,
                                       SCN_STREAM_AUGMENT, SCN_STREAM_ERASE,       SCN_STREAM_MIX,
                                       SCN_STREAM_REPLACE, SCN_STREAM_RANDAUGMENT, SCN_STREAM_RANDAUGMENT_LEVEL};
    static const int64_t params[] = {0, 1, 2, 15, 16, 17, 255, 4095, 4096, 4097, 65535, 65536, 1000000};
    list = room(MAX * sizeof *list);
    for (int first = 0; first < 3; first++) { /* parameter i begins in way (i + first) % 3 */
        count = 0;
        for (int64_t i = 0; i < COUNT_OF(program); i++)
            add(program[i]);
        for (int64_t t = 0; t < COUNT_OF(params); t++) {
            const int way = (int)((t + first) % 3);
            if (way == 2)
                add(scn_stream_uniform(params[t]));
            else
                for (int64_t block = 0; block < 5000; block++)
                    add(scn_stream_boundary(params[t], block, 0, way == 1));
            for (int64_t position = 1; way == 1 && position < 5000; position++) /* a convolution has one block */
                add(scn_stream_boundary(params[t], 0, position, true));
        }
        for (int64_t i = 0; i < 5000; i++)
            add(scn_stream_dropped(i));
        check_unique();
    }
    count = 0;
    for (int64_t i = 0; i < 20000; i++) { /* many parameters of one block, all ways at once but for the same one */
        add(scn_stream_uniform(i));
        if (i > 0)
            add(scn_stream_boundary(i, 0, 0, true));
    }
    for (int64_t i = 0; i < COUNT_OF(program); i++)
        add(program[i]);
    check_unique();
}

/* Rounding of weights, of what light leaves, of additions to gradients: by step, parameter, batch, node and part. */
static void test_rounding(void **state)
{
    (void)state;
    list = room(MAX * sizeof *list);
    count = 0;
    for (int64_t step = 0; step < 40; step++)
        for (int64_t i = 0; i < 40; i++) {
            add(scn_stream_rounding(step + 1, i));
            add(scn_stream_average(step, i));
            add(scn_stream_meeting(step, i));
            for (int64_t sample = 0; sample < 10; sample++)
                for (int64_t part = 0; part < 5; part++)
                    add(scn_stream_addition(step, 8 * sample, i, part));
        }
    for (int64_t i = 0; i < 40; i++)
        add(scn_stream_dropped(i));
    check_unique();
}

/* Many draws at once are the draws one by one, also where the index passes 32 bits. */
static void test_runs(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {0, 5, 0xfffffff0u, 0xffffffffu, (uint64_t)1 << 40};
    for (int64_t f = 0; f < COUNT_OF(firsts); f++)
        for (int64_t n = 1; n < 70; n++) {
            uint32_t got[4 * 70];
            scn_philox_run(77, (uint64_t)3 << 50, firsts[f], n, got);
            for (int64_t i = 0; i < n; i++) {
                const scn_words want = scn_philox(77, (uint64_t)3 << 50, firsts[f] + (uint64_t)i);
                at("%d draws from %llx on, draw %d", (int)n, (unsigned long long)firsts[f], (int)i);
                check_bits(sizeof want, got + 4 * i, &want);
            }
        }
}

/* Block 16 of spectral parameter 0 was stream 65536, which is parameter 1's. */
static void test_collision_of_0_1_0(void **state)
{
    (void)state;
    check(scn_stream_boundary(0, 16, 0, true) != scn_stream_boundary(1, 0, 0, false));
    check(scn_stream_boundary(0, 2, 0, true) != SCN_STREAM_WINDOWS);
    check(scn_stream_boundary(1, 0, 4096, true) != scn_stream_boundary(1, 1, 0, true));
}

/* Starts of usual networks are those of 0.1.0: up to 4096 parameters, fused in a few blocks. */
static void test_old_numbers(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 4096; i += 5)
        for (int64_t k = 0; k < 40; k++) {
            at("parameter %lld, block %lld", (long long)i, (long long)k);
            const uint64_t stream = (uint64_t)i << 16 | (uint64_t)k;
            check(scn_stream_boundary(i, k, 0, false) == stream);
            if (i > 0)
                check(scn_stream_boundary(i, k, 9, true) == stream * 4096 + 9);
            check(scn_stream_uniform(i) == 0x1000 + (uint64_t)i);
        }
    check(scn_stream_boundary(0, 0, 48, true) == 48);
    check(scn_stream_boundary(0, 1, 0, true) == 4096);
    check(scn_stream_boundary(0, 15, 0, true) == 15 * 4096);
    check(scn_stream_rounding(3, 7) == (3 << 24) + 7);
}

/* Row i of a start by rows is run number i of its stream, each from an even number on, over its length. */
static void test_rows_of_a_start(void **state)
{
    (void)state;
    for (int64_t cols = 4; cols < 8; cols++) {
        scion_param p = matrix_of(3, cols, SCION_NORM_ROW, SCION_ROLE_PLAIN);
        float *x = floats(3 * cols), *row = floats(cols);
        check_ok(scion_boundary_init(&p, NULL, 42, x, NULL), NULL);
        for (int64_t i = 0; i < 3; i++) {
            scn_normals(42, scn_stream_boundary(0, 0, 0, false), i * (cols + cols % 2), cols, row);
            at("row %lld of %lld columns", (long long)i, (long long)cols);
            const double length = sqrt(dot(cols, row, row));
            for (int64_t j = 0; j < cols; j++)
                check_rel((double)x[i * cols + j], (double)row[j] / length, 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_unique),      LAW(test_rounding),
                                       LAW(test_runs),        LAW(test_collision_of_0_1_0),
                                       LAW(test_old_numbers), LAW(test_rows_of_a_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
