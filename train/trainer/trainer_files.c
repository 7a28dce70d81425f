/* Trainers and checkpoints: saving, resuming, opening, starting anew or from the weights of another run. See
 * trainer.h. */
#define _GNU_SOURCE 1 /* asprintf */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/fail.h"
#include "util/number.h"
#include "record/checkpoint.h"
#include "trainer/routing.h"
#include "record/run_dir.h"
#include "trainer/trainer_make.h"
#include "trainer/trainer_ranks.h"

/* ---- Checkpoints ------------------------------------------------------------------------------------------------
 *     tensors    every parameter and buffer under its name; the optimizer's arrays as "optimizer.average.NAME",
 *                "optimizer.second.NAME", "optimizer.previous.NAME" (scion_optimizer_state; with `light`, the
 *                averages that are in the gradients); "optimizer", bytes: its settings and counters
 *     metadata   format, config (JSON), step, steps, best, data_kind; vocabulary or images, where there are; due =
 *                validation, if the run was stopped in the validation after `step`; micro and micro_loss, if it was
 *                stopped in a step with `light`: micro-batches of it that the averages have, the sum of their
 *                losses; changes, if step sizes were changed on the way
 * The data have no position: batches are functions of the step. Files of format scion-1 (version 0.1) have the arrays
 * inside "optimizer", and the averages of `light` as "average.NAME". */

static const char format_name[] = "scion-2", old_format[] = "scion-1";

enum { name_bytes = 128, prefix_bytes = 48, max_arrays = 4 /* of the optimizer, for one parameter */ };

/* An array of a parameter that ranks own parts of. */
typedef struct remote {
    int64_t param;
    int k; /* as ranks_fetch has it */
    scion_dtype type;
} remote;

typedef struct listing {
    checkpoint_tensor *tensors;
    char (*names)[name_bytes];
    remote *remotes; /* of the tensors */
    int count;
    const trainer *t;
    void *room; /* CHECKPOINT_PIECE bytes */
} listing;

/* As the format calls it. */
static const char *type_name(scion_dtype type)
{
    return type == SCION_BF16 ? "BF16" : "F32";
}

static void list_tensor(listing *l, const tape_value *v, const char *prefix, const void *data, scion_dtype type)
{
    checkpoint_tensor *out = &l->tensors[l->count];
    snprintf(l->names[l->count], name_bytes, "%s%s", prefix, v->name);
    *out = (checkpoint_tensor){.name = l->names[l->count],
                               .dtype = type_name(type),
                               .ndim = v->ndim,
                               .data = data,
                               .bytes = scn_stored_bytes(type, v->count)};
    memcpy(out->shape, v->shape, sizeof out->shape);
    l->count++;
}

static const void *fetch_remote(void *ctx, int i, size_t at, size_t bytes)
{
    const listing *l = ctx;
    const remote *from = &l->remotes[i];
    const size_t entry = scn_stored_bytes(from->type, 1);
    ranks_fetch(l->t, from->param, from->k, from->type, (int64_t)(at / entry), (int64_t)(bytes / entry), l->room);
    return l->room;
}

/* Array k of parameter i, which is wherever it is owned. */
static void list_remote(listing *l, const trainer *t, int64_t i, int k, const char *prefix, scion_dtype type)
{
    l->remotes[l->count] = (remote){i, k, type};
    list_tensor(l, tape_param_at(t->model.tape, i), prefix, NULL, type);
}

/* Weights that are not finite must not take the place of good ones. */
static scion_status check_finite(const trainer *t, const char *path, scion_error *err)
{
    const char *bad = trainer_find_nonfinite(tape_param_at, t->model.tape, tape_param_count(t->model.tape));
    if (!bad)
        bad = trainer_nonfinite_buffer(t);
    return bad ? train_fail(err, SCION_ENONFINITE, "%s: not saved: after step %lld %s is not finite", path,
                            (long long)t->step, bad)
               : SCION_OK;
}

/* State array k of parameter i, and the prefix of its name in the file; false: there is none. */
static bool state_array(const trainer *t, int64_t i, int k, scion_array *array, char prefix[prefix_bytes])
{
    scion_array_init(array);
    if (k >= max_arrays || !scion_optimizer_state(t->optimizer, i, k, array))
        return false;
    snprintf(prefix, prefix_bytes, "optimizer.%s.", array->name);
    return true;
}

