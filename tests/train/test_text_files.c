/* Texts as files: packed or not, in what encoding, in folders, with a text of their own for validation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "data_files.h"

static const char sample[] = "Gr\xc3\xb6\xc3\x9f"
                             "e\nzwei\n\xf0\x9f\x99\x82 drei\n";

/* All of a part that is read in order, decoded. */
static const char *text_of(const data_set *d, data_part part)
{
    static char text[4096];
    const int64_t n = batches_in(d, part, 1);
    size_t at = 0;
    int32_t token = -1, target = -1;
    text[0] = '\0';
    for (int64_t i = 0; i <= n && at + 8 < sizeof text; i++) {
        if (i < n)
            must_fill(d, part, i, 1, &token, &target);
        at += (size_t)decode_token(d, i < n ? token : target, text + at);
    }
    return text;
}

static void must_read(const char *path, const char *text)
{
    const data_case o = {.path = path, .val_fraction = 1};
    data_set *d = must_open(&o);
    assert_string_equal(data_about(d)->kind, "text");
    assert_string_equal(text_of(d, DATA_VAL), text);
    data_close(d);
}

static size_t zstd(uint8_t *to, size_t room, const char *text)
{
    const size_t n = ZSTD_compress(to, room, text, strlen(text), 3);
    assert_false(ZSTD_isError(n));
    return n;
}

/* Packing a file makes no difference, whatever its name; several frames are one text. */
static void test_packed(void **state)
{
    uint8_t packed[512];
    (void)state;
    must_read(files_text("plain.txt", sample), sample);
    must_read(files_write_gz("a.gz", sample, sizeof sample - 1), sample);
    must_read(files_write_gz("packed.txt", sample, sizeof sample - 1), sample);
    size_t n = zstd(packed, sizeof packed, "ab");
    n += zstd(packed + n, sizeof packed - n, "cab\n");
    must_read(files_write("a.zst", packed, n), "abcab\n");
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        data_set *d = must_open(&(data_case){.path = files_path(i == 0 ? "plain.txt" : "a.gz")});
        hash[i] = data_about(d)->hash;
        data_close(d);
    }
    assert_true(hash[0] == hash[1] && hash[0] != 0);
}

/* Longer than any buffer, and hardly anything when packed: nothing is lost at the borders of buffers, nor refused if
 * the text ends at one. */
static void test_long_packed(void **state)
{
    enum { length = 5 << 20, rest = 7 };
    char *text = malloc(length + rest);
    uint8_t *packed = malloc(length);
    (void)state;
    assert_non_null(text);
    assert_non_null(packed);
    for (int i = 0; i < length + rest; i++)
        text[i] = (char)('a' + i % 7);
    for (int i = 0; i < 4; i++) {
        const size_t bytes = length + (i < 2 ? rest : 0), n = ZSTD_compress(packed, length, text, bytes, 3);
        assert_false(ZSTD_isError(n));
        const char *path = i % 2 == 0 ? files_write("long.zst", packed, n) : files_write_gz("long.gz", text, bytes);
        data_set *d = must_open(&(data_case){.path = path, .val_fraction = 1});
        int32_t token, target;
        assert_int_equal(data_about(d)->units[DATA_VAL], bytes);
        for (int64_t k = 0; k < length - 1; k += 104729) {
            must_fill(d, DATA_VAL, k, 1, &token, &target);
            assert_int_equal(token, k % 7);
        }
        data_close(d);
    }
    free(text);
    free(packed);
}

/* A packed file that is cut off or changed is refused and not read as bytes. */
static void test_damaged(void **state)
{
    uint8_t packed[512];
    (void)state;
    files_write_gz("whole.gz", sample, sizeof sample - 1);
    const size_t gz = files_read("whole.gz", packed, sizeof packed);
    for (size_t n = 4; n < gz; n++)
        must_refuse(&(data_case){.path = files_write("cut.gz", packed, n)}, "cut.gz", "cut off or damaged", NULL);
    packed[gz - 6] ^= 1; /* in the checksum */
    must_refuse(&(data_case){.path = files_write("cut.gz", packed, gz)}, "cut.gz", "damaged", NULL);
    const size_t z = zstd(packed, sizeof packed, sample);
    for (size_t n = 4; n < z; n++)
        must_refuse(&(data_case){.path = files_write("cut.zst", packed, n)}, "cut.zst", "zstd", NULL);
    must_refuse(&(data_case){.path = files_write_gz("empty.gz", "", 0)}, "empty.gz", "empty", NULL);
}

