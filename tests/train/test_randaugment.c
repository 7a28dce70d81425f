/* RandAugment: what each operation does to an image, as Pillow 13 does it, and how often operations are drawn. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/randaugment.h"

enum { H = 5, W = 6, C = 3, BYTES = H * W * C };

static const float fill[] = {124, 116, 104};

/* Operations at level 6.5, negative: in the other direction. Byte i of the image is (37 i^2 + 91 i + 13) mod 251. */
static const struct {
    const char *name;
    bool negative;
    uint8_t want[BYTES];
} pillows[] = {
    {"autocontrast", false, {0,   142, 93,  115, 225, 143, 134, 211, 98,  56,  102, 231, 161, 174, 0,
                             169, 150, 215, 80,  29,  66,  173, 90,  94,  170, 55,  29,  70,  200, 139,
                             152, 250, 157, 138, 204, 80,  26,  61,  180, 97,  100, 187, 72,  43,  100,
                             229, 166, 189, 10,  194, 185, 252, 125, 87,  119, 238, 165, 168, 255, 150,
                             120, 175, 41,  255, 0,   109, 13,  5,   83,  233, 192, 234, 77,  5,   21,
                             104, 0,   255, 34,  175, 124, 146, 255, 171, 162, 238, 123, 81,  125, 252}},
    {"equalize", false, {13,  141, 92,  117, 216, 138, 134, 204, 97,  64,  105, 220, 158, 170, 5,   165, 148, 205,
                         85,  39,  67,  169, 94,  93,  166, 62,  32,  76,  194, 135, 150, 239, 151, 137, 197, 80,
                         37,  68,  173, 101, 103, 179, 78,  51,  98,  219, 163, 181, 22,  188, 177, 240, 126, 86,
                         120, 228, 159, 164, 243, 145, 121, 171, 44,  242, 12,  107, 25,  17,  83,  223, 186, 223,
                         83,  17,  25,  107, 12,  242, 44,  171, 121, 145, 243, 164, 159, 228, 120, 86,  126, 240}},
    {"invert", false, {242, 114, 163, 138, 39,  117, 121, 51,  158, 191, 150, 35,  97,  85,  250, 90,  107, 50,
                       170, 216, 188, 86,  161, 162, 89,  193, 223, 179, 61,  120, 105, 16,  104, 118, 58,  175,
                       218, 187, 82,  154, 152, 76,  177, 204, 157, 36,  92,  74,  233, 67,  78,  15,  129, 169,
                       135, 27,  96,  91,  12,  110, 134, 84,  211, 13,  243, 148, 230, 238, 172, 32,  69,  32,
                       172, 238, 230, 148, 243, 13,  211, 84,  134, 110, 12,  91,  96,  27,  135, 169, 129, 15}},
    {"rotate", false, {124, 116, 104, 138, 249, 100, 71,  123, 217, 119, 171, 89,  161, 207, 104, 124, 116, 104,
                       77,  153, 107, 183, 144, 73,  122, 109, 64,  103, 245, 172, 95,  224, 163, 254, 119, 58,
                       94,  36,  86,  137, 64,  128, 91,  38,  92,  243, 126, 170, 0,   61,  128, 205, 158, 183,
                       34,  86,  182, 116, 197, 185, 112, 194, 64,  215, 76,  80,  134, 68,  83,  117, 155, 173,
                       124, 116, 104, 137, 170, 146, 100, 119, 188, 59,  222, 122, 161, 255, 160, 124, 116, 104}},
    {"posterize", false, {0,  128, 64,  64,  192, 128, 128, 192, 64, 64,  64,  192, 128, 128, 0,   128, 128, 192,
                          64, 0,   64,  128, 64,  64,  128, 0,   0,  64,  192, 128, 128, 192, 128, 128, 192, 64,
                          0,  64,  128, 64,  64,  128, 64,  0,   64, 192, 128, 128, 0,   128, 128, 192, 64,  64,
                          64, 192, 128, 128, 192, 128, 64,  128, 0,  192, 0,   64,  0,   0,   64,  192, 128, 192,
                          64, 0,   0,   64,  0,   192, 0,   128, 64, 128, 192, 128, 128, 192, 64,  64,  64,  192}},
    {"solarize", false, {13,  114, 163, 138, 39,  117, 121, 51, 158, 64,  150, 35,  97,  85, 5,   90,  107, 50,
                         85,  39,  67,  86,  161, 162, 89,  62, 32,  76,  61,  120, 105, 16, 104, 118, 58,  80,
                         37,  68,  82,  154, 152, 76,  78,  51, 157, 36,  92,  74,  22,  67, 78,  15,  129, 86,
                         135, 27,  96,  91,  12,  110, 134, 84, 44,  13,  12,  148, 25,  17, 83,  32,  69,  32,
                         83,  17,  25,  148, 12,  13,  44,  84, 134, 110, 12,  91,  96,  27, 135, 86,  129, 15}},
    {"solarize_add", false, {84,  141, 163, 188, 216, 138, 134, 204, 168, 135, 176, 220, 158, 170, 76,
                             165, 148, 205, 156, 110, 138, 169, 165, 164, 166, 133, 103, 147, 194, 135,
                             150, 239, 151, 137, 197, 151, 108, 139, 173, 172, 174, 179, 149, 122, 169,
                             219, 163, 181, 93,  188, 177, 240, 197, 157, 191, 228, 159, 164, 243, 145,
                             192, 171, 115, 242, 83,  178, 96,  88,  154, 223, 186, 223, 154, 88,  96,
                             178, 83,  242, 115, 171, 192, 145, 243, 164, 159, 228, 191, 157, 197, 240}},
    {"color", false, {0,   166, 89,  81,  238, 114, 112, 223, 53,  39,  104, 255, 163, 182, 0,   167, 140, 231,
                      101, 29,  73,  200, 81,  79,  210, 45,  0,   31,  218, 125, 119, 255, 121, 120, 215, 29,
                      17,  66,  232, 95,  98,  218, 86,  43,  117, 240, 151, 180, 0,   217, 200, 255, 108, 45,
                      80,  251, 142, 138, 255, 108, 108, 187, 0,   255, 0,   115, 23,  11,  115, 235, 177, 235,
                      109, 4,   17,  130, 0,   255, 0,   196, 117, 109, 255, 140, 137, 247, 76,  62,  125, 255}},
    {"contrast", false, {0,   145, 68,  107, 255, 140, 134, 245, 75,  23,  88,  255, 172, 191, 0,   183, 156, 247,
                         56,  0,   28,  190, 71,  69,  185, 20,  0,   42,  229, 136, 159, 255, 161, 139, 234, 48,
                         0,   29,  196, 82,  85,  205, 45,  3,   77,  255, 180, 209, 0,   220, 202, 255, 121, 58,
                         112, 255, 174, 182, 255, 152, 113, 193, 0,   255, 0,   91,  0,   0,   53,  255, 217, 255,
                         53,  0,   0,   91,  0,   255, 0,   193, 113, 152, 255, 182, 174, 255, 112, 58,  121, 255}},
    {"brightness", true, {5,  58, 38, 48, 89,  57,  55, 84, 40, 26,  43,  91, 65, 70, 2,  68, 61, 85,
                          35, 16, 27, 70, 39,  38,  68, 25, 13, 31,  80,  56, 62, 99, 62, 56, 81, 33,
                          15, 28, 71, 41, 42,  74,  32, 21, 40, 90,  67,  75, 9,  78, 73, 99, 52, 35,
                          49, 94, 65, 68, 100, 60,  50, 70, 18, 100, 4,   44, 10, 7,  34, 92, 77, 92,
                          34, 7,  10, 44, 4,   100, 18, 70, 50, 60,  100, 68, 65, 94, 49, 35, 52, 99}},
    {"sharpness", false, {13,  141, 92,  117, 216, 138, 134, 204, 97,  64,  105, 220, 158, 170, 5,   165, 148, 205,
                          85,  39,  67,  197, 88,  87,  182, 33,  0,   59,  210, 140, 155, 255, 156, 137, 197, 80,
                          37,  68,  173, 95,  97,  207, 49,  22,  92,  255, 179, 209, 0,   204, 193, 240, 126, 86,
                          120, 228, 159, 192, 255, 150, 115, 187, 4,   255, 0,   101, 0,   0,   54,  223, 186, 223,
                          83,  17,  25,  107, 12,  242, 44,  171, 121, 145, 243, 164, 159, 228, 120, 86,  126, 240}},
    {"shear_x", false, {22,  148, 96,  127, 221, 136, 127, 192, 107, 67,  103, 207, 166, 173, 7,   165, 146, 220,
                        109, 57,  78,  185, 84,  72,  134, 93,  52,  85,  229, 159, 157, 233, 132, 135, 190, 69,
                        71,  91,  185, 80,  68,  130, 167, 95,  128, 114, 197, 200, 103, 160, 132, 255, 118, 74,
                        156, 248, 164, 119, 218, 65,  232, 56,  83,  72,  0,   74,  145, 132, 176, 124, 116, 104,
                        110, 0,   226, 42,  144, 134, 130, 237, 161, 165, 240, 114, 95,  138, 224, 124, 116, 104}},
    {"shear_y", false, {20,  130, 88,  136, 179, 119, 160, 136, 57,  51,  170, 155, 163, 235, 130, 142, 194, 71,
                        85,  32,  75,  152, 70,  113, 121, 23,  62,  171, 201, 171, 37,  211, 184, 245, 126, 96,
                        41,  87,  181, 112, 159, 175, 97,  108, 70,  255, 23,  125, 10,  17,  91,  212, 185, 232,
                        122, 220, 144, 156, 195, 168, 88,  186, 74,  177, 159, 140, 142, 199, 114, 77,  122, 241,
                        80,  0,   14,  98,  0,   255, 34,  171, 130, 124, 116, 104, 124, 116, 104, 124, 116, 104}},
    {"translate_x", true, {124, 116, 104, 124, 116, 104, 37,  159, 105, 138, 228, 128, 114, 175, 131, 76,  108, 175,
                           124, 116, 104, 124, 116, 104, 105, 53,  76,  184, 87,  77,  140, 87,  47,  82,  225, 156,
                           124, 116, 104, 124, 116, 104, 53,  78,  178, 97,  90,  156, 118, 70,  107, 180, 187, 195,
                           124, 116, 104, 124, 116, 104, 132, 234, 160, 154, 234, 115, 154, 121, 46,  196, 0,   103,
                           124, 116, 104, 124, 116, 104, 91,  8,   83,  90,  46,  240, 59,  211, 116, 165, 254, 153}},
    {"translate_y", false, {62,  20,  114, 137, 65,  130, 124, 24,  60,  141, 208, 153, 89,  244, 193,
                            182, 163, 50,  73,  170, 196, 127, 195, 163, 94,  105, 72,  255, 62,  146,
                            0,   77,  132, 255, 151, 148, 113, 151, 95,  146, 154, 185, 91,  187, 72,
                            200, 98,  123, 87,  91,  87,  157, 166, 249, 78,  0,   7,   99,  0,   254,
                            33,  171, 131, 132, 255, 171, 176, 255, 124, 67,  117, 242, 124, 116, 104,
                            124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104, 124, 116, 104}},
};

