/* Opening trainers: a new run, a resumed one, a trained model in use. See trainer.h.
 *     checkpoint -> configuration -> data -> model -> weights [-> optimizer -> position] */
#define _GNU_SOURCE 1 /* asprintf */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/run_dir.h"
#include "record/run_tokenizer.h"
#include "trainer/trainer_hf.h"
#include "trainer/trainer_struct.h"
#include "util/fail.h"
#include "util/number.h"

run_position run_position_start(void)
{
    return (run_position){.best = INFINITY};
}

void run_position_free(run_position *p)
{
    free(p->changes);
    *p = run_position_start();
}

/* Ends an open function: gives the trainer to the caller, or frees it. */
static scion_status hand_over(trainer **out, trainer *t, checkpoint *file, scion_status status)
{
    checkpoint_close(file);
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

/* Model, plans, memory and optimizer of a trainer that has its data. */
static scion_status make_training(trainer *t, scion_error *err)
{
    scion_status status = SCION_OK;
    TRY(trainer_plan(t, PLAN_TO_TRAIN | PLAN_TO_EVALUATE, err));
    TRY(trainer_allocate(t, err));
    TRY(trainer_make_optimizer(t, err));
done:
    return status;
}

/* ---- Settings of a checkpoint ---------------------------------------------------------------------------------- */

static const config_option *option_of(const char *pair)
{
    char key[CONFIG_TEXT];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    return config_find(key);
}

/* Sets pairs whose options may change: `allowed` has bits OPTION_ON_*. */
static scion_status change_config(config *c, const char *const *pairs, int count, unsigned allowed, const char *path,
                                  scion_error *err)
{
    scion_status status = SCION_OK;
    TRY(config_make_way(c, pairs, count, err));
    if (allowed & OPTION_ON_EVAL && config_limits("eval_tokens", pairs, count) &&
        config_limits("eval_end", pairs, count))
        return train_fail(err, SCION_EINVAL, "eval_tokens and eval_end both limit this validation: give one of them");
    for (int i = 0; i < count; i++) {
        const config_option *o = option_of(pairs[i]);
        const unsigned change = o ? o->change : 0;
        char dir[CONFIG_TEXT];
        run_dir_of(path, dir);
        if (change & allowed)
            TRY(config_set_pair(c, pairs[i], err));
        else if (allowed & OPTION_ON_EVAL)
            return train_fail(err, SCION_EINVAL, "%s: cannot be changed for a trained model", pairs[i]);
        else if (change & OPTION_ON_FORCE)
            return train_fail(err, SCION_EINVAL, "%s: cannot be changed when a run is resumed; --force changes it",
                              pairs[i]);
        else
            return train_fail(err, SCION_EINVAL,
                              "%s: cannot be changed when a run is resumed; scion train init=%s starts a new run "
                              "from its weights",
                              pairs[i], dir);
    }
done:
    return status;
}

/* Refuses a tokenizer for a model that has one. */
static scion_status check_tokenizer(const checkpoint *file, const char *path, const char *const *pairs, int count,
                                    scion_error *err)
{
    if (!run_vocabulary(file).kind || !config_given("tokenizer", pairs, count))
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "%.150s: the model has its own tokenizer: leave tokenizer out", path);
}

/* Notes the step sizes that the pairs change in the course of a run. */
static scion_status note_changes(const trainer *t, const config *stored, const char *const *pairs, int count,
                                 run_position *position, scion_error *err)
{
    for (int i = 0; i < count; i++) {
        const config_option *o = option_of(pairs[i]);
        const char *before = position->changes ? position->changes : "";
        char old[CONFIG_TEXT], now[CONFIG_TEXT], *all;
        if (!(o->change & OPTION_ON_FORCE) || config_same(stored, &t->c, o))
            continue;
        config_get(stored, o, old, sizeof old);
        config_get(&t->c, o, now, sizeof now);
        if (asprintf(&all, "%s%safter step %lld: %s %s -> %s", before, before[0] ? "\n" : "", (long long)t->step,
                     o->key, old, now) < 0)
            return train_fail(err, SCION_ENOMEM, "out of memory");
        free(position->changes);
        position->changes = all;
    }
    return SCION_OK;
}

/* ---- Data of a checkpoint
 * ---------------------------------------------------------------------------------------- */

