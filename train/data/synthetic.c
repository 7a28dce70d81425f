/* Data out of nothing, for tests and benchmarks; deterministic in the seed.
 *     tokens (vocab > 0): each symbol is followed by one of four successors of its own, the first with probability
 *         0.7: entropy 0.94 nats, so a model that learns falls from ln(vocab) to about that.
 *     images (vocab = 0): noise around one prototype per class. */
#include <stdio.h>

#include "base/random.h"
#include "base/fail.h"
#include "data/data_set.h"

enum { text_tokens = 1 << 20, images_train = 4096, images_val = 1024, most_vocab = 65536, most_features = 1 << 20 };
static bool looks(const char *path)
{
    (void)path;
    return false; /* only by name */
}

static scion_status make_text(data_set *d, const data_options *o, scion_error *err)
{
    uint16_t *tokens = data_own(d, text_tokens * sizeof *tokens, err);
    uint16_t now = 0;
    if (!tokens)
        return SCION_ENOMEM;
    d->info.tokens = true;
    d->info.vocab = o->vocab;
    d->random_windows = true;
    for (int64_t i = 0; i < text_tokens; i++) {
        double u = scn_uniform(o->seed, SCN_STREAM_TEXT, (uint64_t)i);
        uint64_t branch = u < 0.7 ? 0 : u < 0.8 ? 1 : u < 0.9 ? 2 : 3;
        uint32_t next = scn_philox(o->seed, SCN_STREAM_NEXT, (uint64_t)now * 4 + branch).w[0];
        now = (uint16_t)(next % (uint64_t)o->vocab);
        tokens[i] = now;
    }
    snprintf(d->info.description, sizeof d->info.description, "synthetic text, %d tokens of %lld kinds", text_tokens,
             (long long)o->vocab);
    return data_split(d, o, tokens, text_tokens, err);
}

static scion_status make_images(data_set *d, const data_options *o, scion_error *err)
{
    const int64_t n = images_train + images_val, features = o->features;
    scn_words random = {{0}};
    uint8_t *pixels = data_own(d, (size_t)(n * features), err), *labels = pixels ? data_own(d, (size_t)n, err) : NULL;
    float *prototypes = labels ? data_own(d, (size_t)(o->classes * features) * sizeof *prototypes, err) : NULL;
    if (!prototypes)
        return SCION_ENOMEM;
    for (int64_t k = 0; k < o->classes * features; k++)
        prototypes[k] = (float)scn_uniform(o->seed, SCN_STREAM_PROTOTYPE, (uint64_t)k);
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (uint8_t)(scn_philox(o->seed, SCN_STREAM_LABEL, (uint64_t)i).w[0] % (uint64_t)o->classes);
        for (int64_t k = 0; k < features; k++) {
            const int64_t at = i * features + k;
            if (at % 4 == 0)
                random = scn_philox(o->seed, SCN_STREAM_NOISE, (uint64_t)at / 4);
            const float noise = (float)random.w[at % 4] * 0x1p-32f;
            pixels[at] = (uint8_t)(255 * (0.35f * prototypes[labels[i] * features + k] + 0.65f * noise));
        }
    }
    d->info.channels = 1;
    d->info.height = 1;
    d->info.width_px = d->info.features = features;
    d->info.classes = o->classes;
    d->pictures[DATA_TRAIN] = (data_pictures){pixels, labels, images_train};
    d->pictures[DATA_VAL] = (data_pictures){pixels + images_train * features, labels + images_train, images_val};
    data_standardise(d);
    snprintf(d->info.description, sizeof d->info.description, "synthetic images, %lld features, %lld classes",
             (long long)features, (long long)o->classes);
    return SCION_OK;
}

static scion_status open_synthetic(data_set *d, const data_options *o, scion_error *err)
{
    if (o->vocab > most_vocab)
        return train_fail(err, SCION_EINVAL, "vocab is %lld, at most %d are possible", (long long)o->vocab,
                          most_vocab);
    if (o->vocab > 0)
        return make_text(d, o, err);
    if (o->features < 1 || o->features > most_features || o->classes < 2 || o->classes > 256)
        return train_fail(err, SCION_EINVAL,
                          "synthetic images have 1 to %d features and 2 to 256 classes, not %lld and %lld",
                          most_features, (long long)o->features, (long long)o->classes);
    return make_images(d, o, err);
}

const data_kind data_kind_synthetic = {.name = "synthetic", .looks = looks, .open = open_synthetic, .no_path = true};
