/* Byte pair encoding: equal to merging as it is defined, equal to other programs on kept strings, linear; its files,
 * and what is wrong with some; learning. */
#include "scratch.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "text/bpe_encoder.h"
#include "text/bpe_learn.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "util/base64.h"
#include "util/utf8.h"

/* ---- Vocabularies ---------------------------------------------------------------------------------------- */

/* A vocabulary of the bytes. */
static bpe_vocabulary bytes_only(void)
{
    bpe_vocabulary v;
    scion_error err;
    bpe_vocabulary_init(&v);
    for (int i = 0; i < 256; i++) {
        const char c = (char)i;
        check_ok(bpe_add_token(&v, &c, 1, false, &err), &err);
    }
    return v;
}

/* Adds the token of two, unless there is one. */
static void add_pair(bpe_vocabulary *v, int32_t left, int32_t right)
{
    char both[512];
    size_t n, m;
    scion_error err;
    const char *a = bpe_bytes(v, left, &n), *b = bpe_bytes(v, right, &m);
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    if (bpe_find(v, both, n + m) < 0)
        check_ok(bpe_add_token(v, both, n + m, false, &err), &err);
}

static int32_t pick(rng *r, int32_t count)
{
    return (int32_t)(rng_uniform(r) * count);
}

/* One of the first `letters` letters, or a token made of them. */
static int32_t pick_token(rng *r, const bpe_vocabulary *v, int letters)
{
    const int32_t made = v->size - 256, i = pick(r, made + letters);
    return i < letters ? 'a' + i : 256 + i - letters;
}

/* Random merges of a few letters, in the order in which their tokens are made. Some tokens have several merges. */
static bpe_vocabulary random_vocabulary(rng *r, int letters, int merges)
{
    bpe_vocabulary v = bytes_only();
    scion_error err;
    for (int i = 0; i < merges; i++) {
        const int32_t left = pick_token(r, &v, letters), right = pick_token(r, &v, letters);
        size_t n, m;
        bpe_bytes(&v, left, &n);
        bpe_bytes(&v, right, &m);
        if (n + m > 12)
            continue;
        add_pair(&v, left, right);
        check_ok(bpe_add_merge(&v, left, right, &err), &err);
    }
    return v;
}

/* Puts the merges in any order. */
static void shuffle_merges(rng *r, bpe_vocabulary *v)
{
    for (int64_t i = v->merge_count - 1; i > 0; i--) {
        const int64_t k = pick(r, (int32_t)i + 1);
        const bpe_merge m = v->merges[i];
        v->merges[i] = v->merges[k];
        v->merges[k] = m;
    }
}

/* ---- The definition -------------------------------------------------------------------------------------- */

/* Merges the pair whose merge comes first in the list, the leftmost of several, until none is left. Of equal merges
 * the last counts. */
static int64_t merge_plainly(const bpe_vocabulary *v, const char *text, size_t n, int32_t *tokens)
{
    int64_t count = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        tokens[i] = bpe_find(v, text + i, 1);
    for (;;) {
        int64_t best = -1, rank = -1;
        for (int64_t i = 0; i + 1 < count; i++)
            for (int64_t k = v->merge_count - 1; k >= 0; k--)
                if (v->merges[k].left == tokens[i] && v->merges[k].right == tokens[i + 1]) {
                    if (best < 0 || k < rank) {
                        best = i;
                        rank = k;
                    }
                    break;
                }
        if (best < 0)
            return count;
        tokens[best] = v->merges[rank].result;
        memmove(tokens + best + 1, tokens + best + 2, (size_t)(count - best - 2) * sizeof *tokens);
        count--;
    }
}

static void same_as_merging(rng *r, const bpe_vocabulary *v, int letters, int texts)
{
    bpe_encoder *e;
    scion_error err;
    check_ok(bpe_encoder_create(&e, v, &err), &err);
    for (int i = 0; i < texts; i++) {
        char text[64];
        int32_t got[64], want[64];
        size_t bad;
        const size_t n = (size_t)pick(r, 60) + 1;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)('a' + pick(r, letters));
        const int64_t count = bpe_encode(e, text, n, got, &bad, NULL, &err);
        at("%.*s", (int)n, text);
        check(bad == n);
        check(count == merge_plainly(v, text, n, want));
        check_bits((size_t)count * sizeof *got, got, want);
    }
    bpe_encoder_free(e);
}

