/* Texts with tokenizers: documents and separators, the cache, tokenizers of models and beside shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/shard_file.h"
#include "data/token_cache.h"
#include "data_files.h"
#include "record/run_tokenizer.h"
#include "text/tokenizer_row.h"

enum { most = 1 << 16 };

static const char words[] =
    "the quick brown fox jumps over the lazy dog, and the dog does not mind; it's 10 o'clock. ";

/* A BPE that learned from `words`, saved as a file of this name. */
static tokenizer *learn_bpe(const char *name, int64_t vocab)
{
    const tokenizer_text text = {words, sizeof words - 1};
    tokenizer *t;
    void *bytes;
    size_t size;
    scion_error err = {0};
    assert_int_equal(tokenizer_learn(&t, "bpe", &text, 1, &(tokenizer_options){.vocab = vocab}, &err), SCION_OK);
    assert_int_equal(tokenizer_save(t, &bytes, &size, &err), SCION_OK);
    files_write(name, bytes, size);
    free(bytes);
    return t;
}

static data_set *open_text(const char *path, const char *tokenizer_name, const char *more, const char *refusal)
{
    char named[FILES_PATH + 16];
    snprintf(named, sizeof named, "tokenizer=%s", tokenizer_name);
    const char *const pairs[] = {named, "block=1", more, NULL};
    const data_context context = {.whole = true, .open_tokenizer = run_tokenizer_open};
    data_set *d = NULL;
    scion_error err = {0};
    const scion_status status = open_pairs(&d, path, &context, pairs, &err);
    if ((status == SCION_OK) != !refusal || (refusal && !strstr(err.message, refusal)))
        fail_msg("%s, expected %s", err.message, refusal ? refusal : "none");
    return d;
}

static int64_t tokens_of(const data_set *d, int32_t tokens[most])
{
    const int64_t n = batches_in(d, DATA_VAL, 1);
    int32_t target = -1;
    for (int64_t i = 0; i < n; i++)
        must_fill(d, DATA_VAL, i, 1, tokens + i, &target);
    tokens[n] = target;
    return n + 1;
}

static int64_t append(const tokenizer *t, const char *text, int32_t *tokens)
{
    size_t bad;
    scion_error err = {0};
    tokens[0] = tokenizer_separator(t);
    return 1 + tokenizer_encode(t, text, strlen(text), tokens + 1, &bad, &err);
}

/* The tokens of a folder: before each file and record the separator, which stands for no byte of the text. */
static void test_documents(void **state)
{
    static int32_t tokens[most], expected[most];
    (void)state;
    tokenizer *t = learn_bpe("bpe/tokenizer.json", 300);
    files_text("folder/a.txt", "the dog\n");
    files_text("folder/b.jsonl", "{\"text\": \"quick fox\"}\n{\"text\": \"it's\\n\"}\n");
    files_text("folder/c.txt", words);
    data_set *d = open_text(files_path("folder"), files_path("bpe/tokenizer.json"), "token_cache=no", NULL);
    int64_t n = append(t, "the dog\n", expected);
    n += append(t, "quick fox", expected + n);
    n += append(t, "it's\n", expected + n);
    n += append(t, words, expected + n);
    assert_int_equal(tokens_of(d, tokens), n);
    assert_memory_equal(tokens, expected, (size_t)n * sizeof *tokens);
    assert_int_equal(data_raw_bytes(data_about(d), tokens, n), 8 + 9 + 5 + sizeof words - 1);
    assert_int_equal(range_of(d), tokenizer_size(t));
    assert_true(tokenizer_hash(data_about(d)->tokenizer) == tokenizer_hash(t));
    data_close(d);
    d = open_text(files_path("folder"), "bytes", NULL, NULL); /* no separator, but a line break behind each record */
    assert_int_equal(tokens_of(d, tokens), 8 + 10 + 5 + sizeof words - 1);
    assert_int_equal(tokens[8], 'q');
    assert_int_equal(tokens[17], '\n');
    data_close(d);
    tokenizer_free(t);
    open_text(files_path("folder"), files_path("none.json"), NULL, "none.json");
    open_text(files_path("folder"), files_path("bpe/tokenizer.json"), "vocab=261",
              "vocab is 261, but the data have 2");
}

/* A text is cut into pieces for several threads without a change to its tokens. */
static void test_cuts(void **state)
{
    uint64_t seed = files_seed();
    char text[2000];
    int32_t whole[2000], parts[2000];
    size_t bad, cut;
    scion_error err = {0};
    (void)state;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof text; i++) /* letters, blanks, digits, signs */
            text[i] = "aabt  h'e\n.15\xc3\xa4"[files_random(&seed) % 15];
        const tokenizer_text all[] = {{words, sizeof words - 1}, {text, sizeof text}};
        for (int k = 0; tokenizer_rows[k]; k++) {
            tokenizer *t;
            const tokenizer_options o = {.vocab = 290, .threads = 1};
            assert_int_equal(tokenizer_learn(&t, tokenizer_rows[k]->name, all, 2, &o, &err), SCION_OK);
            const int64_t n = tokenizer_encode(t, text, sizeof text, whole, &bad, &err);
            cut = tokenizer_cut(t, text, 1 + files_random(&seed) % (sizeof text - 1));
            assert_true(cut < sizeof text);
            int64_t count = tokenizer_encode(t, text, cut, parts, &bad, &err);
            count += tokenizer_encode(t, text + cut, sizeof text - cut, parts + count, &bad, &err);
            assert_int_equal(count, n);
            assert_memory_equal(parts, whole, (size_t)n * sizeof *whole);
            tokenizer_free(t);
        }
    }
}