static int row_of(const char *name)
{
    for (int i = 0; randaugment_name(i); i++)
        if (strcmp(randaugment_name(i), name) == 0)
            return i;
    fail_msg("there is no operation %s", name);
    return -1;
}

/* Pillow cuts off where we round to nearest, and computes with float32: one apart is as near as that. */
static void operations_are_pillows(void **state)
{
    (void)state;
    int rows = 0;
    for (size_t k = 0; k < sizeof pillows / sizeof *pillows; k++, rows++) {
        uint8_t bytes[2 * BYTES];
        randaugment_image m = {bytes, bytes + BYTES, H, W, C, fill};
        const randaugment_op op = {row_of(pillows[k].name), 6.5, pillows[k].negative};
        for (int i = 0; i < BYTES; i++)
            bytes[i] = (uint8_t)((37 * i * i + 91 * i + 13) % 251);
        randaugment_apply(&op, &m);
        for (int i = 0; i < BYTES; i++)
            if (abs(m.at[i] - pillows[k].want[i]) > 1)
                fail_msg("%s: byte %d is %d, expected %d", pillows[k].name, i, m.at[i], pillows[k].want[i]);
    }
    assert_null(randaugment_name(rows)); /* all of them are there */
}

/* The darker half becomes black and the brighter white; too few pixels for 255 steps stay as they are. */
static void equalize_spreads_the_brightness(void **state)
{
    enum { h = 40, w = 30 };
    static uint8_t bytes[2 * h * w];
    const randaugment_op op = {row_of("equalize"), 9, false};
    randaugment_image m = {bytes, bytes + h * w, h, w, 1, fill};
    (void)state;
    for (int i = 0; i < h * w; i++)
        bytes[i] = (uint8_t)(i % 2 ? 103 : 100);
    randaugment_apply(&op, &m);
    for (int i = 0; i < h * w; i++)
        assert_int_equal(m.at[i], i % 2 ? 255 : 0);
}

