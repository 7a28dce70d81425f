/* The checkpoint of a trainer: writing and reading it.
 *     tensors    every parameter and buffer under its name; the optimizer's arrays as "optimizer.NAME.PARAMETER"
 *                (scion_optimizer_state; with `light`, the averages that are in the gradients); "optimizer", bytes:
 *                its settings and counters; "tokenizer", bytes: the tokenizer of a text, as tokenizer_save writes it
 *     metadata   format, config (JSON), step, steps, best, data_kind; vocab and tokenizer, or images; due =
 *                validation, if the run was stopped in the validation after `step`; micro, micro_loss, micro_bytes,
 *                if it was stopped in a step with `light`: micro-batches of it that the averages have, the sum of
 *                their losses, raw bytes of their targets; changes, if step sizes were changed on the way
 * The data have no position: batches are functions of the step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/network.h"
#include "ranks/fetch.h"
#include "record/checkpoint.h"
#include "trainer/trainer_struct.h"
#include "util/fail.h"
#include "util/number.h"

static const char format_name[] = "scion-2", state_prefix[] = "optimizer.%s.";

enum { name_bytes = 128, max_states = 8 /* of one parameter */ };

/* Name of a type in the format. */
static const char *type_name(scion_dtype type)
{
    return type == SCION_BF16 ? "BF16" : "F32";
}

/* ---- Writing -------------------------------------------------------------------------------------------------- */

/* Place of a tensor's entries, if they are spread over ranks. */
typedef struct source {
    int64_t param;
    int k; /* as find_array has it */
    int32_t type;
} source;

/* Tensors of the file. Arrays are written from where they are: saving takes no memory worth planning for. */
typedef struct listing {
    fetcher from;
    scion_options o;
    scion_param *params; /* for the description of arrays that other ranks have */
    checkpoint_tensor *tensors;
    char (*names)[name_bytes];
    source *sources; /* of the tensors */
    int count;
    void *piece; /* CHECKPOINT_PIECE bytes */
} listing;

/* A parameter or buffer in flat array i, all of it. */
static scion_array flat_array(const trainer *t, int i, const tape_value *v)
{
    const flat_like like = flat_rows[i].like;
    scion_array a = {.size = sizeof a,
                     .name = flat_rows[i].name,
                     .data = flat_at(t->flats[i], like, v),
                     .count = v->count,
                     .type = (int32_t)flat_type(like, v),
                     .ndim = v->ndim};
    memcpy(a.shape, v->shape, sizeof a.shape);
    return a;
}

/* Finds array k of a parameter as far as it is here: its state array k, or with k < 0 its part of flat array -1 -
 * k. */
static bool find_array(const void *ctx, int64_t param, int k, scion_array *a)
{
    const trainer *t = ctx;
    if (k >= 0)
        return scion_optimizer_state(t->optimizer, param, k, a) != 0;
    *a = flat_array(t, -1 - k, tape_param_at(t->model.tape, param));
    a->first = shard_first(&t->shards, t->comm->rank, param);
    a->count = shard_own(&t->shards, t->comm->rank, param);
    a->data = (char *)a->data + scn_stored_bytes(a->type, a->first);
    return a->count > 0;
}

static void list_tensor(listing *l, const char *prefix, const char *name, scion_array a)
{
    checkpoint_tensor *out = &l->tensors[l->count];
    int64_t count = 1;
    for (int i = 0; i < a.ndim; i++)
        count *= a.shape[i];
    snprintf(l->names[l->count], name_bytes, "%s%s", prefix, name);
    *out = (checkpoint_tensor){.name = l->names[l->count],
                               .dtype = type_name((scion_dtype)a.type),
                               .ndim = a.ndim,
                               .data = a.data,
                               .bytes = scn_stored_bytes(a.type, count)};
    memcpy(out->shape, a.shape, sizeof out->shape);
    l->count++;
}

/* Lists array k of parameter i, wherever it is owned; false: there is none. prefix NULL: that of a state array. */
static bool list_owned(listing *l, const trainer *t, int64_t i, int k, const char *prefix)
{
    char state[name_bytes];
    scion_array a;
    scion_array_init(&a);
    if (!find_array(t, i, k, &a) && k >= 0 && !scion_param_state(&l->params[i], &l->o, k, &a))
        return false;
    if (t->comm->size > 1)
        a.data = NULL;
    snprintf(state, sizeof state, state_prefix, a.name);
    l->sources[l->count] = (source){i, k, a.type};
    list_tensor(l, prefix ? prefix : state, tape_param_at(t->model.tape, i)->name, a);
    return true;
}

