/* Bytes as tokens: the token of a byte is its value. Nothing to learn, and any text has tokens. */
#include "util/fail.h"
#include "text/tokenizer_row.h"

/* All values in order; the token i is its byte i. */
#define ROW_OF_16(x)                                                                                              \
    x + 0, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11, x + 12, x + 13, x + 14, \
        x + 15
static const uint8_t values[256] = {
    ROW_OF_16(0),   ROW_OF_16(16),  ROW_OF_16(32),  ROW_OF_16(48),  ROW_OF_16(64),  ROW_OF_16(80),
    ROW_OF_16(96),  ROW_OF_16(112), ROW_OF_16(128), ROW_OF_16(144), ROW_OF_16(160), ROW_OF_16(176),
    ROW_OF_16(192), ROW_OF_16(208), ROW_OF_16(224), ROW_OF_16(240),
};

static scion_status open_bytes(tokenizer *t, const void *bytes, size_t size, scion_error *err)
{
    (void)bytes;
    if (size > 0)
        return train_fail(err, SCION_EINVAL,
                          "a tokenizer by bytes has no vocabulary, but %zu bytes of one were given", size);
    t->size = 256;
    return SCION_OK;
}

static scion_status save_bytes(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    (void)t;
    (void)bytes;
    (void)size;
    (void)err;
    return SCION_OK;
}

static int64_t encode_bytes(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad,
                            scion_error *err)
{
    (void)t;
    (void)bad;
    (void)err;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (uint8_t)text[i];
    return (int64_t)n;
}

static const char *decode_bytes(const tokenizer *t, int32_t token, size_t *n)
{
    (void)t;
    *n = 1;
    return (const char *)values + token;
}

const tokenizer_row tokenizer_bytes = {
    .name = "bytes",
    .help = "every byte is a token",
    .open = open_bytes,
    .save = save_bytes,
    .encode = encode_bytes,
    .decode = decode_bytes,
};
