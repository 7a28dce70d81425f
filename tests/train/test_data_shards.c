/* Token shards: windows run through all files in order, over their borders; validation is apart; errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "data_files.h"

/* Shards with 7, 1, 20 and 12 tokens that count on, and one of 9 for validation. */
static void write_shards(void)
{
    static const struct {
        const char *name;
        int32_t count, first;
    } shards[] = {{"shards/x_train_000000.bin", 7, 0},
                  {"shards/x_train_000001.bin", 1, 7},
                  {"shards/x_train_000002.bin", 20, 8},
                  {"shards/x_train_000010.bin", 12, 28},
                  {"shards/x_val_000000.bin", 9, 100}};
    uint8_t bytes[SHARD_HEAD + 2 * 20];
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        files_write(shards[i].name, bytes, shard_bytes(bytes, shards[i].count, shards[i].first, 1000));
}

/* Training runs through the files in order, over their borders, once in an epoch, and starts again. */
static void must_count_on(const data_set *d, int64_t batch, int64_t block)
{
    enum { total = 40 };
    int32_t inputs[total], targets[total];
    const int64_t windows = (total - 1) / block;
    assert_int_equal(data_about(d)->units[DATA_TRAIN], total);
    assert_int_equal(data_about(d)->units[DATA_VAL], 9);
    assert_int_equal(batches_in(d, DATA_TRAIN, batch), (windows + batch - 1) / batch);
    for (int64_t i = 0; i < 3 * windows; i++) {
        must_fill(d, DATA_TRAIN, i, batch, inputs, targets);
        for (int64_t k = 0; k < batch * block; k++) {
            const int64_t place = (i * batch + k / block) % windows * block + k % block;
            assert_int_equal(inputs[k], place);
            assert_int_equal(targets[k], place + 1);
        }
    }
    assert_int_equal(batches_in(d, DATA_VAL, 1), 8 / block);
    if (block > 8)
        return;
    must_fill(d, DATA_VAL, 0, 1, inputs, targets);
    for (int k = 0; k < block; k++)
        assert_int_equal(targets[k] - 1, inputs[k]);
    assert_int_equal(inputs[0], 100);
}

static void test_shards(void **state)
{
    (void)state;
    write_shards();
    const char *folder = files_path("shards"), *val = files_path("shards/x_val_*.bin");
    const data_case ways[] = {{.kind = "tokens", .path = folder},
                              {.kind = "auto", .path = folder},
                              {.kind = "auto", .path = files_path("shards/*")},
                              {.kind = "auto", .path = files_path("shards/x_train_*.bin"), .val = val},
                              {.kind = "tokens", .path = folder, .val = val, .vocab = 109}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (int64_t block = 1; block <= 13; block++) {
            data_case way = ways[i];
            way.block = block;
            data_set *d = must_open(&way);
            assert_int_equal(range_of(d), way.vocab ? way.vocab : 50304);
            assert_null(data_about(d)->tokenizer);
            must_count_on(d, 1 + block % 3, block);
            data_close(d);
        }
    }
}

static void test_shard_errors(void **state)
{
    uint8_t bytes[SHARD_HEAD + 2 * 20];
    (void)state;
    write_shards();
    data_case o = {.kind = "tokens", .path = files_path("shards"), .vocab = 108};
    must_refuse(&o, "x_val_000000.bin", "token 108", "only 108", NULL);
    o.path = files_path("nothing_*.bin");
    must_refuse(&o, "nothing_*.bin", "no such file", NULL);
    o = (data_case){.kind = "tokens", .path = files_path("shards/x_val_000000.bin")};
    must_refuse(&o, "x_val_000000.bin", "all shards are for validation", NULL);
    o.val = files_path("none");
    must_refuse(&o, "none", "no such file", NULL);
    o = (data_case){.kind = "chars", .path = files_path("shards/*.bin")}; /* a preset of text says so */
    must_refuse(&o, "shards/*.bin", "a pattern means token shards of llm.c", "say data_kind=tokens",
                "(text takes one file or folder)", NULL);
    o.path = files_path("shards/x_val_000000.bin");
    must_refuse(&o, "x_val_000000.bin", "token shards of llm.c", "say data_kind=tokens",
                "(data_kind=text wants a text)", NULL);
    o = (data_case){.kind = "tokens"};
    size_t n = shard_bytes(bytes, 20, 0, 1000);
    bytes[4] = 2;
    o.path = files_write("[odd]*.bin", bytes, n);
    must_refuse(&o, "[odd]*.bin", "version 2", NULL);
    bytes[4] = 1;
    bytes[8] = 21;
    o.path = files_write("[odd]*.bin", bytes, n);
    must_refuse(&o, "[odd]*.bin", "1064 bytes", "21 tokens", "1066", NULL);
    memset(bytes + 8, 0, 4);
    o.path = files_write("[odd]*.bin", bytes, SHARD_HEAD);
    must_refuse(&o, "[odd]*.bin", "0 tokens", NULL);
    bytes[11] = 0x80;
    o.path = files_write("[odd]*.bin", bytes, n);
    must_refuse(&o, "[odd]*.bin", "-2147483648 tokens", NULL);
    o.path = files_write("[odd]*.bin", bytes, (size_t)shard_bytes(bytes, 20, 0, 1000));
    data_close(must_open(&o)); /* the name is no pattern, for there is such a file */
}