static void list_arrays_of_ranks(listing *l, const trainer *t, int64_t i)
{
    char prefix[prefix_bytes];
    if (t->c.optimizer.light)
        list_remote(l, t, i, -1, "optimizer.average.", tape_param_at(t->model.tape, i)->grad_type);
    for (int k = 0; k < max_arrays; k++) {
        const ranks_array a = ranks_about(t, i, k);
        if (!a.exists)
            break;
        snprintf(prefix, sizeof prefix, "optimizer.%s.", a.name);
        list_remote(l, t, i, k, prefix, (scion_dtype)a.type);
    }
}

static void list_tensors(listing *l, const trainer *t)
{
    char prefix[prefix_bytes];
    scion_array array;
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        list_tensor(l, v, "", tape_weights(v), v->weight_type);
        if (ranks_shards(t)) {
            list_arrays_of_ranks(l, t, i);
            continue;
        }
        if (t->c.optimizer.light)
            list_tensor(l, v, "optimizer.average.", tape_grads(v), v->grad_type);
        for (int k = 0; state_array(t, i, k, &array, prefix); k++)
            list_tensor(l, v, prefix, array.data, (scion_dtype)array.type);
    }
    for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++) {
        const tape_value *v = tape_buffer_at(t->model.tape, i);
        list_tensor(l, v, "", v->data, SCION_F32);
    }
}

static scion_status write_checkpoint(const trainer *t, int folder, const char *path, listing *l, scion_error *err)
{
    char *json = config_to_json(&t->c), step[32], steps[32], best[32], micro[32], micro_loss[32];
    const char *vocabulary = data_about(t->data)->vocabulary, *images = data_about(t->data)->images;
    if (!json)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(steps, sizeof steps, "%lld", (long long)t->steps);
    snprintf(best, sizeof best, "%.17g", t->best);
    snprintf(micro, sizeof micro, "%lld", (long long)t->micro);
    snprintf(micro_loss, sizeof micro_loss, "%.17g", t->micro_loss);
    int metas = 6;
    checkpoint_meta meta[12] = {{"format", format_name}, {"config", json}, {"step", step},
                                {"steps", steps},        {"best", best},   {"data_kind", data_about(t->data)->kind}};
    if (vocabulary)
        meta[metas++] = (checkpoint_meta){"vocabulary", vocabulary};
    if (images)
        meta[metas++] = (checkpoint_meta){"images", images};
    if (t->validation_due)
        meta[metas++] = (checkpoint_meta){"due", "validation"};
    if (t->micro > 0) {
        meta[metas++] = (checkpoint_meta){"micro", micro};
        meta[metas++] = (checkpoint_meta){"micro_loss", micro_loss};
    }
    if (t->changes)
        meta[metas++] = (checkpoint_meta){"changes", t->changes};
    const scion_status status =
        checkpoint_write_from(folder, path, l->tensors, l->count, meta, metas, fetch_remote, l, err);
    free(json);
    return status;
}

/* The arrays are written from where they are: saving takes no memory worth planning for. */
scion_status trainer_save(const trainer *t, int folder, const char *path, scion_error *err)
{
    const size_t max =
        (size_t)(tape_param_count(t->model.tape) * (2 + max_arrays) + tape_buffer_count(t->model.tape) + 1);
    const size_t settings_bytes = scion_optimizer_save_bytes(t->optimizer, SCION_WITHOUT_ARRAYS);
    listing l = {.tensors = calloc(max, sizeof *l.tensors),
                 .names = calloc(max, sizeof *l.names),
                 .remotes = calloc(max, sizeof *l.remotes),
                 .t = t,
                 .room = malloc(ranks_shards(t) ? CHECKPOINT_PIECE : 1)};
    void *settings = malloc(settings_bytes);
    scion_status status = check_finite(t, path, err);
    if (status == SCION_OK && (!l.tensors || !l.names || !l.remotes || !l.room || !settings))
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    if (status == SCION_OK)
        status = scion_optimizer_save(t->optimizer, SCION_WITHOUT_ARRAYS, settings, settings_bytes, err);
    if (status == SCION_OK) {
        list_tensors(&l, t);
        l.tensors[l.count++] =
            (checkpoint_tensor){"optimizer", "U8", 1, {(int64_t)settings_bytes}, settings, settings_bytes};
        status = write_checkpoint(t, folder, path, &l, err);
    }
    free(settings);
    free(l.room);
    free(l.remotes);
    free(l.names);
    free(l.tensors);
    return status;
}

