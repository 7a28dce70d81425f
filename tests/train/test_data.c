/* Texts: what becomes of their symbols, and which windows the batches are. Shards of tokens are test_data_shards.c,
 * images test_data_images.c, damaged files test_data_fuzz.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data_files.h"

enum { max_tokens = 4096 };

/* ---- Symbols ------------------------------------------------------------------------------------------- */

/* All tokens of a part that is read in order: windows of 1 and the last target are the text. */
static int64_t all_tokens(const data_set *d, data_part part, int32_t *tokens)
{
    const int64_t n = batches_in(d, part, 1);
    int32_t target = -1;
    for (int64_t i = 0; i < n; i++) {
        must_fill(d, part, i, 1, tokens + i, &target);
        if (i + 1 < n)
            tokens[i + 1] = target;
    }
    tokens[n] = target;
    return n + 1;
}

/* Text whose validation part, being all of it, decodes to the same bytes. Returns the data set. */
static data_set *must_round_trip(const char *name, const char *bytes, size_t n, const char *vocabulary)
{
    const data_case o = {
        .kind = "chars", .path = files_write(name, bytes, n), .val_fraction = 1, .vocabulary = vocabulary};
    data_set *d = must_open(&o);
    int32_t tokens[max_tokens];
    const int64_t count = all_tokens(d, DATA_VAL, tokens);
    size_t at = 0;
    assert_int_equal(count, data_about(d)->units[DATA_VAL]);
    for (int64_t i = 0; i < count; i++) {
        char text[8];
        const int length = decode_token(d, tokens[i], text);
        assert_in_range(length, 1, 4);
        assert_true(at + (size_t)length <= n);
        assert_memory_equal(text, bytes + at, (size_t)length);
        at += (size_t)length;
    }
    assert_int_equal(at, n);
    return d;
}

typedef struct text_case {
    const char *bytes;
    size_t n;
    int64_t vocab, count;
    const char *vocabulary; /* as it must be */
} text_case;

#define TEXT(literal) (literal), sizeof(literal) - 1

