/* Numbers as people write them, and the shortest text that reads back. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "util/number.h"

static void numbers_are_read_as_people_write_them(void **state)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},
        {"1e-3", 1e-3},
        {"2^-5", 0.03125},
        {"2^10", 1024},
        {"0x10", 16},
        {"1k", 1000},
        {"1K", 1000},
        {"2.5m", 2.5e6},
        {".5", 0.5},
        {"-3", -3},
        {"+3", 3},
        {"10^2", 100},
        {"2^-1074", 5e-324},
        {"1e3k", 1e6},
        {"010", 10},
        {"2^0.5k", 1000 * 1.4142135623730951},
    };
    static const char *const bad[] = {"",     "x",   "1x",  "1 2", "nan",   "inf", "-inf", "1e999", "2^", "^2",
                                      "-2^2", "2^-", "1kk", "--1", "2^2^2", "0x",  " 1",   "1,5",   "k",  "1_000"};
    double value;
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(good); i++) {
        at("\"%s\"", good[i].text);
        check(number_real(good[i].text, &value) && value == good[i].value);
    }
    for (int64_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t whole;
        uint64_t seed;
        at("\"%s\"", bad[i]);
        check(!number_real(bad[i], &value));
        check(!number_int(bad[i], &whole));
        check(!number_seed(bad[i], &seed));
    }
}

/* Whole numbers do not go through a double unless they have to. */
static void whole_numbers_are_exact(void **state)
{
    int64_t whole;
    uint64_t seed;
    (void)state;
    check(number_int("9223372036854775807", &whole) && whole == INT64_MAX);
    check(number_int("-9223372036854775808", &whole) && whole == INT64_MIN);
    check(number_int("9007199254740993", &whole) && whole == 9007199254740993);
    check(number_int("0x7fffffffffffffff", &whole) && whole == INT64_MAX);
    check(number_int("2^20", &whole) && whole == 1 << 20);
    check(!number_int("9223372036854775808", &whole) && !number_int("0.5", &whole) && !number_int("2^-1", &whole));
    check(!number_int("1e18", &whole));
    check(number_seed("18446744073709551615", &seed) && seed == UINT64_MAX);
    check(!number_seed("18446744073709551616", &seed) && !number_seed("-1", &seed) && !number_seed("-1e3", &seed));
}

/* Any double, by its bits. */
static double any_double(rng *r)
{
    for (;;) {
        uint64_t bits = 0;
        double value;
        for (int i = 0; i < 4; i++)
            bits = bits << 16 | (uint64_t)(rng_uniform(r) * 65536);
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            return value;
    }
}

static void numbers_read_back_to_the_same_bits(void **state)
{
    rng r = rng_of(1);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        const double value = i % 2 ? any_double(&r) : floor(rng_normal(&r) * 1e4) / 1000;
        double back;
        char text[NUMBER_TEXT];
        number_write(value, text);
        at("%s", text);
        check(number_real(text, &back));
        check_bits(sizeof value, &value, &back);
        check(i % 2 || strlen(text) <= 9); /* no digits that nobody wrote */
    }
}

static void bytes_have_human_units(void **state)
{
    char text[NUMBER_BYTES_TEXT];
    (void)state;
    check(strcmp(number_bytes(0, text), "0 B") == 0);
    check(strcmp(number_bytes(999, text), "999 B") == 0);
    check(strcmp(number_bytes(2440, text), "2.4 KB") == 0);
    check(strcmp(number_bytes(25.3e9, text), "25.3 GB") == 0);
    check(strcmp(number_bytes(7.89e12, text), "7.9 TB") == 0);
    check(strcmp(number_bytes(1.45e17, text), "145.0 PB") == 0);
    check(strcmp(number_bytes(0x1p64, text), "18.4 EB") == 0);
    check(strcmp(number_bytes(1e40, text), "1.0e+22 EB") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(numbers_are_read_as_people_write_them),
        LAW(bytes_have_human_units),
        LAW(whole_numbers_are_exact),
        LAW(numbers_read_back_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
