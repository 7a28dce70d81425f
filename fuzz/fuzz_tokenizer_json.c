/* tokenizer.json. One of characters is a saved tokenizer of them, and is written anew as the same one. One that opens
 * is saved as it was; written anew, it has the same tokens and merges; it encodes some text, which decodes to the
 * same bytes. */
#include <string.h>

#include "fuzz.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

static void round_trip(const tokenizer *t, const char *text, size_t n)
{
    int32_t *tokens = malloc((n + 1) * sizeof *tokens);
    size_t bad, at = 0, length;
    scion_error err = {0};
    fuzz_require(tokens);
    const int64_t count = tokenizer_encode(t, text, n, tokens, &bad, &err);
    fuzz_require(count >= 0 && count <= (int64_t)n && bad <= n);
    for (int64_t i = 0; i < count; i++) {
        const char *bytes = tokenizer_decode(t, tokens[i], &length);
        fuzz_require(bytes && length > 0 && at + length <= n && memcmp(bytes, text + at, length) == 0);
        at += length;
    }
    if (bad < n) /* a pattern that takes too long */
        fuzz_require_sentence(&err);
    fuzz_require(at == bad);
    free(tokens);
}

static void write_anew(const void *data, size_t size)
{
    bpe_vocabulary v, again;
    void *bytes;
    size_t n;
    scion_error err = {0};
    bpe_vocabulary_init(&v);
    bpe_vocabulary_init(&again);
    fuzz_require(tokenizer_json_read(&v, data, size, &err) == SCION_OK);
    fuzz_require(tokenizer_json_write(&v, &bytes, &n, &err) == SCION_OK);
    fuzz_require(tokenizer_json_read(&again, bytes, n, &err) == SCION_OK);
    fuzz_require(v.size == again.size && v.merge_count == again.merge_count && v.separator == again.separator);
    fuzz_require(memcmp(v.starts, again.starts, (size_t)(v.size + 1) * sizeof *v.starts) == 0);
    fuzz_require(memcmp(v.bytes, again.bytes, v.starts[v.size]) == 0);
    fuzz_require(v.merge_count == 0 || memcmp(v.merges, again.merges, (size_t)v.merge_count * sizeof *v.merges) == 0);
    fuzz_require(v.pattern_count == again.pattern_count && v.ignore_merges == again.ignore_merges);
    free(bytes);
    bpe_vocabulary_free(&v);
    bpe_vocabulary_free(&again);
}

static void read_characters(const uint8_t *data, size_t size)
{
    char *text, *again;
    void *json;
    size_t n, m, bytes;
    tokenizer *t;
    scion_error err = {0};
    if (tokenizer_json_read_symbols(data, size, &text, &n, &err) != SCION_OK) {
        fuzz_require(!text);
        fuzz_require_sentence(&err);
        return;
    }
    if (!text)
        return;
    if (tokenizer_open(&t, "chars", text, n, &err) == SCION_OK) {
        fuzz_require(tokenizer_json(t, &json, &bytes, &err) == SCION_OK);
        fuzz_require(tokenizer_json_read_symbols(json, bytes, &again, &m, &err) == SCION_OK);
        fuzz_require(again && m == n && memcmp(again, text, n) == 0);
        free(json);
        free(again);
        tokenizer_free(t);
    } else {
        fuzz_require_sentence(&err);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "it's a test: naive, na\xc3\xafve 123 \xff\xfe  \t\n aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa <|endoftext|>";
    tokenizer *t;
    scion_error err = {0};
    read_characters(data, size);
    if (tokenizer_open(&t, "bpe", data, size, &err) == SCION_OK) {
        round_trip(t, text, sizeof text - 1);
        round_trip(t, (const char *)data, size < 2000 ? size : 2000);
        write_anew(data, size);
        tokenizer_free(t);
    } else {
        fuzz_require(!t);
        fuzz_require_sentence(&err);
    }
    return 0;
}