static const void *fetch_piece(void *ctx, int i, size_t at, size_t bytes)
{
    const listing *l = ctx;
    const source *s = &l->sources[i];
    const size_t entry = scn_stored_bytes(s->type, 1);
    fetch_entries(&l->from, s->param, s->k, s->type, (int64_t)(l->tensors[i].bytes / entry), (int64_t)(at / entry),
                  (int64_t)(bytes / entry), l->piece);
    return l->piece;
}

/* The next flat array from *i on that is saved; false: none. */
static bool next_saved(const trainer *t, int *i)
{
    for (const flat_row *row; (row = &flat_rows[*i])->name; ++*i)
        if (t->flats[*i] && row->saved && (!row->light || t->c.optimizer.light))
            return true;
    return false;
}

static void list_tensors(listing *l, const trainer *t)
{
    for (int64_t p = 0; p < tape_param_count(t->model.tape); p++) {
        const tape_value *v = tape_param_at(t->model.tape, p);
        for (int i = 0; next_saved(t, &i); i++)
            if (flat_rows[i].like == LIKE_WEIGHTS)
                list_tensor(l, flat_rows[i].saved, v->name, flat_array(t, i, v));
            else if (flat_rows[i].like == LIKE_GRADS)
                list_owned(l, t, p, -1 - i, flat_rows[i].saved);
        for (int k = 0; k < max_states && list_owned(l, t, p, k, NULL); k++) {
        }
    }
    for (int i = 0; next_saved(t, &i); i++)
        for (int64_t b = 0; flat_rows[i].like == LIKE_BUFFERS && b < tape_buffer_count(t->model.tape); b++) {
            const tape_value *v = tape_buffer_at(t->model.tape, b);
            list_tensor(l, flat_rows[i].saved, v->name, flat_array(t, i, v));
        }
}

static scion_status write_checkpoint(const trainer *t, const run_position *position, int folder, const char *path,
                                     listing *l, scion_error *err)
{
    char *json = config_to_json(&t->c), step[32], steps[32], best[32], micro[32], micro_loss[32], micro_bytes[32];
    char vocab[32];
    const data_info *d = data_about(t->data);
    if (!json)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(steps, sizeof steps, "%lld", (long long)t->steps);
    snprintf(best, sizeof best, "%.17g", position->best);
    snprintf(micro, sizeof micro, "%lld", (long long)t->micro);
    snprintf(micro_loss, sizeof micro_loss, "%.17g", t->micro_loss);
    snprintf(micro_bytes, sizeof micro_bytes, "%.17g", t->micro_bytes);
    snprintf(vocab, sizeof vocab, "%lld", (long long)d->arrays[d->input].range);
    const checkpoint_meta meta[] = {{"format", format_name},
                                    {"config", json},
                                    {"step", step},
                                    {"steps", steps},
                                    {"best", best},
                                    {"data_kind", d->kind},
                                    {"tokenizer", d->tokenizer ? tokenizer_name(d->tokenizer) : NULL},
                                    {"vocab", d->image ? NULL : vocab},
                                    {"images", d->images},
                                    {"due", position->validation_due ? "validation" : NULL},
                                    {"micro", t->micro > 0 ? micro : NULL},
                                    {"micro_loss", t->micro > 0 ? micro_loss : NULL},
                                    {"micro_bytes", t->micro > 0 ? micro_bytes : NULL},
                                    {"changes", position->changes}};
    const checkpoint_contents contents = {l->tensors, l->count, meta, sizeof meta / sizeof *meta, fetch_piece, l};
    const scion_status status = checkpoint_write(folder, path, &contents, err);
    free(json);
    return status;
}

/* Weights that are not finite must not take the place of good ones. */
static scion_status check_finite(const trainer *t, const char *path, scion_error *err)
{
    const char *bad = trainer_nonfinite(t, true);
    return bad ? train_fail(err, SCION_ENONFINITE, "%s: not saved: after step %lld %s is not finite", path,
                            (long long)t->step, bad)
               : SCION_OK;
}

