/* A folder that transformers opens with from_pretrained: config.json, generation_config.json, model.safetensors,
 * tokenizer.json, tokenizer_config.json and a model card, README.md. Its name is OUT.tmp.PID until all files are on
 * the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "record/checkpoint.h"
#include "record/export.h"
#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"

/* ---- The folder ----------------------------------------------------------------------------------------- */

/* A folder that is being filled. Messages name the files as they will be called. */
typedef struct folder {
    const char *out;
    char temporary[PATH_MAX];
    int fd;
} folder;

static scion_status open_folder(folder *f, const char *out, scion_error *err)
{
    size_t length = strlen(out);
    *f = (folder){.out = out, .fd = -1};
    while (length > 1 && out[length - 1] == '/')
        length--;
    if ((size_t)snprintf(f->temporary, sizeof f->temporary, "%.*s.tmp.%ld", (int)length, out, (long)getpid()) >=
        sizeof f->temporary)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(out));
    RETURN_IF_FAILED(file_make_folder(f->temporary, err));
    f->fd = open(f->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->fd >= 0 ? SCION_OK
                      : train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(out), strerror(errno));
}

/* Removes a folder that did not get its name. */
static void drop_folder(folder *f)
{
    DIR *list = f->fd >= 0 ? file_list(f->fd, f->temporary) : NULL;
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;)
        unlinkat(f->fd, entry->d_name, 0); /* "." and ".." stay */
    if (list)
        closedir(list);
    if (f->fd >= 0)
        rmdir(f->temporary);
}

static scion_status name_folder(folder *f, scion_error *err)
{
    file_flush(f->fd);
    if (rename(f->temporary, f->out) != 0)
        return train_fail(err, SCION_EINVAL, "%s: not written: %s", path_end(f->out), strerror(errno));
    file_flush_folder(f->out);
    return SCION_OK;
}

static scion_status file_path(const folder *f, const char *name, char path[PATH_MAX], scion_error *err)
{
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s", f->out, name) >= PATH_MAX)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(f->out));
    return SCION_OK;
}

static scion_status save(const folder *f, const char *name, const void *bytes, size_t size, scion_error *err)
{
    char path[PATH_MAX];
    RETURN_IF_FAILED(file_path(f, name, path, err));
    return atomic_save(f->fd, path, bytes, size, err);
}

/* Takes the reference to `o`; NULL: out of memory. */
static scion_status save_json(const folder *f, const char *name, json_t *o, scion_error *err)
{
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    const scion_status status =
        text ? save(f, name, text, strlen(text), err) : train_fail(err, SCION_ENOMEM, "%s: out of memory", name);
    free(text);
    json_decref(o);
    return status;
}

/* ---- Settings ------------------------------------------------------------------------------------------- */

static json_t *value_of(const model_setting *s)
{
    switch (s->type) {
    case MODEL_INT: return json_integer(s->integer);
    case MODEL_REAL: return json_number(s->real);
    case MODEL_BOOL: return json_boolean(s->integer);
    case MODEL_TEXT: return json_string(s->text);
    }
    return NULL;
}

/* Sets a key; "a.b" is the key b of the object a. */
static void set_setting(json_t *o, const model_setting *s)
{
    char outer[64];
    const char *dot = strchr(s->key, '.');
    if (dot) {
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - s->key), s->key);
        if (!json_object_get(o, outer))
            json_object_set_new(o, outer, json_object());
        o = json_object_get(o, outer);
    }
    json_object_set_new(o, dot ? dot + 1 : s->key, value_of(s));
}

/* A token's number, or null: none. */
static json_t *token_or_null(int32_t token)
{
    return token >= 0 ? json_integer(token) : json_null();
}

/* All three tokens are named, because the class has defaults of its own. Padding is left to generation_config.json
 * and the tokenizer: a model with a padding token does not train its row. */
