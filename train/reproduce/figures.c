/* The table of figures. See reproduce.h.
 *
 * The small sizes keep what a figure is about (layers, norms, radii, schedules, at least four widths over a factor of
 * eight) and save on what costs: narrow models with heads of 32, sequences of 128 characters instead of 1024, batches
 * of 8 instead of 32. */
#include "reproduce/reproduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "sweep/grid.h"

#define SHORT " batch=8 block=128 eval_batches=32"
#define WIDTHS " width=32..256:*2 head_size=32 lr=2^-10..2^-1"
#define PAPER " width=256..4096:*2 lr=2^-10..2^-1"

/* NanoGPT's settings for a text of characters: three layers, no tokens; the constant part and the decay of the step
 * size keep their shares. */
#define NANO " layers=3 head_size=32 vocab=0 data_kind=chars accum=1 eval_every=0"
#define NANO_SHORT NANO SHORT " steps=120 decay=34"

/* The same 262144 characters in batches of 4 to 64 sequences, so in 512 to 32 steps; the best of eight step sizes at
 * each. Settings are those of the shallow GPT, whose radii the paper tuned for this text (those of NanoGPT are for
 * 50304 symbols); Muon, which that table does not have, takes NanoGPT's multiplier and AdamW's start. */
#define BATCH " width=128 head_size=32 block=128 eval_batches=0"
#define BATCHES(part)                                                                                   \
    part BATCH " batch=4 steps=512", part BATCH " batch=8 steps=256", part BATCH " batch=16 steps=128", \
        part BATCH " batch=32 steps=64", part BATCH " batch=64 steps=32"
/* The paper's own: NanoGPT in batches of 512 to 6144 sequences. */
#define LARGE(preset, w512, w1024, w2048, w6144)                                                                  \
    preset " lr=2^-17..2^-5 warmup=" w512, preset " lr=2^-17..2^-5 accum=128 steps=2550 decay=725 warmup=" w1024, \
        preset " lr=2^-17..2^-5 accum=256 steps=1275 decay=363 warmup=" w2048,                                    \
        preset " lr=2^-17..2^-5 accum=768 steps=425 decay=121 warmup=" w6144

static const reproduce_data text = {"a text", "FILE (scion train without arguments says where to get one)", NULL,
                                    true};

/* Debian's package dataset-fashion-mnist has that path. */
static const reproduce_data images = {"images", "FOLDER of Fashion-MNIST or CIFAR-10",
                                      "/usr/share/datasets/fashion-mnist", false};

static const reproduce_figure table[] = {
    {
        .name = "mlp-transfer",
        .title = "MLP: the best step size against width, for three norms of the output layer",
        .claim =
            "with Spectral, RowNorm or Sign as norm of the output layer the best step size of a 3-layer MLP does "
            "not depend on its width",
        .data = &images,
        .small = {"mlp norms=spectral,spectral,spectral/spectral,spectral,rownorm/spectral,spectral,sign"
                  " width=64..512:*2 lr=2^-12..2^-3 batch=512 epochs=2"},
        .full = {"mlp norms=spectral,spectral,spectral/spectral,spectral,rownorm/spectral,spectral,sign"
                 " width=64..4096:*2 lr=2^-14..2^-2"},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "shallow-gpt-transfer",
        .title = "Shallow GPT: the best step size against width, for three norms of the input layer",
        .claim = "with Sign, Spectral or ColNorm as norm of the input layer the best step size of Scion and "
                 "Unconstrained Scion does not depend on the width of a 3-layer GPT",
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion "
                  "norms=sign,spectral,sign/spectral,spectral,sign/colnorm,spectral,sign" WIDTHS SHORT,
                  "shallow-gpt-adamw" WIDTHS SHORT},
        .full = {"shallow-gpt rule=scion,uscion "
                 "norms=sign,spectral,sign/spectral,spectral,sign/colnorm,spectral,sign" PAPER,
                 "shallow-gpt-adamw" PAPER},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "shallow-gpt-same-norm",
        .title = "Shallow GPT: the best step size against width, with one norm in all layers",
        .claim = "with Sign, ColNorm or RowNorm in every layer, scaled layer by layer, the best step size does not "
                 "depend on the width of a 3-layer GPT",
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion norms=sign/colnorm/rownorm" WIDTHS SHORT},
        .full = {"shallow-gpt rule=scion,uscion norms=sign/colnorm/rownorm" PAPER},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "gpt-transfer",
        .title = "NanoGPT: the best step size against width, for four optimizers",
        .claim =
            "the best step size of Scion and Unconstrained Scion does not depend on the width of NanoGPT, that of "
            "Muon and AdamW does",
        .data = &text,
        .small = {"nanogpt-124m width=32..256:*2 lr=2^-14..2^-5" NANO_SHORT,
                  "nanogpt-124m-uscion width=32..256:*2 lr=2^-14..2^-5" NANO_SHORT,
                  "nanogpt-124m-muon width=32..256:*2 lr=2^-11..2^-2" NANO_SHORT,
                  "nanogpt-124m-adamw width=32..256:*2 lr=2^-12..2^-3" NANO_SHORT " warmup=6"},
        .full = {"nanogpt-124m width=512,768,1280,2560 lr=2^-17..2^-5",
                 "nanogpt-124m-uscion width=512,768,1280,2560 lr=2^-17..2^-5",
                 "nanogpt-124m-muon width=512,768,1280,2560 lr=2^-17..2^-5",
                 "nanogpt-124m-adamw width=512,768,1280,2560 lr=2^-17..2^-5"},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "batch-size",
        .title = "Loss against batch size, with a fixed number of tokens",
        .claim = "with a fixed number of tokens the loss of Scion rises less with the size of the batch than that of "
                 "Muon and AdamW",
        .data = &text,
        .small = {BATCHES("shallow-gpt lr=2^-8..2^-1"),
                  BATCHES("shallow-gpt rule=muon radius_hidden=1 boundary_init=no lr=2^-9..2^-2"),
                  BATCHES("shallow-gpt-adamw lr=2^-11..2^-4")},
        .full = {LARGE("nanogpt-124m", "0", "0", "0", "0"), LARGE("nanogpt-124m-uscion", "0", "0", "0", "0"),
                 LARGE("nanogpt-124m-muon", "0", "0", "0", "0"),
                 LARGE("nanogpt-124m-adamw", "255", "128", "64", "21")},
        .judge = reproduce_judge_batch,
    },
    {
        .name = "spectral-norms",
        .title = "Norms of the weights during training",
        .claim = "the norms of the weights stay within their bounds under Scion, and end smaller than under "
                 "Unconstrained Scion",
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion width=128 lr=2^-4 steps=488 batch=8 block=128",
                  "shallow-gpt-adamw width=128 lr=2^-8 steps=488 batch=8 block=128"},
        .full = {"nanogpt-124m", "nanogpt-124m-uscion", "nanogpt-124m-adamw"},
        .judge = reproduce_judge_norms,
    },
    {
        .name = "epochs-sweep",
        .title = "Norms of the weights against the number of epochs",
        .claim =
            "with a fixed step size the norms of the weights grow like the square root of the number of steps under "
            "Unconstrained Scion, and stay bounded under Scion",
        .data = &images,
        .small = {"mlp rule=scion,uscion width=128 lr=2^-7 batch=512 epochs=1,2,4,8,16 schedule=constant"},
        .full = {"mlp rule=scion,uscion width=512 lr=2^-7 epochs=5,10,20,40,80 schedule=constant"},
        .judge = reproduce_judge_epochs,
    },
    {
        .name = "input-radius",
        .title = "Coordinate check of the input layer",
        .claim = "where the input is wider than the first layer, preactivations grow with the width under the scale "
                 "sqrt(d_out/d_in) of the spectral norm, and are constant under max(1, sqrt(d_out/d_in))",
        .make = reproduce_input_radius,
    },
    {
        .name = "rates",
        .title = "Rates of convergence",
        .claim = "with steps of 1/sqrt(n) the dual norm of the gradient and the Frank-Wolfe gap fall like n^(-1/2) "
                 "without noise; with noise and vanishing momentum they fall like n^(-1/4) or faster",
        .make = reproduce_rates,
    },
};