static void test_definition(void **state)
{
    (void)state;
    rng r = rng_of(1);
    for (int i = 0; i < 60; i++) {
        const int letters = 1 + pick(&r, 4);
        bpe_vocabulary v = random_vocabulary(&r, letters, 1 + pick(&r, 60));
        same_as_merging(&r, &v, letters, 20);
        shuffle_merges(&r, &v);
        same_as_merging(&r, &v, letters, 20);
        bpe_vocabulary_free(&v);
    }
}

/* A merge that comes before that of its left token, or of its right one. */
static void test_order(void **state)
{
    static const char *const lists[][2][2] = {{{"ab", "c"}, {"a", "b"}}, {{"a", "bc"}, {"b", "c"}}};
    (void)state;
    rng r = rng_of(5);
    for (int i = 0; i < COUNT_OF(lists); i++) {
        bpe_vocabulary v = bytes_only();
        scion_error err;
        for (int k = 1; k >= 0; k--) /* tokens; ab before abc */
            add_pair(&v, bpe_find(&v, lists[i][k][0], strlen(lists[i][k][0])),
                     bpe_find(&v, lists[i][k][1], strlen(lists[i][k][1])));
        for (int k = 0; k < 2; k++)
            check_ok(bpe_add_merge(&v, bpe_find(&v, lists[i][k][0], strlen(lists[i][k][0])),
                                   bpe_find(&v, lists[i][k][1], strlen(lists[i][k][1])), &err),
                     &err);
        same_as_merging(&r, &v, 3, 20);
        bpe_vocabulary_free(&v);
    }
}

/* A megabyte of one letter, or of two that make long tokens hard to fit, is looked at a few times. Merges in any
 * order go through a heap. */
static void test_linear(void **state)
{
    enum { most = 40 };
    static const char *const patterns[] = {"a", "ab", "aab", "aaaaaaab"};
    (void)state;
    rng r = rng_of(2);
    char *text = room(1 << 20);
    int32_t *tokens = room((1 << 20) * sizeof *tokens);
    for (int i = 0; i < 6; i++) {
        const size_t n = i % 2 == 0 ? 1 << 20 : 1 << 17; /* a heap takes longer, by the logarithm of n */
        bpe_vocabulary v = random_vocabulary(&r, 2, 40);
        bpe_encoder *e;
        scion_error err;
        if (i % 2 == 1)
            shuffle_merges(&r, &v);
        check_ok(bpe_encoder_create(&e, &v, &err), &err);
        for (int k = 0; k < COUNT_OF(patterns); k++) {
            int64_t steps;
            size_t bad;
            for (size_t at_byte = 0; at_byte < n; at_byte++)
                text[at_byte] = patterns[k][at_byte % strlen(patterns[k])];
            bpe_encode(e, text, n, tokens, &bad, &steps, &err);
            at("%s, vocabulary %d", patterns[k], i);
            check(bad == n && steps > 0);
            check_le((double)steps / (double)n, most);
        }
        bpe_encoder_free(e);
        bpe_vocabulary_free(&v);
    }
}

/* ---- Words ----------------------------------------------------------------------------------------------- */

/* Splits a text by patterns; the words are separated by "|". */
static const char *words_of(const char *const *patterns, int count, const char *text, size_t n)
{
    char *out = room(2 * n + 2), *to = out;
    size_t lengths[3], begin = 0;
    int words;
    bpe_split *s;
    bpe_walk w;
    scion_error err;
    check_ok(bpe_split_create(&s, patterns, count, &err), &err);
    check_ok(bpe_walk_begin(&w, s, text, n, &err), &err);
    do {
        check_ok(bpe_walk_next(&w, lengths, 3, &words, &err), &err);
        for (int i = 0; i < words; i++) {
            check(lengths[i] > 0 && begin + lengths[i] <= n);
            memcpy(to, text + begin, lengths[i]);
            to += lengths[i];
            *to++ = '|';
            begin += lengths[i];
        }
    } while (words > 0);
    check(begin == n);
    bpe_walk_end(&w);
    bpe_split_free(s);
    return out;
}

