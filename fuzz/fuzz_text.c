/* Texts by characters. The input is a vocabulary and a text behind the first byte 0xff, or only a text, from which
 * the vocabulary comes; a vocabulary alone is opened as well. A vocabulary read back gives the same symbols, and
 * every token is decoded to what is encoded to it. */
#include <string.h>

#include "fuzz_data.h"

static void round_trip(const data_set *d)
{
    char text[DATA_TOKEN_TEXT];
    int32_t token;
    scion_error err = {0};
    const int64_t symbols = data_about(d)->symbols;
    fuzz_require(symbols > 0);
    for (int64_t i = 0; i < symbols; i++) {
        const int bytes = data_decode(d, (int32_t)i, text);
        fuzz_require(bytes > 0 && bytes < DATA_TOKEN_TEXT && text[bytes] == '\0');
        if (text[0] != '\0') /* the symbol 0 is none in a string */
            fuzz_require(data_encode(d, text, &token, 1, &err) == 1 && token == i);
    }
    fuzz_require(data_decode(d, (int32_t)symbols, text) == 0 && data_decode(d, -1, text) == 0);
}

static void same_symbols(const data_set *d)
{
    data_options o = fuzz_data_options("chars", "");
    data_set *again = fuzz_data_open(&o, data_about(d)->vocabulary);
    fuzz_require(again && data_about(again)->symbols == data_about(d)->symbols);
    fuzz_require(strcmp(data_about(again)->vocabulary, data_about(d)->vocabulary) == 0);
    data_close(again);
}

static void open_and_read(const char *path, const char *vocabulary)
{
    const data_options o = fuzz_data_options("chars", path);
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
    if (first.left == size) {
        open_and_read(fuzz_file(0, data, size), NULL);
        return 0;
    }
    char *vocabulary = malloc(first.left + 1);
    fuzz_require(vocabulary);
    if (first.left > 0)
        memcpy(vocabulary, first.at, first.left);
    vocabulary[first.left] = '\0';
    if (in.left > 0)
        open_and_read(fuzz_file(0, in.at, in.left), vocabulary);
    else
        open_and_read("", vocabulary);
    free(vocabulary);
    return 0;
}