static scion_status save_here(const trainer *t, const run_position *position, int folder, const char *path,
                              const fetcher *from, scion_error *err)
{
    const size_t max = (size_t)(tape_param_count(t->model.tape) * (FLATS_MAX + max_states) +
                                tape_buffer_count(t->model.tape) * FLATS_MAX + 2);
    const size_t settings_bytes = scion_optimizer_save_bytes(t->optimizer, SCION_WITHOUT_ARRAYS);
    listing l = {.from = *from,
                 .tensors = calloc(max, sizeof *l.tensors),
                 .names = calloc(max, sizeof *l.names),
                 .sources = calloc(max, sizeof *l.sources),
                 .piece = malloc(from->c->size > 1 ? CHECKPOINT_PIECE : 1)};
    void *settings = malloc(settings_bytes), *vocabulary = NULL;
    size_t vocabulary_bytes = 0;
    scion_status status = SCION_OK;
    TRY(check_finite(t, path, err));
    if (!l.tensors || !l.names || !l.sources || !l.piece || !settings)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path));
    TRY(scion_optimizer_save(t->optimizer, SCION_WITHOUT_ARRAYS, settings, settings_bytes, err));
    TRY(network_params(&t->c, t->model.tape, &l.o, &l.params, err));
    list_tensors(&l, t);
    l.tensors[l.count++] =
        (checkpoint_tensor){"optimizer", "U8", 1, {(int64_t)settings_bytes}, settings, settings_bytes};
    if (data_about(t->data)->tokenizer)
        TRY(tokenizer_save(data_about(t->data)->tokenizer, &vocabulary, &vocabulary_bytes, err));
    if (vocabulary_bytes > 0)
        l.tensors[l.count++] =
            (checkpoint_tensor){"tokenizer", "U8", 1, {(int64_t)vocabulary_bytes}, vocabulary, vocabulary_bytes};
    TRY(write_checkpoint(t, position, folder, path, &l, err));
done:
    free(vocabulary);
    free(settings);
    free(l.params);
    free(l.piece);
    free(l.sources);
    free(l.names);
    free(l.tensors);
    return status;
}

scion_status trainer_save(const trainer *t, const run_position *position, int folder, const char *path,
                          scion_error *err)
{
    const fetcher from = {t->comm, &t->shards, find_array, t};
    scion_status status = SCION_OK;
    if (t->comm->rank == 0)
        status = save_here(t, position, folder, path, &from, err);
    return fetch_end(&from, status, err);
}

/* ---- Reading -------------------------------------------------------------------------------------------------- */

scion_status trainer_read_config(const checkpoint *file, const char *path, config *c, scion_error *err)
{
    const char *format = checkpoint_get(file, "format"), *json = checkpoint_get(file, "config");
    if (!format || strcmp(format, format_name) != 0 || !json)
        return train_fail(err, SCION_ESTATE, "%s: not a checkpoint of scion (format %.40s, expected %s)", path,
                          format ? format : "is missing", format_name);
    if (!checkpoint_verified(file))
        return train_fail(err, SCION_ESTATE, "%s: damaged: it has no checksum, and every checkpoint of scion has one",
                          path);
    config_init(c);
    return config_from_json(c, json, err);
}

/* Converts n elements: exact, or rounded to nearest. */
static void convert(scion_dtype from_type, const void *from, scion_dtype to_type, void *to, int64_t n)
{
    if (from_type == to_type)
        memcpy(to, from, scn_stored_bytes((int32_t)to_type, n));
    else if (to_type == SCION_F32)
        scn_from_bf16(n, from, to);
    else
        scn_to_bf16(n, from, to);
}

/* " 10 x 3 x 8" */
static const char *shape_text(int ndim, const int64_t *shape, char text[64])
{
    int at = 0;
    text[0] = '\0';
    for (int i = 0; i < ndim && at < 64; i++)
        at += snprintf(text + at, (size_t)(64 - at), "%s%lld", i > 0 ? " x " : " ", (long long)shape[i]);
    return text;
}

/* Reads entries [a->first, a->first + a->count) of the tensor PREFIX NAME into a->data. The file's type is another
 * only if weights are taken from a run that stored them otherwise (init). */