static const text_case texts[] = {
    {TEXT("hello, hell"), 6, 11, " ,ehlo"},
    {TEXT("ab"), 2, 2, "ab"},
    /* one to four bytes, the largest and smallest of each length, around the surrogates */
    {TEXT("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\x7f"),
     9, 10, "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    /* zero, in characters and in bytes */
    {TEXT("a\0b\0"), 3, 4,
     "\xef\xbf\xbe\xef\xbf\xbe"
     "ab"},
    {TEXT("\0\xff\0"), 2, 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbe\xc3\xbf"},
    {TEXT("\0\0"), 1, 2, "\xef\xbf\xbe\xef\xbf\xbe"},
    /* the symbols that are marks when doubled */
    {TEXT("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbe"), 2, 3, "\xef\xbf\xbd\xef\xbf\xbe"},
    {TEXT("\xef\xbf\xbe\xef\xbf\xbe"), 1, 2, "\xef\xbf\xbe"},
    {TEXT("\0\xef\xbf\xbe\xef\xbf\xbd"), 3, 3, "\xef\xbf\xbe\xef\xbf\xbe\xef\xbf\xbd\xef\xbf\xbe"},
    /* no UTF-8: a lone continuation, overlong, the first and the last surrogate, beyond the last, cut off */
    {TEXT("ab\x80"), 3, 3,
     "\xef\xbf\xbd\xef\xbf\xbd"
     "ab\xc2\x80"},
    {TEXT("\xc0\x80"), 2, 2, "\xef\xbf\xbd\xef\xbf\xbd\xc2\x80\xc3\x80"},
    {TEXT("\xe0\x9f\xbf"), 3, 3, "\xef\xbf\xbd\xef\xbf\xbd\xc2\x9f\xc2\xbf\xc3\xa0"},
    {TEXT("\xed\xa0\x80"), 3, 3, "\xef\xbf\xbd\xef\xbf\xbd\xc2\x80\xc2\xa0\xc3\xad"},
    {TEXT("\xed\xbf\xbf"), 2, 3, "\xef\xbf\xbd\xef\xbf\xbd\xc2\xbf\xc3\xad"},
    {TEXT("\xf4\x90\x80\x80"), 3, 4, "\xef\xbf\xbd\xef\xbf\xbd\xc2\x80\xc2\x90\xc3\xb4"},
    {TEXT("\xf8\x88\x80\x80\x80"), 3, 5, "\xef\xbf\xbd\xef\xbf\xbd\xc2\x80\xc2\x88\xc3\xb8"},
    {TEXT("abc\xe2\x82"), 5, 5,
     "\xef\xbf\xbd\xef\xbf\xbd"
     "abc\xc2\x82\xc3\xa2"},
};

/* Tokens decode to the text; the vocabulary is what is written beside it; it makes the same tokens again. */
static void test_symbols(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const text_case *t = &texts[i];
        data_set *d = must_round_trip("symbols.txt", t->bytes, t->n, NULL);
        const data_info *info = data_about(d);
        assert_string_equal(info->unit, "tokens");
        assert_int_equal(info->symbols, t->vocab);
        assert_int_equal(info->units[DATA_VAL], t->count);
        assert_string_equal(vocabulary_of(d), t->vocabulary);
        data_set *again = must_round_trip("symbols.txt", t->bytes, t->n, t->vocabulary);
        assert_int_equal(range_of(again), t->vocab);
        assert_string_equal(vocabulary_of(again), t->vocabulary);
        data_close(again);
        data_close(d);
    }
}

/* All 256 bytes, and as many characters as there may be and one more. */
static void test_many_symbols(void **state)
{
    enum { characters = 65536, first = 0x10000 };
    char bytes[512];
    (void)state;
    for (int i = 0; i < 512; i++)
        bytes[i] = (char)(uint8_t)i;
    data_set *d = must_round_trip("bytes", bytes, sizeof bytes, NULL);
    assert_int_equal(range_of(d), 256);
    data_close(d);
    char *many = malloc(4 * (characters + 1));
    assert_non_null(many);
    for (uint32_t i = 0; i <= characters; i++) {
        const uint32_t c = first + i;
        const char utf8[4] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3f)), (char)(0x80 | (c >> 6 & 0x3f)),
                              (char)(0x80 | (c & 0x3f))};
        memcpy(many + 4 * i, utf8, 4);
    }
    data_case o = {.kind = "chars", .path = files_write("many.txt", many, 4 * characters)};
    d = must_open(&o);
    assert_int_equal(range_of(d), characters);
    assert_int_equal(strlen(vocabulary_of(d)), 4 * characters);
    data_close(d);
    o.path = files_write("many.txt", many, 4 * (characters + 1)); /* more than 16 bits can tell apart */
    o.val_fraction = 1;
    d = must_open(&o);
    assert_int_equal(range_of(d), characters + 1);
    int32_t tokens[2], targets[2];
    must_fill(d, DATA_VAL, (characters - 2) / 2, 2, tokens, targets);
    assert_int_equal(tokens[0], characters - 2);
    assert_int_equal(targets[1], characters);
    data_close(d);
    free(many);
}