/* UTF-16 by its mark; a UTF-8 mark is no character, unless a model learned it as one. */
static void test_marks(void **state)
{
    static const char little[] = "\xff\xfeG\0\xf6\0\x3d\xd8\x42\xde\n\0",
                      big[] = "\xfe\xff\0G\0\xf6\xd8\x3d\xde\x42\0\n";
    (void)state;
    must_read(files_write("little.txt", little, sizeof little - 1), "G\xc3\xb6\xf0\x9f\x99\x82\n");
    must_read(files_write("big.txt", big, sizeof big - 1), "G\xc3\xb6\xf0\x9f\x99\x82\n");
    must_read(files_text("mark.txt", "\xef\xbb\xbf"
                                     "ab\n"),
              "ab\n");
    data_set *d =
        must_open(&(data_case){.path = files_path("mark.txt"), .val_fraction = 1, .vocabulary = "\nab\xef\xbb\xbf"});
    assert_string_equal(text_of(d, DATA_VAL), "\xef\xbb\xbf"
                                              "ab\n");
    data_close(d);
    /* what is not what its mark says, and UTF-32, is bytes */
    static const char odd[] = "\xff\xfeG\0x", lone[] = "\xff\xfe\x3d\xd8G\0", utf32[] = "\xff\xfe\0\0G\0\0\0";
    const char *const others[] = {files_write("odd", odd, sizeof odd - 1), files_write("lone", lone, sizeof lone - 1),
                                  files_write("utf32", utf32, sizeof utf32 - 1)};
    for (int i = 0; i < 3; i++) {
        d = must_open(&(data_case){.path = others[i]});
        assert_non_null(strstr(data_about(d)->description, "bytes"));
        assert_non_null(strstr(data_about(d)->note, "not UTF-8 (line 1, byte 1): taken as bytes"));
        data_close(d);
    }
}

/* That a text is taken as bytes is said, with the place. */
static void test_bytes_are_told(void **state)
{
    (void)state;
    data_set *d = must_open(&(data_case){.path = files_text("latin.txt", "eins\nGr\xf6\xdf"
                                                                         "e\n")});
    assert_non_null(strstr(data_about(d)->note, "latin.txt is not UTF-8 (line 2, byte 8): taken as bytes"));
    data_close(d);
    d = must_open(&(data_case){.path = files_text("one.txt", "aaaa")});
    assert_non_null(strstr(data_about(d)->description, "4 characters of 1 kind, the last 0"));
    assert_string_equal(data_about(d)->note, "");
    data_close(d);
}

/* A folder is its texts in the order of their paths, but what is for validation. */
static void test_folders(void **state)
{
    (void)state;
    files_text("corpus/b.txt", "bb\n");
    files_text("corpus/a.txt", "aa\n");
    files_write_gz("corpus/c/d.txt.gz", "dd\n", 3);
    files_text("corpus/.hidden", "hh\n");
    files_write("corpus/picture.png", "\x89PNG\0\0", 6);
    assert_int_equal(symlink(".", files_path("corpus/loop")), 0);
    must_read(files_path("corpus"), "aa\nbb\ndd\n");
    must_read(files_path("corpus/"), "aa\nbb\ndd\n");
    data_set *d = must_open(
        &(data_case){.path = files_path("corpus"), .val = files_path("corpus/b.txt"), .vocabulary = "\nabd"});
    assert_int_equal(data_about(d)->units[DATA_TRAIN], 6);
    assert_int_equal(data_about(d)->units[DATA_VAL], 3);
    assert_non_null(strstr(data_about(d)->description, "2 texts, 6 characters of 4 kinds"));
    assert_non_null(strstr(data_about(d)->note, "left out: 1 file that is no text"));
    data_close(d);
    files_text("corpus/b.txt", "b\xff\n");
    d = must_open(&(data_case){.path = files_path("corpus")});
    assert_non_null(strstr(data_about(d)->note, "b.txt is not UTF-8 (line 1, byte 2)"));
    data_close(d);
    files_write("pictures/picture.png", "\x89PNG\0\0", 6);
    must_refuse(&(data_case){.path = files_path("pictures")}, "pictures", "without texts", NULL);
}

