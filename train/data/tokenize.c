/* See tokenize.h. Documents are cut into pieces where the tokenizer knows a place for it. Threads encode a batch of
 * pieces, the calling thread hands over their tokens in order, and the next batch follows: memory stays bounded, and
 * the result does not depend on the number of threads. */
#include "data/tokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/fail.h"
#include "util/utf8.h"
#include "data/paths.h"

enum { piece_bytes = 1 << 20, batch_bytes = 8 << 20, batch_pieces = 4096 };

typedef struct piece {
    size_t start, count; /* bytes of the texts */
    int64_t document;
    bool begins, ends; /* its document */
    int32_t *tokens;   /* of the batch's space: one for each byte, and one for the separator */
    int64_t token_count, skipped;
    size_t bad; /* where encoding ended; `count`: nowhere */
    scion_error err;
} piece;

typedef struct batch {
    piece *pieces;
    int64_t count;
    size_t bytes;
    int32_t *space;
    size_t capacity;
} batch;

/* The end of document i: without a separator, the start of the next one. */
static size_t end_of(const data_texts *texts, const data_tokenizing *how, int64_t i)
{
    const data_document *d = &texts->documents[i];
    if (tokenizer_separator(how->tokenizer) >= 0)
        return d->start + d->count;
    return i + 1 < texts->document_count ? d[1].start : texts->count;
}

/* Adds the piece of document i that begins at `from`. Returns its end. */
static size_t add_piece(batch *b, const data_texts *texts, const data_tokenizing *how, int64_t i, size_t from)
{
    const char *bytes = (const char *)texts->bytes;
    const size_t end = end_of(texts, how, i);
    size_t count = end - from;
    if (count > piece_bytes) {
        const size_t cut = tokenizer_cut(how->tokenizer, bytes + from, piece_bytes);
        count = cut > 0 ? cut : count;
    }
    b->pieces[b->count++] = (piece){.start = from,
                                    .count = count,
                                    .document = i,
                                    .begins = from == texts->documents[i].start,
                                    .ends = from + count == end};
    b->bytes += count;
    return from + count;
}

/* Gives each piece its space for tokens. */
static bool make_space(batch *b)
{
    const size_t wanted = b->bytes + (size_t)b->count;
    if (wanted > b->capacity) {
        free(b->space);
        b->space = malloc(wanted * sizeof *b->space);
        b->capacity = b->space ? wanted : 0;
    }
    int32_t *at = b->space;
    for (int64_t i = 0; b->space && i < b->count; i++) {
        b->pieces[i].tokens = at;
        at += b->pieces[i].count + 1;
    }
    return b->space != NULL;
}

static void encode_piece(piece *p, const data_texts *texts, const data_tokenizing *how)
{
    const char *bytes = (const char *)texts->bytes + p->start;
    const int32_t separator = tokenizer_separator(how->tokenizer);
    size_t from = 0, bad;
    if (separator >= 0 && p->begins)
        p->tokens[p->token_count++] = separator;
    for (;;) {
        p->token_count += tokenizer_encode(how->tokenizer, bytes + from, p->count - from, p->tokens + p->token_count,
                                           &bad, &p->err);
        p->bad = from + bad;
        if (p->bad == p->count || !how->skip_unknown)
            return;
        uint32_t code;
        const int length = utf8_decode(bytes + p->bad, p->count - p->bad, &code);
        from = p->bad + (size_t)(length > 0 ? length : 1);
        p->skipped++;
    }
}

/* Names the place that has no token. */
static scion_status refuse(const data_texts *texts, const piece *p, scion_error *err)
{
    int64_t line;
    size_t byte;
    const char *path = data_text_place(texts, p->start + p->bad, &line, &byte);
    return data_fail(err, SCION_EINVAL, path, "line %lld: %s; skip_unknown=yes leaves it out", (long long)line,
                     p->err.message);
}

static scion_status hand_over(const data_texts *texts, const data_tokenizing *how, const batch *b, scion_error *err)
{
    for (int64_t i = 0; i < b->count; i++) {
        const piece *p = &b->pieces[i];
        if (p->bad < p->count)
            return refuse(texts, p, err);
        if (how->skipped)
            *how->skipped += p->skipped;
        RETURN_IF_FAILED(how->take(how->ctx, p->tokens, p->token_count, p->ends ? p->document : -1, err));
    }
    return SCION_OK;
}

scion_status data_tokenize(const data_texts *texts, const data_tokenizing *how, scion_error *err)
{
    const int threads = scn_threads(0);
    int64_t i = how->first;
    size_t from = i < texts->document_count ? texts->documents[i].start : texts->count;
    const size_t first = from;
    batch b = {.pieces = malloc(batch_pieces * sizeof *b.pieces)};
    scion_status status = b.pieces ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the tokens");
    while (status == SCION_OK && i < texts->document_count) {
        b.count = 0;
        b.bytes = 0;
        while (i < texts->document_count && b.bytes < batch_bytes && b.count < batch_pieces) {
            from = add_piece(&b, texts, how, i, from);
            if (b.pieces[b.count - 1].ends && ++i < texts->document_count)
                from = texts->documents[i].start;
        }
        if (!make_space(&b))
            TRY(train_fail(err, SCION_ENOMEM, "out of memory for the tokens"));
        SCN_PARALLEL(threads, k, b.count, encode_piece(&b.pieces[k], texts, how));
        TRY(hand_over(texts, how, &b, err));
        if (how->progress)
            how->progress(how->ctx, (double)(from - first) / (double)(texts->count - first));
    }
done:
    free(b.space);
    free(b.pieces);
    return status;
}
