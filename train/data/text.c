/* Text as streams of tokens. A sample is a window of `block` tokens, its targets are the same shifted by one. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "data/data_kind.h"

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

scion_status data_add_segment(data_set *d, data_part part, const void *tokens, int width, int64_t count,
                              scion_error *err)
{
    data_stream *s = &((data_text *)d->state)->streams[part];
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
    s->segments[s->count] = (data_segment){tokens, width, count};
    s->starts[s->count++] = s->total;
    s->total += count;
    return SCION_OK;
}

scion_status data_split(data_set *d, const void *tokens, int width, int64_t count, scion_error *err)
{
    const double fraction = d->options.val_fraction;
    if (!(fraction >= 0 && fraction <= 1))
        return train_fail(err, SCION_EINVAL, "val_fraction is %g, expected 0 to 1", fraction);
    const int64_t val = (int64_t)(fraction * (double)count), train = count - val;
    scion_status status = data_add_segment(d, DATA_TRAIN, tokens, width, train, err);
    if (status == SCION_OK)
        status = data_add_segment(d, DATA_VAL, (const char *)tokens + train * width, width, val, err);
    return status;
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

/* The segment that holds token `first`: the last that starts at or before it. */
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

/* Tokens [first, first + n) of a stream, which has that many. */
static void copy_tokens(const data_stream *s, int64_t first, int64_t n, int32_t *to)
{
    for (int i = segment_of(s, first); n > 0; i++) {
        const int64_t from = first - s->starts[i], left = s->segments[i].count - from, count = left < n ? left : n;
        widen(&s->segments[i], from, count, to);
        first += count;
        n -= count;
        to += count;
    }
}

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const data_text *t = d->state;
    const data_stream *s = &t->streams[part];
    int64_t first = sample * t->block;
    (void)err;
    if (sample < 0) /* drawn; below the number of places, since the product is rounded to no more */
        first = (int64_t)(scn_uniform(d->seed, SCN_STREAM_WINDOWS, (uint64_t)number) * (double)(s->total - t->block));
    if (arrays[0])
        copy_tokens(s, first, t->block, arrays[0]);
    if (arrays[1])
        copy_tokens(s, first + 1, t->block, arrays[1]);
    return SCION_OK;
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