/* Refuses data of another kind than the model learned from. */
static scion_status check_kind(const trainer *t, const checkpoint *file, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const char *kind = checkpoint_get(file, "data_kind");
    if (kind && data_same_kind(kind, d->kind))
        return SCION_OK;
    if (d->images && checkpoint_get(file, "images")) /* of one size, whatever they are read from */
        return SCION_OK;
    if (d->tokenizer && run_vocabulary(file).kind) /* tokens of the model's tokenizer */
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "%.150s: data of kind %s, but the model learned from kind %s",
                      t->c.data.path, d->kind, kind ? kind : "unknown");
}

/* Number of tokens that a model knows; 0: unknown, or the file's vocabulary has it. */
static int64_t range_of(const checkpoint *file)
{
    enum { shards_before = 50304 }; /* up to 0.3, unless vocab said otherwise */
    const char *text = checkpoint_get(file, "vocab"), *kind = checkpoint_get(file, "data_kind");
    int64_t range;
    if (text && number_int(text, &range) && range > 0)
        return range;
    return kind && strcmp(kind, "tokens") == 0 ? shards_before : 0;
}

static data_context stored_context(const checkpoint *file)
{
    return (data_context){.vocabulary = run_vocabulary(file),
                          .range = range_of(file),
                          .kind = checkpoint_get(file, "data_kind"),
                          .images = checkpoint_get(file, "images")};
}

/* Opens the data of a run, which may have moved since. */
static scion_status open_stored_data(trainer *t, const checkpoint *file, bool whole, bool any_kind, scion_error *err)
{
    data_context special = stored_context(file);
    scion_error inner;
    special.stored = true;
    special.whole = whole;
    const scion_status status = trainer_open_data(t, &special, &inner);
    if (status == SCION_OK)
        return any_kind ? SCION_OK : check_kind(t, file, err);
    return train_fail(
        err, status, "%.180s%s", inner.message,
        t->c.data.path[0] && access(t->c.data.path, F_OK) != 0 ? " (data=FILE says where the data are now)" : "");
}

/* Takes the step of the checkpoint. The steps of a run that is counted in epochs are those that it was begun with:
 * batch and data of this command may be others. */
static scion_status read_step(trainer *t, const checkpoint *file, const char *path, int64_t *steps, scion_error *err)
{
    const scion_status status = trainer_read_steps(file, path, &t->step, steps, err);
    if (status == SCION_OK && t->c.training.steps == 0)
        t->steps = *steps;
    return status;
}

/* ---- A resumed run
 * ------------------------------------------------------------------------------------------------ */

scion_status trainer_resume(trainer **out, const char *path, const char *const *pairs, int count, bool force,
                            comm *ranks, run_position *position, trainer_resumed *before, scion_error *err)
{
    checkpoint *file = NULL;
    trainer *t = NULL;
    config stored, c;
    scion_status status = SCION_OK;
    *position = run_position_start();
    *before = (trainer_resumed){.lr_before = NAN};
    TRY(checkpoint_open(&file, path, err));
    TRY(trainer_read_config(file, path, &stored, err));
    c = stored;
    TRY(change_config(&c, pairs, count, OPTION_ON_RESUME | (force ? OPTION_ON_FORCE : 0), path, err));
    TRY(check_tokenizer(file, path, pairs, count, err));
    if (count > 0)
        TRY(config_check_schedule(&c, err));
    TRY(trainer_new(&t, &c, ranks, err));
    TRY(open_stored_data(t, file, false, false, err));
    TRY(make_training(t, err));
    TRY(trainer_read_weights(t, file, path, false, err));
    TRY(trainer_read_optimizer(t, file, path, err));
    TRY(read_step(t, file, path, &before->steps_before, err));
    TRY(trainer_read_position(t, file, path, position, err));
    if (t->step > 0)
        before->lr_before = trainer_lr_at(&stored.training, before->steps_before, t->step - 1);
    TRY(note_changes(t, &stored, pairs, force ? count : 0, position, err));
done:
    return hand_over(out, t, file, status);
}

/* ---- A trained model in use
 * ------------------------------------------------------------------------------------- */

typedef struct use_row {
    unsigned plans;
    bool whole;          /* all of the data are measured */
    const char *needs;   /* metadata that is enough in place of data; NULL: data are opened */
    const char *refused; /* said of a checkpoint without it */
} use_row;

static const use_row uses[] = {
    [TRAINER_EVALUATE] = {.plans = PLAN_TO_EVALUATE},
    [TRAINER_EVALUATE_WHOLE] = {.plans = PLAN_TO_EVALUATE, .whole = true},
    [TRAINER_CLASSIFY] = {.plans = PLAN_TO_CLASSIFY,
                          .needs = "images",
                          .refused = "only a model that learned from images can classify them"},
    [TRAINER_GENERATE] = {.needs = "data_kind",
                          .refused = "only a model that learned from a text or from token shards can write"},
    [TRAINER_EXPORT] = {.needs = "data_kind",
                        .refused = "only a model of text can be exported; this is a safetensors file, which other "
                                   "programs read as it is"},
};

