/* See make_shards.h. Files are read one after the other, each as a whole. Tokens fill a shard up to its size, a
 * document goes on in the next one; validation ends with a document. The position is written after each shard: the
 * file, the document in it and how many of its tokens are in shards. */
#include "data/make_shards.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arith.h"
#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "data/paths.h"
#include "data/shard_file.h"
#include "data/text.h"
#include "data/tokenize.h"

static const char record_name[] = "tokenize.json", format_name[] = "scion-tokenize-1";

enum { buffered = 1 << 18 /* tokens */ };

typedef struct position {
    int64_t file, document, within; /* the next document, and its tokens that are in shards */
    int64_t shards, tokens[DATA_PARTS];
    bool training, done;
} position;

typedef struct work {
    const make_shards_options *o;
    data_names files;
    json_t *settings;                        /* all that the shards depend on */
    int64_t bytes, bytes_before, file_bytes; /* of all files, of those before this one, of this one */
    int64_t val_tokens;
    int width;
    position at;
    /* The shard that is being written */
    atomic_file shard;
    char shard_path[data_path_bytes];
    bool open;
    int64_t count, pending; /* tokens of it; those that are not written yet */
    void *buffer;
    int64_t skip; /* tokens of the first document that earlier shards have */
} work;

/* ---- Files --------------------------------------------------------------------------------------------- */

/* Adds the files of a folder, or a file. */
static scion_status add_input(work *w, const char *path, scion_error *err)
{
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    data_names names = {NULL, 0};
    scion_status status = SCION_OK;
    if (!file_is_folder(path))
        return data_add_name(&w->files, path, err);
    TRY(data_list(path, "", w->o->out, &names, NULL, err));
    data_sort_names(&names);
    for (int64_t i = 0; i < names.count; i++) {
        char full[data_path_bytes];
        struct stat s;
        if (!data_path(full, "%s%s%s", path, slash, names.name[i]))
            TRY(data_fail(err, SCION_EINVAL, path, "the path of a file in it is too long"));
        if (stat(full, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0)
            TRY(data_add_name(&w->files, full, err));
    }
done:
    data_free_names(&names);
    return status;
}

/* Name, size and time of a file. */
static scion_status describe_file(const char *path, json_t **about, int64_t *bytes, scion_error *err)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return data_fail(err, SCION_EINVAL, path, "there is no such file");
    *bytes = s.st_size;
    *about = json_pack("{s:o, s:I, s:I}", "path", json_text(path), "bytes", (json_int_t)s.st_size, "time",
                       (json_int_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec);
    return *about ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
}

static scion_status list_inputs(work *w, scion_error *err)
{
    char hash[20];
    json_t *list = json_array(), *about;
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < w->o->input_count; i++)
        status = add_input(w, w->o->inputs[i], err);
    for (int64_t i = 0; status == SCION_OK && i < w->files.count; i++) {
        int64_t bytes = 0;
        status = describe_file(w->files.name[i], &about, &bytes, err);
        if (status == SCION_OK)
            json_array_append_new(list, about);
        w->bytes += bytes;
    }
    if (status == SCION_OK && w->files.count == 0)
        status = train_fail(err, SCION_EINVAL, "%.200s: no texts to tokenise", w->o->inputs[0]);
    w->val_tokens = w->o->val_tokens < 0 ? scn_min(w->bytes / 80, 10000000) : w->o->val_tokens;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tokenizer_hash(w->o->tokenizer));
    w->settings = json_pack("{s:s, s:s, s:o, s:I, s:I, s:o}", "format", format_name, "tokenizer", hash, "field",
                            json_text(w->o->field), "shard_tokens", (json_int_t)w->o->shard_tokens, "val",
                            (json_int_t)w->val_tokens, "files", list);
    return status;
}

/* ---- The record of the work --------------------------------------------------------------------------------- */

static scion_status out_path(const work *w, const char *name, char path[data_path_bytes], scion_error *err)
{
    if (data_path(path, "%s/%s", w->o->out, name))
        return SCION_OK;
    return data_fail(err, SCION_EINVAL, w->o->out, "the path is too long");
}

static scion_status write_record(const work *w, scion_error *err)
{
    char path[data_path_bytes];
    const position *p = &w->at;
    RETURN_IF_FAILED(out_path(w, record_name, path, err));
    json_t *record = json_deep_copy(w->settings);
    json_object_set_new(record, "position",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "file", (json_int_t)p->file, "document",
                                  (json_int_t)p->document, "within", (json_int_t)p->within, "shards",
                                  (json_int_t)p->shards, "val_tokens", (json_int_t)p->tokens[DATA_VAL],
                                  "train_tokens", (json_int_t)p->tokens[DATA_TRAIN], "training", (int)p->training,
                                  "done", (int)p->done));
    return json_save(record, JSON_INDENT(1), path, err);
}