/* A vocabulary without a text is enough to encode and decode. */
static void test_vocabulary_alone(void **state)
{
    (void)state;
    const data_case o = {.kind = "auto", .path = "", .vocabulary = "\nabc\xc3\xa4"};
    data_set *d = must_open(&o);
    int32_t tokens[8];
    scion_error err = {0};
    char text[8];
    assert_int_equal(range_of(d), 5);
    assert_int_equal(data_about(d)->units[DATA_TRAIN], 0);
    assert_int_equal(batches_in(d, DATA_TRAIN, 1), 0);
    assert_int_equal(batches_in(d, DATA_VAL, 4), 0);
    assert_int_equal(encode_text(d, "c\xc3\xa4\n", tokens, &err), 3);
    assert_int_equal(tokens[0], 3);
    assert_int_equal(tokens[1], 4);
    assert_int_equal(tokens[2], 0);
    assert_int_equal(encode_text(d, "abcabc", tokens, &err), 6);
    assert_int_equal(encode_text(d, "", tokens, &err), 0);
    assert_int_equal(decode_token(d, 4, text), 2);
    assert_string_equal(text, "\xc3\xa4");
    assert_int_equal(decode_token(d, 5, text), 0);
    assert_int_equal(decode_token(d, -1, text), 0);
    assert_int_equal(encode_text(d, "abz", tokens, &err), -1);
    assert_string_equal(err.message, "the character \"z\" (U+007A) is not in the vocabulary");
    assert_int_equal(encode_text(d, "ab\t", tokens, &err), -1);
    assert_string_equal(err.message, "the character U+0009 is not in the vocabulary");
    assert_int_equal(encode_text(d, "a\xff", tokens, &err), -1);
    assert_string_equal(err.message, "the byte 0xFF is not UTF-8, but the vocabulary is");
    data_close(d);
}

/* A symbol that a model's vocabulary lacks is named with its line; a damaged vocabulary is refused. */
static void test_vocabulary_errors(void **state)
{
    static const char *const damaged[] = {
        "ba",
        "aa",
        "a\xff",
        "a\xc3",
        "a\xef\xbf\xbd\xef\xbf\xbd",
        "",
        "\xef\xbf\xbd\xef\xbf\xbd\xc3\xbf\xc4\x80", /* the byte 256 */
    };
    (void)state;
    data_case o = {.kind = "chars", .path = files_text("lines.txt", "ab\nab\nxab\n"), .vocabulary = "\nab"};
    must_refuse(&o, "lines.txt", "line 3", "U+0078", NULL);
    o.path = files_text("lines.txt", "ab\nab\xff\n");
    must_refuse(&o, "lines.txt", "line 2", "UTF-8", NULL);
    o.vocabulary = "\xef\xbf\xbd\xef\xbf\xbd"
                   "\nab";
    must_refuse(&o, "lines.txt", "line 2", "the byte 0xFF", NULL);
    o.path = NULL;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        o.vocabulary = damaged[i];
        must_refuse(&o, "the model's tokenizer: the vocabulary of characters is ", NULL);
    }
    o.vocabulary = NULL;
    must_refuse(&o, "no data are given", NULL);
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

/* A text of n < 256 symbols, all different: the token at place i is i. */
static const char *counted_text(int n)
{
    char text[2 * max_tokens];
    for (int i = 0; i < n; i++) { /* characters U+0100 + i: two bytes each */
        text[2 * i] = (char)(0xc4 + i / 64);
        text[2 * i + 1] = (char)(0x80 + i % 64);
    }
    return files_write("counted.txt", text, 2 * (size_t)n);
}

/* Validation windows are the text in order, without overlap; the last batch is filled with -1. */
static void test_validation_windows(void **state)
{
    enum { n = 211, fifth = 42, batch = 4, block = 4 };
    (void)state;
    const data_case o = {.kind = "chars", .path = counted_text(n), .val_fraction = 0.2, .block = block};
    data_set *d = must_open(&o);
    int32_t inputs[batch * block], targets[batch * block], next = n - fifth;
    assert_int_equal(data_about(d)->units[DATA_VAL], fifth);
    assert_int_equal(data_about(d)->units[DATA_TRAIN], n - fifth);
    assert_int_equal(batches_in(d, DATA_VAL, batch), 3); /* 10 windows of 4 have targets */
    for (int64_t i = 0; i < 3; i++) {
        must_fill(d, DATA_VAL, i, batch, inputs, targets);
        for (int k = 0; k < batch * block; k++) {
            const bool there = i * batch * block + k < 40;
            assert_int_equal(inputs[k], there ? next : 0);
            assert_int_equal(targets[k], there ? next + 1 : -1);
            next += there;
        }
    }
    data_close(d);
}