enum { figures = sizeof table / sizeof *table };

const reproduce_figure *reproduce_at(int i)
{
    return i >= 0 && i < figures ? &table[i] : NULL;
}

const reproduce_figure *reproduce_find(const char *name)
{
    for (int i = 0; i < figures; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* Adds the grid of one part to points. */
static scion_status add_part(const char *part, const char *data, config **points, int64_t *count, scion_error *err)
{
    enum { max_words = 32 };
    char line[1024], path[CONFIG_TEXT + 8];
    const char *words[max_words];
    int found = 0;
    config base;
    grid g = {NULL, 0};
    snprintf(line, sizeof line, "%s", part);
    for (char *at = strtok(line, " "); at && found < max_words - 1; at = strtok(NULL, " "))
        words[found++] = at;
    if (data) {
        snprintf(path, sizeof path, "data=%.255s", data);
        words[found++] = path;
    }
    config_init(&base);
    scion_status status = config_preset(&base, words[0], err);
    if (status == SCION_OK)
        status = grid_make(&g, &base, words + 1, found - 1, err);
    config *more = status == SCION_OK ? realloc(*points, (size_t)(*count + g.count) * sizeof *more) : NULL;
    if (status == SCION_OK && !more)
        status = train_fail(err, SCION_ENOMEM, "out of memory for the runs of a figure");
    if (more) {
        *points = more;
        memcpy(more + *count, g.points, (size_t)g.count * sizeof *more);
        *count += g.count;
    }
    grid_free(&g);
    return status;
}

scion_status reproduce_points(const reproduce_figure *f, bool full, const char *data, config **points, int64_t *count,
                              scion_error *err)
{
    const char *const *parts = full ? f->full : f->small;
    scion_status status = SCION_OK;
    *points = NULL;
    *count = 0;
    for (int i = 0; status == SCION_OK && i < REPRODUCE_PARTS && parts[i]; i++)
        status = add_part(parts[i], data, points, count, err);
    return status;
}

void reproduce_shorten(config *points, int64_t count, double factor)
{
    for (int64_t i = 0; i < count; i++) {
        config *c = &points[i];
        const double before = (double)c->training.steps;
        if (c->training.steps > 0)
            c->training.steps = (int64_t)fmax(1, floor(before * factor));
        else
            c->training.epochs *= factor;
        const double share = c->training.steps > 0 ? (double)c->training.steps / before : factor;
        c->training.warmup = (int64_t)floor((double)c->training.warmup * share);
        c->training.decay =
            c->training.decay > 0 ? (int64_t)fmax(1, floor((double)c->training.decay * share)) : 0; /* 0 is refused */
    }
}