/* Large texts of several pieces and batches have the tokens of the whole. */
static void test_large_text(void **state)
{
    enum { times = 120000 };
    (void)state;
    char *text = malloc(times * (sizeof words - 1) + 1), *end = text;
    int32_t *expected = malloc(times * sizeof words * sizeof *expected);
    assert_true(text && expected);
    for (int i = 0; i < times; i++)
        end = stpcpy(end, i % 7 == 3 ? "quick fox\n" : words);
    tokenizer *t = learn_bpe("bpe.json", 280);
    const int64_t n = append(t, text, expected);
    data_set *d = open_text(files_text("large.txt", text), files_path("bpe.json"), "token_cache=no", NULL);
    assert_int_equal(data_about(d)->units[DATA_VAL], n);
    for (int64_t i = 0; i + 1 < n; i += 997) {
        int32_t token, target;
        must_fill(d, DATA_VAL, i, 1, &token, &target);
        assert_true(token == expected[i] && target == expected[i + 1]);
    }
    data_close(d);
    tokenizer_free(t);
    free(expected);
    free(text);
}

/* A process that wants tokens that another one is making waits for them; the right ends with its process. */
static void test_claim(void **state)
{
    enum { key = 12345 };
    const uint16_t made[] = {3, 1, 4, 1, 5};
    int ready[2], go[2], status;
    void *tokens;
    int64_t count;
    char byte;
    (void)state;
    setenv("XDG_CACHE_HOME", files_path("claimed"), 1);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool taken = token_cache_claim(key) >= 0 && write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1;
        usleep(200000); /* a parent that does not wait finds nothing */
        token_cache_write(key, 2, made, 5);
        _exit(taken ? 0 : 1);
    }
    assert_true(child > 0 && read(ready[0], &byte, 1) == 1);
    assert_false(token_cache_read(key, 2, &tokens, &count));
    assert_int_equal(write(go[1], "x", 1), 1);
    const int claim = token_cache_claim(key);
    assert_true(claim >= 0);
    assert_true(token_cache_read(key, 2, &tokens, &count));
    assert_int_equal(count, 5);
    assert_memory_equal(tokens, made, sizeof made);
    free(tokens);
    token_cache_release(claim);
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
    setenv("XDG_CACHE_HOME", files_text("claimed_file", "x"), 1);
    assert_true(token_cache_claim(key) < 0);
    unsetenv("XDG_CACHE_HOME");
}

static int64_t file_bytes(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? s.st_size : -1;
}

/* Tokens come from the cache, which is made anew where it is damaged. */
static void test_cache(void **state)
{
    static int32_t first[most], again[most];
    char path[2 * FILES_PATH];
    uint8_t bytes[4096];
    (void)state;
    setenv("XDG_CACHE_HOME", files_path("cache"), 1);
    tokenizer *t = learn_bpe("bpe.json", 280);
    const char *text = files_text("cached.txt", words), *name = files_path("bpe.json");
    data_texts texts;
    scion_error err = {0};
    assert_int_equal(data_read_texts(&texts, text, &(data_reading){.field = "text"}, &err), SCION_OK);
    snprintf(path, sizeof path, "%s/scion/tokens/%016llx.bin", files_path("cache"),
             (unsigned long long)token_cache_key(&texts, t));
    data_close(open_text(text, name, "token_cache=no", NULL));
    assert_int_equal(file_bytes(path), -1);
    data_set *d = open_text(text, name, NULL, NULL);
    const int64_t n = tokens_of(d, first), size = SHARD_HEAD + 2 * n;
    data_close(d);
    assert_int_equal(file_bytes(path), size);
    for (int64_t at = -1; at < size; at += at < 60 ? 1 : 37) { /* a cut and changes of bytes: all are noticed */
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        if (at < 0)
            assert_int_equal(ftruncate(fileno(f), size - 2), 0);
        else
            assert_true(fseek(f, at, SEEK_SET) == 0 && fputc('\xa5', f) != EOF);
        fclose(f);
        d = open_text(text, name, NULL, NULL);
        assert_int_equal(tokens_of(d, again), n);
        assert_memory_equal(first, again, (size_t)n * sizeof *first);
        data_close(d);
        assert_int_equal(file_bytes(path), size);
    }
    /* what it holds is what is taken */
    void *tokens;
    int64_t count;
    assert_true(token_cache_read(token_cache_key(&texts, t), 2, &tokens, &count));
    assert_int_equal(count, n);
    memset(tokens, 0, (size_t)n * 2);
    token_cache_write(token_cache_key(&texts, t), 2, tokens, n);
    free(tokens);
    d = open_text(text, name, NULL, NULL);
    tokens_of(d, again);
    assert_int_equal(again[0] + again[n - 1], 0);
    data_close(d);
    /* a folder that cannot be written is no error */
    setenv("XDG_CACHE_HOME", files_text("no_folder", "x"), 1);
    data_close(open_text(text, name, NULL, NULL));
    unsetenv("XDG_CACHE_HOME");
    assert_true(files_read("cached.txt", bytes, sizeof bytes) == sizeof words - 1);
    data_free_texts(&texts);
    tokenizer_free(t);
}

