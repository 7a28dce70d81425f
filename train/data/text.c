/* See text.h. A sample is a window of `block` tokens; its targets are the tokens that follow each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "base/random.h"
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
    data_stream *s = &((data_text *)d->state)->streams[d->whole ? DATA_VAL : part];
    if (s->count == s->capacity) {
        const int capacity = s->capacity > 0 ? 2 * s->capacity : 4;
        data_segment *segments = data_own(d, (size_t)capacity * sizeof *segments, err);
        int64_t *starts = segments ? data_own(d, (size_t)capacity * sizeof *starts, err) : NULL;
        if (!starts)
            return SCION_ENOMEM;
        if (s->count > 0) {
            memcpy(segments, s->segments, (size_t)s->count * sizeof *segments);
            memcpy(starts, s->starts, (size_t)s->count * sizeof *starts);
        }
        s->segments = segments;
        s->starts = starts;
        s->capacity = capacity;
    }
    s->segments[s->count] = *segment;
    s->starts[s->count++] = s->total;
    s->total += segment->count;
    return SCION_OK;
}

scion_status data_split(data_set *d, const void *tokens, int width, int64_t count, scion_error *err)
{
    const double fraction = d->options.val_fraction;
    if (!(fraction >= 0 && fraction <= 1))
        return train_fail(err, SCION_EINVAL, "val_fraction is %g, expected 0 to 1", fraction);
    const int64_t val = (int64_t)(fraction * (double)count), train = count - val;
    const data_segment first = {.tokens = tokens, .width = width, .count = train};
    const data_segment last = {.tokens = (const char *)tokens + train * width, .width = width, .count = val};
    scion_status status = data_add_segment(d, DATA_TRAIN, &first, err);
    return status == SCION_OK ? data_add_segment(d, DATA_VAL, &last, err) : status;
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

/* Index of the segment that holds token `first`: the last that starts at or before it. */
static int segment_of(const data_stream *s, int64_t first)
{
    int low = 0, high = s->count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (s->starts[middle] <= first)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void widen(const data_segment *s, int64_t from, int64_t count, int32_t *to)
{
    if (s->width == 1)
        for (int64_t k = 0; k < count; k++)
            to[k] = ((const uint8_t *)s->tokens)[from + k];
    else if (s->width == 2)
        for (int64_t k = 0; k < count; k++)
            to[k] = ((const uint16_t *)s->tokens)[from + k];
    else
        memcpy(to, (const int32_t *)s->tokens + from, (size_t)count * sizeof *to);
}

/* The same from a file. Its tokens are checked: opening has not read all, and it may have changed. */
static scion_status read_tokens(const data_segment *s, int64_t range, int64_t from, int64_t count, int32_t *to,
                                scion_error *err)
{
    enum { chunk = 2048 };
    uint16_t tokens[chunk];
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < chunk ? count - done : chunk;
        const int64_t offset = s->offset + (from + done) * (int64_t)sizeof *tokens;
        const scion_status status = data_read_at(s->file, s->path, offset, tokens, (size_t)n * sizeof *tokens, err);
        if (status != SCION_OK)
            return status;
        int32_t largest = 0;
        for (int64_t k = 0; k < n; k++) {
            to[done + k] = tokens[k];
            largest = tokens[k] > largest ? tokens[k] : largest;
        }
        if (largest >= range)
            return data_fail(err, SCION_EINVAL, s->path, "token %d near byte %lld, but the vocabulary has only %lld",
                             (int)largest, (long long)offset, (long long)range);
    }
    return SCION_OK;
}

/* Copies tokens [first, first + n) of a stream, which has that many. */
static scion_status copy_tokens(const data_stream *s, int64_t range, int64_t first, int64_t n, int32_t *to,
                                scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = segment_of(s, first); status == SCION_OK && n > 0; i++) {
        const int64_t from = first - s->starts[i], left = s->segments[i].count - from, count = left < n ? left : n;
        if (s->segments[i].tokens)
            widen(&s->segments[i], from, count, to);
        else
            status = read_tokens(&s->segments[i], range, from, count, to, err);
        first += count;
        n -= count;
        to += count;
    }
    return status;
}

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const data_text *t = d->state;
    const data_stream *s = &t->streams[part];
    const int64_t range = d->info.arrays[d->info.input].range;
    int32_t *tokens = arrays[d->info.input], *targets = arrays[d->info.targets];
    int64_t first = sample * t->block;
    scion_status status = SCION_OK;
    if (sample < 0) /* drawn; rounding does not reach s->total - block */
        first = (int64_t)(scn_uniform(d->seed, SCN_STREAM_WINDOWS, (uint64_t)number) * (double)(s->total - t->block));
    if (tokens)
        status = copy_tokens(s, range, first, t->block, tokens, err);
    if (!targets || status != SCION_OK)
        return status;
    if (!tokens)
        return copy_tokens(s, range, first + 1, t->block, targets, err);
    memcpy(targets, tokens + 1, (size_t)(t->block - 1) * sizeof *targets);
    return copy_tokens(s, range, first + t->block, 1, targets + t->block - 1, err);
}

scion_status data_text_ready(data_set *d, int64_t symbols, bool drawn, scion_error *err)
{
    data_text *t = d->state;
    const int64_t range = d->options.vocab > 0 ? d->options.vocab : symbols, block = d->options.block;
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
