/* Token shards of texts: their tokens, the parts, going on after a kill, and what is refused. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/make_shards.h"
#include "data_files.h"
#include "util/threads.h"

enum { documents = 12, shard_tokens = 1000, val_tokens = 300, most = 40000 };

/* Document i, of 100 to 1200 bytes. */
static const char *document(int i)
{
    static char text[1300];
    int n = 0;
    for (int k = 0; k < 10 + 37 * i % 110; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "word %d %c", k * i % 10, k % 7 == 0 ? '\n' : ' ');
    return text;
}

/* Documents as plain files, the last four as records of one; a file that is no text is left out. */
static void write_corpus(void)
{
    char name[40], records[8 * 1300] = "";
    for (int i = 0; i < documents; i++) {
        snprintf(name, sizeof name, "corpus/%02d.txt", i);
        if (i < documents - 4) {
            files_text(name, document(i));
            continue;
        }
        strcat(records, "{\"text\": \"");
        for (const char *c = document(i); *c; c++) {
            const char letter[2] = {*c, '\0'};
            strcat(records, *c == '\n' ? "\\n" : letter);
        }
        strcat(records, "\"}\n");
    }
    files_text("corpus/z.jsonl", records);
    files_write("corpus/zz.png", "\x89PNG\0\0", 6);
}

/* A byte pair encoding, because bytes have no separator. */
static tokenizer *learn(void)
{
    const tokenizer_text text = {"word word word", 14};
    tokenizer *t;
    scion_error err = {0};
    assert_int_equal(tokenizer_learn(&t, "bpe", &text, 1, &(tokenizer_options){.vocab = 300}, &err), SCION_OK);
    return t;
}

/* Options for the corpus, whose path is put into *input. */
static make_shards_options options_of(const tokenizer *t, const char *out, int64_t val, const char **input)
{
    *input = files_path("corpus");
    return (make_shards_options){.inputs = input,
                                 .input_count = 1,
                                 .out = files_path(out),
                                 .field = "text",
                                 .tokenizer = t,
                                 .shard_tokens = shard_tokens,
                                 .val_tokens = val};
}

static scion_status make(const tokenizer *t, const char *out, int64_t val, make_shards_result *r, scion_error *err)
{
    const char *input;
    const make_shards_options o = options_of(t, out, val, &input);
    return make_shards(&o, r, err);
}

/* Tokens of shard i, if it is one of this part; -1: there is none. */
static int64_t read_shard(const char *out, const char *part, int i, uint16_t *tokens)
{
    static uint8_t bytes[SHARD_HEAD + 2 * shard_tokens + 2];
    char name[80];
    int32_t head[3];
    snprintf(name, sizeof name, "%s/tokens_%s_%06d.bin", out, part, i);
    if (access(files_path(name), F_OK) != 0)
        return -1;
    const size_t n = files_read(name, bytes, sizeof bytes);
    memcpy(head, bytes, sizeof head);
    assert_true(head[0] == 20240520 && head[1] == 1);
    assert_int_equal(n, SHARD_HEAD + 2 * (size_t)head[2]);
    memcpy(tokens, bytes + SHARD_HEAD, 2 * (size_t)head[2]);
    return head[2];
}

