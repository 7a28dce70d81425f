/* The table of figures. See reproduce.h.
 *
 * The small sizes keep what a figure is about (layers, norms, radii, schedules, at least four widths over a factor of
 * eight) and save on what costs: narrow models with heads of 32, sequences of 128 characters instead of 1024, batches
 * of 8 instead of 32. */
#include "reproduce/reproduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "sweep/grid.h"

#define SHORT " batch=8 block=128 eval_batches=32"
#define NARROW " width=32..256:*2 head_size=32"
#define WIDE " width=256..4096:*2"
#define RATES " lr=2^-10..2^-1"
/* AdamW's best lr nearly halves with every doubling of the width: from 2^-7.4 at 32 to 2^-9.7 at 256 in the small
 * form (8 x 128 characters); near 2^-8.5 at 256 with 8 x 256. */
#define ADAMW_NARROW_RATES " lr=2^-13..2^-4"
#define ADAMW_WIDE_RATES " lr=2^-18..2^-5"

/* NanoGPT's settings for a text of characters: three layers, no tokens. Warm-up and decay are shares of the steps in
 * its presets, so that they shrink with them (a warm-up to no less than one step). */
#define NANO " layers=3 head_size=32 vocab=0 data_kind=chars accum=1 eval_every=0 eval_end=0"
#define NANO_SHORT NANO SHORT " steps=120"

/* The same 262144 characters in batches of 4 to 64 sequences, so in 512 to 32 steps; the best of eight step sizes at
 * each. Settings are those of the shallow GPT, whose radii the paper tuned for this text (those of NanoGPT are for
 * 50304 symbols); Muon, which that table does not have, takes NanoGPT's multiplier and AdamW's start. */
#define BATCH " width=128 head_size=32 block=128 eval_batches=0"
#define BATCHES(part)                                                                                   \
    part BATCH " batch=4 steps=512", part BATCH " batch=8 steps=256", part BATCH " batch=16 steps=128", \
        part BATCH " batch=32 steps=64", part BATCH " batch=64 steps=32"
/* NanoGPT in batches of 512, as in the paper's table, to 6144 sequences, its largest. */
#define LARGE(preset)                                                        \
    preset " lr=2^-17..2^-5", preset " lr=2^-17..2^-5 accum=128 steps=2550", \
        preset " lr=2^-17..2^-5 accum=256 steps=1275", preset " lr=2^-17..2^-5 accum=768 steps=425"

/* Losses are those of 2,000 test images, as they are. */
#define AIRBENCH " batch=250 eval_batches=8 tta=none"

static const reproduce_data text = {
    .what = "a text", .value = "FILE (scion train without arguments says where to get one)", .full_has_own = true};

/* Debian's package dataset-fashion-mnist has that path. */
static const reproduce_data images = {.what = "images",
                                      .value = "cifar10 (scion data get cifar10 fetches it), or a FOLDER of "
                                               "Fashion-MNIST or CIFAR-10",
                                      .set = "cifar10",
                                      .path = "/usr/share/datasets/fashion-mnist"};

/* Where the paper's claim is about these images. */
static const reproduce_data cifar10 = {
    .what = "CIFAR-10", .value = "cifar10 (scion data get cifar10 fetches it)", .set = "cifar10"};

