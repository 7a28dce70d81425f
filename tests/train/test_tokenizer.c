/* Laws of all tokenizers: decoding gives back the same bytes, and a saved tokenizer opens as the same one. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "text/tokenizer_row.h"

/* Learns from a text of all bytes, so that every kind has a token for each. */
static tokenizer *learn(const tokenizer_row *row)
{
    char all[2 * 256];
    tokenizer *t;
    scion_error err;
    for (int i = 0; i < COUNT_OF(all); i++)
        all[i] = (char)i;
    const tokenizer_text text = {all, sizeof all};
    const tokenizer_options o = {.vocab = 300, .threads = 1};
    check_ok(tokenizer_learn(&t, row->name, &text, 1, &o, &err), &err);
    return t;
}

/* decode(encode(x)) = x for random bytes. */
static void same_bytes(const tokenizer *t, rng *r, size_t n)
{
    char *text = room(n + 1), *back = room(n + 1);
    int32_t *tokens = room((n + 1) * sizeof *tokens);
    size_t bad, at_byte = 0;
    scion_error err;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(256 * rng_uniform(r));
    const int64_t count = tokenizer_encode(t, text, n, tokens, &bad, &err);
    check(bad == n && count >= 0 && count <= (int64_t)n);
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = tokenizer_decode(t, tokens[i], &length);
        check(bytes && length > 0 && at_byte + length <= n);
        memcpy(back + at_byte, bytes, length);
        at_byte += length;
    }
    check(at_byte == n);
    check_bits(n, back, text);
}

static void test_laws(void **state)
{
    (void)state;
    rng r = rng_of(1);
    for (int i = 0; tokenizer_rows[i]; i++) {
        const tokenizer_row *row = tokenizer_rows[i];
        at("%s", row->name);
        tokenizer *t = learn(row), *again;
        void *bytes;
        size_t size, n;
        scion_error err;
        check(strcmp(tokenizer_name(t), row->name) == 0 && tokenizer_find_row(row->name) == row);
        check(tokenizer_size(t) >= 256 && tokenizer_separator(t) < tokenizer_size(t));
        check(!tokenizer_decode(t, -1, &n) && !tokenizer_decode(t, (int32_t)tokenizer_size(t), &n));
        check_ok(tokenizer_save(t, &bytes, &size, &err), &err);
        check_ok(tokenizer_open(&again, row->name, bytes, size, &err), &err);
        check(tokenizer_hash(again) == tokenizer_hash(t) && tokenizer_size(again) == tokenizer_size(t));
        for (size_t length = 0; length < 200; length++)
            same_bytes(again, &r, length);
        free(bytes);
        tokenizer_free(t);
        tokenizer_free(again);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    tokenizer *t;
    int32_t tokens[4];
    size_t bad;
    scion_error err;
    check_ok(tokenizer_open(&t, "bytes", NULL, 0, &err), &err);
    check(tokenizer_encode(t, "a\0\xff", 3, tokens, &bad, &err) == 3 && bad == 3);
    check(tokens[0] == 'a' && tokens[1] == 0 && tokens[2] == 255);
    check(tokenizer_size(t) == 256 && tokenizer_separator(t) == -1);
    tokenizer_free(t);
    check_status(tokenizer_open(&t, "bytes", "x", 1, &err), SCION_EINVAL, &err);
    check(!t);
    check_status(tokenizer_open(&t, "words", NULL, 0, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "words") && strstr(err.message, "bytes"));
    tokenizer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_laws), LAW(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
