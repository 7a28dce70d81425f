/* What the tests of models, trainer and decoder share: configurations of a line, and checks that name their case. */
#ifndef TESTS_TRAIN_TINY_H
#define TESTS_TRAIN_TINY_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"

/* A GPT that takes a millisecond a step, on synthetic text. */
#define TINY_GPT "layers=2 width=32 head_size=16 vocab=24 block=16 batch=8 steps=40 data_kind=synthetic threads=2 "
#define TINY_CNN                                                                                                  \
    "model=cnn width=16 activation=gelu batch=64 steps=40 lr=0.1 data_kind=synthetic boundary_init=no threads=2 " \
    "radius_last=300 "
#define TINY_VIT                                                                                              \
    "model=vit layers=2 width=32 head_size=16 patch=7 bias=no batch=32 steps=80 lr=0.05 data_kind=synthetic " \
    "boundary_init=no threads=2 radius_first=5 radius_hidden=5 radius_last=50 "
#define TINY_MLP "model=mlp layers=3 width=24 batch=16 steps=40 data_kind=synthetic norms=image threads=2 "

/* Defaults, then "key=value key=value"; what config says is wrong is a fault of the test. */
static inline config tiny(const char *pairs)
{
    config c;
    scion_error err;
    char text[1024];
    config_init(&c);
    assert_true(strlen(pairs) < sizeof text);
    memcpy(text, pairs, strlen(pairs) + 1);
    for (char *pair = strtok(text, " "); pair; pair = strtok(NULL, " "))
        if (config_set_pair(&c, pair, &err) != SCION_OK)
            fail_msg("%s", err.message);
    return c;
}

/* What a text and a set of images say of themselves. */
static inline data_info tiny_text(int64_t block, int64_t vocab)
{
    return (data_info){
        .arrays = {{"tokens", DATA_INT32, 1, {block}, block, vocab, 0},
                   {"targets", DATA_INT32, 1, {block}, block, vocab, -1}},
        .array_count = 2,
        .unit = "tokens",
        .sample_units = block,
    };
}

static inline data_info tiny_pictures(int64_t channels, int64_t side, int64_t classes)
{
    return (data_info){
        .arrays = {{"image", DATA_FLOAT32, 3, {side, side, channels}, channels * side * side, 0, 0},
                   {"targets", DATA_INT32, 0, {0}, 1, classes, -1}},
        .array_count = 2,
        .unit = "images",
        .sample_units = 1,
    };
}

static inline data_info tiny_images(int64_t features, int64_t classes)
{
    return (data_info){
        .arrays = {{"pixels", DATA_FLOAT32, 3, {1, 1, features}, features, 0, 0},
                   {"targets", DATA_INT32, 0, {0}, 1, classes, -1}},
        .array_count = 2,
        .unit = "images",
        .sample_units = 1,
    };
}

/* |got - want| <= tolerance max(1, |want|) */
static inline void near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("%s is %.9g, expected %.9g within %g", what, got, want, tolerance);
}

#define OK(call)                                    \
    do {                                            \
        if ((call) != SCION_OK)                     \
            fail_msg("%s: %s", #call, err.message); \
    } while (0)

#endif