static void test_words(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"Hello world", "Hello| world|"},
        {"it's we'll I'd they're 'tis", "it|'s| we|'ll| I|'d| they|'re| '|tis|"},
        {"I'M 'Sure", "I|'|M| '|Sure|"},
        {"  two  blanks  ", " | two| | blanks|  |"},
        {"a\n\n\tb", "a|\n\n|\t|b|"},
        {"x = 42;\n", "x| =| 42|;|\n|"},
        {"abc123def", "abc|123|def|"},
        {"na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd", "na\xc3\xafve| \xe4\xbd\xa0\xe5\xa5\xbd|"},
        {"a\xc2\xa0\xc2\xa0"
         "b",
         "a|\xc2\xa0|\xc2\xa0|b|"},
        {"a\xe3\x80\x80 b", "a|\xe3\x80\x80| b|"},
        {"a\xe1\xa0\x8e", "a|\xe1\xa0\x8e|"}, /* U+180E is no space any more */
        {"\xff\xfe x\xff", "\xff\xfe| x|\xff|"},
        {"\xf0\x9f\x8e\x89\xf0\x9f\x8e\x89!", "\xf0\x9f\x8e\x89\xf0\x9f\x8e\x89!|"},
        {"\xc2\xbd\xe2\x85\xa7", "\xc2\xbd\xe2\x85\xa7|"}, /* numbers that are no digits */
    };
    const char *const gpt2[] = {bpe_gpt2_pattern};
    (void)state;
    for (int i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(words_of(gpt2, 1, cases[i].text, strlen(cases[i].text)), cases[i].words);
    const char *const digits[] = {"\\p{N}", bpe_gpt2_pattern};
    assert_string_equal(words_of(digits, 2, "ab 123 c", 8), "ab| |1|2|3| c|");
    const char *const llama[] = {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]"
        "+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
    assert_string_equal(words_of(llama, 1, "I'LL\t12345 (x)\n\n y", 18), "I|'LL|\t|123|45| (|x|)\n\n| y|");
    assert_string_equal(words_of(llama, 1, "a\xff\xff b", 5), "a|\xff\xff| b|");
    assert_string_equal(words_of(NULL, 0, "one\xff word", 9), "one\xff word|");
}

/* The scanner splits UTF-8 as PCRE2 does by the same pattern, as long as both know the characters. */
static void test_scanner(void **state)
{
    static const char *const pieces[] = {" ",
                                         "  ",
                                         "\n",
                                         "\t",
                                         "'s",
                                         "'",
                                         "'ll",
                                         "12",
                                         "a",
                                         "Zeta",
                                         "\xc3\xa4",
                                         "\xd0\xb6",
                                         "\xe3\x80\x80",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\xa0\x8e",
                                         "\xe2\x80\x8b",
                                         "!?",
                                         "_",
                                         "\xf0\x9f\x98\x80",
                                         "\xe4\xb8\xad",
                                         "\xcc\x81",
                                         "\xd9\xa3",
                                         "abcdefghijklm"};
    const char *const same[] = {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s"};
    const char *const gpt2[] = {bpe_gpt2_pattern};
    (void)state;
    rng r = rng_of(3);
    for (int i = 0; i < 3000; i++) {
        char text[256];
        size_t n = 0;
        for (int k = pick(&r, 16) + 1; k > 0; k--) {
            const int32_t which = pick(&r, (int32_t)COUNT_OF(pieces) + 6);
            if (which < COUNT_OF(pieces))
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", pieces[which]);
            else
                n += (size_t)utf8_encode((uint32_t)pick(&r, 0x1c00) + 1, text + n);
        }
        assert_string_equal(words_of(gpt2, 1, text, n), words_of(same, 1, text, n));
        for (size_t k = 0; k < n; k++) /* any bytes: the words are the whole text */
            text[k] = (char)pick(&r, 256);
        words_of(gpt2, 1, text, n);
        words_of(same, 1, text, n);
    }
}

/* ---- Strings with the tokens that other programs give them ------------------------------------------------- */

/* bpe/tokenizer.json was learned from this repository's documents; tools/peers writes bpe/strings.jsonl by it. */
static void test_vectors(void **state)
{
    tokenizer *t;
    scion_error err;
    size_t size;
    int strings = 0;
    (void)state;
    check_ok(tokenizer_open_path(&t, SCION_BPE_FILES "/tokenizer.json", &err), &err);
    char *lines = scratch_get(SCION_BPE_FILES "/strings.jsonl", &size), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save), strings++) {
        json_t *o = json_loads(line, 0, NULL), *ids = json_object_get(o, "ids");
        const char *base64 = json_string_value(json_object_get(o, "base64"));
        const size_t n = (size_t)json_integer_value(json_object_get(o, "bytes"));
        uint8_t *text = room(n + 1);
        int32_t *tokens = room((n + 1) * sizeof *tokens);
        size_t bad;
        at("%s", line);
        check(base64 && base64_decode(base64, strlen(base64), text, n));
        const int64_t count = tokenizer_encode(t, (const char *)text, n, tokens, &bad, &err);
        check(bad == n && count == (int64_t)json_array_size(ids));
        for (int64_t i = 0; i < count; i++)
            check(tokens[i] == json_integer_value(json_array_get(ids, (size_t)i)));
        json_decref(o);
    }
    check(strings >= 300);
    tokenizer_free(t);
}