/* The tokenizer beside shards is the set's; a model takes shards of its own tokenizer, and no others. */
static void test_beside_shards(void **state)
{
    uint8_t bytes[SHARD_HEAD + 2 * 20];
    void *saved;
    data_context context = {.open_tokenizer = run_tokenizer_open};
    const char *const pairs[] = {"block=2", NULL};
    scion_error err = {0};
    data_set *d;
    (void)state;
    tokenizer *t = learn_bpe("shards/tokenizer.json", 264), *other = learn_bpe("other.json", 262);
    files_write("shards/a.bin", bytes, shard_bytes(bytes, 20, 0, 260));
    const char *path = files_path("shards"), *alone = files_write("alone.bin", bytes, SHARD_HEAD + 2 * 20);
    assert_int_equal(open_pairs(&d, path, &context, pairs, &err), SCION_OK);
    assert_int_equal(range_of(d), tokenizer_size(t));
    assert_true(tokenizer_hash(data_about(d)->tokenizer) == tokenizer_hash(t));
    assert_int_equal(data_about(d)->token_bytes[tokenizer_separator(t)], 0);
    data_close(d);
    context.kind = "text";
    context.vocabulary.kind = "bpe";
    assert_int_equal(tokenizer_save(t, &saved, &context.vocabulary.size, &err), SCION_OK);
    context.vocabulary.bytes = saved;
    assert_int_equal(open_pairs(&d, path, &context, pairs, &err), SCION_OK);
    data_close(d);
    assert_int_not_equal(open_pairs(&d, alone, &context, pairs, &err), SCION_OK);
    assert_non_null(strstr(err.message, "alone.bin: token shards without their tokenizer"));
    context.kind = "tokens";
    assert_int_equal(open_pairs(&d, alone, &context, pairs, &err), SCION_OK);
    data_close(d);
    free(saved);
    assert_int_equal(tokenizer_save(other, &saved, &context.vocabulary.size, &err), SCION_OK);
    context.vocabulary.bytes = saved;
    assert_int_not_equal(open_pairs(&d, path, &context, pairs, &err), SCION_OK);
    assert_non_null(strstr(err.message, "shards/a.bin: token shards of another tokenizer than the model's"));
    context = (data_context){.open_tokenizer = run_tokenizer_open};
    files_text("shards/tokenizer.json", "{");
    assert_int_not_equal(open_pairs(&d, path, &context, pairs, &err), SCION_OK);
    assert_non_null(strstr(err.message, "shards/tokenizer.json: "));
    free(saved);
    tokenizer_free(t);
    tokenizer_free(other);
}

/* Byte pairs that a run learns are those of its training part: validation changes nothing. */
static void test_learned(void **state)
{
    (void)state;
    char text[8 * (sizeof words - 1) + 1] = "", other[sizeof text];
    for (int i = 0; i < 8; i++)
        strcat(text, words);
    const size_t half = strlen(text) / 2;
    strcpy(other, text);
    memset(other + half, 'z', half);
    files_text("learn/a.txt", text);
    files_text("learn/b.txt", other);
    tokenizer *t;
    scion_error err = {0};
    assert_int_equal(
        tokenizer_learn(&t, "bpe", &(tokenizer_text){text, half}, 1, &(tokenizer_options){.vocab = 280}, &err),
        SCION_OK);
    for (int i = 0; i < 2; i++) {
        const char *const pairs[] = {"tokenizer=bpe", "vocab=280", "val_fraction=0.5", "block=2", NULL};
        data_set *d = NULL;
        assert_int_equal(
            open_pairs(&d, files_path(i ? "learn/b.txt" : "learn/a.txt"), &(data_context){.seed = 1}, pairs, &err),
            SCION_OK);
        assert_int_equal(tokenizer_hash(data_about(d)->tokenizer), tokenizer_hash(t));
        data_close(d);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learned),       cmocka_unit_test(test_documents), cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_large_text),    cmocka_unit_test(test_cache),     cmocka_unit_test(test_claim),
        cmocka_unit_test(test_beside_shards),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
