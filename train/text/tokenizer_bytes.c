/* Bytes as tokens: the token of a byte is its value. Nothing to learn, and any text has tokens. */
#include "util/fail.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_row.h"

static scion_status open_bytes(tokenizer *t, const void *bytes, size_t size, scion_error *err)
{
    (void)bytes;
    if (size > 0)
        return train_fail(err, SCION_EINVAL,
                          "a tokenizer by bytes has no vocabulary, but %zu bytes of one were given", size);
    uint8_t *values = t->state;
    for (int i = 0; i < 256; i++)
        values[i] = (uint8_t)i;
    t->size = 256;
    t->unit = "bytes";
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
    const char *values = t->state;
    *n = 1;
    return values + token;
}

static size_t cut_bytes(const tokenizer *t, const char *text, size_t n)
{
    (void)t;
    (void)text;
    return n;
}

static scion_status json_of_bytes(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    return tokenizer_json_write_symbols(t, false, bytes, size, err);
}

const tokenizer_row tokenizer_bytes = {
    .name = "bytes",
    .help = "every byte is a token",
    .state_bytes = 256, /* their values in order */
    .quick = true,
    .open = open_bytes,
    .save = save_bytes,
    .encode = encode_bytes,
    .decode = decode_bytes,
    .cut = cut_bytes,
    .json = json_of_bytes,
};