/* Names the first difference between the settings of a record and those of this call. */
static scion_status compare(const work *w, const json_t *record, scion_error *err)
{
    static const char *const keys[] = {"format", "tokenizer", "field", "shard_tokens", "val"};
    const json_t *old = json_object_get(record, "files"), *now = json_object_get(w->settings, "files");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(record, keys[i]), json_object_get(w->settings, keys[i])))
            return data_fail(err, SCION_EINVAL, w->o->out, "it holds shards with another %s: name another folder",
                             keys[i]);
    for (size_t i = 0; i < json_array_size(old) || i < json_array_size(now); i++) {
        const json_t *before = json_array_get(old, i), *after = json_array_get(now, i);
        const char *path = json_string_value(json_object_get(after ? after : before, "path"));
        if (!json_equal(before, after))
            return data_fail(err, SCION_EINVAL, path ? path : "?",
                             "it has changed since the shards were begun: name another folder than %.30s", w->o->out);
    }
    return SCION_OK;
}

static bool read_position(const json_t *record, position *p)
{
    json_int_t n[6];
    int training, done;
    if (json_unpack(json_object_get(record, "position"), "{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "file", &n[0],
                    "document", &n[1], "within", &n[2], "shards", &n[3], "val_tokens", &n[4], "train_tokens", &n[5],
                    "training", &training, "done", &done) != 0)
        return false;
    for (int i = 0; i < 6; i++)
        if (n[i] < 0)
            return false;
    *p = (position){n[0], n[1], n[2], n[3], {[DATA_VAL] = n[4], [DATA_TRAIN] = n[5]}, training, done};
    return true;
}

/* Finds where an earlier call ended; a new folder is begun. */
static scion_status find_position(work *w, scion_error *err)
{
    char path[data_path_bytes], shards[data_path_bytes];
    data_names names = {NULL, 0};
    json_t *record = NULL;
    scion_status status;
    TRY(file_make_folder(w->o->out, err));
    TRY(out_path(w, record_name, path, err));
    atomic_remove_stale(-1, w->o->out);
    if (file_exists(path)) {
        if (!(record = json_load_file(path, 0, NULL)) || !json_is_object(record))
            TRY(data_fail(err, SCION_EINVAL, path, "damaged: remove it and the shards, or name another folder"));
        TRY(compare(w, record, err));
        if (!read_position(record, &w->at))
            TRY(data_fail(err, SCION_EINVAL, path, "damaged: remove it and the shards, or name another folder"));
        goto done;
    }
    TRY(data_list(w->o->out, "", NULL, &names, NULL, err));
    for (int64_t i = 0; i < names.count; i++)
        if (strlen(names.name[i]) > 4 && strcmp(names.name[i] + strlen(names.name[i]) - 4, ".bin") == 0)
            TRY(data_fail(err, SCION_EINVAL, w->o->out, "it holds %.40s already: name another folder",
                          names.name[i]));
    TRY(out_path(w, "tokens", shards, err)); /* any name in the folder */
    TRY(shard_tokenizer_save(w->o->tokenizer, shards, err));
    w->at.training = w->val_tokens == 0;
    TRY(write_record(w, err));
done:
    json_decref(record);
    data_free_names(&names);
    return status;
}

/* ---- Shards -------------------------------------------------------------------------------------------- */

static scion_status begin_shard(work *w, scion_error *err)
{
    char name[64];
    int32_t head[SHARD_INTS];
    snprintf(name, sizeof name, "tokens_%s_%06lld.bin", w->at.training ? "train" : "val", (long long)w->at.shards);
    RETURN_IF_FAILED(out_path(w, name, w->shard_path, err));
    RETURN_IF_FAILED(atomic_begin(&w->shard, -1, w->shard_path, err));
    w->open = true;
    w->count = 0;
    shard_header(head, w->width, 0);
    const scion_status status = atomic_write(&w->shard, head, sizeof head, err);
    w->open = status == SCION_OK; /* after a failure there is none */
    return status;
}

static scion_status write_pending(work *w, scion_error *err)
{
    const scion_status status = atomic_write(&w->shard, w->buffer, (size_t)(w->pending * w->width), err);
    w->open = status == SCION_OK;
    w->pending = 0;
    return status;
}

/* Ends the shard, if there is one, and records the position behind it; train: validation has enough. */
static scion_status end_shard(work *w, bool train, scion_error *err)
{
    int32_t head[SHARD_INTS];
    scion_status status;
    if (!w->open) {
        w->at.training = w->at.training || train;
        return SCION_OK;
    }
    RETURN_IF_FAILED(write_pending(w, err));
    w->open = false;
    shard_header(head, w->width, w->count);
    TRY(atomic_write_at(&w->shard, 0, head, sizeof head, err));
    TRY(atomic_commit(&w->shard, err));
    w->at.shards++;
    w->at.tokens[w->at.training ? DATA_TRAIN : DATA_VAL] += w->count;
    w->at.training = w->at.training || train;
    status = write_record(w, err);
done:
    return status;
}

/* Tokens that validation has, with those of the present shard. */
static int64_t val_so_far(const work *w)
{
    return w->at.tokens[DATA_VAL] + (w->open && !w->at.training ? w->count : 0);
}

