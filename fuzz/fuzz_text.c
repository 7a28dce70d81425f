/* Texts by characters. The input is a vocabulary and a text behind the first byte 0xff, or only a text, from which
 * the vocabulary comes; a vocabulary alone is opened as well. A vocabulary read back gives the same symbols, and
 * every token is decoded to what is encoded to it. */
#include "fuzz_data.h"

static void round_trip(const data_set *d)
{
    const tokenizer *t = data_about(d)->tokenizer;
    int32_t token;
    size_t n, bad;
    scion_error err = {0};
    const int64_t symbols = data_about(d)->symbols;
    fuzz_require(symbols > 0 && symbols == tokenizer_size(t));
    for (int64_t i = 0; i < symbols; i++) {
        const char *bytes = tokenizer_decode(t, (int32_t)i, &n);
        fuzz_require(bytes && n > 0 && n <= 4 && n == (size_t)data_about(d)->token_bytes[i]);
        fuzz_require(tokenizer_encode(t, bytes, n, &token, &bad, &err) == 1 && bad == n && token == i);
    }
    fuzz_require(!tokenizer_decode(t, (int32_t)symbols, &n) && !tokenizer_decode(t, -1, &n));
}

static void same_symbols(const data_set *d)
{
    data_options o = fuzz_data_options("text", "");
    data_vocabulary v = {.kind = "chars"};
    void *bytes;
    scion_error err = {0};
    fuzz_require(tokenizer_save(data_about(d)->tokenizer, &bytes, &v.size, &err) == SCION_OK);
    v.bytes = bytes;
    data_set *again = fuzz_data_open(&o, v);
    fuzz_require(again && data_about(again)->symbols == data_about(d)->symbols);
    fuzz_require(tokenizer_hash(data_about(again)->tokenizer) == tokenizer_hash(data_about(d)->tokenizer));
    data_close(again);
    free(bytes);
}

static void open_and_read(const char *path, data_vocabulary vocabulary)
{
    const data_options o = fuzz_data_options("text", path);
    data_set *d = fuzz_data_open(&o, vocabulary);
    if (d) {
        round_trip(d);
        same_symbols(d);
        fuzz_data_read(d);
    }
    data_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const fuzz_input first = fuzz_part(&in, 0xff);
    if (first.left == size)
        open_and_read(fuzz_file(0, data, size), (data_vocabulary){.kind = NULL});
    else
        open_and_read(in.left > 0 ? fuzz_file(0, in.at, in.left) : "",
                      (data_vocabulary){"chars", first.at, first.left});
    return 0;
}
