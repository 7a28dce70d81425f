/* Batches, of every kind of data alike: pure functions of the part, the index and the sizes. */
#include <string.h>

#include "base/random.h"
#include "data/data_set.h"

/* Streams of random numbers. */
/* ---- Tokens -------------------------------------------------------------------------------------------- */

/* Whole windows of a stream; its last token has no target. */
static int64_t window_count(const data_stream *s, int64_t block)
{
    return s->total > 0 ? (s->total - 1) / block : 0;
}

int64_t data_batches(const data_set *d, data_part part, int64_t batch, int64_t block)
{
    const int64_t n = d->info.tokens ? window_count(&d->streams[part], block) : d->pictures[part].count;
    const bool down = d->info.tokens && part == DATA_TRAIN;
    return n / batch + (!down && n % batch != 0);
}

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

/* Tokens [first, first + n) of a stream, which has that many. */
static void copy_tokens(const data_stream *s, int64_t first, int64_t n, int32_t *to)
{
    for (int i = segment_of(s, first); n > 0; i++) {
        const int64_t from = first - s->starts[i], left = s->segments[i].count - from, count = left < n ? left : n;
        const uint16_t *tokens = s->segments[i].tokens + from;
        for (int64_t k = 0; k < count; k++)
            to[k] = tokens[k];
        first += count;
        n -= count;
        to += count;
    }
}

void data_tokens(const data_set *d, data_part part, int64_t index, int64_t batch, int64_t block, int32_t *inputs,
                 int32_t *targets)
{
    const data_stream *s = &d->streams[part];
    const int64_t windows = window_count(s, block), places = s->total - block;
    for (int64_t b = 0; b < batch; b++, inputs += block, targets += block) {
        const int64_t number = index * batch + b;
        if (part == DATA_VAL && number >= windows) {
            memset(inputs, 0, (size_t)block * sizeof *inputs);
            memset(targets, 0xff, (size_t)block * sizeof *targets); /* -1 */
            continue;
        }
        int64_t first = number % windows * block;
        if (part == DATA_TRAIN && d->random_windows) /* below `places`, for the product is rounded to no more */
            first = (int64_t)(scn_uniform(d->seed, SCN_STREAM_WINDOWS, (uint64_t)number) * (double)places);
        copy_tokens(s, first, block, inputs);
        copy_tokens(s, first + 1, block, targets);
    }
}

/* ---- Images -------------------------------------------------------------------------------------------- */

/* 32 bits mixed so that each depends on all (the finalizer of MurmurHash3, by A. Appleby). */
static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Place of sample i in the order of an epoch: a keyed permutation of [0, n), four rounds of a Feistel network on the
 * next power of four, walked until it falls inside. */
static int64_t shuffled(uint64_t seed, int64_t epoch, int64_t i, int64_t n)
{
    const scn_words keys = scn_philox(seed, SCN_STREAM_SHUFFLE, (uint64_t)epoch);
    int half = 1;
    while (((int64_t)1 << 2 * half) < n)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int round = 0; round < 4; round++) {
            const uint64_t next = left ^ (mixed((uint32_t)right ^ keys.w[round]) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* Number of the image in row `row` of a part, counted over all epochs; the part's count or more: there is none. */
static int64_t image_at(const data_set *d, data_part part, int64_t row)
{
    const int64_t n = d->pictures[part].count;
    return part == DATA_TRAIN ? shuffled(d->seed, row / n, row % n, n) : row;
}

/* Asks for the memory of an image, which in a random order no machine foresees. */
static void fetch(const data_pictures *p, int64_t i, int64_t features)
{
    enum { line = 64 };
    for (int64_t k = 0; i < p->count && k < features; k += line)
        __builtin_prefetch(p->pixels + i * features + k);
}

void data_images(const data_set *d, data_part part, int64_t index, int64_t batch, float *pixels, int32_t *labels)
{
    const data_pictures *p = &d->pictures[part];
    const int64_t features = d->info.features, area = features / d->info.channels;
    int64_t next = image_at(d, part, index * batch);
    for (int64_t b = 0; b < batch; b++, pixels += features) {
        const int64_t i = next;
        next = image_at(d, part, index * batch + b + 1);
        fetch(p, next, features);
        if (i >= p->count) {
            labels[b] = -1;
            memset(pixels, 0, (size_t)features * sizeof *pixels);
            continue;
        }
        labels[b] = p->labels[i];
        for (int64_t c = 0; c < d->info.channels; c++) {
            const uint8_t *restrict from = p->pixels + i * features + c * area;
            float *restrict to = pixels + c * area;
            const float mean = d->mean[c], scale = d->scale[c];
            for (int64_t k = 0; k < area; k++)
                to[k] = ((float)from[k] - mean) * scale;
        }
    }
}