/* Adds tokens of one document. */
static scion_status put_tokens(work *w, const int32_t *tokens, int64_t count, scion_error *err)
{
    while (count > 0) {
        if (!w->open)
            RETURN_IF_FAILED(begin_shard(w, err));
        int64_t n = scn_min(scn_min(count, buffered - w->pending), w->o->shard_tokens - w->count);
        if (!w->at.training)
            n = scn_min(n, 2 * w->val_tokens - val_so_far(w));
        for (int64_t i = 0; i < n; i++)
            data_put_token(w->buffer, w->width, w->pending + i, (uint32_t)tokens[i]);
        w->pending += n;
        w->count += n;
        w->at.within += n;
        tokens += n;
        count -= n;
        const bool enough = !w->at.training && val_so_far(w) >= 2 * w->val_tokens;
        if (w->pending == buffered)
            RETURN_IF_FAILED(write_pending(w, err));
        if (w->count == w->o->shard_tokens || enough)
            RETURN_IF_FAILED(end_shard(w, enough, err));
    }
    return SCION_OK;
}

static scion_status take(void *ctx, const int32_t *tokens, int64_t count, int64_t document, scion_error *err)
{
    work *w = ctx;
    const int64_t skipped = scn_min(w->skip, count);
    w->skip -= skipped;
    RETURN_IF_FAILED(put_tokens(w, tokens + skipped, count - skipped, err));
    if (document < 0)
        return SCION_OK;
    w->at.document = document + 1;
    w->at.within = 0;
    w->skip = 0;
    return w->at.training || val_so_far(w) < w->val_tokens ? SCION_OK : end_shard(w, true, err);
}

static void show(void *ctx, double share)
{
    const work *w = ctx;
    const double done = (double)w->bytes_before + share * (double)w->file_bytes;
    if (w->o->progress)
        w->o->progress(w->o->ctx, "tokenising", w->bytes > 0 ? done / (double)w->bytes : 1);
}

/* ---- All files ----------------------------------------------------------------------------------------- */

/* Refuses a file that is not as it was when the work began. */
static scion_status check_file(const work *w, int64_t i, scion_error *err)
{
    json_t *about = NULL;
    int64_t bytes;
    RETURN_IF_FAILED(describe_file(w->files.name[i], &about, &bytes, err));
    const bool same = json_equal(about, json_array_get(json_object_get(w->settings, "files"), (size_t)i));
    json_decref(about);
    return same ? SCION_OK : data_fail(err, SCION_EINVAL, w->files.name[i], "it has changed while it was read");
}

static scion_status take_file(work *w, int64_t i, make_shards_result *result, scion_error *err)
{
    const data_reading how = {.field = w->o->field, .skip_others = true};
    data_texts texts;
    scion_status status;
    TRY(data_read_texts(&texts, w->files.name[i], &how, err));
    TRY(check_file(w, i, err));
    result->others += texts.others;
    if (w->at.document > texts.document_count)
        TRY(data_fail(err, SCION_EINVAL, w->files.name[i], "it has fewer documents than when it was read before"));
    const data_tokenizing tokenizing = {
        .tokenizer = w->o->tokenizer, .first = w->at.document, .progress = show, .take = take, .ctx = w};
    w->skip = w->at.within;
    TRY(data_tokenize(&texts, &tokenizing, err));
    w->at.file = i + 1;
    w->at.document = w->at.within = 0;
done:
    data_free_texts(&texts);
    return status;
}

static scion_status take_files(work *w, make_shards_result *result, scion_error *err)
{
    for (int64_t i = 0; i < w->files.count; i++) {
        struct stat s;
        w->file_bytes = stat(w->files.name[i], &s) == 0 ? s.st_size : 0;
        if (i >= w->at.file)
            RETURN_IF_FAILED(take_file(w, i, result, err));
        w->bytes_before += w->file_bytes;
    }
    RETURN_IF_FAILED(end_shard(w, false, err));
    if (w->at.tokens[DATA_TRAIN] == 0)
        return train_fail(err, SCION_EINVAL,
                          "%.150s: too little text: none is left to train on; val=0 keeps all of it",
                          w->o->inputs[0]);
    w->at.done = true;
    return write_record(w, err);
}

scion_status make_shards(const make_shards_options *o, make_shards_result *result, scion_error *err)
{
    work w = {.o = o, .width = tokenizer_size(o->tokenizer) <= 1 << 16 ? 2 : 4, .buffer = malloc(buffered * 4)};
    scion_status status;
    *result = (make_shards_result){.shards = 0};
    if (!w.buffer)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    TRY(list_inputs(&w, err));
    TRY(find_position(&w, err));
    result->found = w.at.shards;
    if (!w.at.done)
        TRY(take_files(&w, result, err));
    result->shards = w.at.shards;
    memcpy(result->tokens, w.at.tokens, sizeof result->tokens);
done:
    if (w.open)
        atomic_abort(&w.shard);
    free(w.buffer);
    json_decref(w.settings);
    data_free_names(&w.files);
    return status;
}