/* Settings of a trained model that its use decides. */
static void settle_use(config *c, const use_row *use, const char *const *pairs, int count)
{
    if (use->needs) {
        c->data.path[0] = '\0';
        snprintf(c->data.kind, sizeof c->data.kind, "auto");
    }
    if (!use->plans)
        c->training.batch = 1;
    if (config_given("data", pairs, count) && !config_given("val_data", pairs, count))
        c->data.val[0] = '\0'; /* the run's val_data does not belong to the new data */
    if (use->whole && !config_given("eval_tokens", pairs, count) && !config_given("eval_batches", pairs, count) &&
        !config_given("eval_end", pairs, count))
        c->run.eval_tokens = c->run.eval_batches = c->run.eval_end = 0; /* measure everything */
}

/* True if the model writes tokens, and the checkpoint says how many there are. */
static bool can_write(const config *c, const checkpoint *file)
{
    return config_model(c)->writes && (c->data.vocab > 0 || range_of(file) > 0 || run_vocabulary(file).kind);
}

scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, trainer_use use,
                          scion_error *err)
{
    const use_row *row = &uses[use];
    checkpoint *file = NULL;
    trainer *t = NULL;
    config c;
    int64_t steps;
    scion_status status = SCION_OK;
    TRY(checkpoint_open(&file, path, err));
    TRY(trainer_read_config(file, path, &c, err));
    TRY(change_config(&c, pairs, count, OPTION_ON_EVAL, path, err));
    TRY(check_tokenizer(file, path, pairs, count, err));
    if (row->needs && (!checkpoint_get(file, row->needs) || (!row->plans && !can_write(&c, file))))
        TRY(train_fail(err, SCION_EINVAL, "%s: %s", path, row->refused));
    settle_use(&c, row, pairs, count);
    TRY(trainer_new(&t, &c, NULL, err));
    TRY(open_stored_data(t, file, row->whole, row->plans == PLAN_TO_CLASSIFY || !row->plans, err));
    TRY(trainer_plan(t, row->plans, err));
    TRY(trainer_allocate(t, err));
    TRY(trainer_read_weights(t, file, path, true, err));
    TRY(read_step(t, file, path, &steps, err));
done:
    return hand_over(out, t, file, status);
}

/* ---- A new run ------------------------------------------------------------------------------------------------ */

/* Option i of those that weights depend on: the chosen model's, then the data's; NULL past the last. */
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

/* The run or the folder that init names. */
typedef struct init_source {
    checkpoint *file;  /* best checkpoint of a run; NULL: a folder */
    hf_folder *folder; /* of transformers; NULL: a run */
    char path[RUN_PATH];
    config c;    /* of the run, or the network of the folder */
    void *saved; /* tokenizer of the folder, for data */
} init_source;

static void close_init(init_source *s)
{
    checkpoint_close(s->file);
    hf_folder_close(s->folder);
    free(s->saved);
}

/* activation: see trainer_hf_config. Close in any case. */
static scion_status open_init(init_source *s, const char *init, const char *activation, scion_error *err)
{
    scion_status status = SCION_OK;
    *s = (init_source){.file = NULL};
    if (trainer_hf_is(init)) {
        TRY(hf_folder_open(&s->folder, init, true, err));
        TRY(trainer_hf_config(s->folder, activation, &s->c, err));
    } else {
        TRY(run_dir_best(init, s->path, err));
        TRY(checkpoint_open(&s->file, s->path, err));
        TRY(trainer_read_config(s->file, s->path, &s->c, err));
    }
done:
    return status;
}

scion_status trainer_model_of(config *c, const char *run, config *from, bool *trained, scion_error *err)
{
    char value[CONFIG_TEXT];
    init_source source;
    const config_option *o;
    scion_status status = SCION_OK;
    TRY(open_init(&source, run, NULL, err));
    *from = source.c;
    *trained = source.file != NULL;
    TRY(config_set(c, "model", from->model, run, err));
    for (int i = 0; (o = init_option(from, i)) != NULL; i++) {
        config_get(from, o, value, sizeof value);
        TRY(config_set(c, o->key, value, run, err));
    }
done:
    close_init(&source);
    return status;
}

