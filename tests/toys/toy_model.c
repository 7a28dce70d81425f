/* A model in one file and one row of toy_rows.c: "linear", a product of matrices, with running means of what the last
 * one reads. */
#include <stdio.h>

#include "util/fail.h"
#include "models/model.h"
#include "ops/ops.h"
#include "toys.h"

typedef struct linear_options {
    int64_t copies;   /* hidden matrices */
    double smoothing; /* as gpt and mlp have it */
} linear_options;

static const option options[] = {
    OPTION_INT_ROW(linear_options, copies, "copies", "2", 1, 8, "hidden matrices", .origin = "1"),
    OPTION_REAL_ROW(linear_options, smoothing, "smoothing", "0", 0, 0.999, "label smoothing"),
    OPTION_END,
};

static const char *const inputs[] = {"pixels", "targets", NULL};

static scion_status check(const void *from, scion_error *err)
{
    const linear_options *o = from;
    return o->copies == 7 ? train_fail(err, SCION_EINVAL, "copies is 7, which model linear does not like") : SCION_OK;
}

static void record(model *m, const void *from)
{
    const linear_options *o = from;
    const int64_t n = model_array(m, "pixels")->count, classes = model_array(m, "targets")->range;
    const int64_t flat[] = {m->batch, n}, square[] = {n, n}, last[] = {classes, n};
    tape_value *x = model_input(m, "pixels", 2, flat), *targets = model_input(m, "targets", 0, NULL);
    for (int64_t i = 0; i < o->copies; i++) {
        char name[32];
        snprintf(name, sizeof name, "copies.%lld", (long long)i);
        x = op_linear(m->tape, x, tape_param(m->tape, name, SCION_ROLE_HIDDEN, 2, square), NULL);
    }
    tape_value *mean = tape_buffer(m->tape, "mean", 0, 1, &n), *updates = tape_buffer(m->tape, "updates", 0, 0, NULL);
    tape_recompute_begin(m->tape);
    x = op_activation(m->tape, toy_center(m->tape, x, mean, updates), activation_find("gelu"));
    tape_recompute_end(m->tape);
    tape_value *w = tape_param(m->tape, "head", SCION_ROLE_OUTPUT, 2, last);
    m->logits = op_linear(m->tape, x, w, NULL);
    m->loss = op_cross_entropy(m->tape, x, w, NULL, targets, NULL, o->smoothing);
}

const model_row model_linear = {
    .name = "linear",
    .help = "matrices and nothing between them",
    .inputs = inputs,
    .options = options,
    .options_size = sizeof(linear_options),
    .check = check,
    .record = record,
    .accuracy = true,
};
