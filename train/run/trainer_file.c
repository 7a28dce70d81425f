/* Checkpoints of a trainer: what is in them, and how a run goes on from one.
 *     tensors    every parameter under its name; with `light`, the averages as "average." and the name;
 *                "optimizer" (bytes, see scion_optimizer_save)
 *     metadata   format, config (JSON), step, steps, best, vocabulary
 * The data have no position: batches are functions of the step. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "run/checkpoint.h"
#include "run/trainer_parts.h"

static const char format_name[] = "scion-1";

enum { name_bytes = 80 };

typedef struct listing {
    checkpoint_tensor *tensors;
    char (*names)[name_bytes];
    int count;
} listing;

static void list_tensor(listing *l, const tape_value *v, const char *prefix, const float *data)
{
    checkpoint_tensor *out = &l->tensors[l->count];
    snprintf(l->names[l->count], name_bytes, "%s%s", prefix, v->name);
    *out = (checkpoint_tensor){.name = l->names[l->count],
                               .dtype = "F32",
                               .ndim = v->ndim,
                               .data = data,
                               .bytes = (size_t)v->count * sizeof(float)};
    memcpy(out->shape, v->shape, sizeof out->shape);
    l->count++;
}

/* Weights that are not finite must not take the place of good ones. */
static scion_status check_finite(const trainer *t, const char *path, scion_error *err)
{
    for (int64_t i = 0; i < tape_param_count(t->train.tape); i++) {
        const tape_value *v = tape_param_at(t->train.tape, i);
        for (int64_t k = 0; k < v->count; k++)
            if (!isfinite(v->data[k]))
                return train_fail(err, SCION_ENONFINITE, "%s: not saved: after step %lld %s is not finite", path,
                                  (long long)t->step, v->name);
    }
    return SCION_OK;
}

scion_status trainer_save(const trainer *t, const char *path, scion_error *err)
{
    const int64_t params = tape_param_count(t->train.tape);
    const size_t most = 2 * (size_t)params + 1, state_bytes = scion_optimizer_save_size(t->optimizer);
    listing l = {calloc(most, sizeof *l.tensors), calloc(most, sizeof *l.names), 0};
    void *state = malloc(state_bytes);
    char *json = config_to_json(&t->c), step[32], steps[32], best[32];
    const char *vocabulary = data_about(t->data)->vocabulary;
    scion_status status = check_finite(t, path, err);
    if (status == SCION_OK && (!l.tensors || !l.names || !state || !json))
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    if (status == SCION_OK)
        status = scion_optimizer_save(t->optimizer, state, state_bytes, err);
    if (status == SCION_OK) {
        for (int64_t i = 0; i < params; i++) {
            const tape_value *v = tape_param_at(t->train.tape, i);
            list_tensor(&l, v, "", v->data);
            if (t->c.optimizer.light)
                list_tensor(&l, v, "average.", v->grad);
        }
        l.tensors[l.count++] = (checkpoint_tensor){"optimizer", "U8", 1, {(int64_t)state_bytes}, state, state_bytes};
        snprintf(step, sizeof step, "%lld", (long long)t->step);
        snprintf(steps, sizeof steps, "%lld", (long long)t->steps);
        snprintf(best, sizeof best, "%.17g", t->best);
        const checkpoint_meta meta[] = {{"format", format_name}, {"config", json}, {"step", step},
                                        {"steps", steps},        {"best", best},   {"vocabulary", vocabulary}};
        status = checkpoint_write(path, l.tensors, l.count, meta, vocabulary ? 6 : 5, err);
    }
    free(json);
    free(state);
    free(l.names);
    free(l.tensors);
    return status;
}

/* Options that may change when a run goes on or is looked at. */
static bool may_change(const char *pair, bool training)
{
    static const char *const resume[] = {"out",        "steps",        "threads",    "log_every",
                                         "eval_every", "eval_batches", "norm_every", "save_every",
                                         "keep",       "max_minutes",  "data",       "val_data"};
    static const char *const open[] = {"data",  "data_kind", "val_data", "val_fraction",
                                       "batch", "block",     "threads",  "eval_batches"};
    const char *const *keys = training ? resume : open;
    const size_t count = training ? sizeof resume / sizeof *resume : sizeof open / sizeof *open;
    const char *equal = strchr(pair, '=');
    for (size_t i = 0; equal && i < count; i++)
        if (strlen(keys[i]) == (size_t)(equal - pair) && strncmp(keys[i], pair, (size_t)(equal - pair)) == 0)
            return true;
    return false;
}

/* The configuration of a checkpoint, with changes. */
static scion_status read_config(const checkpoint *file, const char *path, const char *const *pairs, int count,
                                bool training, config *c, scion_error *err)
{
    const char *format = checkpoint_get(file, "format"), *json = checkpoint_get(file, "config");
    if (!format || strcmp(format, format_name) != 0 || !json)
        return train_fail(err, SCION_ESTATE, "%s: not a checkpoint of scion (format %s, expected %s)", path,
                          format ? format : "is missing", format_name);
    if (!checkpoint_verified(file))
        return train_fail(err, SCION_ESTATE, "%s: damaged: it has no checksum, and every checkpoint of scion has one",
                          path);
    config_init(c);
    scion_status status = config_from_json(c, json, err);
    for (int i = 0; status == SCION_OK && i < count; i++) {
        if (!may_change(pairs[i], training))
            return train_fail(err, SCION_EINVAL, "%s: this cannot be changed for a run that %s", pairs[i],
                              training ? "goes on" : "is finished");
        status = config_set_pair(c, pairs[i], err);
    }
    return status;
}