void trainer_optimizer_of(config *c, const config *from)
{
    c->optimizer = from->optimizer;
    c->training.lr = TRAINER_INIT_LR * from->training.lr;
    c->optimizer.adam_lr = TRAINER_INIT_LR * from->optimizer.adam_lr;
}

/* Refuses a model that the weights do not fit. */
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

/* By role, then as the model itself says. */
static scion_status start_weights(trainer *t, scion_error *err)
{
    const model_row *row = config_model(&t->c);
    scion_status status = SCION_OK;
    TRY(scion_optimizer_init_weights(t->optimizer, t->c.training.seed, err));
    if (!row->start)
        return SCION_OK;
    TRY(row->start(&t->model, config_model_options(&t->c), t->data, t->c.training.seed, err));
    TRY(scion_optimizer_mark_start(t->optimizer, err));
done:
    return status;
}

static void start_copies(trainer *t)
{
    for (int i = FLAT_OWN; flat_rows[i].name; i++)
        if (t->flats[i] && flat_rows[i].like == LIKE_WEIGHTS)
            memcpy(t->flats[i], t->flats[FLAT_WEIGHTS], flat_bytes(t->model.tape, LIKE_WEIGHTS));
}

void trainer_share_weights(const trainer *t)
{
    for (int i = 0; flat_rows[i].name; i++)
        if (t->flats[i] && flat_rows[i].like != LIKE_GRADS)
            comm_broadcast(t->comm, 0, t->flats[i], flat_bytes(t->model.tape, flat_rows[i].like));
}

void trainer_share_hashes(trainer *t)
{
    const comm *c = t->comm;
    int64_t count;
    uint64_t *hashes = data_hash_parts(t->data, &count);
    if (c->size == 1 || !hashes)
        return;
    uint64_t *all = malloc((size_t)(c->size * count) * sizeof *all);
    if (!all)
        comm_fail(t->comm, c->rank, "is out of memory"); /* the others wait for this rank */
    comm_gather(t->comm, hashes, (size_t)count * sizeof *hashes, all);
    for (int64_t i = 0; i < count; i++)
        hashes[i] = all[i % c->size * count + i];
    free(all);
    data_join_hashes(t->data);
}

/* Context of data for a model that starts from these weights. */
static scion_status init_context(init_source *s, const config *c, data_context *special, scion_error *err)
{
    if (s->folder)
        return trainer_hf_context(s->folder, c, special, &s->saved, err);
    *special = stored_context(s->file);
    if (special->vocabulary.kind && strcmp(c->data.tokenizer, "auto") != 0 &&
        strcmp(c->data.tokenizer, s->c.data.tokenizer) != 0)
        return train_fail(err, SCION_EINVAL, "init: %.120s has its own tokenizer: leave tokenizer out",
                          c->training.init);
    return SCION_OK;
}

static scion_status init_weights(trainer *t, const init_source *s, int64_t *step, scion_error *err)
{
    int64_t steps;
    scion_status status = SCION_OK;
    *step = 0;
    if (s->folder) {
        TRY(trainer_hf_weights(t, s->folder, err));
    } else {
        TRY(trainer_read_weights(t, s->file, s->path, true, err));
        TRY(trainer_read_steps(s->file, s->path, step, &steps, err));
    }
    TRY(scion_optimizer_mark_start(t->optimizer, err)); /* bounds are counted from there */
done:
    return status;
}

scion_status trainer_create(trainer **out, const config *c, comm *ranks, int64_t *init_step, scion_error *err)
{
    const bool init = c->training.init[0] != '\0';
    data_context special = {.seed = 0};
    init_source source = {.file = NULL};
    trainer *t = NULL;
    int64_t step = -1;
    scion_status status = SCION_OK;
    if (init) {
        const config_option *activation = config_find("activation");
        char wanted[CONFIG_TEXT] = "";
        config_get(c, activation, wanted, sizeof wanted);
        TRY(open_init(&source, c->training.init, wanted, err));
        TRY(check_init(c, &source.c, err));
        TRY(init_context(&source, c, &special, err));
    }
    TRY(trainer_new(&t, c, ranks, err));
    TRY(trainer_open_data(t, &special, err));
    if (source.file)
        TRY(check_kind(t, source.file, err));
    TRY(make_training(t, err));
    if (init)
        TRY(init_weights(t, &source, &step, err));
    else
        TRY(start_weights(t, err));
    start_copies(t);
done:
    if (init_step)
        *init_step = step;
    close_init(&source);
    return hand_over(out, t, NULL, status);
}