typedef enum purpose { TO_TRAIN, TO_CHANGE, TO_EVALUATE, TO_EVALUATE_WHOLE, TO_SAMPLE, TO_CLASSIFY } purpose;

static bool trains(purpose why)
{
    return why == TO_TRAIN || why == TO_CHANGE;
}

/* The option of a "key=value". */
static const config_option *option_of(const char *pair)
{
    char key[CONFIG_TEXT];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    return config_find(key);
}

/* Refuses options that may not change when a run is resumed or opened. */
static scion_status check_change(const char *pair, const char *path, purpose why, scion_error *err)
{
    const config_option *o = option_of(pair);
    const unsigned change = o ? o->change : 0;
    char dir[CONFIG_TEXT];
    if (change & (trains(why) ? OPTION_ON_RESUME : OPTION_ON_EVAL) || (why == TO_CHANGE && change & OPTION_ON_FORCE))
        return SCION_OK;
    if (!trains(why))
        return train_fail(err, SCION_EINVAL, "%s: cannot be changed for a trained model", pair);
    if (change & OPTION_ON_FORCE)
        return train_fail(err, SCION_EINVAL, "%s: cannot be changed when a run is resumed; --force changes it", pair);
    run_dir_of(path, dir);
    return train_fail(err, SCION_EINVAL,
                      "%s: cannot be changed when a run is resumed; scion train init=%s starts a new run from its "
                      "weights",
                      pair, dir);
}

/* Written by version 0.1. */
static bool is_old(const checkpoint *file)
{
    const char *format = checkpoint_get(file, "format");
    return format && strcmp(format, old_format) == 0;
}

/* The configuration of a checkpoint, with changes. */
static scion_status read_config(const checkpoint *file, const char *path, const char *const *pairs, int count,
                                purpose why, config *c, scion_error *err)
{
    const char *format = checkpoint_get(file, "format"), *json = checkpoint_get(file, "config");
    if (!format || (strcmp(format, format_name) != 0 && !is_old(file)) || !json)
        return train_fail(err, SCION_ESTATE, "%s: not a checkpoint of scion (format %.40s, expected %s)", path,
                          format ? format : "is missing", format_name);
    if (!checkpoint_verified(file))
        return train_fail(err, SCION_ESTATE, "%s: damaged: it has no checksum, and every checkpoint of scion has one",
                          path);
    config_init(c);
    scion_status status = config_from_json(c, json, err);
    for (int i = 0; status == SCION_OK && i < count; i++) {
        status = check_change(pairs[i], path, why, err);
        if (status == SCION_OK)
            status = config_set_pair(c, pairs[i], err);
    }
    if (status == SCION_OK && trains(why) && count > 0)
        status = config_check_schedule(c, err);
    return status;
}

/* Notes what the pairs change in the course of a run that is after step `step`. */
static scion_status note_changes(trainer *t, const config *stored, const char *const *pairs, int count,
                                 scion_error *err)
{
    for (int i = 0; i < count; i++) {
        const config_option *o = option_of(pairs[i]);
        const char *before = t->changes ? t->changes : "";
        char old[CONFIG_TEXT], now[CONFIG_TEXT], *all;
        if (!(o->change & OPTION_ON_FORCE) || config_same(stored, &t->c, o))
            continue;
        config_get(stored, o, old, sizeof old);
        config_get(&t->c, o, now, sizeof now);
        if (asprintf(&all, "%s%safter step %lld: %s %s -> %s", before, before[0] ? "\n" : "", (long long)t->step,
                     o->key, old, now) < 0)
            return train_fail(err, SCION_ENOMEM, "out of memory");
        free(t->changes);
        t->changes = all;
    }
    return SCION_OK;
}

