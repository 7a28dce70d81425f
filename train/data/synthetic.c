/* Synthetic data for tests and benchmarks, determined by the seed.
 *     tokens: each symbol has four successors of its own, the first with probability 0.7: entropy 0.94 nats, so the
 *         loss of a model that learns falls from ln(vocab) to about that.
 *     images: noise around one prototype per class; 28 x 28 grey pixels, or image_size x image_size in colour. */
#include <stdio.h>

#include "base/random.h"
#include "util/fail.h"
#include "data/images.h"
#include "data/text.h"

enum { text_tokens = 1 << 20, default_vocab = 64 };
enum { max_images = 4096, max_bytes = 12 << 20, default_side = 28, colours = 3, classes = 10 };

static scion_status make_text(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const int64_t vocab = o->vocab > 0 ? o->vocab : default_vocab;
    const int width = data_token_width(vocab);
    uint64_t now = 0;
    void *tokens = data_own(d, (size_t)text_tokens * (size_t)width, err);
    if (!tokens)
        return SCION_ENOMEM;
    for (int64_t i = 0; i < text_tokens; i++) {
        double u = scn_uniform(context->seed, SCN_STREAM_TEXT, (uint64_t)i);
        uint64_t branch = u < 0.7 ? 0 : u < 0.8 ? 1 : u < 0.9 ? 2 : 3;
        uint32_t next = scn_philox(context->seed, SCN_STREAM_NEXT, now * 4 + branch).w[0];
        now = next % (uint64_t)vocab;
        data_put_token(tokens, width, i, (uint32_t)now);
    }
    snprintf(d->info.description, sizeof d->info.description, "synthetic text, %d tokens of %lld kinds", text_tokens,
             (long long)vocab);
    data_hash(d, tokens, (size_t)text_tokens * (size_t)width);
    data_describe_split(d, "synthetic text");
    const data_segment all = {.tokens = tokens, .width = width, .count = text_tokens};
    RETURN_IF_FAILED(data_split(d, &all, err));
    return data_text_ready(d, vocab, true, err);
}

static scion_status make_images(data_set *d, const data_context *context, scion_error *err)
{
    const int64_t size = ((const data_image_options *)data_own_options(d))->image_size;
    const int64_t side = size > 0 ? size : default_side, channels = size > 0 ? colours : 1;
    const int64_t features = channels * side * side, fit = max_bytes / features;
    const int64_t train = fit >= max_images ? max_images : fit > 4 ? fit : 4, n = train + train / 4;
    scn_words random = {{0}};
    data_images *m = d->state;
    uint8_t *pixels = data_own(d, (size_t)(n * features), err);
    int32_t *labels = pixels ? data_own(d, (size_t)n * sizeof *labels, err) : NULL;
    float *prototypes = labels ? data_own(d, (size_t)(classes * features) * sizeof *prototypes, err) : NULL;
    if (!prototypes)
        return SCION_ENOMEM;
    for (int64_t k = 0; k < classes * features; k++)
        prototypes[k] = (float)scn_uniform(context->seed, SCN_STREAM_PROTOTYPE, (uint64_t)k);
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (int32_t)(scn_philox(context->seed, SCN_STREAM_LABEL, (uint64_t)i).w[0] % classes);
        for (int64_t k = 0; k < features; k++) {
            const int64_t at = i * features + k;
            if (at % 4 == 0)
                random = scn_philox(context->seed, SCN_STREAM_NOISE, (uint64_t)at / 4);
            const float noise = (float)random.w[at % 4] * 0x1p-32f;
            pixels[at] = (uint8_t)(255 * (0.35f * prototypes[labels[i] * features + k] + 0.65f * noise));
        }
    }
    m->about = (data_image_info){.channels = channels, .height = side, .width = side, .classes = classes};
    m->part[DATA_TRAIN] = (data_image_part){pixels, labels, train};
    m->part[DATA_VAL] = (data_image_part){pixels + train * features, labels + train, n - train};
    snprintf(d->info.description, sizeof d->info.description, "synthetic images, %lld x %lld in %s, %d classes",
             (long long)side, (long long)side, channels == 1 ? "grey" : "colour", classes);
    return data_images_ready(d, context, err);
}

/* Makes images if the model reads some, else a text. */
static scion_status open_synthetic(data_set *d, const data_options *o, const data_context *context, scion_error *err)
{
    const bool images = context->wants && data_content_of(context->wants[0])->images;
    return images ? make_images(d, context, err) : make_text(d, o, context, err);
}

const data_kind data_kind_synthetic = {
    .name = "synthetic",
    .help = "random text or images with something to learn",
    .images = true,
    .no_path = true,
    .state_bytes = sizeof(data_text) > sizeof(data_images) ? sizeof(data_text) : sizeof(data_images),
    .open = open_synthetic,
    .options = data_image_option_rows,
    .options_size = sizeof(data_image_options),
};