/* A shard that is cut off or changed after it was opened is told of when its tokens are asked for. */
static void test_shards_that_change(void **state)
{
    enum { count = 20, block = 4 };
    uint8_t bytes[SHARD_HEAD + 2 * count];
    int32_t tokens[block], targets[block];
    void *const arrays[DATA_ARRAYS] = {tokens, targets};
    scion_error err = {0};
    (void)state;
    const size_t n = shard_bytes(bytes, count, 0, 100);
    const char *path = files_write("shrinks.bin", bytes, n);
    data_set *d = must_open(&(data_case){.path = path, .vocab = 100, .block = block});
    must_fill(d, DATA_TRAIN, 3, 1, tokens, targets);
    assert_int_equal(targets[block - 1], 16);
    assert_int_equal(truncate(path, SHARD_HEAD + 20), 0);
    must_fill(d, DATA_TRAIN, 1, 1, tokens, targets); /* these are still there */
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 3, 1, arrays, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "shrinks.bin: it ends before byte "));
    bytes[SHARD_HEAD + 2 * 13] = 100; /* not in the vocabulary */
    files_write("shrinks.bin", bytes, n);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 3, 1, arrays, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "token 100"));
    data_close(d);
}

/* More shards than files that a process may open by default. */
static void test_many_shards(void **state)
{
    enum { shards = 40 };
    uint8_t bytes[SHARD_HEAD + 2];
    struct rlimit before, few;
    char name[32];
    (void)state;
    for (int i = 0; i < shards; i++) {
        snprintf(name, sizeof name, "many/%02d.bin", i);
        files_write(name, bytes, shard_bytes(bytes, 1, i, 100));
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 16;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    data_set *d = must_open(&(data_case){.path = files_path("many"), .vocab = 100});
    assert_int_equal(data_about(d)->units[DATA_TRAIN], shards);
    data_close(d);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The hash of a sparse shard of zeros, `count` tokens long, in which token `at` is `token`; 0: refused. */
static uint64_t large_hash(int32_t count, int64_t at, uint16_t token)
{
    uint8_t head[SHARD_HEAD + 2];
    data_set *d = NULL;
    scion_error err = {0};
    uint64_t hash = 0;
    shard_bytes(head, 1, 0, 100);
    memcpy(head + 8, &count, sizeof count);
    const char *path = files_write("large.bin", head, SHARD_HEAD);
    assert_int_equal(truncate(path, SHARD_HEAD + 2 * (off_t)count), 0);
    FILE *f = fopen(path, "r+b");
    assert_true(f && fseek(f, (long)(SHARD_HEAD + 2 * at), SEEK_SET) == 0 && fwrite(&token, 2, 1, f) == 1);
    fclose(f);
    if (open_case(&d, &(data_case){.path = path, .vocab = 100, .block = 4}, &err) == SCION_OK)
        hash = data_about(d)->hash;
    else
        assert_non_null(strstr(err.message, "large.bin: token "));
    data_close(d);
    return hash;
}

/* Opening reads pieces of a large shard, from its first token to its last; a token between them that is not in the
 * vocabulary is refused when it is read. */
static void test_large_shards(void **state)
{
    enum { count = 5000000, between = 600000 };
    int32_t tokens[4], targets[4];
    void *const arrays[DATA_ARRAYS] = {tokens, targets};
    scion_error err = {0};
    (void)state;
    const uint64_t zeros = large_hash(count, 0, 0);
    assert_true(zeros != 0 && zeros == large_hash(count, 0, 0));
    assert_true(large_hash(count + 1, 0, 0) != zeros);
    assert_true(large_hash(count, 0, 1) != zeros && large_hash(count, count - 1, 1) != zeros);
    assert_true(large_hash(count, 0, 100) == 0 && large_hash(count, count - 1, 100) == 0);
    assert_true(large_hash(count, between, 100) == zeros);
    data_set *d = must_open(&(data_case){.path = files_path("large.bin"), .vocab = 100, .block = 4});
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, between / 4, 1, arrays, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "large.bin: token 100 near byte "));
    data_close(d);
}

