/* Vocabularies of other files: the first byte says which. 0: a tiktoken file; else encoder.json and, behind a byte
 * 0xff, vocab.bpe. One that is read has merges whose tokens are its own, and can be written as tokenizer.json. */
#include <string.h>

#include "fuzz.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"

static void check_vocabulary(const bpe_vocabulary *v)
{
    void *bytes;
    size_t n, m, k;
    scion_error err = {0};
    bpe_vocabulary again;
    for (int64_t i = 0; i < v->merge_count; i++) {
        const bpe_merge b = v->merges[i];
        fuzz_require(b.left >= 0 && b.left < v->size && b.right >= 0 && b.right < v->size && b.result < v->size);
        const char *left = bpe_bytes(v, b.left, &n), *right = bpe_bytes(v, b.right, &m);
        const char *both = bpe_bytes(v, b.result, &k);
        fuzz_require(k == n + m && memcmp(both, left, n) == 0 && memcmp(both + n, right, m) == 0);
    }
    bpe_vocabulary_init(&again);
    fuzz_require(tokenizer_json_write(v, &bytes, &n, &err) == SCION_OK);
    fuzz_require(tokenizer_json_read(&again, bytes, n, &err) == SCION_OK && again.size == v->size);
    bpe_vocabulary_free(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    bpe_vocabulary v;
    scion_error err = {0};
    scion_status status;
    bpe_vocabulary_init(&v);
    if (fuzz_byte(&in) == 0) {
        status = tokenizer_read_tiktoken(&v, (const char *)in.at, in.left, &err);
    } else {
        const fuzz_input encoder = fuzz_part(&in, 0xff);
        void *bytes;
        size_t n;
        status = tokenizer_json_join((const char *)encoder.at, encoder.left, (const char *)in.at, in.left, &bytes, &n,
                                     &err);
        if (status == SCION_OK)
            status = tokenizer_json_read(&v, bytes, n, &err);
        free(bytes);
    }
    if (status == SCION_OK)
        check_vocabulary(&v);
    else
        fuzz_require_sentence(&err);
    bpe_vocabulary_free(&v);
    return 0;
}
