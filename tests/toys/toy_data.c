/* A kind of data in one file and one row of toy_rows.c: "dots", images of 4 x 4 pixels in which one pixel is lit,
 * and the pixel is the class. They are made one by one, as an image folder would decode its files: ahead, in the
 * background. */
#include <stdio.h>
#include <string.h>

#include "util/fail.h"
#include "base/random.h"
#include "data/data_kind.h"

enum { side = 4, classes = side * side, stream_dot = 0x7000, stream_noise = 0x7001 };

typedef struct dots_options {
    int64_t count;
    double noise;
} dots_options;

static const option options[] = {
    OPTION_INT_ROW(dots_options, count, "dots", "64", 1, 1e6, "images to train"),
    OPTION_REAL_ROW(dots_options, noise, "noise", "0.1", 0, 10, "amplitude of what is added to the pixels"),
    OPTION_END,
};

static scion_status fetch(const data_set *d, data_part part, int64_t sample, int64_t number, void *const arrays[],
                          scion_error *err)
{
    const dots_options *o = data_own_options(d);
    const uint64_t image = (uint64_t)(part == DATA_VAL ? o->count + sample : sample);
    const int32_t class = (int32_t)(scn_philox(d->seed, stream_dot, image).w[0] % classes);
    float *pixels = arrays[0];
    (void)number;
    (void)err;
    for (int k = 0; pixels && k < classes; k++)
        pixels[k] =
            (float)(4 * (k == class) + o->noise * scn_uniform(d->seed, stream_noise, classes * image + (uint64_t)k));
    if (arrays[1])
        *(int32_t *)arrays[1] = class;
    return SCION_OK;
}

static scion_status open_dots(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const dots_options *own = data_own_options(d);
    const int64_t shape[] = {1, side, side};
    (void)o;
    (void)context;
    (void)err;
    data_add_array(d, "pixels", DATA_FLOAT32, 3, shape, 0);
    data_add_array(d, "targets", DATA_INT32, 0, NULL, classes);
    d->info.sample_units = 1;
    d->info.units[DATA_TRAIN] = d->info.samples[DATA_TRAIN] = own->count;
    d->info.units[DATA_VAL] = d->info.samples[DATA_VAL] = 20;
    d->fetch = fetch;
    d->background = true;
    snprintf(d->info.description, sizeof d->info.description, "%lld dots", (long long)own->count);
    return SCION_OK;
}

const data_kind data_kind_dots = {
    .name = "dots",
    .help = "one lit pixel",
    .no_path = true,
    .open = open_dots,
    .options = options,
    .options_size = sizeof(dots_options),
};
