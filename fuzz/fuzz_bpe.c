/* Encoding by byte pairs. Before the first byte 0xff, two bytes each make a merge of two tokens: a byte below 0x80 is
 * itself, others are the tokens that merges made. Then a text. Its tokens are those of merging as it is defined, pair
 * by pair, and decode to the same bytes; as one word, and as the words of GPT-2's pattern. */
#include <string.h>

#include "fuzz.h"
#include "text/bpe_encoder.h"

enum { longest = 100 }; /* bytes of a text: merging as defined is slow */

static int32_t pick(const bpe_vocabulary *v, uint8_t byte)
{
    return byte < 0x80 ? byte : v->size > 256 ? 256 + (byte - 0x80) % (v->size - 256) : byte;
}

static void add_merge(bpe_vocabulary *v, int32_t left, int32_t right)
{
    char both[128];
    size_t n, m;
    scion_error err = {0};
    const char *a = bpe_bytes(v, left, &n), *b = bpe_bytes(v, right, &m);
    if (n + m > sizeof both)
        return;
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    if (bpe_find(v, both, n + m) < 0)
        fuzz_require(bpe_add_token(v, both, n + m, false, &err) == SCION_OK);
    fuzz_require(bpe_add_merge(v, left, right, &err) == SCION_OK);
}

/* Rank of the merge of two tokens, the last of equal ones; -1: none. */
static int64_t rank_of(const bpe_vocabulary *v, int32_t left, int32_t right)
{
    int64_t i = v->merge_count - 1;
    while (i >= 0 && (v->merges[i].left != left || v->merges[i].right != right))
        i--;
    return i;
}

static int64_t merge_plainly(const bpe_vocabulary *v, const uint8_t *text, size_t n, int32_t *tokens)
{
    int64_t count = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        tokens[i] = text[i];
    for (;;) {
        int64_t best = -1, rank = -1;
        for (int64_t i = 0; i + 1 < count; i++) {
            const int64_t found = rank_of(v, tokens[i], tokens[i + 1]);
            if (found >= 0 && (best < 0 || found < rank)) {
                best = i;
                rank = found;
            }
        }
        if (best < 0)
            return count;
        tokens[best] = v->merges[rank].result;
        memmove(tokens + best + 1, tokens + best + 2, (size_t)(count - best - 2) * sizeof *tokens);
        count--;
    }
}

static void check_text(const bpe_vocabulary *v, const uint8_t *text, size_t n)
{
    int32_t got[longest], want[longest];
    int64_t count = 0;
    size_t bad;
    bpe_encoder *e;
    scion_error err = {0};
    fuzz_require(bpe_encoder_create(&e, v, &err) == SCION_OK);
    const int64_t made = bpe_encode(e, (const char *)text, n, got, &bad, NULL, &err);
    fuzz_require(bad == n);
    for (size_t at = 0, length; at < n; at += length) {
        length = v->pattern_count > 0 ? bpe_gpt2_word(text + at, n - at) : n;
        count += merge_plainly(v, text + at, length, want + count);
    }
    fuzz_require(made == count && memcmp(got, want, (size_t)count * sizeof *got) == 0);
    size_t back = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = bpe_bytes(v, got[i], &length);
        fuzz_require(back + length <= n && memcmp(bytes, text + back, length) == 0);
        back += length;
    }
    fuzz_require(back == n);
    bpe_encoder_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size}, pairs = fuzz_part(&in, 0xff);
    bpe_vocabulary v;
    scion_error err = {0};
    bpe_vocabulary_init(&v);
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        fuzz_require(bpe_add_token(&v, &byte, 1, false, &err) == SCION_OK);
    }
    for (int i = 0; i < 40 && pairs.left >= 2; i++) {
        const uint8_t left = fuzz_byte(&pairs);
        add_merge(&v, pick(&v, left), pick(&v, fuzz_byte(&pairs)));
    }
    const size_t n = in.left < longest ? in.left : longest;
    check_text(&v, in.at, n);
    fuzz_require(bpe_add_pattern(&v, bpe_gpt2_pattern, &err) == SCION_OK);
    check_text(&v, in.at, n);
    bpe_vocabulary_free(&v);
    return 0;
}