/* Level 0 of what has a neutral strength, and no operation at all, change nothing; inverted twice is the image. */
static void neutral_operations_change_nothing(void **state)
{
    static const char *const names[] = {"rotate",   "solarize",    "solarize_add", "color",
                                        "contrast", "brightness",  "shear_x",      "sharpness",
                                        "shear_y",  "translate_x", "translate_y"};
    uint8_t bytes[2 * BYTES], kept[BYTES];
    (void)state;
    for (int k = -1; k < (int)(sizeof names / sizeof *names); k++) {
        randaugment_image m = {bytes, bytes + BYTES, H, W, C, fill};
        const randaugment_op op = {k < 0 ? -1 : row_of(names[k]), 0, k % 2 == 0};
        for (int i = 0; i < BYTES; i++)
            kept[i] = bytes[i] = (uint8_t)(i * 101);
        randaugment_apply(&op, &m);
        assert_memory_equal(m.at, kept, BYTES);
    }
    const randaugment_op invert = {row_of("invert"), 9, false};
    randaugment_image m = {bytes, bytes + BYTES, H, W, C, fill};
    memcpy(bytes, kept, BYTES);
    randaugment_apply(&invert, &m);
    assert_int_equal(m.at[7], 255 - kept[7]);
    randaugment_apply(&invert, &m);
    assert_memory_equal(m.at, kept, BYTES);
}