/* ---- Files ----------------------------------------------------------------------------------------------- */

/* A tokenizer.json of all bytes and "ab", with %s in the place of something. */
static char *json_with(const char *from, const char *to)
{
    bpe_vocabulary v = bytes_only();
    void *bytes;
    size_t size;
    scion_error err;
    add_pair(&v, 'a', 'b');
    check_ok(bpe_add_merge(&v, 'a', 'b', &err), &err);
    check_ok(bpe_add_token(&v, "<|endoftext|>", 13, true, &err), &err);
    check_ok(bpe_add_pattern(&v, bpe_gpt2_pattern, &err), &err);
    check_ok(tokenizer_json_write(&v, &bytes, &size, &err), &err);
    const char *found = strstr(bytes, from);
    check(found != NULL);
    char *text = room(size + strlen(to) + 1);
    const size_t before = (size_t)(found - (char *)bytes);
    memcpy(text, bytes, before);
    strcpy(stpcpy(text + before, to), found + strlen(from));
    free(bytes);
    bpe_vocabulary_free(&v);
    return text;
}

static void test_refused_json(void **state)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"BPE\"", "\"WordPiece\"", "its model is WordPiece; expected BPE"},
        {"\"BPE\"", "\"Unigram\"", "its model is Unigram"},
        {"\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}", "the normalizer NFC, which changes texts"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", "add_prefix_space"},
        {"\"pre_tokenizer\": {\n  \"type\": \"ByteLevel\"", "\"pre_tokenizer\": {\n  \"type\": \"Metaspace\"",
         "not end with"},
        {"\"decoder\": {\n  \"type\": \"ByteLevel\"", "\"decoder\": {\n  \"type\": \"Metaspace\"",
         "its decoder is Metaspace"},
        {"\"dropout\": null", "\"dropout\": 0.1", "dropout"},
        {"\"continuing_subword_prefix\": null", "\"continuing_subword_prefix\": \"##\"", "continuing_subword_prefix"},
        {"\"a b\"", "\"a c\"", "merge 1 is of \"a\" and \"c\", but no token of the vocabulary is both together"},
        {"\"a b\"", "\"a xyz\"", "merge 1 refers to \"xyz\", which is not in the vocabulary"},
        {"\"a b\"", "[\"a\"]", "merge 1 is not a pair of tokens"},
        {"\"a b\"", "7", "merge 1 is not a pair of tokens"},
        {"\"ab\": 256", "\"ab\": 258", "no token has the number 256, but the largest number is 258"},
        {"\"ab\": 256", "\"ab\": 300", "the token \"ab\" has the number 300, but there are only 259 tokens"},
        {"\"ab\": 256", "\"ab\": 97", "the tokens \"a\" and \"ab\" have the same number, 97"},
        {"\"ab\": 256", "\"ab\": 9999999", "at most 1048576 tokens are possible"},
        {"\"ab\": 256", "\"ab\": -1", "has the number -1"},
        {"\"ab\": 256", "\"ab\": \"x\"", "has no number"},
        {"\"ab\": 256", "\"a b\": 256", "is not made of bytes as GPT-2 writes them"},
        {"\"z\": 122", "\"zz\": 122", "the byte 0x7A has no token"},
        {"\"special\": true", "\"special\": false", "is not special"},
        {"\"merges\"", "\"mergers\"", "the model has no merges"},
        {"\"vocab\"", "\"vocals\"", "the model has no vocab"},
        {"\"model\"", "\"models\"", "it has no model"},
        {"\"version\"", "version", "damaged or cut off: line 2"},
    };
    (void)state;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const char *text = json_with(cases[i].from, cases[i].to);
        tokenizer *t;
        scion_error err;
        at("%s", cases[i].why);
        check_status(tokenizer_open(&t, "bpe", text, strlen(text), &err), SCION_EINVAL, &err);
        if (!strstr(err.message, cases[i].why))
            fail_msg("said: %s, expected: %s", err.message, cases[i].why);
        check(!t);
    }
    const char *whole = json_with("\"a b\"", "\"a b\"");
    for (size_t n = 0; n < strlen(whole); n += 97) { /* cut off anywhere */
        tokenizer *t;
        scion_error err;
        check_status(tokenizer_open(&t, "bpe", whole, n, &err), SCION_EINVAL, &err);
    }
}