/* One tensor of the file into `to`. */
static scion_status read_tensor(const checkpoint *file, const char *path, const char *prefix, const tape_value *v,
                                float *to, scion_error *err)
{
    char name[name_bytes];
    snprintf(name, sizeof name, "%s%s", prefix, v->name);
    const checkpoint_tensor *from = checkpoint_find(file, name);
    if (!from)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s is missing", path, name);
    bool fits = strcmp(from->dtype, "F32") == 0 && from->ndim == v->ndim;
    for (int i = 0; fits && i < v->ndim; i++)
        fits = from->shape[i] == v->shape[i];
    if (!fits)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s has another type or shape than the model", path, name);
    memcpy(to, from->data, (size_t)v->count * sizeof(float));
    return SCION_OK;
}

static scion_status read_weights(trainer *t, const checkpoint *file, const char *path, bool training,
                                 scion_error *err)
{
    const struct tape *from = training ? t->train.tape : t->eval.tape;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(from); i++) {
        const tape_value *v = tape_param_at(from, i);
        status = read_tensor(file, path, "", v, v->data, err);
        if (status == SCION_OK && training && t->c.optimizer.light)
            status = read_tensor(file, path, "average.", v, v->grad, err);
    }
    return status;
}

static scion_status read_position(trainer *t, const checkpoint *file, const char *path, scion_error *err)
{
    const char *step = checkpoint_get(file, "step"), *best = checkpoint_get(file, "best");
    char *end = NULL;
    errno = 0;
    t->step = step ? strtoll(step, &end, 10) : -1;
    if (t->step < 0 || errno != 0 || *end != '\0')
        return train_fail(err, SCION_ESTATE, "%s: its step is %s", path, step ? step : "missing");
    t->best = best ? strtod(best, NULL) : INFINITY;
    if (t->step > t->steps)
        return train_fail(err, SCION_EINVAL, "%s: it is at step %lld, past steps=%lld", path, (long long)t->step,
                          (long long)t->steps);
    return SCION_OK;
}

static scion_status read_optimizer(trainer *t, const checkpoint *file, const char *path, scion_error *err)
{
    const checkpoint_tensor *state = checkpoint_find(file, "optimizer");
    scion_error inner;
    if (!state)
        return train_fail(err, SCION_ESTATE, "%s: the optimizer's state is missing", path);
    if (scion_optimizer_load(t->optimizer, state->data, state->bytes, &inner) != SCION_OK)
        return train_fail(err, SCION_ESTATE, "%s: %.180s", path, inner.message);
    return SCION_OK;
}

/* The data of a run may have moved since. */
static scion_status open_data(trainer *t, const char *vocabulary, scion_error *err)
{
    scion_error inner;
    scion_status status = trainer_open_data(t, vocabulary, &inner);
    if (status == SCION_OK)
        return status;
    return train_fail(
        err, status, "%.180s%s", inner.message,
        t->c.data.path[0] && access(t->c.data.path, F_OK) != 0 ? " (data=FILE says where the data are now)" : "");
}

typedef enum purpose { TO_TRAIN, TO_EVALUATE, TO_SAMPLE } purpose;

static scion_status from_file(trainer **out, const char *path, const char *const *pairs, int count, purpose why,
                              scion_error *err)
{
    const bool training = why == TO_TRAIN;
    checkpoint *file = NULL;
    trainer *t = NULL;
    trainer_memory memory;
    config c;
    scion_status status = checkpoint_open(&file, path, err);
    if (status == SCION_OK)
        status = read_config(file, path, pairs, count, training, &c, err);
    if (status == SCION_OK && why == TO_SAMPLE &&
        !(strcmp(c.model.name, "gpt") == 0 && checkpoint_get(file, "vocabulary")))
        status = train_fail(err, SCION_EINVAL, "%s: only a gpt that learned from a text file can write", path);
    if (status == SCION_OK && why == TO_SAMPLE) { /* the vocabulary is enough, and one row */
        c.data.path[0] = '\0';
        c.training.batch = 1;
        snprintf(c.data.kind, sizeof c.data.kind, "chars");
    }
    if (status == SCION_OK)
        status = trainer_new(&t, &c, err);
    if (status == SCION_OK)
        status = open_data(t, checkpoint_get(file, "vocabulary"), err);
    if (status == SCION_OK)
        status = trainer_record(t, training, err);
    if (status == SCION_OK && training)
        status = trainer_check_memory(t, &memory, err);
    if (status == SCION_OK)
        status = trainer_allocate(t, training, err);
    if (status == SCION_OK && training)
        status = trainer_make_optimizer(t, err);
    if (status == SCION_OK)
        status = read_weights(t, file, path, training, err);
    if (status == SCION_OK && training)
        status = read_optimizer(t, file, path, err);
    if (status == SCION_OK)
        status = read_position(t, file, path, err);
    checkpoint_close(file);
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

scion_status trainer_resume(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err)
{
    return from_file(out, path, pairs, count, TO_TRAIN, err);
}

scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err)
{
    return from_file(out, path, pairs, count, TO_EVALUATE, err);
}

scion_status trainer_open_model(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err)
{
    return from_file(out, path, pairs, count, TO_SAMPLE, err);
}