/* Half of the draws do something, each operation as often as any other, levels 9 +- 1/2 and never above 10, both
 * directions of those that have two: shares of 60000 draws to five deviations. */
static void operations_are_drawn_evenly(void **state)
{
    enum { samples = 30000, draws = samples * RANDAUGMENT_OPS, most = 64 };
    double done = 0, negative = 0, level = 0, each[most] = {0};
    int rows = 0;
    (void)state;
    while (randaugment_name(rows))
        rows++;
    for (int64_t n = 0; n < samples; n++) {
        randaugment_op ops[RANDAUGMENT_OPS], again[RANDAUGMENT_OPS];
        randaugment_draw(9, 7, n, ops);
        randaugment_draw(9, 7, n, again);
        for (int k = 0; k < RANDAUGMENT_OPS; k++) {
            assert_true(ops[k].row == again[k].row && ops[k].level == again[k].level);
            assert_true(ops[k].row < rows && ops[k].level >= 0 && ops[k].level <= 10);
            level += ops[k].level / draws;
            if (ops[k].row < 0)
                continue;
            done++;
            each[ops[k].row]++;
            negative += ops[k].negative;
        }
    }
    assert_true(fabs(done / draws - 0.5) < 5 * sqrt(0.25 / draws));
    const double p = 1.0 / rows / 2, two_ways = 9.0 / rows / 4;
    for (int i = 0; i < rows; i++)
        assert_true(fabs(each[i] / draws - p) < 5 * sqrt(p / draws));
    assert_true(fabs(negative / draws - two_ways) < 5 * sqrt(two_ways / draws));
    /* clipping at 10, two deviations above the mean, takes 0.0042 of the mean away */
    assert_true(fabs(level - 9 + 0.00425) < 5 * 0.5 / sqrt(draws));
}

/* The draws of a seed never change, for runs to go on with the same images. */
static void draws_are_as_recorded(void **state)
{
    static const int row[] = {-1, -1, 1, -1, 4, -1, -1, 3, 0, -1, 1, 11};
    static const bool negative[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1};
    (void)state;
    for (int64_t n = 0; n < 6; n++) {
        randaugment_op ops[RANDAUGMENT_OPS];
        randaugment_draw(9, 7, n, ops);
        for (int k = 0; k < RANDAUGMENT_OPS; k++) {
            assert_int_equal(ops[k].row, row[2 * n + k]);
            assert_true(ops[k].row < 0 || ops[k].negative == negative[2 * n + k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_pillows),
        cmocka_unit_test(equalize_spreads_the_brightness),
        cmocka_unit_test(neutral_operations_change_nothing),
        cmocka_unit_test(operations_are_drawn_evenly),
        cmocka_unit_test(draws_are_as_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