/* Merges as pairs, several patterns and ignored merges are read. */
static void test_read_json(void **state)
{
    const char *texts[] = {json_with("\"a b\"", "[\"a\", \"b\"]"), json_with("\"type\": \"BPE\",", ""),
                           json_with("\"a b\"", "\"a b\"")};
    int32_t tokens[8];
    size_t bad;
    (void)state;
    for (int i = 0; i < COUNT_OF(texts); i++) {
        tokenizer *t;
        scion_error err;
        check_ok(tokenizer_open(&t, "bpe", texts[i], strlen(texts[i]), &err), &err);
        check(tokenizer_encode(t, "ab a", 4, tokens, &bad, &err) == 3);
        check(tokens[0] == 256 && tokens[1] == ' ' && tokens[2] == 'a');
        check(tokenizer_separator(t) == 257 && tokenizer_size(t) == 258);
        /* A separator in a text is no separator. */
        int32_t plain[13];
        check(tokenizer_encode(t, "<|endoftext|>", 13, plain, &bad, &err) == 13 && plain[0] == '<');
        tokenizer_free(t);
    }
    /* A word that is a token, although its merge is missing. */
    for (int ignore = 0; ignore < 2; ignore++) {
        const char *no_merge = json_with("\"a b\"", "");
        char *text = room(strlen(no_merge) + 2);
        tokenizer *t;
        scion_error err;
        strcpy(text, no_merge);
        if (ignore)
            memcpy(strstr(text, "\"ignore_merges\": false"), "\"ignore_merges\": true ", 22);
        check_ok(tokenizer_open(&t, "bpe", text, strlen(text), &err), &err);
        check(tokenizer_encode(t, "ab", 2, tokens, &bad, &err) == (ignore ? 1 : 2));
        tokenizer_free(t);
    }
}

/* Writes a tiktoken file of a vocabulary. */
static const char *write_tiktoken(const bpe_vocabulary *v, const char *name)
{
    FILE *f = fopen(scratch(name), "w");
    check(f != NULL);
    for (int32_t i = 0; i < v->size; i++) {
        size_t n;
        const char *bytes = bpe_bytes(v, i, &n);
        char text[512];
        base64_encode((const uint8_t *)bytes, n, text);
        fprintf(f, "%s %d\n", text, (int)i);
    }
    check(fclose(f) == 0);
    return scratch(name);
}