/* Training windows of a text: targets are inputs shifted by one, every place is reached, none outside of the part. */
static void test_training_windows(void **state)
{
    enum { n = 60, batch = 8, block = 5, places = n - block };
    int seen[places] = {0};
    (void)state;
    const data_case o = {.kind = "chars", .path = counted_text(n), .seed = 3, .block = block};
    data_set *d = must_open(&o);
    int32_t inputs[batch * block], targets[batch * block];
    for (int64_t i = 0; i < 400; i++) {
        must_fill(d, DATA_TRAIN, i, batch, inputs, targets);
        for (int b = 0; b < batch; b++) {
            const int first = inputs[b * block];
            assert_in_range(first, 0, places - 1);
            seen[first]++;
            for (int k = 0; k < block; k++) {
                assert_int_equal(inputs[b * block + k], first + k);
                assert_int_equal(targets[b * block + k], first + k + 1);
            }
        }
    }
    /* 3200 draws among 55 places: 58 each, deviation 7.6; below 20 or above 96 is five deviations off */
    for (int i = 0; i < places; i++)
        assert_in_range(seen[i], 20, 96);
    data_close(d);
}

/* A batch is a function of its arguments: asked again, in another order, from another data set of the same seed, or
 * as rows of a batch of another size, it is the same; another seed gives another. */
static void test_determinism(void **state)
{
    enum { batch = 4, block = 8, size = batch * block };
    (void)state;
    data_case o = {.kind = "chars", .path = counted_text(250), .seed = 5, .block = block};
    data_set *a = must_open(&o), *b = must_open(&o);
    o.seed = 6;
    data_set *c = must_open(&o);
    int32_t x[3][size], y[size], t[size], u[size], all[3 * size], all_targets[3 * size];
    for (int64_t i = 2; i >= 0; i--)
        must_fill(a, DATA_TRAIN, i, batch, x[i], t);
    for (int64_t i = 0; i < 3; i++) {
        must_fill(b, DATA_TRAIN, i, batch, y, u);
        assert_memory_equal(x[i], y, sizeof y);
    }
    must_fill(b, DATA_TRAIN, 0, 3 * batch, all, all_targets);
    assert_memory_equal(all, x, sizeof all);
    must_fill(c, DATA_TRAIN, 0, batch, y, u);
    assert_memory_not_equal(x[0], y, sizeof y);
    data_close(a);
    data_close(b);
    data_close(c);
}

/* ---- Every kind ---------------------------------------------------------------------------------------- */

static void test_paths(void **state)
{
    (void)state;
    char long_path[250] = "/a";
    for (size_t i = 2; i + 1 < sizeof long_path; i++)
        long_path[i] = i % 30 == 0 ? '/' : 'a';
    data_case o = {.kind = "chars", .path = files_path("missing.txt")};
    must_refuse(&o, "missing.txt", "No such file", NULL);
    o.path = long_path; /* what is wrong is not cut off */
    must_refuse(&o, "aaaa: cannot open", NULL);
    o.path = files_write("empty.txt", "", 0);
    must_refuse(&o, "empty.txt", "empty", NULL);
    files_text("plain/.file.txt", "x");
    o.path = files_path("plain");
    must_refuse(&o, "plain", "a folder without texts", NULL);
    o.kind = "auto";
    must_refuse(&o, "plain", "folder", NULL);
    o.kind = "parquet";
    must_refuse(&o, "parquet", NULL);
    o = (data_case){.kind = "chars", .path = files_text("half.txt", "half"), .val_fraction = 1.5};
    must_refuse(&o, "val_fraction", NULL);
    data_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_many_symbols),
        cmocka_unit_test(test_vocabulary_alone),
        cmocka_unit_test(test_vocabulary_errors),
        cmocka_unit_test(test_validation_windows),
        cmocka_unit_test(test_training_windows),
        cmocka_unit_test(test_determinism),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