/* n elements of one type as another: exact, or rounded to nearest. */
static void convert(scion_dtype from_type, const void *from, scion_dtype to_type, void *to, int64_t n)
{
    if (from_type == to_type)
        memcpy(to, from, scn_stored_bytes(to_type, n));
    else if (to_type == SCION_F32)
        scn_from_bf16(n, from, to);
    else
        scn_to_bf16(n, from, to);
}

/* " 10 x 3 x 8", in text. */
static const char *shape_text(int ndim, const int64_t *shape, char text[64])
{
    int at = 0;
    text[0] = '\0';
    for (int i = 0; i < ndim && at < 64; i++)
        at += snprintf(text + at, (size_t)(64 - at), "%s%lld", i > 0 ? " x " : " ", (long long)shape[i]);
    return text;
}

/* `count` entries from `first` on of one tensor of the file into `to`. The file's type is another only if weights are
 * taken from a run that stored them otherwise (init). */
static scion_status read_entries(const checkpoint *file, const char *path, const char *prefix, const tape_value *v,
                                 int64_t first, int64_t count, void *to, scion_dtype type, scion_error *err)
{
    char name[name_bytes], theirs[64], ours[64];
    snprintf(name, sizeof name, "%s%s", prefix, v->name);
    const checkpoint_tensor *from = checkpoint_find(file, name);
    if (!from)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s is missing", path, name);
    const bool half = strcmp(from->dtype, type_name(SCION_BF16)) == 0;
    bool fits = (half || strcmp(from->dtype, type_name(SCION_F32)) == 0) && from->ndim == v->ndim;
    for (int i = 0; fits && i < v->ndim; i++)
        fits = from->shape[i] == v->shape[i];
    if (!fits)
        return train_fail(err, SCION_ESTATE, "%.120s: tensor %s is %s%s, and this model has %s", path, name,
                          from->dtype, shape_text(from->ndim, from->shape, theirs),
                          shape_text(v->ndim, v->shape, ours));
    const scion_dtype from_type = half ? SCION_BF16 : SCION_F32;
    convert(from_type, (const char *)from->data + scn_stored_bytes(from_type, first), type, to, count);
    return SCION_OK;
}

/* All of it. */
static scion_status read_tensor(const checkpoint *file, const char *path, const char *prefix, const tape_value *v,
                                void *to, scion_dtype type, scion_error *err)
{
    return read_entries(file, path, prefix, v, 0, v->count, to, type, err);
}

static scion_status read_weights(trainer *t, const checkpoint *file, const char *path, bool training,
                                 scion_error *err)
{
    const tape *from = t->model.tape;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(from); i++) {
        const tape_value *v = tape_param_at(from, i);
        status = read_tensor(file, path, "", v, tape_weights(v), v->weight_type, err);
        if (status == SCION_OK && training && t->c.optimizer.light)
            status = read_tensor(file, path, is_old(file) ? "average." : "optimizer.average.", v, tape_grads(v),
                                 v->grad_type, err);
    }
    for (int64_t i = 0; status == SCION_OK && i < tape_buffer_count(from); i++) {
        const tape_value *v = tape_buffer_at(from, i);
        status = read_tensor(file, path, "", v, v->data, SCION_F32, err);
    }
    return status;
}

/* A count of steps in the metadata. */
static scion_status read_count(const checkpoint *file, const char *path, const char *key, int64_t *count,
                               scion_error *err)
{
    const char *text = checkpoint_get(file, key);
    if (text && number_int(text, count) && *count >= 0)
        return SCION_OK;
    return train_fail(err, SCION_ESTATE, "%s: its %s is %.40s", path, key, text ? text : "missing");
}

/* The steps of a run that is counted in epochs are those that it was begun with: the batch and the data of this
 * command may be others. */