/* A note tells of lines that are JSON objects in a file of another name, which is learned as it is. */
static void test_unnamed_json_lines(void **state)
{
    static const char one[] = "looks like JSON Lines: learned as it is; named *.jsonl, its records would be read";
    static const struct {
        const char *name, *text;
        bool told;
    } cases[] = {{"a.txt", "{\"text\": \"a {b}\"}\n{\"text\": \"c\"}\n", true},
                 {"a.txt", "{\"text\": \"a\"}\n{\"text\": \"c\"", false}, /* cut off */
                 {"a.txt", "{\"text\": \"a\"}\n{\"text\": \"c\"}", true},
                 {"a.txt", "{\"text\": \"a\"}\nand more\n", false},
                 {"a.txt", "{\n  \"text\": \"a\"\n}\n", false}, /* JSON of several lines */
                 {"a.txt", "{x}\n{y}\n", false},
                 {"a.txt", "[1]\n[2]\n", false},
                 {"a.jsonl.part", "[1]\n", false},
                 {"a.json", "[1]\n", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = files_text(cases[i].name, cases[i].text);
        data_set *d = must_open(&(data_case){.path = path});
        assert_string_equal(data_about(d)->note, cases[i].told ? one : "");
        data_close(d);
        must_read(path, cases[i].text);
    }
    files_text("lines/a", "{\"a\":1}\n{}\n");
    files_text("lines/b.txt", "plain\n");
    files_text("lines/c", "{}\n{}\n");
    data_set *d = must_open(&(data_case){.path = files_path("lines")});
    assert_string_equal(data_about(d)->note,
                        "2 of 3 texts look like JSON Lines, but are not named *.jsonl: learned as they are");
    data_close(d);
}

/* Opens a text with field=NAME, or must fail with a sentence that has these words. */
static data_set *open_field(const char *path, const char *pair, const char *words)
{
    const char *const pairs[] = {pair, "val_fraction=0.9", "block=1", NULL};
    data_set *d = NULL;
    scion_error err = {0};
    const scion_status status = open_pairs(&d, path, &(data_context){.whole = true}, pairs, &err);
    assert_true((status == SCION_OK) == (words == NULL));
    if (words && !strstr(err.message, words))
        fail_msg("%s", err.message);
    return d;
}

/* A file named *.jsonl is its records' texts, a line break after each that has none; other files are not. */
static void test_json_lines(void **state)
{
    static const char records[] = "{\"text\": \"Gr\\u00f6\\u00dfe\", \"id\": 1}\r\n\n \t\n"
                                  "{\"id\": 2, \"text\": \"zwei\\n\"}\n{\"text\": \"\"}\n{\"text\": \"d\\u0000 {}\"}";
    static const char texts[] = "Gr\xc3\xb6\xc3\x9f"
                                "e\nzwei\nd\0 {}\n";
    uint8_t packed[512];
    (void)state;
    const char *const paths[] = {files_text("r.jsonl", records), files_text("r.v1.NDJSON", records),
                                 files_write_gz("r.jsonl.gz", records, sizeof records - 1),
                                 files_write("r.ndjson.zst", packed, zstd(packed, sizeof packed, records))};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        data_set *d = open_field(paths[i], "field=text", NULL);
        assert_memory_equal(text_of(d, DATA_VAL), texts, sizeof texts - 1);
        assert_non_null(strstr(data_about(d)->description, " 3 documents, "));
        assert_string_equal(data_about(d)->note, "");
        data_close(d);
    }
    files_text("mixed/a.txt", "plain\n");
    files_text("mixed/b.jsonl", "{\"body\": \"x\"}\n{\"body\": \"y\"}\n");
    data_set *d = open_field(files_path("mixed"), "field=body", NULL);
    assert_string_equal(text_of(d, DATA_VAL), "plain\nx\ny\n");
    data_close(d);
    d = open_field(files_path("mixed/b.jsonl"), "field=", NULL);
    assert_string_equal(text_of(d, DATA_VAL), "{\"body\": \"x\"}\n{\"body\": \"y\"}\n");
    data_close(d);
}

