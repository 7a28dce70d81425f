/* Images in memory: bytes, standardised by channel to mean 0 and mean square 1 as they are copied out. */
#include <math.h>
#include <stdio.h>

#include "data/data_kind.h"

/* Sum and sum of squares of n bytes: whole numbers, so exact in any order; 4096 squares of bytes fit in 32 bits. */
static void add_moments(const uint8_t *x, int64_t n, uint64_t *sum, uint64_t *squares)
{
    enum { run = 4096 };
    for (int64_t i = 0; i < n; i += run) {
        uint32_t s = 0, q = 0;
        for (int64_t k = i; k < n && k < i + run; k++) {
            s += x[k];
            q += (uint32_t)x[k] * x[k];
        }
        *sum += s;
        *squares += q;
    }
}

static void standardise(data_images *m)
{
    const int64_t area = m->height * m->width, count = m->part[DATA_TRAIN].count;
    for (int64_t c = 0; c < m->channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++)
            add_moments(m->part[DATA_TRAIN].pixels + (i * m->channels + c) * area, area, &sum, &squares);
        const double n = (double)count * (double)area, mean = (double)sum / n;
        const double variance = (double)squares / n - mean * mean;
        m->mean[c] = (float)mean;
        m->scale[c] = (float)(variance > 0 ? 1 / sqrt(variance) : 1);
    }
}

/* Where a sample is: of a whole set, the training images come first. */
static void place_of(const data_set *d, data_part *part, int64_t *sample)
{
    const data_images *m = d->state;
    if (!d->whole)
        return;
    *part = *sample < m->part[DATA_TRAIN].count ? DATA_TRAIN : DATA_VAL;
    *sample -= *part == DATA_VAL ? m->part[DATA_TRAIN].count : 0;
}

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const data_images *m = d->state;
    const int64_t area = m->height * m->width;
    (void)number;
    (void)err;
    place_of(d, &part, &sample);
    for (int64_t c = 0; arrays[0] && c < m->channels; c++) {
        const uint8_t *restrict from = m->part[part].pixels + (sample * m->channels + c) * area;
        float *restrict to = (float *)arrays[0] + c * area;
        const float mean = m->mean[c], scale = m->scale[c];
        for (int64_t k = 0; k < area; k++)
            to[k] = ((float)from[k] - mean) * scale;
    }
    if (arrays[1])
        *(int32_t *)arrays[1] = m->part[part].labels[sample];
    return SCION_OK;
}

/* The next image, which in a random order no machine foresees. */
static void hint(const data_set *d, data_part part, int64_t sample)
{
    enum { line = 64 };
    const data_images *m = d->state;
    const int64_t features = m->channels * m->height * m->width;
    place_of(d, &part, &sample);
    for (int64_t k = 0; k < features; k += line)
        __builtin_prefetch(m->part[part].pixels + sample * features + k);
}

void data_images_ready(data_set *d)
{
    data_images *m = d->state;
    const int64_t shape[] = {m->channels, m->height, m->width};
    standardise(m);
    data_add_array(d, "pixels", DATA_FLOAT32, 3, shape, 0);
    data_add_array(d, "targets", DATA_INT32, 0, NULL, m->classes);
    d->info.sample_units = 1;
    for (int part = 0; part < DATA_PARTS; part++) {
        d->info.units[d->whole ? DATA_VAL : part] += m->part[part].count;
        data_hash(d, m->part[part].pixels, (size_t)(m->part[part].count * m->channels * m->height * m->width));
        data_hash(d, m->part[part].labels, (size_t)m->part[part].count * sizeof *m->part[part].labels);
    }
    for (int part = 0; part < DATA_PARTS; part++)
        d->info.samples[part] = d->info.units[part];
    snprintf(d->info.held_out, sizeof d->info.held_out, "%s, %s images",
             d->options.path[0] ? data_tail(d->options.path, 90) : d->kind->name, d->whole ? "all" : "the test");
    d->fetch = fetch;
    d->hint = hint;
    d->order = DATA_SHUFFLED;
}