static scion_status read_position(trainer *t, const checkpoint *file, const char *path, bool training,
                                  scion_error *err)
{
    const char *best = checkpoint_get(file, "best"), *due = checkpoint_get(file, "due");
    const char *loss = checkpoint_get(file, "micro_loss"), *changes = checkpoint_get(file, "changes");
    int64_t steps;
    scion_status status = read_count(file, path, "step", &t->step, err);
    if (status == SCION_OK)
        status = read_count(file, path, "steps", &steps, err);
    if (status != SCION_OK)
        return status;
    if (t->c.training.steps == 0)
        t->steps = steps;
    t->best = best ? strtod(best, NULL) : INFINITY;
    t->validation_due = due && strcmp(due, "validation") == 0;
    t->steps_before = steps;
    if (checkpoint_get(file, "micro"))
        status = read_count(file, path, "micro", &t->micro, err);
    if (status == SCION_OK && t->micro >= t->c.training.accum)
        status = train_fail(err, SCION_ESTATE, "%s: its micro is %lld, and a step has %lld", path,
                            (long long)t->micro, (long long)t->c.training.accum);
    t->micro_loss = loss ? strtod(loss, NULL) : 0;
    t->changes = changes ? strdup(changes) : NULL;
    if (status == SCION_OK && changes && !t->changes)
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path);
    if (status != SCION_OK)
        return status;
    if (training && t->step > t->steps)
        return train_fail(err, SCION_EINVAL, "%s: it is at step %lld, past steps=%lld", path, (long long)t->step,
                          (long long)t->steps);
    return SCION_OK;
}

static scion_status read_optimizer(trainer *t, const checkpoint *file, const char *path, scion_error *err)
{
    const checkpoint_tensor *state = checkpoint_find(file, "optimizer");
    const unsigned flags = is_old(file) ? 0 : SCION_WITHOUT_ARRAYS;
    char prefix[prefix_bytes];
    scion_array array;
    scion_error inner;
    if (!state)
        return train_fail(err, SCION_ESTATE, "%s: the optimizer's state is missing", path);
    if (scion_optimizer_load(t->optimizer, flags, state->data, state->bytes, &inner) != SCION_OK)
        return train_fail(err, SCION_ESTATE, "%s: %.180s", path, inner.message);
    scion_status status = SCION_OK;
    for (int64_t i = 0; flags && i < tape_param_count(t->model.tape); i++)
        for (int k = 0; status == SCION_OK && state_array(t, i, k, &array, prefix); k++)
            status = read_entries(file, path, prefix, tape_param_at(t->model.tape, i), array.first, array.count,
                                  array.data, (scion_dtype)array.type, err);
    return status;
}

static bool is_given(const char *key, const char *const *pairs, int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(pairs[i], key, strlen(key)) == 0 && pairs[i][strlen(key)] == '=')
            return true;
    return false;
}

/* Whether the data are of the kind that the model learned from. Checkpoints of earlier versions only tell whether it
 * had a vocabulary. */
static scion_status check_kind(const trainer *t, const checkpoint *file, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const char *kind = checkpoint_get(file, "data_kind"), *vocabulary = checkpoint_get(file, "vocabulary");
    if (kind ? strcmp(kind, d->kind) == 0 : !vocabulary == !d->vocabulary)
        return SCION_OK;
    if (d->image && checkpoint_get(file, "images")) /* of one size, whatever they are read from */
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "%.150s: data of kind %s, but the model learned from %s%s", t->c.data.path,
                      d->kind, kind ? "kind " : "data with ",
                      kind         ? kind
                      : vocabulary ? "a vocabulary"
                                   : "none");
}

/* The data of a run may have moved since. */
static scion_status open_stored_data(trainer *t, const checkpoint *file, const char *const *pairs, int count,
                                     purpose why, scion_error *err)
{
    const bool other = is_given("data", pairs, count) || is_given("val_data", pairs, count);
    const data_context special = {.vocabulary = checkpoint_get(file, "vocabulary"),
                                  .images = checkpoint_get(file, "images"),
                                  .stored = true,
                                  .whole = why == TO_EVALUATE_WHOLE,
                                  .as_0_1 = is_old(file) && !other};
    scion_error inner;
    scion_status status = trainer_open_data(t, &special, &inner);
    if (status == SCION_OK)
        return why == TO_CLASSIFY ? SCION_OK : check_kind(t, file, err);
    return train_fail(
        err, status, "%.180s%s", inner.message,
        t->c.data.path[0] && access(t->c.data.path, F_OK) != 0 ? " (data=FILE says where the data are now)" : "");
}