/* Shards of uint32, in a set with one of uint16; tokens at the ends of the range. */
static void test_wide_shards(void **state)
{
    enum { count = 6, vocab = 128256 };
    static const uint32_t tokens[count] = {0, 65535, 65536, vocab - 1, 1, 70000};
    const int32_t head[3] = {20240801, 7, count};
    uint8_t wide[SHARD_HEAD + 4 * count] = {0}, narrow[SHARD_HEAD + 2 * count];
    int32_t inputs[1], targets[1];
    (void)state;
    memcpy(wide, head, sizeof head);
    memcpy(wide + SHARD_HEAD, tokens, sizeof tokens);
    files_write("wide/b.bin", wide, sizeof wide);
    files_write("wide/a.bin", narrow, shard_bytes(narrow, count, 500, 1000));
    data_case o = {.path = files_path("wide")};
    data_set *d = must_open(&o);
    assert_int_equal(range_of(d), vocab);
    for (int i = 0; i + 1 < 2 * count; i++) {
        must_fill(d, DATA_TRAIN, i, 1, inputs, targets);
        assert_int_equal(inputs[0], i < count ? 500 + (uint32_t)i : tokens[i - count]);
    }
    data_close(d);
    o.vocab = vocab - 1;
    must_refuse(&o, "b.bin", "token 128255", "only 128255", NULL);
    wide[SHARD_HEAD + 3] = 0xff; /* 2^32 - 2^24 is no negative token */
    files_write("wide/b.bin", wide, sizeof wide);
    must_refuse(&o, "b.bin", "token 4278190080", NULL);
    o.path = files_write("short.bin", wide, sizeof wide - 2);
    must_refuse(&o, "short.bin", "1046 bytes", "6 tokens", "1048", NULL);
    wide[4] = 1; /* the version of the other form */
    o.path = files_write("old.bin", wide, sizeof wide);
    must_refuse(&o, "old.bin", "magic 20240801 and version 1, expected 20240801 and 7", NULL);
}

/* Ranks that hash a share of the shards each know the hash of one rank, and notice shards that only they see. */
static void test_shared_hashes(void **state)
{
    const char *const pairs[] = {"vocab=1000", "block=4", NULL};
    data_set *one, *d;
    scion_error err = {0};
    int64_t count, own;
    (void)state;
    write_shards();
    const char *path = files_path("shards");
    assert_int_equal(open_pairs(&one, path, &(data_context){.seed = 1}, pairs, &err), SCION_OK);
    const uint64_t hash = data_about(one)->hash, glance = data_about(one)->glance;
    const uint64_t *expected = data_hash_parts(one, &count);
    assert_int_equal(count, 5);
    assert_true(hash != 0 && glance != 0);
    for (int ranks = 2; ranks <= 7; ranks++)
        for (int rank = 0; rank < ranks; rank++) {
            assert_int_equal(open_pairs(&d, path, &(data_context){.rank = rank, .ranks = ranks}, pairs, &err),
                             SCION_OK);
            uint64_t *hashes = data_hash_parts(d, &own);
            assert_int_equal(own, count);
            for (int64_t i = 0; i < count; i++) {
                assert_true(hashes[i] == (i % ranks == rank ? expected[i] : 0));
                hashes[i] = expected[i];
            }
            data_join_hashes(d);
            assert_true(data_about(d)->hash == hash && data_about(d)->glance == glance);
            data_close(d);
        }
    data_close(one);
    uint8_t bytes[SHARD_HEAD + 2 * 20];
    files_write("shards/x_train_000002.bin", bytes, shard_bytes(bytes, 20, 9, 1000)); /* that of another rank */
    assert_int_equal(open_pairs(&d, path, &(data_context){.rank = 6, .ranks = 7}, pairs, &err), SCION_OK);
    assert_true(data_about(d)->glance != glance);
    data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_shard_errors),
        cmocka_unit_test(test_shards_that_change),
        cmocka_unit_test(test_many_shards),
        cmocka_unit_test(test_large_shards),
        cmocka_unit_test(test_wide_shards),
        cmocka_unit_test(test_shared_hashes),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