/* The merges of a learned vocabulary follow from its tokens. */
static void test_tiktoken(void **state)
{
    static const char text[] = "low lower lowest newer newest wider widest low low lower slow slower slowest";
    const tokenizer_text texts = {text, sizeof text - 1};
    const tokenizer_options o = {.vocab = 290, .threads = 1};
    bpe_vocabulary v, tokens;
    scion_error err;
    tokenizer *t;
    int32_t got[sizeof text], want[sizeof text];
    size_t bad, n;
    (void)state;
    bpe_vocabulary_init(&v);
    check_ok(bpe_learn(&v, &texts, 1, &o, &err), &err);
    bpe_vocabulary_init(&tokens);
    for (int32_t i = 0; i + 1 < v.size; i++) { /* all but the separator */
        const char *bytes = bpe_bytes(&v, i, &n);
        check_ok(bpe_add_token(&tokens, bytes, n, false, &err), &err);
    }
    check_ok(tokenizer_open_path(&t, write_tiktoken(&tokens, "t.tiktoken"), &err), &err);
    check(tokenizer_size(t) == v.size && tokenizer_separator(t) == v.separator);
    bpe_encoder *e;
    check_ok(bpe_encoder_create(&e, &v, &err), &err);
    const int64_t count = bpe_encode(e, text, sizeof text - 1, want, &bad, NULL, &err);
    check(tokenizer_encode(t, text, sizeof text - 1, got, &bad, &err) == count);
    check_bits((size_t)count * sizeof *got, got, want);
    tokenizer_free(t);
    bpe_encoder_free(e);
    bpe_vocabulary_free(&v);
    bpe_vocabulary_free(&tokens);
}

static void refused_file(const char *name, const char *text, const char *why)
{
    tokenizer *t;
    scion_error err;
    scratch_text(scratch(name), text);
    check_status(tokenizer_open_path(&t, scratch(name), &err), SCION_EINVAL, &err);
    if (!strstr(err.message, why) || !strstr(err.message, name))
        fail_msg("said: %s, expected: %s", err.message, why);
}