/* All shards in order are all documents in order, a separator before each. */
static void test_tokens(void **state)
{
    static int32_t expected[most];
    static uint16_t found[most];
    int64_t n = 0, count = 0, train = 0, val = 0, border = 0;
    make_shards_result r;
    size_t bad;
    scion_error err = {0};
    (void)state;
    write_corpus();
    tokenizer *t = learn();
    assert_int_equal(make(t, "out", val_tokens, &r, &err), SCION_OK);
    for (int i = 0; i < documents; i++) {
        if (border == 0 && n >= val_tokens)
            border = n;
        expected[n++] = tokenizer_separator(t);
        n += tokenizer_encode(t, document(i), strlen(document(i)), expected + n, &bad, &err);
    }
    for (int i = 0; i < r.shards; i++) {
        int64_t got = read_shard("out", "val", i, found + count);
        val += got > 0 ? got : 0;
        if (got < 0) {
            got = read_shard("out", "train", i, found + count);
            assert_true(got == shard_tokens || i == r.shards - 1);
            train += got;
        }
        count += got;
    }
    assert_int_equal(count, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(found[i], expected[i]);
    assert_int_equal(val, border); /* whole documents */
    assert_true(r.tokens[DATA_TRAIN] == train && r.tokens[DATA_VAL] == val && r.others == 1 && r.found == 0);
    assert_int_equal(make(t, "out", val_tokens, &r, &err), SCION_OK); /* again: nothing is left to do */
    assert_true(r.found == r.shards && r.tokens[DATA_TRAIN] == train);
    assert_int_equal(make(t, "all", 0, &r, &err), SCION_OK);
    assert_true(r.tokens[DATA_TRAIN] == n && r.tokens[DATA_VAL] == 0);
    data_set *d = must_open(&(data_case){.path = files_path("out")});
    assert_true(tokenizer_hash(data_about(d)->tokenizer) == tokenizer_hash(t));
    assert_int_equal(data_about(d)->units[DATA_VAL], val);
    data_close(d);
    tokenizer_free(t);
}

typedef struct killer {
    int left;
} killer;

static void kill_self(void *ctx, const char *what, double share)
{
    killer *k = ctx;
    (void)what;
    (void)share;
    if (k->left-- == 0)
        raise(SIGKILL);
}

/* Killed after each file in turn, the same shards come out. */
static void test_kills(void **state)
{
    static uint16_t whole[most], again[most];
    make_shards_result r;
    scion_error err = {0};
    (void)state;
    threads_set(1); /* the threads of a process do not outlive a fork */
    write_corpus();
    tokenizer *t = learn();
    assert_int_equal(make(t, "whole", val_tokens, &r, &err), SCION_OK);
    for (int i = 0;; i++) {
        char out[20];
        snprintf(out, sizeof out, "killed%d", i);
        const char *input;
        killer k = {i};
        make_shards_options o = options_of(t, out, val_tokens, &input);
        o.progress = kill_self;
        o.ctx = &k;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(make_shards(&o, &r, &err) == SCION_OK ? 0 : 1);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        make_shards_result end;
        assert_int_equal(make(t, out, val_tokens, &end, &err), SCION_OK);
        assert_int_equal(end.shards, r.shards);
        for (int k2 = 0; k2 < r.shards; k2++)
            for (int part = 0; part < 2; part++) {
                const int64_t n = read_shard("whole", part ? "train" : "val", k2, whole);
                assert_int_equal(read_shard(out, part ? "train" : "val", k2, again), n);
                if (n > 0)
                    assert_memory_equal(again, whole, (size_t)n * 2);
            }
        if (WIFEXITED(status)) {
            assert_true(i > 5 && WEXITSTATUS(status) == 0);
            break;
        }
    }
    tokenizer_free(t);
}

static void must_fail(scion_status status, const scion_error *err, const char *words)
{
    if (status == SCION_OK || !strstr(err->message, words))
        fail_msg("%s, expected %s", err->message, words);
}

/* Changes a file that has not been read yet. */
static void change_file(void *ctx, const char *what, double share)
{
    (void)ctx;
    (void)what;
    (void)share;
    files_text("corpus/07.txt", "longer or shorter than it was\n");
}

/* A file that changes while others are read is refused; shards that are whole stay, and no half of one does. */
static void test_changes(void **state)
{
    uint16_t tokens[shard_tokens];
    make_shards_result r;
    scion_error err = {0};
    (void)state;
    write_corpus();
    tokenizer *t = learn();
    const char *const inputs[] = {files_path("corpus")};
    const make_shards_options o = {.inputs = inputs,
                                   .input_count = 1,
                                   .out = files_path("changes"),
                                   .field = "text",
                                   .tokenizer = t,
                                   .shard_tokens = shard_tokens,
                                   .val_tokens = val_tokens,
                                   .progress = change_file};
    must_fail(make_shards(&o, &r, &err), &err, "corpus/07.txt: it has changed while it was read");
    assert_true(read_shard("changes", "val", 0, tokens) > 0);
    for (int i = 1; i < 9; i++) {
        const int64_t n = read_shard("changes", "train", i, tokens);
        assert_true(n == -1 || n == shard_tokens);
    }
    tokenizer_free(t);
}

static void test_refusals(void **state)
{
    make_shards_result r;
    scion_error err = {0};
    (void)state;
    write_corpus();
    tokenizer *t = learn(), *bytes;
    assert_int_equal(make(t, "kept", val_tokens, &r, &err), SCION_OK);
    must_fail(make(t, "kept", 0, &r, &err), &err, "kept: it holds shards with another val");
    assert_int_equal(tokenizer_open(&bytes, "bytes", NULL, 0, &err), SCION_OK);
    must_fail(make(bytes, "kept", val_tokens, &r, &err), &err, "kept: it holds shards with another tokenizer");
    files_text("corpus/03.txt", "another text\n");
    must_fail(make(t, "kept", val_tokens, &r, &err), &err,
              "corpus/03.txt: it has changed since the shards were begun");
    files_text("taken/a.bin", "x");
    must_fail(make(t, "taken", val_tokens, &r, &err), &err, "taken: it holds a.bin already");
    files_text("odd/tokenize.json", "{");
    must_fail(make(t, "odd", val_tokens, &r, &err), &err, "tokenize.json: damaged");
    must_fail(make(t, "much", 1000000, &r, &err), &err, "too little text: none is left to train on");
    files_text("corpus/z.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
    must_fail(make(t, "broken", val_tokens, &r, &err), &err, "z.jsonl: line 2 is no record");
    tokenizer_free(bytes);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