/* A record that cannot be read is named by its line, as is a place in the text of one. */
static void test_json_line_errors(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {{"{\"text\": \"a\"}\n{\"text\": \"b\n", "r.jsonl: line 2 is no record of JSON Lines: "},
                 {"{\"text\": \"a\"} x\n", "line 1 is no record"},
                 {"{\"text\": \"a\xff\"}\n", "line 1 is no record"},
                 {"\n\n[1]\n", "line 3 is JSON, but not an object"},
                 {"{\"text\": \"a\"}\n{\"body\": \"b\"}\n", "line 2 has no field \"text\"; field=NAME reads another"},
                 {"{\"text\": 3}\n", "line 1: the field \"text\" is not a string"},
                 {"{\"text\": \"\"}\n", "r.jsonl: the text is empty"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_null(open_field(files_text("r.jsonl", cases[i].text), "field=text", cases[i].words));
    const char *path = files_text("r.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n{\"text\": \"\\n\\nc\"}\n");
    const char *const pairs[] = {"field=text", NULL};
    scion_error err = {0};
    data_set *d;
    assert_int_not_equal(open_pairs(&d, path, &(data_context){.vocabulary = {"chars", "\nab", 3}}, pairs, &err),
                         SCION_OK);
    assert_non_null(strstr(err.message, "r.jsonl: line 4: the character \"c\""));
}

/* val_data: training on all of the one text, validation on all of the other. */
static void test_val_data(void **state)
{
    (void)state;
    data_case o = {
        .path = files_text("train.txt", "abcabc"), .val = files_text("val.txt", "cab"), .val_fraction = 0.5};
    data_set *d = must_open(&o);
    assert_int_equal(data_about(d)->units[DATA_TRAIN], 6);
    assert_string_equal(text_of(d, DATA_VAL), "cab");
    assert_string_equal(vocabulary_of(d), "abc");
    data_close(d);
    o.val = files_text("val.txt", "ca\nxb");
    must_refuse(&o, "val.txt", "line 1: ", "U+000A", "not in the vocabulary", "skip_unknown=yes", NULL);
    o.val = files_text("val.txt", "ca\xff");
    must_refuse(&o, "val.txt", "line 1: the byte 0xFF is not UTF-8", NULL);
    o.val = files_path("absent.txt");
    must_refuse(&o, "absent.txt", "No such file", NULL);
    idx_folder("idx", 4, 2, 2, 2, 2, 0);
    must_refuse(&(data_case){.path = files_path("idx"), .val = files_path("train.txt")}, "val_data", "idx", NULL);
}

/* A model of characters is not given token shards. */
static void test_kinds(void **state)
{
    uint8_t shard[SHARD_HEAD + 40];
    const char *path = files_write("sh.bin", shard, shard_bytes(shard, 20, 0, 200));
    static const char bytes[] = "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbe\x01\x02";
    (void)state;
    must_refuse(&(data_case){.path = path, .vocabulary = bytes}, "sh.bin", "token shards", "learned from a text",
                NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),           cmocka_unit_test(test_long_packed),
        cmocka_unit_test(test_damaged),          cmocka_unit_test(test_marks),
        cmocka_unit_test(test_bytes_are_told),   cmocka_unit_test(test_folders),
        cmocka_unit_test(test_val_data),         cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_json_lines),       cmocka_unit_test(test_unnamed_json_lines),
        cmocka_unit_test(test_json_line_errors),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