static scion_status from_file(trainer **out, const char *path, const char *const *pairs, int count, purpose why,
                              scion_error *err)
{
    const bool training = trains(why);
    checkpoint *file = NULL;
    trainer *t = NULL;
    config c, stored;
    scion_status status = checkpoint_open(&file, path, err);
    if (status == SCION_OK)
        status = read_config(file, path, NULL, 0, why, &stored, err);
    if (status == SCION_OK)
        status = read_config(file, path, pairs, count, why, &c, err);
    if (status == SCION_OK && why == TO_SAMPLE && !(config_model(&c)->decode && checkpoint_get(file, "vocabulary")))
        status = train_fail(err, SCION_EINVAL, "%s: only a model that learned from a text file can write text", path);
    if (status == SCION_OK && why == TO_CLASSIFY && !checkpoint_get(file, "images"))
        status = train_fail(err, SCION_EINVAL, "%s: only a model that learned from images can classify them", path);
    if (status == SCION_OK && (why == TO_SAMPLE || why == TO_CLASSIFY)) { /* vocabulary, or classes, are enough */
        c.data.path[0] = '\0';
        snprintf(c.data.kind, sizeof c.data.kind, "auto");
    }
    if (status == SCION_OK && why == TO_SAMPLE)
        c.training.batch = 1;
    if (status == SCION_OK && !training && is_given("data", pairs, count) && !is_given("val_data", pairs, count))
        c.data.val[0] = '\0'; /* that of the run has nothing to do with these */
    if (status == SCION_OK)
        status = trainer_new(&t, &c, err);
    if (status == SCION_OK)
        status = open_stored_data(t, file, pairs, count, why, err);
    if (status == SCION_OK)
        status = trainer_record(t, training, err);
    if (status == SCION_OK && training)
        status = trainer_check_memory(t, err);
    if (status == SCION_OK)
        status = trainer_allocate(t, training, err);
    if (status == SCION_OK && training)
        status = trainer_make_optimizer(t, err);
    if (status == SCION_OK)
        status = read_weights(t, file, path, training, err);
    if (status == SCION_OK && training)
        status = read_optimizer(t, file, path, err);
    if (status == SCION_OK && training)
        trainer_count_optimizer(t);
    if (status == SCION_OK)
        status = read_position(t, file, path, training, err);
    if (status == SCION_OK)
        status = ranks_check_position(t, path, err);
    if (status == SCION_OK && t->step > 0)
        t->lr_before = trainer_lr_at(&stored.training, t->steps_before, t->step - 1);
    if (status == SCION_OK && why == TO_CHANGE)
        status = note_changes(t, &stored, pairs, count, err);
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

scion_status trainer_resume_changed(trainer **out, const char *path, const char *const *pairs, int count,
                                    scion_error *err)
{
    return from_file(out, path, pairs, count, TO_CHANGE, err);
}

scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err)
{
    return from_file(out, path, pairs, count, TO_EVALUATE, err);
}

scion_status trainer_open_whole(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err)
{
    return from_file(out, path, pairs, count, TO_EVALUATE_WHOLE, err);
}

scion_status trainer_open_model(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err)
{
    return from_file(out, path, pairs, count, TO_SAMPLE, err);
}

scion_status trainer_open_images(trainer **out, const char *path, const char *const *pairs, int count,
                                 scion_error *err)
{
    return from_file(out, path, pairs, count, TO_CLASSIFY, err);
}

/* ---- A new run ---------------------------------------------------------------------------------------------- */

/* Option i of those that say what the weights are: the chosen model's, then the data's that it depends on; NULL past
 * the last. */
static const config_option *init_option(const config *c, int i)
{
    const model_row *row = config_model(c);
    int count = 0;
    for (const option *o = row->options; o && o->key; o++)
        if (!o->neutral && !(o->change & OPTION_ON_INIT) && count++ == i)
            return config_find(o->key);
    const config_option *o;
    for (int k = 0; (o = config_option_at(k)) != NULL; k++)
        if (o->change & OPTION_FROM_INIT && count++ == i)
            return o;
    return NULL;
}