static scion_status read_entries(const checkpoint *file, const char *path, const char *prefix, const char *name,
                                 const scion_array *a, scion_error *err)
{
    char full[name_bytes], theirs[64], ours[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const checkpoint_tensor *from = checkpoint_find(file, full);
    if (!from)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s is missing", path, full);
    const bool half = strcmp(from->dtype, type_name(SCION_BF16)) == 0;
    bool fits = (half || strcmp(from->dtype, type_name(SCION_F32)) == 0) && from->ndim == a->ndim;
    for (int i = 0; fits && i < a->ndim; i++)
        fits = from->shape[i] == a->shape[i];
    if (!fits)
        return train_fail(err, SCION_ESTATE, "%.120s: tensor %s is %s%s, and this model has %s", path, full,
                          from->dtype, shape_text(from->ndim, from->shape, theirs),
                          shape_text(a->ndim, a->shape, ours));
    const scion_dtype from_type = half ? SCION_BF16 : SCION_F32;
    convert(from_type, (const char *)from->data + scn_stored_bytes((int32_t)from_type, a->first),
            (scion_dtype)a->type, a->data, a->count);
    return SCION_OK;
}

/* Prefix of the tensors to read array i from. A model in use has the weights that validations measured. */
static const char *prefix_to_read(const trainer *t, int i)
{
    const char *prefix = flat_rows[i].saved;
    for (int k = FLAT_OWN; i == FLAT_WEIGHTS && !t->optimizer && flat_rows[k].name; k++) {
        const flat_row *row = &flat_rows[k];
        if (row->validated && row->saved && (!row->wanted || row->wanted(&t->c)))
            prefix = row->saved;
    }
    return prefix;
}

scion_status trainer_read_weights(trainer *t, const checkpoint *file, const char *path, bool model_only,
                                  scion_error *err)
{
    const tape *recorded = t->model.tape;
    scion_status status = SCION_OK;
    for (int i = 0; next_saved(t, &i); i++) {
        const flat_row *row = &flat_rows[i];
        const bool buffers = row->like == LIKE_BUFFERS;
        const int64_t count = buffers ? tape_buffer_count(recorded) : tape_param_count(recorded);
        for (int64_t k = 0; (!model_only || !row->training) && k < count; k++) {
            const tape_value *v = buffers ? tape_buffer_at(recorded, k) : tape_param_at(recorded, k);
            const scion_array a = flat_array(t, i, v);
            TRY(read_entries(file, path, prefix_to_read(t, i), v->name, &a, err));
        }
    }
    const char *bad = trainer_nonfinite(t, true);
    if (bad)
        TRY(train_fail(err, SCION_ENONFINITE, "%s: %s is not finite: the model is of no use", path, bad));
done:
    return status;
}

scion_status trainer_read_optimizer(trainer *t, const checkpoint *file, const char *path, scion_error *err)
{
    const checkpoint_tensor *settings = checkpoint_find(file, "optimizer");
    char prefix[name_bytes];
    scion_array a;
    scion_error inner;
    scion_status status = SCION_OK;
    if (!settings)
        return train_fail(err, SCION_ESTATE, "%s: the optimizer's state is missing", path);
    if (scion_optimizer_load(t->optimizer, SCION_WITHOUT_ARRAYS, settings->data, settings->bytes, &inner) != SCION_OK)
        return train_fail(err, SCION_ESTATE, "%s: %.180s", path, inner.message);
    scion_array_init(&a);
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++)
        for (int k = 0; k < max_states && scion_optimizer_state(t->optimizer, i, k, &a); k++) {
            snprintf(prefix, sizeof prefix, state_prefix, a.name);
            TRY(read_entries(file, path, prefix, tape_param_at(t->model.tape, i)->name, &a, err));
        }
done:
    return status;
}

/* Reads a count of steps from the metadata. */
static scion_status read_count(const checkpoint *file, const char *path, const char *key, int64_t *count,
                               scion_error *err)
{
    const char *text = checkpoint_get(file, key);
    if (text && number_int(text, count) && *count >= 0)
        return SCION_OK;
    return train_fail(err, SCION_ESTATE, "%s: its %s is %.40s", path, key, text ? text : "missing");
}

scion_status trainer_read_steps(const checkpoint *file, const char *path, int64_t *step, int64_t *steps,
                                scion_error *err)
{
    const scion_status status = read_count(file, path, "step", step, err);
    return status == SCION_OK ? read_count(file, path, "steps", steps, err) : status;
}

scion_status trainer_read_position(trainer *t, const checkpoint *file, const char *path, run_position *position,
                                   scion_error *err)
{
    const char *best = checkpoint_get(file, "best"), *due = checkpoint_get(file, "due");
    const char *loss = checkpoint_get(file, "micro_loss"), *bytes = checkpoint_get(file, "micro_bytes");
    const char *changes = checkpoint_get(file, "changes");
    scion_status status = SCION_OK;
    position->best = best ? strtod(best, NULL) : INFINITY;
    position->validation_due = due && strcmp(due, "validation") == 0;
    if (changes && !(position->changes = strdup(changes)))
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path);
    if (checkpoint_get(file, "micro"))
        TRY(read_count(file, path, "micro", &t->micro, err));
    t->micro_loss = loss ? strtod(loss, NULL) : 0;
    t->micro_bytes = bytes ? strtod(bytes, NULL) : t->micro > 0 ? NAN : 0;
    if (t->micro >= t->c.training.accum)
        return train_fail(err, SCION_ESTATE, "%s: its micro is %lld, and a step has %lld", path, (long long)t->micro,
                          (long long)t->c.training.accum);
    if (t->step > t->steps)
        return train_fail(err, SCION_EINVAL, "%s: it is at step %lld, past steps=%lld", path, (long long)t->step,
                          (long long)t->steps);
    if (t->micro > 0 && (!t->share.whole || t->c.training.deterministic))
        return train_fail(
            err, SCION_EINVAL,
            "%s: it was stopped after micro-batch %lld of %lld of a step: resume with a number of ranks "
            "that divides these, and deterministic=no",
            path, (long long)t->micro, (long long)t->c.training.accum);
done:
    return status;
}