static json_t *make_config(const export_source *s, const model_outline *o, const export_type *type)
{
    const model_export *to = s->model->row->to;
    const int32_t separator = tokenizer_separator(s->data->tokenizer);
    json_t *c = json_pack("{s:[s], s:s, s:s}", "architectures", to->class_name, "model_type", to->architecture,
                          "dtype", type->torch);
    for (int i = 0; i < o->setting_count; i++)
        set_setting(c, &o->settings[i]);
    json_object_set_new(c, "bos_token_id", token_or_null(separator));
    json_object_set_new(c, "eos_token_id", token_or_null(separator));
    json_object_set_new(c, "pad_token_id", json_null());
    return c;
}

static json_t *make_generation(const export_source *s)
{
    const int32_t separator = tokenizer_separator(s->data->tokenizer);
    return json_pack("{s:b, s:o, s:o, s:o}", "do_sample", 1, "bos_token_id", token_or_null(separator), "eos_token_id",
                     token_or_null(separator), "pad_token_id", token_or_null(separator));
}

static json_t *make_tokenizer_config(const export_source *s)
{
    const tokenizer *t = s->data->tokenizer;
    size_t n = 0;
    const char *separator = tokenizer_decode(t, tokenizer_separator(t), &n);
    json_t *o = json_pack("{s:s, s:I, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                          (json_int_t)s->data->sample_units, "clean_up_tokenization_spaces", 0);
    static const char *const keys[] = {"bos_token", "eos_token", "pad_token"};
    for (size_t i = 0; separator && i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(o, keys[i], json_stringn(separator, n));
    return o;
}

/* ---- Weights -------------------------------------------------------------------------------------------- */

typedef struct weights {
    const model_tensor *tensors;
    const export_type *type;
    float *buffer;
    void *piece;
} weights;

static const void *fetch(void *ctx, int i, size_t at, size_t bytes)
{
    const weights *w = ctx;
    export_piece(&w->tensors[i], w->type, at, bytes, w->buffer, w->piece);
    return w->piece;
}

/* The metadata has "format", by which transformers knows the file, and the activation with its factor: config.json
 * has the function alone. */
static scion_status save_weights(const folder *f, const export_source *s, const model_outline *o,
                                 const export_type *type, scion_error *err)
{
    char activation[CONFIG_TEXT];
    const checkpoint_meta meta[] = {{"format", "pt"}, {"activation", activation}};
    char path[PATH_MAX];
    checkpoint_tensor *list = calloc((size_t)o->tensor_count, sizeof *list);
    weights w = {.tensors = o->tensors, .type = type, .piece = malloc(CHECKPOINT_PIECE)};
    w.buffer = malloc(CHECKPOINT_PIECE / type->block_bytes * sizeof *w.buffer);
    scion_status status = SCION_OK;
    if (!list || !w.buffer || !w.piece)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the export"));
    for (int64_t i = 0; i < o->tensor_count; i++) {
        checkpoint_tensor *t = &list[i];
        *t = (checkpoint_tensor){
            .name = o->tensors[i].name, .dtype = type->dtype, .bytes = export_bytes(&o->tensors[i], type)};
        t->ndim = export_shape(&o->tensors[i], t->shape);
    }
    TRY(file_path(f, "model.safetensors", path, err));
    config_get(s->config, config_find("activation"), activation, sizeof activation);
    const checkpoint_contents all = {list, (int)o->tensor_count, meta, sizeof meta / sizeof *meta, fetch, &w};
    TRY(checkpoint_write(f->fd, path, &all, err));
done:
    free(list);
    free(w.buffer);
    free(w.piece);
    return status;
}

/* ---- The model card ------------------------------------------------------------------------------------- */

/* Writes a word of a command, between quotes if a shell would not take it as it is. */
static void put_word(FILE *to, const char *key, const char *value)
{
    const bool plain = value[strcspn(value, " \t\"'$`\\*?&;|<>()[]{}!#~")] == '\0' && value[0];
    fprintf(to, " %s=%s", key, plain ? "" : "'");
    for (const char *c = value; *c; c++)
        if (*c == '\'')
            fputs("'\\''", to);
        else
            fputc(*c, to);
    fputs(plain ? "" : "'", to);
}

/* The command that trains such a model: its preset, and the settings that differ from it. */
static void put_command(FILE *to, const config *c)
{
    config base;
    const config_option *o;
    config_init(&base);
    const bool known = c->preset[0] && config_preset(&base, c->preset, NULL) == SCION_OK;
    fprintf(to, "scion train%s%s", known ? " " : "", known ? c->preset : "");
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char value[CONFIG_TEXT];
        if (strcmp(o->key, "preset") == 0 || config_same(c, &base, o) || !config_has(c, o))
            continue;
        config_get(c, o, value, sizeof value);
        put_word(to, o->key, value);
    }
    fputc('\n', to);
}

static void put_results(FILE *to, const export_source *s)
{
    const run_record *r = s->record;
    fprintf(to, "| step | %lld |\n", (long long)s->step);
    if (!r)
        return;
    for (int64_t i = 0; i < r->curves.point_count; i++) {
        const run_point *p = &r->curves.points[i];
        if (p->step != s->step || !run_is_validation(p))
            continue;
        fprintf(to, "| validation loss | %.4f per token |\n", p->val_loss);
        if (!isnan(p->val_bits_per_byte))
            fprintf(to, "| bits per byte | %.4f |\n", p->val_bits_per_byte);
        break;
    }
    if (r->configured)
        fprintf(to, "| data | `%s` |\n", r->c.data.path);
    if (r->result.data_hash)
        fprintf(to, "| hash of the data | `%016" PRIx64 "` (XXH3-64) |\n", r->result.data_hash);
}

static void put_card(FILE *to, const export_source *s, const export_type *type)
{
    fprintf(to, "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- scion\n---\n\n# %s\n\n",
            s->name);
    fprintf(to, "A GPT trained by scion %s with a norm-constrained optimizer, in the architecture `%s`.\n\n",
            scion_version(), s->model->row->to->class_name);
    fprintf(to, "| | |\n|---|---|\n| parameters | %lld |\n| type | %s |\n| context | %lld tokens |\n",
            (long long)s->parameters, type->name, (long long)s->data->sample_units);
    fprintf(to, "| tokenizer | %s, %lld tokens |\n", tokenizer_name(s->data->tokenizer),
            (long long)tokenizer_size(s->data->tokenizer));
    put_results(to, s);
    fputs("\n## Use\n\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
          "tokenizer = AutoTokenizer.from_pretrained(\".\")  # this folder\n"
          "model = AutoModelForCausalLM.from_pretrained(\".\")\n"
          "inputs = tokenizer(\"The \", return_tensors=\"pt\")\n"
          "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=100)[0]))\n```\n\n"
          "## Training\n\n```sh\n",
          to);
    put_command(to, s->record && s->record->configured ? &s->record->c : s->config);
    fputs("```\n", to);
}

static scion_status save_card(const folder *f, const export_source *s, const export_type *type, scion_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to)
        put_card(to, s, type);
    scion_status status;
    if (!to || fclose(to) != 0)
        status = train_fail(err, SCION_ENOMEM, "out of memory for the model card");
    else
        status = save(f, "README.md", text, size, err);
    free(text);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------------------ */

static scion_status write_hf(const char *out, const export_source *s, const model_outline *o, const export_type *type,
                             scion_error *err)
{
    folder f = {.fd = -1};
    void *tokens = NULL;
    size_t token_bytes;
    bool named = false;
    scion_status status;
    TRY(tokenizer_json(s->data->tokenizer, &tokens, &token_bytes, err));
    TRY(open_folder(&f, out, err));
    TRY(save(&f, "tokenizer.json", tokens, token_bytes, err));
    TRY(save_json(&f, "tokenizer_config.json", make_tokenizer_config(s), err));
    TRY(save_json(&f, "config.json", make_config(s, o, type), err));
    TRY(save_json(&f, "generation_config.json", make_generation(s), err));
    TRY(save_card(&f, s, type, err));
    TRY(save_weights(&f, s, o, type, err));
    TRY(export_go_on(s, err));
    TRY(name_folder(&f, err));
    named = true;
done:
    if (!named)
        drop_folder(&f);
    if (f.fd >= 0)
        close(f.fd);
    free(tokens);
    return status;
}

const export_format export_hf = {
    .name = "hf",
    .help = "a folder for transformers",
    .format = MODEL_HF,
    .types = (const char *const[]){"float32", "bf16", NULL},
    .write = write_hf,
};