static scion_status open_init(checkpoint **file, const char *run, char path[RUN_PATH], config *c, scion_error *err)
{
    *file = NULL;
    scion_status status = run_dir_best(run, path, err);
    if (status == SCION_OK)
        status = checkpoint_open(file, path, err);
    if (status == SCION_OK)
        status = read_config(*file, path, NULL, 0, TO_EVALUATE, c, err);
    return status;
}

scion_status trainer_model_of(config *c, const char *run, scion_error *err)
{
    char path[RUN_PATH], value[CONFIG_TEXT];
    checkpoint *file;
    config from;
    scion_status status = open_init(&file, run, path, &from, err);
    checkpoint_close(file);
    if (status == SCION_OK)
        status = config_set(c, "model", from.model, path, err);
    const config_option *o;
    for (int i = 0; status == SCION_OK && (o = init_option(&from, i)) != NULL; i++) {
        config_get(&from, o, value, sizeof value);
        status = config_set(c, o->key, value, path, err);
    }
    return status;
}

/* Refuses a model that the weights are not of. */
static scion_status check_init(const config *c, const config *from, scion_error *err)
{
    const config_option *o;
    const char *run = c->training.init;
    if (strcmp(c->model, from->model) != 0)
        return train_fail(err, SCION_EINVAL, "init: %.120s has model %s, this run %s", run, from->model, c->model);
    for (int i = 0; (o = init_option(from, i)) != NULL; i++) {
        char theirs[CONFIG_TEXT], ours[CONFIG_TEXT];
        if (o->change & OPTION_ON_EVAL || config_same(c, from, o))
            continue;
        config_get(from, o, theirs, sizeof theirs);
        config_get(c, o, ours, sizeof ours);
        return train_fail(err, SCION_EINVAL, "init: %.100s has %s=%.32s, this run %s=%.32s: say %s=%.32s", run,
                          o->key, theirs, o->key, ours, o->key, theirs);
    }
    return SCION_OK;
}

/* Data, and the model's weights: of the checkpoint that init names. */
static scion_status open_data_of(trainer *t, const checkpoint *file, scion_error *err)
{
    const data_context special = {.vocabulary = checkpoint_get(file, "vocabulary"),
                                  .images = checkpoint_get(file, "images")};
    const scion_status status = trainer_open_data(t, &special, err);
    return status == SCION_OK ? check_kind(t, file, err) : status;
}

/* By role, then what the model starts otherwise. */
static scion_status start_weights(trainer *t, scion_error *err)
{
    const model_row *row = config_model(&t->c);
    scion_status status = scion_optimizer_init_weights(t->optimizer, t->c.training.seed, err);
    if (status == SCION_OK && row->start) {
        status = row->start(&t->model, config_model_options(&t->c), t->data, t->c.training.seed, err);
        if (status == SCION_OK)
            status = scion_optimizer_mark_start(t->optimizer, err);
    }
    return status;
}

scion_status trainer_create(trainer **out, const config *c, scion_error *err)
{
    const bool starts = c->training.init[0] != '\0';
    trainer *t = NULL;
    checkpoint *file = NULL;
    char path[RUN_PATH];
    config from;
    scion_status status = config_check(c, err);
    if (status == SCION_OK && starts)
        status = open_init(&file, c->training.init, path, &from, err);
    if (status == SCION_OK && starts)
        status = check_init(c, &from, err);
    if (status == SCION_OK)
        status = trainer_new(&t, c, err);
    if (status == SCION_OK)
        status = starts ? open_data_of(t, file, err) : trainer_open_data(t, &(data_context){.seed = 0}, err);
    if (status == SCION_OK)
        status = trainer_record(t, true, err);
    if (status == SCION_OK)
        status = trainer_check_memory(t, err);
    if (status == SCION_OK)
        status = trainer_allocate(t, true, err);
    if (status == SCION_OK)
        status = trainer_make_optimizer(t, err);
    if (status == SCION_OK)
        status = start_weights(t, err);
    if (status == SCION_OK)
        trainer_count_optimizer(t);
    if (status == SCION_OK && starts)
        status = read_weights(t, file, path, false, err);
    if (status == SCION_OK && starts) /* bounds are counted from there */
        status = scion_optimizer_mark_start(t->optimizer, err);
    if (status == SCION_OK && starts)
        status = read_count(file, path, "step", &t->init_step, err);
    checkpoint_close(file);
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}