static const reproduce_figure table[] = {
    {
        .name = "mlp-transfer",
        .title = "MLP: the best step size against width, for three norms of the output layer",
        .claim =
            "with Spectral, RowNorm or Sign as norm of the output layer the best step size of a 3-layer MLP does "
            "not depend on its width",
        .size = {"the paper's MLP at widths 64 to 512 in batches of 512 (paper: CIFAR-10, 20 epochs of 2048)",
                 "the paper's MLP, epochs and batches; widths 64 to 4096, which the paper does not list"},
        .subjects = {"scion"},
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
        .size = {"the paper's model with heads of 32, widths 32 to 256, batches of 8 x 128 (paper: 64, up to 4096, "
                 "32 x 1024)",
                 "the paper's model, steps and batches; widths 256 to 4096, of which the paper names the largest"},
        .subjects = {"scion", "uscion"},
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion "
                  "norms=sign,spectral,sign/spectral,spectral,sign/colnorm,spectral,sign" NARROW RATES SHORT,
                  "shallow-gpt-adamw" NARROW ADAMW_NARROW_RATES SHORT},
        .full = {"shallow-gpt rule=scion,uscion "
                 "norms=sign,spectral,sign/spectral,spectral,sign/colnorm,spectral,sign" WIDE RATES,
                 "shallow-gpt-adamw" WIDE ADAMW_WIDE_RATES},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "shallow-gpt-same-norm",
        .title = "Shallow GPT: the best step size against width, with one norm in all layers",
        .claim = "with Sign, ColNorm or RowNorm in every layer, scaled layer by layer, the best step size does not "
                 "depend on the width of a 3-layer GPT",
        .size = {"the paper's model with heads of 32, widths 32 to 256, batches of 8 x 128 (paper: 64, up to 4096, "
                 "32 x 1024)",
                 "the paper's model, steps and batches; widths 256 to 4096, of which the paper names the largest"},
        .subjects = {"scion", "uscion"},
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion norms=sign/colnorm/rownorm" NARROW RATES SHORT},
        .full = {"shallow-gpt rule=scion,uscion norms=sign/colnorm/rownorm" WIDE RATES},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "gpt-transfer",
        .title = "NanoGPT: the best step size against width, for four optimizers",
        .claim =
            "the best step size of Scion and Unconstrained Scion does not depend on the width of NanoGPT, that of "
            "Muon and AdamW does",
        .size =
            {"stand-in: 3 layers on characters, widths 32 to 256, for NanoGPT's 12 layers of 64M to 1B "
             "parameters on FineWeb",
             "NanoGPT with the paper's steps and batches; widths 512, 768, 1280 and 2560 are ours, for the 64M to 1B "
             "parameters that it names"},
        .subjects = {"scion", "uscion"},
        .rivals = {"muon", "adamw"},
        .data = &text,
        .small = {"nanogpt-124m width=32..256:*2 lr=2^-14..2^-5" NANO_SHORT,
                  "nanogpt-124m-uscion width=32..256:*2 lr=2^-14..2^-5" NANO_SHORT,
                  "nanogpt-124m-muon width=32..256:*2 lr=2^-11..2^-2" NANO_SHORT,
                  "nanogpt-124m-adamw width=32..256:*2 lr=2^-12..2^-3" NANO_SHORT},
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
        .size = {"stand-in: a 3-layer GPT of width 128 on characters, batches of 4 to 64, for NanoGPT (124M) and "
                 "batches from 512",
                 "the paper's model, NanoGPT (124M); batches of 512 to 6144"},
        .subjects = {"scion"},
        .rivals = {"muon", "adamw"},
        .data = &text,
        .small = {BATCHES("shallow-gpt lr=2^-8..2^-1"),
                  BATCHES("shallow-gpt rule=muon radius_hidden=1 boundary_init=no lr=2^-9..2^-2"),
                  BATCHES("shallow-gpt-adamw lr=2^-11..2^-4")},
        .full = {LARGE("nanogpt-124m"), LARGE("nanogpt-124m-uscion"), LARGE("nanogpt-124m-muon"),
                 LARGE("nanogpt-124m-adamw")},
        .judge = reproduce_judge_batch,
    },
    {
        .name = "spectral-norms",
        .title = "Norms of the weights during training",
        .claim = "the norms of the weights stay within their bounds under Scion, and end smaller than under "
                 "Unconstrained Scion",
        .size = {"stand-in: a 3-layer GPT of width 128 on characters for NanoGPT (124M)",
                 "the paper's model, NanoGPT (124M)"},
        .subjects = {"scion"},
        .rivals = {"uscion"},
        .data = &text,
        .small = {"shallow-gpt rule=scion,uscion width=128 lr=2^-4 steps=488 batch=8 block=128",
                  "shallow-gpt-adamw width=128 lr=2^-8 steps=488 batch=8 block=128"},
        .full = {"nanogpt-124m", "nanogpt-124m-uscion", "nanogpt-124m-adamw"},
        .judge = reproduce_judge_norms,
    },
    {
        .name = "cnn-transfer",
        .title = "CNN: the best step size against width",
        .claim = "the best step size of Scion does not depend on the width of a convolutional network on CIFAR-10",
        .size =
            {"airbench's network at 1/4 to 2 times its width in batches of 250 (paper: 8 epochs, 200 steps of 2000)",
             "airbench's network with the paper's epochs and batches; 1/4 to 2 times its width, which the paper does "
             "not "
             "list"},
        .subjects = {"scion"},
        .data = &cifar10,
        .small = {"airbench width=16..128:*2 lr=2^-6..2^0 epochs=0.2" AIRBENCH},
        .full = {"airbench width=16..128:*2 lr=2^-8..2^0"},
        .judge = reproduce_judge_transfer,
    },
    {
        .name = "cnn-epochs",
        .title = "CNN: norms of the weights and the best step size against the number of epochs",
        .claim =
            "with a fixed step size the norms of the weights of a convolutional network on CIFAR-10 grow like the "
            "square root of the number of steps under Unconstrained Scion, and stay bounded under Scion, which "
            "does better in long runs",
        .size =
            {"airbench's network at 1/4 of its width in batches of 250 (paper: batches of 2000, 25 steps an epoch)",
             "airbench's network, 2 to 32 epochs in batches of 2000; the paper does not list its epochs"},
        .subjects = {"scion"},
        .rivals = {"uscion"},
        .data = &cifar10,
        .small = {"airbench width=16 lr=2^-7..2^-1 epochs=0.4,0.8,1.6,3.2" AIRBENCH,
                  "airbench-uscion width=16 lr=2^-4..2^0 epochs=0.4,0.8,1.6,3.2" AIRBENCH},
        .weights = "conv",
        .full = {"airbench lr=2^-8..2^-1 epochs=2,4,8,16,32", "airbench-uscion lr=2^-7..2^0 epochs=2,4,8,16,32"},
        .judge = reproduce_judge_lengths,
    },
    {
        .name = "vit",
        .title = "Vision transformer: Scion against AdamW",
        .claim =
            "our own question, not the paper's claim: does Scion train a small vision transformer to a lower loss "
            "than AdamW in as many steps, each at its best step size? (paper: the same accuracy in 30% fewer "
            "epochs and over 40% less time, with batches four times as large)",
        .own = true,
        .size = {"stand-in: a vision transformer of width 64 with 4 layers on CIFAR-10 in batches of 500, "
                 "for DeiT-base on ImageNet (200 epochs of 4096 under scion, 300 of 1024 under AdamW)",
                 "stand-in: a vision transformer of width 128 with 6 layers on CIFAR-10, 10 epochs in batches of "
                 "500, for "
                 "DeiT-base on ImageNet"},
        .subjects = {"scion"},
        .rivals = {"adamw"},
        .data = &cifar10,
        .small = {"vit-cifar width=64 layers=4 epochs=1 lr=2^-9..2^-4 eval_batches=20",
                  "vit-cifar-adamw width=64 layers=4 epochs=1 lr=2^-11..2^-6 eval_batches=20"},
        .full = {"vit-cifar lr=2^-9..2^-4", "vit-cifar-adamw lr=2^-12..2^-7"},
        .judge = reproduce_judge_best,
    },
    {
        .name = "input-radius",
        .title = "Coordinate check of the input layer",
        .claim = "where the input is wider than the first layer, preactivations grow with the width under the scale "
                 "sqrt(d_out/d_in) of the spectral norm, and are constant under max(1, sqrt(d_out/d_in))",
        .size = {"the paper's kind of network with 784 inputs, widths 16 to 512", "the same with widths to 2048"},
        .make = reproduce_input_radius,
    },
    {
        .name = "rates",
        .title = "Rates of convergence",
        .claim = "with steps of 1/sqrt(n) the dual norm of the gradient and the Frank-Wolfe gap fall like n^(-1/2) "
                 "without noise; with noise and vanishing momentum they fall like n^(-1/4) or faster",
        .size = {"no figure of the paper but its theorems, on 12 x 8 matrices; n to 2^12",
                 "no figure of the paper but its theorems, on 12 x 8 matrices; n to 2^17"},
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

/* Adds the grid of "PRESET key=values ...". */
static scion_status add_grid(grid *g, const char *part, const char *data, scion_error *err)
{
    enum { max_words = 32 };
    char line[1024], path[CONFIG_TEXT + 8];
    const char *words[max_words];
    int found = 0;
    snprintf(line, sizeof line, "%s", part);
    for (char *at = strtok(line, " "); at && found < max_words - 1; at = strtok(NULL, " "))
        words[found++] = at;
    if (data) {
        snprintf(path, sizeof path, "data=%.255s", data);
        words[found++] = path;
    }
    return grid_add(g, words[0], words + 1, found - 1, err);
}

scion_status reproduce_points(const reproduce_figure *f, bool full, const char *data, int64_t seeds, config **points,
                              int64_t *count, scion_error *err)
{
    const char *const *grids = full ? f->full : f->small;
    grid g = {NULL, 0};
    scion_status status = SCION_OK;
    for (int64_t s = 0; s < seeds; s++) {
        const int64_t first = g.count;
        for (int i = 0; status == SCION_OK && i < REPRODUCE_GRIDS && grids[i]; i++)
            status = add_grid(&g, grids[i], data, err);
        for (int64_t i = first; i < g.count; i++)
            g.points[i].training.seed += (uint64_t)s;
    }
    *points = g.points;
    *count = g.count;
    return status;
}

int64_t reproduce_afford(double seconds, double budget, int64_t min, int64_t max, double *share)
{
    static const double enough = 0.25, shortest = 0.05; /* of the steps; below the shortest a run says nothing */
    int64_t seeds = max;
    while (budget > 0 && seeds > min && seconds * (double)seeds * enough > budget)
        seeds--;
    *share = budget > 0 ? fmin(1, fmax(shortest, budget / (seconds * (double)seeds))) : 1;
    return seeds;
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
        c->training.warmup = training_span(c->training.warmup, share);
        c->training.decay = training_span(c->training.decay, share);
    }
}
