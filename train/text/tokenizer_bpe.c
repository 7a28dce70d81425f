/* Byte pair encoding: the kind of tokenizer that GPT-2 has, and most models since. Saved as a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "text/bpe_encoder.h"
#include "text/bpe_learn.h"
#include "text/bpe_split.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_row.h"

typedef struct bpe {
    bpe_vocabulary v;
    bpe_encoder *encoder;
    void *json; /* as it was opened, or as learning wrote it */
    size_t json_size;
} bpe;

static scion_status open_bpe(tokenizer *t, const void *bytes, size_t size, scion_error *err)
{
    bpe *b = t->state;
    bpe_vocabulary_init(&b->v);
    RETURN_IF_FAILED(tokenizer_json_read(&b->v, bytes, size, err));
    RETURN_IF_FAILED(bpe_encoder_create(&b->encoder, &b->v, err));
    if (!(b->json = malloc(size)))
        return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
    memcpy(b->json, bytes, size);
    b->json_size = size;
    t->size = b->v.size;
    t->separator = b->v.separator;
    return SCION_OK;
}

static scion_status learn_bpe(tokenizer *t, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                              scion_error *err)
{
    bpe_vocabulary v;
    void *bytes = NULL;
    size_t size;
    scion_status status;
    bpe_vocabulary_init(&v);
    TRY(bpe_learn(&v, texts, count, o, err));
    TRY(tokenizer_json_write(&v, &bytes, &size, err));
    TRY(open_bpe(t, bytes, size, err));
done:
    bpe_vocabulary_free(&v);
    free(bytes);
    return status;
}

static scion_status save_bpe(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    const bpe *b = t->state;
    if (!(*bytes = malloc(b->json_size)))
        return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
    memcpy(*bytes, b->json, b->json_size);
    *size = b->json_size;
    return SCION_OK;
}

static int64_t encode_bpe(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad,
                          scion_error *err)
{
    const bpe *b = t->state;
    return bpe_encode(b->encoder, text, n, tokens, bad, NULL, err);
}

static const char *decode_bpe(const tokenizer *t, int32_t token, size_t *n)
{
    const bpe *b = t->state;
    return bpe_bytes(&b->v, token, n);
}

static void close_bpe(tokenizer *t)
{
    bpe *b = t->state;
    bpe_encoder_free(b->encoder);
    bpe_vocabulary_free(&b->v);
    free(b->json);
}

static const char *pattern_of_bpe(const tokenizer *t, int i)
{
    const bpe *b = t->state;
    return i < b->v.pattern_count ? b->v.patterns[i] : NULL;
}

/* Before a blank that stands between a visible character and a letter: there GPT-2's pattern always begins a word,
 * and nothing before it looks that far. Of other patterns no such place is known. */
static size_t cut_bpe(const tokenizer *t, const char *text, size_t n)
{
    const char *pattern = pattern_of_bpe(t, 0);
    if (!pattern || pattern_of_bpe(t, 1) || strcmp(pattern, bpe_gpt2_pattern) != 0)
        return 0;
    for (size_t i = n - 1; i > 0; i--)
        if (text[i] == ' ' && text[i - 1] > ' ' && text[i - 1] < 0x7f && (text[i + 1] | 0x20) >= 'a' &&
            (text[i + 1] | 0x20) <= 'z')
            return i;
    return 0;
}

/* Written anew: what a file of others adds to texts, and we do not, is left out. */
static scion_status json_of_bpe(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    const bpe *b = t->state;
    return tokenizer_json_write(&b->v, bytes, size, err);
}

static bool is_added_in_bpe(const tokenizer *t, int32_t token)
{
    const bpe *b = t->state;
    return b->v.added[token];
}

static bool merge_of_bpe(const tokenizer *t, int64_t i, tokenizer_pair *p)
{
    const bpe *b = t->state;
    if (i >= b->v.merge_count)
        return false;
    p->left = bpe_bytes(&b->v, b->v.merges[i].left, &p->left_bytes);
    p->right = bpe_bytes(&b->v, b->v.merges[i].right, &p->right_bytes);
    return true;
}

static const char *bpe_unlike_gpt2(const tokenizer *t)
{
    const bpe *b = t->state;
    if (b->v.pattern_count != 1 || strcmp(b->v.patterns[0], bpe_gpt2_pattern) != 0)
        return "it splits texts by another pattern than GPT-2's";
    return b->v.ignore_merges ? "it looks for whole words before it merges bytes" : NULL;
}

const tokenizer_row tokenizer_bpe = {
    .name = "bpe",
    .help = "byte pair encoding: frequent sequences of bytes are tokens",
    .file = "tokenizer.json",
    .state_bytes = sizeof(bpe),
    .learn = learn_bpe,
    .open = open_bpe,
    .save = save_bpe,
    .encode = encode_bpe,
    .decode = decode_bpe,
    .pattern = pattern_of_bpe,
    .cut = cut_bpe,
    .close = close_bpe,
    .json = json_of_bpe,
    .is_added = is_added_in_bpe,
    .merge = merge_of_bpe,
    .unlike_gpt2 = bpe_unlike_gpt2,
};
