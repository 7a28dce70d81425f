/* See text.h. A sample is a window of `block` tokens; its targets are the tokens that follow each. */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/random.h"
#include "util/fail.h"
#include "data/paths.h"
#include "data/text.h"

int data_token_width(int64_t range)
{
    return range <= 1 << 8 ? 1 : range <= 1 << 16 ? 2 : 4;
}

void data_put_token(void *tokens, int width, int64_t i, uint32_t token)
{
    switch (width) {
    case 1: ((uint8_t *)tokens)[i] = (uint8_t)token; break;
    case 2: ((uint16_t *)tokens)[i] = (uint16_t)token; break;
    default: ((uint32_t *)tokens)[i] = token;
    }
}

scion_status data_add_segment(data_set *d, data_part part, const data_segment *segment, scion_error *err)
{
    data_stream *stream = &((data_text *)d->state)->streams[d->whole ? DATA_VAL : part];
    data_segment *s = data_own(d, sizeof *s, err);
    if (!s)
        return SCION_ENOMEM;
    *s = *segment;
    s->start = stream->total;
    *(stream->last ? &stream->last->next : &stream->first) = s;
    stream->last = s;
    stream->count++;
    stream->total += s->count;
    return SCION_OK;
}

scion_status data_split(data_set *d, const data_segment *all, scion_error *err)
{
    const double fraction = d->options.val_fraction;
    if (!(fraction >= 0 && fraction <= 1))
        return train_fail(err, SCION_EINVAL, "val_fraction is %g, expected 0 to 1", fraction);
    data_segment train = *all, val = *all;
    val.count = (int64_t)(fraction * (double)all->count);
    train.count = all->count - val.count;
    val.tokens = (const char *)all->tokens + train.count * all->width;
    RETURN_IF_FAILED(data_add_segment(d, DATA_TRAIN, &train, err));
    return data_add_segment(d, DATA_VAL, &val, err);
}

void data_describe_split(data_set *d, const char *name)
{
    const double fraction = d->options.val_fraction;
    if (d->whole)
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s, all of it", name);
    else
        snprintf(d->info.held_out, sizeof d->info.held_out, "%s, the last %.3g %%", name, 100 * fraction);
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

static void widen(const void *tokens, int width, int64_t count, int32_t *to)
{
    if (width == 1)
        for (int64_t k = 0; k < count; k++)
            to[k] = ((const uint8_t *)tokens)[k];
    else if (width == 2)
        for (int64_t k = 0; k < count; k++)
            to[k] = ((const uint16_t *)tokens)[k];
    else
        memcpy(to, tokens, (size_t)count * sizeof *to);
}

/* Tokens of a file are checked: opening has not read all, and it may have changed. */
static scion_status read_file_tokens(const data_segment *s, int64_t range, int64_t first, int64_t count, int32_t *to,
                                     scion_error *err)
{
    enum { chunk = 2048 };
    uint32_t tokens[chunk]; /* of either width */
    for (int64_t done = 0, n; done < count; done += n) {
        n = scn_min(count - done, chunk);
        const int64_t offset = s->offset + (first + done) * s->width;
        RETURN_IF_FAILED(data_read_at(s->file, s->path, offset, tokens, (size_t)(n * s->width), err));
        widen(tokens, s->width, n, to + done);
        uint32_t largest = 0;
        for (int64_t k = 0; k < n; k++)
            largest = (uint32_t)to[done + k] > largest ? (uint32_t)to[done + k] : largest;
        if (largest >= range)
            return data_fail(err, SCION_EINVAL, s->path,
                             "token %lld near byte %lld, but the vocabulary has only %lld", (long long)largest,
                             (long long)offset, (long long)range);
    }
    return SCION_OK;
}

scion_status data_read_tokens(const data_segment *s, int64_t range, int64_t first, int64_t count, int32_t *to,
                              scion_error *err)
{
    if (!s->tokens)
        return read_file_tokens(s, range, first, count, to, err);
    widen((const char *)s->tokens + first * s->width, s->width, count, to);
    return SCION_OK;
}

/* Copies tokens [first, first + n) of a stream, which has that many. */
static scion_status copy_tokens(const data_stream *stream, int64_t range, int64_t first, int64_t n, int32_t *to,
                                scion_error *err)
{
    for (const data_segment *s = stream->first; n > 0; s = s->next) {
        const int64_t from = first - s->start, count = scn_min(s->count - from, n);
        if (count <= 0)
            continue;
        RETURN_IF_FAILED(data_read_tokens(s, range, from, count, to, err));
        first += count;
        n -= count;
        to += count;
    }
    return SCION_OK;
}

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const data_text *t = d->state;
    const data_stream *s = &t->streams[part];
    const int64_t range = d->info.arrays[d->info.input].range;
    int32_t *tokens = arrays[d->info.input], *targets = arrays[d->info.targets];
    int64_t first = sample * t->block;
    if (sample < 0) /* drawn; rounding does not reach s->total - block */
        first = (int64_t)(scn_uniform(d->seed, SCN_STREAM_WINDOWS, (uint64_t)number) * (double)(s->total - t->block));
    if (tokens)
        RETURN_IF_FAILED(copy_tokens(s, range, first, t->block, tokens, err));
    return targets ? copy_tokens(s, range, first + 1, t->block, targets, err) : SCION_OK;
}

scion_status data_text_ready(data_set *d, int64_t symbols, bool drawn, scion_error *err)
{
    data_text *t = d->state;
    const int64_t own = d->range > 0 ? d->range : symbols, block = d->options.block;
    const int64_t range = d->options.vocab > 0 ? d->options.vocab : own;
    if (range < symbols)
        return train_fail(err, SCION_EINVAL, "vocab is %lld, but the data have %lld symbols", (long long)range,
                          (long long)symbols);
    if (block < 1)
        return train_fail(err, SCION_EINVAL, "block is %lld, expected 1 or more", (long long)block);
    t->block = block;
    data_add_array(d, "tokens", DATA_INT32, 1, &block, range);
    data_add_array(d, "targets", DATA_INT32, 1, &block, range);
    d->info.sample_units = block;
    for (int part = 0; part < DATA_PARTS; part++) {
        const int64_t total = t->streams[part].total; /* the last token has no target */
        d->info.units[part] = total;
        d->info.samples[part] = total > 0 ? (total - 1) / block : 0;
    }
    d->fetch = fetch;
    d->order = drawn ? DATA_DRAWN : DATA_CYCLED;
    return SCION_OK;
}