static void test_refused_files(void **state)
{
    tokenizer *t;
    scion_error err;
    (void)state;
    refused_file("a", "", "the file is empty");
    refused_file("b", "some text\n", "line 1 is not a token in base64, a blank and a number");
    refused_file("c", "YQ== 0\nYg== x\n", "line 2 is not a token");
    refused_file("d", "YQ== 0\nYg== 0\n", "line 2 has the number 0, which another line has as well");
    refused_file("e", "YQ== 0\nYg== 2\n", "no token has the number 1, but the largest number is 2");
    refused_file("k", "YQ== 0\nYg== 4\n", "line 2 has the number 4, but the file has fewer lines");
    refused_file("f", "YQ== 0\nYQ== 1\n", "tokens 0 and 1 are the same: \"a\"");
    refused_file("g", "Y*== 0\n", "token 0 is not base64");
    refused_file("h", "YQ== 99999999\n", "at most 1048576 tokens are possible");
    refused_file("i", "YQ== 0\n", "the byte 0x00 has no token");
    refused_file("j", "{\"a\": 0}", "it has no model");
    const char *folder = scratch_dir("folder");
    check_status(tokenizer_open_path(&t, folder, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "no tokenizer in this folder") != NULL);
    check_status(tokenizer_open_path(&t, scratch("missing"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "cannot open") != NULL);
    /* encoder.json and vocab.bpe */
    scratch_text(scratch_in(folder, "encoder.json"), "{\"a\": 0, \"b\": 1, \"ab\": 2}");
    scratch_text(scratch_in(folder, "vocab.bpe"), "#version: 0.2\na c\n");
    check_status(tokenizer_open_path(&t, folder, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "merge 1 refers to \"c\"") != NULL);
    scratch_text(scratch_in(folder, "vocab.bpe"), "#version: 0.2\na b\n");
    check_status(tokenizer_open_path(&t, folder, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "has no token") != NULL);
}

/* encoder.json and vocab.bpe make the tokenizer that they were taken from. */
static void test_folder(void **state)
{
    const char *folder = scratch_dir("gpt"), *text = json_with("\"a b\"", "\"a b\"");
    json_t *o = json_loads(text, 0, NULL), *model = json_object_get(o, "model");
    tokenizer *t;
    scion_error err;
    int32_t tokens[4];
    size_t bad;
    (void)state;
    check(json_dump_file(json_object_get(model, "vocab"), scratch_in(folder, "encoder.json"), 0) == 0);
    scratch_text(scratch_in(folder, "vocab.bpe"), "#version: 0.2\r\na b\r\n\r\n");
    check_ok(tokenizer_open_path(&t, folder, &err), &err);
    check(tokenizer_size(t) == 258 && tokenizer_separator(t) == 257);
    check(tokenizer_encode(t, "abb", 3, tokens, &bad, &err) == 2 && tokens[0] == 256 && tokens[1] == 'b');
    check(strcmp(tokenizer_pattern(t, 0), bpe_gpt2_pattern) == 0 && !tokenizer_pattern(t, 1));
    json_decref(o);
    tokenizer_free(t);
}

/* ---- Learning -------------------------------------------------------------------------------------------- */

static bpe_vocabulary learn(const char *text, size_t n, int64_t vocab, int64_t longest, int threads)
{
    const tokenizer_text texts = {text, n};
    const tokenizer_options o = {.vocab = vocab, .max_token_length = longest, .threads = threads};
    bpe_vocabulary v;
    scion_error err;
    bpe_vocabulary_init(&v);
    check_ok(bpe_learn(&v, &texts, 1, &o, &err), &err);
    return v;
}

/* Tokens from 256 on, separated by blanks. */
static const char *learned(const char *text, int64_t vocab, int64_t longest)
{
    bpe_vocabulary v = learn(text, strlen(text), vocab, longest, 1);
    char *out = room(v.starts[v.size] + (size_t)v.size), *to = out;
    for (int32_t i = 256; i < v.size; i++) {
        size_t n;
        const char *bytes = bpe_bytes(&v, i, &n);
        to = mempcpy(to, bytes, n);
        *to++ = ' ';
    }
    bpe_vocabulary_free(&v);
    return out;
}

static void test_learn(void **state)
{
    (void)state;
    /* aa occurs 4 times, then aaa and ab twice each: ab comes first, since "a" has a lower number than "aa". */
    assert_string_equal(learned("aaabdaaabac", 260, 0), "aa ab aaab <|endoftext|> ");
    assert_string_equal(learned("aaabdaaabac", 300, 3), "aa ab <|endoftext|> ");
    assert_string_equal(learned("bc bc bd bd", 300, 0), " b  bd <|endoftext|> ");
    assert_string_equal(learned("abcdefg", 300, 0), "<|endoftext|> ");
    assert_string_equal(learned("", 300, 0), "<|endoftext|> ");
    bpe_vocabulary v;
    scion_error err;
    bpe_vocabulary_init(&v);
    const tokenizer_options o = {.vocab = 256};
    check_status(bpe_learn(&v, NULL, 0, &o, &err), SCION_EINVAL, &err);
    bpe_vocabulary_free(&v);
}

/* Text of several pieces, cut at any place, gives the same merges with any number of threads. */
static void test_threads(void **state)
{
    enum { n = 9 << 20 };
    char *text = room(n);
    size_t i = 0;
    (void)state;
    rng r = rng_of(4);
    while (i + 40 < n) {
        const int32_t kind = pick(&r, 40), length = 1 + pick(&r, 6);
        if (kind == 0)
            text[i++] = '\n';
        else if (kind == 1)
            text[i++] = (char)pick(&r, 256);
        else
            for (int32_t k = 0; k < length; k++)
                text[i++] = (char)('a' + pick(&r, 6));
        text[i++] = ' ';
    }
    memset(text + (4 << 20) - 100000, 'x', 300000); /* no border near the end of a piece */
    bpe_vocabulary one = learn(text, i, 600, 0, 1);
    for (int threads = 2; threads < 4; threads++) {
        bpe_vocabulary v = learn(text, i, 600, 0, threads);
        check(v.merge_count == one.merge_count && v.merge_count == 600 - 257);
        check_bits((size_t)v.merge_count * sizeof *v.merges, v.merges, one.merges);
        bpe_vocabulary_free(&v);
    }
    bpe_vocabulary_free(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAW(test_definition),    LAW(test_order),     LAW(test_linear),
                                       LAW(test_words),         LAW(test_scanner),   LAW(test_vectors),
                                       LAW(test_refused_json),  LAW(test_read_json), LAW(test_tiktoken),
                                       LAW(test_refused_files), LAW(test_folder),    LAW(test_learn),
                                       LAW(test_threads)};
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
